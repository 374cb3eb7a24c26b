"""The arithmetic of the optimizers.

Note [Optimizer kernels]
~~~~~~~~~~~~~~~~~~~~~~~~
SGD, Adam, AdamW, RMSprop, Adagrad and Adadelta update a whole parameter group in one call of
`rgrad._C._optim`. All those kernels follow these rules:

* `params`, `grads` and every state list are parallel: entry *i* of each belongs to parameter *i* and has its shape
  and dtype. A list that a setting makes unnecessary is empty (for example `max_exp_avg_sqs` without `amsgrad`).
  Shapes, strides and dtypes may differ between parameters.
* Parameters and state are written in place and not recorded in a graph, whatever the grad mode; their version
  counters increase. Gradients are only read.
* `steps` holds one-element float32 tensors on the CPU. A kernel adds 1 to each **before** evaluating its formula;
  `t` below is the value after that.
* Everything is computed in the parameter's dtype (half types in float32, rounded once when stored). `t`, the bias
  corrections and the step sizes are computed in float64 and converted where they are combined with elements.
* At first `g = -g` if `maximize`; then, unless the decay is decoupled, `g = g + weight_decay * p` if
  `weight_decay != 0`.

The formulas, for one element, in the order in which they are evaluated:

sgd(params, grads, momentum_buffers, *, lr, momentum, dampening, weight_decay, nesterov, maximize)
    if momentum != 0:
        b = g                                       where momentum_buffers[i] is None (a new tensor)
        b = b * momentum + (1 - dampening) * g      elsewhere
        g = g + momentum * b                        if nesterov, else g = b
    p = p - lr * g
    `momentum_buffers` is empty when momentum is 0. Returns None if no buffer had to be created, else a list with
    the buffer of each parameter.

adam(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, *, lr, beta1, beta2, eps, weight_decay,
     amsgrad, maximize, decoupled)
    p = p * (1 - lr * weight_decay)                 if decoupled and weight_decay != 0
    m = m + (1 - beta1) * (g - m)
    v = v * beta2 + (1 - beta2) * g * g
    u = max(u, v) with u = max_exp_avg_sqs[i]       if amsgrad, else u = v
    p = p - (lr / (1 - beta1**t)) * m / (sqrt(u) / sqrt(1 - beta2**t) + eps)

rmsprop(params, grads, square_avgs, grad_avgs, momentum_buffers, steps, *, lr, alpha, eps, weight_decay,
        momentum, centered, maximize)
    s = s * alpha + (1 - alpha) * g * g
    a = a + (1 - alpha) * (g - a)                   if centered
    d = sqrt(s - a * a) + eps                       if centered, else d = sqrt(s) + eps
    b = b * momentum + g / d                        if momentum > 0
    p = p - lr * b                                  if momentum > 0, else p = p - lr * g / d

adagrad(params, grads, state_sums, steps, *, lr, lr_decay, eps, weight_decay, maximize)
    c = lr / (1 + (t - 1) * lr_decay)
    s = s + g * g
    p = p - c * g / (sqrt(s) + eps)

adadelta(params, grads, square_avgs, acc_deltas, steps, *, lr, rho, eps, weight_decay, maximize)
    s = s * rho + (1 - rho) * g * g
    d = sqrt(a + eps) / sqrt(s + eps) * g
    a = a * rho + (1 - rho) * d * d
    p = p - lr * d

All but `sgd` return None. The less common optimizers are implemented below with tensor operations.
"""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import Tensor


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    steps: list[Tensor],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Adam with the infinity norm instead of the second moment."""
    for param, grad, exp_avg, exp_inf, step in zip(params, grads, exp_avgs, exp_infs, steps, strict=True):
        step += 1
        if maximize:
            grad = -grad
        if weight_decay != 0:
            grad = grad.add(param, alpha=weight_decay)
        exp_avg.lerp_(grad, 1 - beta1)
        exp_inf.copy_(rgrad.maximum(exp_inf.mul_(beta2), grad.abs().add_(eps)))
        param.addcdiv_(exp_avg, exp_inf, value=-lr / (1 - beta1 ** step.item()))


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    steps: list[Tensor],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    momentum_decay: float,
    decoupled: bool,
    maximize: bool,
) -> None:
    """Adam with Nesterov momentum whose coefficient increases with the step."""
    columns = zip(params, grads, exp_avgs, exp_avg_sqs, mu_products, steps, strict=True)
    for param, grad, exp_avg, exp_avg_sq, mu_product, step in columns:
        step += 1
        t = step.item()
        if maximize:
            grad = -grad
        grad = _decayed(param, grad, lr, weight_decay, decoupled)
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (t * momentum_decay))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((t + 1) * momentum_decay))
        mu_product *= mu
        product = mu_product.item()
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denom = exp_avg_sq.div(1 - beta2**t).sqrt_().add_(eps)
        param.addcdiv_(grad, denom, value=-lr * (1.0 - mu) / (1.0 - product))
        param.addcdiv_(exp_avg, denom, value=-lr * mu_next / (1.0 - product * mu_next))


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    steps: list[Tensor],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
) -> None:
    """Adam that uses the adaptive step only once the variance of the second moment is small enough."""
    rho_inf = 2 / (1 - beta2) - 1
    for param, grad, exp_avg, exp_avg_sq, step in zip(params, grads, exp_avgs, exp_avg_sqs, steps, strict=True):
        step += 1
        t = step.item()
        if maximize:
            grad = -grad
        grad = _decayed(param, grad, lr, weight_decay, decoupled)
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        bias_correction2 = 1 - beta2**t
        update = exp_avg / (1 - beta1**t) * lr
        # Length of the simple moving average that the second moment approximates at step t.
        rho = rho_inf - 2 * t * beta2**t / bias_correction2
        if rho > 5.0:
            rectification = ((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) ** 0.5
            update = update * (bias_correction2**0.5 / exp_avg_sq.sqrt().add_(eps)) * rectification
        param.sub_(update)


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    averages: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    steps: list[Tensor],
    *,
    lr: float,
    lambd: float,
    alpha: float,
    t0: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Gradient descent with a decreasing rate, and an average of the parameters from step `t0` on."""
    columns = zip(params, grads, averages, mus, etas, steps, strict=True)
    for param, grad, average, mu, eta, step in columns:
        step += 1
        t = step.item()
        grad = _decayed(param, -grad if maximize else grad, lr, weight_decay, decoupled=False)
        rate = eta.item()
        param.mul_(1 - lambd * rate).add_(grad, alpha=-rate)
        # `add_` rather than `lerp_`, whose rounding differs.
        average.add_((param - average) * mu.item())
        eta.fill_(lr / (1 + lambd * lr * t) ** alpha)
        mu.fill_(1 / max(1, t - t0))


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    sizes: list[Tensor],
    steps: list[Tensor],
    *,
    etas: tuple[float, float],
    step_sizes: tuple[float, float],
    maximize: bool,
) -> None:
    """Updates by the sign of the gradient: steps grow while an element's sign is constant and shrink when it
    changes.
    """
    shrink, grow = etas
    for param, grad, prev, size, step in zip(params, grads, prevs, sizes, steps, strict=True):
        step += 1
        if maximize:
            grad = -grad
        agreement = grad * prev
        turned = agreement < 0
        factor = rgrad.ones_like(size).masked_fill_(agreement > 0, grow).masked_fill_(turned, shrink)
        size.mul_(factor).clamp_(*step_sizes)
        prev.copy_(grad.masked_fill(turned, 0))
        param.addcmul_(prev.sign(), size, value=-1)


