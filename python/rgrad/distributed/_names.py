"""What `torch.distributed` has for several processes: names that packages import for `isinstance` and annotations.

The door's table of paths lists them. A class begins with a capital letter.
"""

from __future__ import annotations

from rgrad._absent import absent_class, absent_function
from rgrad._door._paths import PATHS

_ONE = "rgrad computes in one process"

# A name that several paths have is one object, which belongs to a public path.
for _path, (_source, _names) in sorted(PATHS.items(), key=lambda row: "._" in row[0]):
    if _source == "distributed._names":
        for _name in _names:
            _make = absent_class if _name[0].isupper() else absent_function
            globals().setdefault(_name, _make(f"torch.{_path}.{_name}", _ONE))
