"""rgrad: PyTorch's eager API on a Rust core.

>>> import rgrad as torch
>>> x = torch.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

from __future__ import annotations

# Note [Importing without typing]
# `typing` and what it imports take a third of the time that an import of rgrad takes, and are for type checkers alone:
# what is imported with rgrad asks for it where they look. A name is theirs already when it is called TYPE_CHECKING.
import importlib
import math

from rgrad import _C
from rgrad._C import *  # noqa: F403 - every function of the operation table, under PyTorch's name
from rgrad._C import Generator, Tensor, device, dtype, memory_format

from . import _elementwise, _subclass
from ._dtypes import broadcast_shapes, can_cast, finfo, iinfo, promote_types, result_type
from ._modes import (
    are_deterministic_algorithms_enabled,
    get_autocast_dtype,
    get_default_device,
    get_deterministic_debug_mode,
    get_float32_matmul_precision,
    is_autocast_enabled,
    is_deterministic_algorithms_warn_only_enabled,
    set_default_device,
    set_deterministic_debug_mode,
    set_float32_matmul_precision,
    use_deterministic_algorithms,
)
from ._products import chain_matmul, einsum, tensordot
from ._size import Size
from ._top import (
    compiled_with_cxx11_abi,
    default_generator,
    get_printoptions,
    get_rng_state,
    initial_seed,
    is_floating_point,
    is_inference,
    is_storage,
    is_tensor,
    layout,
    manual_seed,
    seed,
    set_default_tensor_type,
    set_printoptions,
    set_rng_state,
    typename,
)
from .autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

_subclass.install()
_elementwise.install()

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

    # What __getattr__ below finds, for type checkers.
    from . import (
        accelerator,
        amp,
        autograd,
        backends,
        cpu,
        cuda,
        distributed,
        func,
        gpu,
        library,
        linalg,
        mps,
        nn,
        optim,
        random,
        return_types,
        safetensors,
        serialization,
        special,
        storage,
        testing,
        utils,
        version,
        vision,
        viz,
    )
    from ._asarray import asarray
    from ._doctor import doctor
    from ._top import get_device_module, strided
    from .amp import autocast
    from .linalg import pinverse
    from .serialization import load, save
    from .storage import TypedStorage

# Loaded at first use: an import of rgrad alone stays fast.
_LAZY = {
    "accelerator",
    "amp",
    "autograd",
    "backends",
    "cpu",
    "cuda",
    "distributed",
    "func",
    "gpu",
    "library",
    "linalg",
    "mps",
    "nn",
    "optim",
    "random",
    "return_types",
    "safetensors",
    "serialization",
    "special",
    "storage",
    "testing",
    "utils",
    "version",
    "vision",
    "viz",
}
_FROM = {
    "GradScaler": ("rgrad.amp", "GradScaler"),
    "TypedStorage": ("rgrad.storage", "TypedStorage"),
    "asarray": ("rgrad._asarray", "asarray"),
    "autocast": ("rgrad.amp", "autocast"),
    "doctor": ("rgrad._doctor", "doctor"),
    "get_device_module": ("rgrad._top", "get_device_module"),
    "load": ("rgrad.serialization", "load"),
    "pinverse": ("rgrad.linalg", "pinverse"),
    "save": ("rgrad.serialization", "save"),
    "strided": ("rgrad._top", "strided"),
    **{
        f"{kind}{what}": (module, f"{kind}{what}")
        for kind in ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
        for what, module in (("Tensor", "rgrad._tensor_types"), ("Storage", "rgrad.storage"))
    },
    # Functions of rgrad.nn that PyTorch offers at the top too.
    **{
        name: ("rgrad.nn.functional", name)
        for name in (
            "bilinear",
            "channel_shuffle",
            "cosine_similarity",
            "pairwise_distance",
            "pdist",
            "pixel_shuffle",
            "pixel_unshuffle",
            "rms_norm",
        )
    },
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"rgrad.{name}")
    if name in _FROM:
        module, attribute = _FROM[name]
        value = getattr(importlib.import_module(module), attribute)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'rgrad' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_FROM})
