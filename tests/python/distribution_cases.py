"""Distributions for the tests, of two parameters each, and integrals over their supports."""

from __future__ import annotations

import math

import rgrad as torch
from rgrad import distributions as D
from rgrad.distributions import constraints

DOUBLE = torch.float64


def t(*values):
    """A tensor in double precision."""
    return torch.tensor(values if len(values) != 1 else values[0], dtype=DOUBLE)


# Continuous ones of one variable.
CONTINUOUS = {
    "Normal": lambda: D.Normal(t(-1.0, 2.0), t(0.5, 2.0)),
    "LogNormal": lambda: D.LogNormal(t(-1.0, 0.3), t(0.5, 0.8)),
    "HalfNormal": lambda: D.HalfNormal(t(0.5, 2.0)),
    "StudentT": lambda: D.StudentT(t(5.0, 7.5), t(-1.0, 2.0), t(0.5, 2.0)),
    "Laplace": lambda: D.Laplace(t(-1.0, 2.0), t(0.5, 2.0)),
    "Cauchy": lambda: D.Cauchy(t(-1.0, 2.0), t(0.5, 2.0)),
    "HalfCauchy": lambda: D.HalfCauchy(t(0.5, 2.0)),
    "Gumbel": lambda: D.Gumbel(t(-1.0, 2.0), t(0.5, 2.0)),
    "Exponential": lambda: D.Exponential(t(0.5, 2.0)),
    "Gamma": lambda: D.Gamma(t(0.8, 3.0), t(0.5, 2.0)),
    "Chi2": lambda: D.Chi2(t(2.5, 5.0)),
    "InverseGamma": lambda: D.InverseGamma(t(5.0, 6.5), t(0.5, 2.0)),
    "FisherSnedecor": lambda: D.FisherSnedecor(t(3.0, 5.0), t(9.0, 11.0)),
    "Weibull": lambda: D.Weibull(t(0.5, 2.0), t(1.5, 3.0)),
    "Pareto": lambda: D.Pareto(t(0.5, 2.0), t(4.5, 6.0)),
    "GeneralizedPareto": lambda: D.GeneralizedPareto(t(0.5, -1.0), t(1.0, 2.0), t(0.2, 0.0)),
    "Uniform": lambda: D.Uniform(t(-1.0, 2.0), t(0.5, 4.0)),
    "Beta": lambda: D.Beta(t(1.5, 3.0), t(2.0, 1.2)),
    "Kumaraswamy": lambda: D.Kumaraswamy(t(1.5, 3.0), t(2.0, 1.2)),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(t(0.2, 0.501)),
    "RelaxedBernoulli": lambda: D.RelaxedBernoulli(t(2.0), t(0.2, 0.6)),
    "VonMises": lambda: D.VonMises(t(-1.0, 2.0), t(0.7, 25.0)),
    "MixtureSameFamily": lambda: D.MixtureSameFamily(
        D.Categorical(t(0.3, 0.7).expand(2, 2)), D.Normal(t([-1.0, 1.0], [0.0, 3.0]), t(0.5, 0.7))
    ),
    "TransformedDistribution": lambda: D.TransformedDistribution(
        D.Normal(t(-1.0, 0.3), t(0.5, 0.8)), [D.AffineTransform(1.0, -2.0), D.SigmoidTransform()]
    ),
}

# Discrete ones of one variable; their values are the integers from 0.
DISCRETE = {
    "Bernoulli": lambda: D.Bernoulli(t(0.2, 0.7)),
    "Binomial": lambda: D.Binomial(7, t(0.2, 0.7)),
    "Geometric": lambda: D.Geometric(t(0.2, 0.7)),
    "NegativeBinomial": lambda: D.NegativeBinomial(t(2.5, 4.0), t(0.2, 0.5)),
    "Poisson": lambda: D.Poisson(t(0.6, 3.5)),
    "Categorical": lambda: D.Categorical(t([0.2, 0.5, 0.3], [0.1, 0.1, 0.8])),
}

