"""Invertible maps between regions, by which distributions are made of others and parameters kept in their region.

>>> import rgrad as torch
>>> from rgrad.distributions import transforms
>>> t = transforms.StickBreakingTransform()
>>> p = t(torch.zeros(2))
>>> p
tensor([0.3333, 0.3333, 0.3333])
>>> t.inv(p).abs().max() < 1e-6
tensor(True)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number
from typing import Any

import rgrad
from rgrad._C import Tensor
from rgrad.nn.functional import logsigmoid, pad, softplus

from . import constraints
from ._transform import (
    CatTransform,
    ComposeTransform,
    CumulativeDistributionTransform,
    IndependentTransform,
    ReshapeTransform,
    StackTransform,
    Transform,
    _expect_dims,
    identity_transform,
)
from .utils import broadcast_all, lazy_property, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
    "Transform",
    "identity_transform",
]


class _Increasing(Transform):
    """An increasing map of numbers without parameters."""

    bijective = True
    domain: Any = constraints.real
    _arguments = ()
    sign: Any = 1


class ExpTransform(_Increasing):
    """``y = exp(x)``: from all numbers to the positive ones.

    >>> import rgrad as torch
    >>> torch.distributions.ExpTransform()(torch.zeros(1))
    tensor([1.])
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``x``."""
        return x


class SigmoidTransform(_Increasing):
    """``y = 1 / (1 + exp(-x))``: from all numbers to those between 0 and 1, which it doesn't reach.

    >>> import rgrad as torch
    >>> torch.distributions.SigmoidTransform()(torch.zeros(1))
    tensor([0.5000])
    """

    codomain = constraints.unit_interval

    @staticmethod
    def _inside(y: Tensor) -> Tensor:
        limits = rgrad.finfo(y.dtype)
        return y.clamp(limits.tiny, 1.0 - limits.eps)

    def _call(self, x: Tensor) -> Tensor:
        return self._inside(x.sigmoid())

    def _inverse(self, y: Tensor) -> Tensor:
        y = self._inside(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log y + log(1 - y)``, from ``x``."""
        return logsigmoid(x) + logsigmoid(-x)


class SoftplusTransform(_Increasing):
    """``y = log(1 + exp(x))``: from all numbers to the positive ones.

    >>> import rgrad as torch
    >>> torch.distributions.SoftplusTransform()(torch.tensor([50.0]))
    tensor([50.])
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return y + (-(-y).expm1()).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log(sigmoid(x))``."""
        return logsigmoid(x)


class TanhTransform(_Increasing):
    """``y = tanh(x)``: from all numbers to those between -1 and 1.

    Near the ends the inverse loses precision; with ``cache_size=1`` results of this transform are inverted exactly.

    >>> import rgrad as torch
    >>> torch.distributions.TanhTransform()(torch.zeros(1))
    tensor([0.])
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log(1 - y²) = log 4 + log(sigmoid(2x)) + log(sigmoid(-2x))``, which doesn't cancel for large ``x``."""
        return math.log(4.0) + logsigmoid(2.0 * x) + logsigmoid(-2.0 * x)


class AbsTransform(Transform):
    """``y = |x|``, whose inverse gives the value that isn't negative.

    >>> import rgrad as torch
    >>> torch.distributions.AbsTransform()(torch.tensor([-2.0]))
    tensor([2.])
    """

    domain = constraints.real
    codomain = constraints.positive
    _arguments = ()

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class PowerTransform(Transform):
    """``y = x ** exponent`` of positive numbers.

    Args:
        exponent: the power, a tensor that broadcasts with the values, or a number.
        cache_size: 0 or 1.

    >>> import rgrad as torch
    >>> torch.distributions.PowerTransform(torch.tensor(2.0))(torch.tensor([3.0]))
    tensor([9.])
    """

    bijective = True
    domain = constraints.positive
    codomain = constraints.positive
    _arguments = ("exponent",)

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @lazy_property
    def sign(self) -> Tensor:
        """That of the exponent."""
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log |exponent · y / x|``."""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape broadcast with the exponent's."""
        return rgrad.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """``y = loc + scale · x``.

    Args:
        loc: what is added, a tensor or a number.
        scale: what is multiplied by, a tensor or a number.
        event_dim: how many dimensions one value has: 0 for numbers, 1 for vectors, 2 for matrices.
        cache_size: 0 or 1.

    >>> import rgrad as torch
    >>> torch.distributions.AffineTransform(1.0, 2.0)(torch.tensor([3.0]))
    tensor([7.])
    """

    bijective = True
    _arguments = ("loc", "scale", "event_dim")

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        """The number of dimensions of one value."""
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """All numbers, or vectors or matrices of them."""
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    codomain = domain

    @property
    def sign(self) -> Any:
        """That of the scale."""
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log |scale|``, summed over a value."""
        if isinstance(self.scale, Number):
            each = rgrad.full_like(x, math.log(abs(self.scale)))  # type: ignore[arg-type]
        else:
            each = self.scale.abs().log().expand(rgrad.broadcast_shapes(x.shape, self.scale.shape))
        return each.sum(tuple(range(-self._event_dim, 0))) if self._event_dim else each

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape broadcast with those of the parameters."""
        return rgrad.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


