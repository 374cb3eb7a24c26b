"""Arguments that modules pass on to functions that create tensors."""

from __future__ import annotations

from typing import Any


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The keyword arguments of a module that are for functions like `rgrad.empty`.

    Args:
        kwargs: `device`, `dtype`, `memory_format`, and `factory_kwargs`, a dict of the same where the module has an
            argument of that name; None for none.

    Raises:
        TypeError: there are others, or one is given in both ways.

    >>> rgrad.nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": rgrad.float64}})
    {'dtype': torch.float64, 'device': 'cpu'}
    """
    if kwargs is None:
        return {}
    simple = ("device", "dtype", "memory_format")
    unknown = kwargs.keys() - {*simple, "factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    chosen = dict(kwargs.get("factory_kwargs", {}))
    for name in simple:
        if name in kwargs:
            if name in chosen:
                raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
            chosen[name] = kwargs[name]
    return chosen
