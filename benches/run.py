"""Times rgrad against PyTorch side by side and keeps the result in benches/record/.

    python benches/run.py [--avx2] [arguments of the driver]

The driver (`peers.py`) and its workloads lie beside the project or where WORKLOADS says; PEER_PYTHON names an
interpreter that has PyTorch. --avx2 limits both packages to that instruction set, for a record of its own. Also
measures what the driver does not: import, a long chain, memory over many training steps.
"""

from __future__ import annotations

import datetime
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from limits import AVX2, processor

ROOT = Path(__file__).resolve().parent.parent
DRIVER = Path(os.environ.get("WORKLOADS", ROOT.parent / "shared" / "bench")) / "peers.py"
RECORD = ROOT / "benches" / "record"


def import_cost() -> dict[str, float]:
    """Milliseconds that the import adds to bare Python, resident megabytes, and whether NumPy came along."""
    # An installed package has its bytecode: pip writes it.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def wall(code: str) -> float:
        best = 1e9
        for _ in range(7):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, env=env)
            best = min(best, time.perf_counter() - start)
        return best * 1e3

    probe = (
        "import rgrad,resource,sys;"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 'numpy' in sys.modules)"
    )
    rss, numpy = subprocess.run(
        [sys.executable, "-c", probe], check=True, capture_output=True, text=True
    ).stdout.split()
    return {
        "import_ms": wall("import rgrad") - wall("pass"),
        "resident_mb": int(rss) / 1024,
        "imports_numpy": float(numpy == "True"),
    }


def long_chain(n: int = 1_000_000) -> dict[str, float]:
    """Seconds and bytes a node for a chain of additions: build, backward, drop."""
    import rgrad

    x = rgrad.ones(1, requires_grad=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    y = x
    for _ in range(n):
        y = y + 1.0
    bytes_per_node = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / n
    y.sum().backward()
    del y
    return {"chain_s": time.perf_counter() - start, "bytes_per_node": bytes_per_node}


def lenet_memory(steps: int = 2000) -> dict[str, float]:
    """Resident megabytes after 50 steps and after all of them."""
    import rgrad as torch
    from rgrad import nn

    net = nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)
    x, y = torch.randn(64, 1, 32, 32), torch.randint(0, 10, (64,))

    def resident() -> float:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 2**20

    early = 0.0
    for step in range(steps):
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 49:
            early = resident()
    return {"resident_after_50_mb": early, "resident_after_all_mb": resident()}


def main() -> int:
    RECORD.mkdir(exist_ok=True)
    forced = "--avx2" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--avx2"]
    if forced:
        os.environ.update(AVX2)
    result: dict[str, object] = {
        "date": datetime.date.today().isoformat(), "machine": processor(forced)[0],
    }  # fmt: skip
    for measure in (import_cost, long_chain, lenet_memory):
        got = measure()
        result.update(got)
        print("  ".join(f"{k} {v:.2f}" for k, v in got.items()), flush=True)
    peer = os.environ.get("PEER_PYTHON")
    if peer and DRIVER.exists():
        table = RECORD / "peers.json"
        command = [sys.executable, str(DRIVER), "--peer-python", peer, "--json", str(table), *arguments]
        subprocess.run(command, check=False, env=os.environ)
        result["workloads"] = json.loads(table.read_text())
        table.unlink()
    else:
        print("PEER_PYTHON is not set or the driver is absent: nothing to compare with")
    (RECORD / ("latest-avx2.json" if forced else "latest.json")).write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
