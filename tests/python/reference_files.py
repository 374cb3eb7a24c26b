"""Files that PyTorch saves, for the tests that load them, and what is in them.

Run by a Python that has PyTorch and NumPy, this writes the files of `reference_files/` anew, and beside them
`values.json` with what the files hold and what the optimizers, schedulers and modules in them compute next:

    python tests/python/reference_files.py
"""

from __future__ import annotations

import importlib
import json
import random
import zlib
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy
from reference import filled, plain, wave

HERE = Path(__file__).with_suffix("")

FLOATS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
INTEGERS = {"int64": 63, "int32": 31, "int16": 15, "int8": 7}

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "Adadelta": {},
    "Adafactor": {},
    "Adagrad": {"lr": 0.1},
    "Adam": {"lr": 0.1, "amsgrad": True},
    "AdamW": {"lr": 0.1},
    "Adamax": {"lr": 0.1},
    "ASGD": {"lr": 0.1, "t0": 2},
    "LBFGS": {"lr": 0.1, "history_size": 3},
    "NAdam": {"lr": 0.1},
    "RAdam": {"lr": 0.1},
    "RMSprop": {"lr": 0.1, "momentum": 0.9, "centered": True},
    "Rprop": {"lr": 0.1},
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
}

SCHEDULERS: dict[str, Callable[[Any, Any], Any]] = {
    "StepLR": lambda s, o: s.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5], 0.3),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.4, 5),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.2, 0.9, 6),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.7),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 6, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, 0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 3),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 1.0, total_steps=30),
    "SequentialLR": lambda s, o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 9), s.ExponentialLR(o, 0.5)], [2]),
}


def dtypes(torch: Any) -> dict[str, Any]:
    """A tensor of every dtype, with the numbers at its limits."""
    result = {
        # One bit above 1, the least and the greatest number, and those that are no numbers.
        name: torch.tensor(
            [1 + 2.0 ** (1 - bits), torch.finfo(getattr(torch, name)).max, torch.finfo(getattr(torch, name)).tiny]
            + [-0.0, float("inf"), float("-inf"), float("nan")],
            dtype=torch.float64,
        ).to(getattr(torch, name))
        for name, bits in FLOATS.items()
    }
    for name, bits in INTEGERS.items():
        result[name] = torch.tensor([-(2**bits), -1, 2**bits - 1], dtype=getattr(torch, name))
    result["uint8"] = torch.tensor([[0, 1], [128, 255]], dtype=torch.uint8)
    result["bool"] = torch.tensor([True, False, True])
    result["of no dimension"] = torch.tensor(2.5)
    result["of no elements"] = torch.zeros(3, 0, 2, dtype=torch.int16)
    result["requires grad"] = torch.tensor([1.0, 2.0], requires_grad=True)
    return result


def layouts(torch: Any) -> dict[str, Any]:
    """Views that share one storage, and tensors whose elements are not in order."""
    base = torch.arange(24.0)
    return {
        "base": base,
        "rows": base.view(4, 6)[1:3],
        "transposed": base.view(4, 6).t(),
        "every third": base[2::3],
        "expanded": base[5:7].unsqueeze(1).expand(2, 3),
        "channels last": wave(torch, 2, 3, 2, 2).to(memory_format=torch.channels_last),
        "permuted": wave(torch, 2, 3, 4, dtype="float32").permute(2, 0, 1),
    }


def tied(torch: Any) -> dict[str, Any]:
    """A parameter with two names, alone and as the weights of two layers."""
    weight = torch.nn.Parameter(wave(torch, 3, 2))
    model = torch.nn.Sequential(torch.nn.Embedding(3, 2), torch.nn.Linear(2, 3))
    model[1].weight = model[0].weight
    filled(torch, model)
    return {
        "one": weight,
        "same": weight,
        "other": torch.nn.Parameter(weight.data[1:], False),
        "state": model.state_dict(),
    }


def arrays(torch: Any) -> dict[str, Any]:
    """NumPy's arrays and numbers, and the states of random generators."""
    torch.manual_seed(3)
    return {
        "float64": numpy.linspace(-1, 1, 6).reshape(2, 3),
        "in Fortran's order": numpy.asfortranarray(numpy.arange(6, dtype=numpy.int16).reshape(2, 3)),
        "big-endian": numpy.arange(3, dtype=">i4"),
        "bool": numpy.array([True, False]),
        "half": numpy.array([0.5, -2], dtype=numpy.float16),
        "of no elements": numpy.zeros((2, 0), dtype=numpy.float32),
        "number": numpy.float32(1.25),
        "numpy.random": numpy.random.RandomState(5).get_state(),
        "generator": numpy.random.default_rng(5).bit_generator.state,
        "random": random.Random(5).getstate(),
        "torch": torch.get_rng_state(),
    }


def start(torch: Any) -> list[Any]:
    """The parameters that the optimizers change."""
    return [torch.nn.Parameter(wave(torch, 3, 2)), torch.nn.Parameter(wave(torch, 4, phase=2.0))]


