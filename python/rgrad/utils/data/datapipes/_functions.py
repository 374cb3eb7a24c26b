"""Functions of samples, and of some of their entries."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def check_function(function: Callable[..., Any], columns: Any) -> None:
    """Raises for a function that can't be called with one argument for each column, or with one if there are none.

    Args:
        function: it may have further arguments with defaults.
        columns: None, an index or a key, or a list of them.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    count = len(columns) if isinstance(columns, (list, tuple)) else 1
    name = getattr(function, "__name__", repr(function))
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        raise ValueError(f"The function {name} takes keyword-only parameters, which are not given.")
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in positional if p.default is p.empty]
    if len(needed) > count:
        raise ValueError(f"The function {name} takes {len(needed)} positional parameters, but {count} are required.")
    if len(positional) < count and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise ValueError(f"The function {name} takes {len(positional)} parameters, but {count} are required.")


def call(function: Callable[..., Any], sample: Any, columns: Any) -> Any:
    """The value of a function of a sample, or of some of its entries."""
    if columns is None:
        return function(sample)
    if isinstance(columns, (list, tuple)):
        return function(*(sample[column] for column in columns))
    return function(sample[columns])


def replaced(sample: Any, value: Any, columns: Any, target: Any) -> Any:
    """A sample with a value in the place of what it was computed from, or in another.

    Args:
        sample: a sequence or a dict, which is changed, or a tuple.
        value: the value.
        columns: where the arguments were: the value replaces the first, and the others are left out.
        target: where the value goes instead; -1 appends it.
    """
    entries = list(sample) if isinstance(sample, tuple) else sample
    if target == -1:
        entries.append(value)
    elif target is not None:
        entries[target] = value
    elif isinstance(columns, (list, tuple)):
        entries[columns[0]] = value
        others = columns[1:] if isinstance(entries, dict) else sorted(columns[1:], reverse=True)
        for column in others:
            del entries[column]
    else:
        entries[columns] = value
    return tuple(entries) if isinstance(sample, tuple) else entries
