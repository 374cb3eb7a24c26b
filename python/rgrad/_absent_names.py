"""Functions of `rgrad` and methods of Tensor that programs look up and rgrad does not have. Using one says why."""

from __future__ import annotations

from rgrad._absent import absent_function

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_COMPLEX = "there are no complex tensors"
_SPARSE = "tensors are strided, none is sparse"
_QUANTIZED = "there are no quantized tensors"
_INTERNAL = "it is a part of kernels for other libraries"

# The functions of `rgrad`, by what rgrad lacks.
FUNCTIONS = {
    _COMPLEX: (
        *("complex", "polar", "view_as_complex", "view_as_real", "view_as_complex_copy", "view_as_real_copy"),
        *("stft", "istft"),
    ),
    _SPARSE: (
        *("sparse_coo_tensor", "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor"),
        *(
            "sparse_compressed_tensor",
            "resize_as_sparse_",
            "dsmm",
            "hsmm",
            "hspmm",
            "smm",
            "spmm",
            "saddmm",
            "sspaddmm",
        ),
        *(
            "ccol_indices_copy",
            "col_indices_copy",
            "crow_indices_copy",
            "row_indices_copy",
            "indices_copy",
            "values_copy",
        ),
    ),
    _QUANTIZED: (
        *("quantize_per_tensor", "quantize_per_channel", "quantize_per_tensor_dynamic", "empty_quantized", "int_repr"),
        *("q_scale", "q_zero_point", "q_per_channel_axis", "q_per_channel_scales", "q_per_channel_zero_points"),
        *("fused_moving_avg_obs_fake_quant", "choose_qparams_optimized", "dequantize", "quantized_batch_norm"),
        *("quantized_max_pool1d", "quantized_max_pool2d", "quantized_max_pool3d", "quantized_lstm", "quantized_gru"),
        *("quantized_lstm_cell", "quantized_gru_cell", "quantized_rnn_relu_cell", "quantized_rnn_tanh_cell"),
    ),
    _INTERNAL: (
        *("cudnn_affine_grid_generator", "cudnn_batch_norm", "cudnn_convolution", "cudnn_convolution_add_relu"),
        *("cudnn_convolution_relu", "cudnn_convolution_transpose", "cudnn_grid_sampler", "miopen_batch_norm"),
        *("miopen_convolution", "miopen_convolution_add_relu", "miopen_convolution_relu", "miopen_ctc_loss"),
        *("miopen_convolution_transpose", "miopen_depthwise_convolution", "miopen_rnn", "mkldnn_convolution"),
        *("mkldnn_adaptive_avg_pool2d", "mkldnn_linear_backward_weights", "mkldnn_max_pool2d", "mkldnn_max_pool3d"),
        *("mkldnn_rnn_layer", "fbgemm_linear_fp16_weight", "fbgemm_linear_fp16_weight_fp32_activation"),
        *("fbgemm_linear_int8_weight", "fbgemm_linear_int8_weight_fp32_activation", "fbgemm_linear_quantize_weight"),
        *("fbgemm_pack_gemm_matrix_fp16", "fbgemm_pack_quantized_matrix", "batch_norm_backward_elemt"),
        *("batch_norm_backward_reduce", "batch_norm_elemt", "batch_norm_gather_stats", "batch_norm_stats"),
        *("batch_norm_gather_stats_with_counts", "batch_norm_update_stats"),
    ),
    "torch.linalg.eigh has the eigenvalues of a whole symmetric matrix": ("lobpcg",),
    "torch.nn.functional.embedding_bag is the function": ("embedding_bag",),
    "torch.linalg.vector_norm is the function": ("native_norm",),
    "torch.Tensor.as_strided and copy_ do the same": ("slice_inverse",),
}

# The methods of Tensor. Those of sparse tensors raise RuntimeError, as for any tensor that is not sparse.
METHODS = {
    _COMPLEX: ("cdouble", "cfloat", "chalf", "stft", "istft"),
    _SPARSE: (
        *("to_sparse", "to_sparse_coo", "to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc"),
        *("resize_as_sparse_", "smm", "sparse_mask", "sparse_resize_", "sparse_resize_and_clear_", "sspaddmm"),
        *("to_padded_tensor",),
    ),
    _QUANTIZED: (
        *("qscheme", "q_scale", "q_zero_point", "q_per_channel_axis", "q_per_channel_scales", "int_repr"),
        *("q_per_channel_zero_points", "dequantize"),
    ),
    "there is no such device": ("xpu", "ipu", "mtia", "to_mkldnn"),
    "torch.Tensor.as_strided and copy_ do the same": ("slice_inverse",),
}
_WHY = {name: why for why, names in FUNCTIONS.items() for name in names}


def _check_parts(real: Any = None, imag: Any = None, *, out: Any = None, **others: Any) -> None:
    """Raises PyTorch's errors for what no complex tensor is made of, whatever the dtypes there are."""
    from rgrad import Tensor, broadcast_shapes, float16, float32, float64

    real, imag = others.get("abs", real), others.get("angle", imag)
    if not isinstance(real, Tensor) or not isinstance(imag, Tensor):
        return
    first, second = (t.type().rpartition(".")[2].removesuffix("Tensor") for t in (real, imag))
    if not {real.dtype, imag.dtype} <= {float16, float32, float64}:
        raise NotImplementedError(
            f"Expected both inputs to be Half, Float or Double tensors but got {first} and {second}"
        )
    if first != second:
        raise RuntimeError(f"Expected object of scalar type {first} but got scalar type {second} for second argument")
    if isinstance(out, Tensor):
        found = out.type().rpartition(".")[2].removesuffix("Tensor")
        raise RuntimeError(
            f"Expected object of scalar type Complex{first} but got scalar type {found} for argument 'out'"
        )
    broadcast_shapes(real.shape, imag.shape)


_CHECKS = {"complex": _check_parts, "polar": _check_parts}


def function(name: str) -> Callable[..., Any] | None:
    """The function of `rgrad` that only says why it is not there; None if the name is not known."""
    return absent_function(f"torch.{name}", _WHY[name], _CHECKS.get(name)) if name in _WHY else None


def methods() -> dict[str, Callable[..., Any]]:
    """The methods of Tensor that only say why they are not there."""
    return {n: absent_function(f"torch.Tensor.{n}", why) for why, names in METHODS.items() for n in names}
