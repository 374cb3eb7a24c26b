"""Creation and comparison of tensors in tests."""

from rgrad._absent import absent_class
from rgrad.testing import _utils as _utils
from rgrad.testing._comparison import assert_allclose, assert_close
from rgrad.testing._creation import make_tensor

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]

FileCheck = absent_class("torch.testing.FileCheck", "it reads the code of compilers")
