"""Opens the door at the start of a process whose parent had it open: see Note [The door] in `rgrad._door`.

This folder stands in front in `PYTHONPATH` for that. Another `sitecustomize` that the process would have had is run as
well.
"""

import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _here]

_spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
if _spec is not None and _spec.loader is not None:
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["sitecustomize"] = _module
    _spec.loader.exec_module(_module)

if os.environ.get("RGRAD_AS_TORCH", "0") not in ("", "0"):
    if importlib.util.find_spec("rgrad") is None:
        # The parent found it on a path of its own, such as `sys.path.insert`: it is the folder that this file is in.
        sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(_here))))
    import rgrad.as_torch  # noqa: F401
