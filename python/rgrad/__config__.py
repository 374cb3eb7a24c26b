"""Information about this build of rgrad."""

from __future__ import annotations

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Returns a text that describes the build: version, processor and available GPUs."""
    import platform

    from rgrad import _C, _door

    gpus = ", ".join(_C._gpu_properties(i)["name"] for i in range(_C._gpu_count())) or "none"
    return f"rgrad {_door._native_version}:\n  - CPU: {platform.machine()}\n  - GPU: {gpus}\n"


def _cxx_flags() -> str:
    """Returns the options of the C++ compiler: none, as this build is of Rust."""
    return ""


def parallel_info() -> str:
    """Returns a text about the thread pool."""
    import os

    from rgrad import _C

    return f"rgrad:\n  - threads of operations: {_C.get_num_threads()}\n  - processors: {os.cpu_count()}\n"
