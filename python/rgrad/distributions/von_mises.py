"""The von Mises distribution of angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor
from rgrad._special.integrals import bessel_ie, working_dtype

from . import constraints
from ._parameters import Parametric
from ._sampling import until_accepted

__all__ = ["VonMises"]


def _propose(ratio: Tensor, concentration: Tensor) -> tuple[Tensor, Tensor]:
    turn, u, sign = rgrad.rand((3, *ratio.shape), dtype=ratio.dtype, device=ratio.device)
    z = (math.pi * turn).cos()
    cosine = (1 + ratio * z) / (ratio + z)
    c = concentration * (ratio - cosine)
    angle = (sign - 0.5).sign() * cosine.clamp(-1, 1).acos()
    return angle, (c * (2 - c) > u) | ((c / u).log() + 1 >= c) | concentration.isnan()


class VonMises(Parametric):
    """The von Mises distribution of an angle, of density ``exp(k cos(x - loc)) / (2π I₀(k))`` for a concentration k.

    Samples are between -π and π; densities are periodic.

    Args:
        loc: mean angle, of any shape.
        concentration: k, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> d = torch.distributions.VonMises(torch.tensor(1.0), torch.tensor(4.0))
    >>> d.log_prob(torch.tensor([1.0, 1.0 + 2 * torch.pi]))
    tensor([-0.2628, -0.2628])
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _parameters = ("loc", "concentration")
    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, concentration=concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        away = self._checked(value) - self.loc
        k = self.concentration
        # k (cos x - 1) and exp(-k) I₀(k): neither overflows.
        return k * (away.cos() - 1) - math.log(2 * math.pi) - bessel_ie(0, k).log()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws samples by rejection.

        (Best and Fisher: Efficient simulation of the von Mises distribution, 1979.)
        """
        shape = self._extended_shape(sample_shape)
        with rgrad.no_grad():
            k = self.concentration.to(working_dtype(self.loc))
            tau = 1 + (1 + 4 * k * k).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            # Both terms are nearly 2 for small k, where the expansion of the result is precise.
            ratio = rgrad.where(k < 1e-3, k.reciprocal() + k, (1 + rho * rho) / (2 * rho))
            flat = (v.expand(shape).reshape(-1) for v in (ratio, k))
            angle = until_accepted(_propose, *flat).reshape(shape)
            turned = rgrad.remainder(angle + math.pi + self.loc, 2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        """``loc``: the circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """``1 - I₁(k) / I₀(k)``: the circular variance."""
        return 1 - bessel_ie(1, self.concentration) / bessel_ie(0, self.concentration)