def adafactor(
    params: list[Tensor],
    grads: list[Tensor],
    states: list[dict[str, Any]],
    *,
    lr: float,
    beta2_decay: float,
    eps: tuple[float | None, float],
    d: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Adaptive updates with a factored second moment (by rows and columns), relative to the parameters' size."""
    for param, grad, state in zip(params, grads, states, strict=True):
        state["step"] += 1
        t = state["step"].item()
        if maximize:
            grad = -grad
        least = rgrad.finfo(param.dtype).eps if eps[0] is None else eps[0]
        forget = t**beta2_decay
        rate = max(eps[1], _root_mean_square(param)) * min(lr, t**-0.5)
        if weight_decay != 0:
            param.mul_(1 - lr * weight_decay)
        if grad.dim() > 1:
            rows, columns = state["row_var"], state["col_var"]
            rows.lerp_(grad.norm(dim=-1, keepdim=True).square_().div_(grad.size(-1)), forget)
            columns.lerp_(grad.norm(dim=-2, keepdim=True).square_().div_(grad.size(-2)), forget)
            variance = rows @ columns / rows.mean(dim=-2, keepdim=True).clamp_(min=least)
        else:
            variance = state["variance"].lerp_(grad.square(), forget).clone()
        update = variance.clamp_(min=least * least).rsqrt_().mul_(grad)
        param.add_(update, alpha=-rate / max(1.0, _root_mean_square(update) / d))


def _root_mean_square(tensor: Tensor) -> float:
    return tensor.norm(2).item() / tensor.numel() ** 0.5


def _decayed(param: Tensor, grad: Tensor, lr: float, weight_decay: float, decoupled: bool) -> Tensor:
    """Applies the weight decay: to the parameter itself if decoupled, else to the gradient, which is returned."""
    if weight_decay == 0:
        return grad
    if decoupled:
        param.mul_(1 - lr * weight_decay)
        return grad
    return grad.add(param, alpha=weight_decay)
