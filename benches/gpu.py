"""Measures what the GPU backend promises, prints it beside the bounds, and keeps it in benches/record/gpu.json.

    python benches/gpu.py [--quick]

Counts are exact. Times are the best of several and are compared within one run. A software adapter computes on the
processor, which others may use at the same time; what it takes is therefore the processor's time shared by the threads
that worked, which is what a clock would have shown on a machine of its own: all threads of the adapter share a kernel,
one alone copies a buffer.
"""

from __future__ import annotations

import datetime
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import rgrad as torch
from rgrad import nn

RECORD = Path(__file__).resolve().parent / "record" / "gpu.json"
DEVICE = "gpu"


@dataclass
class Row:
    """A line of the table; `bound` is what `value` must reach, or must not exceed where `most` is set."""

    what: str
    value: float
    unit: str
    bound: float | None = None
    most: bool = False

    @property
    def holds(self) -> bool | None:
        if self.bound is None:
            return None
        return self.value <= self.bound if self.most else self.value >= self.bound


def busy() -> dict[Path, int]:
    """Nanoseconds of processor time of each thread so far."""
    used: dict[Path, int] = {}
    for thread in Path("/proc/self/task").iterdir():
        try:
            used[thread] = int((thread / "schedstat").read_text().split()[0])
        except FileNotFoundError:
            continue  # it has ended
    return used


def best(run: Callable[[], object], repeats: int, software: bool) -> tuple[float, float]:
    """The least seconds of a run: by the clock, and on software as if its threads had had a core each."""
    run()
    torch.gpu.synchronize()
    wall = took = float("inf")
    for _ in range(repeats):
        before = busy() if software else {}
        start = time.perf_counter()
        run()
        torch.gpu.synchronize()
        wall = min(wall, time.perf_counter() - start)
        if software:
            used = [ns - before.get(thread, 0) for thread, ns in busy().items()]
            workers = sum(4 * ns >= max(used) for ns in used)
            took = min(took, sum(used) / workers / 1e9)
    return wall, took if software else wall


def steady_step() -> list[Row]:
    """What a step of the quickstart network makes and submits once everything has been made."""
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    ).to(DEVICE)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    x, y = torch.randn(64, 1, 28, 28).to(DEVICE), torch.randint(0, 10, (64,)).to(DEVICE)

    def step() -> torch.Tensor:
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for _ in range(20):
        loss = step()
    loss.item()
    before, steps = torch.gpu.stats(), 100
    for _ in range(steps):
        loss = step()
    loss.item()
    after = torch.gpu.stats()
    made = {k: after[k] - before[k] for k in before}
    rows = [
        Row(f"new {k.replace('_', ' ')} in {steps} steady steps", made[k], "", 0, most=True)
        for k in ("buffers", "bind_groups", "pipelines")
    ]
    rows.append(Row("submissions a step, one read aside", (made["submissions"] - 1) / steps, "", 1, most=True))
    rows.append(Row("launches a step", made["dispatches"] / steps, ""))
    return rows


def host_cost(repeats: int) -> list[Row]:
    """Microseconds of the calling thread for an operation on 4 × 4 tensors, launches of a submission included."""
    a, b = torch.randn(4, 4).to(DEVICE), torch.randn(4, 4).to(DEVICE)
    count = 1000

    def cost(run: Callable[[], object]) -> float:
        least = float("inf")
        for _ in range(repeats):
            torch.gpu.synchronize()
            start = time.thread_time()
            for _ in range(count):
                run()
            least = min(least, (time.thread_time() - start) / count)
        return least * 1e6

    return [
        Row("host cost, in place", cost(lambda: a.mul_(b)), "µs", 4, most=True),
        Row("host cost, new output", cost(lambda: torch.add(a, b)), "µs", 8, most=True),
    ]


