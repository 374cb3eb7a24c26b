"""Writes docs/gpu-parity.md: how the first adapter did against the CPU, operation by operation and dtype by dtype.

    RGRAD_GPU_ALLOW_CPU=1 python docs/generate_parity.py

It takes minutes: every sample call of the table runs on both devices, forward and backward.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import rgrad
from rgrad.doctor.parity import ELEMENT_ULPS, SUM_ULPS, Verdict, check, worst
from rgrad.doctor.samples import DTYPES, LAYOUTS, samples

ROOT = Path(__file__).resolve().parent.parent

HEADER = """# Parity of the GPU with the CPU

Written by docs/generate_parity.py; measured on {adapter}.

Every sample call of an operation (`rgrad.doctor.samples`) runs on both devices, forward and, where there is a
derivative, backward: contiguous, transposed, broadcast, and at an odd offset with a step; of
no element, of one, of six dimensions, and elementwise operations on NaN, infinities, zeros of both signs and
denormal numbers. A cell is the worst that any of them showed: *exact* (bit for bit, NaN for NaN), or how many
units in the last place it was off. Units are those of the element itself for what is computed element by
element (at most {element}, and 32 for four functions that have zeros), and those of the largest element of the
result for what adds up several, gradients among them (at most {sum}). A dash says that the CPU refuses the
dtype too.

| | {count} operations, by dtype |
| --- | --- |
"""


def _cell(v: Verdict) -> str:
    return {"refused": "–", "agrees": str(v).replace("within ", "")}.get(v.kind, v.kind)


def main() -> int:
    """Runs every call and writes the page; the exit status is 1 where a number is wrong."""
    rows: dict[str, list[str]] = {}
    seen: Counter[str] = Counter()
    wrong, refused = [], []
    for op in rgrad._C._op_table():
        calls = list(samples(op))
        if not calls:
            continue
        cells = []
        for dtype in DTYPES:
            verdict = worst(check(s, dtype, "gpu", layout) for s in calls for layout in LAYOUTS)
            cells.append(_cell(verdict))
            seen[verdict.kind] += 1
            if verdict.kind == "wrong":
                wrong.append(f"{calls[0].name} {dtype}: {verdict.why}")
            if verdict.kind == "unsupported":
                refused.append(f"- `{calls[0].name}` of {dtype}: {verdict.why}\n")
        rows[calls[0].name] = cells
    text = HEADER.format(adapter=rgrad.gpu.get_device_name(0), element=ELEMENT_ULPS, sum=SUM_ULPS, count=len(rows))
    for kind, what in (("agrees", "agree"), ("refused", "refused by both"), ("unsupported", "unsupported")):
        text += f"| {what} | {seen[kind]} |\n"
    text += f"| wrong | {seen['wrong']} |\n\n## What the GPU refuses\n\n"
    text += "".join(refused) or "Nothing that the CPU does.\n"
    text += "\n## Operations\n\n| | " + " | ".join(DTYPES) + " |\n" + "| --- " * (len(DTYPES) + 1) + "|\n"
    for name in sorted(rows):
        text += f"| `{name}` | " + " | ".join(rows[name]) + " |\n"
    (ROOT / "docs" / "gpu-parity.md").write_text(text)
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
