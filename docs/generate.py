"""Writes the files that follow from the operation table: the stub `_C.pyi` and docs/ops.md.

    python docs/generate.py           # says which are stale, exit status 1 if any is
    python docs/generate.py --write   # rewrites them
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

HEADER = '''"""Types of the core. Written by docs/generate.py from the operation table: do not edit."""

# ruff: noqa
from collections.abc import Sequence
from typing import Any, overload

Number = int | float | bool
'''

TYPES = {
    "Tensor": "Tensor",
    "Tensor[]": "Sequence[Tensor]",
    "Tensor?[]": "Sequence[Tensor | None]",
    "Operand": "Tensor | Number",
    "Number": "Number",
    "int": "int",
    "int[]": "int | Sequence[int]",
    "size": "int | Sequence[int]",
    "float": "float",
    "float[]": "float | Sequence[float]",
    "bool": "bool",
    "dtype": "dtype",
    "device": "device | str",
    "str": "str",
    "Generator": "Generator",
}


def split(text: str) -> list[str]:
    """Splits a parameter list at its top-level commas."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "[("
        depth -= c in "])"
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    tail = text[start:].strip()
    return [*parts, tail] if tail else parts


def python_type(t: str) -> str:
    """The stub's type of a signature's type."""
    if t != "Tensor?[]" and t.endswith("?"):
        return python_type(t[:-1]) + " | None"
    return TYPES.get(t, "Any")


def parameters(sig: str, method: bool) -> tuple[str, str]:
    """The stub's parameters and result of a signature."""
    text, _, result = sig.partition("->")
    out = []
    for i, part in enumerate(split(text)):
        if part == "*":
            out.append("*")
            continue
        name, _, rest = part.partition(":")
        t, eq, default = (s.strip() for s in rest.partition("="))
        if method and i == 0:
            out.append("self")
        elif t == "size" and (method and i == 1 or not method and i == 0):
            out.append(f"*{name}: {python_type(t)}")
        else:
            out.append(f"{name}: {python_type(t)}" + (f" = {default}" if eq else ""))
    # A star parameter makes a bare star superfluous.
    if any(p.startswith("*") and len(p) > 1 for p in out) and "*" in out:
        out.remove("*")
    return ", ".join(out), result.strip() or "Tensor"


def definitions(op: dict, name: str, method: bool, indent: str) -> list[str]:
    """The lines that declare one name of an operation."""
    lines = []
    several = len(op["signatures"]) > 1
    for sig in op["signatures"]:
        params, result = parameters(sig, method)
        if several:
            lines.append(f"{indent}@overload")
        lines.append(f"{indent}def {name}({params}) -> {result}: ...")
    return lines


def names(op: dict, suffix: str = "") -> list[str]:
    return [n + suffix for n in (op["name"], *op["aliases"])]


def stub(table: list[dict], public: list[str]) -> str:
    """The text of `_C.pyi`."""
    lines = [HEADER, "class Tensor:"]
    known: set[str] = set()
    for op in table:
        if op["method"]:
            for n in names(op):
                lines += definitions(op, n, True, "    ")
                known.add(n)
        if op["inplace"]:
            for n in names(op, "_"):
                lines += definitions(op, n, True, "    ")
                known.add(n)
        if op["attribute"]:
            lines += ["    @property", f"    def {op['name']}(self) -> Tensor: ..."]
            known.add(op["name"])
    lines.append("    def __getattr__(self, name: str) -> Any: ...")
    for dunder in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "mod", "pow", "rpow", "matmul", "and", "or", "xor", "lt", "le", "gt", "ge"):
        lines.append(f"    def __{dunder}__(self, other: Any) -> Tensor: ...")
    for unary in ("neg", "abs", "invert"):
        lines.append(f"    def __{unary}__(self) -> Tensor: ...")
    lines += [
        "    def __getitem__(self, key: Any) -> Tensor: ...",
        "    def __setitem__(self, key: Any, value: Any) -> None: ...",
        "    def __len__(self) -> int: ...",
        "    def __iter__(self) -> Any: ...",
        "    def __int__(self) -> int: ...",
        "    def __float__(self) -> float: ...",
        "    def __index__(self) -> int: ...",
        "",
        "class dtype: ",
        "    is_floating_point: bool",
        "    is_complex: bool",
        "    is_signed: bool",
        "    itemsize: int",
        "",
        "class device:",
        "    type: str",
        "    index: int | None",
        "    def __init__(self, type: Any, index: int | None = None) -> None: ...",
        "",
        "class Generator:",
        "    def __init__(self, device: Any = None) -> None: ...",
        "    def __getattr__(self, name: str) -> Any: ...",
        "",
    ]
    written = {"Tensor", "dtype", "device", "Generator"}
    for op in table:
        if op["function"]:
            for n in names(op):
                lines += definitions(op, n, False, "")
                written.add(n)
        if op["inplace"]:
            for n in names(op, "_"):
                lines += definitions(op, n, False, "")
                written.add(n)
    lines += [f"{n}: Any" for n in public if n not in written]
    return "\n".join(lines) + "\n"


def page(table: list[dict]) -> str:
    """The text of docs/ops.md."""
    lines = [
        "# Operations",
        "",
        "Written by docs/generate.py from the operation table. Names, arguments and defaults are PyTorch's. *Found as*: "
        "`x.` a method, `f` a function, `nn` in nn.functional, `_` an in-place form, `out` takes `out=`.",
        "",
        "| operation | arguments | found as | what it does |",
        "| --- | --- | --- | --- |",
    ]
    marks = (("method", "x."), ("function", "f"), ("nn", "nn"), ("inplace", "_"), ("out", "out"), ("special", "special"), ("linalg", "linalg"), ("attribute", "attribute"))
    for op in sorted(table, key=lambda o: o["name"]):
        also = "".join(f"<br>`{a}`" for a in op["aliases"])
        sigs = "<br>".join(f"`{s}`".replace("|", "\\|") for s in op["signatures"])
        where = " ".join(text for key, text in marks if op[key])
        doc = " ".join(op["doc"].split()).replace("|", "\\|")
        lines.append(f"| `{op['name']}`{also} | {sigs} | {where} | {doc} |")
    return "\n".join(lines) + "\n"


def outputs() -> dict[Path, str]:
    """Every generated file and what it should hold."""
    from rgrad import _C

    table = _C._op_table()
    public = sorted(n for n in dir(_C) if not n.startswith("__"))
    return {
        ROOT / "python" / "rgrad" / "_C.pyi": stub(table, public),
        ROOT / "docs" / "ops.md": page(table),
    }


def main() -> int:
    stale = [p for p, text in outputs().items() if not p.exists() or p.read_text() != text]
    for p in stale:
        if "--write" in sys.argv:
            p.write_text(outputs()[p])
        print(("wrote " if "--write" in sys.argv else "stale: ") + str(p.relative_to(ROOT)))
    return 1 if stale and "--write" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
