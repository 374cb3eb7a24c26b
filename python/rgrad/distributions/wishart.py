"""Distributions of matrices: covariances and Cholesky factors of correlations."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor
from rgrad._special.integrals import mvdigamma, mvlgamma

from . import constraints
from ._parameters import Parametric
from ._sampling import standard_gamma
from .dirichlet import Beta
from .exp_family import ExponentialFamily
from .multivariate_normal import CovarianceMatrix, _precision_to_scale_tril, batched, expect_one_matrix, half_log_det

__all__ = ["LKJCholesky", "Wishart"]

_MOST_DRAWS = 10


class Wishart(CovarianceMatrix, ExponentialFamily):
    """The Wishart distribution: that of the sum of ``df`` outer products of normal vectors of covariance V.

    Args:
        df: degrees of freedom, above ``N - 1``, of any shape; it needs not be whole.
        covariance_matrix: V, positive definite, ``(..., N, N)``.
        precision_matrix: its inverse, instead.
        scale_tril: its lower Cholesky factor, instead.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Wishart(torch.tensor(3.0), torch.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = ("df", "covariance_matrix", "precision_matrix", "scale_tril")
    df: Tensor

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = expect_one_matrix(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        df = df if isinstance(df, Tensor) else matrix.new_tensor(df)
        shape = rgrad.broadcast_shapes(df.shape, matrix.shape[:-2])
        event: Any = matrix.shape[-2:]
        self.df = df.expand(shape)
        if (df <= event[0] - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event[0] - 1}.")
        vars(self)[name] = batched(matrix, shape, 2)
        self._event_shape = event
        super().__init__(shape, event, validate_args=validate_args)
        if self._validate_args and (df < event[0]).any():
            warnings.warn(
                f"Low df values detected: below {event[0]}, samples are nearly singular.", stacklevel=2
            )
        self._set_matrix(name, matrix)
        vars(self)[name] = batched(matrix, shape, 2)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The degrees of freedom are bounded by the size of the matrices."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    @property
    def _size(self) -> int:
        return self._event_shape[-1]

    def _by_matrix(self, values: Tensor) -> Tensor:
        return values.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        """``df V``."""
        return self._by_matrix(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """``(df - N - 1) V``, NaN where that isn't positive."""
        factor = self.df - self._size - 1
        return self._by_matrix(factor.masked_fill(factor <= 0, rgrad.nan)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """``df (V_ij² + V_ii V_jj)``."""
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._by_matrix(self.df) * (v * v + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """``L A Aᵀ Lᵀ`` of Bartlett's matrix A: roots of chi-squared variables, and normal ones below them.

        With few degrees of freedom, rounding may leave matrices that aren't positive definite. They are drawn again,
        with a warning, up to `_MOST_DRAWS` times.
        """
        drawn = self._draw(sample_shape)
        singular = ~self.support.check(drawn)
        if not singular.any():
            return drawn
        warnings.warn("Singular sample detected.", stacklevel=2)
        for _ in range(_MOST_DRAWS - 1):
            drawn = rgrad.where(self._by_matrix(singular), self._draw(sample_shape), drawn)
            singular = ~self.support.check(drawn)
            if not singular.any():
                break
        return drawn

    def _draw(self, sample_shape: Sequence[int]) -> Tensor:
        shape, n = self._extended_shape(sample_shape), self._size
        factor = self._unbroadcasted_scale_tril
        below = rgrad.randn(shape, dtype=factor.dtype, device=factor.device).tril(-1)
        freedom = self.df.to(factor.dtype).unsqueeze(-1) - rgrad.arange(n, dtype=factor.dtype, device=factor.device)
        squares = 2 * standard_gamma((freedom / 2).expand((*shape[:-2], n)))
        product = factor @ (below + squares.sqrt().diag_embed())
        return product @ product.mT

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        value = self._checked(value)
        factor, n = self._unbroadcasted_scale_tril, self._size
        batch = rgrad.broadcast_shapes(factor.shape[:-2], value.shape[:-2])
        whitened = rgrad.cholesky_solve(batched(value, batch, 2), batched(factor, batch, 2))
        trace = whitened.diagonal(dim1=-2, dim2=-1).sum(-1)
        # A Cholesky factor depends on the lower half of the matrix alone; the gradient is to be that of both halves.
        symmetric = 0.5 * (value + value.mT)
        inside = (self.df - n - 1) * half_log_det(rgrad.linalg.cholesky(symmetric)) - 0.5 * trace
        return inside - self._log_norm(self.df, half_log_det(factor))

    def _log_norm(self, df: Tensor, half: Tensor) -> Tensor:
        """Of half the log-determinant of V."""
        n = self._size
        return df * (half + 0.5 * n * math.log(2)) + mvlgamma(df / 2, n)

    def entropy(self) -> Tensor:
        """``-E[log p]``, where ``E[log |X|] = ψ_N(df/2) + N log 2 + log |V|`` and ``E[tr V⁻¹X] = N df``."""
        n, half = self._size, half_log_det(self._unbroadcasted_scale_tril)
        log_det = mvdigamma(self.df / 2, n) + n * math.log(2) + 2 * half
        return self._log_norm(self.df, half) - 0.5 * (self.df - n - 1) * log_det + 0.5 * n * self.df

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return -0.5 * self.precision_matrix, 0.5 * (self.df - self._size - 1)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        matrix, power = natural_params
        return self._log_norm(2 * power + self._size + 1, half_log_det(_precision_to_scale_tril(-2 * matrix)))


class LKJCholesky(Parametric):
    """The distribution of Cholesky factors L of correlation matrices, where ``p(L Lᵀ) ∝ det(L Lᵀ)^(η - 1)``.

    (Lewandowski, Kurowicka, Joe: Generating random correlation matrices based on vines and extended onion method,
    2009.) Below its diagonal, row i, counted from 0, is a vector of a uniform direction whose squared length is a
    beta variable of ``i/2`` and ``η + (N - 1 - i)/2``.

    Args:
        dim: size N of the matrices.
        concentration: η, positive, of any shape; with 1, all correlation matrices are equally likely.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.LKJCholesky(3, 0.5).sample((5,)).shape
    torch.Size([5, 3, 3])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _parameters = ("concentration",)
    concentration: Tensor

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self._set(validate_args, concentration=concentration)
        self._event_shape = rgrad.Size((dim, dim))

    def _expand_rest(self, new: Any, shape: rgrad.Size) -> None:
        new.dim = self.dim

    def _rows(self) -> tuple[Tensor, Tensor]:
        """Both parameters of the squared lengths, of all rows but the first."""
        eta = self.concentration.unsqueeze(-1)
        i = rgrad.arange(1, self.dim, dtype=eta.dtype, device=eta.device)
        return (i / 2).expand((*self._batch_shape, self.dim - 1)), eta + (self.dim - 1 - i) / 2

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws row by row."""
        shape = self._extended_shape(sample_shape)
        with rgrad.no_grad():
            squares = Beta(*self._rows(), validate_args=False).sample(sample_shape)
            squares = rgrad.nn.functional.pad(squares, (1, 0))
            noise = rgrad.randn(shape, dtype=squares.dtype, device=squares.device).tril(-1)
            # The first row has nothing below the diagonal.
            lengths = noise.norm(2, -1, keepdim=True).clamp(min=rgrad.finfo(squares.dtype).tiny)
            diagonal = (1 - squares).clamp(min=rgrad.finfo(squares.dtype).tiny).sqrt()
            return noise / lengths * squares.sqrt().unsqueeze(-1) + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of the entries below the diagonal: see `Distribution.log_prob`."""
        value = self._checked(value)
        half, rest = self._rows()
        logs = value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()
        normalizer = (half + rest).lgamma() - rest.lgamma() - half * math.log(math.pi)
        return (2 * (rest - 1) * logs + normalizer).sum(-1)
