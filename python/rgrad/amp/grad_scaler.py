"""Loss scaling: multiplies the loss to prevent underflow of gradients in a half type, and adapts the factor."""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
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


def _refresh_per_optimizer_state() -> dict[str, Any]:
    """The state of an optimizer since the last `update`: its stage, and whether gradients on a device overflowed."""
    return {"stage": OptState.READY, "found_inf_per_device": {}}


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
        self._init_growth_tracker = 0
        # The number of steps in a row without overflow; like the scale a tensor after the first call of `scale`.
        self._growth_tracker: Tensor | None = None
        self._forget()

    def _forget(self) -> None:
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_refresh_per_optimizer_state)

    def _lazy_init_scale_growth_tracker(self, dev: rgrad.device | str) -> None:
        if self._growth_tracker is not None:
            raise AssertionError("_growth_tracker initialized before _scale")
        self._scale = rgrad.full((), self._init_scale, dtype=rgrad.float32, device=dev)
        self._growth_tracker = rgrad.full((), self._init_growth_tracker, dtype=rgrad.int32, device=dev)

    def _check_scale_growth_tracker(self, funcname: str) -> tuple[Tensor, Tensor]:
        if self._scale is None or self._growth_tracker is None:
            raise AssertionError(
                f"Attempted {funcname} but _scale is None.  There is none before the first scale(loss)."
            )
        return self._scale, self._growth_tracker

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
            self._lazy_init_scale_growth_tracker(self._device)
        return self._scaled(outputs, self._check_scale_growth_tracker("scale")[0])

    def _scaled(self, value: Any, scale: Tensor) -> Any:
        if isinstance(value, rgrad.Tensor):
            return value * scale.to(device=value.device)
        if isinstance(value, Iterable):
            items = [self._scaled(item, scale) for item in value]
            return type(value)(items) if isinstance(value, (list, tuple)) else iter(items)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale_grads_(
        self, optimizer: Optimizer, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[rgrad.device, Tensor]:
        """Multiplies the gradients by `inv_scale`.

        Args:
            optimizer: the optimizer of the parameters.
            inv_scale: the reciprocal of the scale.
            found_inf: what the results begin with, of one element.
            allow_fp16: whether gradients may be of float16, in which small ones may become zero.

        Returns:
            For each device a tensor of one element, not 0 if a gradient there is not finite.
        """
        grads: dict[rgrad.device, list[Tensor]] = {}
        for group in optimizer.param_groups:
            for param in group["params"]:
                if not isinstance(param, rgrad.Tensor):
                    raise AssertionError(f"expected param to be torch.Tensor, got {type(param).__name__}")
                grad = param.grad
                if grad is None:
                    continue
                if grad.dtype == rgrad.float16 and not allow_fp16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                grads.setdefault(grad.device, []).append(grad)
        return {
            device: rgrad.maximum(_C._optim.unscale(some, inv_scale.to(device)).reshape(()), found_inf.to(device))
            for device, some in grads.items()
        }

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divides the gradients by the scale, for clipping between `backward` and `step`.

        Args:
            optimizer: the optimizer of the parameters whose gradients are divided.
        """
        if not self._enabled:
            return
        scale, _ = self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        found_inf = rgrad.zeros((), dtype=rgrad.float32, device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, scale.reciprocal(), found_inf, False)
        state["stage"] = OptState.UNSCALED

    def _found_inf_per_device(self, optimizer: Optimizer) -> dict[rgrad.device, Tensor]:
        found: dict[rgrad.device, Tensor] = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        return found

    def _check_inf_per_device(self, optimizer: Optimizer) -> dict[rgrad.device, Tensor]:
        """Looks for gradients that are not finite, without changing any."""
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        one, zero = (rgrad.full((), value, dtype=rgrad.float32, device=scale.device) for value in (1.0, 0.0))
        found = self._unscale_grads_(optimizer, one, zero, True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _maybe_opt_step(
        self, optimizer: Optimizer, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """The optimizer's step, unless a gradient is not finite. Subclasses replace it."""
        if any(found.item() for found in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def _ready_to_step(self, optimizer: Optimizer, options: dict[str, Any]) -> dict[str, Any]:
        """The state of an optimizer, which is refused a closure, and a second step before `update`."""
        refused = "Closure use is not currently supported if GradScaler is enabled." if "closure" in options else ""
        if not refused:
            self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if not refused and state["stage"] is OptState.STEPPED:
            refused = "step() has already been called since the last update()."
        if refused:
            raise RuntimeError(refused)
        return state

    def _step_of_unscaled(self, optimizer: Optimizer, state: dict[str, Any], args: Any, kwargs: Any) -> Any:
        """The step of an optimizer whose gradients the scaler divides, unless the program called `unscale_`."""
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        return self._maybe_opt_step(optimizer, state, *args, **kwargs)

    def _step_of_scaled(self, optimizer: Optimizer, state: dict[str, Any], args: Any, kwargs: Any) -> Any:
        """The step of an optimizer that unscales by itself: it gets the scaler, or the scale in its attributes."""
        step: Any = optimizer.step
        if "grad_scaler" in inspect.signature(step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. An "
                "optimizer reads the attributes `grad_scale` and `found_inf` instead.",
                FutureWarning,
                stacklevel=3,
            )
            return step(*args, **kwargs, grad_scaler=self)
        scale, _ = self._check_scale_growth_tracker("step")
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        found = [item.to(scale.device) for item in state["found_inf_per_device"].values()]
        target: Any = optimizer
        # None stands for gradients that `unscale_` has divided.
        target.grad_scale = None if state["stage"] is OptState.UNSCALED else scale
        target.found_inf = rgrad.stack(found).sum() if found else rgrad.zeros_like(scale)
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del target.grad_scale, target.found_inf

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
        state = self._ready_to_step(optimizer, kwargs)
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_of_scaled(optimizer, state, args, kwargs)
        else:
            result = self._step_of_unscaled(optimizer, state, args, kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapts the scale at the end of an iteration.

        Args:
            new_scale: set the scale to this instead.
        """
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
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
            states = self._per_optimizer_states.values()
            checks = [found for state in states for found in state["found_inf_per_device"].values()]
            if not checks:
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(found.item() for found in checks):
                scale.mul_(self._backoff_factor)
                tracker.fill_(0)
            elif tracker.item() + 1 == self._growth_interval:
                grown = scale.item() * self._growth_factor
                # With a scale beyond the range of float32 every later gradient would overflow.
                if grown <= 3.4028234e38:
                    scale.fill_(grown)
                tracker.fill_(0)
            else:
                tracker.add_(1)
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

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

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
            "_growth_tracker": self._get_growth_tracker(),
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
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        """The attributes, without tensors; not between a step and the next `update`."""
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError("A GradScaler may be pickled at the beginning of an iteration or after update().")
            state.update(_init_scale=self.get_scale(), _init_growth_tracker=self._get_growth_tracker())
            state.update(_scale=None, _growth_tracker=None)
        return state
