"""Measures the size of the package as built and keeps it in benches/record/size.json.

    python benches/size.py
"""

from __future__ import annotations

import datetime
import json
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    package = ROOT / "python" / "rgrad"
    files = [f for f in package.rglob("*") if f.is_file() and "__pycache__" not in f.parts]
    record = {
        "date": datetime.date.today().isoformat(),
        "module_mb": max(f.stat().st_size for f in files if f.name.startswith("_C.")) / 1e6,
        # By zlib's default level, as in a wheel.
        "compressed_mb": sum(len(zlib.compress(f.read_bytes())) for f in files) / 1e6,
    }
    (ROOT / "benches" / "record" / "size.json").write_text(json.dumps(record, indent=1) + "\n")
    print(record)


if __name__ == "__main__":
    main()
