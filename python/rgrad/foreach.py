"""Operations on lists of tensors: each applies the operation of the same name to every position of its lists.

A function whose name ends in `_` changes the tensors and returns the list that it was given; the others return a tuple
of new tensors. What a list is combined with is a number or a 0-d tensor, used at every position, or a list of as many
tensors or numbers.

>>> import rgrad
>>> rgrad.foreach.add([rgrad.ones(2), rgrad.zeros(1)], 1)
(tensor([2., 2.]), tensor([1.]))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from rgrad import _foreach
from rgrad import dtype as _dtype
from rgrad import memory_format as _memory_format
from rgrad._C import Tensor

_Tensors: TypeAlias = Sequence[Tensor]
_New: TypeAlias = Callable[..., tuple[Tensor, ...]]
_InPlace: TypeAlias = Callable[..., Any]

# Of each parameter what it means, and a value for the example.
_PARAMETERS = {
    "inputs": ("the tensors.", "lists"),
    "other": ("what they are combined with: a number, a 0-d tensor, or a list of as many tensors or numbers.", "2"),
    "max": ("the greatest values: a number, or a list of as many tensors or numbers.", "2"),
    "min": ("the least values: a number, or a list of as many tensors or numbers.", "2"),
    "tensor1": ("as many tensors: the first factors, or the numerators.", "lists"),
    "tensor2": ("as many tensors: the second factors, or the divisors.", "lists"),
    "alpha": ("a factor of `other`, where that is tensors; 1 if None.", ""),
    "value": ("a factor of the product or quotient: a number, a list of as many, or a 1-d tensor of these.", ""),
}


def _finish(function: Any, name: str, parameters: tuple[str, ...]) -> Any:
    """Gives a function its name and its documentation.

    Args:
        function: the function.
        name: its name.
        parameters: its parameters, by their names in `_PARAMETERS`.
    """
    function.__name__ = function.__qualname__ = name
    returns = "`inputs`, changed." if name.endswith("_") else "a tuple with a new tensor for each of `inputs`."
    args = "".join(f"        {parameter}: {_PARAMETERS[parameter][0]}\n" for parameter in parameters)
    given = ", ".join(example for _, example in (_PARAMETERS[parameter] for parameter in parameters) if example)
    function.__doc__ = (
        f"`{name}` of every tensor of a list.\n\n    Args:\n{args}\n    Returns:\n        {returns}\n\n"
        "    Raises:\n        RuntimeError: `inputs` is empty, or the lists differ in length.\n\n"
        f"    >>> lists = [rgrad.ones(2), rgrad.ones(3)]\n    >>> len(rgrad.foreach.{name}({given}))\n    2\n    "
    )
    return function


def _both(make: Callable[[str], Any], name: str) -> tuple[_New, _InPlace]:
    return make(name), make(name + "_")


def _unary(name: str) -> Any:
    apply = getattr(_foreach, f"_foreach_{name}")

    def function(inputs: _Tensors, /) -> Any:
        return apply(inputs)

    return _finish(function, name, ("inputs",))


def _binary(name: str) -> Any:
    apply = getattr(_foreach, f"_foreach_{name}")

    def function(inputs: _Tensors, other: Any, /) -> Any:
        return apply(inputs, other)

    return _finish(function, name, ("inputs", "other"))


def _greatest(name: str) -> Any:
    apply = getattr(_foreach, f"_foreach_{name}")

    def function(inputs: _Tensors, max: Any, /) -> Any:
        return apply(inputs, max)

    return _finish(function, name, ("inputs", "max"))


def _least(name: str) -> Any:
    apply = getattr(_foreach, f"_foreach_{name}")

    def function(inputs: _Tensors, min: Any, /) -> Any:
        return apply(inputs, min)

    return _finish(function, name, ("inputs", "min"))


def _scaled(name: str) -> Any:
    apply = getattr(_foreach, f"_foreach_{name}")

    def function(inputs: _Tensors, other: Any, /, *, alpha: Any = None) -> Any:
        # Numbers accept no factor, not even 1.
        return apply(inputs, other, **({} if alpha is None else {"alpha": alpha}))

    return _finish(function, name, ("inputs", "other", "alpha"))


def _ternary(name: str) -> Any:
    apply = getattr(_foreach, f"_foreach_{name}")

    def function(inputs: _Tensors, tensor1: _Tensors, tensor2: _Tensors, /, *, value: Any = 1) -> Any:
        return apply(inputs, tensor1, tensor2, value)

    return _finish(function, name, ("inputs", "tensor1", "tensor2", "value"))


abs, abs_ = _both(_unary, "abs")
acos, acos_ = _both(_unary, "acos")
asin, asin_ = _both(_unary, "asin")
atan, atan_ = _both(_unary, "atan")
ceil, ceil_ = _both(_unary, "ceil")
cos, cos_ = _both(_unary, "cos")
cosh, cosh_ = _both(_unary, "cosh")
erf, erf_ = _both(_unary, "erf")
erfc, erfc_ = _both(_unary, "erfc")
exp, exp_ = _both(_unary, "exp")
expm1, expm1_ = _both(_unary, "expm1")
floor, floor_ = _both(_unary, "floor")
frac, frac_ = _both(_unary, "frac")
lgamma, lgamma_ = _both(_unary, "lgamma")
log, log_ = _both(_unary, "log")
log10, log10_ = _both(_unary, "log10")
log1p, log1p_ = _both(_unary, "log1p")
log2, log2_ = _both(_unary, "log2")
neg, neg_ = _both(_unary, "neg")
reciprocal, reciprocal_ = _both(_unary, "reciprocal")
round, round_ = _both(_unary, "round")
rsqrt, rsqrt_ = _both(_unary, "rsqrt")
sigmoid, sigmoid_ = _both(_unary, "sigmoid")
sign, sign_ = _both(_unary, "sign")
sin, sin_ = _both(_unary, "sin")
sinh, sinh_ = _both(_unary, "sinh")
sqrt, sqrt_ = _both(_unary, "sqrt")
tan, tan_ = _both(_unary, "tan")
tanh, tanh_ = _both(_unary, "tanh")
trunc, trunc_ = _both(_unary, "trunc")
add, add_ = _both(_scaled, "add")
sub, sub_ = _both(_scaled, "sub")
mul, mul_ = _both(_binary, "mul")
div, div_ = _both(_binary, "div")
maximum, maximum_ = _both(_binary, "maximum")
minimum, minimum_ = _both(_binary, "minimum")
clamp_max, clamp_max_ = _both(_greatest, "clamp_max")
clamp_min, clamp_min_ = _both(_least, "clamp_min")
addcmul, addcmul_ = _both(_ternary, "addcmul")
addcdiv, addcdiv_ = _both(_ternary, "addcdiv")
max = _unary("max")
zero_ = _unary("zero_")


def pow(input: Any, exponent: Any, /) -> tuple[Tensor, ...]:
    """`pow` of every position of two lists.

    Args:
        input: the bases: a list of tensors, or a number.
        exponent: the exponents: a list of tensors or numbers, or a number.

    Returns:
        A tuple with a new tensor for each position.

    Raises:
        RuntimeError: a list is empty, or the lists differ in length.

    >>> rgrad.foreach.pow(2, [rgrad.tensor([1.0, 3.0])])
    (tensor([2., 8.]),)
    """
    return _foreach._foreach_pow(input, exponent)  # pyright: ignore[reportAttributeAccessIssue]


def pow_(input: _Tensors, exponent: Any, /) -> Any:
    """`pow_` of every tensor of a list.

    Args:
        input: the bases.
        exponent: the exponents: a number, or a list of as many tensors or numbers.

    Returns:
        `input`, changed.

    Raises:
        RuntimeError: the list is empty, or the lists differ in length.

    >>> rgrad.foreach.pow_([rgrad.tensor([1.0, 3.0])], 2)
    [tensor([1., 9.])]
    """
    return _foreach._foreach_pow_(input, exponent)  # pyright: ignore[reportAttributeAccessIssue]


def lerp(inputs: _Tensors, end: _Tensors, weight: Any, /) -> tuple[Tensor, ...]:
    """`lerp` from every tensor of a list to that of another.

    Args:
        inputs: the tensors where the interpolation begins.
        end: as many tensors where it ends.
        weight: how far to go: a number, or a list of as many tensors or numbers.

    Returns:
        A tuple with a new tensor for each position.

    Raises:
        RuntimeError: a list is empty, or the lists differ in length.

    >>> rgrad.foreach.lerp([rgrad.zeros(2)], [rgrad.ones(2)], 0.25)
    (tensor([0.2500, 0.2500]),)
    """
    return _foreach._foreach_lerp(inputs, end, weight)  # pyright: ignore[reportAttributeAccessIssue]


def lerp_(inputs: _Tensors, end: _Tensors, weight: Any, /) -> Any:
    """`lerp_` from every tensor of a list to that of another.

    Args:
        inputs: the tensors where the interpolation begins.
        end: as many tensors where it ends.
        weight: how far to go: a number, or a list of as many tensors or numbers.

    Returns:
        `inputs`, changed.

    Raises:
        RuntimeError: a list is empty, or the lists differ in length.

    >>> rgrad.foreach.lerp_([rgrad.zeros(2)], [rgrad.ones(2)], 0.25)
    [tensor([0.2500, 0.2500])]
    """
    return _foreach._foreach_lerp_(inputs, end, weight)  # pyright: ignore[reportAttributeAccessIssue]


def mm(inputs: _Tensors, mat2: _Tensors, /) -> tuple[Tensor, ...]:
    """The product of every matrix of a list with that of another.

    Args:
        inputs: the first matrices.
        mat2: as many second matrices.

    Returns:
        A tuple with a product for each position.

    Raises:
        RuntimeError: a list is empty, or the lists differ in length.

    >>> rgrad.foreach.mm([rgrad.eye(2)], [rgrad.ones(2, 1)])
    (tensor([[1.],
            [1.]]),)
    """
    return _foreach._foreach_mm(inputs, mat2)


def norm(inputs: _Tensors, /, *, ord: float = 2, dtype: _dtype | None = None) -> tuple[Tensor, ...]:
    """The norm of all elements of every tensor of a list.

    Args:
        inputs: the tensors.
        ord: the order of the norm.
        dtype: the type to compute in; that of the tensor if None.

    Returns:
        A tuple with a 0-d tensor for each of `inputs`.

    Raises:
        RuntimeError: `inputs` is empty.

    >>> rgrad.foreach.norm([rgrad.tensor([3.0, 4.0])])
    (tensor(5.),)
    """
    return _foreach._foreach_norm(inputs, ord, dtype)


def clone(inputs: _Tensors, /, *, memory_format: _memory_format | None = None) -> tuple[Tensor, ...]:
    """A copy of every tensor of a list.

    Args:
        inputs: the tensors.
        memory_format: the order of the copies' elements; that of the tensors if None.

    Returns:
        A tuple with a copy of each.

    Raises:
        RuntimeError: `inputs` is empty.

    >>> rgrad.foreach.clone([rgrad.ones(2)])
    (tensor([1., 1.]),)
    """
    return _foreach._foreach_clone(inputs, memory_format=memory_format)


def copy_(inputs: _Tensors, src: _Tensors, /, *, non_blocking: bool = False) -> Any:
    """Copies every tensor of a list to that of another.

    Args:
        inputs: the tensors to write.
        src: as many tensors to read.
        non_blocking: whether the program may go on before copies to or from a GPU are done.

    Returns:
        `inputs`, changed.

    Raises:
        RuntimeError: a list is empty, or the lists differ in length.

    >>> rgrad.foreach.copy_([rgrad.zeros(2)], [rgrad.ones(2)])
    [tensor([1., 1.])]
    """
    return _foreach._foreach_copy_(inputs, src, non_blocking)
