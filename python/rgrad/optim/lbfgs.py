"""Limited-memory BFGS.

The history is a list of steps and of the gradient changes along them; these pairs define an approximate inverse
Hessian, by which the gradient is multiplied to give the direction (two-loop recursion). All parameters are treated as
one flat vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import rgrad
from rgrad import Tensor
from rgrad.optim._line_search import strong_wolfe
from rgrad.optim.optimizer import Optimizer, check_settings, number


class LBFGS(Optimizer):
    """Limited-memory BFGS, which evaluates the loss several times per step: `step` needs a closure.

    Args:
        params: parameters; one group at most.
        lr: learning rate.
        max_iter: largest number of iterations per step.
        max_eval: largest number of evaluations of the closure per step; 1.25 times `max_iter` if None.
        tolerance_grad: a step ends when all elements of the gradient are at most this large.
        tolerance_change: a step ends when the change of the loss or of the parameters is at most this large.
        history_size: number of pairs of changes that are kept.
        line_search_fn: None, or ``"strong_wolfe"``.
        maximize: go up the gradient.

    Example:
        >>> import rgrad as torch
        >>> x = torch.tensor([3.0, -2.0], requires_grad=True)
        >>> optimizer = torch.optim.LBFGS([x], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = ((x - 1) ** 2).sum()
        ...     loss.backward()
        ...     return loss
        >>> _ = optimizer.step(closure)
        >>> torch.allclose(x, torch.ones(2))
        True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        *,
        maximize: bool = False,
    ) -> None:
        check_settings(lr=lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
            "maximize": maximize,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _flat_grad(self) -> Tensor:
        parts = [param.new_zeros(param.numel()) if param.grad is None else param.grad for param in self._params]
        flat = rgrad.cat([part.reshape(-1) for part in parts])
        return flat.neg() if self.param_groups[0]["maximize"] else flat

    def _loss(self, value: Any) -> float:
        return -float(value) if self.param_groups[0]["maximize"] else float(value)

    def _move(self, t: Any, direction: Tensor) -> None:
        """Moves the parameters by `t` times the direction."""
        sizes = [param.numel() for param in self._params]
        for param, part in zip(self._params, direction.split(sizes), strict=True):
            param.add_(part.view_as(param), alpha=t)

    def _probe(self, closure: Callable[[], Any], t: Any, direction: Tensor) -> tuple[float, Tensor]:
        """Loss and gradient `t` times the direction from here; the parameters stay where they are."""
        before = [param.clone() for param in self._params]
        self._move(t, direction)
        loss = self._loss(self._evaluate(closure))
        grad = self._flat_grad()
        for param, value in zip(self._params, before, strict=True):
            param.copy_(value)
        return loss, grad

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Go at most `max_iter` steps of the method.

        Args:
            closure: clears the gradients, evaluates the model, calls `backward` and returns the loss.

        Returns:
            The loss before the first of them.
        """
        with rgrad.no_grad():
            return self._step(closure)

    def _step(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        lr, line_search = number(group["lr"]), group["line_search_fn"]
        tolerance_grad, tolerance_change = group["tolerance_grad"], group["tolerance_change"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        first_loss = self._evaluate(closure)
        loss = self._loss(first_loss)
        evaluations = 1
        state["func_evals"] += 1
        grad = self._flat_grad()
        if grad.abs().max() <= tolerance_grad:
            return first_loss
        direction, t = state.get("d"), state.get("t")
        iterations = 0
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                direction = grad.neg()
                state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            else:
                _remember(state, grad, direction.mul(t), group["history_size"])
                direction = _direction(state, grad, group["history_size"])
            state["prev_flat_grad"] = grad.clone(memory_format=rgrad.contiguous_format)
            state["prev_loss"] = before = loss
            # The first direction is the plain gradient, whose length says nothing of how far to go.
            t = min(1.0, 1.0 / grad.abs().sum()) * lr if state["n_iter"] == 1 else lr
            slope = grad.dot(direction)
            if slope > -tolerance_change:
                break
            used = 0
            if line_search is not None:
                if line_search != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                probe = _probe_along(self, closure, direction)
                loss, grad, t, used = strong_wolfe(probe, t, direction, loss, grad, slope)
                self._move(t, direction)
                converged = grad.abs().max() <= tolerance_grad
            else:
                self._move(t, direction)
                # After the last iteration nobody needs the loss.
                if iterations != group["max_iter"]:
                    loss = self._loss(self._evaluate(closure))
                    grad = self._flat_grad()
                    used = 1
                converged = grad.abs().max() <= tolerance_grad
            evaluations += used
            state["func_evals"] += used
            if iterations == group["max_iter"] or evaluations >= group["max_eval"] or converged:
                break
            if direction.mul(t).abs().max() <= tolerance_change or abs(loss - before) < tolerance_change:
                break
        state["d"], state["t"] = direction, t
        return first_loss


def _probe_along(
    optimizer: LBFGS, closure: Callable[[], Any], direction: Tensor
) -> Callable[[Any], tuple[float, Tensor]]:
    return lambda t: optimizer._probe(closure, t, direction)


def _remember(state: dict[str, Any], grad: Tensor, step: Tensor, history_size: int) -> None:
    """Add the last step to the history, unless the curvature along it is not positive."""
    change = grad.sub(state["prev_flat_grad"])
    curvature = change.dot(step)
    if curvature <= 1e-10:
        return
    if len(state["old_dirs"]) == history_size:
        for column in ("old_dirs", "old_stps", "ro"):
            state[column].pop(0)
    state["old_dirs"].append(change)
    state["old_stps"].append(step)
    state["ro"].append(1.0 / curvature)
    state["H_diag"] = curvature / change.dot(change)


def _direction(state: dict[str, Any], grad: Tensor, history_size: int) -> Tensor:
    """Minus the gradient times the inverse Hessian of the history."""
    changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
    weights = state.setdefault("al", [None] * history_size)
    q = grad.neg()
    for i in reversed(range(len(changes))):
        weights[i] = steps[i].dot(q) * ro[i]
        q.add_(changes[i], alpha=-weights[i])
    direction = q.mul(state["H_diag"])
    for i in range(len(changes)):
        direction.add_(steps[i], alpha=weights[i] - changes[i].dot(direction) * ro[i])
    return direction
