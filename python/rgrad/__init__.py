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

from . import _core_names, _subclass, _tensor
from ._dtypes import broadcast_shapes, can_cast, finfo, iinfo, promote_types, result_type
from ._size import Size
from ._tensor import is_floating_point, is_inference, is_storage, is_tensor
from .autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .functional import chain_matmul, einsum, tensordot
from .random import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

_core_names.install()
_subclass.install()
_tensor.install()

detach = Tensor.detach
detach_ = Tensor.detach_
resize_as_ = Tensor.resize_as_

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
        qint8,
        qint32,
        quint8,
        uint16,
        uint32,
        uint64,
    )
    from ._asarray import asarray
    from ._assertions import _assert, _assert_async
    from ._defaults import get_default_device, set_default_device, set_default_tensor_type
    from ._determinism import (
        are_deterministic_algorithms_enabled,
        get_deterministic_debug_mode,
        is_deterministic_algorithms_warn_only_enabled,
        set_deterministic_debug_mode,
        use_deterministic_algorithms,
    )
    from ._layout import layout, strided
    from ._streams import Event, Stream
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
    from .amp.autocast_mode import autocast, get_autocast_dtype, is_autocast_enabled
    from .amp.grad_scaler import GradScaler
    from .backends import get_float32_matmul_precision, set_float32_matmul_precision
    from .compiler import compile
    from .doctor import doctor
    from .func import vmap
    from .futures import Future
    from .jit import ScriptModule
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
        TypedStorage,
    )
    from .types import SymBool, SymFloat, SymInt
    from .version import compiled_with_cxx11_abi

# Names whose modules are loaded on first use, so that `import rgrad` stays fast.
_DTYPE_PREFIXES = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
_NAMES_OF = {
    "_absent_dtypes": (
        "cdouble",
        "cfloat",
        "chalf",
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
    "_layout": ("layout", "strided"),
    "_tensor_str": ("get_printoptions", "set_printoptions"),
    "_streams": ("Event", "Stream"),
    "_tensor_types": (*(f"{prefix}Tensor" for prefix in _DTYPE_PREFIXES), "typename"),
    "accelerator": ("get_device_module",),
    "amp.autocast_mode": ("autocast", "get_autocast_dtype", "is_autocast_enabled"),
    "amp.grad_scaler": ("GradScaler",),
    "compiler": ("compile",),
    "backends": ("get_float32_matmul_precision", "set_float32_matmul_precision"),
    "func": ("vmap",),
    "futures": ("Future",),
    "jit": ("ScriptModule",),
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
    "storage": (*(f"{prefix}Storage" for prefix in _DTYPE_PREFIXES), "TypedStorage"),
    "types": ("SymBool", "SymFloat", "SymInt"),
    "version": ("compiled_with_cxx11_abi",),
}
# PyTorch's private modules that programs reach as attributes without importing them.
_PRIVATE_MODULES = ("__config__", "__future__", "_dynamo", "_library", "_subclasses", "_tensor_str", "_utils")
_FROM = {name: module for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _FROM:
        value = globals()[name] = getattr(importlib.import_module(f"rgrad.{_FROM[name]}"), name)
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
    raise AttributeError(f"module 'rgrad' has no attribute '{name}'")


def __dir__() -> list[str]:
    import pkgutil

    modules = (module.name for module in pkgutil.iter_modules(__path__))  # noqa: F405
    # Importing `as_torch` changes the process, so tools that import everything in `dir()` must not see it.
    return sorted({*globals(), *_FROM, *(n for n in modules if not n.startswith("_") and n != "as_torch")})
