"""Custom differentiable functions."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping

from rgrad import _C
from rgrad._C import Tensor

from . import _dual

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "FunctionMeta", "InplaceFunction", "once_differentiable"]


class FunctionCtx:
    """The context of a custom function: its saved tensors and settings."""

    _to_save: tuple = ()
    _dirty: tuple = ()
    _non_differentiable: tuple = ()
    _materialize = True
    # Whether the gradients of outputs marked as non-differentiable are passed as zeros too.
    _materialize_non_diff_grads = True
    _saved_for_forward: tuple = ()
    # Whether `jvp` is running.
    _in_jvp = False
    # The positions of tensors among the outputs and the number of outputs, unless all outputs are tensors.
    _output_places: tuple[list[int], int] | None = None
    needs_input_grad: tuple[bool, ...] = ()

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Saves inputs and outputs for backward, with a check that they are not written in place before."""
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type {type(t).__name__}"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Saves tensors for `jvp`, in which they are the `saved_tensors`."""
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_forward can only save variables, but argument {i} is of type {type(t).__name__}"
                )
        self._saved_for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Marks inputs that forward has written in place."""
        _expect_tensors("mark_dirty can only accept variables, but argument {} is of type {}", tensors)
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Marks outputs that have no gradient."""
        _expect_tensors("mark_non_differentiable only accepts variable arguments, but got {1}", tensors)
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Sets whether undefined gradients are passed to backward as zeros (the default) or as None."""
        if not isinstance(value, bool):
            raise TypeError(
                "set_materialize_grads received an invalid combination of arguments - got (), but expected (bool)"
            )
        self._materialize = value

    @property
    def to_save(self) -> tuple[Tensor | None, ...] | None:
        """The arguments of `save_for_backward`, until forward has returned."""
        return self._to_save or None

    @property
    def dirty_tensors(self) -> tuple[Tensor, ...] | None:
        """The arguments of `mark_dirty`."""
        return self._dirty or None

    @property
    def non_differentiable(self) -> tuple[Tensor, ...] | None:
        """The arguments of `mark_non_differentiable`."""
        return self._non_differentiable or None

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The saved tensors: in `jvp` those of `save_for_forward`, elsewhere those of `save_for_backward`."""
        if self._in_jvp:
            return self._saved_for_forward
        saved = self.__dict__.get("_saved")
        return () if saved is None else saved.unpack()

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """The old name of `saved_tensors`."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors


def _expect_tensors(message: str, tensors: tuple) -> None:
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise RuntimeError(message.format(i, type(t).__name__))


class BackwardCFunction(FunctionCtx):
    """A ctx that acts as its node: it has the attributes and methods of the node too."""

    def _node(self, name: str) -> Any:
        saved = self.__dict__.get("_saved")
        node = None if saved is None else saved.node()
        if node is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}' outside the graph")
        return node

    def name(self) -> str:
        """The node's name."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple:
        """The nodes that receive the gradients by input."""
        return self._node("next_functions").next_functions

    @property
    def metadata(self) -> dict:
        """The node's metadata dict."""
        return self._node("metadata").metadata

    @property
    def _raw_saved_tensors(self) -> tuple:
        return self._node("_raw_saved_tensors")._raw_saved_tensors

    @property
    def _input_metadata(self) -> tuple:
        return self._node("_input_metadata")._input_metadata

    def _sequence_nr(self) -> int:
        return self._node("_sequence_nr")._sequence_nr()

    def register_hook(self, fn: Callable) -> Any:
        """Registers ``fn`` to be called with the gradients by input and by output after the node has run."""
        return self._node("register_hook").register_hook(fn)

    def register_prehook(self, fn: Callable) -> Any:
        """Registers ``fn`` to be called with the gradients by output before the node runs."""
        return self._node("register_prehook").register_prehook(fn)


def _set_on_ctx(node: Any, name: str, value: Any) -> None:
    """Sets an attribute of the node of a custom function."""
    setattr(node._ctx(), name, value)


# In PyTorch the node is the ctx; programs ask whether it is one of `Function._backward_cls`.
_class_of_ctx = property(lambda node: type(node._ctx()))


