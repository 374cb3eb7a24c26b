"""The doctor compares every operation on a GPU with the CPU and measures how fast the GPU is.

`rgrad.doctor()` and the command `python -m rgrad.doctor` do the same. `samples` contains the calls to compare,
`recipes` the arguments of those that need specific ones, `parity` the comparison; the GPU tests use them too.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import rgrad
from rgrad import _C, gpu
from rgrad.gpu._devices import index_of
from rgrad.random import fork_rng

from . import parity, samples

__all__ = ["doctor", "main"]

# Dtypes that a driver may support incorrectly, each with one that every driver supports and that runs the same
# kernels.
_OPTIONAL = {"int64": "int32", "float64": "float32"}
# The share of wrong operations, among those correct in the other dtype, from which on the driver is considered
# faulty.
_TOO_MANY_WRONG = 0.1


def doctor(
    device: Any = None,
    *,
    ops: Iterable[str] | None = None,
    dtypes: Iterable[str] | None = None,
    report: str | Path | None = "rgrad-doctor.json",
    record: bool = True,
    quiet: bool = False,
) -> dict[str, Any]:
    """Runs the operations of the table on a GPU and on the CPU, forward and backward, compares, and measures speed.

    Prints a table (operation by dtype: exact, error in units in the last place, wrong, unsupported) and writes it as
    JSON, which a bug report should include.

    Args:
        device: The GPU, by default the current one.
        ops: Names of operations, by default all.
        dtypes: Names of dtypes, by default all.
        report: The path of the JSON file; None to write none.
        record: Whether to record which driver features gave wrong results; from the next process on the GPU is opened
            without them. Nothing is recorded unless all operations and dtypes were run.
        quiet: Whether to print nothing.

    Returns:
        The content of the JSON: `adapter`, `speed`, `operations` (by name and dtype), `counts`, `avoid`.

    Example:
        >>> import rgrad as torch
        >>> if torch.gpu.is_available():
        ...     found = torch.doctor(ops=["add"], dtypes=["float32"], report=None, quiet=True)
        ...     assert found["operations"]["add"]["float32"]["verdict"] == "exact"
    """
    if not gpu.is_available():
        raise RuntimeError("No GPU is available: no Vulkan, Metal or DX12 driver offers an adapter.")
    index = index_of(device)
    say: Callable[[str], None] = (lambda _: None) if quiet else print
    adapter = gpu.get_device_properties(index)
    say(f"gpu:{index}  {adapter['name']}  ({adapter['backend']}, {adapter['driver']} {adapter['driver_info']})")
    names, kinds = (None if ops is None else set(ops)), list(samples.DTYPES if dtypes is None else dtypes)
    with fork_rng():
        operations = _operations(f"gpu:{index}", names, kinds, say)
    counts = Counter(cell["kind"] for row in operations.values() for cell in row.values())
    found = {
        "rgrad": rgrad.__version__,
        "platform": platform.platform(),
        "python": platform.python_version(),
        "adapter": adapter,
        "speed": _speed(f"gpu:{index}"),
        "operations": operations,
        "counts": dict(counts),
        "avoid": _faulty(operations),
    }
    for name, value in found["speed"].items():
        say(f"{name:<32}{value:>10.2f}")
    say(", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
    if record and ops is None and dtypes is None:
        _C._gpu_avoid(index, sorted({*found["avoid"], *adapter["avoided"]}))
    if found["avoid"]:
        say(f"wrong on this driver, to be avoided: {', '.join(found['avoid'])}")
    if report is not None:
        Path(report).write_text(json.dumps(found, indent=1))
        say(f"written to {report}")
    return found


def _operations(device: str, names: set[str] | None, dtypes: list[str], say: Callable[[str], None]) -> dict[str, Any]:
    """Verdicts by name of operation and dtype."""
    say(f"{'operation':<32}" + "".join(f"{d:>15}" for d in dtypes))
    table: dict[str, Any] = {}
    for op in _C._op_table():
        calls = list(samples.samples(op)) if names is None or op["name"] in names else []
        if not calls:
            continue
        row = {}
        for dtype in dtypes:
            verdict = parity.worst(parity.check(sample, dtype, device) for sample in calls)
            ulps = verdict.ulps if math.isfinite(verdict.ulps) else None
            row[dtype] = {"verdict": str(verdict), "kind": verdict.kind, "ulps": ulps, "why": verdict.why}
        table[calls[0].name] = row
        say(f"{calls[0].name:<32}" + "".join(f"{row[d]['verdict']:>15}" for d in dtypes))
    return table


def _faulty(operations: dict[str, Any]) -> list[str]:
    """The optional dtypes that are wrong too often for operations that are correct in the 32-bit dtype."""
    faulty = []
    for dtype, other in _OPTIONAL.items():
        pairs = [(row[dtype]["kind"], row[other]["kind"]) for row in operations.values() if {dtype, other} <= set(row)]
        comparable = [kind for kind, sure in pairs if sure == "agrees" and kind in ("agrees", "wrong")]
        if comparable and comparable.count("wrong") > _TOO_MANY_WRONG * len(comparable):
            faulty.append(dtype)
    return faulty


def _best_time(device: str, work: Callable[[], Any], repeats: int = 5) -> float:
    """The shortest time in seconds, including the device's work."""
    times = []
    for _ in range(repeats):
        _C._synchronize(device)
        start = time.perf_counter()
        work()
        _C._synchronize(device)
        times.append(time.perf_counter() - start)
    return min(times)


