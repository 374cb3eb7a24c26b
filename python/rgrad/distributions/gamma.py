"""The gamma distribution and those that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor
from rgrad._special.integrals import gammainc, log_beta

from . import constraints
from ._parameters import Composite, Parametric
from ._sampling import standard_gamma
from .exp_family import ExponentialFamily
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform

__all__ = ["Chi2", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT"]


class Gamma(Parametric, ExponentialFamily):
    """The gamma distribution, of density ``rate^c x^(c - 1) exp(-rate x) / Γ(c)`` for a concentration c.

    Samples are differentiable with respect to both parameters.

    Args:
        concentration: shape parameter, of any shape.
        rate: inverse scale, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Gamma(1.0, 2.0).cdf(torch.tensor(0.5))
    tensor(0.6321)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = ("concentration", "rate")
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Tensor:
        """``concentration / rate``."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """``(concentration - 1) / rate``, or 0."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """``concentration / rate²``."""
        return self.concentration / self.rate**2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Standard gamma samples over the rate."""
        shape = self._extended_shape(sample_shape)
        drawn = standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        return _above_zero(drawn)

    def log_prob(self, value: Tensor | float) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        value = self._checked(rgrad.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device))
        c = self.concentration
        return rgrad.xlogy(c, self.rate) + rgrad.xlogy(c - 1, value) - self.rate * value - c.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        """The regularized incomplete gamma function ``P(concentration, rate x)``."""
        return gammainc(self.concentration, self.rate * self._checked(value))

    def entropy(self) -> Tensor:
        """``c - log rate + log Γ(c) + (1 - c) ψ(c)``."""
        c = self.concentration
        return c - self.rate.log() + c.lgamma() + (1 - c) * c.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        first, second = natural_params
        return (first + 1).lgamma() - (first + 1) * (-second).log()


def _above_zero(drawn: Tensor) -> Tensor:
    """Samples of a density that isn't defined at 0, which they were rounded to; gradients pass."""
    drawn.detach().clamp_(min=rgrad.finfo(drawn.dtype).tiny)
    return drawn


class Chi2(Gamma):
    """The chi-squared distribution: that of the sum of ``df`` squares of standard normal variables.

    Args:
        df: degrees of freedom, of any shape.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}
    _parameters = ("concentration", "rate")

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


class InverseGamma(Composite, TransformedDistribution):
    """The distribution of ``1 / x`` of a gamma variable x.

    Args:
        concentration: shape parameter of the gamma distribution, of any shape.
        rate: its rate, which is the scale of this one, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.InverseGamma(3.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = ("concentration", "rate")
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        reciprocal = PowerTransform(-rgrad.ones((), dtype=base.rate.dtype, device=base.rate.device))
        super().__init__(base, reciprocal, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """Shape parameter."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """Scale."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """``rate / (c - 1)`` for a concentration c above 1, else infinite."""
        c = self.concentration
        return (self.rate / (c - 1)).where(c > 1, rgrad.inf)

    @property
    def mode(self) -> Tensor:
        """``rate / (c + 1)``."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """``(rate / (c - 1))² / (c - 2)`` for a concentration c above 2, else infinite."""
        c = self.concentration
        return (self.rate**2 / (c - 1) ** 2 / (c - 2)).where(c > 2, rgrad.inf)

    def entropy(self) -> Tensor:
        """``c + log rate + log Γ(c) - (1 + c) ψ(c)``."""
        c = self.concentration
        return c + self.rate.log() + c.lgamma() - (1 + c) * c.digamma()


class FisherSnedecor(Parametric):
    """The F distribution: that of the ratio of two chi-squared variables, each over its degrees of freedom.

    Args:
        df1: degrees of freedom above, of any shape.
        df2: those below, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = ("df1", "df2")
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, df1=df1, df2=df2)

    @property
    def mean(self) -> Tensor:
        """``df2 / (df2 - 2)``, NaN up to 2."""
        return (self.df2 / (self.df2 - 2)).where(self.df2 > 2, rgrad.nan)

    @property
    def mode(self) -> Tensor:
        """``(df1 - 2) df2 / (df1 (df2 + 2))``, NaN where df1 is at most 2."""
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return found.where(self.df1 > 2, rgrad.nan)

    @property
    def variance(self) -> Tensor:
        """``2 df2² (df1 + df2 - 2) / (df1 (df2 - 2)² (df2 - 4))``, NaN where df2 is at most 4."""
        n, m = self.df1, self.df2
        found = 2 * m**2 * (n + m - 2) / (n * (m - 2) ** 2 * (m - 4))
        return found.where(m > 4, rgrad.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The ratio of two gamma samples."""
        shape = self._extended_shape(sample_shape)
        above, below = (
            _above_zero(standard_gamma(df.expand(shape) / 2) / (df / 2)) for df in (self.df1, self.df2)
        )
        return _above_zero(above / below)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        value = self._checked(value)
        n, m = self.df1 / 2, self.df2 / 2
        ratio = self.df1 / self.df2
        return n * ratio.log() + (n - 1) * value.log() - (n + m) * (ratio * value).log1p() - log_beta(n, m)


class StudentT(Parametric):
    """Student's t distribution: that of ``loc + scale z / √(v / df)`` of z standard normal and v chi-squared.

    Args:
        df: degrees of freedom, of any shape.
        loc: location, of a shape that broadcasts with it.
        scale: scale, likewise; it is not the standard deviation.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.StudentT(4.0).variance
    tensor(2.)
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = ("df", "loc", "scale")
    df: Tensor
    loc: Tensor
    scale: Tensor

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self._set(validate_args, df=df, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        """``loc``, NaN where df is at most 1."""
        return self.loc.where(self.df > 1, rgrad.nan)

    @property
    def mode(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """``scale² df / (df - 2)``, infinite from 2 down, NaN from 1 down."""
        found = (self.scale**2 * self.df / (self.df - 2)).where(self.df > 2, rgrad.inf)
        return found.where(self.df > 1, rgrad.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """A normal sample over the root of a gamma sample."""
        shape = self._extended_shape(sample_shape)
        noise = rgrad.randn(shape, dtype=self.df.dtype, device=self.df.device)
        half = self.df.expand(shape) / 2
        return self.loc + self.scale * noise * (standard_gamma(half) / half).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        z = (self._checked(value) - self.loc) / self.scale
        return -0.5 * (self.df + 1) * (z * z / self.df).log1p() - self._log_norm()

    def _log_norm(self) -> Tensor:
        """``log(scale √df B(df/2, 1/2))``."""
        half = rgrad.full_like(self.df, 0.5)
        return self.scale.log() + 0.5 * self.df.log() + log_beta(self.df / 2, half)

    def entropy(self) -> Tensor:
        """``(df + 1)/2 (ψ((df + 1)/2) - ψ(df/2)) + log(scale √df B(df/2, 1/2))``."""
        above = (self.df + 1) / 2
        return above * (above.digamma() - (self.df / 2).digamma()) + self._log_norm()
