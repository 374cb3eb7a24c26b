"""Derivatives, layouts and samples that custom functions of programs compute with directly."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import _C
from rgrad.random import drawing_from

Tensor = _C.Tensor


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    r"""The gradient of a softmax's input, :math:`y (g - \sum_j g_j y_j)`.

    Args:
        grad_output: the result's gradient.
        output: the result.
        dim: the dimension that the softmax sums to 1.
        input_dtype: the input's dtype, which the gradient gets.
    """
    weighted = grad_output * output
    return (weighted - output * weighted.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    r"""The gradient of a logarithm of softmax's input, :math:`g - e^y \sum_j g_j`.

    Args:
        grad_output: the result's gradient.
        output: the result.
        dim: the dimension that was normalized.
        input_dtype: the input's dtype, which the gradient gets.
    """
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


def convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Any,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of a convolution's input, weight and bias; `torch.ops.aten.convolution_backward`.

    Args:
        grad_output: the result's gradient.
        input: the convolution's input.
        weight: its weight.
        bias_sizes: accepted; the bias has one element for each channel of the result.
        stride: of the convolution, one number for each dimension of the image.
        padding: likewise.
        dilation: likewise.
        transposed: whether it was a transposed convolution.
        output_padding: of a transposed convolution.
        groups: the number of groups of channels.
        output_mask: for each of the gradients, whether it is computed; those that are not are None.
    """
    recorded = rgrad.is_grad_enabled()
    x, w = (t if recorded and t.requires_grad else t.detach().requires_grad_() for t in (input, weight))
    wanted = [t for t, asked in zip((x, w), output_mask, strict=False) if asked]
    found: list[Tensor] = []
    if wanted:
        with rgrad.enable_grad():
            out = rgrad.ops.aten.convolution(
                x, w, None, stride, padding, dilation, transposed, output_padding, groups
            )
        found = list(rgrad.autograd.grad(out, wanted, grad_output, create_graph=recorded))
    of_input = found.pop(0) if output_mask[0] else None
    of_weight = found.pop(0) if output_mask[1] else None
    of_bias = grad_output.sum([0, *range(2, grad_output.dim())]) if output_mask[2] else None
    return of_input, of_weight, of_bias


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """A weight of the direction of `v` and the norm of `g`, one for each index of `dim`."""
    return v * (g / rgrad.norm_except_dim(v, 2, dim))


def _shape_as_tensor(self: Tensor) -> Tensor:
    """The shape, as integers."""
    return rgrad.tensor(list(self.shape), dtype=rgrad.int64)


def _bools(x: Tensor) -> Tensor:
    if x.dtype != rgrad.bool:
        raise RuntimeError(f"expected a tensor of torch.bool, but got {x.dtype}")
    return x


def _is_all_true(self: Tensor) -> Tensor:
    """Whether all elements of a bool tensor are true, those of all slices in `vmap`, as a tensor."""
    return _C._batch_value(_bools(self))[0].all()


def _is_any_true(self: Tensor) -> Tensor:
    """Whether an element of a bool tensor is true, in any slice in `vmap`, as a tensor."""
    return _C._batch_value(_bools(self))[0].any()


def _convert_indices_from_coo_to_csr(self: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Where each row's entries begin, from the sorted row of each entry.

    Args:
        self: the row of each entry, ascending, of shape (entries,).
        size: the number of rows.
        out_int32: whether the result is int32 instead of int64.

    Returns:
        The position of each row's first entry, and the number of entries, of shape (size + 1,).
    """
    rows = rgrad.arange(size + 1, dtype=self.dtype, device=self.device)
    return rgrad.searchsorted(self.contiguous(), rows, out_int32=out_int32)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """The row and the column of each entry, from where the rows begin.

    Args:
        crow_indices: the position of each row's first entry, and the number of entries, of shape (rows + 1,).
        col_indices: the column of each entry.
        out_int32: whether the result is int32 instead of int64.
        transpose: whether the columns come first.

    Returns:
        Both, of shape (2, entries).
    """
    rows = rgrad.arange(crow_indices.numel() - 1, device=crow_indices.device).repeat_interleave(crow_indices.diff())
    pair = (col_indices, rows) if transpose else (rows, col_indices)
    return rgrad.stack([x.to(rgrad.int32 if out_int32 else rgrad.int64) for x in pair])


def _standard_gamma(self: Tensor, generator: Any = None) -> Tensor:
    """Samples of gamma distributions of rate 1, differentiable by the shape parameter.

    Args:
        self: the shape parameters, positive.
        generator: where the random numbers come from; the default generator if None.
    """
    from rgrad.distributions._sampling import standard_gamma

    with drawing_from(generator):
        return standard_gamma(self)


def _sample_dirichlet(self: Tensor, generator: Any = None) -> Tensor:
    """Samples of Dirichlet distributions, differentiable by their parameters.

    Args:
        self: the concentrations, positive, a distribution in the last dimension.
        generator: where the random numbers come from; the default generator if None.
    """
    from rgrad.distributions._sampling import dirichlet

    with drawing_from(generator):
        return dirichlet(self)
