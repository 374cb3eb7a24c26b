"""Products of matrices of 8-bit integers, which programs compute with that quantize weights themselves."""

from __future__ import annotations

import rgrad
from rgrad import _C
from rgrad._C import Tensor

# A product of two int8 has at most 15 bits, so that float32 adds up this many without rounding.
_EXACT_IN_FLOAT32 = 1024


def _check_matrix(name: str, t: Tensor) -> None:
    if t.dim() != 2:
        raise RuntimeError(f"Expected {name}.dim() == 2 to be true, but got {t.dim()} dimensions.")
    if t.dtype != _C.int8:
        kind = t.type().rpartition(".")[2].removesuffix("Tensor")
        raise RuntimeError(f"expected scalar type Char but found {kind}")


def _int_mm(self: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices of int8 in int32.

    Args:
        self: `(n, k)`, int8.
        mat2: `(k, m)`, int8.
        out: takes the result: `(n, m)`, int32.

    Raises:
        RuntimeError: for another dtype or shape.

    >>> import rgrad
    >>> a = rgrad.tensor([[100, 100]], dtype=rgrad.int8)
    >>> rgrad._int_mm(a, a.t())
    tensor([[20000]], dtype=torch.int32)
    """
    _check_matrix("self", self)
    _check_matrix("mat2", mat2)
    if self.size(1) != mat2.size(0):
        raise RuntimeError(f"self.size(1) needs to match mat2.size(0) but got {self.size(1)} and {mat2.size(0)}")
    if out is not None:
        if out.dtype != _C.int32:
            raise RuntimeError(f"Expected result dtype to be of type kInt but got {out.dtype}")
        for d, size in enumerate((self.size(0), mat2.size(1))):
            if out.dim() != 2 or out.size(d) != size:
                got = out.size(d) if out.dim() == 2 else f"{out.dim()} dimensions"
                raise RuntimeError(f"Expected result.size({d}) to be {size} but got {got}")
    exact = _C.float32 if self.size(1) <= _EXACT_IN_FLOAT32 else _C.float64
    result = (self.to(exact) @ mat2.to(exact)).to(_C.int32)
    return result if out is None else out.copy_(result)


def _weight_int8pack_mm(self: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    """The product of a matrix with a transposed weight of int8, one scale for each row of the weight.

    Args:
        self: `(n, k)`, floating point.
        mat2: the weight, `(m, k)`, int8.
        scales: `(m,)`, of the dtype of `self`.

    Returns:
        `(n, m)`, of the dtype of `self`.

    >>> import rgrad
    >>> weight = rgrad.tensor([[2, 3]], dtype=rgrad.int8)
    >>> rgrad._weight_int8pack_mm(rgrad.ones(1, 2), weight, rgrad.tensor([0.5]))
    tensor([[2.5000]])
    """
    if not self.is_floating_point():
        raise RuntimeError(f"_weight_int8pack_mm : expect A to be a floating point tensor, but got {self.dtype}.")
    _check_matrix("mat2", mat2)
    if scales.shape != mat2.shape[:1]:
        raise RuntimeError(
            f"_weight_int8pack_mm : expect scales to have the shape ({mat2.size(0)},), but got {tuple(scales.shape)}"
        )
    half = self.dtype in (rgrad.float16, rgrad.bfloat16)
    wide = self.float() if half else self
    return (wide @ mat2.to(wide.dtype).t() * scales.to(wide.dtype)).to(self.dtype)
