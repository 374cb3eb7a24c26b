"""Writes what follows from the measurements in benches/record: a table of README.md and docs/benchmarks.md.

    python docs/figures.py           # says which are stale, exit status 1 if any is
    python docs/figures.py --write   # rewrites them
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "benches" / "record"
BLOCK = re.compile(r"(<!-- figures: written by docs/figures.py -->\n).*?(<!-- end of figures -->)", re.S)

GROUPS = {
    "overhead": "Small tensors: the cost of a call",
    "kernel": "Kernels on large tensors",
    "train": "Steps of training",
}


def of_group(record: dict[str, Any], group: str) -> list[tuple[str, dict[str, Any]]]:
    """The workloads of a group, the fastest in comparison first."""
    rows = [(name, row) for name, row in record["workloads"].items() if row["group"] == group]
    return sorted(rows, key=lambda pair: pair[1]["ratio"])


def mean(rows: list[tuple[str, dict[str, Any]]]) -> float:
    """The geometric mean of the ratios."""
    return math.exp(sum(math.log(row["ratio"]) for _, row in rows) / len(rows))


def named(rows: list[tuple[str, dict[str, Any]]]) -> str:
    """Names with ratios."""
    return ", ".join(f"{name} {row['ratio']:.2f}" for name, row in rows) or "none"


def summary(record: dict[str, Any], size: dict[str, Any], limits: dict[str, Any]) -> str:
    """The block of the README."""
    lines = [
        "| | workloads | geometric mean | fastest | slower than PyTorch |",
        "| --- | --- | --- | --- | --- |",
    ]
    groups = {title: of_group(record, group) for group, title in GROUPS.items()}
    networks = limits["AVX2"]["networks"]["cases"].items()
    groups["Whole networks"] = sorted(networks, key=lambda pair: pair[1]["ratio"])
    for title, rows in groups.items():
        slower = [pair for pair in reversed(rows) if pair[1]["ratio"] > 1]
        lines.append(f"| {title} | {len(rows)} | {mean(rows):.2f} | {named(rows[:2])} | {named(slower)} |")
    lines += ["", f"Measured on {record['date']} on {record['machine']}; the networks on "]
    lines[-1] += f"{limits['AVX2']['networks']['date']} on {limits['AVX2']['networks']['machine']}."
    numpy = "and" if record["imports_numpy"] else "without"
    lines += [
        "",
        f"`import rgrad` takes {record['import_ms']:.0f} ms more than Python alone, after which the process has "
        f"{record['resident_mb']:.0f} MB, {numpy} NumPy. The compiled module has {size['module_mb']:.1f} MB; compressed "
        f"as in a wheel, the whole package has {size['compressed_mb']:.1f} MB.",
    ]
    return "\n".join(lines) + "\n"


def bounded(value: float, bound: float | None) -> str:
    """A ratio, with its bound, bold where it is exceeded."""
    if bound is None:
        return f"{value:.2f}"
    return f"**{value:.2f}** (at most {bound:.2f})" if value > bound else f"{value:.2f} (at most {bound:.2f})"


def limits_of(limits: dict[str, Any]) -> list[str]:
    """The section of layers and networks."""
    lines = ["", "## Layers and networks", ""]
    lines += [
        "Measured by `benches/limits.py`: medians of the calls of a process, ratios of two rounds of alternating processes with two "
        "threads. Where a bound is set and exceeded, the figure is bold. The row of onnxruntime has its time in "
        "PyTorch's place, that of threads the time of one thread, that of memory the growth of the peak. PyTorch loads pictures "
        "by processes in both cases.",
    ]
    for isa, rows in limits.items():
        lines += ["", f"### {isa}", ""]
        lines += ["| row | geometric mean | worst | cases | measured on |", "| --- | ---: | ---: | --- | --- |"]
        for name, row in rows.items():
            cases = "; ".join(f"{case} {figures['ratio']:.2f}" for case, figures in row["cases"].items())
            mean, worst = bounded(row["mean"], row["mean_bound"]), bounded(row["worst"], row["worst_bound"])
            lines.append(f"| {name} | {mean} | {worst} | {cases} | {row['date']}, {row['machine']} |")
    return lines


def page(record: dict[str, Any], avx2: dict[str, Any], gpu: dict[str, Any], limits: dict[str, Any]) -> str:
    """docs/benchmarks.md."""
    lines = [
        "# Benchmarks",
        "",
        f"Written by docs/figures.py from benches/record; measured on {record['date']} by `make bench`, with as many "
        "threads on each side. A ratio is rgrad's time divided by PyTorch's, so less than 1 is faster. It is the median "
        "of the ratios of alternating runs; the range shows all of them. Times vary on machines that are shared with "
        "others: compare ratios.",
        "",
        f"The machine is {record['machine']}. Means with AVX2 forced in both packages are of {avx2['date']}, {avx2['machine']}.",
        "",
        f"`import rgrad` takes {record['import_ms']:.1f} ms, after which the process has {record['resident_mb']:.1f} MB. A chain of a million "
        f"additions is built, differentiated and dropped in {record['chain_s']:.2f} s and takes "
        f"{record['bytes_per_node']:.0f} bytes a node. Training LeNet has "
        f"{record['resident_after_50_mb']:.0f} MB resident after 50 steps and {record['resident_after_all_mb']:.0f} MB "
        "after 2,000.",
    ]
    for group, title in GROUPS.items():
        rows = of_group(record, group)
        forced = of_group(avx2, group)
        lines += ["", f"## {title}", "", f"Geometric mean {mean(rows):.2f}, worst {rows[-1][1]['ratio']:.2f}; with AVX2 "]
        lines[-1] += f"forced {mean(forced):.2f} and {forced[-1][1]['ratio']:.2f} (`{forced[-1][0]}`)."
        lines.append("")
        lines += ["| workload | rgrad, µs | PyTorch, µs | ratio | range |", "| --- | ---: | ---: | ---: | --- |"]
        for name, row in rows:
            times = f"{row['target_s'] * 1e6:,.2f} | {row['peer_s'] * 1e6:,.2f}"
            ratio = f"**{row['ratio']:.2f}**" if row["ratio"] > 1 else f"{row['ratio']:.2f}"
            lines.append(f"| `{name}` | {times} | {ratio} | {row['min']:.2f} to {row['max']:.2f} |")
    lines += limits_of(limits)
    adapter = re.search(r"'name': '([^']*)'", gpu["adapter"])
    lines += [
        "",
        "## The GPU backend on a software adapter",
        "",
        f"Measured on {gpu['date']} by `make bench-gpu` on {adapter[1] if adapter else gpu['adapter']}, a Vulkan "
        "driver that runs on the processor: these figures test the backend's bookkeeping and say nothing about a GPU's speed.",
        "",
        "| what | value | bound |",
        "| --- | ---: | --- |",
    ]
    for row in gpu["rows"]:
        bound = "" if row["bound"] is None else f"at {'most' if row['most'] else 'least'} {row['bound']}"
        lines.append(f"| {row['what']} | {row['value']:,.4g} {row['unit']} | {bound} |")
    return "\n".join(lines) + "\n"


def outputs() -> dict[Path, str]:
    """Every file and what it should hold."""
    names = ("latest", "latest-avx2", "gpu", "size", "limits")
    record, avx2, gpu, size, limits = (json.loads((RECORD / f"{name}.json").read_text()) for name in names)
    readme = ROOT / "README.md"
    return {
        readme: BLOCK.sub(lambda m: m[1] + summary(record, size, limits) + m[2], readme.read_text()),
        ROOT / "docs" / "benchmarks.md": page(record, avx2, gpu, limits),
    }


def main() -> int:
    stale = {p: text for p, text in outputs().items() if not p.exists() or p.read_text() != text}
    for path, text in stale.items():
        if "--write" in sys.argv:
            path.write_text(text)
        print(("wrote " if "--write" in sys.argv else "stale: ") + str(path.relative_to(ROOT)))
    return 1 if stale and "--write" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
