"""Modules that are computing, and dictionaries that do not keep tensors alive."""

from __future__ import annotations

import copy

import pytest

import rgrad as torch
from rgrad import nn
from rgrad.utils.module_tracker import ModuleTracker
from rgrad.utils.weak import TensorWeakRef, WeakIdRef, WeakTensorKeyDictionary


def test_the_tracker_knows_the_modules_of_the_forward_and_of_the_backward_pass():
    seen = []

    class Sees(nn.Module):
        def forward(self, x):
            seen.append((sorted(tracker.parents), tracker.is_bw))
            x = x * 1
            x.register_hook(lambda g: seen.append((sorted(tracker.parents), tracker.is_bw)))
            return x * 2

    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(Sees()))
    with ModuleTracker() as tracker:
        y = model(torch.ones(1, 2)).sum()
        assert tracker.parents == {"Global"}
        y.backward()
        assert tracker.parents == {"Global"} and not tracker.is_bw
    path = ["Global", "Sequential", "Sequential.1", "Sequential.1.0"]
    assert seen == [(path, False), (path, True)]
    seen.clear()
    model(torch.ones(1, 2))
    assert seen == [(["Global"], False)]


def test_keys_are_told_apart_as_objects_and_go_with_them():
    x, y = torch.zeros(2), torch.zeros(2)
    names = WeakTensorKeyDictionary({x: "x"})
    names[y] = "y"
    assert (names[x], names[y], len(names), x in names, 3 in names) == ("x", "y", 2, True, False)
    copied = copy.deepcopy(names)
    assert copied == names and copied is not names and list(copied.values()) == ["x", "y"]
    assert (names | {y: "z"})[y] == "z" and names[y] == "y"
    del x
    assert list(names.items()) == [(y, "y")]
    del names[y]
    assert len(names) == 0
    with pytest.raises(KeyError):
        names[y]


def test_weak_references_die_with_the_tensor():
    x = torch.zeros(2)
    reference, by_id = TensorWeakRef(x), WeakIdRef(x)
    assert reference() is x and by_id == WeakIdRef(x) and by_id != WeakIdRef(torch.zeros(2))
    del x
    assert reference() is None and by_id() is None and by_id == by_id
    with pytest.raises(AssertionError, match="expected torch.Tensor"):
        TensorWeakRef(3)
