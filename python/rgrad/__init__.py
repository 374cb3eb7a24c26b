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
from rgrad._C import Generator, Tensor, device, dtype, memory_format

from . import _methods, _subclass, _tensor
from ._dtypes import broadcast_shapes, can_cast, finfo, iinfo, promote_types, result_type
from ._size import Size
from ._tensor import is_floating_point, is_inference, is_storage, is_tensor
from .autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .functional import chain_matmul, einsum, tensordot
from .random import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

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
        func,
        functional,
        futures,
        fx,
        gpu,
        hub,
        jit,
        library,
        linalg,
        mps,
        multiprocessing,
        nn,
        onnx,
        ops,
        optim,
        overrides,
        profiler,
        random,
        return_types,
        safetensors,
        serialization,
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
        bcomplex32,
        bit,
        bits1x8,
        bits2x4,
        bits4x2,
        bits8,
        bits16,
        cdouble,
        cfloat,
        chalf,
        complex32,
        complex64,
        complex128,
        float4_e2m1fn_x2,
        float8_e4m3fn,
        float8_e4m3fnuz,
        float8_e5m2,
        float8_e5m2fnuz,
        float8_e8m0fnu,
        int1,
        int2,
        int3,
        int4,
        int5,
        int6,
        int7,
        qint8,
        qint32,
        quint2x4,
        quint4x2,
        quint8,
        uint1,
        uint2,
        uint3,
        uint4,
        uint5,
        uint6,
        uint7,
        uint16,
        uint32,
        uint64,
    )
    from ._asarray import asarray
    from ._assertions import _assert, _assert_async
    from ._constants import (
        USE_GLOBAL_DEPS,
        USE_RTLD_GLOBAL_WITH_LIBTORCH,
        AcceleratorError,
        ComplexDoubleStorage,
        ComplexFloatStorage,
        DispatchKeySet,
        FatalError,
        FileCheck,
        FunctionSchema,
        JITException,
        QInt8Storage,
        QInt32Storage,
        QUInt2x4Storage,
        QUInt4x2Storage,
        QUInt8Storage,
        StorageBase,
        Tag,
        TensorType,
        autocast_decrement_nesting,
        autocast_increment_nesting,
        classproperty,
        cudnn_is_acceptable,
        has_lapack,
        has_mkl,
        has_openmp,
        has_spectral,
        init_num_threads,
        is_vulkan_available,
        per_channel_affine,
        per_channel_affine_float_qparams,
        per_channel_symmetric,
        per_tensor_affine,
        per_tensor_symmetric,
        qscheme,
    )
    from ._defaults import get_default_device, set_default_device, set_default_tensor_type
    from ._determinism import (
        are_deterministic_algorithms_enabled,
        get_deterministic_debug_mode,
        is_deterministic_algorithms_warn_only_enabled,
        set_deterministic_debug_mode,
        use_deterministic_algorithms,
    )
    from ._functions.control import (
        cond,
        get_num_interop_threads,
        set_anomaly_enabled,
        set_flush_denormal,
        set_num_interop_threads,
        sym_float,
        sym_int,
        sym_ite,
        sym_max,
        sym_min,
        sym_not,
        sym_sqrt,
        sym_sum,
        while_loop,
    )
    from ._functions.differences import gradient
    from ._functions.histograms import histogram, histogramdd
    from ._functions.layers import (
        adaptive_max_pool1d,
        affine_grid_generator,
        alpha_dropout,
        alpha_dropout_,
        batch_norm,
        binary_cross_entropy_with_logits,
        binomial,
        conv_tbc,
        convolution,
        cosine_embedding_loss,
        ctc_loss,
        dropout,
        dropout_,
        embedding,
        embedding_renorm_,
        feature_alpha_dropout,
        feature_alpha_dropout_,
        feature_dropout,
        feature_dropout_,
        grid_sampler,
        grid_sampler_2d,
        grid_sampler_3d,
        hinge_embedding_loss,
        instance_norm,
        kl_div,
        margin_ranking_loss,
        max_pool1d_with_indices,
        native_batch_norm,
        native_channel_shuffle,
        native_dropout,
        native_group_norm,
        native_layer_norm,
        poisson,
        poisson_nll_loss,
        rrelu,
        rrelu_,
        triplet_margin_loss,
    )
    from ._functions.recurrent import (
        gru,
        gru_cell,
        lstm,
        lstm_cell,
        rnn_relu,
        rnn_relu_cell,
        rnn_tanh,
        rnn_tanh_cell,
    )
    from ._functions.segments import segment_reduce
    from ._functions.views import (
        conj_physical,
        conj_physical_,
        detach_copy,
        frobenius_norm,
        from_file,
        get_device,
        imag,
        is_distributed,
        isreal,
        nuclear_norm,
        select_copy,
        slice_copy,
        split_copy,
        unsafe_chunk,
        unsafe_split,
        unsafe_split_with_sizes,
    )
    from ._functions.windows import bartlett_window, blackman_window, hamming_window, hann_window, kaiser_window
    from ._layout import _mkldnn, jagged, layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
    from ._linalg.householder import geqrf, orgqr, ormqr
    from ._linalg.lu import lu_unpack
    from ._linalg.matrix_functions import matrix_exp
    from ._linalg.older import (
        cholesky,
        eig,
        lstsq,
        lu,
        lu_solve,
        matrix_rank,
        solve,
        symeig,
        triangular_solve,
    )
    from ._special.bessel import i0, i0_
    from ._special.gamma import igamma, igammac, mvlgamma, polygamma
    from ._streams import Event, Stream
    from ._subclass import (
        DisableTorchFunction,
        DisableTorchFunctionSubclass,
    )
    from ._tensor_str import get_printoptions, set_printoptions
    from ._tensor_types import (
        BFloat16Tensor,
        BoolTensor,
        ByteTensor,
        CharTensor,
        DoubleTensor,
        FloatTensor,
        HalfTensor,
        IntTensor,
        LongTensor,
        ShortTensor,
        typename,
    )
    from .accelerator import get_device_module
    from .amp.autocast_mode import (
        autocast,
        clear_autocast_cache,
        get_autocast_cpu_dtype,
        get_autocast_dtype,
        get_autocast_gpu_dtype,
        is_autocast_cache_enabled,
        is_autocast_cpu_enabled,
        is_autocast_enabled,
        set_autocast_cache_enabled,
        set_autocast_cpu_dtype,
        set_autocast_cpu_enabled,
        set_autocast_dtype,
        set_autocast_enabled,
        set_autocast_gpu_dtype,
    )
    from .amp.grad_scaler import GradScaler
    from .backends import get_float32_matmul_precision, set_float32_matmul_precision
    from .compiler import compile
    from .doctor import doctor
    from .func import vmap
    from .jit import ScriptFunction, ScriptModule, fork, wait
    from .linalg import pca_lowrank, pinverse, svd_lowrank
    from .nn.functional import (
        bilinear,
        channel_shuffle,
        cosine_similarity,
        pairwise_distance,
        pdist,
        pixel_shuffle,
        pixel_unshuffle,
        rms_norm,
    )
    from .serialization import load, save
    from .serialization._zip_file import PyTorchFileReader
    from .storage import (
        BFloat16Storage,
        BoolStorage,
        ByteStorage,
        CharStorage,
        DoubleStorage,
        FloatStorage,
        HalfStorage,
        IntStorage,
        LongStorage,
        ShortStorage,
        Storage,
        TypedStorage,
    )
    from .types import DispatchKey, SymBool, SymFloat, SymInt
    from .utils.dlpack import (
        to_dlpack,
    )
    from .version import compiled_with_cxx11_abi

