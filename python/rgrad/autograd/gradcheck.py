"""Comparing derivatives with finite differences: `gradcheck` and `gradgradcheck`.

Slow mode compares whole Jacobians. Fast mode compares one number per pair of input and output, v'Ju for random u and v.
"""

from __future__ import annotations

import warnings
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence

import rgrad
from rgrad import _C
from rgrad._C import Tensor

from ._backward import grad
from .function import Function

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A derivative that does not agree with finite differences, or breaks another rule of backward."""


class _Check(namedtuple("_Check", "func inputs eps atol rtol nondet_tol check_grad_dtypes differentiates")):
    """The arguments of one call of `gradcheck`."""

    __slots__ = ()
    func: Callable[..., Any]
    inputs: tuple[Any, ...]
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_grad_dtypes: bool
    # Whether `func` computes gradients by its inputs.
    differentiates: bool

    @property
    def places(self) -> list[int]:
        """The inputs that are differentiated."""
        return [i for i, x in enumerate(self.inputs) if isinstance(x, Tensor) and x.requires_grad]

    @property
    def points(self) -> list[Tensor]:
        return [self.inputs[i] for i in self.places]

    def call(self) -> tuple[Any, ...]:
        return _as_tuple(self.func(*self.inputs))


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _differentiable(outputs: Any) -> tuple[Tensor, ...]:
    return tuple(o for o in _as_tuple(outputs) if o.requires_grad)


def _check_inputs(inputs: tuple[Any, ...]) -> None:
    tracked = [(i, x) for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    for i, x in tracked:
        if x.dtype != rgrad.float64:
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. "
                f"Differences over eps lose most digits of {x.dtype}: make it float64, or widen atol and rtol.",
                stacklevel=4,
            )
        if any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0, so that its elements can't be moved one at a time. "
                "Pass a copy made by .contiguous() to gradcheck."
            )
    if not tracked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient; none of them have requires_grad=True."
        )


# Numerical derivatives.


def _central(check: _Check, point: Tensor, step: Tensor, on: str) -> list[Tensor]:
    """(f(x + step) - f(x - step)) / (2 eps) for every output, flat."""
    values = point.data
    kept = values.clone()

    def at(shifted: Tensor) -> list[Tensor]:
        values.copy_(shifted)
        # Cloned, because the function may return its input.
        return [o.detach().clone() for o in check.call()]

    try:
        below, above = at(kept - step), at(kept + step)
    finally:
        values.copy_(kept)
    for a, b in zip(below, above, strict=True):
        for name, one, other in (("shape", a.shape, b.shape), ("dtype", a.dtype, b.dtype)):
            if one != other:
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {name} when inputs are perturbed {on}"
                    f"by {check.eps}, but got: {name}s {one} and {other}."
                )
    return [((b - a) / (2 * check.eps)).reshape(-1) for a, b in zip(below, above, strict=True)]


def _numerical_jacobian(check: _Check, point: Tensor, outputs: Sequence[Tensor]) -> list[Tensor]:
    """For every output, a matrix with a row per element of `point` and a column per element of the output."""
    matrices = [_C.zeros((point.numel(), o.numel()), dtype=_real(o), device=o.device) for o in outputs]
    for k in range(point.numel()):
        step = _C.zeros_like(point).reshape(-1)
        step[k] = check.eps
        index = tuple(int(i) for i in rgrad.unravel_index(_C.tensor(k), point.shape)) if point.dim() else ()
        columns = _central(check, point, step.view(point.shape), f"on index {index} ")
        for matrix, column in zip(matrices, columns, strict=True):
            matrix[k] = column.to(matrix.dtype)
    return matrices


def _iter_tensors(x: Any, only_requiring_grad: bool = False) -> Iterator[Tensor]:
    """The tensors of nested iterables, in their order.

    Args:
        x: a tensor, or an iterable of tensors and iterables; anything else in it is left out.
        only_requiring_grad: leave out tensors that do not require gradients.
    """
    if isinstance(x, Tensor):
        if x.requires_grad or not only_requiring_grad:
            yield x
    elif isinstance(x, Iterable) and not isinstance(x, str):
        for item in x:
            yield from _iter_tensors(item, only_requiring_grad)


def _get_numerical_jacobian(
    fn: Callable[..., Any],
    inputs: Any,
    outputs: Any = None,
    target: Any = None,
    eps: float = 1e-3,
    is_forward_ad: bool = False,
) -> list[tuple[Tensor, ...]]:
    """Jacobians by central differences.

    Args:
        fn: the function; it returns a tensor or a sequence of tensors.
        inputs: its argument, or a sequence of its arguments.
        outputs: what it returns for these inputs, if that is known.
        target: the tensors by which it is differentiated; by default all inputs that require gradients.
        eps: how far elements are moved to either side.
        is_forward_ad: accepted for programs that pass it; the differences are the same.

    Returns:
        For each tensor of `target` a tuple with a matrix for each output, which has a row per element of the tensor
        and a column per element of the output.

    >>> import rgrad
    >>> from rgrad.autograd.gradcheck import _get_numerical_jacobian
    >>> x = rgrad.tensor([1.0, 2.0], dtype=rgrad.float64, requires_grad=True)
    >>> _get_numerical_jacobian(lambda x: x * x, x)[0][0].round(decimals=6)
    tensor([[2., 0.],
            [0., 4.]], dtype=torch.float64)
    """
    arguments = _as_tuple(inputs)
    check = _Check(lambda *given: _differentiable(fn(*given)), arguments, eps, 0.0, 0.0, 0.0, False, False)
    results = _differentiable(fn(*arguments) if outputs is None else outputs)
    points = _iter_tensors(arguments, True) if target is None else _iter_tensors(target)
    return [tuple(_numerical_jacobian(check, point, results)) for point in points]


def _real(t: Tensor) -> _C.dtype:
    return t.dtype if t.is_floating_point() else rgrad.get_default_dtype()


# Analytical derivatives.


def _backward_rows(check: _Check, output: Tensor, weights: Sequence[Tensor]) -> list[list[Tensor | None]]:
    """The gradients of every input (outer list), for each weight of the output (inner list)."""
    # The clone separates an output from the input that it may be.
    root = output.clone()
    found = [grad(root, check.points, w, retain_graph=True, allow_unused=True) for w in weights]
    return [[None if g is None else g.detach().clone() for g in column] for column in zip(*found, strict=True)]


def _analytical_jacobian(check: _Check, output: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    """For each input a matrix as in `_numerical_jacobian`, computed twice to check that backward is deterministic."""
    first, second = _backward_rows(check, output, weights), _backward_rows(check, output, weights)
    matrices, again, dtypes_right = [], [], True
    for point, row, row_again in zip(check.points, first, second, strict=True):
        for g in row:
            if g is not None and g.shape != point.shape:
                raise GradcheckError("Analytical gradient has incorrect size")
            dtypes_right &= g is None or g.dtype == point.dtype
        matrices.append(_columns(point, row))
        again.append(_columns(point, row_again))
    if check.check_grad_dtypes and not dtypes_right:
        raise GradcheckError("Gradient has dtype mismatch")
    for a, b in zip(matrices, again, strict=True):
        if a.numel() and bool((a - b).abs().max() > check.nondet_tol):
            raise GradcheckError(
                "Backward is not reentrant: two runs on the same graph with the same gradient differ by "
                f"{float((a - b).abs().max()):.3g}, and nondet_tol is {check.nondet_tol}. "
                "Raise nondet_tol if the function draws random numbers or adds up in an order that varies."
            )
    return matrices


def _columns(point: Tensor, grads: Sequence[Tensor | None]) -> Tensor:
    matrix = _C.zeros((point.numel(), len(grads)), dtype=point.dtype, device=point.device)
    for k, g in enumerate(grads):
        if g is not None:
            matrix[:, k] = g.reshape(-1)
    return matrix


def _unit_vectors(output: Tensor) -> list[Tensor]:
    units = _C.eye(output.numel(), dtype=output.dtype, device=output.device)
    return [unit.view(output.shape) for unit in units]


# Jacobians for programs of earlier releases.


def _warn_of_older(name: str, grad_out: float) -> None:
    warnings.warn(
        f"`{name}` was part of PyTorch's private API and stays for older programs: "
        "`torch.autograd.functional.jacobian` computes Jacobians, `gradcheck` compares them.",
        FutureWarning,
        stacklevel=3,
    )
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0, got {grad_out}: scale the Jacobian instead")


def get_numerical_jacobian(
    fn: Callable[..., Any], inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: float = 1.0
) -> list[Tensor]:
    """Jacobians of the first output by central differences.

    Args:
        fn: the function, which takes all inputs as one argument.
        inputs: the argument.
        target: the tensors by which it is differentiated; by default all inputs that require gradients.
        eps: how far elements are moved to either side.
        grad_out: has to be 1.

    Returns:
        For each tensor a matrix with a row per element of the tensor and a column per element of the output.
    """
    _warn_of_older("get_numerical_jacobian", grad_out)
    found = _get_numerical_jacobian(lambda *_: fn(inputs), inputs, target=target, eps=eps)
    return [matrices[0] for matrices in found]


def get_analytical_jacobian(
    inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[list[Tensor], bool, bool, bool]:
    """Jacobians by backward passes.

    Args:
        inputs: the tensors; those that require gradients are differentiated by.
        output: a tensor that was computed from them.
        nondet_tol: how far two backward passes may differ.
        grad_out: has to be 1.

    Returns:
        For each tensor a matrix as from `get_numerical_jacobian`; whether two passes agreed; and whether all gradients
        had the sizes, and the dtypes, of the tensors.
    """
    _warn_of_older("get_analytical_jacobian", grad_out)
    check = _Check(lambda: output, _as_tuple(inputs), 0.0, 0.0, 0.0, nondet_tol, False, False)
    units = _unit_vectors(output)
    runs = [_backward_rows(check, output, units) for _ in range(2)]
    pairs = [(p, g) for p, row in zip(check.points, runs[0], strict=True) for g in row if g is not None]
    first, second = ([_columns(p, row) for p, row in zip(check.points, run, strict=True)] for run in runs)
    agree = all(bool(((a - b).abs() <= nondet_tol).all()) for a, b in zip(first, second, strict=True))
    return first, agree, all(g.shape == p.shape for p, g in pairs), all(g.dtype == p.dtype for p, g in pairs)


def _close(a: Tensor, b: Tensor, rtol: float, atol: float) -> bool:
    common = rgrad.promote_types(a.dtype, b.dtype)
    return _C.allclose(a.to(common), b.to(a.device, common), rtol, atol)


def _analytical_mismatch(output: int, input: int, numerical: Tensor, analytical: Tensor, mode: str = "") -> str:
    start = f"Jacobian computed {mode}mismatch" if mode else "Jacobian mismatch"
    return (
        f"{start} for output {output:d} with respect to input {input:d},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
    )


def _compare_matrices(check: _Check, outputs: Sequence[Tensor], all_outputs: Sequence[Tensor]) -> None:
    """Slow mode."""
    numerical = [_numerical_jacobian(check, point, all_outputs) for point in check.points]
    if not outputs:
        if any(bool((m != 0).any()) for matrices in numerical for m in matrices):
            raise GradcheckError("Numerical gradient for function expected to be zero")
        return
    tracked = [k for k, o in enumerate(all_outputs) if o.requires_grad]
    for i, (k, output) in enumerate(zip(tracked, outputs, strict=True)):
        analytical = _analytical_jacobian(check, output, _unit_vectors(output))
        for j, a in enumerate(analytical):
            if not _close(a, numerical[j][k], check.rtol, check.atol):
                raise GradcheckError(_analytical_mismatch(i, j, numerical[j][k], a))


def _direction(like: Tensor, generator: _C.Generator) -> Tensor:
    """A random vector of length one, with non-negative elements, as long as the tensor's number of elements."""
    v = _C.rand(like.numel(), generator=generator).to(dtype=like.dtype, device=like.device)
    return v / v.norm()