def step(torch: Any, optimizer: Any, parameters: list[Any], phase: float) -> None:
    """One step towards fixed points, which are others in each step."""

    def closure() -> Any:
        optimizer.zero_grad()
        losses = [((p - 2 * wave(torch, *p.shape, phase=phase)) ** 2).sum() for p in parameters]
        loss = losses[0] + losses[1]
        loss.backward()
        return loss

    optimizer.step(closure)


def optimizer(torch: Any, name: str, parameters: list[Any]) -> Any:
    groups = [{"params": parameters[:1]}, {"params": parameters[1:], "weight_decay": 0.1}]
    if name == "LBFGS":
        return torch.optim.LBFGS(parameters, **OPTIMIZERS[name])
    if name == "Rprop":
        del groups[1]["weight_decay"]
    return getattr(torch.optim, name)(groups, **OPTIMIZERS[name])


def scheduler(torch: Any, name: str) -> Any:
    """A scheduler, and its optimizer as `.optimizer`."""
    return SCHEDULERS[name](torch.optim.lr_scheduler, torch.optim.SGD(start(torch)[:1], lr=0.5, momentum=0.8))


def _optimizers(torch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    saved, after = {}, {}
    for name in OPTIMIZERS:
        parameters = start(torch)
        made = optimizer(torch, name, parameters)
        for phase in (1.0, 2.0):
            step(torch, made, parameters, phase)
        # Copies: the step that follows writes to the state.
        parts = {"parameters": [p.detach() for p in parameters], "state": made.state_dict()}
        saved[name] = deepcopy(parts)
        step(torch, made, parameters, 3.0)
        after[name] = plain(parameters)
    return saved, after


def _schedulers(torch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    saved, after = {}, {}
    for name in SCHEDULERS:
        made = scheduler(torch, name)

        def advance(made: Any = made) -> None:
            made.optimizer.step()
            made.step()

        for _ in range(3):
            advance()
        parts = {"optimizer": made.optimizer.state_dict(), "scheduler": made.state_dict()}
        saved[name] = deepcopy(parts)
        after[name] = []
        for _ in range(4):
            advance()
            after[name].append(made.get_last_lr())
    return saved, after


def modules(torch: Any) -> dict[str, Any]:
    """Whole modules, of whose classes a file holds the names only, and the shape of their input."""
    nn = torch.nn
    convolutions = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"),
        nn.BatchNorm2d(3),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.ConvTranspose2d(3, 2, 2, stride=2, bias=False),
        nn.GroupNorm(1, 2),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(8, 3),
        nn.LogSoftmax(dim=1),
    )
    kinds = {
        "convolutions": (convolutions, (2, 2, 4, 4)),
        "attention": (
            nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6), 2, enable_nested_tensor=False),
            (3, 2, 4),
        ),
        "recurrent": (nn.LSTM(3, 2, num_layers=2, bidirectional=True, batch_first=True), (2, 4, 3)),
        "in a list": (
            nn.ModuleList([nn.PReLU(), nn.LayerNorm(3), nn.Softplus(), nn.Upsample(scale_factor=2)]),
            (2, 2, 3),
        ),
    }
    result = {}
    for name, (module, shape) in kinds.items():
        filled(torch, module)
        module.eval()
        result[name] = {"module": module, "shape": shape}
    result["in a list"]["module"].register_buffer("extra", torch.arange(3), persistent=False)
    return result


def apply(torch: Any, name: str, part: dict[str, Any]) -> Any:
    """What a module of `modules` computes."""
    value = wave(torch, *part["shape"], phase=0.25)
    if name != "in a list":
        result = part["module"](value)
        return result[0] if isinstance(result, tuple) else result
    for module in part["module"]:
        value = module(value)
    return value


def _write(torch: Any) -> None:
    HERE.mkdir(exist_ok=True)
    values: dict[str, Any] = {"version": str(torch.__version__).split("+")[0]}

    def save(name: str, content: Any, **options: Any) -> None:
        torch.save(content, HERE / f"{name}.pt", **options)

    for make in (dtypes, layouts, tied):
        content = make(torch)
        save(make.__name__, content)
        tensors = {name: value for name, value in content.items() if name != "state"}
        values[make.__name__] = {
            name: {
                "dtype": str(value.dtype),
                "shape": list(value.shape),
                "stride": list(value.stride()),
                "offset": value.storage_offset(),
                "values": plain(value),
            }
            for name, value in tensors.items()
        }
    save("older", layouts(torch), _use_new_zipfile_serialization=False)
    content = arrays(torch)
    save("arrays", content)
    values["arrays"] = {
        "values": {name: plain(value) for name, value in content.items() if isinstance(value, numpy.ndarray)},
        "checksum": zlib.crc32(content["torch"].numpy().tobytes()),
        "random": random.Random(5).sample(range(1000), 3),
        "numpy.random": plain(numpy.random.RandomState(5).random_sample(3)),
        "generator": plain(numpy.random.default_rng(5).random(3)),
    }
    for make in (_optimizers, _schedulers):
        content, after = make(torch)
        save(make.__name__[1:], content)
        values[make.__name__[1:]] = after
    content = modules(torch)
    save("modules", content)
    values["modules"] = {name: plain(apply(torch, name, part)) for name, part in content.items()}
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in values.items())
    (HERE / "values.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    _write(importlib.import_module("torch"))
