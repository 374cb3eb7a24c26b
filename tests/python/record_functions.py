"""Writes functions.json: what PyTorch gives for the calls of function_cases.py. To be run where PyTorch is installed.

python tests/python/record_functions.py
"""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import function_cases as cases
import torch


def number(value: float) -> Any:
    """JSON has no infinities and no NaN."""
    return value if math.isfinite(value) else repr(value)


def plain(value: Any) -> Any:
    """A result as JSON."""
    if isinstance(value, torch.Tensor):
        values = [number(v) for v in value.detach().flatten().tolist()]
        return {"dtype": str(value.dtype), "shape": list(value.shape), "values": values}
    return [plain(v) for v in value] if isinstance(value, (tuple, list)) else value


def record(compute: Any) -> Any:
    """The result of a call, or the class of its error."""
    try:
        return plain(compute())
    except Exception as error:
        return {"error": next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")}


def main() -> None:
    warnings.simplefilter("ignore")
    calls = [call for table in cases.CALLS for call in cases.lines(table)]
    found = {call: record(lambda call=call: eval(call, cases.names(torch))) for call in calls}
    slopes = {case: record(lambda case=case: cases.gradients(torch, case)) for case in cases.lines(cases.GRADIENTS)}
    for case, value in slopes.items():
        if "error" in value:
            raise SystemExit(f"{case}: {value}")
    path = Path(__file__).with_name("functions.json")
    rows = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in {**found, **slopes}.items()]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    errors = [call for call, value in found.items() if isinstance(value, dict) and "error" in value]
    print(len(rows), "calls, errors:", *errors, sep="\n  ")


if __name__ == "__main__":
    main()