def _compare_products(check: _Check, outputs: Sequence[Tensor], all_outputs: Sequence[Tensor]) -> None:
    """Fast mode."""
    # A separate generator, to leave the default generator unchanged.
    generator = _C.Generator()
    us = [_direction(point, generator) for point in check.points]
    vs = [_direction(o, generator) for o in outputs]
    numerical = []
    for point, u in zip(check.points, us, strict=True):
        pushed = _central(check, point, u.view(point.shape) * check.eps, "")
        if not outputs and any(p.numel() and bool(p.abs().max() > check.nondet_tol) for p in pushed):
            raise GradcheckError("Numerical gradient for function expected to be zero")
        tracked = [p for p, o in zip(pushed, all_outputs, strict=True) if o.requires_grad]
        numerical.append([(v * p).sum() for v, p in zip(vs, tracked, strict=True)])
    analytical = [
        [a.T.squeeze(0).dot(u) for a, u in zip(_analytical_jacobian(check, o, [v.view(o.shape)]), us, strict=True)]
        for o, v in zip(outputs, vs, strict=True)
    ]
    for j, u in enumerate(us):
        for i, v in enumerate(vs):
            a, n = analytical[i][j], numerical[j][i]
            # An error of atol in every element of J adds up to this in v'Ju.
            atol = check.atol * float(u.sum()) * float(v.sum())
            if not _close(a, n, check.rtol, atol):
                tracked = [k for k, o in enumerate(all_outputs) if o.requires_grad]
                raise GradcheckError(
                    _analytical_mismatch(i, j, n, a)
                    + _in_slow_mode(
                        check,
                        _numerical_jacobian(check, check.points[j], all_outputs)[tracked[i]],
                        _analytical_jacobian(check, outputs[i], _unit_vectors(outputs[i]))[j],
                    )
                )


