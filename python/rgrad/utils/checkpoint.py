"""Trading time for memory: regions of a network that store no activations, which backward recomputes.

>>> import rgrad as torch
>>> from rgrad.utils.checkpoint import checkpoint
>>> layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2, requires_grad=True)
>>> checkpoint(layer, x, use_reentrant=True).sum().backward()
>>> x.grad.shape
torch.Size([1, 2])
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import rgrad
from rgrad import _C
from rgrad.autograd import Function, backward
from rgrad.autograd.grad_mode import enable_grad, no_grad

from ._pytree import tree_leaves
from ._recompute import DETERMINISM_CHECKS, CheckpointError, Region, Surroundings
from ._selective import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

Tensor = _C.Tensor

_early_stop: bool | None = None
_debug: bool | None = None


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether regions that begin in the block stop their second run as soon as everything needed is computed."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Sets `debug` for calls of `checkpoint` in the block; None leaves it to each call."""
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts without effect: the default `context_fn`."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs, with tensors detached; they require a gradient if the originals do."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(_C._require_grad(x.detach(), x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The random states of the GPUs that hold the arguments, for a second run of a region by a program of its own.

    Args:
        args: the region's arguments; all but tensors on a GPU are passed over.

    Returns:
        The indices of those GPUs, each once, and for each the state of the generator, which all devices share.
    """
    tensors = [x for x in tree_leaves(args) if isinstance(x, Tensor) and x.device.type not in ("cpu", "meta")]
    devices = list(dict.fromkeys(x.get_device() for x in tensors))
    return devices, [rgrad.get_rng_state() for _ in devices]


def set_device_states(devices: list[int], states: list[Tensor], *, device_type: str | None = None) -> None:
    """Restores what `get_device_states` gave.

    Args:
        devices: the indices of the GPUs.
        states: the state for each.
        device_type: accepted, without effect, as all devices share a generator.
    """
    for _, state in zip(devices, states, strict=True):
        rgrad.set_rng_state(state)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns when no input requires a gradient, because then the region's parameters get no gradient either."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


class CheckpointFunction(Function):
    """The reentrant form: forward records nothing; backward runs the region again, and then a backward through it."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.surroundings = Surroundings(preserve_rng_state)
        ctx.args = [None if isinstance(x, Tensor) else x for x in args]
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        if not _C._is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(), as the region's own backward reaches all of its leaves: use "
                "use_reentrant=False."
            )
        args = list(ctx.args)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[place] = tensor
        again = detach_variable(tuple(args))
        with enable_grad():
            outputs = ctx.surroundings.run(ctx.run_function, *again)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        roots, weights = zip(*pairs, strict=True)
        backward(roots, weights)
        return None, None, *(x.grad if isinstance(x, Tensor) else None for x in again)


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Calls a function without storing the tensors that its operations save; backward recomputes them.

    Args:
        function: the region.
        *args: its arguments.
        use_reentrant: run a backward inside backward; then gradients reach parameters only if an argument requires one,
            and neither `grad` nor keyword arguments can be used. False is recommended.
        context_fn: returns two contexts, for the first and the second run; those of
            :func:`create_selective_checkpoint_contexts` keep the results of some operations.
        determinism_check: ``"default"`` compares shape, dtype and device of the saved tensors, ``"none"`` nothing.
        debug: in case of an error in the second run, report where in the program each run saved its tensors.
        early_stop: end the second run as soon as everything needed is computed.
        preserve_rng_state: whether the second run draws the random numbers of the first.
        **kwargs: keyword arguments of the function.

    Returns:
        The function's result.
    """
    if _chosen(use_reentrant, "torch.utils.checkpoint"):
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    logs = debug if _debug is None else _debug
    if logs and context_fn is not noop_context_fn:
        raise ValueError("debug=True is incompatible with non-default context_fn")
    if determinism_check not in DETERMINISM_CHECKS:
        raise ValueError(f"determinism_check should be one of {list(DETERMINISM_CHECKS)}, but got {determinism_check}")
    region = Region(
        function,
        args,
        kwargs,
        preserve_rng_state,
        context_fn,
        DETERMINISM_CHECKS[determinism_check],
        early_stop if _early_stop is None else _early_stop,
        logs,
    )
    return region.forward()


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Runs a chain of functions in segments, of which all but the last are checkpointed.

    Args:
        functions: a `Sequential`, or a list of functions or modules.
        segments: the number of segments; the last one gets the remaining functions.
        input: the argument of the first function.
        use_reentrant: as for :func:`checkpoint`.
        **kwargs: ``preserve_rng_state``, as for :func:`checkpoint`.

    Returns:
        The last function's result.

    Raises:
        ValueError: there are fewer functions than segments, or other keyword arguments.

    >>> import rgrad as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> torch.utils.checkpoint.checkpoint_sequential([torch.exp, torch.log, torch.neg], 2, x, use_reentrant=False)
    tensor([-1., -1.], grad_fn=<NegBackward0>)
    """
    options = {
        "use_reentrant": _chosen(use_reentrant, "torch.utils.checkpoint.checkpoint_sequential"),
        "preserve_rng_state": kwargs.pop("preserve_rng_state", True),
    }
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    chain = list(functions.children()) if isinstance(functions, rgrad.nn.Sequential) else list(functions)
    size, begin = len(chain) // segments, 0
    for end in range(size, size * segments, size):
        input = checkpoint(functools.partial(_in_turn, chain[begin:end]), input, **options)
        begin = end
    return _in_turn(chain[begin:], input)


def _in_turn(functions: Iterable[Callable[[Any], Any]], value: Any) -> Any:
    for function in functions:
        value = function(value)
    return value


def _chosen(use_reentrant: bool | None, caller: str) -> bool:
    """The effective `use_reentrant`; if it is None, warns the caller of `caller` and returns True."""
    if use_reentrant is None:
        warnings.warn(
            f"{caller}: the use_reentrant parameter should be passed explicitly. Without it, it is True; with False, "
            "`grad`, keyword arguments and inputs that require no gradient work, too.",
            stacklevel=3,
        )
    return use_reentrant is None or use_reentrant