def _run_hook_dict(hooks: Mapping[int, Callable], grad: Tensor | None) -> Tensor | None:
    """Calls all hooks in a dict and returns the final gradient."""
    for hook in list(hooks.values()):
        new = hook(grad)
        grad = grad if new is None else new
    return grad


class FunctionMeta(type):
    """Creates the ctx class of each custom function."""

    def __init__(cls, name: str, bases: tuple, namespace: dict) -> None:
        super().__init__(name, bases, namespace)
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls})


class Function(metaclass=FunctionMeta):
    """Base class of differentiable functions: subclass it, write `forward` and `backward`, call `apply`.

    >>> import rgrad
    >>> class Square(rgrad.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * g
    >>> x = rgrad.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    _backward_cls: type
    # Whether `vmap` calls forward and backward with batched tensors, rather than `vmap`.
    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Its methods are static: call {type(self).__name__}.apply(...).",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Make forward and backward static "
            f"methods, and call {type(self).__name__}.apply(...)."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the result. Takes no `ctx` if `setup_context` is defined."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        """Fills `ctx` after a `forward` without `ctx`."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Computes gradients by input from gradients by output."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function: a backward has "
            "come to one that has neither."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Computes tangents by output from tangents by input, which are None for inputs that are no tensors."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function: forward mode AD came to one without."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> Any:
        """Computes the results of all slices, and returns them with their mapped dimensions.

        Args:
            info: the number of slices, `batch_size`, and the `randomness` of the call.
            in_dims: the mapped dimension of each argument, None for those that all slices share.
            args: whole arguments.
        """
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap static method or "
            "set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs forward and records the function. Keyword arguments are converted to positional ones."""
        plain = cls.setup_context is Function.setup_context
        if _C._vmap_levels() or _C._transforms():
            from rgrad._transforms import running

            if plain and not is_own(cls) and running():
                raise RuntimeError(
                    f"{cls.__name__} is called in a function that torch.func transforms, where an autograd.Function "
                    "must override the setup_context staticmethod: what forward keeps in its ctx belongs to one call"
                )
            from ._vmapped import apply, comes_first

            if comes_first(cls, args, kwargs):
                return apply(cls, args, kwargs)
        if kwargs or not plain:
            args = _placed(cls.forward, args, kwargs, plain)
        ctx = cls._backward_cls()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        if _dual.levels():
            from ._tangent_levels import apply as apply_to_duals

            return apply_to_duals(cls, ctx, args)
        recorded = _C.is_grad_enabled() and any(ctx.needs_input_grad)
        return cls._record(ctx, args, cls._call_forward(ctx, args), recorded)

    @classmethod
    def _call_forward(cls, ctx: FunctionCtx, args: tuple) -> Any:
        before = _C._set_grad_enabled(False)
        try:
            if cls.setup_context is Function.setup_context:
                return cls.forward(ctx, *args)
            output = cls.forward(*args)
            cls.setup_context(ctx, args, output)
            _refuse_returned_inputs(ctx, args, output)
            return output
        finally:
            _C._set_grad_enabled(before)

    @classmethod
    def _record(cls, ctx: FunctionCtx, args: tuple, output: Any, recorded: bool) -> Any:
        if ctx._dirty and any(not any(d is a for a in args) for d in ctx._dirty):
            warnings.warn(
                "ctx.mark_dirty() received a tensor that was not an input: it marks inputs that forward wrote to.",
                stacklevel=3,
            )
        if isinstance(output, Tensor):
            return _C._record_function(ctx, _call_backward, args, (output,), recorded)[0]
        if not isinstance(output, tuple):
            return output
        places = [i for i, o in enumerate(output) if isinstance(o, Tensor)]
        if len(places) == len(output):
            return tuple(_C._record_function(ctx, _call_backward, args, output, recorded))
        # Objects other than tensors are not part of the graph and are returned unchanged.
        ctx._output_places = (places, len(output))
        tensors = tuple(output[i] for i in places)
        passed = dict(zip(places, _C._record_function(ctx, _call_backward, args, tensors, recorded), strict=True))
        return tuple(passed.get(i, o) for i, o in enumerate(output))


def is_own(cls: type[Function]) -> bool:
    """Whether a function is one of this package."""
    return cls.__module__.split(".")[0] in ("rgrad", "torch")


