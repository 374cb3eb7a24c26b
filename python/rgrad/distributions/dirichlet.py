"""The Dirichlet distribution, and the beta distribution, which is that of two categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from . import constraints
from ._parameters import Composite, Parametric
from ._sampling import dirichlet
from ._sampling import dirichlet_backward as _Dirichlet_backward  # noqa: F401 (packages import it from here)
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Beta", "Dirichlet"]


class Dirichlet(Parametric, ExponentialFamily):
    """The Dirichlet distribution over probabilities of K categories, of density ``∝ prod(p_k^(c_k - 1))``.

    Samples are differentiable with respect to the concentrations.

    Args:
        concentration: parameters c, ``(..., K)``.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Dirichlet(torch.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _parameters = ("concentration",)
    concentration: Tensor

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def _total(self) -> Tensor:
        return self.concentration.sum(-1, keepdim=True)

    @property
    def mean(self) -> Tensor:
        """The concentrations over their sum."""
        return self.concentration / self._total

    @property
    def mode(self) -> Tensor:
        """``c - 1`` over its sum where it isn't negative; the corner of the largest one if none exceeds 1."""
        above = (self.concentration - 1).clamp(min=0)
        found = above / above.sum(-1, keepdim=True)
        corner = rgrad.nn.functional.one_hot(self.concentration.argmax(-1), self.concentration.shape[-1])
        in_corner = (self.concentration < 1).all(-1, keepdim=True)
        return rgrad.where(in_corner, corner.to(found), found)

    @property
    def variance(self) -> Tensor:
        """``m (1 - m) / (sum(c) + 1)`` of the mean m."""
        mean = self.mean
        return mean * (1 - mean) / (self._total + 1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws samples: see `Distribution.rsample`."""
        return dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        weighted = rgrad.xlogy(self.concentration - 1, self._checked(value))
        return weighted.sum(-1) - self._log_normalizer(self.concentration)

    def entropy(self) -> Tensor:
        """``log B(c) + (sum(c) - K) ψ(sum(c)) - sum((c - 1) ψ(c))``."""
        c, total = self.concentration, self._total
        spread = (c - 1) * (total.digamma() - c.digamma())
        return self._log_normalizer(c) + spread.sum(-1)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        c = natural_params[0]
        return c.lgamma().sum(-1) - c.sum(-1).lgamma()


class Beta(Composite, ExponentialFamily):
    """The beta distribution, of density ``x^(a - 1) (1 - x)^(b - 1) / B(a, b)``.

    Args:
        concentration1: a, of any shape.
        concentration0: b, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _parameters = ("concentration1", "concentration0")

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        both = rgrad.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        """a, the power of ``x`` and one more."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """b, the power of ``1 - x`` and one more."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        """``a / (a + b)``."""
        return self._dirichlet.mean[..., 0]

    @property
    def mode(self) -> Tensor:
        """``(a - 1) / (a + b - 2)``."""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        """``a b / ((a + b)² (a + b + 1))``."""
        return self._dirichlet.variance[..., 0]

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws samples: see `Distribution.rsample`."""
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        value = self._checked(value)
        return self._dirichlet.log_prob(rgrad.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        """That of the Dirichlet distribution of both concentrations."""
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        a, b = natural_params
        return a.lgamma() + b.lgamma() - (a + b).lgamma()
