"""The core's functions of `nn`, as they are before Note [Functions that take attributes]."""

from rgrad import _C

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any

    def __getattr__(name: str) -> Any: ...


globals().update({name: value for name, value in vars(_C._nn).items() if not name.startswith("__")})
