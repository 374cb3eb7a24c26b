"""Distributions against integrals of their own densities, against their samples, and against each other."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
import warnings

import pytest
from distribution_cases import ALL, CONTINUOUS, DISCRETE, DOUBLE, MULTIVARIATE, expectation, quadrature, t

import rgrad as torch
from rgrad import distributions as D
from rgrad.distributions import constraints

UNIVARIATE = {**CONTINUOUS, **DISCRETE}
# Moments that don't exist or are those of the circle.
NO_MOMENTS = {"Cauchy", "HalfCauchy", "Categorical", "VonMises", "RelaxedBernoulli", "TransformedDistribution"}


def _close(a, b, tolerance=1e-6):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def _precision(name):
    """Of integrals: less for densities with a kink, and for those whose tails reach beyond the nodes."""
    return {"Laplace": 2e-4, "Cauchy": 2e-3, "HalfCauchy": 2e-3}.get(name, 1e-6)


@pytest.mark.parametrize("name", UNIVARIATE)
def test_probabilities_have_the_sum_one(name):
    _close(expectation(UNIVARIATE[name](), torch.ones_like), t(1.0, 1.0), _precision(name))


@pytest.mark.parametrize("name", [n for n in UNIVARIATE if n not in NO_MOMENTS])
def test_mean_and_variance_are_those_of_the_density(name):
    d = UNIVARIATE[name]()
    mean = expectation(d, lambda x: x)
    _close(d.mean, mean, _precision(name))
    _close(d.variance, expectation(d, lambda x: (x - mean) ** 2), max(1e-5, _precision(name)))
    _close(d.stddev, d.variance.sqrt())


def test_moments_that_do_not_exist_are_nan_or_infinite():
    assert D.Cauchy(0.0, 1.0).mean.isnan() and D.Cauchy(0.0, 1.0).variance.isinf() and D.HalfCauchy(1.0).mean.isinf()
    s = D.StudentT(t(0.5, 1.5, 3.0))
    assert s.mean.isnan().tolist() == [True, False, False] and s.variance.isinf().tolist() == [False, True, False]
    assert D.Pareto(1.0, t(0.5, 1.5, 3.0)).mean.isinf().tolist() == [True, False, False]
    assert D.Pareto(1.0, t(0.5, 1.5, 3.0)).variance.isinf().tolist() == [True, True, False]
    assert D.InverseGamma(t(0.5, 1.5, 3.0), 1.0).variance.isinf().tolist() == [True, True, False]
    assert D.GeneralizedPareto(0.0, 1.0, t(0.2, 0.7, 1.2)).variance.isinf().tolist() == [False, True, True]
    assert D.FisherSnedecor(1.0, t(1.0, 3.0)).mean.isnan().tolist() == [True, False]
    assert D.Categorical(torch.ones(2)).mean.isnan() and D.Uniform(0.0, 1.0).mode.isnan()


def test_the_circular_variance_is_that_of_the_density():
    d = CONTINUOUS["VonMises"]()
    _close(d.variance, 1 - expectation(d, lambda x: (x - d.mean).cos()))


@pytest.mark.parametrize("name", UNIVARIATE)
def test_the_entropy_is_the_mean_of_minus_the_log_density(name):
    d = UNIVARIATE[name]()
    expected = expectation(d, lambda x: -d.log_prob(x))
    try:
        found = d.entropy()
    except NotImplementedError:
        assert name in {
            "NegativeBinomial", "Poisson", "RelaxedBernoulli", "VonMises", "MixtureSameFamily", "FisherSnedecor",
            "TransformedDistribution",
        }  # fmt: skip
        return
    _close(found, expected, _precision(name))
    _close(d.perplexity(), found.exp())
    if isinstance(d, D.ExponentialFamily) and name != "Beta":
        _close(D.ExponentialFamily.entropy(d), found)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_distribution_function_is_the_integral_of_the_density(name):
    d = CONTINUOUS[name]()
    x, weights = quadrature(d)
    try:
        found = d.cdf(x)
    except NotImplementedError:
        assert name in {"StudentT", "FisherSnedecor", "Beta", "VonMises", "RelaxedBernoulli"}
        return
    density = d.log_prob(x).exp().nan_to_num() * weights
    below = density.cumsum(0) - 0.5 * density
    assert (found - below).abs().max() < 1e-3


@pytest.mark.parametrize("name", CONTINUOUS)
def test_quantiles_invert_the_distribution_function(name):
    d = CONTINUOUS[name]()
    p = t(0.01, 0.3, 0.5, 0.9).unsqueeze(-1).expand(4, 2)
    try:
        x = d.icdf(p)
    except NotImplementedError:
        assert name in {
            "StudentT", "FisherSnedecor", "Beta", "VonMises", "RelaxedBernoulli", "Gamma", "Chi2", "InverseGamma",
            "MixtureSameFamily",
        }  # fmt: skip
        return
    assert d.support.check(x).all()
    _close(d.cdf(x), p)


def test_distribution_functions_end_at_zero_and_one():
    assert D.Uniform(t(0.0), t(1.0), validate_args=False).cdf(t(-1.0, 2.0)).tolist() == [0.0, 1.0]
    assert D.ContinuousBernoulli(t(0.3), validate_args=False).cdf(t(-1.0, 2.0)).tolist() == [0.0, 1.0]
    gamma = D.Gamma(t(2.0), t(1.0)).cdf(t(0.0, 1e-3, 1e3, math.inf))
    _close(gamma, t(0.0, 1 - math.exp(-1e-3) * 1.001, 1.0, 1.0), 1e-12)
    assert D.Gamma(t(2.0), t(1.0), validate_args=False).cdf(t(-math.inf, -1.0)).isnan().all()
    ends = t([0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0])
    bernoulli = D.ContinuousBernoulli(logits=t(-800.0, -40.0, 40.0, 800.0).unsqueeze(-1))
    assert torch.equal(bernoulli.icdf(ends), ends)
    assert D.Kumaraswamy(t(60.0), t(2.0)).icdf(t(0.0, 1.0)).tolist() == [0.0, 1.0]
    # The tail of the normal distribution is not lost.
    _close(D.Normal(t(0.0), t(1.0)).cdf(t(-9.0)) / 1.1285884059538405e-19, t(1.0), 1e-6)


MOST_LIKELY = [n for n in ALL if n not in {"Uniform", "RelaxedBernoulli", "OneHotCategoricalStraightThrough"}]


@pytest.mark.parametrize("name", MOST_LIKELY)
def test_no_value_is_more_likely_than_the_mode(name):
    d = ALL[name]()
    try:
        mode = d.mode
    except NotImplementedError:
        assert name in {
            "ContinuousBernoulli", "Multinomial", "RelaxedOneHotCategorical", "LogisticNormal", "LKJCholesky",
            "MixtureSameFamily", "TransformedDistribution",
        }  # fmt: skip
        return
    known = ~(mode.isnan() if not d.event_shape else mode.isnan().flatten(len(d.batch_shape)).any(-1))
    d = copy.deepcopy(d)
    d._validate_args = False
    torch.manual_seed(3)
    best = d.log_prob(mode)
    if name in CONTINUOUS or name in DISCRETE or name in {"MultivariateNormal", "LowRankMultivariateNormal", "Wishart"}:
        assert known.all() or name in {"Kumaraswamy", "FisherSnedecor"}
    others = d.log_prob(d.sample((500,)))
    assert ((others <= best + 1e-9) | ~known | (best.isnan())).all()


@pytest.mark.parametrize("name", ALL)
def test_shapes_of_samples_and_of_densities(name):
    d = ALL[name]()
    assert d.batch_shape == (2,) and isinstance(d.batch_shape, torch.Size) and isinstance(d.event_shape, torch.Size)
    assert len(d.event_shape) == d.support.event_dim
    for shape in ((), (3,), (4, 1)):
        x = d.sample(shape)
        assert x.shape == (*shape, *d.batch_shape, *d.event_shape) and not x.requires_grad
        assert d.log_prob(x).shape == (*shape, 2) and d.support.check(x).all()
        assert x.dtype == (torch.int64 if name == "Categorical" else DOUBLE)
    assert d.sample((0,)).shape == (0, *d.batch_shape, *d.event_shape)
    if d.has_rsample:
        assert d.rsample((3,)).shape == (3, *d.batch_shape, *d.event_shape)
    else:
        with pytest.raises(NotImplementedError):
            d.rsample()
    with pytest.warns(FutureWarning):
        assert d.sample_n(3).shape == (3, *d.batch_shape, *d.event_shape)


@pytest.mark.parametrize("name", ALL)
def test_an_expanded_distribution_is_the_same_over_a_larger_batch(name):
    d = ALL[name]()
    x = d.sample()
    e = d.expand((3, 2))
    assert type(e) is type(d) and e.batch_shape == (3, 2) and e.event_shape == d.event_shape
    _close(e.log_prob(x), d.log_prob(x).expand(3, 2))
    assert e.sample((4,)).shape == (4, 3, 2, *d.event_shape)
    assert repr(e.support).partition("(")[0] == repr(d.support).partition("(")[0]
    again = e.expand((5, 3, 2))
    assert again.log_prob(x).shape == (5, 3, 2) and again._validate_args == d._validate_args
    try:
        mean = d.mean
    except NotImplementedError:
        return
    torch.testing.assert_close(e.mean, mean.expand(3, *mean.shape), equal_nan=True)


@pytest.mark.parametrize("name", ALL)
def test_copies_are_the_same_distribution(name):
    d = ALL[name]()
    x = d.sample()
    before = d.log_prob(x)
    for other in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert torch.equal(other.log_prob(x), before) and repr(other) == repr(d)


@pytest.mark.parametrize("name", ALL)
def test_values_outside_the_support_are_refused(name):
    d = ALL[name]()
    x = d.sample()
    if x.is_floating_point():
        with pytest.raises(ValueError, match="within the support"):
            d.log_prob(x * math.nan)
    if name not in {"Gamma", "Chi2"}:
        with pytest.raises(ValueError, match="must be a Tensor"):
            d.log_prob(1.0)
    with pytest.raises(ValueError, match=r"not broadcastable|right-most size"):
        d.log_prob(torch.ones(7, *[5 for _ in d.event_shape or ("",)]))
    d._validate_args = False
    d.log_prob(x)


@pytest.mark.parametrize("name", [n for n in ALL if n not in {"MixtureSameFamily", "Independent", "Wishart"}])
def test_parameters_outside_their_constraints_are_refused(name):
    d = ALL[name]()
    given = {k: getattr(d, k) for k in d.arg_constraints if k in vars(d)}
    if not given:
        given = {k: getattr(d, k) for k in d.arg_constraints if k not in ("probs", "logits")}
    extra = {k: getattr(d, k) for k in getattr(d, "_kept", ())}
    if name == "LKJCholesky":
        extra = {"dim": 3}
    for parameter in given:
        if parameter in ("total_count", "probs", "logits"):
            continue
        bad = {**given, parameter: given[parameter] * math.nan}
        with pytest.raises(ValueError, match="Expected parameter"):
            type(d)(**bad, **extra, validate_args=True)
    if "probs" in d.arg_constraints:
        kwargs = {k: v for k, v in given.items() if k == "total_count"} | extra
        with pytest.raises(ValueError, match="Expected parameter probs|must be specified"):
            type(d)(**kwargs, probs=t([-0.5, 1.5], [0.5, 0.5]), validate_args=True)
        with pytest.raises(ValueError, match="Either `probs` or `logits` must be specified, but not both"):
            type(d)(**kwargs)


@pytest.mark.parametrize("name", [n for n in UNIVARIATE if n not in {"Cauchy", "HalfCauchy", "Categorical"}])
def test_samples_have_the_moments_of_the_density(name):
    d = UNIVARIATE[name]()
    torch.manual_seed(11)
    n = 20000
    x = d.sample((n,))
    mean = expectation(d, lambda v: v)
    variance = expectation(d, lambda v: (v - mean) ** 2)
    fourth = expectation(d, lambda v: (v - mean) ** 4)
    if name != "VonMises":
        assert ((x.mean(0) - mean).abs() < 5 * (variance / n).sqrt()).all()
        assert ((x.var(0) - variance).abs() < 5 * (fourth / n).sqrt() + 0.02 * variance).all() or name in HEAVY
    # Kolmogorov and Smirnov: the largest difference of the distribution functions, at a level of 1e-6.
    points = torch.quantile(x, torch.linspace(0.05, 0.95, 19, dtype=DOUBLE), dim=0)
    below = torch.stack([expectation(d, lambda v, p=p: (v <= p).to(DOUBLE)) for p in points])
    found = (x.unsqueeze(0) <= points.unsqueeze(1)).to(DOUBLE).mean(1)
    assert (found - below).abs().max() < 2.7 / math.sqrt(n) + 2e-3


# Their fourth moment is infinite or nearly so.
HEAVY = {"StudentT", "InverseGamma", "FisherSnedecor", "Pareto", "GeneralizedPareto", "LogNormal"}


@pytest.mark.parametrize("name", ["Dirichlet", "OneHotCategorical", "Multinomial", "MultivariateNormal",
                                  "LowRankMultivariateNormal", "Wishart", "Independent"])  # fmt: skip
def test_samples_of_vectors_have_their_moments(name):
    d = MULTIVARIATE[name]()
    torch.manual_seed(5)
    n = 20000
    x = d.sample((n,))
    assert ((x.mean(0) - d.mean).abs() <= 5 * (d.variance / n).sqrt()).all()
    assert ((x.var(0) / d.variance - 1).abs() < 0.1).all()
    try:
        entropy = d.entropy()
    except NotImplementedError:
        return
    logs = -d.log_prob(x)
    assert ((logs.mean(0) - entropy).abs() < 5 * logs.std(0) / math.sqrt(n)).all()


def test_covariances_are_given_in_three_ways_and_are_those_of_samples():
    covariance = t([2.0, 0.6], [0.6, 1.0])
    ways = (
        {"covariance_matrix": covariance},
        {"precision_matrix": covariance.inverse()},
        {"scale_tril": torch.linalg.cholesky(covariance)},
    )
    x = torch.randn(5, 3, 2, dtype=DOUBLE)
    for family, first in ((D.MultivariateNormal, t([0.0, 1.0], [1.0, 0.0], [2.0, 2.0])), (D.Wishart, t(3.0, 4.0, 5.0))):
        made = [family(first, **way) for way in ways]
        for d in made:
            for name in ("covariance_matrix", "precision_matrix", "scale_tril"):
                _close(getattr(d, name), getattr(made[0], name))
            assert d.covariance_matrix.shape == (3, 2, 2) and d.entropy().shape == (3,)
            _close(d.entropy(), made[0].entropy())
        if family is D.MultivariateNormal:
            _close(made[1].log_prob(x), made[0].log_prob(x))
        with pytest.raises(ValueError, match="Exactly one of"):
            family(first, covariance, scale_tril=covariance)
    torch.manual_seed(2)
    low = D.LowRankMultivariateNormal(t(0.0, 1.0), t([1.0], [0.6]), t(1.0, 0.64))
    full = D.MultivariateNormal(t(0.0, 1.0), low.covariance_matrix)
    _close(low.log_prob(x), full.log_prob(x))
    _close(low.entropy(), full.entropy())
    for name in ("precision_matrix", "scale_tril", "variance"):
        _close(getattr(low, name), getattr(full, name))
    for d in (low, full):
        assert (d.sample((40000,)).T.cov() - d.covariance_matrix).abs().max() < 0.06


def test_correlations_of_one_entry_are_beta_variables():
    # The entry r of a 2 by 2 correlation matrix has the density (1 - r²)^(η - 1), up to its integral.
    for eta in (0.7, 2.0):
        d = D.LKJCholesky(2, t(eta))
        r = torch.linspace(-1, 1, 4003, dtype=DOUBLE)[1:-1]
        rows = [torch.ones_like(r), 0 * r], [r, (1 - r * r).sqrt()]
        factor = torch.stack([torch.stack(row, -1) for row in rows], 1)
        angle = r.asin()
        integral = (d.log_prob(factor).exp()[1:] * (angle.cos()[1:] * angle.diff())).sum()
        _close(integral, t(1.0), 2e-2)
        # p(r) = 2^(1 - 2η) (1 - r²)^(η - 1) / B(η, η)
        beta = 2 * math.lgamma(eta) - math.lgamma(2 * eta)
        _close(d.log_prob(factor), (eta - 1) * (1 - r * r).log() + (1 - 2 * eta) * math.log(2) - beta)
        torch.manual_seed(1)
        assert (d.sample((20000,))[:, 1, 0].var() - 1 / (2 * eta + 1)).abs() < 0.02


def test_simplices_have_densities_of_integral_one():
    grid = torch.linspace(0, 1, 402, dtype=DOUBLE)[1:-1]
    a, b = torch.meshgrid(grid, grid, indexing="ij")
    inside = a + b < 1
    points = torch.stack([a[inside], b[inside], 1 - a[inside] - b[inside]], -1).unsqueeze(1)
    for name in ("Dirichlet", "RelaxedOneHotCategorical", "LogisticNormal"):
        d = MULTIVARIATE[name]()
        d._validate_args = False
        total = d.log_prob(points).exp().sum(0) / 401**2
        assert (total - 1).abs().max() < 0.03


def test_all_values_are_enumerated():
    for name in ("Bernoulli", "Binomial", "Categorical", "OneHotCategorical"):
        d = ALL[name]()
        values = d.enumerate_support()
        assert d.has_enumerate_support and values.shape[1:] == d.batch_shape + d.event_shape
        assert d.enumerate_support(expand=False).shape == (len(values), 1, *d.event_shape)
        _close(d.log_prob(values).exp().sum(0), t(1.0, 1.0))
    with pytest.raises(NotImplementedError, match="Inhomogeneous"):
        D.Binomial(t(2.0, 3.0), t(0.5)).enumerate_support()
    with pytest.raises(NotImplementedError, match="cartesian product"):
        D.Independent(D.Bernoulli(t(0.2, 0.7)), 1).enumerate_support()
    counts = torch.tensor([[i, j, 4 - i - j] for i in range(5) for j in range(5 - i)], dtype=DOUBLE)
    multinomial = D.Multinomial(4, t(0.2, 0.5, 0.3))
    p = multinomial.log_prob(counts).exp()
    _close(p.sum(), t(1.0))
    _close(-(p * p.log()).sum(), multinomial.entropy())


def test_probabilities_of_zero_and_one_give_no_nan():
    for d in (D.Bernoulli(t(0.0, 1.0)), D.Binomial(3, t(0.0, 1.0)), D.Geometric(t(1.0, 1.0))):
        assert not d.log_prob(torch.zeros(2, dtype=DOUBLE)).isnan().any() and not d.entropy().isnan().any()
        assert not d.sample((4,)).isnan().any()
    c = D.Categorical(t(0.0, 0.25, 0.75))
    assert c.log_prob(torch.tensor(0)) < -30 and c.entropy().isfinite() and (c.sample((100,)) > 0).all()
    masked = D.Categorical(logits=t(-math.inf, 0.0, 0.0))
    assert masked.log_prob(torch.tensor(0)) == -math.inf
    _close(masked.entropy(), t(math.log(2)))
    assert D.Multinomial(2, logits=t(-math.inf, 0.0)).log_prob(t(0.0, 2.0)) == 0
    assert D.NegativeBinomial(t(0.0), t(0.3)).log_prob(t(0.0)) == 0
    assert D.Poisson(t(0.0)).log_prob(t(0.0)) == 0 and D.Poisson(t(0.0)).sample() == 0


def test_parameters_that_are_nan_give_nan_and_end():
    nan = t(math.nan, 2.0)
    for d in (
        D.Gamma(nan, 1.0, validate_args=False),
        D.Poisson(nan, validate_args=False),
        D.VonMises(t(0.0), nan, validate_args=False),
        D.Binomial(4, nan / 4, validate_args=False),
        D.NegativeBinomial(nan, t(0.5), validate_args=False),
    ):
        assert d.sample().isnan().tolist() == [True, False]
    with pytest.raises(RuntimeError, match="invalid Poisson rate"):
        D.Poisson(t(-1.0), validate_args=False).sample()


def test_counts_of_large_means_are_drawn_by_rejection():
    torch.manual_seed(4)
    n = 20000
    for d in (D.Poisson(t(15.0, 1e5)), D.Binomial(1000, t(0.3, 0.9)), D.NegativeBinomial(t(80.0, 3.0), t(0.5, 0.99))):
        x = d.sample((n,))
        assert ((x.mean(0) - d.mean).abs() < 5 * (d.variance / n).sqrt()).all()
        assert ((x.var(0) / d.variance - 1).abs() < 0.1).all() and (x % 1 == 0).all()


def test_reprs_name_the_parameters():
    assert repr(D.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    assert repr(D.Bernoulli(logits=torch.zeros(2, 3))) == "Bernoulli(logits: torch.Size([2, 3]))"
    assert repr(D.Pareto(1.0, 2.0)) == "Pareto(alpha: 2.0, scale: 1.0)"
    inner = "Normal(loc: torch.Size([2, 3]), scale: torch.Size([2, 3]))"
    assert repr(D.Independent(D.Normal(torch.zeros(2, 3), 1.0), 1)) == f"Independent({inner}, 1)"
    assert repr(D.Uniform(0.0, 1.0).support) == "Interval(lower_bound=0.0, upper_bound=1.0)"


def test_numbers_take_the_default_dtype_and_tensors_keep_theirs():
    assert D.Normal(0, 1).loc.dtype == torch.float32 and D.Normal(t(0.0), 1).scale.dtype == DOUBLE
    assert D.Gamma(2, 1).rsample().dtype == torch.float32 and D.Beta(torch.ones(3), 2.0).batch_shape == (3,)
    with pytest.raises(ValueError, match="instances of Number"):
        D.Normal("a", 1.0)


def test_validation_can_be_turned_off():
    assert D.Normal(0.0, -1.0, validate_args=False).scale == -1
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Normal(0.0, -1.0).scale == -1
        with pytest.raises(ValueError, match="Expected parameter scale"):
            D.Normal(0.0, -1.0, validate_args=True)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        D.Distribution.set_default_validate_args(2)


def test_a_refused_argument_is_named_with_its_constraint():
    with pytest.raises(ValueError) as error:
        D.Normal(torch.zeros(2), torch.tensor([1.0, -1.0]))
    assert str(error.value) == (
        "Expected parameter scale (Tensor of shape (2,)) of distribution "
        "Normal(loc: torch.Size([2]), scale: torch.Size([2])) to satisfy the constraint "
        "GreaterThan(lower_bound=0.0), but found invalid values:\ntensor([ 1., -1.])"
    )
    with pytest.raises(ValueError, match=r"Expected value argument \(Tensor of shape \(\)\) to be within the support"):
        D.Bernoulli(0.5).log_prob(torch.tensor(2.0))
    for call, text in (
        (lambda: D.Geometric(t(0.0)), "to be positive"),
        (lambda: D.Uniform(1.0, 0.0), "LessThan"),
        (lambda: D.Categorical(t(0.5)), "at least one-dimensional"),
        (lambda: D.Dirichlet(t(0.5)), "at least one-dimensional"),
        (lambda: D.MultivariateNormal(t(0.0), torch.eye(2)), "at least one-dimensional"),
        (lambda: D.MultivariateNormal(torch.zeros(2), torch.ones(2)), "at least two-dimensional"),
        (lambda: D.MultivariateNormal(torch.zeros(2), -torch.eye(2)), "PositiveDefinite"),
        (lambda: D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(3, 1), torch.ones(2)), "2 x m"),
        (lambda: D.Wishart(t(1.0), torch.eye(3, dtype=DOUBLE)), "greater than ndim - 1"),
        (lambda: D.LKJCholesky(1), "greater than or equal to 2"),
        (lambda: D.Independent(D.Normal(0.0, 1.0), 1), "reinterpreted_batch_ndims"),
        (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), 3), "Transform or list"),
        (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()), "size at least 1"),
        (lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(torch.zeros(3), 1.0)), "Categorical"),
        (lambda: D.MixtureSameFamily(D.Categorical(torch.ones(2)), D.Normal(torch.zeros(3), 1.0)), "does not equal"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(NotImplementedError, match="inhomogeneous total_count"):
        D.Multinomial(t(1.0, 2.0), torch.ones(2))


def test_subclasses_are_expanded_if_they_are_made_as_their_base():
    class Plain(D.Normal):
        pass

    class Custom(D.Normal):
        def __init__(self, loc):
            self.note = "kept"
            super().__init__(loc, 1.0)

    class Expandable(Custom):
        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Expandable, _instance)
            new.note = self.note
            return super().expand(batch_shape, _instance=new)

    assert type(Plain(0.0, 1.0).expand((2,))) is Plain
    with pytest.raises(NotImplementedError, match="must also define a custom .expand"):
        Custom(0.0).expand((2,))
    larger = Expandable(0.0).expand((2,))
    assert type(larger) is Expandable and larger.note == "kept" and larger.loc.shape == (2,)


def test_a_distribution_of_a_user_needs_no_more_than_its_own_methods():
    class Two(D.Distribution):
        arg_constraints = {"rate": constraints.positive}

        def __init__(self, rate, validate_args=None):
            self.rate = rate
            super().__init__(rate.shape, validate_args=validate_args)

        def rsample(self, sample_shape=()):
            return self.rate.expand(self._extended_shape(sample_shape)) * 2

    d = Two(t(1.0, 2.0))
    assert d.sample((3,)).shape == (3, 2) and repr(d) == "Two(rate: torch.Size([2]))"
    with pytest.raises(ValueError, match="Expected parameter rate"):
        Two(t(-1.0))
    for name in ("mean", "variance", "support", "stddev"):
        with pytest.raises(NotImplementedError):
            getattr(d, name)
    with pytest.raises(NotImplementedError):
        d.expand((2,))
    with pytest.warns(UserWarning, match="support"):
        d._validate_sample(t(1.0, 1.0))
    with pytest.warns(UserWarning, match="arg_constraints"):
        D.Distribution()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        D.Distribution(validate_args=False)


def test_lazy_properties_stay_differentiable_after_a_use_without_gradients():
    logits = torch.zeros(3, requires_grad=True)
    d = D.Bernoulli(logits=logits)
    d.sample()
    d.probs.sum().backward()
    assert torch.equal(logits.grad, torch.full((3,), 0.25))
    assert d.expand((2, 3))._param.shape == (2, 3) and "logits: " in repr(d)


def test_programs_find_and_pickle_every_class_where_pytorch_has_it():
    code = """
