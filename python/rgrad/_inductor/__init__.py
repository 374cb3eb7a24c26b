"""`torch._inductor` for programs that set options of PyTorch's compiler; no code is generated here."""

from __future__ import annotations

from rgrad._inductor import config as config
from rgrad._inductor import utils as utils
