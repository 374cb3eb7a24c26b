"""The version, and which vendors' toolkits were built in: none, since a GPU is reached through its driver alone."""

from rgrad import __version__

__all__ = ["__version__", "cuda", "debug", "hip"]

cuda: str | None = None
hip: str | None = None
debug = False
