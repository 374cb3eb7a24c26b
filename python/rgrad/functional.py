"""Products with several argument forms: ``einsum``, ``tensordot``, ``chain_matmul``."""

from __future__ import annotations

from collections.abc import Sequence

from rgrad import _C
from rgrad._C import Tensor

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any

__all__ = ["chain_matmul", "einsum", "tensordot"]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _side(labels: Sequence[Any]) -> str:
    """Converts an index list such as ``[0, Ellipsis, 2]`` to letters."""
    text = ""
    for label in labels:
        if label is Ellipsis:
            text += "..."
        elif isinstance(label, int) and 0 <= label < len(_LETTERS):
            text += _LETTERS[label]
        else:
            raise ValueError("subscript in subscript list is not within the valid range [0, 52)")
    return text


def einsum(*args: Any) -> Tensor:
    """Sum of products of tensors in index notation.

    Takes an equation and operands, or operands each followed by a list of index numbers, and finally the list of the
    result's. ``...`` stands for dimensions that are broadcast.

    >>> import rgrad as torch
    >>> a, b = torch.ones(2, 3), torch.ones(3, 4)
    >>> torch.einsum("ij,jk->ik", a, b).shape
    torch.Size([2, 4])
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): wants the equation string and at least one operand, or at least one operand and after each the "
            "list of its subscripts"
        )
    if isinstance(args[0], Tensor):
        equation = ",".join(_side(labels) for labels in args[1::2])
        if len(args) % 2 == 1:
            equation = ",".join(_side(labels) for labels in args[1:-1:2]) + "->" + _side(args[-1])
        operands: Sequence[Tensor] = args[: len(args) // 2 * 2 : 2]
    else:
        equation, operands = args[0], args[1:]
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    if not operands:
        raise ValueError("einsum(): wants at least one operand besides the equation")
    return _C._einsum(equation, list(operands))


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sum of products over pairs of dimensions.

    Args:
        a: The first factor.
        b: The second.
        dims: The number of last dimensions of ``a`` and first dimensions of ``b`` to sum over, or a list of
        dimensions each.
        out: Receives the result.

    >>> import rgrad as torch
    >>> torch.tensordot(torch.ones(2, 3, 4), torch.ones(3, 4, 5), dims=2).shape
    torch.Size([2, 5])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        result = _C._tensordot(a, b, dims)
    else:
        of_a, of_b = (list(d) if isinstance(d, (list, tuple)) else [d] for d in dims)
        result = _C._tensordot(a, b, of_a, of_b)
    if out is None:
        return result
    from rgrad._out import kind_of, write_out

    if out.dtype != result.dtype:
        raise RuntimeError(
            f"tensordot: Expected the output tensor to have dtype {kind_of(result)}, but got an output tensor with "
            f"dtype {kind_of(out)}"
        )
    return write_out("tensordot", result, out, recorded=True)


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """Product of several matrices: an older form of `rgrad.linalg.multi_dot`, which takes one matrix too."""
    for matrix in matrices:
        if matrix.dim() != 2:
            raise RuntimeError(f"Tensor dimension is {matrix.dim()}, expected 2 instead.")
    result = _C._chain_matmul(list(matrices))
    if out is None:
        return result
    from rgrad._out import write_exactly

    return write_exactly("chain_matmul", result, out)
