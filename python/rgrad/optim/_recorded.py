"""Steps of the optimizers that autograd records, for `differentiable=True`.

Note [Differentiable steps]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
A formula takes a parameter, its gradient, its state and the settings of its group. It returns the new value of the
parameter, and replaces entries of the state by new tensors, so that values that a graph saved are not overwritten.
Gradients flow to parameters, gradients, state and settings that are tensors. The formulas are those of
Note [Optimizer kernels]; `step` is a count, to which nothing flows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import Tensor

State = dict[str, Any]
Formula = Callable[["Tensor", "Tensor", State, dict[str, Any]], "Tensor"]


def record_step(
    formula: Formula,
    group: dict[str, Any],
    params: list[Tensor],
    grads: list[Tensor],
    states: list[State],
    recorded: bool = True,
) -> None:
    """Updates parameters and state by a formula, in grad mode if the step is recorded."""
    with rgrad.set_grad_enabled(recorded):
        for param, grad, state in zip(params, grads, states, strict=True):
            param.copy_(formula(param, -grad if group["maximize"] else grad, state, group))


def _count(state: State) -> float:
    state["step"] = state["step"] + 1
    return state["step"].item()


def _decayed(param: Tensor, grad: Tensor, group: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Parameter and gradient after the weight decay."""
    decay = group["weight_decay"]
    if group.get("decoupled_weight_decay"):
        return param * (1 - group["lr"] * decay), grad
    return param, grad + decay * param


