"""Functions that programs look up in `torch._C`, and that need nothing of the core."""

from __future__ import annotations

import threading

from rgrad import _C
from rgrad._absent import absent_class

from ._size import Size

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any


def _get_tracing_state() -> None:
    """The trace that records what runs; always None, as `jit.trace` records nothing."""
    return None


def _infer_size(a: Size, b: Size) -> Size:
    """The shape to which two shapes broadcast."""
    for place, shape in enumerate((a, b), 1):
        if not isinstance(shape, Size):
            raise RuntimeError(f"expected a torch.Size as argument {place}")
    rank = max(len(a), len(b))
    sizes: list[int] = []
    padded = ([1] * (rank - len(shape)) + [*shape] for shape in (a, b))
    for dim, (left, right) in enumerate(zip(*padded, strict=True)):
        if left != right and 1 not in (left, right):
            raise RuntimeError(
                f"The size of tensor a ({left}) must match the size of tensor b ({right}) at non-singleton dimension "
                f"{dim}"
            )
        sizes.append(right if left == 1 else left)
    return Size(sizes)


def _are_functorch_transforms_active() -> bool:
    """Whether tensors are wrapped by a transform: those of `vmap` are, derivatives are taken of ordinary ones."""
    return bool(_C._vmap_levels())


class _DisableFuncTorch:
    """A context without transforms of `torch.func`. There is nothing to disable unless a `vmap` runs."""

    def __enter__(self) -> None:
        if _are_functorch_transforms_active():
            raise NotImplementedError("torch._C._DisableFuncTorch: the transform that runs can't be disabled")

    def __exit__(self, *exc: object) -> None:
        pass


def _get_default_device() -> str:
    """The type of the device that new tensors are made on."""
    from rgrad._defaults import get_default_device

    return get_default_device().type


def _get_privateuse1_backend_name() -> str:
    """The name of the device type that other packages may define; there is none, so it is PyTorch's own."""
    return "privateuseone"


def _get_deterministic_fill_uninitialized_memory() -> bool:
    """See `rgrad.utils.deterministic.fill_uninitialized_memory`."""
    from rgrad import _determinism

    return _determinism.get_fill_uninitialized_memory()


def _set_deterministic_fill_uninitialized_memory(mode: bool) -> None:
    """See `rgrad.utils.deterministic.fill_uninitialized_memory`."""
    from rgrad import _determinism

    _determinism.set_fill_uninitialized_memory(mode)


def _get_mkldnn_enabled() -> bool:
    """See `rgrad.backends.mkldnn`."""
    from rgrad.backends import mkldnn

    return mkldnn.enabled


def _set_mkldnn_enabled(enabled: bool) -> None:
    """Stores the setting of `rgrad.backends.mkldnn`: there is one implementation of each operation."""
    from rgrad.backends import mkldnn

    # Also where `backends.disable_global_flags` leaves the setting to blocks.
    mkldnn.__dict__["enabled"] = enabled


def _reduce_generator(self: _C.Generator) -> tuple[Any, ...]:
    """The pickled form of a generator: its device, its seed and its state."""
    return _C.Generator, (self.device,), (self.initial_seed(), self.get_state())


def _set_generator(self: _C.Generator, state: tuple[Any, ...]) -> None:
    seed, numbers = state
    self.manual_seed(seed)
    self.set_state(numbers)


_executor = {"_jit_set_profiling_executor": True, "_jit_set_profiling_mode": True}


def _keeps(name: str) -> Any:
    """A function that sets an option of the executor of scripts, and returns what it was; scripts run as they are."""

    def switch(mode: bool) -> bool:
        before, _executor[name] = _executor[name], mode
        return before

    switch.__name__ = name
    return switch


def _get_graph_executor_optimize(new_setting: bool | None = None) -> bool:
    """False: scripts run as they are."""
    return False


def _of_networks(name: str) -> Any:
    """What PyTorch has in `torch._C._nn` and rgrad among the operations of ATen, as `reflection_pad1d`."""
    if not name.startswith("__"):
        from rgrad import ops

        found = getattr(ops.aten, name, None)
        if found is not None:
            return found
    raise AttributeError(f"module 'rgrad._C._nn' has no attribute '{name}'")


class _EnablePythonDispatcher:
    """While it lives, implementations in Python come before others, in PyTorch; operations have none of these here."""


class _DisablePythonDispatcher:
    """The opposite of `_EnablePythonDispatcher`."""


def enable_python_dispatcher() -> Any:
    """A block in which implementations in Python come before others, in PyTorch; operations have none of these here."""
    from contextlib import nullcontext

    return nullcontext()


def no_python_dispatcher() -> Any:
    """The opposite of `enable_python_dispatcher`."""
    return enable_python_dispatcher()


