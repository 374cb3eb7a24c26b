"""Optimizers and schedules whose values are compared with PyTorch's; see `reference`."""

from __future__ import annotations

import warnings
from typing import Any

from reference import Case, wave, write

# Every optimizer with settings under which all of its state counts.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1},
        {"momentum": 0.8, "nesterov": True},
    ],
    "Adam": [{"lr": 0.1, "weight_decay": 0.1}, {"lr": 0.1, "amsgrad": True, "maximize": True}],
    "AdamW": [{"lr": 0.1, "weight_decay": 0.3}],
    "Adamax": [{"lr": 0.1, "weight_decay": 0.1}],
    "NAdam": [{"lr": 0.1, "weight_decay": 0.1}, {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{"lr": 0.1, "weight_decay": 0.1}],
    "RMSprop": [{"lr": 0.1, "weight_decay": 0.1}, {"lr": 0.1, "momentum": 0.9, "centered": True, "maximize": True}],
    "Adagrad": [{"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1}],
    "Adadelta": [{"lr": 0.9, "weight_decay": 0.1}],
    "ASGD": [{"lr": 0.1, "weight_decay": 0.1, "t0": 2}],
    "Rprop": [{"lr": 0.1}],
}


def _recorded(name: str, settings: dict[str, Any]) -> Case:
    def case(torch: Any) -> Any:
        # Of one step: those of PyTorch write to state that an earlier one saved.
        start, force = wave(torch, 3, 2).requires_grad_(), wave(torch, 3, 2, phase=1.0).requires_grad_()
        param = start.clone()
        optimizer = getattr(torch.optim, name)([param], differentiable=True, **settings)
        param.grad = force * force * 2
        optimizer.step()
        loss = (param * wave(torch, 3, 2, phase=7.0)).sum() + 0.0 * force.sum()
        grads = torch.autograd.grad(loss, [start, force], retain_graph=True)
        with torch.no_grad():
            later = start.detach().clone()
            optimizer = getattr(torch.optim, name)([later], differentiable=True, **settings)
            for phase in (1.0, 2.0, 3.0):
                later.grad = wave(torch, 3, 2, phase=phase)
                optimizer.step()
        return [param, *grads, later]

    return case


def _muon(shape: tuple[int, int], **settings: Any) -> Case:
    def case(torch: Any) -> Any:
        param = wave(torch, *shape, dtype="float32").requires_grad_()
        optimizer = torch.optim.Muon([param], lr=0.1, **settings)
        for phase in (1.0, 2.0):
            param.grad = wave(torch, *shape, phase=phase, dtype="float32")
            optimizer.step()
        return [param, optimizer.state_dict()["state"][0]["momentum_buffer"], repr(optimizer)]

    return case


def _schedule(make: Any) -> Case:
    def case(torch: Any) -> Any:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
        schedule = make(torch.optim.lr_scheduler, optimizer)
        rates = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for epoch in (None, None, 4, 5, None, 2, None, None, 9, None, 0, None):
                optimizer.step()
                schedule.step(epoch)
                rates.append(schedule.get_last_lr()[0])
        return [rates, schedule.last_epoch]

    return case


def _functions(torch: Any) -> Any:
    """One step by the functions, of two parameters."""
    from importlib import import_module

    functions = import_module(f"{torch.__name__}.optim.functional")

    def of(phase: float) -> list[Any]:
        return [wave(torch, 3, 2, phase=phase), wave(torch, 4, phase=phase)]

    def squares(phase: float) -> list[Any]:
        return [x * x + 0.1 for x in of(phase)]

    def counts() -> list[Any]:
        return [torch.tensor(3.0), torch.tensor(0.0)]

    common: dict[str, Any] = {"lr": 0.1, "weight_decay": 0.1, "eps": 1e-8}
    betas = {"beta1": 0.9, "beta2": 0.99}
    calls = {
        "adadelta": ((of(0), of(1), squares(2), squares(3), counts()), common | {"rho": 0.9, "maximize": False}),
        "adagrad": ((of(0), of(1), squares(2), counts()), common | {"lr_decay": 0.1, "maximize": True}),
        "adam": (
            (of(0), of(1), of(2), squares(3), squares(4), counts()),
            common | betas | {"amsgrad": True, "maximize": False},
        ),
        "adamw": (
            (of(0), of(1), of(2), squares(3), [], counts()),
            common | betas | {"amsgrad": False, "maximize": False},
        ),
        "adamax": ((of(0), of(1), of(2), squares(3), counts()), common | betas),
        "asgd": (
            (of(0), of(1), of(2), [torch.tensor(0.5)] * 2, [torch.tensor(0.1)] * 2, counts()),
            {"lr": 0.1, "lambd": 1e-2, "t0": 1, "alpha": 0.75, "weight_decay": 0.1},
        ),
        "nadam": (
            (of(0), of(1), of(2), squares(3), [torch.tensor(0.5), torch.tensor(0.7)], counts()),
            common | betas | {"momentum_decay": 4e-3},
        ),
        "radam": ((of(0), of(1), of(2), squares(3), counts()), common | betas),
        "rmsprop": (
            (of(0), of(1), squares(2), of(3), of(4), counts()),
            common | {"alpha": 0.9, "momentum": 0.9, "centered": False},
        ),
        "rprop": (
            (of(0), of(1), of(2), squares(3), counts()),
            {"step_size_min": 1e-6, "step_size_max": 50, "etaminus": 0.5, "etaplus": 1.2},
        ),
        "sgd": (
            (of(0), of(1), [of(2)[0], None]),
            {"lr": 0.1, "weight_decay": 0.1, "momentum": 0.9, "dampening": 0.1, "nesterov": False, "maximize": False},
        ),
    }
    results = []
    for name, (lists, settings) in calls.items():
        with torch.no_grad():
            getattr(functions, name)(*lists, **settings)
        results.append([name, *lists])
    return results


CASES: dict[str, Case] = {
    **{
        f"recorded steps of {name} {settings}": _recorded(name, settings)
        for name, several in SETTINGS.items()
        for settings in several
    },
    "Muon of a wide matrix": _muon((3, 5)),
    "Muon of a tall matrix": _muon((5, 3), nesterov=False, adjust_lr_fn="match_rms_adamw"),
    "Muon of few steps": _muon((4, 4), ns_steps=2, eps=0.1, weight_decay=0.0, adjust_lr_fn="original"),
    "functions": _functions,
    "epochs of StepLR": _schedule(lambda s, o: s.StepLR(o, 3, 0.5)),
    "epochs of MultiStepLR": _schedule(lambda s, o: s.MultiStepLR(o, [2, 5, 5], 0.3)),
    "epochs of ConstantLR": _schedule(lambda s, o: s.ConstantLR(o, 0.4, 4)),
    "epochs of LinearLR": _schedule(lambda s, o: s.LinearLR(o, 0.2, 0.9, 6)),
    "epochs of ExponentialLR": _schedule(lambda s, o: s.ExponentialLR(o, 0.7)),
    "epochs of PolynomialLR": _schedule(lambda s, o: s.PolynomialLR(o, 6, 2.0)),
    "epochs of CosineAnnealingLR": _schedule(lambda s, o: s.CosineAnnealingLR(o, 5, 0.01)),
    "epochs of CosineAnnealingWarmRestarts": _schedule(lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01)),
    "epochs of LambdaLR": _schedule(lambda s, o: s.LambdaLR(o, lambda epoch: 1 / (1 + epoch))),
    "epochs of MultiplicativeLR": _schedule(lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9)),
    "epochs of CyclicLR": _schedule(lambda s, o: s.CyclicLR(o, 0.1, 1.0, 3)),
    "epochs of OneCycleLR": _schedule(lambda s, o: s.OneCycleLR(o, 1.0, total_steps=30)),
}

if __name__ == "__main__":
    write(CASES, __file__)
