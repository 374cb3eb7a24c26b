"""What this build is, under the names of `torch.version`: no toolkit of a vendor is in it, as a GPU needs only its driver."""

from rgrad import __version__ as __version__

debug = False
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version: str | None = None
