"""Gradients of samples with respect to parameters, and divergences against integrals and samples."""

from __future__ import annotations

import math

import pytest
from distribution_cases import ALL, CONTINUOUS, DISCRETE, DOUBLE, counts, expectation, quadrature, t

import rgrad as torch
from rgrad import distributions as D
from rgrad._special.integrals import bessel_ie, gammainc, logit_beta_grad, standard_gamma_grad
from rgrad.autograd import forward_ad
from rgrad.distributions import kl_divergence, register_kl
from rgrad.distributions._sampling import standard_gamma
from rgrad.distributions.kl import _KL_REGISTRY


def _log_integral(log_density, end, lowest, nodes=4001):
    """``∫_lowest^end exp(log_density)`` by Simpson's rule."""
    v = lowest + (end - lowest) * torch.linspace(0, 1, nodes, dtype=DOUBLE).unsqueeze(-1)
    weights = torch.full((nodes, 1), 2.0, dtype=DOUBLE)
    weights[1::2] = 4.0
    weights[0] = weights[-1] = 1.0
    return (log_density(v).exp() * weights).sum(0) * (end - lowest) / (3 * (nodes - 1))


def _gamma_cdf(a, x):
    """By Simpson's rule over log x, from where the density has fallen by exp(-40)."""
    lowest = torch.minimum(x.log(), a.log()) - 40 / a - 12 / a.sqrt()
    return _log_integral(lambda v: a * v - v.exp() - a.lgamma(), x.log(), lowest)


def _beta_cdf(a, b, x):
    """By Simpson's rule over logit x."""
    lowest = torch.minimum(x.logit(), (a / b).log()) - 40 / a - 12 / a.sqrt()
    norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return _log_integral(lambda v: a * v - (a + b) * torch.nn.functional.softplus(v) - norm, x.logit(), lowest)


def test_gamma_samples_move_as_the_numerical_derivative_of_their_distribution_function():
    a = torch.logspace(-1, 2, 13, dtype=DOUBLE).unsqueeze(-1)
    x = (a * t(0.3, 0.9, 1.0, 1.1, 1.3)).flatten()
    a = a.expand(13, 5).flatten()
    h = 2e-5 * a
    by_a = (_gamma_cdf(a + h, x) - _gamma_cdf(a - h, x)) / (2 * h)
    density = ((a - 1) * x.log() - x - a.lgamma()).exp()
    torch.testing.assert_close(standard_gamma_grad(a, x), -by_a / density, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gammainc(a, x), _gamma_cdf(a, x), rtol=1e-7, atol=1e-9)


def test_derivatives_of_exponential_samples_are_those_in_closed_form():
    # At concentration 1, P(a, x) has the derivative exp(-x) (E1-like integral): for x → 0 it is x (log x - ψ(2)).
    x = t(1e-30, 1e-12, 1e-6)
    expected = -x * (x.log() - torch.digamma(t(2.0)))
    torch.testing.assert_close(standard_gamma_grad(torch.ones_like(x), x), expected, rtol=1e-5, atol=0.0)
    # For large concentrations a sample is a + √a z + (z² - 1)/3 + …, of a normal z.
    a, z = t(1e8), t(-2.0, -0.5, 0.0, 1.0)
    sample = a + a.sqrt() * z + (z * z - 1) / 3
    torch.testing.assert_close(standard_gamma_grad(a.expand(4), sample), 1 + z / (2 * a.sqrt()), rtol=1e-7, atol=0.0)


