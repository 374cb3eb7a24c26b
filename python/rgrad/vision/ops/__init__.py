"""Operations and modules for networks that process images."""

from rgrad.vision.ops import misc
from rgrad.vision.ops.misc import FrozenBatchNorm2d

__all__ = ["FrozenBatchNorm2d", "misc"]
