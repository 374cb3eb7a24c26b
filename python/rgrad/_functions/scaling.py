"""What a scaler of gradients is made of, for programs that have one of their own."""

from __future__ import annotations

from collections.abc import Sequence

import rgrad
from rgrad import _C
from rgrad._C import Tensor


def _amp_foreach_non_finite_check_and_unscale_(
    self: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor
) -> None:
    """Multiplies gradients by the inverse of their scale, and sets a flag if some are not finite.

    Args:
        self: the gradients; they are changed in place.
        found_inf: the flag, of one element and float32: 1 is written if there is an infinity or a NaN.
        inv_scale: the inverse of the scale, of one element and float32.

    Raises:
        RuntimeError: the flag or the factor has another size or dtype.

    >>> import rgrad as torch
    >>> grad, found = torch.tensor([2.0, 4.0]), torch.zeros(1)
    >>> torch._amp_foreach_non_finite_check_and_unscale_([grad], found, torch.tensor([0.5]))
    >>> grad, found
    (tensor([1., 2.]), tensor([0.]))
    """
    for name, given in (("inv_scale", inv_scale), ("found_inf", found_inf)):
        if given.numel() != 1:
            raise RuntimeError(f"{name} must be a 1-element tensor.")
        if given.dtype != rgrad.float32:
            raise RuntimeError(f"{name} must be a float tensor.")
    with rgrad.no_grad():
        by_dtype: dict[_C.dtype, list[Tensor]] = {}
        for grad in self:
            by_dtype.setdefault(grad.dtype, []).append(grad)
        for grads in by_dtype.values():
            found = _C._optim.unscale(grads, inv_scale.reshape(()))
            found_inf.copy_(rgrad.maximum(found_inf, found.to(rgrad.float32).reshape(found_inf.shape)))


def _amp_update_scale_(
    self: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> Tensor:
    """Adapts a scale in place: it shrinks after an overflow, and grows after a number of steps without one.

    Args:
        self: the scale, of one element and float32.
        growth_tracker: the number of steps without an overflow, of one element and int32; it is changed too.
        found_inf: 0 if there was no overflow.
        scale_growth_factor: the factor after `growth_interval` steps; not applied where the scale would be infinite.
        scale_backoff_factor: the factor after an overflow.
        growth_interval: see above.

    Returns:
        The scale.

    Raises:
        RuntimeError: a tensor has another size or dtype.

    >>> import rgrad as torch
    >>> scale, steps = torch.tensor([4.0]), torch.tensor([0], dtype=torch.int32)
    >>> torch._amp_update_scale_(scale, steps, torch.zeros(1), 2.0, 0.5, 1)
    tensor([8.])
    """
    for name, given, article, dtype in (
        ("growth_tracker", growth_tracker, "an int", rgrad.int32),
        ("current_scale", self, "a float", rgrad.float32),
        ("found_inf", found_inf, "a float", rgrad.float32),
    ):
        if given.numel() != 1:
            raise RuntimeError(f"{name} must be a 1-element tensor.")
        if given.dtype != dtype:
            raise RuntimeError(f"{name} must be {article} tensor.")
    with rgrad.no_grad():
        if found_inf.item():
            self.mul_(scale_backoff_factor)
            growth_tracker.zero_()
        elif growth_tracker.item() + 1 == growth_interval:
            grown = self * scale_growth_factor
            if grown.isfinite().item():
                self.copy_(grown)
            growth_tracker.zero_()
        else:
            growth_tracker.add_(1)
    return self
