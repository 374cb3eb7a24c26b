"""Random numbers that the core doesn't draw: gamma, Dirichlet, Poisson and binomial ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rgrad
from rgrad._C import Tensor
from rgrad._special.integrals import logit_beta_grad, standard_gamma_grad, working_dtype
from rgrad._vmap import draw_samples
from rgrad.autograd.function import once_differentiable

_Proposal = Callable[..., tuple[Tensor, Tensor]]


def until_accepted(propose: _Proposal, *parameters: Tensor) -> Tensor:
    """Rejection sampling of flat tensors of parameters.

    Args:
        propose: gives values and whether they are accepted, for parameters. It accepts any value for NaN: nothing
            would ever be accepted by a comparison.
        parameters: one-dimensional tensors of one size.
    """
    values, accepted = propose(*parameters)
    while (pending := (~accepted).nonzero().squeeze(-1)).numel():
        again, good = propose(*(p[pending] for p in parameters))
        values[pending] = again
        accepted[pending] = good
    return values


def _uniform(like: Tensor) -> Tensor:
    """Uniform numbers in (0, 1]."""
    return 1 - rgrad.rand_like(like)


def _propose_gamma(d: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    x = rgrad.randn_like(d)
    v = (1 + c * x) ** 3
    good = (v > 0) & (_uniform(d).log() < 0.5 * x * x + d * (1 - v + v.log()))
    return d * v, good | d.isnan()


def draw_gamma(concentration: Tensor) -> Tensor:
    """Samples of standard gamma distributions (Marsaglia and Tsang: A simple method for generating gamma variables).

    Below 1, a sample of one more is multiplied by ``u^(1/a)``.
    """
    a = concentration.detach().to(working_dtype(concentration)).reshape(-1)
    a = a.masked_fill(~((a > 0) & a.isfinite()), rgrad.nan)
    boosted = rgrad.where(a < 1, a + 1, a)
    d = boosted - 1 / 3
    drawn = until_accepted(_propose_gamma, d, (9 * d).rsqrt())
    drawn = rgrad.where(a < 1, drawn * _uniform(a) ** a.reciprocal(), drawn)
    return drawn.reshape(concentration.shape).to(concentration.dtype)


class _StandardGamma(rgrad.autograd.Function):
    """Samples, with the derivatives of Note [Tail integrals]."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        # Small concentrations give samples that are 0 in the dtype; a density has none there.
        drawn = draw_gamma(concentration).clamp(min=rgrad.finfo(concentration.dtype).tiny)
        ctx.save_for_backward(concentration, drawn)
        return drawn

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * standard_gamma_grad(*ctx.saved_tensors)


class _Dirichlet(rgrad.autograd.Function):
    """Samples, with derivatives.

    With its concentration, a component moves as a beta variable, and the others keep their proportions.
    """

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        limits = rgrad.finfo(concentration.dtype)
        # In the wider dtype: small concentrations draw numbers whose ratio is representable where they aren't.
        wide = concentration.to(working_dtype(concentration))
        drawn = draw_gamma(wide).clamp(min=rgrad.finfo(wide.dtype).tiny)
        drawn = (drawn / drawn.sum(-1, keepdim=True)).to(concentration.dtype)
        # Densities of small concentrations aren't defined at 0 and 1: the nearest numbers stand for these.
        drawn = drawn.clamp(limits.tiny, 1 - limits.eps / 2)
        ctx.save_for_backward(concentration, drawn)
        return drawn

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        concentration, drawn = ctx.saved_tensors
        return dirichlet_backward(drawn, concentration, grad)


def dirichlet_backward(drawn: Tensor, concentration: Tensor, grad: Tensor) -> Tensor:
    """Gradients of the concentrations of samples, of the gradients of the samples."""
    wide = concentration.to(working_dtype(concentration))
    rest = wide.sum(-1, keepdim=True) - wide
    # Beside it, the others may be nothing: then it is 1 whatever it is.
    slopes = drawn * logit_beta_grad(drawn, wide, rest).where(rest > 0, 0.0)
    return slopes * (grad - (grad * drawn).sum(-1, keepdim=True))


def standard_gamma(concentration: Tensor) -> Tensor:
    """Differentiable samples of standard gamma distributions, of the shape of their concentrations."""
    return draw_samples(_StandardGamma.apply, concentration)


def dirichlet(concentration: Tensor) -> Tensor:
    """Differentiable samples of Dirichlet distributions, of the shape of their concentrations."""
    return draw_samples(_Dirichlet.apply, concentration)


def _by_search(first: Tensor, ratio: Callable[[int], Tensor], most: int) -> Tensor:
    """Counts by inversion: the k at which the sum of probabilities passes a uniform number.

    Args:
        first: the probability of 0.
        ratio: that of k over that of k - 1.
        most: where the search ends.
    """
    u = rgrad.rand_like(first)
    count, term, total = rgrad.zeros_like(first), first, first
    for k in range(1, most + 1):
        beyond = u > total
        if not beyond.any():
            break
        count = count + beyond
        term = term * ratio(k)
        total = total + term
    return count


