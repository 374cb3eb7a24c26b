"""Files of PyTorch load as PyTorch loads them; `reference_files.py` makes them and says what is in them."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import reference_files as files
from reference import check

import rgrad as torch
from rgrad import serialization

VALUES = json.loads((files.HERE / "values.json").read_text())
SAFE = [
    np.ones(1).__reduce__()[0],
    np.float32(1).__reduce__()[0],
    np.ndarray,
    np.dtype,
    # What an array without elements has for data.
    bytes,
    *(type(np.dtype(kind)) for kind in ("f8", "f4", "f2", "i4", "i2", "u4", "bool")),
]


def _load(name: str, **options):
    return torch.load(files.HERE / f"{name}.pt", **options)


def _same(tensor, expected) -> None:
    assert str(tensor.dtype).split(".")[-1] == expected["dtype"].split(".")[-1]
    assert list(tensor.shape) == expected["shape"] and list(tensor.stride()) == expected["stride"]
    assert tensor.storage_offset() == expected["offset"]
    check(tensor, expected["values"], 0.0)


@pytest.mark.parametrize("options", [{}, {"mmap": True}, {"weights_only": False}], ids=str)
def test_tensors_of_every_dtype_and_layout_come_back_bit_for_bit(options):
    for name in ("dtypes", "layouts"):
        loaded = _load(name, **options)
        assert list(loaded) == list(VALUES[name])
        for key, tensor in loaded.items():
            _same(tensor, VALUES[name][key])
    loaded = _load("dtypes", **options)
    assert torch.signbit(loaded["float16"]).tolist()[2:6] == [False, True, False, True]
    assert loaded["requires grad"].requires_grad


@pytest.mark.parametrize("name", ["layouts", "older"])
def test_views_share_their_storage_as_before(name):
    loaded = _load(name)
    for key, tensor in loaded.items():
        _same(tensor, VALUES["layouts"][key])
    base = loaded["base"]
    shared = [key for key in loaded if loaded[key].untyped_storage().data_ptr() == base.untyped_storage().data_ptr()]
    assert shared == ["base", "rows", "transposed", "every third", "expanded"]
    base[5] = -1
    assert loaded["expanded"][0].tolist() == [-1] * 3 and loaded["every third"][1] == -1


def test_tied_parameters_stay_tied():
    loaded = _load("tied")
    assert isinstance(loaded["one"], torch.nn.Parameter) and loaded["same"] is loaded["one"]
    assert loaded["one"].requires_grad and not loaded["other"].requires_grad
    assert loaded["other"].data_ptr() == loaded["one"].data_ptr() + 2 * 8
    for key in ("one", "same", "other"):
        _same(loaded[key], VALUES["tied"][key])
    assert loaded["state"]["0.weight"].data_ptr() == loaded["state"]["1.weight"].data_ptr()
    model = torch.nn.Sequential(torch.nn.Embedding(3, 2), torch.nn.Linear(2, 3)).double()
    assert str(model.load_state_dict(loaded["state"])) == "<All keys matched successfully>"


@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "unrestricted"])
def test_arrays_and_states_of_generators_come_back(allowed):
    with serialization.safe_globals(SAFE if allowed else []):
        loaded = _load("arrays", weights_only=allowed)
    for key, expected in VALUES["arrays"]["values"].items():
        assert isinstance(loaded[key], np.ndarray)
        check(loaded[key], expected, 0.0)
    kinds = {key: loaded[key].dtype for key in VALUES["arrays"]["values"]}
    # NumPy stores big-endian numbers in the order of the machine when it pickles an array.
    assert [kinds[key] for key in ("float64", "big-endian", "half")] == [np.float64, np.int32, np.float16]
    assert loaded["in Fortran's order"].flags.f_contiguous and loaded["of no elements"].shape == (2, 0)
    assert loaded["number"] == 1.25 and loaded["number"].dtype == np.float32
    older, newer, own = np.random.RandomState(), np.random.default_rng(), random.Random()
    older.set_state(loaded["numpy.random"])
    newer.bit_generator.state = loaded["generator"]
    own.setstate(loaded["random"])
    check(older.random_sample(3), VALUES["arrays"]["numpy.random"])
    check(newer.random(3), VALUES["arrays"]["generator"])
    assert own.sample(range(1000), 3) == VALUES["arrays"]["random"]
    assert loaded["torch"].dtype == torch.uint8
    assert zlib.crc32(loaded["torch"].numpy().tobytes()) == VALUES["arrays"]["checksum"]


def test_arrays_that_are_not_allowed_are_refused():
    with pytest.raises(pickle.UnpicklingError, match="_reconstruct"):
        _load("arrays")
    without = [entry for entry in SAFE if entry is not bytes]
    with serialization.safe_globals(without), pytest.raises(pickle.UnpicklingError, match=r"safe_globals\(\[bytes\]\)"):
        _load("arrays")
    names = serialization.get_unsafe_globals_in_checkpoint(files.HERE / "arrays.pt")
    assert {"builtins.bytes", "numpy.dtype"} & set(names) == {"builtins.bytes"}


@pytest.mark.parametrize("name", files.OPTIMIZERS)
def test_an_optimizer_goes_on_where_pytorch_saved_it(name):
    saved = _load("optimizers")[name]
    parameters = [torch.nn.Parameter(tensor.clone()) for tensor in saved["parameters"]]
    optimizer = files.optimizer(torch, name, parameters)
    optimizer.load_state_dict(saved["state"])
    files.step(torch, optimizer, parameters, 3.0)
    check(parameters, VALUES["optimizers"][name], 1e-9, name)
    assert optimizer.state_dict()["state"][0].keys() == saved["state"]["state"][0].keys()
    for mine, theirs in zip(optimizer.state_dict()["param_groups"], saved["state"]["param_groups"], strict=True):
        assert mine.keys() == theirs.keys()


@pytest.mark.parametrize("name", files.SCHEDULERS)
def test_a_scheduler_goes_on_where_pytorch_saved_it(name):
    saved = _load("schedulers")[name]
    scheduler = files.scheduler(torch, name)
    scheduler.optimizer.load_state_dict(saved["optimizer"])
    scheduler.load_state_dict(saved["scheduler"])
    rates = []
    for _ in range(4):
        scheduler.optimizer.step()
        scheduler.step()
        rates.append(scheduler.get_last_lr())
    check(rates, VALUES["schedulers"][name], 1e-9, name)


MODULES = """
import json, sys
import torch, reference_files as files
from reference import check

