"""Selective checkpointing: regions that keep the results of some operations, and recompute the others.

Note [Selective checkpointing]
Both runs of a region call the same operations in the same order, so the n-th call of an operation in the second run is
that of the first. A `TorchFunctionMode` sees the calls of each run:

1. In the first run, a `Slot` takes the place of each tensor that the call's node saves. Then the policy decides.
   Recompute: each tensor is passed on to the region, in order, as if there had been no slot. Save: only those that are
   arguments of the call are passed on, because the second run has them anyway. What the operation computed, its result
   or statistics, stays in its slot, for backward; the result is also put into the `Store`, without its history.
2. In the second run, a call whose result is in the store is not made. Its arguments are passed to the region, in the
   order that the first run noted, and the result is returned. If the operation drew random numbers, the generator is
   moved past them, so that what follows draws those of the first run.

A result is taken from the store once, which frees its memory as backward proceeds; hence a region has one backward.
Functions that are written in terms of others are entered, so that the operations they call are seen. Views and
operations in place run in both runs: they cost nothing, or their effect is needed.
Hooks that the region's function sets itself, and those of a checkpoint inside, get all tensors as they are: only
results are stored then.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import rgrad
from rgrad import _C, overrides
from rgrad._library import calls
from rgrad._ops import OpOverload, OpOverloadPacket
from rgrad._subclass import DisableTorchFunction, DisableTorchFunctionSubclass
from rgrad.autograd import Function
from rgrad.autograd.graph import innermost_saved_tensors_hooks, saved_tensors_hooks
from rgrad.random import default_generator

Tensor = _C.Tensor
_MUTATED = "Tensor cached during selective activation checkpoint has been mutated"


class CheckpointPolicy(enum.Enum):
    """What a policy of selective checkpointing says of a call of an operation.

    MUST_SAVE and PREFER_SAVE keep its result, the others recompute it. Moving results to the CPU is for programs that
    are compiled, so MUST_CPU_OFFLOAD and PREFER_CPU_OFFLOAD recompute them too.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


# True is the older way to say MUST_SAVE.
_SAVES = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, True)


class SelectiveCheckpointContext:
    """What a policy is told about a call besides its operation and arguments.

    Args:
        is_recompute: whether the call is one of the second run. Policies are asked in the first run alone.
        op_output: the result of the call, without its history.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


def _tensors(values: Any) -> Iterator[Tensor]:
    """The tensors in arguments or results, in order."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _tensors(value)
    elif isinstance(values, dict):
        yield from _tensors(list(values.values()))


def _mapped(function: Callable[[Tensor], Any], values: Any) -> Any:
    """Results with each tensor replaced by what a function makes of it."""
    if isinstance(values, Tensor):
        return function(values)
    if isinstance(values, tuple | list):
        items = [_mapped(function, value) for value in values]
        make: Any = getattr(type(values), "_make", type(values))
        return make(items)
    return values


def _of_class(cls: type, x: Tensor) -> Tensor:
    """A tensor, as one of a class if functions handle that class in another way."""
    return x.as_subclass(cls) if type(x) is not cls and getattr(cls, "_takes_part", False) else x


def _address(x: Tensor) -> Any:
    """What tensors of the same storage have in common; None of an empty tensor, which has no memory."""
    pointer = x.untyped_storage().data_ptr()
    return (x.device, pointer) if pointer else None


def _version(x: Tensor) -> int:
    return 0 if x.is_inference() else x._version


