"""Muon."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rgrad
from rgrad import Tensor
from rgrad.optim.optimizer import GroupOptimizer, arguments, number


def orthogonalized(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Moves the singular values of a matrix towards 1 by iterating an odd polynomial of it, in bfloat16.

    One step of the Newton-Schulz iteration is ``X = a X + (b XXᵀ + c (XXᵀ)²) X``.

    Args:
        matrix: a matrix.
        coefficients: a, b and c.
        steps: number of iterations.
        eps: the least norm by which the matrix is divided.

    Raises:
        ValueError: the matrix is none, there are not three coefficients, or 100 steps or more.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if matrix.dim() != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = matrix.bfloat16()
    tall = x.size(0) > x.size(1)
    if tall:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        square = x @ x.T
        x = rgrad.addmm(x, rgrad.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def adjusted_rate(lr: float, adjust_lr_fn: str | None, shape: tuple[int, ...]) -> float:
    """The learning rate of a matrix of this shape."""
    rows, columns = shape
    if adjust_lr_fn == "match_rms_adamw":
        return lr * 0.2 * max(rows, columns) ** 0.5
    ratio = rows / columns
    return lr * (ratio if adjust_lr_fn == "spectral_unclamped" else max(1, ratio)) ** 0.5


def update_matrices(
    params: list[Tensor],
    grads: list[Tensor],
    buffers: list[Tensor],
    lr: float,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
) -> None:
    """Updates matrices and their averages of gradients; see :class:`Muon`."""
    for param, grad, buffer in zip(params, grads, buffers, strict=True):
        buffer.lerp_(grad, 1 - momentum)
        update = orthogonalized(grad.lerp(buffer, momentum) if nesterov else buffer, ns_coefficients, ns_steps, eps)
        param.mul_(1 - lr * weight_decay)
        param.add_(update.to(param.dtype), alpha=-adjusted_rate(lr, adjust_lr_fn, tuple(param.shape)))


class Muon(GroupOptimizer):
    """Momentum whose singular values are made equal, for the matrices of hidden layers (Jordan, "Muon", 2024).

    Args:
        params: matrices, or dicts that describe groups of them.
        lr: learning rate.
        weight_decay: decoupled weight decay.
        momentum: decay rate of the average of gradients.
        nesterov: use Nesterov momentum.
        ns_coefficients: coefficients of the polynomial that is iterated.
        eps: the least norm by which the momentum is divided.
        ns_steps: number of iterations.
        adjust_lr_fn: how the rate depends on the shape: ``'original'`` (or None), ``sqrt(max(1, rows / columns))``;
            ``'match_rms_adamw'``, ``0.2 sqrt(max(rows, columns))``, so that settings of AdamW can be used;
            ``'spectral_unclamped'``, ``sqrt(rows / columns)``.

    Raises:
        ValueError: a parameter is no matrix, or a setting is out of its range.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        defaults = arguments(locals())
        if isinstance(lr, rgrad.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        named = {"Learning rate": lr, "momentum": momentum, "weight decay": weight_decay}
        for name, value in named.items():
            if not value >= 0.0:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw", "spectral_unclamped"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                if param.dim() != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {param.size()}"
                    )

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
        return {"momentum_buffer": rgrad.zeros_like(param)}

    @rgrad.no_grad()
    def _update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        names = ("weight_decay", "momentum", "nesterov", "ns_coefficients", "ns_steps", "eps", "adjust_lr_fn")
        buffers = self._columns(group, params)("momentum_buffer")
        update_matrices(params, grads, buffers, number(group["lr"]), **{name: group[name] for name in names})
