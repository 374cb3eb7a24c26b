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

from . import _subclass, _tensor
from ._dtypes import (
    broadcast_shapes as broadcast_shapes,
    can_cast as can_cast,
    finfo as finfo,
    iinfo as iinfo,
    promote_types as promote_types,
    result_type as result_type,
)
from ._size import Size as Size
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
from .functional import chain_matmul as chain_matmul, einsum as einsum, tensordot as tensordot
from .random import (
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    seed as seed,
    set_rng_state as set_rng_state,
)

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
        cdouble as cdouble,
        cfloat as cfloat,
        chalf as chalf,
        complex32 as complex32,
        complex64 as complex64,
        complex128 as complex128,
        float4_e2m1fn_x2 as float4_e2m1fn_x2,
        float8_e4m3fn as float8_e4m3fn,
        float8_e4m3fnuz as float8_e4m3fnuz,
        float8_e5m2 as float8_e5m2,
        float8_e5m2fnuz as float8_e5m2fnuz,
        float8_e8m0fnu as float8_e8m0fnu,
        qint8 as qint8,
        qint32 as qint32,
        quint8 as quint8,
        uint16 as uint16,
        uint32 as uint32,
        uint64 as uint64,
    )
    from ._asarray import asarray as asarray
    from ._assertions import _assert as _assert, _assert_async as _assert_async
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
    from ._layout import layout as layout, strided as strided
    from ._streams import Event as Event, Stream as Stream
    from ._tensor_str import get_printoptions as get_printoptions, set_printoptions as set_printoptions
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
        typename as typename,
    )
    from .accelerator import get_device_module as get_device_module
    from .amp.autocast_mode import (
        autocast as autocast,
        get_autocast_dtype as get_autocast_dtype,
        is_autocast_enabled as is_autocast_enabled,
    )
    from .amp.grad_scaler import GradScaler as GradScaler
    from .backends import (
        get_float32_matmul_precision as get_float32_matmul_precision,
        set_float32_matmul_precision as set_float32_matmul_precision,
    )
    from .compiler import compile as compile
    from .doctor import doctor as doctor
    from .func import vmap as vmap
    from .jit import ScriptModule as ScriptModule
    from .linalg import pca_lowrank as pca_lowrank, pinverse as pinverse, svd_lowrank as svd_lowrank
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
        TypedStorage as TypedStorage,
    )
    from .types import SymBool as SymBool, SymFloat as SymFloat, SymInt as SymInt
    from .version import compiled_with_cxx11_abi as compiled_with_cxx11_abi

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
    raise AttributeError(f"module 'rgrad' has no attribute '{name}'")


def __dir__() -> list[str]:
    import pkgutil

    modules = (module.name for module in pkgutil.iter_modules(__path__))  # noqa: F405
    # Importing `as_torch` changes the process, so tools that import everything in `dir()` must not see it.
    return sorted({*globals(), *_FROM, *(n for n in modules if not n.startswith("_") and n != "as_torch")})
