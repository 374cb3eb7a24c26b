"""rgrad: PyTorch's eager API on a Rust core.

>>> import rgrad as torch
>>> x = torch.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

from __future__ import annotations

# Note [Importing without typing]
# `typing` and its imports would take a third of the time of `import rgrad`, and only type checkers need them. So
# modules loaded with rgrad import it under `if TYPE_CHECKING:`. They define TYPE_CHECKING themselves, which type
# checkers recognize by its name.
import importlib
import math

from rgrad import _C
from rgrad._C import *  # noqa: F403 - every function of the operation table, under PyTorch's name
from rgrad._C import (
    Generator as Generator,
    Tensor as Tensor,
    device as device,
    dtype as dtype,
    memory_format as memory_format,
)

from . import _core_names, _methods, _subclass, _tensor
from ._dtypes import (
    broadcast_shapes as broadcast_shapes,
    can_cast as can_cast,
    finfo as finfo,
    iinfo as iinfo,
    promote_types as promote_types,
    result_type as result_type,
)
from ._lazy_names import FROM as _FROM
from ._size import (
    Size as Size,
)
from ._tensor import (
    is_floating_point as is_floating_point,
    is_inference as is_inference,
    is_storage as is_storage,
    is_tensor as is_tensor,
)
from .autograd.grad_mode import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from .functional import (
    chain_matmul as chain_matmul,
    einsum as einsum,
    tensordot as tensordot,
)
from .random import (
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    seed as seed,
    set_rng_state as set_rng_state,
)

_core_names.install()
_subclass.install()
_tensor.install()
_methods.install()

detach = Tensor.detach
detach_ = Tensor.detach_
resize_as_ = Tensor.resize_as_
as_strided_ = Tensor.as_strided_
legacy_contiguous_format = _C.contiguous_format

__version__ = "0.1.0"

e = math.e
pi = math.pi
inf = math.inf
nan = math.nan
newaxis = None

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    # The names that __getattr__ resolves, for type checkers and editors. A test compares them with the actual ones.
    from . import (
        accelerator,
        amp,
        as_torch,
        autograd,
        backends,
        compat,
        compiler,
        cpu,
        cuda,
        distributed,
        distributions,
        fft,
        foreach,
        func,
        functional,
        functorch,
        futures,
        fx,
        gpu,
        hub,
        jit,
        library,
        linalg,
        masked,
        mps,
        multiprocessing,
        nn,
        onnx,
        ops,
        optim,
        overrides,
        profiler,
        quasirandom,
        random,
        return_types,
        safetensors,
        serialization,
        signal,
        sparse,
        special,
        storage,
        testing,
        torch_version,
        types,
        utils,
        version,
        vision,
        viz,
        xpu,
    )
    from ._absent_dtypes import (
        bcomplex32 as bcomplex32,
        bit as bit,
        bits1x8 as bits1x8,
        bits2x4 as bits2x4,
        bits4x2 as bits4x2,
        bits8 as bits8,
        bits16 as bits16,
        cdouble as cdouble,
        cfloat as cfloat,
        chalf as chalf,
        complex32 as complex32,
        complex64 as complex64,
        complex128 as complex128,
        float4_e2m1fn_x2 as float4_e2m1fn_x2,
        int1 as int1,
        int2 as int2,
        int3 as int3,
        int4 as int4,
        int5 as int5,
        int6 as int6,
        int7 as int7,
        qint8 as qint8,
        qint32 as qint32,
        quint2x4 as quint2x4,
        quint4x2 as quint4x2,
        quint8 as quint8,
        uint1 as uint1,
        uint2 as uint2,
        uint3 as uint3,
        uint4 as uint4,
        uint5 as uint5,
        uint6 as uint6,
        uint7 as uint7,
    )
    from ._asarray import (
        asarray as asarray,
    )
    from ._assertions import (
        _assert as _assert,
        _assert_async as _assert_async,
        _assert_tensor_metadata as _assert_tensor_metadata,
    )
    from ._checks import (
        _check as _check,
        _check_index as _check_index,
        _check_is_size as _check_is_size,
        _check_not_implemented as _check_not_implemented,
        _check_tensor_all as _check_tensor_all,
        _check_tensor_all_with as _check_tensor_all_with,
        _check_type as _check_type,
        _check_value as _check_value,
        _check_with as _check_with,
    )
    from ._constants import (
        USE_GLOBAL_DEPS as USE_GLOBAL_DEPS,
        USE_RTLD_GLOBAL_WITH_LIBTORCH as USE_RTLD_GLOBAL_WITH_LIBTORCH,
        AcceleratorError as AcceleratorError,
        ComplexDoubleStorage as ComplexDoubleStorage,
        ComplexFloatStorage as ComplexFloatStorage,
        DispatchKeySet as DispatchKeySet,
        FatalError as FatalError,
        FileCheck as FileCheck,
        FunctionSchema as FunctionSchema,
        JITException as JITException,
        QInt8Storage as QInt8Storage,
        QInt32Storage as QInt32Storage,
        QUInt2x4Storage as QUInt2x4Storage,
        QUInt4x2Storage as QUInt4x2Storage,
        QUInt8Storage as QUInt8Storage,
        StorageBase as StorageBase,
        Tag as Tag,
        TensorType as TensorType,
        autocast_decrement_nesting as autocast_decrement_nesting,
        autocast_increment_nesting as autocast_increment_nesting,
        classproperty as classproperty,
        cudnn_is_acceptable as cudnn_is_acceptable,
        has_lapack as has_lapack,
        has_mkl as has_mkl,
        has_openmp as has_openmp,
        has_spectral as has_spectral,
        init_num_threads as init_num_threads,
        is_vulkan_available as is_vulkan_available,
        per_channel_affine as per_channel_affine,
        per_channel_affine_float_qparams as per_channel_affine_float_qparams,
        per_channel_symmetric as per_channel_symmetric,
        per_tensor_affine as per_tensor_affine,
        per_tensor_symmetric as per_tensor_symmetric,
        qscheme as qscheme,
    )
    from ._defaults import (
        get_default_device as get_default_device,
        set_default_device as set_default_device,
        set_default_tensor_type as set_default_tensor_type,
    )
    from ._determinism import (
        are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
        get_deterministic_debug_mode as get_deterministic_debug_mode,
        is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
        set_deterministic_debug_mode as set_deterministic_debug_mode,
        use_deterministic_algorithms as use_deterministic_algorithms,
    )
    from ._functions.control import (
        cond as cond,
        get_num_interop_threads as get_num_interop_threads,
        set_anomaly_enabled as set_anomaly_enabled,
        set_flush_denormal as set_flush_denormal,
        set_num_interop_threads as set_num_interop_threads,
        sym_float as sym_float,
        sym_int as sym_int,
        sym_ite as sym_ite,
        sym_max as sym_max,
        sym_min as sym_min,
        sym_not as sym_not,
        sym_sqrt as sym_sqrt,
        sym_sum as sym_sum,
        while_loop as while_loop,
    )
    from ._functions.derivatives import (
        _convert_indices_from_coo_to_csr as _convert_indices_from_coo_to_csr,
        _convert_indices_from_csr_to_coo as _convert_indices_from_csr_to_coo,
        _is_all_true as _is_all_true,
        _is_any_true as _is_any_true,
        _log_softmax_backward_data as _log_softmax_backward_data,
        _shape_as_tensor as _shape_as_tensor,
        _softmax_backward_data as _softmax_backward_data,
        _sample_dirichlet as _sample_dirichlet,
        _standard_gamma as _standard_gamma,
        _weight_norm as _weight_norm,
    )
    from ._functions.differences import (
        gradient as gradient,
    )
    from ._functions.hashes import (
        hash_tensor as hash_tensor,
    )
    from ._functions.histograms import (
        histogram as histogram,
        histogramdd as histogramdd,
    )
    from ._functions.kernels import (
        _addmm_activation as _addmm_activation,
        _aminmax as _aminmax,
        _compute_linear_combination as _compute_linear_combination,
        _grid_sampler_2d_cpu_fallback as _grid_sampler_2d_cpu_fallback,
        _log_softmax as _log_softmax,
        _masked_softmax as _masked_softmax,
        _native_multi_head_attention as _native_multi_head_attention,
        _nnpack_spatial_convolution as _nnpack_spatial_convolution,
        _rowwise_prune as _rowwise_prune,
        _softmax as _softmax,
        _transform_bias_rescale_qkv as _transform_bias_rescale_qkv,
    )
    from ._functions.layers import (
        adaptive_max_pool1d as adaptive_max_pool1d,
        affine_grid_generator as affine_grid_generator,
        alpha_dropout as alpha_dropout,
        alpha_dropout_ as alpha_dropout_,
        batch_norm as batch_norm,
        binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
        binomial as binomial,
        conv_tbc as conv_tbc,
        convolution as convolution,
        cosine_embedding_loss as cosine_embedding_loss,
        ctc_loss as ctc_loss,
        dropout as dropout,
        dropout_ as dropout_,
        embedding as embedding,
        embedding_renorm_ as embedding_renorm_,
        feature_alpha_dropout as feature_alpha_dropout,
        feature_alpha_dropout_ as feature_alpha_dropout_,
        feature_dropout as feature_dropout,
        feature_dropout_ as feature_dropout_,
        hinge_embedding_loss as hinge_embedding_loss,
        instance_norm as instance_norm,
        kl_div as kl_div,
        margin_ranking_loss as margin_ranking_loss,
        max_pool1d_with_indices as max_pool1d_with_indices,
        native_batch_norm as native_batch_norm,
        native_channel_shuffle as native_channel_shuffle,
        native_dropout as native_dropout,
        native_group_norm as native_group_norm,
        native_layer_norm as native_layer_norm,
        poisson as poisson,
        poisson_nll_loss as poisson_nll_loss,
        rrelu as rrelu,
        rrelu_ as rrelu_,
        triplet_margin_loss as triplet_margin_loss,
    )
    from ._functions.quantization import (
        fake_quantize_per_channel_affine as fake_quantize_per_channel_affine,
        fake_quantize_per_tensor_affine as fake_quantize_per_tensor_affine,
    )
    from ._functions.recurrent import (
        gru as gru,
        gru_cell as gru_cell,
        lstm as lstm,
        lstm_cell as lstm_cell,
        rnn_relu as rnn_relu,
        rnn_relu_cell as rnn_relu_cell,
        rnn_tanh as rnn_tanh,
        rnn_tanh_cell as rnn_tanh_cell,
    )
    from ._functions.int8 import (
        _int_mm as _int_mm,
        _weight_int8pack_mm as _weight_int8pack_mm,
    )
    from ._functions.scaling import (
        _amp_foreach_non_finite_check_and_unscale_ as _amp_foreach_non_finite_check_and_unscale_,
        _amp_update_scale_ as _amp_update_scale_,
    )
    from ._functions.segments import (
        _segment_reduce as _segment_reduce,
        segment_reduce as segment_reduce,
    )
    from ._functions.views import (
        _debug_has_internal_overlap as _debug_has_internal_overlap,
        conj_physical as conj_physical,
        conj_physical_ as conj_physical_,
        detach_copy as detach_copy,
        frobenius_norm as frobenius_norm,
        from_file as from_file,
        get_device as get_device,
        imag as imag,
        is_distributed as is_distributed,
        isreal as isreal,
        nuclear_norm as nuclear_norm,
        select_copy as select_copy,
        slice_copy as slice_copy,
        split_copy as split_copy,
        unsafe_chunk as unsafe_chunk,
        unsafe_split as unsafe_split,
        unsafe_split_with_sizes as unsafe_split_with_sizes,
    )
    from ._functions.windows import (
        bartlett_window as bartlett_window,
        blackman_window as blackman_window,
        hamming_window as hamming_window,
        hann_window as hann_window,
        kaiser_window as kaiser_window,
    )
    from ._layout import (
        _mkldnn as _mkldnn,
        jagged as jagged,
        layout as layout,
        sparse_bsc as sparse_bsc,
        sparse_bsr as sparse_bsr,
        sparse_coo as sparse_coo,
        sparse_csc as sparse_csc,
        sparse_csr as sparse_csr,
        strided as strided,
    )
    from ._linalg.householder import (
        geqrf as geqrf,
        orgqr as orgqr,
        ormqr as ormqr,
    )
    from ._linalg.lu import (
        lu_unpack as lu_unpack,
    )
    from ._linalg.matrix_functions import (
        matrix_exp as matrix_exp,
    )
    from ._linalg.older import (
        cholesky as cholesky,
        eig as eig,
        lstsq as lstsq,
        lu as lu,
        lu_solve as lu_solve,
        matrix_rank as matrix_rank,
        solve as solve,
        symeig as symeig,
        triangular_solve as triangular_solve,
    )
    from ._special.bessel import (
        i0 as i0,
        i0_ as i0_,
    )
    from ._special.gamma import (
        igamma as igamma,
        igammac as igammac,
        mvlgamma as mvlgamma,
        polygamma as polygamma,
    )
    from ._streams import (
        Event as Event,
        Stream as Stream,
    )
    from ._subclass import (
        DisableTorchFunction as DisableTorchFunction,
        DisableTorchFunctionSubclass as DisableTorchFunctionSubclass,
    )
    from ._tensor_str import (
        get_printoptions as get_printoptions,
        set_printoptions as set_printoptions,
    )
    from ._tensor_types import (
        BFloat16Tensor as BFloat16Tensor,
        BoolTensor as BoolTensor,
        ByteTensor as ByteTensor,
        CharTensor as CharTensor,
        DoubleTensor as DoubleTensor,
        FloatTensor as FloatTensor,
        HalfTensor as HalfTensor,
        IntTensor as IntTensor,
        LongTensor as LongTensor,
        ShortTensor as ShortTensor,
        _tensor_classes as _tensor_classes,
        typename as typename,
    )
    from .accelerator import (
        get_device_module as get_device_module,
    )
    from .amp.autocast_mode import (
        autocast as autocast,
        clear_autocast_cache as clear_autocast_cache,
        get_autocast_cpu_dtype as get_autocast_cpu_dtype,
        get_autocast_dtype as get_autocast_dtype,
        get_autocast_gpu_dtype as get_autocast_gpu_dtype,
        is_autocast_cache_enabled as is_autocast_cache_enabled,
        is_autocast_cpu_enabled as is_autocast_cpu_enabled,
        is_autocast_enabled as is_autocast_enabled,
        set_autocast_cache_enabled as set_autocast_cache_enabled,
        set_autocast_cpu_dtype as set_autocast_cpu_dtype,
        set_autocast_cpu_enabled as set_autocast_cpu_enabled,
        set_autocast_dtype as set_autocast_dtype,
        set_autocast_enabled as set_autocast_enabled,
        set_autocast_gpu_dtype as set_autocast_gpu_dtype,
    )
    from .amp.grad_scaler import (
        GradScaler as GradScaler,
    )
    from .backends import (
        get_float32_matmul_precision as get_float32_matmul_precision,
        set_float32_matmul_precision as set_float32_matmul_precision,
    )
    from .compiler import (
        _disable_dynamo as _disable_dynamo,
        compile as compile,
        defer as defer,
        explain as explain,
    )
    from .doctor import (
        doctor as doctor,
    )
    from .func import (
        vmap as vmap,
    )
    from .futures import Future as Future
    from .jit import (
        ScriptFunction as ScriptFunction,
        ScriptModule as ScriptModule,
        fork as fork,
        wait as wait,
    )
    from .linalg import (
        pca_lowrank as pca_lowrank,
        pinverse as pinverse,
        svd_lowrank as svd_lowrank,
    )
    from .nn.functional import (
        bilinear as bilinear,
        channel_shuffle as channel_shuffle,
        cosine_similarity as cosine_similarity,
        pairwise_distance as pairwise_distance,
        pdist as pdist,
        pixel_shuffle as pixel_shuffle,
        pixel_unshuffle as pixel_unshuffle,
        rms_norm as rms_norm,
    )
    from .serialization import load as load, save as save
    from .serialization._zip_file import PyTorchFileReader as PyTorchFileReader
    from .storage import (
        _storage_classes as _storage_classes,
        BFloat16Storage as BFloat16Storage,
        BoolStorage as BoolStorage,
        ByteStorage as ByteStorage,
        CharStorage as CharStorage,
        DoubleStorage as DoubleStorage,
        FloatStorage as FloatStorage,
        HalfStorage as HalfStorage,
        IntStorage as IntStorage,
        LongStorage as LongStorage,
        ShortStorage as ShortStorage,
        Storage as Storage,
        TypedStorage as TypedStorage,
    )
    from .types import (
        DispatchKey as DispatchKey,
        SymBool as SymBool,
        SymFloat as SymFloat,
        SymInt as SymInt,
    )
    from .utils.dlpack import (
        to_dlpack as to_dlpack,
    )
    from .version import (
        compiled_with_cxx11_abi as compiled_with_cxx11_abi,
    )

# PyTorch's private modules that programs reach as attributes without importing them.
_PRIVATE_MODULES = (
    "_VF",
    "__config__",
    "__future__",
    "_dynamo",
    "_higher_order_ops",
    "_library",
    "_subclasses",
    "_tensor_str",
    "_utils",
)


def __getattr__(name: str) -> Any:
    if name in _FROM:
        value = getattr(importlib.import_module(f"rgrad.{_FROM[name]}"), name)
        if name != "Storage":  # that of the default dtype, which may change
            globals()[name] = value
        return value
    if name.isidentifier() and (not name.startswith("_") or name in _PRIVATE_MODULES):
        try:
            return importlib.import_module(f"rgrad.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"rgrad.{name}":
                raise
    if name.startswith("_foreach_") and hasattr(importlib.import_module("rgrad._foreach"), name):
        value = globals()[name] = getattr(importlib.import_module("rgrad._foreach"), name)
        return value
    refusal = importlib.import_module("rgrad._absent_names").function(name)
    if refusal is not None:
        globals()[name] = refusal
        return refusal
    raise AttributeError(f"module 'rgrad' has no attribute '{name}'")


def __dir__() -> list[str]:
    import pkgutil

    modules = (module.name for module in pkgutil.iter_modules(__path__))  # noqa: F405
    # Importing `as_torch` changes the process, so tools that import everything in `dir()` must not see it.
    return sorted({*globals(), *_FROM, *(n for n in modules if not n.startswith("_") and n != "as_torch")})
