"""Normal distributions of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from . import constraints
from ._parameters import Parametric
from .distribution import Distribution as Distribution  # programs import it from here
from .utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]

_LOG_2PI = math.log(2 * math.pi)


def half_log_det(factor: Tensor) -> Tensor:
    """Half the log-determinant of ``L Lᵀ``."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _precision_to_scale_tril(precision: Tensor) -> Tensor:
    """The lower Cholesky factor of the inverse of a matrix.

    Rows and columns in reverse order turn the upper factor that the inverse's is the inverse of into a lower one.
    """
    reverse = (-2, -1)
    upper = rgrad.linalg.cholesky(precision.flip(reverse)).flip(reverse)
    identity = rgrad.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return rgrad.linalg.solve_triangular(upper.mT, identity.expand(upper.shape), upper=False)


def _batch_mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """Products of matrices and vectors whose batches broadcast."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(factor: Tensor, vectors: Tensor) -> Tensor:
    """``|L⁻¹ v|²`` for lower triangular matrices and vectors whose batches broadcast.

    Leading dimensions that only the vectors have become columns of one system, so that no matrix is repeated.
    """
    size = factor.shape[-1]
    own = factor.dim() - 2
    batch = rgrad.broadcast_shapes(factor.shape[:-2], vectors.shape[:-1])
    vectors = vectors.expand((*batch, size))
    lead = batch[: len(batch) - own]
    columns = vectors.reshape((-1, *batch[len(lead) :], size)).movedim(0, -1)
    solved = rgrad.linalg.solve_triangular(factor.expand((*batch[len(lead) :], size, size)), columns, upper=False)
    return (solved * solved).sum(-2).movedim(-1, 0).reshape(batch)


def batched(value: Tensor, batch: Sequence[int], dims: int) -> Tensor:
    """A parameter whose batch is broadcast to a shape; its last dimensions are kept."""
    return value.expand((*batch, *value.shape[value.dim() - dims :]))


def expect_matrices(name: str, value: Tensor) -> None:
    """Refuses what has no two dimensions."""
    if value.dim() < 2:
        raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")


def expect_one_matrix(**matrices: Tensor | None) -> tuple[str, Tensor]:
    """The name and value of the one that is given."""
    given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
    if len(given) != 1:
        raise ValueError(f"Exactly one of {' or '.join(matrices)} may be specified.")
    expect_matrices(*given[0])
    return given[0]


class Gaussian(Parametric):
    """What multivariate normal distributions share."""

    support = constraints.real_vector
    has_rsample = True
    loc: Tensor

    @property
    def mean(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """``loc``."""
        return self.loc


class CovarianceMatrix(Parametric):
    """What distributions share that are given by a covariance, by its inverse or by its Cholesky factor."""

    def _set_matrix(self, name: str, matrix: Tensor) -> None:
        """Sets the matrix that was given, and the factor that all is computed with."""
        vars(self)[name] = matrix
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = rgrad.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    def _expand_rest(self, new: Any, shape: rgrad.Size) -> None:
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril

    def _broadcast(self, matrix: Tensor) -> Tensor:
        return batched(matrix, self._batch_shape, 2)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._broadcast(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return self._broadcast(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._broadcast(rgrad.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(CovarianceMatrix, Gaussian):
    """The normal distribution of vectors, given by its covariance, its inverse or its Cholesky factor.

    Args:
        loc: means, ``(..., N)``.
        covariance_matrix: positive definite, ``(..., N, N)``.
        precision_matrix: its inverse, instead.
        scale_tril: its lower Cholesky factor, instead, which needs no factorization.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> d = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
    >>> d.log_prob(torch.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    _parameters = ("loc", "covariance_matrix", "precision_matrix", "scale_tril")

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = expect_one_matrix(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        shape = rgrad.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = batched(loc, shape, 1)
        vars(self)[name] = batched(matrix, shape, 2)
        super().__init__(shape, loc.shape[-1:], validate_args=validate_args)
        self._set_matrix(name, matrix)
        vars(self)[name] = batched(matrix, shape, 2)

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        squares = self._unbroadcasted_scale_tril**2
        return squares.sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """``loc + L z`` of a vector z of standard normal variables."""
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        factor = self._unbroadcasted_scale_tril
        square = _batch_mahalanobis(factor, self._checked(value) - self.loc)
        return -0.5 * (self._event_shape[0] * _LOG_2PI + square) - half_log_det(factor)

    def entropy(self) -> Tensor:
        """``N/2 (1 + log 2π) + log det L``."""
        constant = 0.5 * self._event_shape[0] * (1 + _LOG_2PI)
        return (half_log_det(self._unbroadcasted_scale_tril) + constant).expand(self._batch_shape)


class LowRankMultivariateNormal(Gaussian):
    """The normal distribution of vectors of covariance ``W Wᵀ + diag(d)``, where W has few columns.

    Inverse and determinant are those of the small matrix ``C = I + Wᵀ diag(1/d) W`` (Woodbury's identity and the matrix
    determinant lemma).

    Args:
        loc: means, ``(..., N)``.
        cov_factor: W, ``(..., N, M)``.
        cov_diag: d, positive, ``(..., N)``.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> w, d = torch.tensor([[1.0], [0.0]]), torch.ones(2)
    >>> torch.distributions.LowRankMultivariateNormal(torch.zeros(2), w, d).covariance_matrix
    tensor([[2., 0.],
            [0., 1.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    _parameters = ("loc", "cov_factor", "cov_diag")
    cov_factor: Tensor
    cov_diag: Tensor

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        expect_matrices("cov_factor", cov_factor)
        event = loc.shape[-1:]
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        shape = rgrad.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_diag = batched(loc, shape, 1), batched(cov_diag, shape, 1)
        self.cov_factor = batched(cov_factor, shape, 2)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        super().__init__(shape, event, validate_args=validate_args)
        self._capacitance_tril = self._capacitance(cov_factor, cov_diag)

    @staticmethod
    def _capacitance(factor: Tensor, diagonal: Tensor) -> Tensor:
        """The Cholesky factor of C."""
        small = factor.mT @ (factor / diagonal.unsqueeze(-1))
        return rgrad.linalg.cholesky(small + rgrad.eye(small.shape[-1], dtype=small.dtype, device=small.device))

    def _expand_rest(self, new: Any, shape: rgrad.Size) -> None:
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        squares = (self._unbroadcasted_cov_factor**2).sum(-1)
        return (squares + self._unbroadcasted_cov_diag).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        # Scaled to a matrix of the form I + A Aᵀ first, whose eigenvalues are at least 1.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        identity = rgrad.eye(self._event_shape[0], dtype=scaled.dtype, device=scaled.device)
        return batched(root * rgrad.linalg.cholesky(scaled @ scaled.mT + identity), self._batch_shape, 2)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        return batched(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed(), self._batch_shape, 2)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance: ``diag(1/d) - diag(1/d) W C⁻¹ Wᵀ diag(1/d)``."""
        inverse = self._unbroadcasted_cov_diag.reciprocal()
        scaled = self._unbroadcasted_cov_factor.mT * inverse.unsqueeze(-2)
        batch = rgrad.broadcast_shapes(scaled.shape[:-2], self._capacitance_tril.shape[:-2])
        solved = rgrad.linalg.solve_triangular(
            batched(self._capacitance_tril, batch, 2), batched(scaled, batch, 2), upper=False
        )
        return batched(inverse.diag_embed() - solved.mT @ solved, self._batch_shape, 2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """``loc + W z + √d e`` of vectors z and e of standard normal variables."""
        shape = self._extended_shape(sample_shape)
        rank = self.cov_factor.shape[-1]
        like = self.loc
        z = _standard_normal((*shape[:-1], rank), like.dtype, like.device)
        own = self._unbroadcasted_cov_diag.sqrt() * _standard_normal(shape, like.dtype, like.device)
        return like + _batch_mv(self._unbroadcasted_cov_factor, z) + own

    def _half_log_det(self) -> Tensor:
        return half_log_det(self._capacitance_tril) + 0.5 * self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        square = self.squared_distance(self._checked(value) - self.loc)
        return -0.5 * (self._event_shape[0] * _LOG_2PI + square) - self._half_log_det()

    def squared_distance(self, away: Tensor) -> Tensor:
        """``vᵀ Σ⁻¹ v`` of vectors from the mean."""
        scaled = away / self._unbroadcasted_cov_diag
        projected = _batch_mv(self._unbroadcasted_cov_factor.mT, scaled)
        return (away * scaled).sum(-1) - _batch_mahalanobis(self._capacitance_tril, projected)

    def entropy(self) -> Tensor:
        """``N/2 (1 + log 2π)`` and half the log-determinant of the covariance."""
        constant = 0.5 * self._event_shape[0] * (1 + _LOG_2PI)
        return (self._half_log_det() + constant).expand(self._batch_shape)
