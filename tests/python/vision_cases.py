"""Calls of torchvision's names with the results that torchvision gives.

Where PyTorch and torchvision are installed, `python vision_cases.py utils` writes `vision_reference/utils.json`. The
tests make the same calls of rgrad and compare with that file.
"""

import hashlib
import importlib
import json
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "vision_reference"
SAMPLES = 24


class Whole(dict):
    """A result that is recorded as it is."""


def flattened(value):
    """The tensors and numbers of a result, in order."""
    if isinstance(value, Whole):
        return [value]
    if isinstance(value, dict):
        return [part for key in value for part in flattened(value[key])]
    if isinstance(value, (list, tuple)):
        return [part for item in value for part in flattened(item)]
    return [value]


def summary(value):
    """A result as JSON holds it: whole if it is small, or else a digest of integers and a few of the floats."""
    if isinstance(value, Whole):
        return dict(value)
    if type(value).__module__.startswith("PIL."):
        array = np.asarray(value)
        return {"mode": value.mode, **summary(array)}
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        about = {"shape": list(value.shape), "dtype": str(value.dtype)}
        if value.dtype.kind in "uib":
            if value.size <= SAMPLES:
                return {**about, "values": value.ravel().tolist()}
            return {**about, "sha256": hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}
        step = max(1, value.size // SAMPLES)
        real = value.astype(np.float64).ravel()
        few = [float(f"{x:.7g}") for x in real[::step]]
        return {**about, "mean": float(f"{np.abs(real).mean():.7g}") if real.size else 0.0, "values": few}
    return value


def outcome(call):
    """What a call returns or raises, as JSON holds it."""
    try:
        return [summary(part) for part in flattened(call())]
    except Exception as error:  # noqa: BLE001 - the kind of the error is the outcome
        return {"error": type(error).__name__}


def recorded(area):
    """The results of an area's calls that torchvision gave."""
    return json.loads((FOLDER / f"{area}.json").read_text())


def equal(ours, theirs, tolerance):
    """Whether two outcomes agree, floats within a tolerance."""
    if isinstance(ours, dict) and "values" in ours and isinstance(theirs, dict) and "values" in theirs:
        same = all(ours[key] == theirs[key] for key in ("shape", "dtype"))
        mean = abs(ours.get("mean", 0) - theirs.get("mean", 0)) <= tolerance * max(1, abs(theirs.get("mean", 0)))
        return same and mean and np.allclose(ours["values"], theirs["values"], tolerance, tolerance, equal_nan=True)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(equal(a, b, tolerance) for a, b in zip(ours, theirs, strict=True))
    if isinstance(ours, float) and isinstance(theirs, float):
        return abs(ours - theirs) <= tolerance * max(1, abs(theirs))
    return ours == theirs


def main():
    import torch
    import torchvision

    FOLDER.mkdir(exist_ok=True)
    for area in sys.argv[1:]:
        cases = importlib.import_module(f"vision_cases_{area}").cases(torch, torchvision)
        text = json.dumps({name: outcome(call) for name, call in cases.items()}, indent=None, separators=(",", ":"))
        (FOLDER / f"{area}.json").write_text(text.replace('],"', '],\n"').replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    # The cases import this module by its name.
    importlib.import_module("vision_cases").main()