def _refuse_returned_inputs(ctx: FunctionCtx, args: tuple, output: Any) -> None:
    """Raises if an input is saved that is also a result, and so no longer what it was when it was saved."""
    saved = [t for t in (*ctx._to_save, *ctx._saved_for_forward) if isinstance(t, Tensor)]
    if not saved:
        return
    outputs = output if isinstance(output, tuple) else (output,)
    for a in args:
        if not isinstance(a, Tensor) or any(a is d for d in ctx._dirty):
            continue
        if any(a is o for o in outputs) and any(a is t for t in saved):
            raise RuntimeError(
                "An input that has been returned as-is as output is being saved for backward. This is not supported "
                "if you override setup_context. You should return and save a view of the input instead, e.g. with "
                "x.view_as(x) or setup ctx inside the forward function itself."
            )


class InplaceFunction(Function):
    """A function that may write its result to its input: `Function` with a setting, for older programs.

    Args:
        inplace: kept as an attribute.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def _placed(forward: Callable, args: tuple, kwargs: dict[str, Any], plain: bool) -> tuple:
    """The arguments of forward by position. If it takes a ctx, no defaults are inserted before keyword arguments."""
    if not plain and not kwargs and getattr(forward, "__defaults__", None) is None:
        return args
    import inspect  # slow to import and rarely needed

    if not plain:
        bound = inspect.signature(forward).bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args
    placed, left = list(args), dict(kwargs)
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in inspect.signature(forward).parameters.values() if p.kind in by_place][1:]
    for i, name in enumerate(names):
        if i < len(args):
            if name in left:
                raise TypeError(f"forward() got multiple values for argument '{name}'")
        elif name in left:
            if len(placed) < i:
                raise TypeError(f"forward() missing required argument: '{names[len(placed)]}' (position {len(placed)})")
            placed.append(left.pop(name))
    if left:
        raise TypeError(f"forward() got an unexpected keyword argument '{next(iter(left))}'")
    return tuple(placed)


def _call_backward(ctx: FunctionCtx, grads: tuple) -> tuple:
    if _dual.thread.sweeping is not None and all(g is None for g in grads):
        # Behind a dual tensor: nothing is asked of a backward, which there need not be.
        return (None,) * len(ctx.needs_input_grad)
    cls = ctx._forward_cls  # type: ignore[attr-defined]
    f = cls.backward
    if cls.vjp is not Function.vjp:
        if f is not Function.backward:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                "implement one of them."
            )
        f = cls.vjp
    if ctx._materialize:
        grads = tuple(
            _C.zeros(shape, dtype=dtype, device=device) if g is None and shape is not None else g
            for g, (shape, dtype, device) in zip(grads, ctx._output_meta, strict=True)  # type: ignore[attr-defined]
        )
    if ctx._output_places is not None:
        places, count = ctx._output_places
        by_place = dict(zip(places, grads, strict=True))
        grads = tuple(by_place.get(i) for i in range(count))
    out = f(ctx, *grads)
    out = out if isinstance(out, tuple) else (out,)
    expected = len(ctx.needs_input_grad)
    if len(out) > expected and all(g is None for g in out[expected:]):
        out = out[:expected]
    if len(out) != expected:
        raise RuntimeError(
            f"function {type(ctx).__name__} returned an incorrect number of gradients "
            f"(expected {expected}, got {len(out)})"
        )
    return out


def once_differentiable(f: Callable) -> Callable:
    """Marks a backward that is not itself differentiable."""

    @functools.wraps(f)
    def wrapped(ctx, *args):
        recording = _C.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in args)
        before = _C._set_grad_enabled(False)
        try:
            out = f(ctx, *args)
        finally:
            _C._set_grad_enabled(before)
        if not recording:
            return out
        single = not isinstance(out, tuple)
        outs = [_refuse(o) if isinstance(o, Tensor) else o for o in ((out,) if single else out)]
        return outs[0] if single else tuple(outs)

    return wrapped


class _Refuse(Function):
    @staticmethod
    def forward(ctx, x):
        return x.detach()

    @staticmethod
    def backward(ctx, g):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


# PyTorch's name of this node.
_Refuse._backward_cls.__name__ = "torch::autograd::Error"


def _refuse(t: Tensor) -> Tensor:
    return _Refuse.apply(_C._require_grad(t.detach()))
