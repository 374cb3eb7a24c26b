"""`torch.autograd.forward_ad`: names that packages import. Derivatives are computed backward only."""

from __future__ import annotations

from typing import NamedTuple

from rgrad._absent import absent_class, absent_function
from rgrad._C import Tensor

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

_WHY = "derivatives are computed backward only; autograd.functional.jvp gives the product of a Jacobian with a vector"


class UnpackedDualTensor(NamedTuple):
    """A value, and its derivative in a direction."""

    primal: Tensor
    tangent: Tensor | None


dual_level = absent_class("torch.autograd.forward_ad.dual_level", _WHY)
enter_dual_level = absent_function("torch.autograd.forward_ad.enter_dual_level", _WHY)
exit_dual_level = absent_function("torch.autograd.forward_ad.exit_dual_level", _WHY)
make_dual = absent_function("torch.autograd.forward_ad.make_dual", _WHY)
unpack_dual = absent_function("torch.autograd.forward_ad.unpack_dual", _WHY)