class Slot:
    """Takes the place of a tensor that a node saves: it holds the tensor itself, or what the region made of it."""

    __slots__ = ("packed", "tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor | None = tensor
        self.packed: Any = None
        self.version = _version(tensor)

    def pass_on(self, hooks: saved_tensors_hooks, tensor: Tensor) -> None:
        """Lets the region save the tensor."""
        self.tensor, self.packed = None, hooks.pack_hook(tensor)

    def keep(self, tensor: Tensor) -> None:
        """Saves the tensor here, as no second run computes it."""
        self.tensor, self.version = tensor.detach(), _version(tensor)

    def restored(self, hooks: saved_tensors_hooks) -> Tensor:
        """The tensor, for backward."""
        if self.tensor is None:
            return hooks.unpack_hook(self.packed)
        if _version(self.tensor) != self.version:
            raise RuntimeError(f"{_MUTATED}: backward of the operation that computed it needs what it was")
        return self.tensor


class Saved:
    """How a tensor that a node saves is made of an argument of its call.

    Args:
        place: the argument's number among the tensors of the call.
        layout: for a view of the argument, the strides that the argument has; the view's shape, strides, and distance
            from the argument in the storage. None for the argument itself.
        dtype: the dtype to which autocast casts the argument first, or None.
    """

    __slots__ = ("dtype", "layout", "place")

    def __init__(self, place: int, layout: tuple[Any, ...] | None = None, dtype: Any = None) -> None:
        self.place, self.layout, self.dtype = place, layout, dtype

    @classmethod
    def of(cls, x: Tensor, arguments: list[Tensor]) -> Saved | None:
        """How a saved tensor is made of one of the arguments; None if the operation computed it."""
        for place, argument in enumerate(arguments):
            if argument is x:
                return cls(place)
        address = _address(x)
        if address is None:
            return None
        for place, argument in enumerate(arguments):
            if _address(argument) == address and argument.dtype == x.dtype:
                return cls(place, _layout(x, argument))
        if any(_C._get_autocast(kind)[0] for kind in ("cpu", "gpu")):
            for place, argument in enumerate(arguments):
                if argument.dtype != x.dtype and argument.is_floating_point() and argument.numel() == x.numel():
                    made = cls(place, _layout(x, cast := argument.detach().to(x.dtype)), x.dtype)
                    same_size = cast.untyped_storage().nbytes() == x.untyped_storage().nbytes()
                    if same_size and rgrad.equal(made.again(arguments), x):
                        return made
        return None

    def again(self, arguments: list[Tensor]) -> Tensor:
        """The tensor, made of the arguments of the second run."""
        x = arguments[self.place]
        if self.dtype is not None:
            x = x.detach().to(self.dtype)
        if self.layout is None:
            return x
        strides, shape, own, distance = self.layout
        if x.stride() != strides:
            raise RuntimeError(
                f"selective activation checkpoint: an argument of a saved operation has strides {x.stride()} in the "
                f"second run of a region, but had {strides} in the first"
            )
        return x.detach().as_strided(shape, own, x.storage_offset() + distance)


def _layout(x: Tensor, argument: Tensor) -> tuple[Any, ...]:
    return argument.stride(), x.shape, x.stride(), x.storage_offset() - argument.storage_offset()


_TAKEN = object()


class Entry:
    """The result of a call that the policy saves, and what the second run needs to skip the call.

    Args:
        result: the result, without its history; `_TAKEN` after the second run took it.
        requires_grad: for each of its tensors, whether it has a history.
        saved: the arguments that the region saved, in order.
        rng_state: the generator's state after the call, if it drew random numbers.
    """

    __slots__ = ("requires_grad", "result", "rng_state", "saved", "versions")

    def __init__(self, result: Any, requires_grad: list[bool], saved: list[Saved], rng_state: bytes | None) -> None:
        self.result, self.requires_grad = result, requires_grad
        self.saved, self.rng_state = saved, rng_state
        self.versions = [_version(x) for x in _tensors(result)]

    def take(self, arguments: list[Tensor], allow_mutation: bool) -> Any:
        """Gives the result away, as one that depends on the arguments as it did in the first run."""
        result, self.result = self.result, _TAKEN
        if result is _TAKEN:
            raise RuntimeError(
                "Trying to backward an extra time: a region under selective activation checkpoint gives away the "
                "results that it saved, so it has one backward."
            )
        kept = list(_tensors(result))
        if not allow_mutation and [_version(x) for x in kept] != self.versions:
            raise RuntimeError(_MUTATED)
        if not any(self.requires_grad) or not rgrad.is_grad_enabled():
            return result
        sources = [x for x in arguments if x.requires_grad]
        if not sources:  # The operation's history is that of tensors other than its arguments.
            for x, requires in zip(kept, self.requires_grad, strict=True):
                x.requires_grad_(requires)
            return result
        made = iter(_Restored.apply(kept, self.requires_grad, *sources))
        return _mapped(lambda x: _of_class(type(x), next(made)), result)


class _Restored(Function):
    """Stands for a call that is not made again. The second run only lets operations save tensors; its graph is not
    used, except by a region that computes gradients itself.
    """

    @staticmethod
    def forward(ctx: Any, results: list[Tensor], requires_grad: list[bool], *arguments: Tensor) -> tuple[Tensor, ...]:
        ctx.mark_non_differentiable(*(x for x, requires in zip(results, requires_grad, strict=True) if not requires))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "selective activation checkpoint: a region that computes gradients itself must recompute the operations "
            "that they flow through, but the policy saved one of them"
        )


