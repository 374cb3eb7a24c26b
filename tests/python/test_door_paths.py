"""Module paths of PyTorch: what is imported and pickled by them is there."""

from __future__ import annotations

import importlib
import pickle

import pytest
from test_door import _inside

import rgrad
from rgrad._door._paths import PATHS, home


@pytest.mark.parametrize("path", PATHS)
def test_every_name_of_a_row_is_there(path):
    source, names = PATHS[path]
    module = importlib.import_module(f"rgrad.{source}")
    assert names and [name for name in names if not hasattr(module, name)] == []
    assert len(set(names)) == len(names)


def test_every_row_can_be_imported_and_gives_the_objects_of_rgrad():
    code = """
import importlib, pickle, torch
from rgrad._door._paths import PATHS
for path, (source, names) in PATHS.items():
    module = importlib.import_module("torch." + path)
    for name in names:
        value = getattr(module, name)
        assert value is getattr(importlib.import_module("rgrad." + source), name), (path, name)
        if isinstance(value, type):
            assert pickle.loads(pickle.dumps(value)) is value
            assert value.__module__.startswith("torch"), value
print(torch.nn.modules.instancenorm.InstanceNorm2d, torch.nn.modules.conv.ConvTranspose2d, torch.cuda.amp.GradScaler)
print(torch.optim.lr_scheduler.StepLR, torch.optim.Adam, torch.utils.data.DataLoader, torch.nn.Parameter, torch.Size)
from torch.nn.modules.pixelshuffle import *
print(PixelUnshuffle, torch.nn.modules.pixelshuffle.PixelShuffle)
"""
    assert _inside(code).splitlines() == [
        "<class 'torch.nn.modules.instancenorm.InstanceNorm2d'> <class 'torch.nn.modules.conv.ConvTranspose2d'> "
        "<class 'torch.cuda.amp.grad_scaler.GradScaler'>",
        "<class 'torch.optim.lr_scheduler.StepLR'> <class 'torch.optim.adam.Adam'> "
        "<class 'torch.utils.data.dataloader.DataLoader'> <class 'torch.nn.parameter.Parameter'> <class 'torch.Size'>",
        "<class 'torch.nn.modules.pixelshuffle.PixelUnshuffle'> <class 'torch.nn.modules.pixelshuffle.PixelShuffle'>",
    ]


def test_every_module_pickles_under_a_path_of_pytorch_and_comes_back():
    code = """
import pickle, torch
for name in torch.nn.__all__:
    value = getattr(torch.nn, name)
    if isinstance(value, type):
        assert value.__module__.startswith("torch.nn."), value
        assert b"rgrad" not in pickle.dumps(value) and pickle.loads(pickle.dumps(value)) is value
model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.ConvTranspose1d(4, 1, 1))
data = pickle.dumps(model)
assert b"torch.nn.modules.conv" in data
print(repr(pickle.loads(data)) == repr(model))
"""
    assert _inside(code) == "True"


def test_whole_models_saved_with_the_door_open_load_without_it(tmp_path):
    file = tmp_path / "model.pt"
    code = f"""
import torch
torch.save(torch.nn.Sequential(torch.nn.Conv1d(4, 4, 1), torch.nn.PixelShuffle(1)), {str(file)!r})
model = torch.load({str(file)!r}, weights_only=False)
print(type(model[1]))
"""
    assert _inside(code) == "<class 'torch.nn.modules.pixelshuffle.PixelShuffle'>"
    model = rgrad.load(file, weights_only=False)
    assert type(model[1]) is rgrad.nn.PixelShuffle and b"pixelshuffle" in file.read_bytes()


def test_a_class_that_two_namespaces_have_goes_to_its_own():
    assert home("cuda.amp", "GradScaler") == "cuda.amp.grad_scaler"
    assert home("amp.grad_scaler", "GradScaler") is None
    assert home("nn.modules.upsampling", "PixelShuffle") == "nn.modules.pixelshuffle"
    assert pickle.loads(pickle.dumps(rgrad.nn.PixelShuffle)) is rgrad.nn.PixelShuffle
