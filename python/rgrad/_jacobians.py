"""Derivatives of functions in directions, and whole Jacobians: `jvp`, `linearize`, `jacfwd`, `jacrev`, `hessian`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import rgrad
from rgrad import _C, Tensor
from rgrad._transforms import recording, transforming
from rgrad._vmap import level_of, map_rows
from rgrad.autograd import _dual
from rgrad.autograd._tangent_levels import (
    _check_product,
    _has_history,
    _left,
    _made,
    _probe,
    _tangents,
    everywhere,
    have_tangents,
    transform_level,
    without_history,
)
from rgrad.utils._pytree import tree_flatten, tree_map, tree_unflatten

_Function = Callable[..., Any]


def _recordable(t: Any) -> Any:
    """A tensor that takes part in autograd: a copy of one that was made in inference mode; others as they are."""
    return t.clone() if isinstance(t, Tensor) and t.is_inference() else t


def _leaves_of(values: Any) -> tuple[list[Tensor], Any]:
    """Tensors by which derivatives are taken, which keep what history they have, and what a function gets for them.

    The function may write to what it gets, which is not possible with a leaf.
    """
    leaves: list[Tensor] = []
    running = bool(_C._vmap_levels())

    def make(t: Any) -> Any:
        if not isinstance(t, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(t)}")
        # In `vmap`, each slice has a derivative of its own.
        value, levels = everywhere(t) if running else (t, [])
        value = value.view_as(value) if value.requires_grad else _C._require_grad(_recordable(value).detach())
        leaves.append(_C._batched(value, levels) if levels else value)
        given = _C._unsafe_view(value, value.shape)
        return _C._batched(given, levels) if levels else given

    made = tree_map(make, values)
    return leaves, made


def _argument_numbers(args: tuple[Any, ...], argnums: Any) -> tuple[int, ...]:
    """The positions that `argnums` selects, from 0 on.

    Raises:
        RuntimeError: if they are no ints, out of range, repeated, or none.
    """
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for n in numbers:
        if not isinstance(n, int):
            raise RuntimeError(f"argnums must be int or Tuple[int, ...]: its elements must be int, got {type(n)}")
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"Got argnum={n}, but only {len(args)} positional inputs")
    numbers = tuple(n % len(args) for n in numbers)
    if len(set(numbers)) != len(numbers):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return numbers


def _slice_argnums(args: tuple[Any, ...], argnums: Any, as_tuple: bool = True) -> Any:
    """The arguments that `argnums` selects, as a tuple."""
    numbers = _argument_numbers(args, argnums)
    if isinstance(argnums, int) and not as_tuple:
        return args[numbers[0]]
    return tuple(args[n] for n in numbers)


def _split(made: Any, has_aux: bool, named: str) -> tuple[Any, Any]:
    """The value of a function, and what it returned with it."""
    if not has_aux:
        return made, None
    if not (isinstance(made, tuple) and len(made) == 2):
        raise RuntimeError(f"{named}: output of function f should be a tuple: (output, aux) if has_aux is True")
    for t in tree_flatten(made[1])[0]:
        if not isinstance(t, Tensor):
            raise RuntimeError(
                f"{named}: Expected tensors, got unsupported type {type(t)} in what comes with the value"
            )
    return made


def _check_outputs(value: Any, outputs: Sequence[Any], named: str) -> None:
    if value is None or not outputs:
        raise RuntimeError(f"{named}: Expected f to be a function that has non-empty output (got output = {value})")
    for output in outputs:
        if not isinstance(output, Tensor):
            raise RuntimeError(
                f"{named}: expected f(*primals) to return only tensors, got unsupported type {type(output)}"
            )


def expect_floating_outputs(outputs: Sequence[Tensor]) -> None:
    """Raises if a function has an output that has no gradient."""
    whole = next((t for t in outputs if not t.is_floating_point()), None)
    if whole is not None:
        raise RuntimeError(
            f"vjp(f, ...): All outputs of f must be floating-point Tensors, got one of dtype {whole.dtype}"
        )


class _Recorded:
    """A call of a function, of which derivatives are then taken.

    Args:
        func: the function.
        primals: its arguments, as a tuple.
        has_aux: whether it returns a pair of its result and anything.
        named: the function of this module that was called, for messages.
    """

    def __init__(self, func: _Function, primals: tuple[Any, ...], has_aux: bool, named: str) -> None:
        if named.startswith("linearize"):
            _expect_floating_point(tree_flatten(primals)[0])
        with transforming(hooks=named.startswith("linearize")):
            self.inputs, self.arguments = _leaves_of(primals)
            made = func(*self.arguments)
        value, aux = _split(made, has_aux, named)
        self.outputs, self.spec = tree_flatten(value)
        _check_outputs(value, self.outputs, named)
        # Results may depend on tensors that `func` knows, as well as on its arguments.
        self.recorded = _C.is_grad_enabled() and any(_has_history(o, self.inputs) for o in self.outputs)
        self.keeps = self.recorded or have_tangents(self.outputs)
        self.aux = self.shown(aux)
        self.value = self.shown(value)
        # Vectors v for the outputs and J^T v for the inputs, computed when the first direction is asked for.
        self._probes: list[Tensor] = []
        self._swept: Sequence[Tensor | None] = ()

    def shown(self, values: Any) -> Any:
        """What the caller gets: without a history, unless the arguments had one; with tangents of outer levels."""
        return tree_map(lambda t: without_history(t) if isinstance(t, Tensor) and not self.recorded else t, values)

    def push(self, tangents: Sequence[Tensor], keep: bool) -> list[Tensor]:
        """The derivatives of the outputs in a direction, given by a tangent for each input.

        See Note [Tangents by two backward passes] of `rgrad.autograd._tangent_levels`.
        """
        roots = [o for o in self.outputs if o.requires_grad]
        if not roots:
            return [_C.zeros_like(o) for o in self.outputs]
        with recording():
            if not self._probes:
                self._probes = [_probe(o) for o in roots]
                self._swept = _C._grad(roots, self.inputs, self._probes, True, True, True, False)
            reached = [(g, t) for g, t in zip(self._swept, tangents, strict=True) if g is not None]
            varying = [(g, t) for g, t in reached if g.requires_grad and g.numel()]
            found: Sequence[Tensor | None] = [None] * len(roots)
            if varying:
                swept, given = zip(*varying, strict=True)
                found = _C._grad(swept, self._probes, given, True, keep, True, False)
        pushed = [_C.zeros_like(o) if t is None else t for o, t in zip(roots, found, strict=True)]
        _check_product(reached, list(zip(self._probes, pushed, strict=True)))
        of_roots = iter(pushed)
        return [next(of_roots) if o.requires_grad else _C.zeros_like(o) for o in self.outputs]

    def rows(self, output: Tensor, chunk_size: int | None = None) -> list[Tensor]:
        """The Jacobian of an output, with a block for each input: all rows at once, or `chunk_size` of them."""
        count = output.numel()
        if not output.requires_grad or not count:
            return [point.new_zeros((*output.shape, *point.shape)) for point in self.inputs]
        basis = _basis(output).view(count, *output.shape)

        def swept(vectors: Tensor) -> list[Tensor]:
            found = _C._grad((output,), self.inputs, (vectors,), True, self.keeps, True, False)
            return [_C.zeros_like(x) if g is None else g for g, x in zip(found, self.inputs, strict=True)]

        with rgrad.set_grad_enabled(self.keeps):
            if chunk_size == 1:
                # Without `vmap`, so that a backward may do what differs between rows.
                parts = [[g.unsqueeze(0) for g in swept(row)] for row in basis]
            else:
                parts = [map_rows(len(part), part, swept) for part in basis.split(chunk_size or count)]
            blocks = [_C.cat(part) for part in zip(*parts, strict=True)]
            return [b.reshape((*output.shape, *x.shape)) for b, x in zip(blocks, self.inputs, strict=True)]


def _basis(like: Tensor) -> Tensor:
    """The unit vectors of the elements of a tensor."""
    n = like.numel()
    return _C.eye(n, dtype=like.dtype, device=like.device)


def jvp(func: _Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """The value of a function, and its derivative in a direction: the product of its Jacobian with a vector.

    It is computed by two backward passes, so what `func` does must be differentiable twice, except for functions of the
    program's own that have a `jvp`; calls may be nested.

    Args:
        func: returns a tensor or a container of them; with `has_aux` a pair of that and anything.
        primals: a tuple of its arguments: tensors and containers of them.
        tangents: the direction, with a tensor for each in `primals`, of its shape and dtype.
        strict: whether a result that depends on no argument is an error (by default its derivative is zero).
        has_aux: whether there is more than the value.

    Returns:
        (value, derivative), with `has_aux` (value, derivative, more).

    Example:
        >>> import rgrad as torch
        >>> torch.func.jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(2.0),))
        (tensor(0.), tensor(2.))
    """
    named = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{named}: Expected primals to be a tuple, with which f can be called as f(*primals)")
    points, spec = tree_flatten(primals)
    if not any(isinstance(p, Tensor) for p in points):
        raise RuntimeError(f"{named}: Expected primals to contain at least one Tensor, and only contain Tensors.")
    directions, other = tree_flatten(tangents)
    if spec != other:
        raise RuntimeError(
            f"{named}: Expected primals and tangents to have the same python structure, got {spec} and {other}"
        )
    for what, leaves in (("primals", points), ("tangents", directions)):
        for t in leaves:
            if not isinstance(t, Tensor):
                raise RuntimeError(f"{named}: Expected {what} to only contain Tensors, got {type(t)}")
    _check_shapes(points, directions)
    value, derivative, aux = _pushed(func, points, directions, spec, has_aux, strict, _C.is_grad_enabled())
    return (value, derivative, aux) if has_aux else (value, derivative)


def _pushed(
    func: _Function,
    points: Sequence[Any],
    directions: Sequence[Any],
    spec: Any,
    has_aux: bool,
    strict: bool,
    keep: bool,
) -> tuple[Any, Any, Any]:
    """The value of a function, its derivative in a direction, and what it returned with the value.

    See Note [Levels of tangents] of `rgrad.autograd._tangent_levels`.

    Args:
        func: the function.
        points: the leaves of its arguments.
        directions: a tangent for each of them that is a tensor.
        spec: the structure of the arguments.
        has_aux: whether it returns a pair of its result and anything.
        strict: whether a result that depends on no argument is an error.
        keep: whether results keep the histories that they have of other tensors.
    """
    named = "jvp(f, primals, tangents)"
    _expect_floating_point(points)
    with transforming(hooks=True), transform_level() as level:
        points, directions = [*map(_recordable, points)], [*map(_recordable, directions)]
        duals = [_made(level, p, t) if isinstance(p, Tensor) else p for p, t in zip(points, directions, strict=True)]
        value, aux = _split(func(*tree_unflatten(duals, spec)), has_aux, named)
        outputs, of_value = tree_flatten(value)
        _check_outputs(value, outputs, named)
        found = _tangents(level, outputs, keep)
        if strict and any(t is None for t in found):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs, which "
                "strict=True does not allow"
            )
        derivative = [_C.zeros_like(o.detach()) if t is None else t for o, t in zip(outputs, found, strict=True)]
        value, aux = tree_map(lambda t: _left(level, t, keep) if isinstance(t, Tensor) else t, (value, aux))
    return value, tree_unflatten(derivative, of_value), aux


def _expect_floating_point(points: Sequence[Any]) -> None:
    for given in points:
        if isinstance(given, Tensor) and not given.is_floating_point():
            raise ValueError(f"Expected primal to be floating point or complex, but got: {given.dtype}")


def _check_shapes(points: Sequence[Any], directions: Sequence[Any]) -> None:
    for i, (point, tangent) in enumerate(zip(points, directions, strict=True)):
        if point.shape != tangent.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor: "
                f"tangent:{i} with shape "
                f"{tangent.shape} doesn't match the shape {point.shape}"
            )
        if point.dtype != tangent.dtype:
            raise RuntimeError(f"Expected tangent:{i} to have the dtype {point.dtype} of its value: {tangent.dtype}")


def linearize(func: _Function, *primals: Any) -> tuple[Any, _Function]:
    """The value of a function, and its derivative as a function of the direction, which does not call `func` again.

    Args:
        func: returns a tensor or a container of them.
        primals: its arguments: tensors and containers of them.

    Returns:
        (value, derivative): `derivative` takes a tangent for each argument.

    Example:
        >>> import rgrad as torch
        >>> value, derivative = torch.func.linearize(torch.sin, torch.tensor(0.0))
        >>> derivative(torch.tensor(2.0)), derivative(torch.tensor(3.0))
        (tensor(2.), tensor(3.))
    """
    call = _Recorded(func, primals, False, "linearize(f, *primals)")
    points, spec = tree_flatten(primals)

    def derivative(*tangents: Any) -> Any:
        directions, other = tree_flatten(tangents)
        if other != spec:
            raise RuntimeError(f"Expected the tangents {other} to have the same argspec as the primals {spec}")
        for i, (point, tangent) in enumerate(zip(points, directions, strict=True)):
            for name, own, given in (("shape", point.shape, tangent.shape), ("dtype", point.dtype, tangent.dtype)):
                if own != given:
                    raise RuntimeError(f"tangent:{i} with {name} {given} doesn't match the {name} {own} of its primal")
        return call.shown(tree_unflatten(call.push(directions, call.keeps), call.spec))

    return call.value, derivative


def _of_chosen(func: _Function, args: tuple[Any, ...], kwargs: dict[str, Any], numbers: tuple[int, ...]) -> _Function:
    """A function as one of the arguments at some positions."""

    def of_chosen(*chosen: Any) -> Any:
        given = list(args)
        for n, value in zip(numbers, chosen, strict=True):
            given[n] = value
        return func(*given, **kwargs)

    return of_chosen


def _assembled(blocks: list[list[Tensor]], arguments: Any, outputs: Any, argnums: Any) -> Any:
    """Jacobians as PyTorch arranges them: in place of each output, one block for each input.

    Args:
        blocks: for each output a list with a block for each input.
        arguments: the structure of the inputs, a tuple.
        outputs: the structure of the outputs.
        argnums: which arguments these are; the tuple is left out for an int.
    """
    made = []
    for row in blocks:
        by_argument = tree_unflatten(row, arguments)
        made.append(by_argument[0] if isinstance(argnums, int) else by_argument)
    return tree_unflatten(made, outputs)


def jacrev(
    func: _Function,
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> _Function:
    """A function that returns the Jacobian of another, computed by rows: a backward pass for each element of results.

    Args:
        func: takes tensors and returns a tensor or a container of them; with `has_aux` a pair of that and anything.
        argnums: by which arguments the derivative is taken; they may be containers of tensors.
        has_aux: whether there is more than the value.
        chunk_size: the number of rows that are computed at once; all by default.
        _preallocate_and_copy: accepted; rows are joined when all have been computed.

    Returns:
        A function of the same arguments. In place of each result it has a tensor of shape
        ``(*result.shape, *argument.shape)``, or a container of them.

    Example:
        >>> import rgrad as torch
        >>> torch.func.jacrev(lambda x: x**2)(torch.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def derived(*args: Any, **kwargs: Any) -> Any:
        numbers = _argument_numbers(args, argnums)
        of_chosen = _of_chosen(func, args, kwargs, numbers)
        call = _Recorded(of_chosen, tuple(args[n] for n in numbers), has_aux, "vjp(f, *primals)")
        expect_floating_outputs(call.outputs)
        blocks = [call.rows(o, chunk_size) for o in call.outputs]
        found = call.shown(_assembled(blocks, tree_flatten(call.arguments)[1], call.spec, argnums))
        return (found, call.aux) if has_aux else found

    return derived


def jacfwd(
    func: _Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> _Function:
    """A function that returns the Jacobian of another, computed by columns: two passes for each element of arguments.

    Args:
        func: as for `jacrev`.
        argnums: as for `jacrev`.
        has_aux: as for `jacrev`.
        randomness: whether `func` may draw random numbers: "error" if not; "same" ones for all columns, or "different"
            ones.

    Returns:
        As `jacrev`.

    Example:
        >>> import rgrad as torch
        >>> torch.func.jacfwd(lambda x: x.sum() * x)(torch.tensor([1.0, 2.0]))
        tensor([[4., 1.],
                [2., 5.]])
    """

    @functools.wraps(func)
    def derived(*args: Any, **kwargs: Any) -> Any:
        numbers = _argument_numbers(args, argnums)
        of_chosen = _of_chosen(func, args, kwargs, numbers)
        points, arguments = tree_flatten(tuple(args[n] for n in numbers))
        by_columns, outputs, aux = _columns(of_chosen, points, arguments, has_aux, randomness)
        counts = [p.numel() for p in points]
        blocks = [
            [
                block.movedim(0, -1).reshape((*whole.shape[1:], *p.shape))
                for block, p in zip(whole.split(counts), points, strict=True)
            ]
            for whole in by_columns
        ]
        found = _assembled(blocks, arguments, outputs, argnums)
        return (found, aux) if has_aux else found

    return derived


def _columns(
    func: _Function, points: Sequence[Tensor], arguments: Any, has_aux: bool, randomness: str
) -> tuple[list[Tensor], Any, Any]:
    """The Jacobians of all outputs, by columns: a row for each element of the points, all together.

    Args:
        func: the function.
        points: the leaves of its arguments.
        arguments: the structure of its arguments.
        has_aux: whether it returns a pair of its result and anything.
        randomness: as for `jacfwd`.

    Returns:
        A tensor of columns for each output, the structure of the outputs, and what the function returned with them.
    """
    keep = _C.is_grad_enabled()
    counts = [p.numel() for p in points]
    total = sum(counts)
    if total == 0:
        nothing = [_C.zeros_like(p.detach()) for p in points]
        value, _, aux = _pushed(func, points, nothing, arguments, has_aux, False, keep)
        outputs, spec = tree_flatten(value)
        return [o.new_zeros((0, *o.shape)) for o in outputs], spec, aux
    rows = [
        _C.cat([_basis(p) if i == k else p.new_zeros((n, p.numel())) for k, n in enumerate(counts)])
        for i, p in enumerate(points)
    ]
    with level_of(total, randomness) as level, _apart(level, randomness != "different"):
        directions = [_C._add_batch_dim(r.view(total, *p.shape), 0, level) for r, p in zip(rows, points, strict=True)]
        _, derivative, aux = _pushed(func, points, directions, arguments, has_aux, False, keep)
        pushed, spec = tree_flatten(derivative)
        found = [_C._remove_batch_dim(t, level, total, 0) for t in pushed]
        aux = tree_map(lambda t: _C._remove_batch_dim(t, level, total, 0)[0] if isinstance(t, Tensor) else t, aux)
    return found, spec, aux


@contextmanager
def _apart(level: int, applies: bool) -> Iterator[None]:
    """A block in which the tangents of slices at a level of `vmap` differ and values do not, if that applies."""
    before = _dual.thread.apart
    _dual.thread.apart = (*before, level) if applies else before
    try:
        yield
    finally:
        _dual.thread.apart = before


def hessian(func: _Function, argnums: int | tuple[int, ...] = 0) -> _Function:
    """A function that returns the second derivatives of another, as `jacfwd` of `jacrev`.

    Args:
        func: takes tensors and returns a tensor or a container of them.
        argnums: by which arguments the derivatives are taken.

    Example:
        >>> import rgrad as torch
        >>> torch.func.hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