def test_beta_samples_move_as_the_numerical_derivative_of_their_distribution_function():
    grids = torch.meshgrid(t(0.3, 2.0, 30.0), t(0.4, 3.0, 20.0), t(0.05, 0.4, 0.9), indexing="ij")
    a, b, x = (grid.flatten() for grid in grids)
    h = 2e-5 * a
    by_a = (_beta_cdf(a + h, b, x) - _beta_cdf(a - h, b, x)) / (2 * h)
    # The density of logit x.
    density = (a * x.log() + b * (-x).log1p() + (a + b).lgamma() - a.lgamma() - b.lgamma()).exp()
    # In the upper tail, differences of numbers next to 1 say nothing.
    kept = _beta_cdf(a, b, x) < 0.99999
    assert kept.sum() > 18
    found = logit_beta_grad(x, a, b)
    torch.testing.assert_close(found[kept], (-by_a / density)[kept], rtol=1e-5, atol=1e-6)
    # There, the mirrored variable is in its lower tail: of its logit the second parameter's derivative is the negative.
    h = 2e-5 * b
    by_b = (_beta_cdf(b + h, a, 1 - x) - _beta_cdf(b - h, a, 1 - x)) / (2 * h)
    kept = _beta_cdf(b, a, 1 - x) < 0.99999
    torch.testing.assert_close(logit_beta_grad(1 - x, b, a)[kept], (-by_b / density)[kept], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_of_samples_are_finite_for_all_concentrations(dtype):
    torch.manual_seed(1)
    a = torch.logspace(-3, 6, 400, dtype=dtype, requires_grad=True)
    sample = standard_gamma(a)
    (grad,) = torch.autograd.grad(sample.sum(), a)
    assert (sample > 0).all() and grad.isfinite().all() and (grad > 0).all()
    both = torch.stack([a, a.flip(0)], -1)
    (grad,) = torch.autograd.grad(D.Dirichlet(both).rsample()[..., 0].sum(), a)
    assert grad.isfinite().all()


# Functions of samples whose means are known as functions of the parameters.
MEANS = {
    "Gamma": ((t(0.6, 3.0), t(0.5, 2.0)), lambda a, b: D.Gamma(a, b)),
    "Chi2": ((t(1.5, 4.0),), lambda a: D.Chi2(a)),
    "InverseGamma": ((t(5.0, 7.0), t(0.5, 2.0)), lambda a, b: D.InverseGamma(a, b)),
    "Beta": ((t(0.7, 3.0), t(0.5, 2.0)), lambda a, b: D.Beta(a, b)),
    "Dirichlet": ((t([0.7, 2.0, 1.1], [3.0, 1.0, 5.0]),), lambda a: D.Dirichlet(a)),
    "FisherSnedecor": ((t(3.0, 5.0), t(9.0, 11.0)), lambda a, b: D.FisherSnedecor(a, b)),
    "Normal": ((t(0.7, 3.0), t(0.5, 2.0)), lambda a, b: D.Normal(a, b)),
    "LogNormal": ((t(0.7, 1.0), t(0.5, 0.6)), lambda a, b: D.LogNormal(a, b)),
    "Laplace": ((t(0.7, 3.0), t(0.5, 2.0)), lambda a, b: D.Laplace(a, b)),
    "Gumbel": ((t(0.7, 3.0), t(0.5, 2.0)), lambda a, b: D.Gumbel(a, b)),
    "Exponential": ((t(0.7, 3.0),), lambda a: D.Exponential(a)),
    "Weibull": ((t(0.7, 3.0), t(1.5, 2.0)), lambda a, b: D.Weibull(a, b)),
    "Pareto": ((t(0.7, 3.0), t(5.5, 7.0)), lambda a, b: D.Pareto(a, b)),
    "GeneralizedPareto": ((t(0.7, 3.0), t(0.5, 2.0), t(0.1, -0.3)), lambda a, b, c: D.GeneralizedPareto(a, b, c)),
    "Kumaraswamy": ((t(1.7, 3.0), t(1.5, 2.0)), lambda a, b: D.Kumaraswamy(a, b)),
    "ContinuousBernoulli": ((t(0.2, 0.7),), lambda a: D.ContinuousBernoulli(a)),
    "Uniform": ((t(0.2, 0.7), t(1.0, 2.0)), lambda a, b: D.Uniform(a, b)),
    "HalfNormal": ((t(0.2, 0.7),), lambda a: D.HalfNormal(a)),
    "Wishart": ((t(4.0, 6.0),), lambda a: D.Wishart(a, torch.eye(2, dtype=DOUBLE))),
}


@pytest.mark.parametrize("name", MEANS)
def test_the_mean_gradient_of_samples_is_the_gradient_of_the_mean(name):
    parameters, make = MEANS[name]
    n = 4000
    torch.manual_seed(8)
    leaves = [p.clone().requires_grad_() for p in parameters]
    expected = torch.autograd.grad(_first(make(*leaves).mean), leaves, materialize_grads=True)
    # Each sample has its own copy of the parameters, so that each gradient is known.
    copies = [p.expand(n, *p.shape).clone().requires_grad_() for p in parameters]
    drawn = make(*copies).rsample()
    for found, mean in zip(torch.autograd.grad(_first(drawn), copies), expected, strict=True):
        error = found.std(0) / math.sqrt(n)
        assert ((found.mean(0) - mean).abs() <= 5 * error + 1e-9).all()


def _first(x):
    """The sum of samples, of vectors that of their first entries: all entries have the sum 1."""
    return x[..., 0].sum() if x.shape[-1] == 3 else x.sum()


def test_squares_of_student_samples_have_the_gradient_of_the_variance():
    n = 40000
    torch.manual_seed(8)
    df = t(9.0).expand(n).clone().requires_grad_()
    (found,) = torch.autograd.grad((D.StudentT(df).rsample() ** 2).sum(), df)
    # The variance df / (df - 2) has the derivative -2 / (df - 2)².
    assert (found.mean() + 2 / 49).abs() < 5 * found.std() / math.sqrt(n)


def test_incomplete_gamma_functions_have_derivatives_of_both_arguments():
    a, x = t(0.5, 2.0, 60.0), t(0.7, 1.0, 55.0)
    assert torch.autograd.gradcheck(gammainc, (a.requires_grad_(), x.requires_grad_()), eps=1e-5, atol=1e-6)


def test_bessel_functions_are_those_of_the_integral_and_differentiable():
    x = t(0.0, 0.1, 3.0, 19.9, 20.1, 300.0)
    theta = (torch.arange(4000, dtype=DOUBLE).unsqueeze(-1) + 0.5) * math.pi / 4000
    for order in (0, 1):
        integral = ((x * (theta.cos() - 1)).exp() * (order * theta).cos()).mean(0)
        torch.testing.assert_close(bessel_ie(order, x), integral, rtol=1e-12, atol=1e-14)
    y = t(0.5, 30.0).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: bessel_ie(0, v), (y,))


