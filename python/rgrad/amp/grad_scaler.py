"""Loss scaling: multiplies the loss to prevent underflow of gradients in a half type, and adapts the factor."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

import rgrad
from rgrad import _C

if TYPE_CHECKING:
    from rgrad import Tensor
    from rgrad.optim import Optimizer


class OptState(Enum):
    """The state of an optimizer since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales the loss, unscales the gradients, skips steps whose gradients overflowed, and adapts the factor.

    Args:
        device: the type of device of the scale.
        init_scale: the initial scale.
        growth_factor: the factor of the scale after `growth_interval` steps without overflow.
        backoff_factor: the factor of the scale after an overflow.
        growth_interval: see `growth_factor`.
        enabled: if False, all methods behave as without scaling.

    Example:
        >>> import rgrad as torch
        >>> w = torch.ones(1, requires_grad=True)
        >>> optimizer, scaler = torch.optim.SGD([w], lr=0.5), torch.amp.GradScaler("cpu")
        >>> scaler.scale((w * w).sum()).backward()
        >>> _ = scaler.step(optimizer)
        >>> scaler.update()
        >>> w
        tensor([0.], requires_grad=True)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not rgrad.cuda.is_available():
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        # A tensor after the first call of `scale`, so that skipping a step needs no synchronization.
        self._scale: Tensor | None = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._forget()

    def _forget(self) -> None:
        self._stages: dict[int, OptState] = {}
        # For each optimizer a tensor per device, not read before its step.
        self._found_inf: dict[int, list[Tensor]] = {}

    def _check_scale(self, method: str) -> Tensor:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {method} but _scale is None.  There is none before the first scale(loss)."
            )
        return self._scale

    def scale(self, outputs: Any) -> Any:
        """Multiplies a tensor, or all tensors in an iterable, by the scale.

        Args:
            outputs: the loss, or several.

        Returns:
            The same structure, scaled; unchanged if scaling is disabled.
        """
        if not self._enabled:
            return outputs
        if self._scale is None:
            self._scale = rgrad.full((), self._init_scale, dtype=rgrad.float32, device=self._device)
        return self._scaled(outputs, self._scale)

    def _scaled(self, value: Any, scale: Tensor) -> Any:
        if isinstance(value, rgrad.Tensor):
            return value * scale.to(device=value.device)
        if isinstance(value, Iterable):
            items = [self._scaled(item, scale) for item in value]
            return type(value)(items) if isinstance(value, (list, tuple)) else iter(items)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divides the gradients by the scale, for clipping between `backward` and `step`.

        Args:
            optimizer: the optimizer of the parameters whose gradients are divided.
        """
        if not self._enabled:
            return
        scale = self._check_scale("unscale_")
        stage = self._stages.get(id(optimizer), OptState.READY)
        if stage is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        grads: dict[rgrad.device, list[Tensor]] = {}
        for group in optimizer.param_groups:
            for param in group["params"]:
                if not isinstance(param, rgrad.Tensor):
                    raise AssertionError(f"expected param to be torch.Tensor, got {type(param).__name__}")
                grad = param.grad
                if grad is None:
                    continue
                if grad.dtype == rgrad.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                grads.setdefault(grad.device, []).append(grad)
        if grads:
            inverse = scale.reciprocal()
            self._found_inf[id(optimizer)] = [
                _C._optim.unscale(some, inverse.to(device)) for device, some in grads.items()
            ]
        self._stages[id(optimizer)] = OptState.UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Unscales the gradients, unless `unscale_` did so, and performs the optimizer's step if all are finite.

        Args:
            optimizer: the optimizer.
            *args: arguments of its `step`.
            **kwargs: keyword arguments of its `step`.

        Returns:
            The result of its `step`, or None if it was skipped.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale("step")
        stage = self._stages.get(id(optimizer), OptState.READY)
        if stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage is OptState.READY:
            self.unscale_(optimizer)
        if id(optimizer) not in self._found_inf:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        skipped = any(found.item() for found in self._found_inf[id(optimizer)])
        result = None if skipped else optimizer.step(*args, **kwargs)
        self._stages[id(optimizer)] = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapts the scale at the end of an iteration.

        Args:
            new_scale: set the scale to this instead.
        """
        if not self._enabled:
            return
        scale = self._check_scale("update")
        if new_scale is not None:
            if isinstance(new_scale, rgrad.Tensor):
                if new_scale.numel() != 1 or new_scale.requires_grad:
                    raise AssertionError(
                        "new_scale should be a float or a 1-element tensor that requires no gradient, but got one of "
                        f"shape {tuple(new_scale.shape)} with requires_grad={new_scale.requires_grad}"
                    )
                scale.copy_(new_scale)
            else:
                scale.fill_(new_scale)
        else:
            if not self._found_inf:
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(found.item() for some in self._found_inf.values() for found in some):
                scale.mul_(self._backoff_factor)
                self._growth_tracker = 0
            elif self._growth_tracker + 1 == self._growth_interval:
                grown = scale.item() * self._growth_factor
                # With a scale beyond the range of float32 every later gradient would overflow.
                if grown <= 3.4028234e38:
                    scale.fill_(grown)
                self._growth_tracker = 0
            else:
                self._growth_tracker += 1
        self._forget()

    def get_scale(self) -> float:
        """The scale as a number, 1.0 when scaling is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """The growth factor."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the growth factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The backoff factor."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the backoff factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """The growth interval."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the growth interval."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether scaling is enabled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scaler's state with PyTorch's keys; empty if scaling is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a state returned by `state_dict`."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty: a GradScaler made with enabled=False has no state to save."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
