"""Operations and modules of networks for pictures."""

from rgrad.vision.ops import misc
from rgrad.vision.ops.misc import FrozenBatchNorm2d

__all__ = ["FrozenBatchNorm2d", "misc"]
