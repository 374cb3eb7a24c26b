"""How close values of a dtype have to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rgrad
from rgrad._C import Tensor

# (rtol, atol) by dtype; integers and bools must be equal.
_TOLERANCE = {
    rgrad.float16: (1e-3, 1e-5),
    rgrad.bfloat16: (1.6e-2, 1e-5),
    rgrad.float32: (1.3e-6, 1e-5),
    rgrad.float64: (1e-7, 1e-7),
}


def default_tolerances(
    *inputs: Tensor | rgrad.dtype, dtype_precisions: Mapping[rgrad.dtype, tuple[float, float]] | None = None
) -> tuple[float, float]:
    """The tolerances of `assert_close` for inputs: the widest of those of their dtypes.

    Args:
        inputs: tensors or dtypes.
        dtype_precisions: the relative and the absolute tolerance of dtypes; those without are compared exactly.

    Returns:
        The relative and the absolute tolerance.

    Raises:
        TypeError: an input is neither a tensor nor a dtype.

    >>> rgrad.testing._comparison.default_tolerances(rgrad.float16, rgrad.ones(2))
    (0.001, 1e-05)
    """
    known = _TOLERANCE if dtype_precisions is None else dtype_precisions
    pairs = []
    for value in inputs:
        # Of dtypes that only have a name nothing is compared.
        if not isinstance(value, (Tensor, rgrad.dtype)) and not hasattr(value, "is_complex"):
            raise TypeError(f"Expected a torch.Tensor or a torch.dtype, but got {type(value)} instead.")
        pairs.append(known.get(value.dtype if isinstance(value, Tensor) else value, (0.0, 0.0)))
    return max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)


def get_tolerances(
    *inputs: Tensor | rgrad.dtype, rtol: float | None, atol: float | None, id: tuple[Any, ...] = ()
) -> tuple[float, float]:
    """The given tolerances, or the default ones of the inputs if both are None.

    Args:
        inputs: tensors or dtypes.
        rtol: relative tolerance.
        atol: absolute tolerance.
        id: the keys that lead to the inputs in containers, for the error.

    Returns:
        The relative and the absolute tolerance.

    Raises:
        ValueError: only one of them is given.

    >>> rgrad.testing._comparison.get_tolerances(rgrad.float32, rtol=0.1, atol=0)
    (0.1, 0)
    """
    if rtol is None and atol is None:
        return default_tolerances(*inputs)
    if rtol is None or atol is None:
        missing, where = "atol" if atol is None else "rtol", "".join(f"[{key!r}]" for key in id)
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}"
            + (f" for item {where}." if where else ".")
        )
    return rtol, atol
