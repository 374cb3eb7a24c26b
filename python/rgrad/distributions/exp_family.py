"""Exponential families: distributions whose log-density is linear in their natural parameters."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad._C import Tensor

from .distribution import Distribution, undefined

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution of density ``exp(t(x) · η - A(η) + k(x))``.

    ``η`` are the natural parameters, ``t`` the sufficient statistics, ``A`` the log normalizer, and ``k`` the carrier
    measure. Subclasses give ``η``, ``A`` and the mean of ``k``; the entropy and the KL divergence follow from these
    (Nielsen and Nock: Entropies and cross-entropies of exponential families, 2010).

    >>> import rgrad as torch
    >>> from rgrad.distributions import Exponential, ExponentialFamily
    >>> d = Exponential(torch.tensor(2.0))
    >>> ExponentialFamily.entropy(d), d.entropy()
    (tensor(0.3069), tensor(0.3069))
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """The natural parameters."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """The log normalizer at natural parameters."""
        raise NotImplementedError

    _mean_carrier_measure: Any = undefined("The mean of the carrier measure.")

    def _mean_statistics(self) -> tuple[tuple[Tensor, ...], Tensor, tuple[Any, ...]]:
        """The natural parameters, the log normalizer, and its derivatives, which are the means of the statistics."""
        with rgrad.enable_grad():
            natural = tuple(p if p.requires_grad else p.detach().requires_grad_() for p in self._natural_params)
            normalizer = self._log_normalizer(*natural)
            mean: Any = rgrad.autograd.grad(normalizer.sum(), natural, create_graph=True)
        if any(p.requires_grad for p in self._natural_params):
            return natural, normalizer, mean
        return tuple(p.detach() for p in natural), normalizer.detach(), tuple(m.detach() for m in mean)

    def entropy(self) -> Tensor:
        """``A(η) - η · ∇A(η) - E[k]``."""
        natural, normalizer, mean = self._mean_statistics()
        result = normalizer - self._mean_carrier_measure
        for parameter, statistic in zip(natural, mean, strict=True):
            result = result - (parameter * statistic).reshape((*self._batch_shape, -1)).sum(-1)
        return result