def _of_core(name: str) -> Any:
    """What PyTorch has in `torch._C` and rgrad elsewhere."""
    if name == "_functorch":
        from rgrad import _vmap

        return _vmap
    if name in ("DispatchKey", "DispatchKeySet"):
        import rgrad

        return getattr(rgrad, name)
    raise AttributeError(f"module 'rgrad._C' has no attribute '{name}'")


ShapeEnv = absent_class("torch.fx.experimental.symbolic_shapes.ShapeEnv", "sizes of tensors are numbers, not symbols")


class _KindOfStorage(type):
    """The type of `StorageBase`: every storage of bytes is one."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(_C.UntypedStorage if cls.__name__ == "StorageBase" else cls, instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return type.__subclasscheck__(_C.UntypedStorage if cls.__name__ == "StorageBase" else cls, subclass)


class StorageBase(_C.UntypedStorage, metaclass=_KindOfStorage):  # type: ignore[misc]
    """The base class of storages, for classes of a program's own: it has no objects itself."""

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> StorageBase:
        if cls is StorageBase:
            raise RuntimeError("Cannot directly construct StorageBase; subclass it and then construct that")
        return super().__new__(cls, *args, **kwargs)


def _set_fwd_grad_enabled(mode: bool) -> None:
    """Sets whether tensors may have tangents; `rgrad.autograd.forward_ad` has it for a block.

    Args:
        mode: whether they may.
    """
    from rgrad.autograd import forward_ad

    entered: list[Any] = vars(_thread).setdefault("without_tangents", [])
    if mode:
        while entered:
            entered.pop().__exit__()
    elif not entered:
        block = forward_ad._set_fwd_grad_enabled(False)
        block.__enter__()
        entered.append(block)


def _is_fwd_grad_enabled() -> bool:
    """Whether tensors may have tangents."""
    from rgrad.autograd import forward_ad

    return forward_ad._is_fwd_grad_enabled()


_thread = threading.local()


def _is_alias_of(first: _C.Tensor, second: _C.Tensor) -> bool:
    """Whether two tensors use the same storage.

    Args:
        first: a tensor.
        second: another.
    """
    return first.untyped_storage() == second.untyped_storage()


def _dispatch_find_schema_or_throw(name: str, overload: str) -> Any:
    """The form of an operation, such as "aten::sin", that `_dispatch_call_boxed` calls."""
    from rgrad import ops

    namespace, _, operation = name.partition("::")
    found = getattr(getattr(ops, namespace), operation, None)
    if found is None:
        raise RuntimeError(f"Could not find schema for {name}.{overload}")
    return getattr(found, overload or "default")


def _dispatch_call_boxed(operation: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls a form of an operation."""
    return operation(*args, **kwargs)


def _dispatch_isTensorSubclassLike(tensor: _C.Tensor) -> bool:
    """Whether Python or `vmap` computes the operations on a tensor."""
    dispatches = getattr(type(tensor), "_dispatches", False) or bool(_C._torch_dispatch_stack())
    return dispatches or _C._is_batched(tensor)


def install() -> None:
    """Puts them into the core's module."""
    for name in ("Graph", "Value"):  # annotations of functions that describe operations to an exporter
        setattr(_C, name, absent_class(f"torch._C.{name}", "models are exported to no other format"))
    for name in ("ScriptDict", "ScriptFunction", "ScriptList", "ScriptMethod", "ScriptModule"):
        setattr(_C, name, absent_class(f"torch._C.{name}", "torch.jit.script leaves everything as it is"))
    _C._nn.__getattr__ = _of_networks  # type: ignore[attr-defined, method-assign]
    _C.Generator.__reduce__ = _reduce_generator  # type: ignore[method-assign, assignment]
    _C.Generator.__setstate__ = _set_generator  # type: ignore[attr-defined]
    guard = "_ExcludeDispatchKeyGuard"
    setattr(_C, guard, absent_class(f"torch._C.{guard}", "rgrad has no dispatcher with keys"))
    _C.__getattr__ = _of_core  # type: ignore[attr-defined, method-assign]
    for made in (_DisableFuncTorch, _DisablePythonDispatcher, _EnablePythonDispatcher, StorageBase):
        setattr(_C, made.__name__, made)
    for function in (
        _get_tracing_state,
        _are_functorch_transforms_active,
        _get_default_device,
        _get_privateuse1_backend_name,
        _infer_size,
        _get_deterministic_fill_uninitialized_memory,
        _set_deterministic_fill_uninitialized_memory,
        *map(_keeps, _executor),
        _get_graph_executor_optimize,
        _get_mkldnn_enabled,
        _set_mkldnn_enabled,
        _dispatch_find_schema_or_throw,
        _dispatch_call_boxed,
        _dispatch_isTensorSubclassLike,
        _is_alias_of,
        _is_fwd_grad_enabled,
        _set_fwd_grad_enabled,
    ):
        setattr(_C, function.__name__, function)