class Store:
    """The results that the first run saved, by operation, in the order of its calls.

    Each call of an operation has an item: an :class:`Entry`, or None where the second run makes the call as well.
    """

    def __init__(self) -> None:
        self.items: dict[Any, list[Any]] = {}

    def reserve(self, op: Any) -> tuple[list[Any], int]:
        """Adds an item for a call that begins, also for one that ends in an error; returns its list and number."""
        items = self.items.setdefault(op, [])
        items.append(None)
        return items, len(items) - 1

    def find(self, op: Any, number: int) -> Any:
        """The item of a call of the second run."""
        items = self.items.get(op, [])
        if number >= len(items):
            raise RuntimeError(
                f"{op} invocation index {number} encountered during backward but not found in storage. The first run "
                "of the region made fewer calls of it: the region must do the same in both runs."
            )
        return items[number]


class _Run(overrides.TorchFunctionMode):
    """What the modes of both runs have in common: see Note [Selective checkpointing]."""

    def __init__(self) -> None:
        # The hooks of the region that the mode serves, innermost last, as a block may be entered inside itself.
        self.served: list[saved_tensors_hooks | None] = []
        # What of overriding was disabled around each block.
        self.disabled: list[int] = []

    def __enter__(self) -> Any:
        self.served.append(innermost_saved_tensors_hooks())
        # Both runs must see their calls, so a `DisableTorchFunction` around one of them disables subclasses alone.
        before = _C._set_torch_function_disabled(DisableTorchFunctionSubclass.level)
        self.disabled.append(before)
        if before < DisableTorchFunction.level:
            _C._set_torch_function_disabled(before)
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        _C._set_torch_function_disabled(self.disabled.pop())
        self.served.pop()

    def hooks(self) -> saved_tensors_hooks | None:
        """The region's hooks, if they get what is saved now."""
        hooks = innermost_saved_tensors_hooks()
        return hooks if hooks is self.served[-1] else None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with DisableTorchFunction():
            op = calls.operation_of(func, args, kwargs)
        if op is not None:
            return self.operate(op, func, args, kwargs)
        inner = getattr(func, "__wrapped__", None)
        if inner is None or any(t is not Tensor and getattr(t, "_takes_part", True) for t in types):
            return func(*args, **kwargs)
        overrides._push_mode(self)
        try:
            return inner(*args, **kwargs)
        finally:
            overrides._pop_mode()

    def operate(self, op: Any, func: Any, args: Any, kwargs: Any) -> Any:
        """Makes a call of an operation."""
        raise NotImplementedError


class _FirstRun(_Run):
    def __init__(self, policy: Callable[..., Any] | frozenset[Any], store: Store) -> None:
        super().__init__()
        self.policy, self.store = policy, store

    def operate(self, op: Any, func: Any, args: Any, kwargs: Any) -> Any:
        items, number = self.store.reserve(op)
        if isinstance(self.policy, frozenset) and op not in self.policy:
            return func(*args, **kwargs)
        hooks = self.hooks()
        if hooks is None:
            result, items[number] = self._made(op, func, args, kwargs, contextlib.nullcontext())
            return result
        slots: list[Slot] = []

        def pack(x: Tensor) -> Slot:
            with DisableTorchFunction():
                slots.append(Slot(x))
            return slots[-1]

        collecting = saved_tensors_hooks(pack, lambda slot: slot.restored(hooks))
        result, items[number] = self._made(op, func, args, kwargs, collecting, hooks, slots)
        return result

    def _made(
        self,
        op: Any,
        func: Any,
        args: Any,
        kwargs: Any,
        collecting: Any,
        hooks: Any = None,
        slots: Iterable[Slot] = (),
    ) -> tuple[Any, Entry | None]:
        """Makes a call; returns its result and its entry, if the policy saves it."""
        before = default_generator._state()
        with collecting:
            result = func(*args, **kwargs)
        after = default_generator._state()
        with DisableTorchFunction():
            arguments = list(_tensors((args, kwargs)))
            plain = _mapped(lambda x: _of_class(type(x), x.detach()), result)
            saved: list[Saved] = []
            saves = self._saves(op, func, args, kwargs, arguments, plain)
            for slot in slots:
                x: Any = slot.tensor
                source = Saved.of(x, arguments) if saves else None
                if saves and source is None:
                    slot.keep(x)
                else:
                    slot.pass_on(hooks, x)
                    saved += [] if source is None else [source]
            if not saves:
                return result, None
            requires_grad = [x.requires_grad for x in _tensors(result)]
            return result, Entry(plain, requires_grad, saved, bytes(after) if after != before else None)

    def _saves(self, op: Any, func: Any, args: Any, kwargs: Any, arguments: list[Tensor], plain: Any) -> bool:
        """Whether the result of a call is to be saved."""
        results = list(_tensors(plain))
        if not results:
            return False
        addresses = {_address(x) for x in arguments} - {None}
        is_view = any(_address(x) in addresses for x in results)
        if is_view and str(op).removeprefix("aten.") in calls.RETURN_ARGUMENT:
            return False
        if isinstance(self.policy, frozenset):
            return not is_view
        shown, named = calls.shown_arguments(func, args, kwargs)
        said = self.policy(SelectiveCheckpointContext(is_recompute=False, op_output=plain), op, *shown, **named)
        return not is_view and any(said is choice for choice in _SAVES)


