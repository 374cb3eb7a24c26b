"""A report of the machine and the versions, for bug reports: `python -m rgrad.utils.collect_env`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections import namedtuple

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main", "pretty_str"]

_PACKAGES = ("numpy", "pillow", "tqdm", "transformers", "timm", "safetensors", "lightning", "accelerate")

SystemEnv = namedtuple(
    "SystemEnv",
    ("torch_version", "is_debug_build", "python_version", "python_platform", "os", "libc_version", "cpu_info")
    + ("num_threads", "is_cuda_available", "nvidia_gpu_models", "pip_packages"),
)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def get_env_info() -> SystemEnv:
    """Collects the information of the report."""
    import rgrad
    from rgrad import _C

    gpus = [_C._gpu_properties(i)["name"] for i in range(_C._gpu_count())]
    found = {name: _version(name) for name in _PACKAGES}
    return SystemEnv(
        torch_version=str(rgrad.__version__),
        is_debug_build="False",
        python_version=sys.version.replace("\n", " "),
        python_platform=platform.platform(),
        os=f"{platform.system()} {platform.release()}",
        libc_version=" ".join(platform.libc_ver()) or "unknown",
        cpu_info=f"{platform.machine()}, {os.cpu_count()} processors, {_C._set_cpu_isa()}",
        num_threads=str(_C.get_num_threads()),
        is_cuda_available=str(bool(gpus)),
        nvidia_gpu_models="\n".join(gpus) or "none",
        pip_packages="\n".join(f"{name}=={version}" for name, version in found.items() if version),
    )


_TITLES = {
    "torch_version": "rgrad",
    "is_debug_build": "debug build",
    "is_cuda_available": "GPU available",
    "nvidia_gpu_models": "GPUs",
    "pip_packages": "packages",
}


def pretty_str(envinfo: SystemEnv) -> str:
    """Formats the information from `get_env_info`."""
    lines = []
    for name, value in envinfo._asdict().items():
        parts = value.split("\n")
        title = _TITLES.get(name, name.replace("_", " "))
        lines.append(f"{title:<20}{parts[0]}")
        lines.extend(" " * 20 + part for part in parts[1:])
    return "\n".join(lines)


def get_pretty_env_info() -> str:
    """The whole report."""
    return pretty_str(get_env_info())


def main() -> None:
    """Prints the report."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
