"""`torch.nn.utils.prune`: names that packages import. Nothing is pruned."""

from __future__ import annotations

from rgrad._absent import absent_class, absent_function

_WHY = "parameters are not pruned; torch.nn.utils.parametrize can mask them"
_CLASSES = (
    *("BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer"),
    *("RandomStructured", "RandomUnstructured"),
)
_FUNCTIONS = (
    *("custom_from_mask", "global_unstructured", "identity", "l1_unstructured", "ln_structured", "random_structured"),
    *("random_unstructured", "remove"),
)

globals().update({name: absent_class(f"torch.nn.utils.prune.{name}", _WHY) for name in _CLASSES})
globals().update({name: absent_function(f"torch.nn.utils.prune.{name}", _WHY) for name in _FUNCTIONS})


def is_pruned(module: object) -> bool:
    """False."""
    return False
