"""The graph: nodes, edges, hooks on several tensors, and hooks on saved tensors."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence

from rgrad import _C
from rgrad._C import Node, Tensor
from rgrad._transforms import refuse_hooks
from rgrad.utils.hooks import RemovableHandle

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "queue_callback",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_warn_on_accumulate_grad_stream_mismatch",
]


class GradientEdge(namedtuple("GradientEdge", ("node", "output_nr", "ownership_token"), defaults=(None,))):
    """The destination of a gradient: a node and the number of one of its outputs.

    `backward` and `grad` accept an edge in place of a tensor, so the tensor itself need not be kept.
    """

    __slots__ = ()
    node: Node
    output_nr: int
    ownership_token: Any


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge to which the gradient of a tensor flows."""
    return GradientEdge(*_C._gradient_edge(tensor))


def _receiver(tensor: Tensor | GradientEdge) -> Node:
    """The node that receives the gradient of a tensor: for a leaf, its accumulator."""
    if isinstance(tensor, GradientEdge):
        return tensor.node
    if not tensor.requires_grad:
        raise AssertionError("Expected gradient function to be set")
    return _C._gradient_edge(tensor)[0]


class saved_tensors_hooks:
    """Operations in the block save ``pack_hook(tensor)`` instead of the tensors that they save for backward.

    Backward restores each tensor with ``unpack_hook(packed)``.

    >>> import rgrad as torch
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), torch.tensor):
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor([4.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    # Whether the hooks are those of a program, not of a region that is computed again.
    _of_program = True

    def __enter__(self) -> None:
        if self._of_program:
            refuse_hooks()
        blocks = entered_blocks()
        _C._push_saved_tensors_hooks(self.pack_hook, self.unpack_hook)
        blocks.append(self)

    def __exit__(self, *exc: object) -> None:
        if blocks := entered_blocks():
            blocks.pop()
        _C._pop_saved_tensors_hooks()


# The blocks that this thread has entered.
_entered = threading.local()


def entered_blocks() -> list[saved_tensors_hooks]:
    """The blocks that this thread is in; those that were entered in a backward have ended with it."""
    blocks = _entered.__dict__.setdefault("blocks", [])
    del blocks[_C._saved_tensors_hooks_depth() :]
    return blocks


def hooks_of_programs() -> bool:
    """Whether this thread is in a block with hooks of a program."""
    return any(block._of_program for block in entered_blocks())


def innermost_saved_tensors_hooks() -> saved_tensors_hooks | None:
    """The block whose hooks get what operations of this thread save now."""
    blocks = entered_blocks()
    return blocks[-1] if blocks else None


class save_on_cpu(saved_tensors_hooks):
    """Operations in the block save their tensors for backward in CPU memory.

    Args:
        pin_memory: use pinned memory, from which a device reads asynchronously.
        device_type: the device for which memory is pinned.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> tuple[Any, Tensor]:
            kept = tensor.cpu()
            return tensor.device, kept.pin_memory() if pin_memory and tensor.device.type == device_type else kept

        def unpack(packed: tuple[Any, Tensor]) -> Tensor:
            device, kept = packed
            return kept.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Makes the use of saved tensor hooks in the block an error with the given message."""
    before = _C._set_saved_tensors_hooks_error(error_message)
    try:
        yield
    finally:
        _C._set_saved_tensors_hooks_error(before)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Increments the version counter after a write that autograd did not see, so that a backward needing old values
    fails.

    Args:
        tensor: the tensor that was written, or several.
    """
    tensors = (tensor,) if isinstance(tensor, Tensor) else tensor
    if not isinstance(tensors, Iterable):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    _C._increment_version(list(tensors))


def queue_callback(callback: Callable[[], Any]) -> None:
    """Calls ``callback`` when the current backward has run all its nodes."""
    _C._queue_callback(callback)


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Whether to warn about gradients on another stream than their leaf's. There is one stream, so there are none."""


class _Handle:
    """What the graph has in place of a saved tensor; those of one tensor and version share it."""

    __slots__ = ("__weakref__",)


