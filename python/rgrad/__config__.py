"""What this build of rgrad is made of."""

from __future__ import annotations

__all__ = ["parallel_info", "show"]


def show() -> str:
    """A text of the build: version, processor and the GPUs that it can open."""
    import platform

    from rgrad import _C, _door

    gpus = ", ".join(_C._gpu_properties(i)["name"] for i in range(_C._gpu_count())) or "none"
    return f"rgrad {_door._native_version}:\n  - CPU: {platform.machine()}\n  - GPU: {gpus}\n"


def parallel_info() -> str:
    """A text of the threads that operations use."""
    import os

    from rgrad import _C

    return f"rgrad:\n  - threads of operations: {_C.get_num_threads()}\n  - processors: {os.cpu_count()}\n"