values = json.loads((files.HERE / "values.json").read_text())
try:
    torch.load(files.HERE / "modules.pt")
except Exception as error:
    assert "torch.nn.modules.container.Sequential" in str(error), error
else:
    raise AssertionError("classes were loaded by weights_only=True")
loaded = torch.load(files.HERE / "modules.pt", weights_only=False)
assert list(loaded) == list(values["modules"])
for name, part in loaded.items():
    check(files.apply(torch, name, part), values["modules"][name], 1e-9, name)
module = loaded["convolutions"]["module"]
assert type(module[0]) is torch.nn.Conv2d and repr(module) == repr(files.modules(torch)["convolutions"]["module"])
others = loaded["in a list"]["module"]
assert others.extra.tolist() == [0, 1, 2] and "extra" not in others.state_dict()
module.train()
files.apply(torch, "convolutions", loaded["convolutions"]).sum().backward()
assert all(p.grad is not None for p in module.parameters())
"""


@pytest.mark.parametrize("door", ["through the door", "by its own name"])
def test_whole_modules_compute_what_they_did_in_pytorch(door, tmp_path):
    if door == "through the door":
        code = "import rgrad.as_torch\n" + MODULES
    else:
        code = MODULES.replace("import torch,", "import rgrad as torch,")
    path = os.pathsep.join([str(Path(torch.__file__).parents[1]), str(Path(files.__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
