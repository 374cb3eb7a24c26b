"""Runs the programs of this folder, each in a process of its own, with rgrad in the place of PyTorch.

    python tests/packages/run.py [NAME …]            # compares with results.json
    PEER_PYTHON tests/packages/run.py --record [NAME …]  # with PyTorch itself: writes results.json

Every program is a module with a function `main` that returns names and numbers; to be equal they may differ by 1e-3 of
the greatest magnitude in a list. It sets all weights itself, so that both start from the same.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
TOLERANCE = 1e-3


def numbers(value: Any) -> list[float]:
    """The numbers of a result; a text and a truth value are compared as they are."""
    if isinstance(value, list):
        return [x for item in value for x in numbers(item)]
    return [float(value)] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


def differs(found: Any, wanted: Any) -> str | None:
    """What is wrong with a result, if anything is."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        if found.keys() != wanted.keys():
            return f"has {sorted(found)}, not {sorted(wanted)}"
        wrong = ((key, differs(found[key], wanted[key])) for key in found)
        return next((f"{key}: {problem}" for key, problem in wrong if problem), None)
    a, b = numbers(found), numbers(wanted)
    if not b or len(a) != len(b):
        return None if found == wanted else f"{found} is not {wanted}"
    scale = max(1e-6, *(abs(x) for x in b))
    worst = max(abs(x - y) for x, y in zip(a, b, strict=True))
    return None if worst <= TOLERANCE * scale else f"differs by {worst:.3g} of {scale:.3g}"


def rounded(value: Any) -> Any:
    """A result with six digits of each number, which is more than is compared."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def written(known: dict[str, Any]) -> str:
    """The recorded results as JSON, a line for each name of a program's result."""
    programs = []
    for program, found in sorted(known.items()):
        lines = [f"{json.dumps(name)}: {json.dumps(rounded(value))}" for name, value in sorted(found.items())]
        programs.append(f"{json.dumps(program)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(programs) + "\n}\n"


def result(name: str) -> Any:
    """What a program returns, as JSON knows it."""
    sys.path.insert(0, str(HERE))
    return json.loads(json.dumps(importlib.import_module(name).main()))


def main(arguments: list[str]) -> int:
    """Runs the programs; 1 if one fails."""
    if arguments[:1] == ["--one"]:
        name, path = arguments[1:]
        Path(path).write_text(json.dumps(result(name)))
        return 0
    recording = arguments[:1] == ["--record"]
    names = arguments[recording:] or sorted(p.stem for p in HERE.glob("[a-z]*.py") if p.stem != "run")
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    failed = 0
    folder = Path(tempfile.mkdtemp())
    for name in names:
        path = folder / f"{name}.json"
        prefix = [] if recording else ["-m", "rgrad"]
        command = [sys.executable, *prefix, str(HERE / "run.py"), "--one", name, str(path)]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment)
        found = json.loads(path.read_text()) if path.exists() else None
        if done.returncode != 0 or found is None:
            problem: str | None = (done.stderr.strip().splitlines() or ["no output"])[-1]
        elif recording:
            known[name], problem = found, None
        else:
            problem = differs(found, known[name]) if name in known else "has no recorded result"
        failed += problem is not None
        print(f"{name:<28}{problem or ('recorded' if recording else 'as PyTorch')}", flush=True)
    shutil.rmtree(folder)
    if recording:
        RESULTS.write_text(written(known))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
