"""What the distributions share: broadcasting of arguments, probabilities and logits, lazy properties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import rgrad
from rgrad._C import Tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors of one common shape.

    Args:
        values: tensors of shapes that broadcast together, and numbers. Numbers become tensors of the dtype and device
            of the first tensor, or of the default ones if there is none.

    >>> import rgrad as torch
    >>> low, high = torch.distributions.utils.broadcast_all(0, torch.ones(2))
    >>> low
    tensor([0., 0.])
    """
    if not all(_is_tensor(value) or isinstance(value, Number) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects that have __torch_function__."
        )
    first = next((value for value in values if _is_tensor(value)), None)
    like: dict[str, Any] = {"dtype": rgrad.get_default_dtype()}
    if first is not None:
        like = {"dtype": first.dtype, "device": first.device}
    return tuple(rgrad.broadcast_tensors(*(v if _is_tensor(v) else rgrad.tensor(v, **like) for v in values)))


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    return rgrad.randn(tuple(shape), dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` dimensions."""
    return value.sum(tuple(range(-dim, 0))) if dim else value


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities moved off 0 and 1 by the machine epsilon, so that their logarithms are finite.

    >>> import rgrad as torch
    >>> torch.distributions.utils.clamp_probs(torch.tensor([0.0, 0.5])).log().isfinite()
    tensor([True, True])
    """
    eps = rgrad.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The inverse of `probs_to_logits`: a sigmoid, or the softmax over the last dimension.

    >>> import rgrad as torch
    >>> torch.distributions.utils.logits_to_probs(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log-odds of probabilities, which are clamped first.

    Args:
        probs: probabilities of any shape.
        is_binary: whether each is that of one of two outcomes, whose logit is ``log(p) - log(1 - p)``. Otherwise they
            are those of the categories along the last dimension, and the logit of each is ``log(p)``.

    >>> import rgrad as torch
    >>> torch.distributions.utils.probs_to_logits(torch.tensor([0.5]), is_binary=True)
    tensor([0.])
    """
    inner = clamp_probs(probs)
    return inner.log() - (-inner).log1p() if is_binary else inner.log()


class lazy_property:
    """A property that is computed at its first use and then is a plain attribute of the instance.

    Gradients are recorded whatever the mode at that use, as the attribute lives on.

    >>> import rgrad as torch
    >>> class Once:
    ...     @torch.distributions.utils.lazy_property
    ...     def value(self):
    ...         print("computed")
    ...         return 1
    >>> once = Once()
    >>> once.value + once.value
    computed
    2
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.__name__ = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with rgrad.enable_grad():
            found = vars(instance)[self.wrapped.__name__] = self.wrapped(instance)
        return found


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of matrices, row by row.

    Args:
        mat: square matrices, ``(..., N, N)``.
        diag: the last diagonal that counts: 0 is the main one, -1 that below it.

    Returns:
        a tensor of shape ``(..., K)``, where ``K`` is the number of entries of the triangle.

    >>> import rgrad as torch
    >>> torch.distributions.utils.tril_matrix_to_vec(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 3., 4.])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    row, column = rgrad.tril_indices(n, n, diag).to(mat.device).unbind()
    return mat[..., row, column]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The inverse of `tril_matrix_to_vec`: what is not in the triangle is 0.

    Args:
        vec: entries, ``(..., K)``.
        diag: the last diagonal that they fill.

    >>> import rgrad as torch
    >>> torch.distributions.utils.vec_to_tril_matrix(torch.tensor([1.0, 3.0, 4.0]))
    tensor([[1., 0.],
            [3., 4.]])
    """
    # K = (n + diag)(n + diag + 1) / 2 for diag <= 0; above the main diagonal a corner is missing.
    # `diag` is a diagonal of the matrix, which bounds its size from below.
    entries, n = vec.shape[-1], max(1, -diag, diag + 1)
    while (count := _triangle(n, diag)) < entries:
        n += 1
    if count != entries:
        raise ValueError(f"the last dimension, {entries}, is not the number of entries of a lower triangle")
    row, column = rgrad.tril_indices(n, n, diag).to(vec.device).unbind()
    full = vec.new_zeros((*vec.shape[:-1], n, n))
    place = (row * n + column).expand(vec.shape)
    return full.flatten(-2).scatter(-1, place, vec).unflatten(-1, (n, n))


def _triangle(n: int, diag: int) -> int:
    """How many entries of an n by n matrix lie on or below a diagonal."""
    return sum(min(max(row + diag + 1, 0), n) for row in range(n))
