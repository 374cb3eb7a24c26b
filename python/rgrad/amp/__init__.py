"""Mixed precision: `autocast` runs suitable operations in a half type, `GradScaler` preserves small gradients."""

from rgrad.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from rgrad.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
