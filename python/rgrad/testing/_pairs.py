"""Pairs of values to compare, one class for each kind of values, and the search for the class of two values.

Test suites derive classes of their own from these, and pass them to `not_close_error_metas`. A class whose constructor
raises `UnsupportedInputs` leaves two values to the next one.
"""

from __future__ import annotations

import abc
import cmath
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import rgrad
from rgrad._C import Tensor
from rgrad.testing import _tolerances

_Id = tuple[Any, ...]
_Message = str | Callable[[str], str] | None


class UnsupportedInputs(Exception):  # noqa: N818 - PyTorch's name
    """Two values that a class of pairs does not compare."""


class ErrorMeta(Exception):  # noqa: N818 - PyTorch's name
    """What is wrong with a pair: an error to be raised, and where in containers the pair is.

    Args:
        type: the class of the error.
        msg: its message.
        id: the keys that lead to the pair.
    """

    def __init__(self, type: type[Exception], msg: str, *, id: _Id = ()) -> None:
        super().__init__("this is handled by the comparison, and no error to be seen")
        self.type = type
        self.msg = msg
        self.id = id

    def to_error(self, msg: _Message = None) -> Exception:
        """The error, with another message, or one that a function makes of its own."""
        if isinstance(msg, str):
            return self.type(msg)
        text = self.msg
        if self.id:
            text += "\n\nThe failure occurred for item " + "".join(f"[{key!r}]" for key in self.id)
        return self.type(text if msg is None else msg(text))


class Pair(abc.ABC):
    """Two values that `compare` compares.

    Args:
        actual: the actual value.
        expected: the expected one.
        id: the keys that lead to them in containers.
        unknown_parameters: options of other classes of pairs.
    """

    def __init__(self, actual: Any, expected: Any, *, id: _Id = (), **unknown_parameters: Any) -> None:
        self.actual = actual
        self.expected = expected
        self.id = id
        self._unknown_parameters = unknown_parameters

    @staticmethod
    def _inputs_not_supported() -> NoReturn:
        raise UnsupportedInputs

    @staticmethod
    def _check_inputs_isinstance(*inputs: Any, cls: Any) -> None:
        """Leaves values to other classes that are not all of `cls`."""
        if not all(isinstance(value, cls) for value in inputs):
            Pair._inputs_not_supported()

    def _fail(self, type: type[Exception], msg: str, *, id: _Id = ()) -> NoReturn:
        raise ErrorMeta(type, msg, id=id or getattr(self, "id", ()))

    @abc.abstractmethod
    def compare(self) -> None:
        """Raises ErrorMeta if the values differ."""

    def extra_repr(self) -> Sequence[str | tuple[str, Any]]:
        """What the representation shows besides the values: names of attributes, or pairs of a name and a value."""
        return ()

    def __repr__(self) -> str:
        shown = [("id", self.id), ("actual", self.actual), ("expected", self.expected)]
        shown += [(name, getattr(self, name)) if isinstance(name, str) else name for name in self.extra_repr()]
        lines = "".join(f"    {name}={value!r},\n" for name, value in shown)
        return f"{type(self).__name__}(\n{lines})"


class ObjectPair(Pair):
    """Values of any kind, which are compared by `==`."""

    def compare(self) -> None:
        """Raises ErrorMeta if the values differ."""
        try:
            equal = self.actual == self.expected
        except Exception as error:
            self._fail(ValueError, f"{self.actual} == {self.expected} failed with:\n{error}.")
        if not equal:
            self._fail(AssertionError, f"{self.actual} != {self.expected}")


class NonePair(Pair):
    """Values of which at least one is None."""

    def __init__(self, actual: Any, expected: Any, **other_parameters: Any) -> None:
        if actual is not None and expected is not None:
            self._inputs_not_supported()
        super().__init__(actual, expected, **other_parameters)

    def compare(self) -> None:
        """Raises ErrorMeta unless both are None."""
        if self.actual is not self.expected:
            self._fail(AssertionError, f"None mismatch: {self.actual} is not {self.expected}")


def _with_numpy(*kinds: type, name: str) -> tuple[type, ...]:
    """The classes, and NumPy's class of a name if that is installed."""
    try:
        import numpy
    except ImportError:
        return kinds
    return (*kinds, getattr(numpy, name))


