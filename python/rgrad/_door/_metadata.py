"""What `importlib.metadata` learns of the distributions that rgrad stands for."""

from __future__ import annotations

import importlib.metadata
import os
from typing import Any


class StandIn(importlib.metadata.Distribution):
    """A distribution that is no directory: its name, version and summary.

    Args:
        name: of the distribution.
        version: its version.
    """

    def __init__(self, name: str, version: str) -> None:
        texts = {
            "METADATA": (
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
                f"Summary: rgrad under the name {name}\nRequires-Dist: numpy\n"
            ),
            "top_level.txt": f"{name}\n",
            "INSTALLER": "rgrad\n",
        }
        self._texts = texts

    def read_text(self, filename: str) -> str | None:
        """One of the files that a distribution's directory would have."""
        return self._texts.get(os.fspath(filename))

    def locate_file(self, path: Any) -> Any:
        """Where a file of the distribution would be: beside the package."""
        import pathlib

        import rgrad

        return pathlib.Path(rgrad.__file__).parents[1] / path