import rgrad.as_torch
import importlib, pickle, torch
from torch.distributions import *
from torch.distributions.beta import Beta
from torch.distributions.kl import kl_divergence, register_kl
from torch.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
from torch.distributions.studentT import StudentT
from torch.distributions.utils import _standard_normal, broadcast_all, lazy_property
classes = [getattr(torch.distributions, n) for n in torch.distributions.__all__]
classes = [c for c in classes if isinstance(c, type)]
for c in classes:
    assert c.__module__.startswith("torch.distributions."), c
    assert getattr(importlib.import_module(c.__module__), c.__name__) is c
    assert b"rgrad" not in pickle.dumps(c) and pickle.loads(pickle.dumps(c)) is c
names = {"studentT": "StudentT", "fishersnedecor": "FisherSnedecor", "log_normal": "LogNormal"}
for module, name in names.items():
    assert getattr(torch.distributions, name).__module__ == "torch.distributions." + module
saved = pickle.dumps(TransformedDistribution(Normal(0.0, 1.0), [ExpTransform(), AffineTransform(0.0, 2.0)]))
print(len(classes) > 60, b"rgrad.distributions" in saved, pickle.loads(saved))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.split() == ["True", "False", "TransformedDistribution()"], run.stderr


def test_the_density_of_a_gamma_distribution_takes_numbers():
    assert torch.equal(D.Gamma(2.0, 1.0).log_prob(1.5), D.Gamma(2.0, 1.0).log_prob(torch.tensor(1.5)))
    assert D.Chi2(3.0).log_prob(1).shape == ()


