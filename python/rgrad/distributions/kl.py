"""Kullback-Leibler divergences, and the registry of the pairs that have one in closed form.

Note [Divergences from cross-entropies]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``KL(p || q) = -H(p) - E_p[log q]``, and log q of most families q is made of few statistics of x: a normal density needs
the first two moments, an exponential one the mean, a gamma density the means of x and log x, a Gumbel density those of
x and exp(-x / scale). So there is one function for each q, which serves all p whose statistics are known, and not one
for each pair. Where p may give what q can't, the divergence is infinite.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad._C import Tensor
from rgrad._special.integrals import log_beta

from .bernoulli import Bernoulli
from .binomial import Binomial, Geometric, Poisson
from .categorical import Categorical, OneHotCategorical
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Beta, Dirichlet
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .independent import Independent
from .laplace import Cauchy, Laplace
from .multivariate_normal import LowRankMultivariateNormal, MultivariateNormal, _batch_mahalanobis, batched
from .normal import HalfNormal, Normal
from .pareto import Pareto
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant

__all__ = ["kl_divergence", "register_kl"]

_Divergence = Callable[[Any, Any], Tensor]

_KL_REGISTRY: dict[tuple[type, type], _Divergence] = {}
# What was found for pairs of types; forgotten when a pair is registered.
_KL_MEMOIZE: dict[tuple[type, type], _Divergence | None] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[_Divergence], _Divergence]:
    """A decorator that registers a function as the divergence of two classes and their subclasses.

    Args:
        type_p: class of the first distribution. It needs not derive from `Distribution`: packages register interfaces
            that their own distributions derive from besides.
        type_q: class of the second one.

    >>> import rgrad as torch
    >>> from rgrad.distributions import Normal, kl_divergence, register_kl
    >>> class Own(Normal):
    ...     pass
    >>> @register_kl(Own, Own)
    ... def own_divergence(p, q):
    ...     return torch.zeros(())
    >>> kl_divergence(Own(0.0, 1.0), Own(5.0, 1.0))
    tensor(0.)
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorator(function: _Divergence) -> _Divergence:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return decorator


def _dispatch_kl(type_p: type, type_q: type) -> _Divergence | None:
    """The function of the nearest base classes: those nearest to p, and of them those nearest to q."""
    above_p, above_q = type_p.__mro__, type_q.__mro__
    steps = {
        pair: (above_p.index(pair[0]), above_q.index(pair[1]))
        for pair in _KL_REGISTRY
        if pair[0] in above_p and pair[1] in above_q
    }
    if not steps:
        return None
    by_p = min(steps, key=lambda pair: steps[pair])
    by_q = min(steps, key=lambda pair: steps[pair][::-1])
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The Kullback-Leibler divergence ``E_p[log p - log q]``, one for each pair of the batches.

    Args:
        p: a distribution.
        q: another one, whose batch broadcasts with that of p.

    Raises:
        NotImplementedError: there is no closed form for these classes.

    >>> from rgrad.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(1.0, 1.0), Normal(0.0, 1.0))
    tensor(0.5000)
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    function = _KL_MEMOIZE[pair]
    if function is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return function(p, q)


def _register(q: type, *families: type) -> Callable[[_Divergence], _Divergence]:
    """Registers a function for one class of q and several of p."""

    def decorator(function: _Divergence) -> _Divergence:
        for p in families:
            register_kl(p, q)(function)
        return function

    return decorator


def _infinite_if(condition: Tensor, value: Tensor) -> Tensor:
    return rgrad.where(condition, rgrad.inf, value)


# Pairs of which p gives values that q doesn't, whatever the parameters.
_ABOVE = (Beta, ContinuousBernoulli, Pareto, Uniform)
_INFINITE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: _ABOVE,
    Gamma: _ABOVE,
    Gumbel: (*_ABOVE, Exponential, Gamma),
    Laplace: (*_ABOVE, Exponential, Gamma),
    Normal: (*_ABOVE, Exponential, Gamma),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _infinite(p: Any, q: Any) -> Tensor:
    like = p.mean
    shape = rgrad.broadcast_shapes(p.batch_shape, q.batch_shape)
    return rgrad.full(shape, rgrad.inf, dtype=like.dtype, device=like.device)


for _p, _families in _INFINITE.items():
    for _q in _families:
        register_kl(_p, _q)(_infinite)


# Statistics of p.