class _SecondRun(_Run):
    def __init__(self, store: Store, allow_mutation: bool) -> None:
        super().__init__()
        self.store, self.allow_mutation = store, allow_mutation
        # How often each operation was called.
        self.counts: list[dict[Any, int]] = []

    def __enter__(self) -> Any:
        self.counts.append({})
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self.counts.pop()

    def operate(self, op: Any, func: Any, args: Any, kwargs: Any) -> Any:
        counts = self.counts[-1]
        number = counts[op] = counts.get(op, -1) + 1
        entry = self.store.find(op, number)
        if entry is None:
            return func(*args, **kwargs)
        with DisableTorchFunction():
            arguments = list(_tensors((args, kwargs)))
            hooks = self.hooks()
            if hooks is not None:
                for saved in entry.saved:
                    hooks.pack_hook(saved.again(arguments))
            result = entry.take(arguments, self.allow_mutation)
            if entry.rng_state is not None and getattr(self.served[-1], "restores_rng", False):
                default_generator._set_state(entry.rng_state)
        return result


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | list[Any], allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Returns contexts with which a checkpointed region keeps the results of the operations that a policy names.

    Backward recomputes the others. What a saved operation keeps for its own backward besides its arguments, such as the
    statistics of a normalization, or the weights of attention on the CPU, is kept too.

    Args:
        policy_fn_or_list: the operations to save, as overloads such as ``torch.ops.aten.mm.default``; or a function of
            a :class:`SelectiveCheckpointContext`, the overload, and the call's arguments, that returns a
            :class:`CheckpointPolicy`. It is asked about each call of an operation in the first run.
        allow_cache_entry_mutation: whether a saved result may be written to after it was saved; backward then uses
            what was written.

    Returns:
        Two contexts for one call of :func:`checkpoint`, as its `context_fn` returns them.

    Raises:
        ValueError: the list has an item that is no overload.
        TypeError: the policy is neither a function nor a list.
        RuntimeError: in backward, if it is the second through the region, if a saved result was written to, or if the
            second run calls an operation that the first did not.

    >>> import functools
    >>> import rgrad as torch
    >>> from rgrad.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> products = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    >>> x = torch.eye(2, requires_grad=True)
    >>> y = checkpoint(lambda x: (x @ x).exp(), x, use_reentrant=False, context_fn=products)
    >>> y.sum().backward()  # The second run takes the product, and computes exp.
    >>> x.grad
    tensor([[5.4366, 2.0000],
            [2.0000, 5.4366]])
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                raise ValueError(_no_overload(op))
        policy = frozenset(policy_fn_or_list)
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    store = Store()
    return _FirstRun(policy, store), _SecondRun(store, allow_cache_entry_mutation)


def _no_overload(op: Any) -> str:
    """The error for an item of a list of operations."""
    is_packet = isinstance(op, OpOverloadPacket)
    hint = f" Please update the OpOverloadPacket to a specific OpOverload, as torch.ops.{op}.default."
    return f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.{hint if is_packet else ''}"