_FAST_FAILED_ALONE = """
Fast gradcheck failed but element-wise differences are small: each element is within atol and rtol, and only
their random combination is not. Pass fast_mode=False to judge the elements one by one.
""".strip()


def _in_slow_mode(check: _Check, numerical: Tensor, analytical: Tensor) -> str:
    """The matrices behind a differing number, for the message."""
    text = (
        "\nThese are products v'Ju with random u and v, as fast_mode=True compares. The Jacobians themselves:\n\n"
        f"Numerical:\n{numerical}\nAnalytical:\n{analytical}\n\n"
        + (
            f"The max per-element difference (slow mode) is: {(numerical - analytical).abs().max()}.\n"
            if numerical.numel()
            else ""
        )
    )
    return text + _FAST_FAILED_ALONE if _close(analytical, numerical, check.rtol, check.atol) else text


# Other requirements of backward.


def _check_linear_in_gradient(check: _Check, outputs: tuple[Tensor, ...]) -> None:
    """A gradient of zeros must give zeros of the right shape, dtype and device."""
    if not outputs:
        return
    found = grad(outputs, check.points, [_C.zeros_like(o) for o in outputs], allow_unused=True)
    for g, point in zip(found, check.points, strict=True):
        if g is None:
            continue
        if not bool((g == 0).all()):
            raise GradcheckError("backward not multiplied by grad_output")
        for name in ("dtype", "device", "shape"):
            if getattr(g, name) != getattr(point, name):
                word = {"dtype": "type", "shape": "size"}.get(name, name)
                raise GradcheckError(f"grad is incorrect {word}")