class SoftmaxTransform(Transform):
    """``y = softmax(x)`` along the last dimension; the inverse is ``log y``, which the softmax undoes.

    It has no determinant, as adding a number to all of ``x`` changes nothing.

    >>> import rgrad as torch
    >>> torch.distributions.SoftmaxTransform()(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    _arguments = ()

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The same shape, of vectors."""
        _expect_dims(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """From vectors of K numbers to K + 1 probabilities, which are broken off a stick one after the other.

    Of what is left, the k-th takes the share ``sigmoid(x_k - log(K - k))``, with k counted from 0, so that zeros
    give equal probabilities.

    >>> import rgrad as torch
    >>> torch.distributions.StickBreakingTransform()(torch.zeros(3))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True
    _arguments = ()

    @staticmethod
    def _offset(like: Tensor) -> Tensor:
        return rgrad.arange(like.shape[-1], 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x: Tensor) -> Tensor:
        u = x - self._offset(x)
        share, rest = u.sigmoid(), (-u).sigmoid().cumprod(-1)
        return pad(share, (0, 1), value=1.0) * pad(rest, (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        taken = y[..., :-1]
        # What is left after each, not below the least positive number: rounding may make the sum of all exceed 1.
        rest = (1 - taken.cumsum(-1)).clamp(min=rgrad.finfo(y.dtype).tiny)
        return taken.log() - rest.log() + self._offset(taken)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``sum(log y_k + log(1 - share_k))``: each share changes its own piece, and later ones only besides."""
        return (y[..., :-1].log() + logsigmoid(self._offset(x) - x)).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """One more in the last dimension."""
        _expect_dims(shape, 1)
        return rgrad.Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """One less in the last dimension."""
        _expect_dims(shape, 1)
        return rgrad.Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """From square matrices to lower triangular ones with a positive diagonal, of which it takes the exponential.

    What is above the diagonal is ignored.

    >>> import rgrad as torch
    >>> torch.distributions.LowerCholeskyTransform()(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky
    _arguments = ()

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """From square matrices to positive definite ones, ``L Lᵀ`` of what `LowerCholeskyTransform` gives.

    >>> import rgrad as torch
    >>> torch.distributions.PositiveDefiniteTransform()(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite
    _arguments = ()

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(rgrad.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """From vectors of ``D(D - 1)/2`` numbers to Cholesky factors of D by D correlation matrices.

    The numbers' tanh are the partial correlations, row by row, of which each row takes its part of what its earlier
    entries left of the length 1 (Lewandowski, Kurowicka, Joe: Generating random correlation matrices based on vines
    and extended onion method, 2009).

    >>> import rgrad as torch
    >>> torch.distributions.CorrCholeskyTransform()(torch.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True
    _arguments = ()

    @staticmethod
    def _left(y: Tensor) -> Tensor:
        """What the entries before each of a row leave of its squared length."""
        return pad(1 - (y * y).cumsum(-1)[..., :-1], (1, 0), value=1.0)

    def _call(self, x: Tensor) -> Tensor:
        eps = rgrad.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(-1 + eps, 1 - eps), diag=-1)
        left = pad((1 - partial * partial).sqrt().cumprod(-1)[..., :-1], (1, 0), value=1.0)
        return (partial + rgrad.eye(partial.shape[-1], dtype=x.dtype, device=x.device)) * left

    def _inverse(self, y: Tensor) -> Tensor:
        partial = tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(self._left(y), -1).sqrt()
        return (partial.log1p() - (-partial).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Each entry is its partial correlation times the root of what is left, and depends on no later number."""
        of_tanh = TanhTransform().log_abs_det_jacobian(x, x)
        return (of_tanh + 0.5 * tril_matrix_to_vec(self._left(y), -1).log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Square matrices for vectors."""
        _expect_dims(shape, 1)
        n = shape[-1]
        side = (1 + math.isqrt(1 + 8 * n)) // 2
        if side * (side - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return rgrad.Size((*shape[:-1], side, side))

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Vectors for square matrices."""
        _expect_dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return rgrad.Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))
