"""User-defined operations: `custom_op` creates one from a function, `wgsl_op` one for the GPU from WGSL source."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import rgrad
from rgrad import _C, Tensor
from rgrad._absent import absent_function
from rgrad._library.check import opcheck
from rgrad._library.registration import (
    CustomOpDef,
    Library,
    _impls,  # noqa: F401
    custom_op,
    define,
    fallthrough_kernel,
    get_ctx,
    impl,
    impl_abstract,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_torch_dispatch,
    register_vmap,
)
from rgrad._library.schema import infer as infer_schema
from rgrad._ops import OpOverload
from rgrad.autograd import Function

__all__ = [
    "CustomOpDef",
    "Library",
    "OpOverload",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wgsl_op",
    "wrap_triton",
]


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A library whose operations are there for a `with` block.

    Args:
        args: of `Library`.
        kwargs: likewise.

    >>> import rgrad as torch
    >>> with torch.library._scoped_library("of_a_block", "DEF") as library:
    ...     _ = library.define("twice(Tensor x) -> Tensor")
    ...     library.impl("twice", lambda x: 2 * x, "CompositeImplicitAutograd")
    ...     torch.ops.of_a_block.twice(torch.ones(1))
    tensor([2.])
    """
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()


triton_op = absent_function("torch.library.triton_op", "kernels of one's own are written in WGSL: wgsl_op")
wrap_triton = absent_function("torch.library.wrap_triton", "kernels of one's own are written in WGSL: wgsl_op")

_DTYPES = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64"}

# Invocations per workgroup of a kernel generated from a formula.
_GROUP = 64


