"""The optimizers as functions of lists of parameters, gradients and state, which they update in place.

Entry i of every list belongs to parameter i, and the settings are those of the classes. `foreach`, `fused` and
`has_complex` are accepted, without effect, as is `capturable` for parameters on a GPU. For steps that autograd records
there are the classes, with `differentiable=True`.
"""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import _C, Tensor
from rgrad.optim import _functional
from rgrad.optim.muon import update_matrices
from rgrad.optim.optimizer import check_capturable, number

Tensors = list[Tensor]

__all__ = [
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "asgd",
    "muon",
    "nadam",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
    "sparse_adam",
]


def _check(differentiable: bool = False, grad_scale: Any = None, found_inf: Any = None, captured: Any = None) -> None:
    if captured:
        check_capturable(captured)
    if differentiable:
        raise NotImplementedError("differentiable=True: steps are recorded by the classes of rgrad.optim")
    if grad_scale is not None or found_inf is not None:
        raise NotImplementedError("grad_scale and found_inf: gradients are unscaled by rgrad.amp.GradScaler")


def sgd(
    params: Tensors,
    d_p_list: Tensors,
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """Updates parameters as :class:`SGD`; buffers that are None are made and replaced in their list."""
    _check(False, grad_scale, found_inf)
    made = _C._optim.sgd(
        params,
        d_p_list,
        momentum_buffer_list if momentum != 0 else [],
        lr=number(lr),
        momentum=momentum,
        dampening=dampening,
        weight_decay=weight_decay,
        nesterov=nesterov,
        maximize=maximize,
    )
    if made is not None:
        momentum_buffer_list[:] = made


def adam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    max_exp_avg_sqs: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Updates parameters as :class:`Adam`."""
    _check(differentiable, grad_scale, found_inf, captured=params if capturable and not fused else None)
    _C._optim.adam(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        max_exp_avg_sqs if amsgrad else [],
        state_steps,
        lr=number(lr),
        beta1=number(beta1),
        beta2=number(beta2),
        eps=eps,
        weight_decay=weight_decay,
        amsgrad=amsgrad,
        maximize=maximize,
        decoupled=decoupled_weight_decay,
    )


def adamw(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    max_exp_avg_sqs: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    **settings: Any,
) -> None:
    """Updates parameters as :class:`AdamW`; the settings are those of :func:`adam`."""
    _check(differentiable, grad_scale, found_inf, captured=params if capturable and not fused else None)
    lists = (params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps)
    adam(*lists, decoupled_weight_decay=True, **settings)


def rmsprop(
    params: Tensors,
    grads: Tensors,
    square_avgs: Tensors,
    grad_avgs: Tensors,
    momentum_buffer_list: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """Updates parameters as :class:`RMSprop`."""
    _check(differentiable, captured=params if capturable else None)
    _C._optim.rmsprop(
        params,
        grads,
        square_avgs,
        grad_avgs if centered else [],
        momentum_buffer_list if momentum > 0 else [],
        state_steps,
        lr=number(lr),
        alpha=alpha,
        eps=eps,
        weight_decay=weight_decay,
        momentum=momentum,
        centered=centered,
        maximize=maximize,
    )


def adagrad(
    params: Tensors,
    grads: Tensors,
    state_sums: Tensors,
    state_steps: Tensors,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    **settings: Any,
) -> None:
    """Updates parameters as :class:`Adagrad`; the settings are `weight_decay`, `lr_decay`, `eps` and `maximize`."""
    _check(differentiable, grad_scale, found_inf)
    _C._optim.adagrad(params, grads, state_sums, state_steps, lr=number(lr), **settings)


def adadelta(
    params: Tensors,
    grads: Tensors,
    square_avgs: Tensors,
    acc_deltas: Tensors,
    state_steps: Tensors,
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    **settings: Any,
) -> None:
    """Updates parameters as :class:`Adadelta`; the settings are `rho`, `eps`, `weight_decay` and `maximize`."""
    _check(differentiable, captured=params if capturable else None)
    _C._optim.adadelta(params, grads, square_avgs, acc_deltas, state_steps, lr=number(lr), **settings)


@rgrad.no_grad()
def adamax(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_infs: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    **settings: Any,
) -> None:
    """Updates parameters as :class:`Adamax`; the settings are `eps`, `beta1`, `beta2` and `weight_decay`."""
    _check(differentiable, captured=params if capturable else None)
    _functional.adamax(params, grads, exp_avgs, exp_infs, state_steps, lr=number(lr), maximize=maximize, **settings)


@rgrad.no_grad()
def nadam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    mu_products: Tensors,
    state_steps: Tensors,
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    lr: float | Tensor,
    **settings: Any,
) -> None:
    """Updates parameters as :class:`NAdam`; the settings are the betas, `weight_decay`, `momentum_decay`, `eps`."""
    _check(differentiable, captured=params if capturable else None)
    lists = (params, grads, exp_avgs, exp_avg_sqs, mu_products, state_steps)
    _functional.nadam(*lists, lr=number(lr), decoupled=decoupled_weight_decay, maximize=maximize, **settings)


@rgrad.no_grad()
def radam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    state_steps: Tensors,
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    lr: float | Tensor,
    **settings: Any,
) -> None:
    """Updates parameters as :class:`RAdam`; the settings are `beta1`, `beta2`, `weight_decay` and `eps`."""
    _check(differentiable, captured=params if capturable else None)
    lists = (params, grads, exp_avgs, exp_avg_sqs, state_steps)
    _functional.radam(*lists, lr=number(lr), decoupled=decoupled_weight_decay, maximize=maximize, **settings)


@rgrad.no_grad()
def asgd(
    params: Tensors,
    grads: Tensors,
    axs: Tensors,
    mus: Tensors,
    etas: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    **settings: Any,
) -> None:
    """Updates parameters as :class:`ASGD`; the settings are `lambd`, `t0`, `alpha` and `weight_decay`."""
    _check(differentiable, captured=params if capturable else None)
    _functional.asgd(params, grads, axs, mus, etas, state_steps, lr=number(lr), maximize=maximize, **settings)


@rgrad.no_grad()
def rprop(
    params: Tensors,
    grads: Tensors,
    prevs: Tensors,
    step_sizes: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """Updates parameters as :class:`Rprop`."""
    _check(differentiable, captured=params if capturable else None)
    bounds = (step_size_min, step_size_max)
    etas = (etaminus, etaplus)
    _functional.rprop(params, grads, prevs, step_sizes, state_steps, etas=etas, step_sizes=bounds, maximize=maximize)


@rgrad.no_grad()
def adafactor(
    params: Tensors,
    grads: Tensors,
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    state_steps: Tensors,
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: float | Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """Updates parameters as :class:`Adafactor`."""
    _check(False, grad_scale, found_inf)
    names = ("row_var", "col_var", "variance", "step")
    entries = zip(row_vars, col_vars, variances, state_steps, strict=True)
    _functional.adafactor(
        params,
        grads,
        [dict(zip(names, entry, strict=True)) for entry in entries],
        lr=number(lr),
        beta2_decay=beta2_decay,
        eps=(eps1, eps2),
        d=d,
        weight_decay=weight_decay,
        maximize=maximize,
    )


@rgrad.no_grad()
def muon(
    params: Tensors,
    grads: Tensors,
    muon_momentum_bufs: Tensors,
    *,
    foreach: bool | None = None,
    lr: float,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool = False,
) -> None:
    """Updates matrices as :class:`Muon`."""
    update_matrices(
        params,
        grads,
        muon_momentum_bufs,
        number(lr),
        weight_decay,
        momentum,
        nesterov,
        ns_coefficients,
        ns_steps,
        eps,
        adjust_lr_fn,
    )


def sparse_adam(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, state_steps: list[int], **settings: Any
) -> None:
    """Refuses dense gradients, as :class:`SparseAdam`."""
    if grads:
        raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
