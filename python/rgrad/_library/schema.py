"""Schemas of operations, `name(Tensor x, SymInt n=2) -> Tensor`: read from text, or inferred from annotations."""

from __future__ import annotations

import ast
import inspect
import re
import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import rgrad
from rgrad._C import Tensor, device, dtype

_REQUIRED = object()
_HEAD = re.compile(r"\s*([\w:.]*)\s*\((.*)\)\s*->\s*(.+?)\s*$", re.DOTALL)
_PARAMETER = re.compile(r"(\w+)(\([^)]*\))?((?:\[\d*\]|\?)*)\s+(\w+)\s*(?:=\s*(.+))?$", re.DOTALL)


@dataclass(frozen=True)
class Argument:
    """A parameter; `kind` is its type without the mutation marker, such as `Tensor` or `SymInt[]?`."""

    name: str
    kind: str
    default: Any = _REQUIRED
    mutated: bool = False
    keyword_only: bool = False
    text: str = field(default="", compare=False)

    @property
    def kwarg_only(self) -> bool:
        """Whether it is keyword-only."""
        return self.keyword_only

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is _REQUIRED

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Schema:
    """The parameters of an operation and the types of its results."""

    name: str
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]
    single: bool
    text: str

    @property
    def is_mutable(self) -> bool:
        """Whether it writes to an argument."""
        return any(a.mutated for a in self.arguments)

    def __str__(self) -> str:
        return self.text

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Binds arguments; returns the values of the positional and of the keyword-only parameters.

        Raises:
            RuntimeError: an argument is missing, unknown or of another type.
        """
        positional = [a for a in self.arguments if not a.keyword_only]
        if len(args) > len(positional):
            raise RuntimeError(
                f"{self.name}() expected at most {len(positional)} argument(s) but received {len(args)} argument(s). "
                f"Declaration: {self}"
            )
        given = {a.name: value for a, value in zip(positional, args, strict=False)}
        for name, value in kwargs.items():
            if name in given or all(a.name != name for a in self.arguments):
                problem = "specified twice" if name in given else "unknown"
                raise RuntimeError(f"{self.name}(): argument '{name}' is {problem}. Declaration: {self}")
            given[name] = value
        for argument in self.arguments:
            if argument.name not in given:
                if argument.is_required:
                    raise RuntimeError(
                        f"{self.name}() is missing value for argument '{argument.name}'. Declaration: {self}"
                    )
                given[argument.name] = argument.default
            elif not _fits(argument.kind, given[argument.name]):
                raise RuntimeError(
                    f"{self.name}() Expected a value of type '{argument.kind}' for argument '{argument.name}' but "
                    f"instead found type '{type(given[argument.name]).__name__}'. Declaration: {self}"
                )
        by_name = {a.name: given[a.name] for a in self.arguments if a.keyword_only}
        return [given[a.name] for a in positional], by_name


_SCALARS: dict[str, tuple[type, ...]] = {
    "Tensor": (Tensor,),
    "int": (int,),
    "SymInt": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "Scalar": (int, float, bool),
    "ScalarType": (dtype,),
    "Device": (device, str),
}


def _fits(kind: str, value: Any) -> bool:
    if kind.endswith("?"):
        return value is None or _fits(kind[:-1], value)
    element = re.fullmatch(r"(.*)\[(\d*)\]", kind)
    if element:
        many = isinstance(value, (list, tuple))
        if element[2] and not many:
            return _fits(element[1], value)
        return many and all(_fits(element[1], x) for x in value)
    allowed = _SCALARS.get(kind)
    if allowed is None:
        return True
    if kind in ("int", "SymInt", "float") and isinstance(value, Tensor):
        return value.numel() == 1
    return isinstance(value, allowed) and not (kind in ("int", "SymInt", "float") and isinstance(value, bool))


def _split(text: str) -> list[str]:
    """Splits a list at its commas outside of brackets and quotes."""
    parts, depth, word, quote = [], 0, "", ""
    for c in text:
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        depth += (c in "([") - (c in ")]") if not quote else 0
        if c == "," and depth == 0 and not quote:
            parts.append(word.strip())
            word = ""
        else:
            word += c
    return [*parts, word.strip()] if word.strip() else parts


def _default(text: str) -> Any:
    if hasattr(rgrad, text) and isinstance(getattr(rgrad, text), dtype):
        return getattr(rgrad, text)
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def parse(text: str, name: str = "") -> Schema:
    """Parses a schema.

    Args:
        text: the schema, optionally beginning with a name.
        name: the name of the operation, `namespace::name`.

    Raises:
        RuntimeError: the text is invalid.
    """
    head = _HEAD.match(text)
    if head is None:
        raise RuntimeError(f"expected a schema like 'name(Tensor x) -> Tensor' but found {text!r}")
    arguments: list[Argument] = []
    by_name = False
    for part in _split(head[2]):
        if part == "*":
            by_name = True
            continue
        found = _PARAMETER.match(part)
        if found is None:
            raise RuntimeError(f"expected a parameter like 'Tensor x' or 'int n=1' but found {part!r} in {text!r}")
        kind, alias, marks, parameter, default = found.groups()
        value = _REQUIRED if default is None else _default(default)
        arguments.append(
            Argument(parameter, kind + marks, value, bool(alias and "!" in alias), by_name, " ".join(part.split()))
        )
    single = not head[3].startswith("(")
    results = (head[3],) if single else tuple(_split(head[3][1:-1]))
    kinds = tuple(re.sub(r"\(.*?\)", "", part).split()[0] for part in results)
    name = name or head[1]
    return Schema(name, tuple(arguments), kinds, single, f"{name}({head[2].strip()}) -> {head[3]}")


# Inference from annotations.

_BY_TYPE = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    complex: "Scalar",
    dtype: "ScalarType",
    device: "Device",
}


def _kind(annotation: Any) -> str | None:
    """The schema type for an annotation, or None if there is none."""
    if annotation in _BY_TYPE:
        return _BY_TYPE[annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [a for a in inner if a is not type(None)]
        if set(rest) in ({int, float, bool}, {int, float}):
            kind: str | None = "Scalar"
        else:
            kind = _kind(rest[0]) if len(rest) == 1 else None
        return f"{kind}?" if kind and len(rest) < len(inner) else kind
    if origin in (list, Sequence) and len(inner) == 1:
        kind = _kind(inner[0])
        return f"{kind}[]" if kind else None
    return None


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).removeprefix("torch.")


def infer(function: Any, *, mutates_args: str | Iterable[str], op_name: str | None = None) -> str:
    """Infers a schema, as text, from the annotations of a function.

    Args:
        function: a function whose parameters and result are annotated with supported types.
        mutates_args: the names of the tensors that it writes to, or "unknown" for all.
        op_name: the name at the beginning of the schema.

    Raises:
        ValueError: an annotation is missing or is not supported.
    """
    signature = inspect.signature(function)
    hints = typing.get_type_hints(function)

    def fail(what: str) -> typing.NoReturn:
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    unknown = mutates_args == "unknown"
    written = set() if unknown else {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
    strange = written - set(signature.parameters)
    if strange:
        fail(f"mutates_args names {sorted(strange)}, which are no parameters.")
    parts: list[str] = []
    aliases = 0
    for name, parameter in signature.parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            fail("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if parameter.annotation is parameter.empty:
            fail(f"Parameter {name} must have a type annotation.")
        kind = _kind(hints[name])
        if kind is None:
            fail(f"Parameter {name} has unsupported type {hints[name]}.")
        if name in written and not kind.startswith("Tensor"):
            fail(f"Parameter {name} is in mutates_args but only Tensors or collections of Tensors can be mutated.")
        if name in written or (unknown and kind.startswith("Tensor")):
            kind = kind.replace("Tensor", f"Tensor(a{aliases}!)", 1)
            aliases += 1
        text = f"{kind} {name}"
        if parameter.default is not parameter.empty:
            text += f"={_shown(parameter.default)}"
        parts.append(text)
    if signature.return_annotation is signature.empty:
        fail("No return type annotation was provided. Please add one.")
    return f"{op_name or ''}({', '.join(parts)}) -> {_result(hints.get('return'), fail)}"


def _result(annotation: Any, fail: Any) -> str:
    if annotation is None or annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        kinds = [_kind(inner) for inner in typing.get_args(annotation)]
        if all(kinds):
            return f"({', '.join(map(str, kinds))})" if len(kinds) > 1 else str(kinds[0])
    kind = _kind(annotation)
    if kind is None:
        fail(f"Return has unsupported type {annotation}.")
    return str(kind)
