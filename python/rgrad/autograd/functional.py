"""Products with Jacobians and Hessians of functions: `vjp`, `jvp`, `jacobian`, `hessian`, `vhp`, `hvp`.

All functions call the given function on their own copies of the inputs, differentiate the result once or twice, and
return tensors without history unless `create_graph` is set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rgrad import _C
from rgrad._C import Tensor

from ._backward import grad
from .grad_mode import enable_grad, set_grad_enabled

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]
Gradients = tuple[Tensor | None, ...]

_OUTPUTS = "outputs of the user-provided function"
_STRATEGIES = ("forward-mode", "reverse-mode")


# Checking arguments, and detaching results.


def _as_tuple(value: Any, what: str, function: str) -> tuple[bool, Tensors]:
    """Whether `value` is a tuple, and its tensors as a tuple."""
    must_be = f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the"
    given = value if isinstance(value, tuple) else (value,)
    for i, item in enumerate(given):
        if isinstance(item, Tensor):
            continue
        if isinstance(value, tuple):
            raise TypeError(f"{must_be} value at index {i} has type {type(item)}.")
        raise TypeError(f"{must_be} given {what} has type {type(item)}.")
    return isinstance(value, tuple), given


def _fresh(tensors: Tensors, create_graph: bool, need_graph: bool) -> Tensors:
    """The tensors to differentiate with respect to: views with the caller's history, or copies without history."""
    return tuple(
        t.view_as(t) if create_graph and t.requires_grad else t.detach().requires_grad_(need_graph) for t in tensors
    )


def _finished(result: Any, create_graph: bool) -> Any:
    """The result for the caller, detached unless history was requested."""
    if create_graph:
        return result
    if isinstance(result, Tensor):
        return result.detach()
    return tuple(_finished(item, create_graph) for item in result)


def _shaped(result: Any, *as_tuples: bool) -> Any:
    """Unwraps single tensors, level by level."""
    here, *below = as_tuples
    if below:
        result = tuple(_shaped(item, *below) for item in result)
    return result if here else result[0]


_INPUT_IS = "the input to the user-provided function is"


def _vector(v: Any, function: str, like: Tensors, is_tuple: bool, create_graph: bool, what: str) -> Tensors | None:
    """The vector of a product, checked against the corresponding tensors; `what` is its name in messages."""
    if v is None:
        if len(like) != 1 or like[0].nelement() != 1:
            raise RuntimeError(
                f"The vector v can only be None if {what} a single Tensor with a single element, for which it is 1."
            )
        return None
    _, given = _as_tuple(v, "v", function)
    vector = _fresh(given, create_graph, need_graph=False)
    if len(vector) != len(like):
        if is_tuple:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vector)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (mine, theirs) in enumerate(zip(vector, like, strict=True)):
        if mine.size() != theirs.size():
            entry = f"Entry {i} in " if is_tuple else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {theirs.size()} but got {mine.size()}.")
    return vector


# Strict mode: a result that is independent of its input is an error rather than zeros.


def _require_grad(tensors: Any, kind: str, strict: bool) -> None:
    if not strict:
        return
    given: Sequence[Tensor | None] = (tensors,) if isinstance(tensors, Tensor) else tensors
    for i, t in enumerate(given):
        if t is None:
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {i}."
                " This is not allowed in strict mode."
            )
        if t.requires_grad:
            continue
        messages = {
            "outputs": f"Output {i} of the user-provided function does not require gradients."
            " Strict mode asks for outputs that recorded operations computed from the inputs.",
            "grad_inputs": f"The gradient with respect to input {i} is independent of the inputs of the"
            " user-provided function. This is not allowed in strict mode.",
            "jacobian": "While computing the hessian, the jacobian of the user-provided function with respect to input"
            f" {i} is independent of the input. This is not allowed in strict mode: as for a linear function, the"
            " hessian would be zero and have no history.",
            "hessian": f"The hessian of the user-provided function with respect to input {i} is independent of the"
            " input. This is not allowed in strict mode: there is nothing to differentiate it by.",
        }
        raise RuntimeError(messages[kind])


# The errors of strict mode for a missing gradient, by what was computed.
_INDEPENDENT = {
    "vjp": "The output of the user-provided function is independent of input {i}. This is not allowed in strict mode.",
    "jvp": "The gradient with respect to the input is independent of entry {i} in the grad_outputs, by which a second"
    " backward computes the product. This is not allowed in strict mode.",
    "vhp": "The jacobian of the user-provided function is independent of input {i}."
    " This is not allowed in strict mode.",
    "hvp": "The hessian of the user-provided function is independent of entry {i} in the grad_jacobian, by which a"
    " second backward computes the product. This is not allowed in strict mode.",
}


