"""`torch.masked`: reductions and normalizations that leave out the elements where a mask is False.

An element left out counts as the identity of the operation: 0 for a sum, -inf for a maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rgrad
from rgrad._absent import absent_class, absent_function
from rgrad._C import Tensor, dtype

__all__ = [
    "MaskedTensor",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "as_masked_tensor",
    "cumprod",
    "cumsum",
    "is_masked_tensor",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "masked_tensor",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

_WHY = "a tensor has no mask of its own: pass it to the functions of this module"
MaskedTensor = absent_class("torch.masked.MaskedTensor", _WHY)
masked_tensor = absent_function("torch.masked.masked_tensor", _WHY)
as_masked_tensor = absent_function("torch.masked.as_masked_tensor", _WHY)

_Dims = int | tuple[int, ...] | list[int] | None


def is_masked_tensor(obj: Any) -> bool:
    """False: no tensor has a mask of its own."""
    return False


def _least(d: dtype) -> Any:
    if d == rgrad.bool:
        return False
    return float("-inf") if d.is_floating_point else rgrad.iinfo(d).min


def _greatest(d: dtype) -> Any:
    if d == rgrad.bool:
        return True
    return float("inf") if d.is_floating_point else rgrad.iinfo(d).max


def _shaped(input: Tensor, mask: Tensor) -> Tensor:
    """The mask, as bool, in the shape of the input."""
    if mask.dim() > input.dim():
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    return mask.expand(input.shape).to(rgrad.bool)


def _input_mask(input: Tensor, *args: Any, mask: Tensor | None = None, **kwargs: Any) -> Tensor:
    """The mask of a call, as bool, in the shape of the input."""
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    return _shaped(input, mask)


# What an element that is left out counts as, by operation: a number, or a function of the dtype.
_IDENTITIES: dict[str, Any] = {
    **dict.fromkeys(("sum", "cumsum", "norm"), 0),
    **dict.fromkeys(("prod", "cumprod"), 1),
    **dict.fromkeys(("amax", "argmax", "logaddexp", "logsumexp"), _least),
    **dict.fromkeys(("amin", "argmin"), _greatest),
    # These have none: they count their elements.
    **dict.fromkeys(("mean", "var", "std"), None),
    "median": float("nan"),
}


def _reduction_identity(op_name: str, input: Tensor, *args: Any) -> Tensor | None:
    """The identity of an operation in the dtype of a tensor, of no dimensions; None where there is none.

    Args:
        op_name: the name of a function of this module, with or without those of modules before it.
        input: the tensor.
        *args: for "norm" its order.

    Raises:
        NotImplementedError: for a function that has no such number, such as a softmax, or a maximum of bools.
    """
    name, to = op_name.rpartition(".")[2], input.dtype
    if name not in _IDENTITIES or (callable(_IDENTITIES[name]) and to == rgrad.bool):
        raise NotImplementedError(f"identity of {op_name} on {to} input")
    identity = _IDENTITIES[name]
    if identity is None:
        return None
    if name == "norm" and args and args[0] == float("-inf"):
        identity = _greatest
    if name == "median" and not to.is_floating_point:
        to = rgrad.float32
    return rgrad.tensor(identity(to) if callable(identity) else identity, dtype=to, device=input.device)


def _filled(input: Tensor, mask: Tensor | None, identity: Any) -> Tensor:
    """The input with the identity of an operation where the mask is False."""
    if mask is None:
        return input
    if callable(identity):
        identity = identity(input.dtype)
    return rgrad.where(_shaped(input, mask), input, rgrad.full((), identity, dtype=input.dtype, device=input.device))


def _cast(input: Tensor, to: dtype | None) -> Tensor:
    return input if to is None else input.to(to)


def _dims(input: Tensor, dim: _Dims) -> tuple[int, ...]:
    """The dimensions to reduce; all for None and for an empty tuple."""
    if dim is None or dim == () or dim == []:
        return tuple(range(input.dim()))
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    rank = max(input.dim(), 1)
    dims: list[int] = []
    for d in given:
        if not -rank <= d < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})")
        if d % rank in dims:
            raise RuntimeError(f"dim={d % rank} appears multiple times in the list of dims")
        dims.append(d % rank)
    return tuple(dims)


def sum(
    input: Tensor, dim: _Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The sum of the elements where `mask` is True.

    Args:
        input: a tensor.
        dim: the dimensions to reduce, all by default.
        keepdim: whether they stay, with a size of 1.
        dtype: to which the input is cast first.
        mask: bool, broadcast to the shape of the input; None for all elements.

    >>> import rgrad
    >>> rgrad.masked.sum(rgrad.tensor([1.0, 2.0]), mask=rgrad.tensor([True, False]))
    tensor(1.)
    """
    return rgrad.sum(_filled(_cast(input, dtype), mask, 0), _dims(input, dim), keepdim)