class BooleanPair(Pair):
    """Two bools, of Python or of NumPy."""

    def __init__(self, actual: Any, expected: Any, *, id: _Id, **other_parameters: Any) -> None:
        actual, expected = self._process_inputs(actual, expected, id=id)
        super().__init__(actual, expected, id=id, **other_parameters)

    @property
    def _supported_types(self) -> tuple[type, ...]:
        return _with_numpy(bool, name="bool_")

    def _process_inputs(self, actual: Any, expected: Any, *, id: _Id) -> tuple[bool, bool]:
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        return self._to_bool(actual, id=id), self._to_bool(expected, id=id)

    def _to_bool(self, bool_like: Any, *, id: _Id) -> bool:
        if isinstance(bool_like, self._supported_types):
            return bool(bool_like)
        raise ErrorMeta(TypeError, f"Unknown boolean type {type(bool_like)}.", id=id)

    def compare(self) -> None:
        """Raises ErrorMeta if they differ."""
        if self.actual is not self.expected:
            self._fail(AssertionError, f"Booleans mismatch: {self.actual} is not {self.expected}")


class NumberPair(Pair):
    """Two numbers, of Python or of NumPy.

    Args:
        actual: the actual number.
        expected: the expected one.
        id: the keys that lead to them in containers.
        rtol: relative tolerance; that of the type if None.
        atol: absolute tolerance.
        equal_nan: whether NaNs are equal.
        check_dtype: whether the types must be the same.
        other_parameters: options of other classes of pairs.
    """

    _TYPE_TO_DTYPE: ClassVar[dict[type, Any]] = {int: rgrad.int64, float: rgrad.float64, complex: rgrad.complex128}
    _NUMBER_TYPES = tuple(_TYPE_TO_DTYPE)

    def __init__(
        self,
        actual: Any,
        expected: Any,
        *,
        id: _Id = (),
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        check_dtype: bool = False,
        **other_parameters: Any,
    ) -> None:
        actual, expected = self._process_inputs(actual, expected, id=id)
        super().__init__(actual, expected, id=id, **other_parameters)
        kinds = [next(kind for kind in self._TYPE_TO_DTYPE if isinstance(x, kind)) for x in (actual, expected)]
        dtypes = [self._TYPE_TO_DTYPE[kind] for kind in kinds]
        self.rtol, self.atol = _tolerances.get_tolerances(*dtypes, rtol=rtol, atol=atol, id=id)
        self.equal_nan = equal_nan
        self.check_dtype = check_dtype

    @property
    def _supported_types(self) -> tuple[type, ...]:
        return _with_numpy(*self._NUMBER_TYPES, name="number")

    def _process_inputs(self, actual: Any, expected: Any, *, id: _Id) -> tuple[Any, Any]:
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        return self._to_number(actual, id=id), self._to_number(expected, id=id)

    def _to_number(self, number_like: Any, *, id: _Id) -> Any:
        # Some of NumPy's numbers are of Python's classes, too.
        if hasattr(number_like, "item"):
            return number_like.item()
        if isinstance(number_like, self._NUMBER_TYPES):
            return number_like
        raise ErrorMeta(TypeError, f"Unknown number type {type(number_like)}.", id=id)

    def compare(self) -> None:
        """Raises ErrorMeta if they are not close."""
        actual, expected = self.actual, self.expected
        if self.check_dtype and type(actual) is not type(expected):
            self._fail(AssertionError, f"The (d)types do not match: {type(actual)} != {type(expected)}.")
        difference = abs(actual - expected)
        if actual == expected or (self.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
            return
        if cmath.isfinite(difference) and difference <= self.atol + self.rtol * abs(expected):
            return
        relative = difference / abs(expected) if expected != 0 else math.inf
        self._fail(AssertionError, scalars_differ(actual, expected, difference, relative, self.rtol, self.atol))

    def extra_repr(self) -> Sequence[str]:
        """The tolerances and the options."""
        return ("rtol", "atol", "equal_nan", "check_dtype")


def differ(what: str, lines: list[str], prefix: str, absolute: Any, relative: Any, rtol: float, atol: float) -> str:
    """The message of values that are too far from each other.

    Args:
        what: the values, in plural.
        lines: what is said of them first.
        prefix: of the names of the differences.
        absolute: the difference, or a pair of it and of the index where it is.
        relative: likewise.
        rtol: the relative difference that is allowed.
        atol: the absolute one.
    """
    equality = rtol == 0 and atol == 0

    def line(kind: str, found: Any, allowed: float) -> str:
        value, at = found if isinstance(found, tuple) else (found, None)
        where = "" if at is None else f" at index {at}"
        bound = "" if equality else f" (up to {allowed} allowed)"
        text = f"{prefix}{kind} difference: {value}{where}{bound}"
        return text[0].upper() + text[1:]

    lines = [*lines, line("absolute", absolute, atol), line("relative", relative, rtol)]
    return f"{what} are not {'equal' if equality else 'close'}!\n\n" + "\n".join(lines)


def scalars_differ(actual: Any, expected: Any, absolute: Any, relative: Any, rtol: float, atol: float) -> str:
    """The message of two numbers."""
    return differ("Scalars", [f"Expected {expected} but got {actual}."], "", absolute, relative, rtol, atol)


_WIDE_UNSIGNED = (rgrad.uint16, rgrad.uint32, rgrad.uint64)


def _common_dtype(a: Tensor, b: Tensor) -> Any:
    """The dtype in which two tensors are compared: also of integers that operations do not promote."""
    kinds = (a.dtype, b.dtype)
    integral = not any(t.is_floating_point() or t.dtype == rgrad.bool for t in (a, b))
    if kinds[0] == kinds[1] or not integral or not any(kind in _WIDE_UNSIGNED for kind in kinds):
        return rgrad.promote_types(*kinds)
    # As int64 a number from 2 ** 63 on is negative.
    too_large = any(t.dtype == rgrad.uint64 and bool((t.view(rgrad.int64) < 0).any()) for t in (a, b))
    return rgrad.float64 if too_large else rgrad.int64


def _largest(difference: Tensor) -> tuple[Any, tuple[int, ...]]:
    """The largest element and its index."""
    at = int(difference.argmax())
    value = difference.flatten()[at].item()
    index = []
    for size in reversed(difference.shape):
        at, i = divmod(at, size)
        index.append(i)
    return value, tuple(reversed(index))


class TensorLikePair(Pair):
    """Two tensors, or what `as_tensor` makes them of.

    Args:
        actual: the actual tensor.
        expected: the expected one.
        id: the keys that lead to them in containers.
        allow_subclasses: whether one may be of a class derived from that of the other.
        rtol: relative tolerance; that of the dtypes if None.
        atol: absolute tolerance.
        equal_nan: whether NaNs are equal.
        check_device: whether the devices must be the same.
        check_dtype: whether the dtypes must be the same.
        check_layout: whether the layouts must be the same.
        check_stride: whether the strides must be the same.
        other_parameters: options of other classes of pairs.
    """

    def __init__(
        self,
        actual: Any,
        expected: Any,
        *,
        id: _Id = (),
        allow_subclasses: bool = True,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        check_device: bool = True,
        check_dtype: bool = True,
        check_layout: bool = True,
        check_stride: bool = False,
        **other_parameters: Any,
    ) -> None:
        actual, expected = self._process_inputs(actual, expected, id=id, allow_subclasses=allow_subclasses)
        super().__init__(actual, expected, id=id, **other_parameters)
        self.rtol, self.atol = _tolerances.get_tolerances(actual, expected, rtol=rtol, atol=atol, id=id)
        self.equal_nan = equal_nan
        self.check_device = check_device
        self.check_dtype = check_dtype
        self.check_layout = check_layout
        self.check_stride = check_stride

    def _process_inputs(
        self, actual: Any, expected: Any, *, id: _Id, allow_subclasses: bool
    ) -> tuple[Tensor, Tensor]:
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if not related or not (allow_subclasses or type(actual) is type(expected)):
            self._inputs_not_supported()
        actual, expected = self._to_tensor(actual), self._to_tensor(expected)
        for tensor in (actual, expected):
            self._check_supported(tensor, id=id)
        return actual, expected

    def _to_tensor(self, tensor_like: Any) -> Tensor:
        if isinstance(tensor_like, Tensor):
            return tensor_like
        try:
            return rgrad.as_tensor(tensor_like)
        except Exception:
            self._inputs_not_supported()

    def _check_supported(self, tensor: Tensor, *, id: _Id) -> None:
        """Raises ErrorMeta for a tensor that can't be compared: all tensors that there are can be."""

    def _attributes(self) -> None:
        actual, expected = self.actual, self.expected
        pairs: list[tuple[str, bool, Any, Any]] = [
            ("shape", True, actual.shape, expected.shape),
            ("layout", self.check_layout, actual.layout, expected.layout),
            ("device", self.check_device, actual.device, expected.device),
            ("dtype", self.check_dtype, actual.dtype, expected.dtype),
            ("stride()", self.check_stride, actual.stride(), expected.stride()),
        ]
        for name, checked, a, e in pairs:
            if checked and a != e:
                self._fail(AssertionError, f"The values for attribute '{name}' do not match: {a} != {e}.")

    def compare(self) -> None:
        """Raises ErrorMeta if they are not close, element by element."""
        self._attributes()
        if self.actual.is_meta or self.expected.is_meta:
            # There are no elements.
            return
        rtol, atol = self.rtol, self.atol
        with rgrad.no_grad():
            a, e = self.actual.detach().cpu(), self.expected.detach().cpu()
            common = _common_dtype(a, e)
            if a.dtype != e.dtype:
                a, e = a.to(common), e.to(common)
            close = rgrad.isclose(a, e, rtol=rtol, atol=atol, equal_nan=self.equal_nan)
            if bool(close.all()):
                return
            if not common.is_floating_point:
                a, e = a.to(rgrad.int64), e.to(rgrad.int64)
            if a.dim() == 0:
                one, other = a.item(), e.item()
                difference = abs(one - other)
                relative = difference / abs(other) if other != 0 else math.inf
                self._fail(AssertionError, scalars_differ(one, other, difference, relative, rtol, atol))
            wrong, total = int((~close).sum()), a.numel()
            # The difference of matching elements counts as 0, even for infinities.
            absolute = (a - e).abs().masked_fill(close, 0)
            furthest = (_largest(absolute), _largest((absolute / e.abs()).masked_fill(close, 0)))
        lines = [f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})"]
        self._fail(AssertionError, differ("Tensor-likes", lines, "greatest ", *furthest, rtol, atol))

    def extra_repr(self) -> Sequence[str]:
        """The tolerances and the options."""
        return ("rtol", "atol", "equal_nan", "check_device", "check_dtype", "check_layout", "check_stride")


