"""What `torch.distributed` has for several processes: names that packages import for `isinstance` and annotations.

The door's table of paths lists them. A class begins with a capital letter.
"""

from __future__ import annotations

from rgrad._absent import absent_class, absent_function
from rgrad._door._paths import PATHS

_ONE = "rgrad computes in one process"

for _path, (_source, _names) in PATHS.items():
    if _source == "distributed._names":
        for _name in _names:
            _make = absent_class if _name[0].isupper() else absent_function
            globals()[_name] = _make(f"torch.{_path}.{_name}", _ONE)