def prod(
    input: Tensor, dim: _Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The product of the elements where `mask` is True; the arguments are those of `sum`.

    An empty list of dimensions is none of them here, as in PyTorch; an empty tuple is all.
    """
    result = _filled(_cast(input, dtype), mask, 1)
    for d in () if isinstance(dim, list) and not dim else sorted(_dims(input, dim), reverse=True):
        result = rgrad.prod(result, d, keepdim)
    return result.to(rgrad.int64) if result.dtype == rgrad.bool else result


def amax(
    input: Tensor, dim: _Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The greatest of the elements where `mask` is True; the arguments are those of `sum`."""
    return rgrad.amax(_filled(_cast(input, dtype), mask, _least), _dims(input, dim), keepdim)


def amin(
    input: Tensor, dim: _Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The least of the elements where `mask` is True; the arguments are those of `sum`."""
    return rgrad.amin(_filled(_cast(input, dtype), mask, _greatest), _dims(input, dim), keepdim)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index of the greatest of the elements where `mask` is True, in the dtype of the input."""
    given = _cast(input, dtype)
    return rgrad.argmax(_filled(given, mask, _least), dim, keepdim).to(given.dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index of the least of the elements where `mask` is True, in the dtype of the input."""
    given = _cast(input, dtype)
    return rgrad.argmin(_filled(given, mask, _greatest), dim, keepdim).to(given.dtype)


def _count(input: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Tensor | None) -> Tensor:
    chosen = rgrad.ones_like(input, dtype=rgrad.int64) if mask is None else _shaped(input, mask)
    return rgrad.sum(chosen, dims, keepdim, dtype=rgrad.int64)


def mean(
    input: Tensor, dim: _Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The mean of the elements where `mask` is True, nan if there are none; the arguments are those of `sum`."""
    given = _cast(input, dtype)
    if not given.is_floating_point():
        raise ValueError(
            "mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {given.dtype}"
        )
    dims = _dims(input, dim)
    return sum(given, dims, keepdim=keepdim, mask=mask) / _count(given, dims, keepdim, mask)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The lower median of the elements along a dimension where `mask` is True, nan if there are none."""
    given = _cast(input, dtype)
    (d,) = _dims(given, dim)
    if given.dim() == 0:
        given, mask = given.reshape(1), None if mask is None else mask.reshape(1)
        return median(given, 0, keepdim=False, mask=mask)
    if mask is None:
        return rgrad.median(given, d, keepdim).values
    if given.is_floating_point():
        return rgrad.nanmedian(_filled(given, mask, float("nan")), d, keepdim).values
    if not _shaped(given, mask).any(d).all():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    # What is left out comes last in the order, and the median is looked up among the others.
    order = _filled(given, mask, _greatest).sort(d).values
    middle = ((_count(given, (d,), True, mask) - 1) // 2).clamp(min=0)
    found = order.gather(d, middle)
    return found if keepdim else found.squeeze(d)


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The norm of order `ord` of the elements where `mask` is True; the arguments are those of `sum`."""
    given = _cast(input, dtype)
    order = 2.0 if ord is None else ord
    left_out = _greatest if order == float("-inf") else 0
    return rgrad.linalg.vector_norm(_filled(given, mask, left_out), order, _dims(input, dim), keepdim)


def _spread(
    take_root: bool,
    input: Tensor,
    dim: _Dims,
    unbiased: bool | None,
    correction: float | None,
    keepdim: bool,
    to: dtype | None,
    mask: Tensor | None,
) -> Tensor:
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    given = _cast(input, to)
    if not given.is_floating_point():
        given = given.to(rgrad.get_default_dtype())
    dims = _dims(input, dim)
    count = _count(given, dims, True, mask)
    center = rgrad.sum(_filled(given, mask, 0), dims, True) / count
    squares = _filled((given - center).square(), mask, 0)
    freedom = (_count(given, dims, keepdim, mask) - correction).clamp(min=0)
    # A correction that is no integer makes `freedom` float32, which half types would be promoted to.
    result = (rgrad.sum(squares, dims, keepdim) / freedom).to(given.dtype)
    return result.sqrt() if take_root else result


def var(
    input: Tensor,
    dim: _Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of the elements where `mask` is True; `correction` (1 by default) is subtracted from the count."""
    return _spread(False, input, dim, unbiased, correction, keepdim, dtype, mask)


def std(
    input: Tensor,
    dim: _Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation of the elements where `mask` is True; the arguments are those of `var`."""
    return _spread(True, input, dim, unbiased, correction, keepdim, dtype, mask)


def logsumexp(
    input: Tensor, dim: _Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of the sum of the exponentials where `mask` is True; the arguments are those of `sum`."""
    given = _cast(input, dtype)
    return rgrad.logsumexp(_filled(given, mask, _least), _dims(input, dim), keepdim).to(given.dtype)


def _along(function: Callable[[Tensor, int], Tensor], identity: Any, summary: str) -> Callable[..., Tensor]:
    def masked(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
        (d,) = _dims(input, dim)
        return function(_filled(_cast(input, dtype), mask, identity), d)

    masked.__doc__ = f"{summary} along a dimension, over the elements where `mask` is True."
    return masked


softmax = _along(rgrad.softmax, _least, "The softmax")
log_softmax = _along(rgrad.log_softmax, _least, "The logarithm of the softmax")
softmin = _along(lambda x, d: rgrad.softmax(-x, d), _greatest, "The softmax of the negatives")
cumsum = _along(lambda x, d: rgrad.cumsum(x, d).to(x.dtype), 0, "The sums of the elements so far")
cumprod = _along(lambda x, d: rgrad.cumprod(x, d).to(x.dtype), 1, "The products of the elements so far")
for _function, _name in (
    *((softmax, "softmax"), (log_softmax, "log_softmax"), (softmin, "softmin"), (cumsum, "cumsum")),
    (cumprod, "cumprod"),
):
    _function.__name__ = _function.__qualname__ = _name


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The input divided by its norm of order `ord` along a dimension, at least `eps`; 0 where `mask` is False."""
    given = _cast(input, dtype)
    size = norm(given, ord, dim, keepdim=True, mask=mask).clamp(min=eps)
    return _filled(given, mask, 0) / size


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the sum of two exponentials, each 0 where its mask is False."""
    left = _filled(_cast(input, dtype), input_mask, float("-inf"))
    return rgrad.logaddexp(left, _filled(_cast(other, dtype), other_mask, float("-inf")))