def originate_pairs(
    actual: Any,
    expected: Any,
    *,
    pair_types: Sequence[type[Pair]],
    sequence_types: tuple[type, ...] = (Sequence,),
    mapping_types: tuple[type, ...] = (Mapping,),
    id: _Id = (),
    **options: Any,
) -> list[Pair]:
    """The pairs of two values: one, or those of the items of containers.

    Args:
        actual: the actual value.
        expected: the expected one.
        pair_types: the classes of pairs to try in this order.
        sequence_types: classes of containers whose items are compared by their place.
        mapping_types: classes of containers whose items are compared by their key.
        id: the keys that lead to the values.
        options: of the pairs.

    Raises:
        ErrorMeta: containers have other keys or lengths, or no class takes two values.
    """

    def below(key: Any, a: Any, e: Any) -> list[Pair]:
        return originate_pairs(
            a,
            e,
            pair_types=pair_types,
            sequence_types=sequence_types,
            mapping_types=mapping_types,
            id=(*id, key),
            **options,
        )

    def are(kinds: tuple[type, ...]) -> bool:
        return isinstance(actual, kinds) and isinstance(expected, kinds)

    if are(sequence_types) and not isinstance(actual, str) and not isinstance(expected, str):
        if len(actual) != len(expected):
            text = f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
            raise ErrorMeta(AssertionError, text, id=id)
        return [pair for i in range(len(actual)) for pair in below(i, actual[i], expected[i])]
    if are(mapping_types):
        first: Any = actual
        second: Any = expected
        keys = list(first.keys())
        mine, theirs = set(keys), set(second.keys())
        if mine != theirs:
            raise ErrorMeta(
                AssertionError,
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(theirs - mine)}\n"
                f"Additional keys in the actual mapping: {sorted(mine - theirs)}",
                id=id,
            )
        return [pair for key in keys for pair in below(key, actual[key], expected[key])]
    for kind in pair_types:
        try:
            return [kind(actual, expected, id=id, **options)]
        except UnsupportedInputs:
            continue
    kinds = f"{type(actual)} and {type(expected)}"
    raise ErrorMeta(TypeError, f"No comparison pair was able to handle inputs of type {kinds}.", id=id)