def test_samples_of_small_concentrations_are_near_both_ends_but_not_at_them():
    for dtype, width in ((torch.float32, 24), (torch.float64, 53)):
        c = torch.tensor(0.01, dtype=dtype)
        x = D.Beta(c, c).sample((20000,))
        assert x.min() >= torch.finfo(dtype).tiny and x.max() == 1 - 2.0**-width
        # Of two gamma variables that both are 0 in the dtype the share would be 1/2.
        assert abs((x < 0.1).double().mean() - 0.5) < 0.02 and abs((x > 0.9).double().mean() - 0.5) < 0.02


def test_the_factor_of_a_continuous_bernoulli_density_stays_finite():
    for dtype, limit in ((torch.float32, 1e38), (torch.float64, 1e308)):
        eps = torch.finfo(dtype).eps
        logits = torch.tensor([limit, -limit], dtype=dtype).requires_grad_()
        found = D.ContinuousBernoulli(logits=logits).log_prob(torch.tensor([1.0, 0.0], dtype=dtype))
        _close(found.detach().double(), t(1.0, 1.0) * math.log(-math.log(eps)), 1e-6)
        assert torch.autograd.grad(found.sum(), logits)[0].tolist() == [0, 0]


def test_laplace_samples_are_quantiles_of_one_uniform_number_each():
    scale = t(0.5, 2.0).requires_grad_()
    torch.manual_seed(3)
    u = torch.empty(2, dtype=torch.float64).uniform_(-0.5, 0.5)
    torch.manual_seed(3)
    D.Laplace(t(0.0, 1.0), scale).rsample().sum().backward()
    _close(scale.grad, -u.sign() * (-2 * u.abs()).log1p())


