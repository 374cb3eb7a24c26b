"""What this build is, under the names of `torch.version`.

No vendor's toolkit is in it, since a GPU is reached through its driver.
"""

from rgrad import __version__ as __version__

debug = False
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version: str | None = None
