"""Run by `make wheels` with the Python of an environment that has auditwheel: fails where a wheel wants a newer glibc.

usage: manylinux.py GLIBC WHEEL, GLIBC being the newest version allowed, as in 2.28
"""

import json
import re
import subprocess
import sys
from pathlib import Path


def main(newest: str, wheel: Path) -> None:
    """Prints the platform that auditwheel finds, or exits with what is wrong."""
    told = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", "--json", str(wheel)], check=True, capture_output=True, text=True
    )
    found = json.loads(told.stdout)
    tag = found["overall_tag"]
    size = wheel.stat().st_size / 1e6
    version = re.fullmatch(r"manylinux_(\d+)_(\d+)_\w+", tag)
    if version is None or (int(version[1]), int(version[2])) > tuple(map(int, newest.split("."))):
        sys.exit(
            f"{wheel.name}: auditwheel finds {tag}, which is no manylinux of glibc {newest} or older: {told.stdout}"
        )
    if found["external_libs"]:
        sys.exit(f"{wheel.name} wants libraries that not every Linux has: {', '.join(found['external_libs'])}")
    print(f"{wheel.name}: {size:.1f} MB, auditwheel finds {tag}")


main(sys.argv[1], Path(sys.argv[2]))
