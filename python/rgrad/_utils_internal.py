"""`torch._utils_internal`: paths, and addresses for tests of several processes."""

from __future__ import annotations

import os
import tempfile

# The folder that has the package.
torch_parent = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

TEST_MASTER_ADDR = "127.0.0.1"
TEST_MASTER_PORT = 29500


def get_file_path(*path_components: str) -> str:
    """The path of a file below the folder that has the package."""
    return os.path.join(torch_parent, *path_components)


def get_file_path_2(*path_components: str) -> str:
    """The path that the components form."""
    return os.path.join(*path_components)


def get_writable_path(path: str) -> str:
    """The path itself if it can be written to, else a new temporary folder.

    Args:
        path: a file or a folder that exists, or not.

    Returns:
        A path that can be written to. The name of a new folder ends as `path` does.
    """
    return path if os.access(path, os.W_OK) else tempfile.mkdtemp(suffix=os.path.basename(path))


def prepare_multiprocessing_environment(path: str) -> None:
    """Nothing: child processes find the package as this one did."""


def resolve_library_path(path: str) -> str:
    """The path of a library without symbolic links."""
    return os.path.realpath(path)