# Divergences.

PARAMETERS = {
    "Beta": lambda: [D.Beta(t(1.5, 3.0), t(2.0, 1.2)), D.Beta(t(2.5, 1.1), t(1.3, 2.2))],
    "Uniform": lambda: [D.Uniform(t(0.1, 0.6), t(0.4, 0.9)), D.Uniform(t(-0.5, 0.0), t(1.5, 1.0))],
    "Pareto": lambda: [D.Pareto(t(0.5, 2.0), t(4.5, 6.0)), D.Pareto(t(0.05, 0.6), t(2.5, 3.0))],
    "Binomial": lambda: [D.Binomial(5, t(0.2, 0.7)), D.Binomial(5, t(0.4, 0.6))],
}


def _pair(name):
    return PARAMETERS[name]() if name in PARAMETERS else [ALL[name](), _other(ALL[name]())]


def _other(d):
    """A distribution of the same class with other parameters: the two of the batch exchanged."""
    e = d.expand(d.batch_shape)
    return _swapped(e)


def _swapped(d):
    names = {k: getattr(d, k) for k in d.arg_constraints if k in vars(d)}
    if isinstance(d, D.OneHotCategorical | D.Chi2):
        names = {"probs": d.probs} if isinstance(d, D.OneHotCategorical) else {"df": d.df}
    elif not names:
        names = {k: getattr(d, k) for k in d.arg_constraints}
    if "probs" in names:
        names.pop("logits", None)
    return type(d)(**{k: v.flip(0) for k, v in names.items()})


SCALAR_PAIRS = [
    (p.__name__, q.__name__)
    for p, q in _KL_REGISTRY
    if p.__name__ in {**CONTINUOUS, **DISCRETE} and q.__name__ in {**CONTINUOUS, **DISCRETE}
]
SCALAR_PAIRS.remove(("TransformedDistribution", "TransformedDistribution"))


@pytest.mark.parametrize("p_name, q_name", SCALAR_PAIRS)
def test_divergences_are_the_integrals_that_they_stand_for(p_name, q_name):
    p, q = _pair(p_name)[0], _pair(q_name)[1]
    q._validate_args = False
    found = kl_divergence(p, q)
    x = counts(p) if p.support.is_discrete else quadrature(p)[0]
    outside = ((p.log_prob(x) > -math.inf) & ~q.support.check(x)).any(0)
    assert found.shape == (2,) and (found.isinf() >= outside).all() and not found.isnan().any()
    if found.isinf().all():
        assert outside.all()
        return
    expected = expectation(p, lambda x: p.log_prob(x) - q.log_prob(x).clamp(min=-1e300))
    tolerance = {"Cauchy": 5e-3, "Laplace": 2e-4, "Uniform": 1e-4}.get(p_name, 2e-4 if q_name == "Laplace" else 1e-6)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    if p_name == q_name:
        assert kl_divergence(p, p).abs().max() < 1e-9


@pytest.mark.parametrize("name", ["Dirichlet", "OneHotCategorical", "MultivariateNormal", "LowRankMultivariateNormal",
                                  "Wishart", "LogisticNormal", "Independent", "LogNormal", "Chi2"])  # fmt: skip
def test_divergences_of_vectors_are_the_means_over_samples(name):
    p = ALL[name]()
    q = D.Independent(_swapped(p.base_dist), 1) if name == "Independent" else _swapped(p)
    torch.manual_seed(6)
    x = p.sample((4000,))
    difference = p.log_prob(x) - q.log_prob(x)
    found = kl_divergence(p, q)
    assert found.shape == (2,) and (found > 0).all()
    assert ((difference.mean(0) - found).abs() < 5 * difference.std(0) / math.sqrt(4000)).all()
    assert kl_divergence(p, p).abs().max() < 1e-9


