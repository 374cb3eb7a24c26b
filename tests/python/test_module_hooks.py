"""Hooks of modules, of their registration, and their handles."""

from __future__ import annotations

import pickle
import warnings
from collections import OrderedDict

import pytest

import rgrad as torch
from rgrad import nn
from rgrad.nn.modules import module
from rgrad.nn.modules.module import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_full_backward_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from rgrad.utils.hooks import RemovableHandle, unserializable_hook, warn_if_has_hooks


def note(module, inputs, output):
    """A hook that pickle finds by its name."""
    output.noted = True


def test_hooks_of_the_older_form_see_the_last_node():
    seen = []
    layer = nn.ReLU()
    handle = layer.register_backward_hook(lambda m, gi, go: seen.append((m, len(gi), go[0].tolist())))
    layer(torch.ones(2, requires_grad=True) * 1).sum().backward()
    handle.remove()
    layer(torch.ones(2, requires_grad=True)).sum().backward()
    assert seen == [(layer, 1, [1.0, 1.0])]


def test_both_forms_of_backward_hooks_exclude_each_other():
    layer = nn.ReLU()
    with layer.register_backward_hook(print), pytest.raises(RuntimeError, match="on a single Module"):
        layer.register_full_backward_hook(print)
    with layer.register_full_backward_hook(print), pytest.raises(RuntimeError, match="Cannot use both regular"):
        layer.register_backward_hook(print)
    with register_module_backward_hook(print), pytest.raises(RuntimeError, match="as a global Module hook"):
        register_module_full_backward_hook(print)


def test_a_backward_hook_sees_zeros_for_inputs_that_get_no_gradient():
    class Two(nn.Module):
        def forward(self, x, y):
            return x * 2, y * 3

    seen, module = [], Two()
    module.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    x, y = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    module(x, y)[0].sum().backward()
    ((by_x, by_y), (first, second)) = seen[0]
    assert by_x.item() == 2.0 and by_y.item() == 0.0 and first.item() == 1.0 and second is None
    assert y.grad.item() == 0.0


def test_registration_hooks_see_and_replace_new_members():
    seen = []
    handles = [
        register_module_parameter_registration_hook(lambda m, name, p: seen.append(("parameter", name))),
        register_module_buffer_registration_hook(lambda m, name, b: seen.append(("buffer", name))),
        register_module_module_registration_hook(lambda m, name, c: seen.append(("module", name))),
    ]
    nn.Sequential(nn.BatchNorm1d(1))
    for handle in handles:
        handle.remove()
    assert seen == [
        ("parameter", "weight"),
        ("parameter", "bias"),
        ("buffer", "running_mean"),
        ("buffer", "running_var"),
        ("buffer", "num_batches_tracked"),
        ("module", "0"),
    ]

    def frozen(module, name, parameter):
        return nn.Parameter(parameter.detach(), requires_grad=False)

    with register_module_parameter_registration_hook(frozen):
        layer = nn.Linear(1, 1)
    assert not layer.weight.requires_grad and nn.Linear(1, 1).weight.requires_grad


def test_a_module_is_pickled_with_its_hooks_and_their_handle():
    layer = nn.Linear(1, 1)
    handle = layer.register_forward_hook(note)
    twin, twin_handle = pickle.loads(pickle.dumps((layer, handle)))
    assert twin(torch.ones(1)).noted
    twin_handle.remove()
    assert not hasattr(twin(torch.ones(1)), "noted") and layer(torch.ones(1)).noted


def test_handles_of_tensor_hooks_are_handles_too():
    x, seen = torch.ones(1, requires_grad=True), []
    with x.register_hook(lambda g: seen.append(g.item())) as handle:
        assert isinstance(handle, RemovableHandle) and not isinstance(x, RemovableHandle)
        pickle.loads(pickle.dumps(handle)).remove()
        (x * 2).backward()
    (x * 3).backward()
    assert seen == [2.0]


def test_a_global_hook_runs_before_a_modules_own():
    order, layer = [], nn.Identity()
    layer.register_forward_hook(lambda m, a, o: order.append("own"))
    with register_module_forward_hook(lambda m, a, k, o: order.append(sorted(k)), with_kwargs=True):
        layer(torch.ones(1))
    layer(torch.ones(1))
    assert order == [[], "own", "own"]


def test_programs_drop_all_global_hooks_by_a_new_dictionary(monkeypatch):
    monkeypatch.setattr(module, "_global_forward_hooks", OrderedDict())
    monkeypatch.setattr(module, "_global_backward_hooks", OrderedDict())
    calls = []
    handle = register_module_forward_hook(lambda m, a, o: calls.append("forward"))
    register_module_backward_hook(lambda m, i, o: calls.append("backward"))
    assert handle.hooks_dict_ref() is module._global_forward_hooks and handle.id in module._global_forward_hooks
    x = torch.ones(2, requires_grad=True) * 1
    nn.Sigmoid()(x).sum().backward(retain_graph=True)
    assert calls == ["forward", "backward"]
    module._global_forward_hooks, module._global_backward_hooks = OrderedDict(), OrderedDict()
    nn.Sigmoid()(x).sum().backward(retain_graph=True)
    handle.remove()
    assert calls == ["forward", "backward"]
    with register_module_full_backward_hook(lambda m, i, o: calls.append("full")):
        nn.Sigmoid()(x).sum().backward(retain_graph=True)
    assert calls[2:] == ["full"] and len(module._global_backward_hooks) == 0


def test_hooks_that_a_pickle_leaves_behind_are_mentioned_once_marked_they_are_not():
    class Tracked:
        _backward_hooks = {0: note, 1: unserializable_hook(lambda g: g)}

    with pytest.warns(UserWarning, match="will not be serialized") as caught:
        warn_if_has_hooks(Tracked())
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (lambda x: {"a": x.exp()}, "that does not return a single Tensor or a tuple of Tensors"),
        (lambda x: (x.exp(), x.sin()), "outputs are generated by different autograd Nodes"),
        (lambda x: (x * 2).exp(), "the forward contains multiple autograd Nodes"),
    ],
)
def test_hooks_of_the_older_form_warn_of_what_they_do_not_see(forward, words):
    class Module(nn.Module):
        def forward(self, x):
            return forward(x)

    module = Module()
    module.register_backward_hook(lambda *_: None)
    with pytest.warns(FutureWarning, match=words):
        module(torch.ones(2, requires_grad=True) * 1)


def test_hooks_of_the_older_form_are_silent_where_they_see_all():
    class Module(nn.Module):
        def forward(self, x):
            return x.exp()

    module, seen = Module(), []
    module.register_backward_hook(lambda _, inputs, outputs: seen.append((inputs, outputs)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module(torch.zeros(2, requires_grad=True) * 1).mul(3).sum().backward()
    [((of_input,), (of_output,))] = seen
    assert of_input.tolist() == of_output.tolist() == [3, 3]
