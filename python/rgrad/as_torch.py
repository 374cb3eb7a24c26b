"""Importing this module makes `torch` and `torchvision` rgrad, in this process and its children.

    import rgrad.as_torch
    import torch  # rgrad

From then on nothing of PyTorch is imported, even if it is installed. See Note [The door] in `rgrad._door`.
"""

from __future__ import annotations

from rgrad import _door

_door.install()