def test_the_density_of_a_wishart_distribution_depends_on_both_halves_of_the_matrix():
    x = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64, requires_grad=True)
    v = torch.eye(2, dtype=torch.float64)
    d = D.Wishart(t(3.4), v)
    (grad,) = torch.autograd.grad(d.log_prob(x), x)
    _close(grad, 0.5 * (3.4 - 3) * torch.linalg.inv(x.detach()) - 0.5 * v)
    assert torch.autograd.gradcheck(d.log_prob, x)


def test_singular_matrices_of_a_wishart_distribution_are_drawn_again():
    d = D.Wishart(t(1.0 + 1e-3), torch.eye(2, dtype=torch.float64), validate_args=False)
    with pytest.warns(UserWarning, match="Singular sample detected"):
        x = d.sample((20,))
    assert d.support.check(x).double().mean() > d.support.check(d._draw((2000,))).double().mean()


def test_degrees_of_freedom_may_be_integers():
    d = D.Wishart(torch.tensor(3), torch.eye(2))
    assert d.sample((4,)).shape == (4, 2, 2) and d.sample().dtype == torch.float32
    _close(d.log_prob(torch.eye(2)), D.Wishart(3.0, torch.eye(2)).log_prob(torch.eye(2)), 1e-6)


def test_triangles_below_every_diagonal_come_back():
    from rgrad.distributions import utils

    for n in (1, 2, 4):
        full = torch.arange(1.0, n * n + 1).reshape(n, n)
        for diag in range(-n, n):
            triangle = full.tril(diag)
            torch.testing.assert_close(
                utils.vec_to_tril_matrix(utils.tril_matrix_to_vec(triangle, diag), diag), triangle, rtol=0, atol=0
            )
    with pytest.raises(ValueError, match="not the number of entries"):
        utils.vec_to_tril_matrix(torch.ones(2))
