"""Options of PyTorch's compiler. Programs may set any; they are kept, and have no effect."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

cpp_wrapper = False
fallback_random = False
coordinate_descent_tuning = False
max_autotune = False
triton = types.SimpleNamespace(cudagraphs=False, unique_kernel_names=False)


@contextlib.contextmanager
def patch(changes: str | dict[str, Any] | None = None, value: Any = None, **more: Any) -> Iterator[None]:
    """Other options, in a `with` block or in the function that this decorates.

    Args:
        changes: the options by name, or the name of one; points lead to parts of options.
        value: that of the one option.
        more: options by name.

    Raises:
        AttributeError: there is no option of a name.
    """
    wanted = {changes: value} if isinstance(changes, str) else dict(changes or {})
    before = {}
    try:
        for name, new in {**wanted, **more}.items():
            options, last = _place(name)
            before[name] = options[last]
            options[last] = new
        yield
    finally:
        for name, old in before.items():
            options, last = _place(name)
            options[last] = old


def _place(name: str) -> tuple[dict[str, Any], str]:
    """The dictionary that has an option, and its key in it."""
    options: dict[str, Any] = globals()
    *path, last = name.split(".")
    for part in path:
        options = vars(options[part]) if part in options else {}
    if last not in options:
        raise AttributeError(f"torch._inductor.config.{name} does not exist")
    return options, last