def _mixed(small: Tensor, search: Callable[..., Tensor], propose: _Proposal, *parameters: Tensor) -> Tensor:
    """Draws by a search where that is short, and by rejection elsewhere."""
    result = rgrad.empty_like(parameters[0])
    for where, draw in ((small, search), (~small, lambda *p: until_accepted(propose, *p))):
        index = where.nonzero().squeeze(-1)
        if index.numel():
            result[index] = draw(*(p[index] for p in parameters))
    return result


def _propose_poisson(rate: Tensor) -> tuple[Tensor, Tensor]:
    b = 0.931 + 2.53 * rate.sqrt()
    a = 0.02483 * b - 0.059
    u, v = _uniform(rate) - 0.5, _uniform(rate)
    edge = 0.5 - u.abs()
    k = ((2 * a / edge + b) * u + rate + 0.43).floor()
    squeezed = (edge >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    hat = (v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (edge * edge) + b)).log()
    exact = (k >= 0) & ((edge >= 0.013) | (v <= edge)) & (hat <= k * rate.log() - rate - (k + 1).lgamma())
    return rgrad.where(rate.isnan(), rate, k), squeezed | exact | rate.isnan()


class Poisson(rgrad.autograd.Function):
    """Counts, whose derivatives by the rates are zero."""

    @staticmethod
    def forward(ctx: Any, rate: Tensor) -> Tensor:
        return _draw_poisson(rate)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return rgrad.zeros_like(grad)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        return rgrad.zeros_like(tangent)


def poisson(rate: Tensor) -> Tensor:
    """Samples of Poisson distributions, of the shape and dtype of their rates; gradients of the rates are zero."""
    return draw_samples(Poisson.apply, rate)


def _draw_poisson(rate: Tensor) -> Tensor:
    """Samples of Poisson distributions.

    From 10 on by transformed rejection (Hörmann: The transformed rejection method for generating Poisson random
    variables, 1993).
    """
    flat = rate.detach().to(working_dtype(rate)).reshape(-1)
    if (flat < 0).any():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    flat = flat.masked_fill(flat.isinf(), rgrad.nan)
    drawn = _mixed(flat < 10, lambda r: _by_search((-r).exp(), lambda k: r / k, 150), _propose_poisson, flat)
    return drawn.reshape(rate.shape).to(rate.dtype)


def _propose_binomial(n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    spread = (n * p * (1 - p)).sqrt()
    b = 1.15 + 2.53 * spread
    a = 0.0248 * b + 0.01 * p - 0.0873
    u, v = _uniform(n) - 0.5, _uniform(n)
    edge = 0.5 - u.abs()
    k = ((2 * a / edge + b) * u + n * p + 0.5).floor()
    squeezed = (edge >= 0.07) & (v <= 0.92 - 4.2 / b)
    mode = ((n + 1) * p).floor()
    hat = (v * (2.83 + 5.1 / b) * spread / (a / (edge * edge) + b)).log()
    weight = (mode + 1).lgamma() + (n - mode + 1).lgamma() - (k + 1).lgamma() - (n - k + 1).lgamma()
    exact = (k >= 0) & (k <= n) & (hat <= weight + (k - mode) * (p / (1 - p)).log())
    undefined = n.isnan() | p.isnan()
    return k.masked_fill(undefined, rgrad.nan), squeezed | exact | undefined


def binomial(total_count: Tensor, probs: Tensor) -> Tensor:
    """Samples of binomial distributions, of the shape and dtype of their arguments, which are alike."""
    return draw_samples(_draw_binomial, total_count, probs)


def _draw_binomial(total_count: Tensor, probs: Tensor) -> Tensor:
    """Samples of binomial distributions.

    From a mean of 10 on by transformed rejection (Hörmann: The generation of binomial random variates, 1993). Above
    one half, the failures are drawn.
    """
    n, p = (v.detach().to(working_dtype(v)).reshape(-1) for v in (total_count, probs))
    p = p.masked_fill((p < 0) | (p > 1), rgrad.nan)
    n = n.masked_fill((n < 0) | n.isinf(), rgrad.nan)
    rarer = rgrad.where(p > 0.5, 1 - p, p)

    def search(n: Tensor, p: Tensor) -> Tensor:
        odds = p / (1 - p)
        return _by_search((n * (-p).log1p()).exp(), lambda k: (n - k + 1).clamp(min=0) / k * odds, 150)

    drawn = _mixed(n * rarer < 10, search, _propose_binomial, n, rarer)
    return rgrad.where(p > 0.5, n - drawn, drawn).reshape(probs.shape).to(probs.dtype)