def _moments(grad: Tensor, state: State, group: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The averages of the gradient and of its square, after this step."""
    beta1, beta2 = group["betas"]
    state["exp_avg"] = beta1 * state["exp_avg"] + (1 - beta1) * grad
    state["exp_avg_sq"] = beta2 * state["exp_avg_sq"] + (1 - beta2) * grad * grad
    return state["exp_avg"], state["exp_avg_sq"]


def sgd(param: Tensor, grad: Tensor, state: State, group: dict[str, Any]) -> Tensor:
    """Descends along the gradient, or along its momentum."""
    param, grad = _decayed(param, grad, group)
    momentum = group["momentum"]
    if momentum != 0:
        before = state.get("momentum_buffer")
        # The first buffer is a constant, as in PyTorch: nothing flows to the gradient through it.
        buffer = grad.detach().clone() if before is None else momentum * before + (1 - group["dampening"]) * grad
        state["momentum_buffer"] = buffer
        grad = grad + momentum * buffer if group["nesterov"] else buffer
    return param - group["lr"] * grad


def adam(param: Tensor, grad: Tensor, state: State, group: dict[str, Any]) -> Tensor:
    """Adam and AdamW."""
    t = _count(state)
    param, grad = _decayed(param, grad, group)
    mean, square = _moments(grad, state, group)
    if group["amsgrad"]:
        square = state["max_exp_avg_sq"] = rgrad.maximum(state["max_exp_avg_sq"], square)
    beta1, beta2 = group["betas"]
    denominator = square.sqrt() / (1 - beta2**t) ** 0.5 + group["eps"]
    return param - group["lr"] / (1 - beta1**t) * mean / denominator


def adamax(param: Tensor, grad: Tensor, state: State, group: dict[str, Any]) -> Tensor:
    """Adam by the infinity norm."""
    t = _count(state)
    param, grad = _decayed(param, grad, group)
    beta1, beta2 = group["betas"]
    state["exp_avg"] = beta1 * state["exp_avg"] + (1 - beta1) * grad
    state["exp_inf"] = rgrad.maximum(beta2 * state["exp_inf"], grad.abs() + group["eps"])
    return param - group["lr"] / (1 - beta1**t) * state["exp_avg"] / state["exp_inf"]


def nadam(param: Tensor, grad: Tensor, state: State, group: dict[str, Any]) -> Tensor:
    """Adam with Nesterov momentum."""
    t = _count(state)
    param, grad = _decayed(param, grad, group)
    beta1, beta2 = group["betas"]

    def momentum(step: float) -> Any:
        return beta1 * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))

    mean, square = _moments(grad, state, group)
    product = state["mu_product"] = state["mu_product"] * momentum(t)
    denominator = (square / (1 - beta2**t)).sqrt() + group["eps"]
    of_grad = group["lr"] * (1.0 - momentum(t)) / (1.0 - product)
    of_mean = group["lr"] * momentum(t + 1) / (1.0 - product * momentum(t + 1))
    return param - (of_grad * grad + of_mean * mean) / denominator


def radam(param: Tensor, grad: Tensor, state: State, group: dict[str, Any]) -> Tensor:
    """Adam with a rectified step."""
    t = _count(state)
    param, grad = _decayed(param, grad, group)
    mean, square = _moments(grad, state, group)
    beta1, beta2 = group["betas"]
    longest = 2 / (1 - beta2) - 1
    correction = 1 - beta2**t
    length = longest - 2 * t * beta2**t / correction
    update = group["lr"] / (1 - beta1**t) * mean
    if length > 5:
        part = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        update = update * (part * correction) ** 0.5 / (square.sqrt() + group["eps"])
    return param - update


def rmsprop(param: Tensor, grad: Tensor, state: State, group: dict[str, Any]) -> Tensor:
    """RMSprop."""
    _count(state)
    param, grad = _decayed(param, grad, group)
    alpha = group["alpha"]
    square = state["square_avg"] = alpha * state["square_avg"] + (1 - alpha) * grad * grad
    if group["centered"]:
        mean = state["grad_avg"] = alpha * state["grad_avg"] + (1 - alpha) * grad
        square = square - mean * mean
    scaled = grad / (square.sqrt() + group["eps"])
    if group["momentum"] > 0:
        scaled = state["momentum_buffer"] = group["momentum"] * state["momentum_buffer"] + scaled
    return param - group["lr"] * scaled


def adagrad(param: Tensor, grad: Tensor, state: State, group: dict[str, Any]) -> Tensor:
    """Adagrad."""
    t = _count(state)
    param, grad = _decayed(param, grad, group)
    total = state["sum"] = state["sum"] + grad * grad
    return param - group["lr"] / (1 + (t - 1) * group["lr_decay"]) * grad / (total.sqrt() + group["eps"])


def adadelta(param: Tensor, grad: Tensor, state: State, group: dict[str, Any]) -> Tensor:
    """Adadelta."""
    _count(state)
    param, grad = _decayed(param, grad, group)
    rho, eps = group["rho"], group["eps"]
    square = state["square_avg"] = rho * state["square_avg"] + (1 - rho) * grad * grad
    delta = (state["acc_delta"] + eps).sqrt() / (square + eps).sqrt() * grad
    state["acc_delta"] = rho * state["acc_delta"] + (1 - rho) * delta * delta
    return param - group["lr"] * delta


def asgd(param: Tensor, grad: Tensor, state: State, group: dict[str, Any]) -> Tensor:
    """Gradient descent with an average of the parameters."""
    t = _count(state)
    param, grad = _decayed(param, grad, group)
    eta, lr = state["eta"], group["lr"]
    param = param * (1 - group["lambd"] * eta) - eta * grad
    state["ax"] = state["ax"] + (param - state["ax"]) * state["mu"]
    state["eta"] = rgrad.as_tensor(lr / (1 + group["lambd"] * lr * t) ** group["alpha"])
    state["mu"] = rgrad.as_tensor(1 / max(1, t - group["t0"]))
    return param


def rprop(param: Tensor, grad: Tensor, state: State, group: dict[str, Any]) -> Tensor:
    """Rprop."""
    _count(state)
    shrink, grow = group["etas"]
    agreement = (grad * state["prev"]).detach()
    one = rgrad.ones_like(agreement)
    factor = one.masked_fill(agreement > 0, grow).masked_fill(agreement < 0, shrink)
    size = state["step_size"] = (state["step_size"] * factor).clamp(*group["step_sizes"])
    grad = state["prev"] = grad.masked_fill(agreement < 0, 0.0)
    return param - grad.sign() * size