def not_close_error_metas(
    actual: Any,
    expected: Any,
    *,
    pair_types: Sequence[type[Pair]] = (ObjectPair,),
    sequence_types: tuple[type, ...] = (Sequence,),
    mapping_types: tuple[type, ...] = (Mapping,),
    **options: Any,
) -> list[ErrorMeta]:
    """What is wrong with the pairs of two values; nothing if they are close.

    Args:
        actual: the actual value.
        expected: the expected one.
        pair_types: see `originate_pairs`, as for the other arguments.
        sequence_types: see there.
        mapping_types: see there.
        options: of the pairs.

    >>> from rgrad.testing._comparison import not_close_error_metas
    >>> [meta.msg for meta in not_close_error_metas([1, 2], [1, 3])]
    ['2 != 3']
    """
    try:
        pairs = originate_pairs(
            actual,
            expected,
            pair_types=pair_types,
            sequence_types=sequence_types,
            mapping_types=mapping_types,
            **options,
        )
    except ErrorMeta as meta:
        raise meta.to_error() from None
    metas = []
    for pair in pairs:
        try:
            pair.compare()
        except ErrorMeta as meta:
            metas.append(meta)
    return metas


def _unwrap_dtensor_for_comparison(actual: Any, expected: Any) -> tuple[Any, Any]:
    """The values themselves: no tensor is spread over several processes."""
    return actual, expected