# Names whose modules are loaded on first use, so that `import rgrad` stays fast.
_DTYPE_PREFIXES = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
_NAMES_OF = {
    "_absent_dtypes": (
        "cdouble",
        "cfloat",
        "chalf",
        "quint4x2",
        "quint2x4",
        "bcomplex32",
        "bits1x8",
        "bits2x4",
        "bits4x2",
        "bits8",
        "bits16",
        "bit",
        "int1",
        "int2",
        "int3",
        "int4",
        "int5",
        "int6",
        "int7",
        "uint1",
        "uint2",
        "uint3",
        "uint4",
        "uint5",
        "uint6",
        "uint7",
        "complex32",
        "complex64",
        "complex128",
        "float4_e2m1fn_x2",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "qint8",
        "qint32",
        "quint8",
        "uint16",
        "uint32",
        "uint64",
    ),
    "_asarray": ("asarray",),
    "_assertions": ("_assert", "_assert_async"),
    "_defaults": ("get_default_device", "set_default_device", "set_default_tensor_type"),
    "_determinism": (
        "are_deterministic_algorithms_enabled",
        "get_deterministic_debug_mode",
        "is_deterministic_algorithms_warn_only_enabled",
        "set_deterministic_debug_mode",
        "use_deterministic_algorithms",
    ),
    "_functions.differences": ("gradient",),
    "_functions.histograms": ("histogram", "histogramdd"),
    "_functions.segments": ("segment_reduce",),
    "_functions.windows": (
        "bartlett_window",
        "blackman_window",
        "hamming_window",
        "hann_window",
        "kaiser_window",
    ),
    "_functions.control": (
        "cond",
        "get_num_interop_threads",
        "set_anomaly_enabled",
        "set_flush_denormal",
        "set_num_interop_threads",
        "sym_float",
        "sym_int",
        "sym_ite",
        "sym_max",
        "sym_min",
        "sym_not",
        "sym_sqrt",
        "sym_sum",
        "while_loop",
    ),
    "_functions.layers": (
        "adaptive_max_pool1d",
        "affine_grid_generator",
        "alpha_dropout",
        "alpha_dropout_",
        "batch_norm",
        "binary_cross_entropy_with_logits",
        "binomial",
        "conv_tbc",
        "convolution",
        "cosine_embedding_loss",
        "ctc_loss",
        "dropout",
        "dropout_",
        "embedding",
        "embedding_renorm_",
        "feature_alpha_dropout",
        "feature_alpha_dropout_",
        "feature_dropout",
        "feature_dropout_",
        "grid_sampler",
        "grid_sampler_2d",
        "grid_sampler_3d",
        "hinge_embedding_loss",
        "instance_norm",
        "kl_div",
        "margin_ranking_loss",
        "max_pool1d_with_indices",
        "native_batch_norm",
        "native_channel_shuffle",
        "native_dropout",
        "native_group_norm",
        "native_layer_norm",
        "poisson",
        "poisson_nll_loss",
        "rrelu",
        "rrelu_",
        "triplet_margin_loss",
    ),
    "_functions.recurrent": (
        "gru",
        "gru_cell",
        "lstm",
        "lstm_cell",
        "rnn_relu",
        "rnn_relu_cell",
        "rnn_tanh",
        "rnn_tanh_cell",
    ),
    "_functions.views": (
        "conj_physical",
        "conj_physical_",
        "detach_copy",
        "frobenius_norm",
        "from_file",
        "get_device",
        "imag",
        "is_distributed",
        "isreal",
        "nuclear_norm",
        "select_copy",
        "slice_copy",
        "split_copy",
        "unsafe_chunk",
        "unsafe_split",
        "unsafe_split_with_sizes",
    ),
    "_constants": (
        "AcceleratorError",
        "ComplexDoubleStorage",
        "ComplexFloatStorage",
        "DispatchKeySet",
        "FatalError",
        "FileCheck",
        "FunctionSchema",
        "JITException",
        "QInt32Storage",
        "QInt8Storage",
        "QUInt2x4Storage",
        "QUInt4x2Storage",
        "QUInt8Storage",
        "StorageBase",
        "Tag",
        "TensorType",
        "USE_GLOBAL_DEPS",
        "USE_RTLD_GLOBAL_WITH_LIBTORCH",
        "autocast_decrement_nesting",
        "autocast_increment_nesting",
        "classproperty",
        "cudnn_is_acceptable",
        "has_lapack",
        "has_mkl",
        "has_openmp",
        "has_spectral",
        "init_num_threads",
        "is_vulkan_available",
        "per_channel_affine",
        "per_channel_affine_float_qparams",
        "per_channel_symmetric",
        "per_tensor_affine",
        "per_tensor_symmetric",
        "qscheme",
    ),
    "_subclass": (
        "DisableTorchFunction",
        "DisableTorchFunctionSubclass",
    ),
    "utils.dlpack": (
        "to_dlpack",
    ),
    "_layout": (
        "_mkldnn",
        "jagged",
        "layout",
        "sparse_bsc",
        "sparse_bsr",
        "sparse_coo",
        "sparse_csc",
        "sparse_csr",
        "strided",
    ),
    "_linalg.householder": ("geqrf", "orgqr", "ormqr"),
    "_linalg.lu": ("lu_unpack",),
    "_linalg.matrix_functions": ("matrix_exp",),
    "_linalg.older": (
        "cholesky",
        "eig",
        "lstsq",
        "lu",
        "lu_solve",
        "matrix_rank",
        "solve",
        "symeig",
        "triangular_solve",
    ),
    "_special.bessel": ("i0", "i0_"),
    "_special.gamma": ("igamma", "igammac", "mvlgamma", "polygamma"),
    "_tensor_str": ("get_printoptions", "set_printoptions"),
    "_streams": ("Event", "Stream"),
    "_tensor_types": (*(f"{prefix}Tensor" for prefix in _DTYPE_PREFIXES), "typename"),
    "accelerator": ("get_device_module",),
    "amp.autocast_mode": (
        "autocast",
        "clear_autocast_cache",
        "get_autocast_cpu_dtype",
        "get_autocast_dtype",
        "get_autocast_gpu_dtype",
        "is_autocast_cache_enabled",
        "is_autocast_cpu_enabled",
        "is_autocast_enabled",
        "set_autocast_cache_enabled",
        "set_autocast_cpu_dtype",
        "set_autocast_cpu_enabled",
        "set_autocast_dtype",
        "set_autocast_enabled",
        "set_autocast_gpu_dtype",
    ),
    "amp.grad_scaler": ("GradScaler",),
    "compiler": ("compile",),
    "backends": ("get_float32_matmul_precision", "set_float32_matmul_precision"),
    "func": ("vmap",),
    "jit": ("ScriptFunction", "ScriptModule", "fork", "wait"),
    "linalg": ("pca_lowrank", "pinverse", "svd_lowrank"),
    "nn.functional": (
        "bilinear",
        "channel_shuffle",
        "cosine_similarity",
        "pairwise_distance",
        "pdist",
        "pixel_shuffle",
        "pixel_unshuffle",
        "rms_norm",
    ),
    "serialization": ("load", "save"),
    "serialization._zip_file": ("PyTorchFileReader",),
    "storage": (*(f"{prefix}Storage" for prefix in _DTYPE_PREFIXES), "Storage", "TypedStorage"),
    "types": ("DispatchKey", "SymBool", "SymFloat", "SymInt"),
    "version": ("compiled_with_cxx11_abi",),
}
_FROM = {name: module for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _FROM:
        value = globals()[name] = getattr(importlib.import_module(f"rgrad.{_FROM[name]}"), name)
        return value
    if name.isidentifier() and (not name.startswith("_") or name in ("__config__", "__future__")):
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