def _mean_log(p: Any) -> Tensor:
    """``E[log x]``."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return _mean_log_between(p.low, p.high)


def _mean_log_between(low: Tensor, high: Tensor) -> Tensor:
    """``E[log x]`` of a uniform variable."""
    return (rgrad.xlogy(high, high) - rgrad.xlogy(low, low)) / (high - low) - 1


def _log_mean_exp(p: Any, rate: Tensor) -> Tensor:
    """``log E[exp(-rate x)]`` for a positive rate."""
    if isinstance(p, Normal):
        return rate * (0.5 * rate * p.variance - p.loc)
    if isinstance(p, Gamma):
        return -p.concentration * (rate / p.rate).log1p()
    if isinstance(p, Exponential):
        return -(rate / p.rate).log1p()
    if isinstance(p, Gumbel):
        return (1 + p.scale * rate).lgamma() - rate * p.loc
    width = rate * (p.high - p.low)
    return (-(-width).expm1() / width).log() - rate * p.low


# Families of q: see Note [Divergences from cross-entropies].


@_register(Normal, Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform)
def _to_normal(p: Any, q: Normal) -> Tensor:
    square = p.variance + (p.mean - q.loc) ** 2
    return 0.5 * (square / q.variance + math.log(2 * math.pi)) + q.scale.log() - p.entropy()


@_register(Exponential, Beta, ContinuousBernoulli, Gamma, Pareto)
def _to_exponential(p: Any, q: Exponential) -> Tensor:
    return q.rate * p.mean - q.rate.log() - p.entropy()


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    return _infinite_if(p.low < 0, _to_exponential(p, q))


@_register(Gamma, Beta, Exponential, Pareto)
def _to_gamma(p: Any, q: Gamma) -> Tensor:
    c = q.concentration
    return q.rate * p.mean - (c - 1) * _mean_log(p) + c.lgamma() - c * q.rate.log() - p.entropy()


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    return _infinite_if(p.low < 0, _to_gamma(p, q))


@_register(Gumbel, Exponential, Gamma, Gumbel, Normal, Uniform)
def _to_gumbel(p: Any, q: Gumbel) -> Tensor:
    rate = q.scale.reciprocal()
    exponential = (rate * q.loc + _log_mean_exp(p, rate)).exp()
    return rate * (p.mean - q.loc) + exponential + q.scale.log() - p.entropy()


@_register(ContinuousBernoulli, Beta, ContinuousBernoulli)
def _to_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    return q._log_normalizer(q.logits) - q.logits * p.mean - p.entropy()


def _outside_unit(p: Uniform) -> Tensor:
    return (p.low < 0) | (p.high > 1)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    return _infinite_if(_outside_unit(p), _to_continuous_bernoulli(p, q))


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    powers = (a - 1) * _mean_log(p) + (b - 1) * _mean_log_between(1 - p.high, 1 - p.low)
    return _infinite_if(_outside_unit(p), log_beta(a, b) - powers - p.entropy())


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    powers = q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p)
    return _infinite_if(p.low < q.scale, -q.alpha.log() - powers - p.entropy())


@_register(Uniform, Beta, ContinuousBernoulli)
def _unit_uniform(p: Any, q: Uniform) -> Tensor:
    return _infinite_if((q.low > 0) | (q.high < 1), q.entropy() - p.entropy())


@register_kl(Uniform, Uniform)
def _uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    return _infinite_if((q.low > p.low) | (q.high < p.high), q.entropy() - p.entropy())


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    z = (p.loc - q.loc) / (p.scale * math.sqrt(2))
    # E|x - m| of a normal variable.
    distance = p.scale * ((-z * z).exp() * math.sqrt(2 / math.pi) + math.sqrt(2) * z * z.erf())
    return distance / q.scale + q.entropy() - 1 - p.entropy()


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


# Two of one family.


@register_kl(Normal, Normal)
def _normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    away = (p.loc - q.loc) / q.scale
    return 0.5 * (ratio - 1 - ratio.log() + away * away)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal_normal(p.base_dist, q.base_dist)


@register_kl(Exponential, Exponential)
def _exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b, ratio = p.concentration, q.concentration, q.rate / p.rate
    return b.lgamma() - a.lgamma() + (a - b) * a.digamma() - b * ratio.log() + a * (ratio - 1)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    centered = a.digamma() - p._total.digamma()
    return q._log_normalizer(b) - p._log_normalizer(a) + ((a - b) * centered).sum(-1)


@register_kl(Beta, Beta)
def _beta_beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet_dirichlet(p._dirichlet, q._dirichlet)


def _bernoulli(p: Any, q: Any) -> Tensor:
    """The divergence of two events, given by their probabilities."""
    difference = p.logits - q.logits
    value = p.probs * difference + rgrad.nn.functional.softplus(q.logits) - rgrad.nn.functional.softplus(p.logits)
    impossible = ((q.probs == 0) & (p.probs > 0)) | ((q.probs == 1) & (p.probs < 1))
    return _infinite_if(impossible, value)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    return _bernoulli(p, q)


@register_kl(Binomial, Binomial)
def _binomial_binomial(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    return _infinite_if(p.total_count > q.total_count, p.total_count * _bernoulli(p, q))


@register_kl(Geometric, Geometric)
def _geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    return _bernoulli(p, q) / p.probs


@register_kl(Poisson, Poisson)
def _poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    return rgrad.xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def _categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = _infinite_if(q.probs == 0, p.probs * (p.logits - q.logits))
    return terms.masked_fill((p.probs == 0).expand(terms.shape), 0.0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical_categorical(p._categorical, q._categorical)


@register_kl(Laplace, Laplace)
def _laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    away = (p.loc - q.loc).abs()
    return (p.scale * (-away / p.scale).exp() + away) / q.scale - 1 + (q.scale / p.scale).log()


@register_kl(Cauchy, Cauchy)
def _cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """(Chyzak and Nielsen: A closed-form formula for the Kullback-Leibler divergence between Cauchy distributions.)"""
    square = (p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2
    return (square / (4 * p.scale * q.scale)).log()


@register_kl(Pareto, Pareto)
def _pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    value = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _infinite_if(p.scale < q.scale, value)


def _squared_distance(q: Any, away: Tensor) -> Tensor:
    """``vᵀ Σ⁻¹ v`` of the covariance of a multivariate normal distribution."""
    if isinstance(q, LowRankMultivariateNormal):
        return q.squared_distance(away)
    return _batch_mahalanobis(q._unbroadcasted_scale_tril, away)


def _trace(p: Any, q: Any) -> Tensor:
    """``tr(Σ_q⁻¹ Σ_p)``: the columns of a root of Σ_p, each with its squared distance."""
    shape = rgrad.broadcast_shapes(p.batch_shape, q.batch_shape)
    root = p.scale_tril if isinstance(p, MultivariateNormal) else p.cov_factor
    found = _squared_distance(q, batched(root, shape, 2).movedim(-1, 0)).sum(0)
    return found if isinstance(p, MultivariateNormal) else found + (p.cov_diag * _inverse_diagonal(q)).sum(-1)


def _inverse_diagonal(q: Any) -> Tensor:
    """The diagonal of Σ_q⁻¹, without the matrix itself where q is of low rank."""
    if isinstance(q, MultivariateNormal):
        return q.precision_matrix.diagonal(dim1=-2, dim2=-1)
    scaled = q.cov_factor.mT / q.cov_diag.unsqueeze(-2)
    solved = rgrad.linalg.solve_triangular(batched(q._capacitance_tril, q.batch_shape, 2), scaled, upper=False)
    return q.cov_diag.reciprocal() - (solved * solved).sum(-2)


def _gaussian(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(f"no KL-divergence of vectors of different event shapes, {p.event_shape} and {q.event_shape}")
    distance = _squared_distance(q, q.loc - p.loc)
    return q.entropy() - p.entropy() + 0.5 * (_trace(p, q) + distance - p.event_shape[0])


for _p in (MultivariateNormal, LowRankMultivariateNormal):
    _register(_p, MultivariateNormal, LowRankMultivariateNormal)(_gaussian)


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """Of one family, the Bregman divergence of the log normalizer: ``A(η_q) - A(η_p) - (η_q - η_p) · ∇A(η_p)``."""
    if type(p) is not type(q):
        raise NotImplementedError(
            f"no cross KL-divergence of the exponential families {type(p).__name__} and {type(q).__name__}"
        )
    natural, normalizer, mean = p._mean_statistics()
    others = q._natural_params
    result = q._log_normalizer(*others) - normalizer
    for own, other, statistic in zip(natural, others, mean, strict=True):
        product = (other - own) * statistic
        result = result - _sum_rightmost(product, product.dim() - result.dim())
    return result


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("no divergence of distributions that are transformed differently")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("no divergence of distributions with different numbers of dimensions of events")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
