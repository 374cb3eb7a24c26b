"""Facts about this build, under the names of `torch.version`. It uses no vendor toolkit: a GPU needs only its
driver.
"""

from rgrad import __version__ as __version__

debug = False
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version: str | None = None


def compiled_with_cxx11_abi() -> bool:
    """False: nothing here is compiled from C++."""
    return False
