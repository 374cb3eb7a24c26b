"""Print options."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from rgrad import _C


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets the print options; profiles are "default", "short" and "full"."""
    options = get_printoptions()
    profiles = {
        "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
        "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
        "full": {"precision": 4, "threshold": float("inf"), "edgeitems": 3, "linewidth": 80},
    }
    options.update(profiles.get(profile or "", {}))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options.update({k: v for k, v in given.items() if v is not None})
    options["sci_mode"] = sci_mode
    _C._set_printoptions(**options)


def get_printoptions() -> dict[str, Any]:
    """The current print options."""
    names = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
    return dict(zip(names, _C._get_printoptions(), strict=True))


@contextlib.contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Sets print options, by the names that `set_printoptions` has, until the context ends."""
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        _C._set_printoptions(**before)


class _PrintOptions:
    """The current print options as attributes, which can be read and set."""

    def __getattr__(self, name: str) -> Any:
        options = get_printoptions()
        if name not in options:
            raise AttributeError(f"there is no print option {name!r}")
        return options[name]

    def __setattr__(self, name: str, value: Any) -> None:
        options = get_printoptions()
        if name not in options:
            raise AttributeError(f"there is no print option {name!r}")
        _C._set_printoptions(**{**options, name: value})


PRINT_OPTS = _PrintOptions()
_PREFIX = "tensor("


def _tensor_str(self: _C.Tensor, indent: int) -> str:
    """The values of a tensor as its repr shows them, without what stands around.

    Args:
        self: the tensor.
        indent: by how many spaces lines after the first are indented. They are broken as those of the repr.
    """
    text = repr(self.detach())[len(_PREFIX) : -1]
    end = text.rfind("]") + 1 if self.dim() else len(text.partition(",")[0])
    return text[:end].replace("\n" + " " * len(_PREFIX), "\n" + " " * indent)