class _Undefined(Function):
    """The identity whose backward returns no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> None:
        return None


def _warn_of_undefined() -> None:
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, which older "
        "backward functions may fail.",
        stacklevel=4,
    )


def _check_undefined(check: _Check) -> None:
    """Backward must treat missing gradients of some or all outputs as zeros."""
    count = len(_differentiable(check.call()))
    alone = [{i} for i in range(count)] if count > 1 else []
    for undefined in [set(range(count)), *alone]:
        roots = [_Undefined.apply(o) if i in undefined else o for i, o in enumerate(_differentiable(check.call()))]
        try:
            found = grad(roots, check.points, [_C.zeros_like(o) for o in roots], allow_unused=True)
        except RuntimeError as error:
            _warn_of_undefined()
            raise GradcheckError(
                "Expected backward function to handle undefined output grads: it must take None for the gradient of "
                "an output that nothing was computed from. check_undefined_grad=False leaves this check out."
            ) from error
        if any(g is not None and not bool((g == 0).all()) for g in found):
            _warn_of_undefined()
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero: "
                "backward must be linear. check_undefined_grad=False leaves this check out."
            )


def _check_batched(check: _Check, outputs: Sequence[Tensor]) -> None:
    """Gradients of a batch of weights equal those of its members."""
    for i, output in enumerate(outputs):
        weights = [_C.randn_like(output) for _ in range(2)]
        single = [grad(output, check.points, w, retain_graph=True, allow_unused=True) for w in weights]
        batched = grad(
            output, check.points, _C.stack(weights), retain_graph=True, allow_unused=True, is_grads_batched=True
        )
        for j, (whole, parts) in enumerate(zip(batched, zip(*single, strict=True), strict=True)):
            if whole is not None and not _C.allclose(whole, _C.stack(list(parts))):
                raise GradcheckError(
                    f"For output {i} and input {j}:\n\ngradcheck or gradgradcheck failed while testing batched "
                    f"gradient computation.\n\nGot:\n{whole}\n\nExpected:\n{_C.stack(list(parts))}"
                )


def _check_forward(
    check: _Check, all_outputs: Sequence[Tensor], fast_mode: bool, undefined: bool, batched: bool
) -> None:
    from . import _forward_check  # loaded when it is asked for, as is forward mode

    (_forward_check.compare_products if fast_mode else _forward_check.compare_matrices)(check, all_outputs)
    if undefined:
        _forward_check.check_undefined(check)
    if batched:
        _forward_check.check_batched(check)


# The name of a parameter and the value that the caller gave.
_Flag = tuple[str, bool]


def _refuse_contradictions(modes: Sequence[_Flag], needs: dict[_Flag, _Flag]) -> None:
    """Raises unless some mode is enabled, and every flag that is set has the flag that it requires."""
    if not any(checked for _, checked in modes):
        raise AssertionError(f"Expected at least one of {' or '.join(name for name, _ in modes)} to be True")
    for (name, given), (needed, available) in needs.items():
        if given and not available:
            raise AssertionError(f"Setting {name}=True requires {needed} to be True")


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compares the gradients of a function with finite differences.

    Args:
        func: takes the inputs and returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple; those that require grad are checked, and should be float64.
        eps: the step of finite differences.
        atol: absolute tolerance.
        rtol: relative tolerance.
        raise_exception: raise if the check fails, rather than return False.
        nondet_tol: how much two backward runs may differ.
        check_undefined_grad: whether backward must support missing gradients of some outputs, and forward mode
            missing tangents of some inputs.
        check_grad_dtypes: whether gradients must have the dtype of their inputs.
        check_batched_grad: whether gradients of a batch must equal those of its members.
        check_batched_forward_grad: whether tangents of a batch must equal those of its members.
        check_forward_ad: whether to compare the tangents of `forward_ad` with finite differences too.
        check_backward_ad: whether to compare the gradients.
        fast_mode: compare one random combination of the derivatives rather than each.
        masked: of sparse tensors, which this library does not have.

    Returns:
        True if all agree.

    Raises:
        GradcheckError: a check failed (with ``raise_exception``).

    >>> import rgrad as torch
    >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.sin, x)
    True
    """
    forward, backward = ("check_forward_ad", check_forward_ad), ("check_backward_ad", check_backward_ad)
    _refuse_contradictions(
        (forward, backward),
        {
            ("check_batched_grad", check_batched_grad): backward,
            ("check_batched_forward_grad", check_batched_forward_grad): forward,
        },
    )
    differentiates = isinstance(func, _Gradients)
    check = _Check(func, _as_tuple(inputs), eps, atol, rtol, nondet_tol, check_grad_dtypes, differentiates)
    try:
        _check_inputs(check.inputs)
        all_outputs = check.call()
        outputs = _differentiable(all_outputs)
        if check_backward_ad:
            (_compare_products if fast_mode else _compare_matrices)(check, outputs, all_outputs)
        elif not outputs:
            _compare_matrices(check, outputs, all_outputs)
        if check_forward_ad and outputs:
            _check_forward(check, all_outputs, fast_mode, check_undefined_grad, check_batched_forward_grad)
        if check_batched_grad:
            _check_batched(check, outputs)
        if check_backward_ad:
            _check_linear_in_gradient(check, outputs)
            if check_undefined_grad:
                _check_undefined(check)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


