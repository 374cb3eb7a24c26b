"""Registration and execution of module hooks."""

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import rgrad
from rgrad import _C
from rgrad.autograd.function import Function
from rgrad.utils.hooks import RemovableHandle


def add_hook(
    hooks: OrderedDict, hook: Callable, *, prepend: bool = False, flags: Iterable[OrderedDict] = ()
) -> RemovableHandle:
    """Adds ``hook`` to ``hooks``, marks its id in every dictionary of ``flags``, and returns its handle."""
    flags = tuple(flags)
    handle = RemovableHandle(hooks, extra_dict=flags)
    hooks[handle.id] = hook
    for flag in flags:
        flag[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def global_hooks() -> Any:
    """The file of ``Module``, whose variables hold the hooks of every module. See Note [Global hooks]."""
    from . import module

    return module


def registered(hooks: OrderedDict[int, Callable], module: Any, name: str, member: Any) -> Any:
    """Calls the registration hooks, which may replace the member; returns the member to register."""
    for hook in hooks.values():
        replacement = hook(module, name, member)
        if replacement is not None:
            member = replacement
    return member


BOTH_FORMS = "Cannot use both regular backward hooks and full backward hooks {}. Please use only one of them."


# Note [The hook flag]
#
# A call of a module checks one attribute, `_has_hooks`. It is False on the class. Registering a hook sets it on the
# instance, and registering a global hook sets it on the class, for all instances. Removing a hook leaves the flag
# set; the slow path of the next call clears a module's flag if there is no hook left, so a stale flag costs one slow
# call but is otherwise harmless.
class HookMixin:
    """The part of ``Module`` that registers and runs forward and backward hooks."""

    _has_hooks = False

    forward: Callable[..., Any]
    _forward_pre_hooks: OrderedDict[int, Callable]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks: OrderedDict[int, Callable]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _backward_pre_hooks: OrderedDict[int, Callable]
    _backward_hooks: OrderedDict[int, Callable]
    _node_hooks: OrderedDict[int, Callable]

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Registers a hook that runs before ``forward``.

        Args:
            hook: ``hook(module, args)``, or ``hook(module, args, kwargs)`` with ``with_kwargs``. A result other
                than None replaces the arguments (with ``with_kwargs`` it is the pair ``(args, kwargs)``).
            prepend: run before the hooks registered so far.
            with_kwargs: whether the hook also receives the keyword arguments.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        flags = (self._forward_pre_hooks_with_kwargs,) if with_kwargs else ()
        self._has_hooks = True
        return add_hook(self._forward_pre_hooks, hook, prepend=prepend, flags=flags)

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Registers a hook that runs after ``forward``.

        Args:
            hook: ``hook(module, args, output)``, or ``hook(module, args, kwargs, output)`` with
                ``with_kwargs``. A result other than None replaces the output.
            prepend: run before the hooks registered so far.
            with_kwargs: whether the hook also receives the keyword arguments.
            always_call: run the hook even when ``forward`` raises.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        flags = []
        if with_kwargs:
            flags.append(self._forward_hooks_with_kwargs)
        if always_call:
            flags.append(self._forward_hooks_always_called)
        self._has_hooks = True
        return add_hook(self._forward_hooks, hook, prepend=prepend, flags=flags)

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Registers ``hook(module, grad_output)``, run before the gradients of the module are computed.

        A result other than None replaces ``grad_output`` for the rest of the backward pass.
        """
        self._has_hooks = True
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Registers ``hook(module, grad_input, grad_output)``, run when the inputs' gradients are known.

        A result other than None replaces ``grad_input``. Only positional tensor arguments are observed.
        """
        if self._node_hooks:
            raise RuntimeError(BOTH_FORMS.format("on a single Module"))
        self._has_hooks = True
        return add_hook(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """Registers a hook of the older form, which sees the last node of the module only.

        Prefer :meth:`register_full_backward_hook`, which sees the module's inputs and outputs.
        """
        if self._backward_hooks:
            raise RuntimeError(BOTH_FORMS.format("on a single Module"))
        self._has_hooks = True
        return add_hook(self._node_hooks, hook)

    _compiled_call_impl: Callable[..., Any] | None = None

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Has calls of the module run compiled, hooks included: ``torch.compile`` without another module around it.

        Args:
            args: as those of :func:`torch.compile` after the function.
            kwargs: as those of :func:`torch.compile`.

        Example:
            >>> import rgrad as torch
            >>> layer = torch.nn.ReLU()
            >>> layer.compile()
            >>> layer(torch.tensor([-1.0, 2.0]))
            tensor([0., 2.])
        """
        from rgrad.compiler import compile

        self._compiled_call_impl = compile(HookMixin._call_hooked, *args, **kwargs)
        self._has_hooks = True

    def _call_with_hooks(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Runs a module that is compiled or has hooks. See Note [The hook flag]."""
        compiled = self._compiled_call_impl
        return self._call_hooked(args, kwargs) if compiled is None else compiled(self, args, kwargs)

    def _call_hooked(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Runs ``forward`` and all hooks around it."""
        everywhere = global_hooks()
        full = everywhere._global_is_full_backward_hook
        pre_hooks = _both(everywhere._global_forward_pre_hooks, self._forward_pre_hooks)
        hooks = _both(everywhere._global_forward_hooks, self._forward_hooks)
        backward_pre_hooks = _both(everywhere._global_backward_pre_hooks, self._backward_pre_hooks)
        backward_hooks = _both(everywhere._global_backward_hooks if full else {}, self._backward_hooks)
        node_hooks = _both({} if full else everywhere._global_backward_hooks, self._node_hooks)
        if not (pre_hooks or hooks or backward_pre_hooks or backward_hooks or node_hooks):
            if self._compiled_call_impl is None:
                self.__dict__.pop("_has_hooks", None)
            return self.forward(*args, **kwargs)
        pending = {
            key: hook
            for key, hook in hooks
            if key in self._forward_hooks_always_called or key in everywhere._global_forward_hooks_always_called
        }
        result = None
        try:
            for key, hook in pre_hooks:
                args, kwargs = self._run_pre_hook(key, hook, args, kwargs)
            boundary = None
            if backward_pre_hooks or backward_hooks:
                boundary = _BackwardBoundary(self, backward_pre_hooks, backward_hooks)
                args = boundary.enter(args)
            result = self.forward(*args, **kwargs)
            for key, hook in hooks:
                pending.pop(key, None)
                replacement = self._run_forward_hook(key, hook, args, kwargs, result)
                if replacement is not None:
                    result = replacement
            if boundary is not None:
                result = boundary.leave(result)
            _hook_last_node(self, args, result, node_hooks)
            return result
        except Exception:
            for key, hook in pending.items():
                try:
                    replacement = self._run_forward_hook(key, hook, args, kwargs, result)
                    if replacement is not None:
                        result = replacement
                except Exception as error:
                    warnings.warn(
                        "module forward hook with ``always_call=True`` raised an exception that was silenced, as "
                        f"forward had raised another before: {error!s}",
                        stacklevel=2,
                    )
            raise

    def _run_pre_hook(self, key: int, hook: Callable, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        if key in self._forward_pre_hooks_with_kwargs:
            result = hook(self, args, kwargs)
            if result is None:
                return args, kwargs
            if isinstance(result, tuple) and len(result) == 2:
                return result
            raise RuntimeError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {result}."
            )
        result = hook(self, args)
        if result is None:
            return args, kwargs
        return (result if isinstance(result, tuple) else (result,)), kwargs

    def _run_forward_hook(self, key: int, hook: Callable, args: tuple, kwargs: dict, result: Any) -> Any:
        if key in self._forward_hooks_with_kwargs or key in global_hooks()._global_forward_hooks_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)


def _both(first: dict, second: dict) -> list[tuple[int, Callable]]:
    return [*first.items(), *second.items()]


def _hook_last_node(module: Any, args: tuple, result: Any, hooks: list) -> None:
    """Registers hooks of the older form, which run after the node of the module's first result."""
    if not hooks:
        return
    first = result
    while not isinstance(first, _C.Tensor):
        first = next(v for v in first.values() if isinstance(v, _C.Tensor)) if isinstance(first, dict) else first[0]
    if first.grad_fn is None:
        return
    for _, hook in hooks:
        first.grad_fn.register_hook(lambda *grads, hook=hook: hook(module, *grads))
    missing = _what_is_missed(args, result, first.grad_fn)
    if missing is not None:
        warnings.warn(
            f"Using {missing[0]} is deprecated and will be removed in future versions. This hook will be missing some "
            f"{missing[1]}: register_full_backward_hook makes one that sees all of them.",
            FutureWarning,
            stacklevel=2,
        )


def _what_is_missed(args: tuple, result: Any, node: Any) -> tuple[str, str] | None:
    """Says why hooks on that node miss some gradients of the module, and which ones; None if they miss none."""
    results = (result,) if isinstance(result, _C.Tensor) else result
    if not (isinstance(results, tuple) and all(isinstance(r, _C.Tensor) for r in results)):
        return (
            "non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors",
            "of the grad_output",
        )
    if not all(isinstance(a, _C.Tensor) for a in args):
        return (
            "non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of Tensors",
            "of the grad_input",
        )
    if any(r.grad_fn is not None and r.grad_fn is not node for r in results):
        return "a non-full backward hook when outputs are generated by different autograd Nodes", "grad_output"
    if {a.grad_fn for a in args} - {None} != {n for n, _ in node.next_functions}:
        return "a non-full backward hook when the forward contains multiple autograd Nodes", "grad_input"
    return None


class _BackwardBoundary:
    """Watches the gradients that enter and leave one call of a module.

    Inputs and outputs pass through an identity whose backward calls back here: first with the gradients of
    the outputs (pre-hooks), then with those of the inputs (hooks).
    """

    def __init__(self, module: Any, pre_hooks: list, hooks: list) -> None:
        self.module = module
        self.pre_hooks = [hook for _, hook in pre_hooks]
        self.hooks = [hook for _, hook in hooks]
        self.input_places: list[int] | None = None
        self.input_count = 0
        self.grad_output: tuple | None = None

    def enter(self, args: tuple) -> tuple:
        self.input_count = len(args)
        watched, places = _watch(args, self._input_gradients, of_inputs=True)
        self.input_places = places
        return watched

    def leave(self, result: Any) -> Any:
        if not isinstance(result, (tuple, _C.Tensor)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors, not "
                f"{type(result)}",
                stacklevel=3,
            )
            return result
        outputs = (result,) if isinstance(result, _C.Tensor) else result
        places: list[int] = []

        def output_gradients(grads: tuple) -> tuple:
            return self._output_gradients(grads, places, len(outputs))

        watched, found = _watch(outputs, output_gradients, of_inputs=False)
        places.extend(found or ())
        if isinstance(result, _C.Tensor):
            return watched[0]
        return type(result)(*watched) if hasattr(result, "_fields") else watched

    def _output_gradients(self, grads: tuple, places: list[int], count: int) -> tuple:
        grad_output = _spread(grads, places, count)
        for hook in self.pre_hooks:
            replacement = hook(self.module, grad_output)
            if replacement is not None:
                grad_output = _as_gradients(replacement, grad_output, "output")
        self.grad_output = grad_output
        if self.input_places is None:
            # No input needs a gradient, so nothing will call `_input_gradients`.
            if self.hooks:
                warnings.warn(
                    "Full backward hook is firing when gradients are computed with respect to module outputs: since "
                    "no inputs require gradients, nothing more will be known, and grad_input holds None.",
                    stacklevel=5,
                )
            self._run_hooks((None,) * self.input_count)
        return tuple(grad_output[place] for place in places)

    def _input_gradients(self, grads: tuple) -> tuple:
        if self.grad_output is None:
            # The gradients reached the inputs by a path that does not include the outputs, so the hooks have nothing
            # to observe.
            return grads
        places = self.input_places or []
        grad_input = self._run_hooks(_spread(grads, places, self.input_count))
        return tuple(grad_input[place] for place in places)

    def _run_hooks(self, grad_input: tuple) -> tuple:
        grad_output, self.grad_output = self.grad_output, None
        for hook in self.hooks:
            replacement = hook(self.module, grad_input, grad_output)
            if replacement is None:
                continue
            if self.input_places is None:
                if isinstance(replacement, tuple) and all(g is None for g in replacement):
                    continue
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient has nothing to replace: it should "
                    "always return None or None for all gradients."
                )
            grad_input = _as_gradients(replacement, grad_input, "input")
        return grad_input


def _watch(values: tuple, on_backward: Callable[[tuple], tuple], of_inputs: bool) -> tuple[tuple, list[int] | None]:
    """Passes the tensors in ``values`` through an identity node; also returns their positions in ``values``.

    The positions are None when no gradient will flow through.
    """
    places = [i for i, value in enumerate(values) if isinstance(value, _C.Tensor)]
    if not (rgrad.is_grad_enabled() and any(values[i].requires_grad for i in places)):
        return values, None
    watched = list(values)
    passed = BackwardHookFunction.apply(on_backward, of_inputs, *(values[i] for i in places))
    for place, tensor in zip(places, passed, strict=True):
        watched[place] = tensor
    return tuple(watched), places


def _spread(grads: tuple, places: list[int], count: int) -> tuple:
    """Places the gradients of tensors at their positions among ``count`` values, with None elsewhere."""
    spread: list[Any] = [None] * count
    for place, grad in zip(places, grads, strict=True):
        spread[place] = grad
    return tuple(spread)


def _as_gradients(replacement: Any, before: tuple, kind: str) -> tuple:
    # A single tensor is treated as the tuple of its rows, as in PyTorch.
    if len(replacement) != len(before):
        raise RuntimeError(
            f"Backward {'pre ' if kind == 'output' else ''}hook returned an invalid number of grad_{kind}, "
            f"got {len(replacement)}, but expected {len(before)}"
        )
    for new, old in zip(replacement, before, strict=True):
        if isinstance(new, _C.Tensor) and isinstance(old, _C.Tensor) and new.shape != old.shape:
            # PyTorch raises this from a node hook named 'hook', which calls the module's hooks.
            raise RuntimeError("hook 'hook' has changed the size of value")
    return tuple(replacement)


class BackwardHookFunction(Function):
    """The identity; its backward passes the gradients to a callback and returns the callback's result.

    For inputs, missing gradients are passed as zeros; for outputs, as None.
    """

    @staticmethod
    def forward(ctx: Any, on_backward: Callable[[tuple], tuple], of_inputs: bool, *tensors: _C.Tensor) -> tuple:
        ctx.on_backward = on_backward
        ctx.of_inputs = of_inputs
        ctx.set_materialize_grads(of_inputs)
        ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
        ctx.like = [(t.shape, t.dtype, t.device) for t in tensors]
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: _C.Tensor | None) -> tuple:
        grads = ctx.on_backward(grads)
        return (
            None,
            None,
            *(
                rgrad.zeros(shape, dtype=dtype, device=device) if g is None else g
                for g, (shape, dtype, device) in zip(grads, ctx.like, strict=True)
            ),
        )
