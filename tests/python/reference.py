"""Values that PyTorch computes, for tests that compare with them.

A file of cases has functions that are given the package under its own name, PyTorch or this one, and that return
tensors, numbers, strings, or lists of them. Run by a Python that has PyTorch, the file writes what they return to a
JSON file beside it:

    python tests/python/reference_nn.py

Random numbers differ between the two, so cases make their data by `wave`.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

Case = Callable[[Any], Any]


def wave(torch: Any, *shape: int, phase: float = 0.0, dtype: str = "float64") -> Any:
    """A tensor of numbers in (-1, 1) without a pattern that an error in an index would keep."""
    numel = math.prod(shape)
    values = [math.sin(phase + 1.7 * i + 0.31 * i * i) for i in range(numel)]
    return torch.tensor(values, dtype=getattr(torch, dtype)).reshape(shape)


def filled(torch: Any, module: Any) -> Any:
    """The module in double precision with parameters that do not depend on random numbers."""
    module = module.double()
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(wave(torch, *parameter.shape, phase=number + 0.5))
    return module


def plain(value: Any) -> Any:
    """Tensors as nested lists of numbers."""
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return float(f"{value:.11g}") if isinstance(value, float) else value


def write(cases: dict[str, Case], path: str) -> None:
    """Writes the values of all cases, computed by PyTorch, to the JSON file beside the cases' file."""
    torch = importlib.import_module("torch")
    values = {name: plain(case(torch)) for name, case in cases.items()}
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in values.items())
    Path(path).with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(path: str | None) -> dict[str, Any]:
    """The values of PyTorch."""
    return json.loads(Path(path or "").with_suffix(".json").read_text())


def check(mine: Any, theirs: Any, tolerance: float = 1e-9, where: str = "") -> None:
    """Asserts that values are equal, floating point numbers up to a tolerance."""
    mine = plain(mine)
    if isinstance(theirs, list):
        assert isinstance(mine, list) and len(mine) == len(theirs), f"{where}: {mine} and {theirs}"
        for place, pair in enumerate(zip(mine, theirs, strict=True)):
            check(*pair, tolerance, f"{where}[{place}]")
    elif isinstance(theirs, float) and math.isfinite(theirs):
        assert abs(mine - theirs) <= tolerance * max(1.0, abs(theirs)), f"{where}: {mine} and {theirs}"
    else:
        assert mine == theirs or (mine != mine and theirs != theirs), f"{where}: {mine} and {theirs}"