def bandwidth(repeats: int, mib: int, software: bool) -> list[Row]:
    """Bytes a second of an addition and of a broadcast row, as parts of what a copy moves."""
    n = mib << 18
    x, y, out = (torch.randn(n).to(DEVICE) for _ in range(3))
    row, wide, wide_out = torch.randn(4096).to(DEVICE), x.view(-1, 4096), out.view(-1, 4096)
    size = 4 * n
    copy = best(lambda: out.copy_(x), repeats, software)
    plain = best(lambda: torch.add(x, y), repeats, software)
    broadcast = best(lambda: torch.add(wide, row), repeats, software)
    in_place = best(lambda: wide_out.mul_(row), repeats, software)
    rows = [Row(f"copy of {mib} MiB", 2 * size / copy[1] / 1e9, "GB/s")]
    for what, moved, took, bound in (
        ("addition", 3 * size, plain, 0.8),
        ("broadcast of a row", 2 * size, broadcast, 0.6),
        ("row in place", 2 * size, in_place, None),
    ):
        rows.append(Row(what, moved / took[1] / 1e9, "GB/s"))
        rows.append(Row(f"{what}, by the clock", moved / took[0] / 1e9, "GB/s"))
        share = (moved / took[1]) / (2 * size / copy[1])
        rows.append(Row(f"{what}, of a copy's bandwidth", share, "", bound))
    return rows


def products(repeats: int, software: bool) -> list[Row]:
    """GFLOP/s of matrix products."""
    rows = []
    sizes = [(512, 512, 512)] if software else [(512, 512, 512), (2048, 2048, 2048), (4096, 4096, 4096)]
    for m, k, n in sizes:
        a, b = torch.randn(m, k).to(DEVICE), torch.randn(k, n).to(DEVICE)
        turned, upright = torch.randn(n, k).to(DEVICE), torch.randn(k, m).to(DEVICE)
        for what, run in (
            ("a @ b", lambda a=a, b=b: a @ b),
            ("a @ b.T", lambda a=a, b=turned: a @ b.T),
            ("a.T @ b", lambda a=upright, b=b: a.T @ b),
        ):
            wall, took = best(run, repeats, software)
            flops = 2 * m * k * n / 1e9
            first = what == "a @ b" and m == 512
            rows.append(Row(f"{what}, {m} × {k} × {n}", flops / took, "GFLOP/s", 10 if first else None))
            if software:
                rows.append(Row(f"{what}, by the clock", flops / wall, "GFLOP/s"))
    return rows


def convolutions(repeats: int, software: bool) -> list[Row]:
    """GFLOP/s of a convolution forward and of both gradients."""
    x = torch.randn(8, 16, 32, 32).to(DEVICE).requires_grad_()
    w = torch.randn(32, 16, 3, 3).to(DEVICE).requires_grad_()
    flops = 2 * 8 * 32 * 32 * 32 * 16 * 9 / 1e9
    g = torch.randn(8, 32, 32, 32).to(DEVICE)

    def forward() -> torch.Tensor:
        with torch.no_grad():
            return nn.functional.conv2d(x, w, padding=1)

    y = nn.functional.conv2d(x, w, padding=1)
    runs = (
        ("convolution", forward),
        ("its gradient of the input", lambda: torch.autograd.grad(y, x, g, retain_graph=True)),
        ("its gradient of the weight", lambda: torch.autograd.grad(y, w, g, retain_graph=True)),
    )
    return [Row(what, flops / best(run, repeats, software)[1], "GFLOP/s") for what, run in runs]


def main() -> int:
    if not torch.gpu.is_available():
        print("no GPU; RGRAD_GPU_ALLOW_CPU=1 admits software adapters")
        return 1
    quick = "--quick" in sys.argv[1:]
    adapter = torch.gpu.get_device_properties(0)
    software = "cpu" in str(adapter).lower()
    repeats = 3 if quick else 7
    rows = steady_step() + host_cost(repeats) + bandwidth(repeats, 16 if quick else 64, software)
    rows += products(repeats, software) + convolutions(repeats, software)
    for row in rows:
        bound = "" if row.bound is None else f"{'≤' if row.most else '≥'} {row.bound:g}"
        verdict = {None: "", True: "holds", False: "MISSED"}[row.holds]
        print(f"{row.what:44} {row.value:10.3f} {row.unit:12} {bound:8} {verdict}")
    if not quick:
        record = {
            "date": datetime.date.today().isoformat(),
            "adapter": str(adapter),
            "rows": [asdict(row) | {"holds": row.holds} for row in rows],
        }
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
