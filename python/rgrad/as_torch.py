"""Importing this makes `torch` and `torchvision` rgrad, here and in processes that are started from here.

    import rgrad.as_torch
    import torch  # rgrad

Nothing of PyTorch's is imported from then on, even where it is installed. See Note [The door] in `rgrad._door`.
"""

from __future__ import annotations

from rgrad import _door

_door.install()