class _Gradients:
    """The gradients of a function, as a function of its inputs and of the weights of its outputs.

    Args:
        func: the function.
        count: its number of inputs.
        places: the inputs by which it is differentiated.
    """

    def __init__(self, func: Callable[..., Any], count: int, places: Sequence[int]) -> None:
        self.func, self.count, self.places = func, count, places

    def __call__(self, *args: Any) -> tuple[Tensor, ...]:
        points, weights = args[: self.count], args[self.count :]
        roots = _differentiable(self.func(*points))
        found = grad(roots, [points[i] for i in self.places], weights, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compares the gradients of a function's gradients with finite differences.

    Args:
        func: as for :func:`gradcheck`.
        inputs: as for :func:`gradcheck`.
        grad_outputs: the weights of the outputs; random ones by default.
        eps: the step of finite differences for inputs and weights.
        atol: absolute tolerance.
        rtol: relative tolerance.
        gen_non_contig_grad_outputs: make random weights that are not contiguous.
        raise_exception: raise if the check fails, rather than return False.
        nondet_tol: how much two backward runs may differ.
        check_undefined_grad: as for :func:`gradcheck`.
        check_grad_dtypes: as for :func:`gradcheck`.
        check_batched_grad: as for :func:`gradcheck`.
        check_fwd_over_rev: whether to compare the tangents of gradients with finite differences.
        check_rev_over_rev: whether to compare the gradients of gradients.
        fast_mode: as for :func:`gradcheck`.
        masked: of sparse tensors, which this library does not have.

    Returns:
        True if all agree.
    """
    reverse = ("check_rev_over_rev", check_rev_over_rev)
    _refuse_contradictions(
        (("check_fwd_over_rev", check_fwd_over_rev), reverse),
        {
            ("check_undefined_grad", check_undefined_grad): reverse,
            ("check_batched_grad", check_batched_grad): reverse,
        },
    )
    points = _as_tuple(inputs)
    if grad_outputs is None:
        outputs = _differentiable(func(*points))
        weights = tuple(_random_weight(o, gen_non_contig_grad_outputs) for o in outputs)
    else:
        weights = _as_tuple(grad_outputs)
    differentiated = [i for i, x in enumerate(points) if isinstance(x, Tensor) and x.requires_grad]
    return gradcheck(
        _Gradients(func, len(points), differentiated),
        points + weights,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _random_weight(like: Tensor, noncontiguous: bool) -> Tensor:
    dtype = like.dtype if like.is_floating_point() else rgrad.float64
    values = rgrad.empty(like.shape, dtype=dtype, device=like.device).uniform_(-1, 1)
    if noncontiguous and values.numel() > 1:
        values = values.repeat_interleave(2, -1)[..., ::2]
    return values.requires_grad_()