class _AllowMutationOnSavedContext:
    """The state of `allow_mutation_on_saved_tensors`: saved tensors, and copies of those that are about to be
    overwritten. An entry goes with the last node that has its handle.
    """

    def __init__(self) -> None:
        self.cloned: weakref.WeakKeyDictionary[_Handle, Tensor] = weakref.WeakKeyDictionary()
        self.original: weakref.WeakKeyDictionary[_Handle, Tensor] = weakref.WeakKeyDictionary()
        # By the address of the elements, the storage, and the version; the second lists the keys of a storage.
        self.tid_to_weakhandle: weakref.WeakValueDictionary[tuple[Any, ...], _Handle] = weakref.WeakValueDictionary()
        self.sid_to_tid: dict[tuple[int, int], set[tuple[Any, ...]]] = {}
        self.open = True

    def clear(self) -> None:
        """Releases the tensors."""
        for entries in (self.cloned, self.original, self.tid_to_weakhandle, self.sid_to_tid):
            entries.clear()

    def pack(self, tensor: Tensor) -> _Handle:
        storage, version = tensor.untyped_storage()._cdata, tensor._version
        key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype, storage, version)
        handle = self.tid_to_weakhandle.get(key)
        if handle is None:
            handle = self.tid_to_weakhandle[key] = _Handle()
            self.original[handle] = tensor.detach()
            self.sid_to_tid.setdefault((storage, version), set()).add(key)
        return handle

    def unpack(self, handle: _Handle) -> Tensor:
        if not self.open:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "recorded: the values that it kept are gone with it."
            )
        return self.cloned[handle] if handle in self.cloned else self.original[handle]

    def keep(self, tensor: Tensor) -> None:
        """Copies what is saved of the memory of a tensor that is about to be written."""
        for key in self.sid_to_tid.pop((tensor.untyped_storage()._cdata, tensor._version), ()):
            handle = self.tid_to_weakhandle.get(key)
            if handle is not None and handle in self.original:
                self.cloned[handle] = self.original.pop(handle).clone()


def _written_by(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """The tensors that an operation of ATen writes, going by its name."""
    targets = kwargs.get("out")
    if targets is None and args and name.endswith("_") and not name.endswith("__"):
        targets = args[0]
    for target in targets if isinstance(targets, (list, tuple)) else (targets,):
        if isinstance(target, Tensor):
            yield target


@functools.cache
def _mutation_mode() -> type:
    from rgrad.utils._python_dispatch import TorchDispatchMode

    class CloneWritten(TorchDispatchMode):
        """Copies saved tensors before an operation writes their memory."""

        def __init__(self, context: _AllowMutationOnSavedContext) -> None:
            super().__init__()
            self.context = context

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            for tensor in _written_by(str(func).split(".")[1], args, kwargs):
                self.context.keep(tensor)
            return func(*args, **kwargs)

    return CloneWritten


_mutation = threading.local()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutationOnSavedContext]:
    """Tensors saved in the block may be written in place before backward, which must run in the block too.

    >>> import rgrad as torch
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     loss = (y * y).sum()
    ...     _ = y.zero_()
    ...     loss.backward()
    >>> x.grad
    tensor([4.])
    """
    if getattr(_mutation, "open", False):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _AllowMutationOnSavedContext()
    _mutation.open = True
    try:
        with saved_tensors_hooks(context.pack, context.unpack), _mutation_mode()(context):
            yield context
    finally:
        context.clear()
        context.open = _mutation.open = False


class _MultiHandle(RemovableHandle):
    """Removes the hooks of several tensors at once."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> tuple[Any, ...]:
        return self.handles

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.handles = state


def _running() -> int:
    """The id of the backward that calls the hook."""
    run = _C._current_graph_task_id()
    if run == -1:
        raise AssertionError("expected this hook to be called inside a backward call")
    return run


def register_multi_grad_hook(
    tensors: Sequence[Tensor | GradientEdge], fn: Callable[..., None], *, mode: str = "all"
) -> RemovableHandle:
    """Registers a hook on several tensors at once.

    Args:
        tensors: the tensors.
        fn: with mode "all", called once per backward with all gradients, as soon as the last one is known (None for a
            tensor that this backward does not reach); with mode "any", with the first gradient that is known.
        mode: "all" or "any".

    Returns:
        A handle whose ``remove()`` removes the hooks.
    """
    if mode == "all":
        return _register_all(tensors, fn)
    if mode == "any":
        return _register_any(tensors, fn)
    raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")


def _register_all(tensors: Sequence[Any], fn: Callable[[Sequence[Tensor | None]], None]) -> RemovableHandle:
    nodes = [_receiver(t) for t in tensors]
    lock = threading.Lock()
    # For each backward: the number of missing gradients, and the gradients so far.
    pending: dict[int, tuple[int, list[Tensor | None]]] = {}

    def hook_of(place: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            run = _running()
            with lock:
                if run not in pending:
                    pending[run] = sum(map(_C._will_engine_execute_node, nodes)), [None for _ in nodes]
                missing, grads = pending[run]
                grads[place] = grad
                pending[run] = missing - 1, grads
                if missing > 1:
                    return
                del pending[run]
            fn(grads)

        return hook

    return _MultiHandle([t.register_hook(hook_of(i)) for i, t in enumerate(tensors)])


def _register_any(tensors: Sequence[Any], fn: Callable[[Tensor], None]) -> RemovableHandle:
    lock = threading.Lock()
    # The backwards that have called it; several may run at once, in threads or inside each other.
    called: set[int] = set()

    @functools.wraps(fn)
    def hook(grad: Tensor) -> None:
        run = _running()
        with lock:
            first = run not in called
            called.add(run)
        if first:
            _C._queue_callback(lambda: called.discard(run))
            fn(grad)

    return _MultiHandle([t.register_hook(hook) for t in tensors if t.requires_grad])
