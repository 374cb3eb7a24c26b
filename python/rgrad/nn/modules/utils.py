"""Small helpers shared by the modules, under the names that PyTorch gives them."""

from __future__ import annotations

from .._ntuple import _ntuple as _ntuple
from .._ntuple import _pair as _pair
from .._ntuple import _quadruple as _quadruple
from .._ntuple import _reverse_repeat_tuple as _reverse_repeat_tuple
from .._ntuple import _single as _single
from .._ntuple import _triple as _triple