def wgsl_op(
    name: str,
    source: str,
    *,
    backward: Callable[..., Any] | None = None,
    result: Callable[..., Any] | None = None,
    invocations: Callable[..., int] | None = None,
    cpu: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Creates an operation for the GPU from WGSL.

    `source` is one of:

    - A formula: `fn name(x: f32, y: f32, k: f32) -> f32 { … }`, with the functions that it calls. It is applied to
      corresponding elements of broadcast tensors; an argument may also be a number.
    - A kernel: a module with `@compute fn main`. The arrays that it writes have the bindings from `@group(0)
      @binding(1)` on, followed by those that it reads; they are the results and the arguments of the operation, in that
      order. A uniform struct at `@binding(0)` takes numbers, which a call passes by name; its field `count`, if
      present, is the number of elements of the first result. Elements below 32 bits are packed into words, so an array
      of u32 accepts any such dtype. Workgroups are launched as (x, y) with x up to 65,535.

    Args:
        name: The operation's name in errors and profiles; for a formula, that of its function.
        source: The WGSL.
        backward: Called with the gradients of the results, followed by the arguments; returns the gradient of each
            tensor argument, or None. It may use operations created here.
        result: For a kernel: called with the arguments, returns `(shape, dtype)` of the result or a list of such
            pairs. By default every result has the shape and dtype of the first argument.
        invocations: For a kernel: called with the arguments, returns the number of invocations of `main`. By default
            the number of elements of the first result.
        cpu: The implementation for CPU tensors, which are rejected otherwise.

    Returns:
        The operation.

    Raises:
        RuntimeError: `source` is invalid; the message shows the line with a caret.

    Example:
        >>> import rgrad as torch
        >>> slope = torch.library.wgsl_op("slope", "fn slope(g: f32, x: f32) -> f32 { return g * 2.0 * x; }")
        >>> square = torch.library.wgsl_op(
        ...     "square", "fn square(x: f32) -> f32 { return x * x; }", backward=lambda g, x: slope(g, x)
        ... )
        >>> if torch.gpu.is_available():
        ...     x = torch.tensor([1.0, 2.0], device="gpu", requires_grad=True)
        ...     square(x).sum().backward()
        ...     assert x.grad.tolist() == [2.0, 4.0]
    """
    make = _Kernel if re.search(r"@compute\b", source) else _Formula
    run = make(name, source, result, invocations)

    def operation(*args: Any, **numbers: Any) -> Any:
        tensors = [a for a in args if isinstance(a, Tensor)]
        if cpu is not None and tensors and all(t.device.type == "cpu" for t in tensors):
            return cpu(*args, **numbers)
        return _Differentiable.apply(run, backward, numbers, *args)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"`{name}`, made by `rgrad.library.wgsl_op`."
    return operation


class _Differentiable(Function):
    """The node of a call."""

    @staticmethod
    def forward(ctx: Any, run: Any, backward: Any, numbers: dict[str, Any], *args: Any) -> Any:
        ctx.backward_of, ctx.name, ctx.numbers = backward, run.name, numbers
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.plain = [None if isinstance(a, Tensor) else a for a in args]
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
        results = run(args, numbers)
        return results[0] if len(results) == 1 else tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if ctx.backward_of is None:
            raise RuntimeError(
                f"Trying to backward through {ctx.name} but no autograd formula was registered: "
                "pass backward= to wgsl_op"
            )
        args = list(ctx.plain)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[place] = tensor
        found = ctx.backward_of(*grads, *args, **ctx.numbers)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(found) != len(ctx.places):
            raise RuntimeError(
                f"backward of {ctx.name} returned {len(found)} gradients for {len(ctx.places)} tensors"
            )
        given: list[Any] = [None] * len(args)
        for place, gradient in zip(ctx.places, found, strict=True):
            given[place] = gradient
        return (None, None, None, *given)


def _dense(t: Tensor) -> Tensor:
    """A tensor with the same elements, dense and with storage offset 0."""
    t = t.detach().contiguous()
    return t if t.storage_offset() == 0 else t.clone()


def _on_one_gpu(name: str, tensors: Sequence[Tensor]) -> Any:
    if not tensors:
        raise TypeError(f"{name}() takes at least one tensor")
    devices = {str(t.device) for t in tensors}
    if len(devices) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{' and '.join(sorted(devices))}!"
        )
    if tensors[0].device.type == "cpu":
        raise NotImplementedError(
            f"'{name}' is not implemented for the {tensors[0].device} device: it is written in WGSL; move its "
            "arguments with .to('gpu'), or pass cpu= to wgsl_op"
        )
    return tensors[0].device


def _expect_valid(name: str, source: str) -> None:
    """Raises the validation error of a WGSL text, if it has one."""
    try:
        _C._WgslKernel(name, source)
    except RuntimeError as e:
        if "is not valid WGSL" in str(e):
            raise


class _Kernel:
    """An operation from a complete module."""

    def __init__(self, name: str, source: str, result: Any, invocations: Any) -> None:
        self.name, self._result, self._invocations = name, result, invocations
        self._kernel = _C._WgslKernel(name, source)

    def __call__(self, args: tuple[Any, ...], numbers: dict[str, Any]) -> list[Tensor]:
        unknown = set(numbers) - {*self._kernel.numbers, "count"}
        if unknown or not all(isinstance(a, Tensor) for a in args):
            what = f"an unexpected number '{min(unknown)}'" if unknown else "a number that is not named"
            raise TypeError(f"{self.name}() got {what}")
        device = _on_one_gpu(self.name, args)
        count = len(self._kernel.results)
        wanted = [(args[0].shape, args[0].dtype)] * count if self._result is None else self._result(*args, **numbers)
        pairs = [wanted] if isinstance(wanted, tuple) else wanted
        results = [rgrad.empty(*shape, dtype=dtype, device=device) for shape, dtype in pairs]
        inputs = [_dense(a) for a in args]
        if all(t.numel() for t in (*results, *inputs)):
            n = results[0].numel() if self._invocations is None else self._invocations(*args, **numbers)
            self._kernel.launch(results, inputs, numbers, n)
        return results


class _Formula:
    """An operation from a formula; a kernel is generated for each combination of tensor and number arguments."""

    def __init__(self, name: str, source: str, result: Any, invocations: Any) -> None:
        if result is not None or invocations is not None:
            raise TypeError(f"wgsl_op '{name}': a formula has the shape of its arguments; result= is for kernels")
        head = re.search(rf"\bfn\s+{re.escape(name)}\s*\(([^)]*)\)\s*->\s*(\w+)", source)
        if head is None:
            _expect_valid(name, source)
            raise RuntimeError(f"wgsl_op '{name}': there is neither 'fn {name}(…) -> …' nor '@compute fn main'")
        self.name, self._source, self._type = name, source, head[2]
        self._arguments = re.findall(r"(\w+)\s*:\s*(\w+)", head[1])
        strange = {self._type, *(kind for _, kind in self._arguments)} - set(_DTYPES)
        if strange:
            raise RuntimeError(
                f"wgsl_op '{name}': elements are {', '.join(_DTYPES)}, not {min(strange)}; write a kernel for others"
            )
        self._kernels: dict[tuple[bool, ...], Any] = {}
        # Validate immediately.
        self._kernel(tuple(True for _ in self._arguments))

    def _kernel(self, tensors: tuple[bool, ...]) -> Any:
        if tensors not in self._kernels:
            self._kernels[tensors] = _C._WgslKernel(self.name, self._module(tensors))
        return self._kernels[tensors]

    def _module(self, tensors: tuple[bool, ...]) -> str:
        fields, arrays, values = ["count: u32"], [], []
        for (argument, kind), is_tensor in zip(self._arguments, tensors, strict=True):
            if is_tensor:
                binding = len(arrays) + 2
                arrays.append(f"@group(0) @binding({binding}) var<storage, read> op_{argument}: array<{kind}>;")
                values.append(f"op_{argument}[i]")
            else:
                fields.append(f"{argument}: {kind}")
                values.append(f"op_params.{argument}")
        # Appended to the user's source, so that its line numbers are unchanged.
        return "\n".join(
            [
                self._source,
                f"struct OpParams {{ {', '.join(fields)} }}",
                "@group(0) @binding(0) var<uniform> op_params: OpParams;",
                f"@group(0) @binding(1) var<storage, read_write> op_result: array<{self._type}>;",
                *arrays,
                f"@compute @workgroup_size({_GROUP})",
                "fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {",
                f"    let i = id.x + id.y * groups.x * {_GROUP}u;",
                f"    if i < op_params.count {{ op_result[i] = {self.name}({', '.join(values)}); }}",
                "}",
            ]
        )

    def __call__(self, args: tuple[Any, ...], numbers: dict[str, Any]) -> list[Tensor]:
        names = [name for name, _ in self._arguments]
        given = dict(zip(names, args, strict=False)) | numbers
        named_tensors = any(isinstance(v, Tensor) for v in numbers.values())
        if len(args) > len(names) or set(given) != set(names) or named_tensors:
            raise TypeError(f"{self.name}() takes {', '.join(names)}, tensors by position")
        values = [given[name] for name in names]
        which = tuple(isinstance(v, Tensor) for v in values)
        tensors = [v for v in values if isinstance(v, Tensor)]
        device = _on_one_gpu(self.name, tensors)
        for (argument, kind), value in zip(self._arguments, values, strict=True):
            if isinstance(value, Tensor) and value.dtype != getattr(rgrad, _DTYPES[kind]):
                raise TypeError(f"{self.name}(): '{argument}' is {kind}, but the tensor is of {value.dtype}")
        inputs = [_dense(t) for t in rgrad.broadcast_tensors(*tensors)]
        out = rgrad.empty(*inputs[0].shape, dtype=getattr(rgrad, _DTYPES[self._type]), device=device)
        if out.numel():
            plain = {name: v for name, v in given.items() if not isinstance(v, Tensor)}
            self._kernel(which).launch([out], inputs, plain, out.numel())
        return [out]