def _filled(grads: Gradients, like: Tensors, strict: bool, create_graph: bool, function: str) -> Tensors:
    """Gradients with missing ones replaced by zeros."""
    filled = []
    for i, (g, reference) in enumerate(zip(grads, like, strict=True)):
        if g is None:
            if strict:
                raise RuntimeError(_INDEPENDENT[function].format(i=i))
            g = _C.zeros_like(reference)
        elif strict and create_graph and not g.requires_grad:
            order = "jacobian" if function in ("vjp", "jvp") else "hessian"
            raise RuntimeError(
                f"The {order} of the user-provided function is independent of input {i}."
                " This is not allowed in strict mode when create_graph=True."
            )
        filled.append(g)
    return tuple(filled)


def _gradients(
    outputs: Gradients,
    inputs: Tensors,
    grad_outputs: Gradients | None = None,
    *,
    create_graph: bool = False,
    retain_graph: bool | None = None,
) -> Gradients:
    """`autograd.grad` that ignores outputs without history and returns None for unused inputs."""
    weights = (None,) * len(outputs) if grad_outputs is None else grad_outputs
    pairs = [(o, w) for o, w in zip(outputs, weights, strict=True) if o is not None and o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    roots, gradients = zip(*pairs, strict=True)
    return grad(roots, inputs, gradients, retain_graph, create_graph, allow_unused=True)


def _scalar_outputs(func: Callable[..., Any], inputs: Tensors, function: str, strict: bool) -> Tensors:
    """The result of a function to be differentiated twice, which must be a single number."""
    is_tuple, outputs = _as_tuple(func(*inputs), _OUTPUTS, function)
    _require_grad(outputs, "outputs", strict)
    if is_tuple:
        raise RuntimeError(f"The function given to {function} should return a single Tensor")
    if outputs[0].nelement() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {function} should contain a single element")
    return outputs


# The products.


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The product of a vector with the Jacobian of `func` at `inputs`.

    Args:
        func: a function from tensors to a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        v: the vector, with the shape of the outputs; optional for a single output of one element.
        create_graph: whether the results are differentiable with respect to the inputs and `v`.
        strict: whether an output that depends on no input is an error (by default its derivative is zero).

    Returns:
        The outputs of `func`, and the product, structured like `inputs`.

    >>> import rgrad as torch
    >>> torch.autograd.functional.vjp(lambda x: x**2, torch.tensor([1.0, 2.0]), torch.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad():
        in_tuple, given = _as_tuple(inputs, "inputs", "vjp")
        points = _fresh(given, create_graph, need_graph=True)
        out_tuple, outputs = _as_tuple(func(*points), _OUTPUTS, "vjp")
        _require_grad(outputs, "outputs", strict)
        vector = _vector(v, "vjp", outputs, out_tuple, create_graph, "the user-provided function returns")
    with set_grad_enabled(create_graph or _C.is_grad_enabled()):
        found = _gradients(outputs, points, vector, create_graph=create_graph)
        product = _filled(found, points, strict, create_graph, "vjp")
    return (
        _shaped(_finished(outputs, create_graph), out_tuple),
        _shaped(_finished(product, create_graph), in_tuple),
    )


# Note [Forward products by two backward passes]
#
# A backward pass computes u -> J'u, which is linear in u. Differentiating this map with respect to u, in direction v,
# gives Jv: the forward product, at the cost of two backward passes. The value of u does not matter, so zeros are
# used.
def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The product of the Jacobian of `func` at `inputs` with a vector.

    Args:
        func: takes tensors and returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        v: the vector, of the shape of the inputs; needless for a single input of one element.
        create_graph: whether the results can be differentiated by the inputs and by `v`.
        strict: whether an output that depends on no input is an error (by default its derivative is zero).

    Returns:
        The outputs of `func`, and the product, shaped as they are.
    """
    with enable_grad():
        in_tuple, given = _as_tuple(inputs, "inputs", "jvp")
        points = _fresh(given, create_graph, need_graph=True)
        vector = _vector(v, "jvp", points, in_tuple, create_graph, _INPUT_IS)
        out_tuple, outputs = _as_tuple(func(*points), _OUTPUTS, "jvp")
        _require_grad(outputs, "outputs", strict)
        # See Note [Forward products by two backward passes].
        dummies = tuple(_C.zeros_like(out).requires_grad_() for out in outputs)
        backward = _gradients(outputs, points, dummies, create_graph=True)
        _require_grad(backward, "grad_inputs", strict)
    with set_grad_enabled(create_graph or _C.is_grad_enabled()):
        found = _gradients(backward, dummies, vector, create_graph=create_graph)
        product = _filled(found, outputs, strict, create_graph, "jvp")
    return (
        _shaped(_finished(outputs, create_graph), out_tuple),
        _shaped(_finished(product, create_graph), out_tuple),
    )


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivatives of every element of the outputs by every element of the inputs.

    Args:
        func: takes tensors and returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        create_graph: whether the result can be differentiated.
        strict: whether an output that does not depend on an input is an error (by default the block is zero).
        vectorize: accepted; rows are computed one by one either way.
        strategy: ``"reverse-mode"`` computes the matrix by rows, ``"forward-mode"`` by columns.

    Returns:
        A tensor of shape ``(*output.shape, *input.shape)``, or a tuple of them for several inputs, or a tuple by
        output of that.

    >>> import rgrad as torch
    >>> torch.autograd.functional.jacobian(lambda x: x**2, torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in _STRATEGIES:
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". The first takes a pass for every element '
            "of the inputs, the second one for every element of the outputs."
        )
    if strategy == "forward-mode":
        _check_forward_mode(create_graph, strict, vectorize)
        return _jacobian_by_columns(func, inputs)
    with enable_grad():
        in_tuple, given = _as_tuple(inputs, "inputs", "jacobian")
        points = _fresh(given, create_graph, need_graph=True)
        out_tuple, outputs = _as_tuple(func(*points), _OUTPUTS, "jacobian")
        _require_grad(outputs, "outputs", strict)
        if vectorize and strict:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together."
            )
        blocks = tuple(_rows(i, out, points, create_graph, strict) for i, out in enumerate(outputs))
    return _shaped(_finished(blocks, create_graph), out_tuple, in_tuple)


def _rows(number: int, output: Tensor, inputs: Tensors, create_graph: bool, strict: bool) -> Tensors:
    """The Jacobian of one output, a block per input: one backward pass an element of the output."""
    rows: list[list[Tensor]] = [[] for _ in inputs]
    for element in output.reshape(-1).unbind():
        found = _gradients((element,), inputs, create_graph=create_graph, retain_graph=True)
        for i, (g, point) in enumerate(zip(found, inputs, strict=True)):
            if g is None:
                if strict:
                    raise RuntimeError(
                        f"Output {number} of the user-provided function is independent of input {i}. "
                        "This is not allowed in strict mode."
                    )
                g = _C.zeros_like(point)
            elif strict and create_graph and not g.requires_grad:
                raise RuntimeError(
                    f"The jacobian of the user-provided function is independent of input {number}. "
                    "This is not allowed in strict mode when create_graph=True."
                )
            rows[i].append(g)
    return tuple(
        (_C.stack(block) if block else point.new_zeros(0)).view((*output.shape, *point.shape))
        for block, point in zip(rows, inputs, strict=True)
    )


def _check_forward_mode(create_graph: bool, strict: bool, vectorize: bool) -> None:
    if create_graph:
        raise NotImplementedError(
            'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not supported '
            "together."
        )
    if strict:
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported '
            "together: a product of zero does not tell whether the output depends on the input."
        )
    if not vectorize:
        raise NotImplementedError(
            'strategy="forward-mode", of a Jacobian or outside of a Hessian, is only implemented for `vectorize=True`.'
        )


def _construct_standard_basis_for(tensors: Tensors, tensor_numels: tuple[int, ...]) -> Tensors:
    """The unit vectors of all elements of several tensors, a row each, as a matrix for each tensor.

    Args:
        tensors: any, of any dtypes.
        tensor_numels: their numbers of elements, n_i.

    Returns:
        Matrices of shape (n_1 + n_2 + …, n_i), with the dtypes and devices of the tensors.
    """
    if not tensors or len(tensors) != len(tensor_numels):
        raise AssertionError("Expected a number of elements for each of at least one tensor")
    total, start, blocks = sum(tensor_numels), 0, []
    for tensor, size in zip(tensors, tensor_numels, strict=True):
        block = tensor.new_zeros(total, size)
        block.diagonal(-start).fill_(1)
        blocks.append(block)
        start += size
    return tuple(blocks)


def _jacobian_by_columns(func: Callable[..., Any], inputs: Any) -> Any:
    """The Jacobian by forward products with the unit vectors of the inputs."""
    in_tuple, points = _as_tuple(inputs, "inputs", "jacobian")
    out_tuple, outputs = True, ()
    columns: list[list[Tensors]] = [[] for _ in points]
    sizes = tuple(point.nelement() for point in points)
    basis = _construct_standard_basis_for(points, sizes)
    for i, size in enumerate(sizes):
        for k in range(size):
            row = sum(sizes[:i]) + k
            unit = tuple(block[row].view(point.shape) for block, point in zip(basis, points, strict=True))
            result, column = jvp(func, points, unit)
            out_tuple, outputs = _as_tuple(result, _OUTPUTS, "jacobian")
            columns[i].append(_as_tuple(column, _OUTPUTS, "jacobian")[1])
    blocks = tuple(
        tuple(
            _C.stack([column[o] for column in columns[i]], -1).view((*out.shape, *point.shape))
            for i, point in enumerate(points)
        )
        for o, out in enumerate(outputs)
    )
    return _shaped(blocks, out_tuple, in_tuple)


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function that returns one number.

    Args:
        func: takes tensors and returns a tensor of one element.
        inputs: a tensor or a tuple of tensors.
        create_graph: whether the result can be differentiated.
        strict: whether a derivative that does not depend on an input is an error (by default it is zero).
        vectorize: accepted, as in :func:`jacobian`.
        outer_jacobian_strategy: ``strategy`` of the outer of two Jacobians.

    Returns:
        A tensor of shape ``(*input.shape, *input.shape)``; for a tuple of inputs, a tuple of tuples of such blocks.
    """
    in_tuple, given = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in _STRATEGIES:
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def number(*points: Tensor) -> Tensor:
        return _scalar_outputs(func, points, "hessian", strict)[0].squeeze()

    def slopes(*points: Tensor) -> Any:
        first = jacobian(number, points, create_graph=True)
        _require_grad(first, "jacobian", strict)
        return first

    result = jacobian(slopes, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return _shaped(result, in_tuple, in_tuple)


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The product of a vector with the Hessian of a function that returns one number.

    The arguments are those of :func:`vjp`; `v` has the shape of the inputs.

    Returns:
        The output of `func`, and the product, shaped as `inputs` is.
    """
    with enable_grad():
        in_tuple, given = _as_tuple(inputs, "inputs", "vhp")
        points = _fresh(given, create_graph, need_graph=True)
        vector = _vector(v, "vhp", points, in_tuple, create_graph, _INPUT_IS)
        outputs = _scalar_outputs(func, points, "vhp", strict)
        slopes = _gradients(outputs, points, create_graph=True)
        _require_grad(slopes, "jacobian", strict)
    with set_grad_enabled(create_graph or _C.is_grad_enabled()):
        found = _gradients(slopes, points, vector, create_graph=create_graph)
        product = _filled(found, points, strict, create_graph, "vhp")
    return _finished(outputs[0], create_graph), _shaped(_finished(product, create_graph), in_tuple)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The product of the Hessian of a function that returns one number with a vector.

    As the Hessian is symmetric, :func:`vhp` gives the same numbers with one pass less.
    """
    with enable_grad():
        in_tuple, given = _as_tuple(inputs, "inputs", "hvp")
        points = _fresh(given, create_graph, need_graph=True)
        vector = _vector(v, "hvp", points, in_tuple, create_graph, _INPUT_IS)
        outputs = _scalar_outputs(func, points, "hvp", strict)
        slopes = _gradients(outputs, points, create_graph=True)
        _require_grad(slopes, "jacobian", strict)
        # See Note [Forward products by two backward passes].
        dummies = tuple(_C.zeros_like(p).requires_grad_() for p in points)
        backward = _gradients(slopes, points, dummies, create_graph=True)
        _require_grad(slopes, "hessian", strict)
    with set_grad_enabled(create_graph or _C.is_grad_enabled()):
        found = _gradients(backward, dummies, vector, create_graph=create_graph)
        product = _filled(found, points, strict, create_graph, "hvp")
    return _finished(outputs[0], create_graph), _shaped(_finished(product, create_graph), in_tuple)