# Those of vectors and matrices.
MULTIVARIATE = {
    "Dirichlet": lambda: D.Dirichlet(t([0.8, 2.0, 3.0], [1.5, 1.5, 4.0])),
    "OneHotCategorical": lambda: D.OneHotCategorical(t([0.2, 0.5, 0.3], [0.1, 0.1, 0.8])),
    "OneHotCategoricalStraightThrough": lambda: D.OneHotCategoricalStraightThrough(logits=t([0.2, 0.5], [0.1, 1.1])),
    "Multinomial": lambda: D.Multinomial(6, t([0.2, 0.5, 0.3], [0.1, 0.1, 0.8])),
    "RelaxedOneHotCategorical": lambda: D.RelaxedOneHotCategorical(t(1.5), t([0.2, 0.5, 0.3], [0.1, 0.1, 0.8])),
    "LogisticNormal": lambda: D.LogisticNormal(t([0.2, -0.5], [0.1, 1.1]), t(0.5, 0.9)),
    "MultivariateNormal": lambda: D.MultivariateNormal(
        t([0.2, -0.5], [0.1, 1.1]), scale_tril=t([[0.5, 0.0], [0.3, 0.8]], [[1.0, 0.0], [-0.4, 0.6]])
    ),
    "LowRankMultivariateNormal": lambda: D.LowRankMultivariateNormal(
        t([0.2, -0.5], [0.1, 1.1]), t([[1.0], [0.5]], [[-0.5], [0.3]]), t(0.5, 0.9)
    ),
    "Wishart": lambda: D.Wishart(t(4.0, 5.5), scale_tril=t([[0.5, 0.0], [0.3, 0.8]], [[1.0, 0.0], [-0.4, 0.6]])),
    "LKJCholesky": lambda: D.LKJCholesky(3, t(0.7, 2.0)),
    "Independent": lambda: D.Independent(D.Normal(t([0.2, -0.5], [0.1, 1.1]), t(0.5)), 1),
}

ALL = {**CONTINUOUS, **DISCRETE, **MULTIVARIATE}


def quadrature(d, nodes=6001):
    """Values along a first dimension and their weights, for integrals over the support of continuous distributions.

    The trapezoidal rule, in coordinates in which densities fall exponentially.
    """
    z = torch.linspace(-1, 1, nodes, dtype=DOUBLE).unsqueeze(-1)
    step = 2 / (nodes - 1)
    if isinstance(d, D.VonMises):
        # Both ends are one angle.
        z = z[1:]
        return (math.pi * z).expand(-1, 2), torch.full_like(z, math.pi * step)
    support = d.support
    if isinstance(support, constraints.MixtureSameFamilyConstraint):
        support = support.base_constraint
    upper = getattr(support, "upper_bound", None)
    if isinstance(upper, torch.Tensor) and upper.isinf().any():
        support = constraints.greater_than_eq(support.lower_bound)
    if support is constraints.real:
        x = (12 * z).sinh().expand(nodes, 2)
        return x, 12 * (12 * z).cosh() * step
    transform = D.biject_to(support)
    u = (34 * z).expand(nodes, 2)
    x = transform(u)
    return x, transform.log_abs_det_jacobian(u, x).exp() * 34 * step


def counts(d, most=200):
    """All values that matter of a discrete distribution, along a first dimension."""
    if d.has_enumerate_support:
        return d.enumerate_support()
    return torch.arange(most, dtype=DOUBLE).unsqueeze(-1).expand(most, 2)


def expectation(d, function):
    """``E[function(x)]`` of a distribution of one variable, by integration or by a sum over all values."""
    if d.support.is_discrete:
        x = counts(d)
        return (d.log_prob(x).exp() * function(x)).sum(0)
    x, weights = quadrature(d)
    density = d.log_prob(x).exp() * weights
    values = function(x)
    return (density * values).where(density > 0, 0.0).sum(0)