def _speed(device: str) -> dict[str, float]:
    """Bandwidth of a copy (bytes read and written), speed of matrix products, overhead of a launch."""
    n, launches = 512, 1000
    large = rgrad.ones(1 << 22, device=device)
    target = rgrad.empty_like(large)
    matrix, small = rgrad.ones(n, n, device=device), rgrad.ones(4, 4, device=device)

    def launch() -> None:
        for _ in range(launches):
            small.neg_()

    return {
        "copy, GB/s": 2 * large.nbytes / _best_time(device, lambda: target.copy_(large)) / 1e9,
        f"matmul {n} float32, GFLOP/s": 2 * n**3 / _best_time(device, lambda: matrix @ matrix) / 1e9,
        "launch on 4 × 4, µs": _best_time(device, launch, 3) / launches * 1e6,
        "round trip of .item(), µs": _best_time(device, lambda: small[0, 0].item()) * 1e6,
    }


def main(arguments: list[str] | None = None) -> int:
    """The command `python -m rgrad.doctor`; its exit status is 1 if any result was wrong.

    Args:
        arguments: By default those of the command line.
    """
    parser = argparse.ArgumentParser(prog="python -m rgrad.doctor", description=__doc__)
    parser.add_argument("--device", default=None, help="the GPU, such as gpu:1")
    parser.add_argument("--ops", default=None, help="operations by name, with commas between")
    parser.add_argument("--dtypes", default=None, help="dtypes by name, with commas between")
    parser.add_argument("--report", default="rgrad-doctor.json", help="where the JSON goes")
    parser.add_argument("--no-record", action="store_true", help="note down no faulty features")
    given = parser.parse_args(arguments)

    def names(text: str | None) -> list[str] | None:
        return None if text is None else text.split(",")

    try:
        found = doctor(
            given.device,
            ops=names(given.ops),
            dtypes=names(given.dtypes),
            report=given.report,
            record=not given.no_record,
        )
    except RuntimeError as e:
        print(e, file=sys.stderr)
        return 2
    return 1 if found["counts"].get("wrong") else 0


class _CallableModule(ModuleType):
    """Makes the module callable: importing a submodule binds the name `rgrad.doctor` to the package, not the
    function.
    """

    __call__ = staticmethod(doctor)


sys.modules[__name__].__class__ = _CallableModule
