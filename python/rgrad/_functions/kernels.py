"""Private functions of PyTorch's implementation that its modules, copies of them and programs call."""

from __future__ import annotations

import math
import warnings
from typing import Any

import rgrad
from rgrad import _C
from rgrad._out import write_exactly
from rgrad.nn import functional as F

Tensor = _C.Tensor

_grid_sampler_2d_cpu_fallback = _C.grid_sampler


def _softmax(input: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """`rgrad.softmax`; of float16 in float32 if `half_to_float`, which only GPUs do."""
    if half_to_float and not input.is_cuda:
        raise RuntimeError("softmax with half to float conversion is not supported on CPU")
    return input.softmax(dim, dtype=rgrad.float32 if half_to_float else None)


def _log_softmax(input: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """`rgrad.log_softmax`; of float16 in float32 if `half_to_float`, which only GPUs do."""
    if half_to_float and not input.is_cuda:
        raise RuntimeError("softmax with half to float conversion is not supported on CPU")
    return input.log_softmax(dim, dtype=rgrad.float32 if half_to_float else None)


def _masked_softmax(input: Tensor, mask: Tensor, dim: int | None = None, mask_type: int | None = None) -> Tensor:
    """`softmax` over the elements at which a mask is False; 0 elsewhere, and NaN where it leaves no element.

    Args:
        input: of any shape; scores (B, heads, L, L) for the first two kinds of masks.
        mask: bools: (L, L) of kind 0, (B, L) of kind 1, which masks keys, else of the input's shape.
        dim: along which the results add up to 1; the last by default.
        mask_type: the kind; a mask of the input's shape may be of any.
    """
    if mask.dtype != rgrad.bool:
        raise RuntimeError("Mask should be a boolean tensor")
    kind = 2 if mask_type is None else mask_type
    if mask.shape != input.shape:
        if input.dim() == 4 and kind == 0:
            if mask.shape != (input.size(2), input.size(2)) or input.size(2) != input.size(3):
                raise RuntimeError("For mask_type == 0 mask shape should be (L, L)")
        elif input.dim() == 4 and kind == 1:
            if mask.shape != (input.size(0), input.size(2)) or input.size(2) != input.size(3):
                raise RuntimeError("For mask_type == 1 mask shape should be (B, L)")
            mask = mask[:, None, None, :]
        else:
            raise RuntimeError("For mask_type == 2 mask shape should match input shape")
    return input.masked_fill(mask, -math.inf).softmax(-1 if dim is None else dim)


def _addmm_activation(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
    use_gelu: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """`rgrad.addmm` followed by an activation.

    Args:
        input: what is added, broadcast to (n, m).
        mat1: (n, k).
        mat2: (k, m).
        beta: by which `input` is multiplied.
        alpha: by which the product is multiplied.
        use_gelu: whether the activation is `gelu`, else it is `relu`.
        out: receives the result.
    """
    made = rgrad.addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    made = F.gelu(made) if use_gelu else F.relu(made)
    return made if out is None else write_exactly("_addmm_activation", made, out)


def _compute_linear_combination(input: Tensor, coefficients: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums of the rows of a tensor, each times a number.

    Args:
        input: (n, ...).
        coefficients: (m, k) with k not above n; the rows of `input` beyond are left out.
        out: (m, ...); the sums are added to it.

    Returns:
        (m, ...).
    """
    made = rgrad.tensordot(coefficients, input[: coefficients.size(1)], 1)
    return made if out is None else out.add_(made)


def _nnpack_spatial_convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, padding: Any, stride: Any = 1
) -> Tensor:
    """`rgrad.conv2d`, by the name of one of PyTorch's implementations."""
    return rgrad.conv2d(input, weight, bias, stride, padding)


def _transform_bias_rescale_qkv(qkv: Tensor, qkv_bias: Tensor, num_heads: int) -> tuple[Tensor, ...]:
    """Queries, keys and values by head, with their bias; the queries divided by the root of a head's width.

    Args:
        qkv: ``(B, L, 3 * D)``.
        qkv_bias: ``(3 * D,)``.
        num_heads: the number of heads H, a divisor of D.

    Returns:
        Three tensors ``(B, H, L, D / H)``.
    """
    q, k, v = (
        part.unflatten(-1, (num_heads, -1)).transpose(1, 2).contiguous() for part in (qkv + qkv_bias).chunk(3, -1)
    )
    return q / math.sqrt(q.size(-1)), k, v


def _native_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """`rgrad.nn.functional.multi_head_attention_forward` of batches, without dropout.

    Args:
        query: ``(B, L, embed_dim)``.
        key: likewise, of its own length.
        value: of the key's shape.
        embed_dim: size of the last dimension.
        num_head: number of heads, a divisor of it.
        qkv_weight: ``(3 * embed_dim, embed_dim)``.
        qkv_bias: ``(3 * embed_dim,)``.
        proj_weight: ``(embed_dim, embed_dim)``, of the result.
        proj_bias: ``(embed_dim,)``.
        mask: True or not zero where attention is not paid, as for `_masked_softmax`.
        need_weights: whether to return weights too.
        average_attn_weights: whether these are averaged over heads.
        mask_type: the kind of the mask.
    """
    if query.dim() != 3:
        raise RuntimeError(f"expected 3-D `query`, got {query.dim()}-D tensor")
    if query.size(2) != embed_dim:
        raise RuntimeError(f"passed-in embed_dim {embed_dim} didn't match last dim of query {query.size(2)}")
    if embed_dim % num_head:
        raise RuntimeError("`embed_dim` must divide evenly by `num_heads`")
    hidden = None if mask is None else mask.bool()
    if hidden is not None and hidden.dim() == 4:
        hidden = hidden.flatten(0, 1)
    result, weights = F.multi_head_attention_forward(
        query.transpose(0, 1),
        key.transpose(0, 1),
        value.transpose(0, 1),
        embed_dim,
        num_head,
        qkv_weight,
        qkv_bias,
        None,
        None,
        False,
        0.0,
        proj_weight,
        proj_bias,
        training=False,
        key_padding_mask=hidden if mask_type == 1 else None,
        need_weights=need_weights,
        attn_mask=None if mask_type == 1 else hidden,
        average_attn_weights=average_attn_weights,
    )
    return result.transpose(0, 1), weights


_warned_of_aminmax = False


def _aminmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """`rgrad.aminmax`, with its arguments by position, and a warning once per process."""
    global _warned_of_aminmax
    if not _warned_of_aminmax or rgrad.is_warn_always_enabled():
        _warned_of_aminmax = True
        warnings.warn("_aminmax is deprecated: torch.aminmax is the function.", stacklevel=2)
    least, greatest = rgrad.aminmax(input, dim=dim, keepdim=keepdim)
    return least, greatest


def _rowwise_prune(weight: Tensor, mask: Tensor, compressed_indices_dtype: Any) -> tuple[Tensor, Tensor]:
    """The rows of a matrix at which a mask is True, and for each row its new number, or -1.

    Args:
        weight: ``(rows, columns)``.
        mask: ``(rows,)``, bools.
        compressed_indices_dtype: of the numbers, int32 or int64.
    """
    if weight.dim() != 2:
        raise RuntimeError("'weights' should have 2 dimensions.")
    if mask.numel() != weight.size(0):
        raise RuntimeError("Number of elements in 'mask' should be equivalent to the number of rows in 'weights'.")
    if compressed_indices_dtype not in (rgrad.int32, rgrad.int64):
        raise RuntimeError("compressed_indices_dtype should be either int(int32) or long(int64).")
    if mask.dtype != rgrad.bool:
        found = mask.type().rpartition(".")[2].removesuffix("Tensor")
        raise RuntimeError(f"expected scalar type Bool but found {found}")
    numbers = rgrad.where(mask, mask.cumsum(0) - 1, -1)
    return weight[mask], numbers.to(compressed_indices_dtype)