def test_normal_distributions_of_low_rank_have_the_divergences_of_their_covariances():
    low = [D.LowRankMultivariateNormal(t(0.2, m), t([1.0], [f]), t(0.5, 0.9)) for m, f in ((-0.5, 0.3), (1.0, -0.7))]
    full = [D.MultivariateNormal(d.loc, d.covariance_matrix) for d in low]
    expected = kl_divergence(*full)
    for p in (low[0], full[0]):
        for q in (low[1], full[1]):
            torch.testing.assert_close(kl_divergence(p, q), expected)
            assert kl_divergence(p, q.expand((3,))).shape == (3,) == kl_divergence(p.expand((3,)), q).shape


def test_what_one_distribution_gives_and_the_other_does_not_makes_the_divergence_infinite():
    zero, half = D.Bernoulli(t(0.0)), D.Bernoulli(t(0.5))
    assert kl_divergence(half, zero) == math.inf and kl_divergence(zero, half).isfinite()
    assert kl_divergence(D.Categorical(t(0.5, 0.5)), D.Categorical(t(1.0, 0.0))) == math.inf
    assert kl_divergence(D.Uniform(t(-1.0), t(1.0)), D.Exponential(t(1.0))) == math.inf
    assert kl_divergence(D.Normal(t(0.0, 1.0), t(1.0)), D.Gamma(t(1.0), t(1.0))).tolist() == [math.inf] * 2
    with pytest.raises(NotImplementedError, match="total_count"):
        kl_divergence(D.Binomial(2, t(0.5)), D.Binomial(3, t(0.5)))


def test_the_nearest_registered_pair_is_taken():
    class Left(D.Normal):
        pass

    class Right(Left):
        pass

    p, q = Right(0.0, 1.0), Right(1.0, 1.0)
    assert kl_divergence(p, q) == 0.5
    register_kl(Left, Right)(lambda p, q: "left right")
    register_kl(Right, Left)(lambda p, q: "right left")
    try:
        with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Right, Right\)"):
            assert kl_divergence(p, q) == "right left"
        register_kl(Right, Right)(lambda p, q: "both")
        assert kl_divergence(p, q) == "both" and kl_divergence(Left(0.0, 1.0), q) == "left right"
    finally:
        for pair in [pair for pair in _KL_REGISTRY if pair[0] in (Left, Right)]:
            del _KL_REGISTRY[pair]
    with pytest.raises(TypeError, match="Distribution subclass"):
        register_kl("Normal", D.Normal)


def test_a_class_that_is_no_distribution_can_be_registered_and_is_found_as_a_base():
    class Interface:
        pass

    class Own(D.StudentT, Interface):
        pass

    register_kl(Own, Interface)(lambda p, q: "by the interface")
    try:
        assert kl_divergence(Own(1.0), Own(2.0)) == "by the interface"
    finally:
        del _KL_REGISTRY[Own, Interface]


def test_pairs_without_a_closed_form_are_refused():
    for p, q in (
        (D.StudentT(3.0), D.Normal(0.0, 1.0)),
        (D.Normal(0.0, 1.0), D.Bernoulli(0.5)),
        (D.LogNormal(0.0, 1.0), D.InverseGamma(1.0, 1.0)),
        (D.Independent(D.Normal(torch.zeros(2, 3), 1.0), 1), D.Independent(D.Normal(torch.zeros(2, 3), 1.0), 2)),
    ):
        with pytest.raises(NotImplementedError):
            kl_divergence(p, q)


def test_divergences_have_gradients():
    mean, scale = t(0.3).requires_grad_(), t(1.5).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda m, s: kl_divergence(D.Normal(m, s), D.Normal(t(0.0), t(1.0))), (mean, scale)
    )
    a, b = t(1.3).requires_grad_(), t(2.5).requires_grad_()
    for q in (D.Gamma(t(2.0), t(0.7)), D.Normal(t(0.0), t(1.0)), D.Gumbel(t(0.0), t(1.0))):
        assert torch.autograd.gradcheck(lambda a, b, q=q: kl_divergence(D.Gamma(a, b), q), (a, b))


def test_derivatives_of_counts_by_their_rates_are_zero():
    rate = torch.full((3,), 2.0, requires_grad=True)
    torch.poisson(rate).sum().backward()
    assert rate.grad is not None and rate.grad.tolist() == [0.0] * 3
    with forward_ad.dual_level():
        count = torch.poisson(forward_ad.make_dual(torch.ones(3), torch.ones(3)))
        assert forward_ad.unpack_dual(count).tangent.tolist() == [0.0] * 3
