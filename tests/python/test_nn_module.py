"""``nn.Module``: registration, state, hooks, printing, copying."""

import copy
import gc
import pickle
import traceback
import weakref
from collections import OrderedDict

import pytest

import rgrad as torch
from rgrad import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3, 4)
        self.act = nn.ReLU()
        self.fc2 = nn.Linear(4, 2, bias=False)
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, x, *, shift=0.0):
        return self.fc2(self.act(self.fc1(x))) * self.scale + shift


class Quickstart(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10))


def names(pairs):
    return [name for name, _ in pairs]


def test_members_are_found_in_order_of_assignment():
    net = Net()
    assert names(net.named_parameters()) == ["fc1.weight", "fc1.bias", "fc2.weight"]
    assert names(net.named_buffers()) == ["scale", "scratch"]
    assert names(net.named_children()) == ["fc1", "act", "fc2"]
    assert names(net.named_modules()) == ["", "fc1", "act", "fc2"]
    assert names(net.named_parameters(prefix="net", recurse=False)) == []


def test_a_shared_module_is_listed_once():
    layer = nn.Linear(2, 2)
    pair = nn.ModuleList([layer, layer])
    assert names(pair.named_parameters()) == ["0.weight", "0.bias"]
    assert len(list(pair.named_parameters(remove_duplicate=False))) == 4
    assert len(list(pair.children())) == 1


@pytest.mark.parametrize("registry", ["_parameters", "_buffers", "_modules"])
def test_writing_a_registry_changes_the_attribute(registry):
    module = nn.Module()
    value = {"_parameters": nn.Parameter(torch.ones(2)), "_buffers": torch.ones(2), "_modules": nn.ReLU()}[
        registry
    ]
    getattr(module, registry)["member"] = value
    assert module.member is value
    assert "member" in module.__dict__
    del getattr(module, registry)["member"]
    assert not hasattr(module, "member")
    getattr(module, registry).update(member=value)
    assert module.member is value
    getattr(module, registry).clear()
    assert not hasattr(module, "member")
    setattr(module, registry, {"member": value})
    assert module.member is value
    getattr(module, registry).pop("member")
    assert not hasattr(module, "member")


def test_assigning_an_attribute_changes_the_registry():
    module = nn.Linear(2, 2)
    weight = nn.Parameter(torch.zeros(2, 2))
    module.weight = weight
    assert module._parameters["weight"] is weight and module.weight is weight
    module.bias = None
    assert module._parameters["bias"] is None and module.bias is None
    assert names(module.named_parameters()) == ["weight"]
    del module.weight
    assert not hasattr(module, "weight") and "weight" not in module._parameters


def test_a_member_that_changes_kind_leaves_its_old_registry():
    module = nn.Module()
    module.thing = 3
    module.thing = nn.Parameter(torch.ones(1))
    assert "thing" in module._parameters
    assert names(module.named_parameters()) == ["thing"]
    del module.thing
    module.thing = nn.ReLU()
    assert "thing" not in module._parameters and "thing" in module._modules
    module.thing = nn.Parameter(torch.ones(1))
    assert "thing" in module._parameters and "thing" not in module._modules
    module.register_parameter("other", None)
    assert module.other is None


def test_a_dropped_module_is_freed_without_the_garbage_collector():
    gc.disable()
    try:
        net = Net()
        alive = weakref.ref(net)
        del net
        assert alive() is None
    finally:
        gc.enable()


def test_a_buffer_object_registers_itself():
    module = nn.Module()
    module.kept = nn.Buffer(torch.ones(2))
    module.dropped = nn.Buffer(torch.ones(2), persistent=False)
    assert list(module.state_dict()) == ["kept"]
    assert names(module.named_buffers()) == ["kept", "dropped"]
    assert isinstance(module.kept, nn.Buffer) and not isinstance(torch.ones(1), nn.Buffer)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda m: setattr(m, "fc1", 3),
            TypeError,
            "cannot assign 'int' as child module 'fc1' (torch.nn.Module or None expected)",
        ),
        (
            lambda m: setattr(m, "scale", 3),
            TypeError,
            "cannot assign 'int' as buffer 'scale' (torch.nn.Buffer, torch.Tensor or None expected)",
        ),
        (
            lambda m: setattr(m.fc1, "weight", 3),
            TypeError,
            "cannot assign 'int' as parameter 'weight' (torch.nn.Parameter or None expected)",
        ),
        (
            lambda m: setattr(m.fc1, "weight", torch.ones(2)),
            TypeError,
            "cannot assign 'torch.FloatTensor' as parameter 'weight' (torch.nn.Parameter or None expected)",
        ),
        (lambda m: m.register_buffer(3, None), TypeError, "buffer name should be a string. Got int"),
        (lambda m: m.register_buffer("a.b", None), KeyError, 'buffer name can\\\'t contain "."'),
        (lambda m: m.register_buffer("", None), KeyError, 'buffer name can\\\'t be empty string ""'),
        (lambda m: m.register_buffer("fc1", None), KeyError, "attribute 'fc1' already exists"),
        (
            lambda m: m.register_buffer("new", 3),
            TypeError,
            "cannot assign 'int' object to buffer 'new' (torch Tensor or None required)",
        ),
        (
            lambda m: m.register_parameter("new", 3),
            TypeError,
            "cannot assign 'int' object to parameter 'new' (torch.nn.Parameter or None required)",
        ),
        (lambda m: m.add_module("new", 3), TypeError, "int is not a Module subclass"),
        (lambda m: m.add_module("a.b", nn.ReLU()), KeyError, 'module name can\\\'t contain ".", got: a.b'),
        (lambda m: m.nothing, AttributeError, "'Net' object has no attribute 'nothing'"),
        (
            lambda m: nn.Module()(3),
            NotImplementedError,
            'Module [Module] is missing the required "forward" function',
        ),
        (
            lambda m: m.to(torch.int32),
            TypeError,
            "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.int32",
        ),
        (lambda m: m.get_submodule("fc9.x"), AttributeError, "Net has no attribute `fc9`"),
        (lambda m: m.get_submodule("scale"), AttributeError, "`scale` is not an nn.Module"),
        (lambda m: m.get_parameter("scale"), AttributeError, "`scale` is not an nn.Parameter"),
        (lambda m: m.get_buffer("fc1.weight"), AttributeError, "`weight` is not a buffer"),
        (lambda m: m.train(1), ValueError, "training mode is expected to be boolean"),
        (lambda m: nn.Module(3), TypeError, "Module.__init__() takes 1 positional argument but 2 were given"),
        (
            lambda m: m.load_state_dict(3),
            TypeError,
            "Expected state_dict to be dict-like, got <class 'int'>.",
        ),
    ],
)
def test_mistakes_raise_pytorchs_errors(change, error, message):
    with pytest.raises(error) as caught:
        change(Net())
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [nn.ReLU(), nn.Parameter(torch.ones(1))])
def test_assigning_members_before_init_is_an_error(value):
    class Early(nn.Module):
        def __init__(self):
            self.member = value

    with pytest.raises(
        AttributeError, match=r"cannot assign (module|parameters) before Module.__init__\(\) call"
    ):
        Early()


def test_modules_print_as_in_pytorch():
    assert repr(Quickstart()) == (
        "Quickstart(\n"
        "  (flatten): Flatten(start_dim=1, end_dim=-1)\n"
        "  (linear_relu_stack): Sequential(\n"
        "    (0): Linear(in_features=784, out_features=512, bias=True)\n"
        "    (1): ReLU()\n"
        "    (2): Linear(in_features=512, out_features=10, bias=True)\n"
        "  )\n"
        ")"
    )


def test_extra_repr_of_several_lines_stands_above_the_children():
    class Noted(nn.Module):
        def extra_repr(self):
            return "first\nsecond"

    assert repr(Noted()) == "Noted(\n  first\n  second\n)"
    noted = Noted()
    noted.child = nn.ReLU()
    assert repr(noted) == "Noted(\n  first\n  second\n  (child): ReLU()\n)"


def test_dir_lists_members_but_not_numbered_ones():
    assert {"fc1", "scale", "forward"} <= set(dir(Net()))
    assert "0" not in dir(nn.Sequential(nn.ReLU()))


def test_state_dict_holds_parameters_and_persistent_buffers_with_versions():
    state = Net().state_dict()
    assert isinstance(state, OrderedDict)
    assert list(state) == ["scale", "fc1.weight", "fc1.bias", "fc2.weight"]
    assert state._metadata["fc1"] == {"version": 1}
    assert not any(value.requires_grad for value in state.values())
    assert list(nn.Linear(1, 1).state_dict(prefix="head.")) == ["head.weight", "head.bias"]
    assert nn.Linear(1, 1).state_dict(keep_vars=True)["weight"].requires_grad


def test_loading_copies_into_the_same_parameters():
    source, target = Net(), Net()
    before = list(target.parameters())
    result = target.load_state_dict(source.state_dict())
    assert repr(result) == str(result) == "<All keys matched successfully>"
    assert all(a is b for a, b in zip(before, target.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(source.parameters(), target.parameters(), strict=True))
    assert all(p.requires_grad for p in target.parameters())


def test_assigning_a_state_dict_replaces_the_parameters():
    target = nn.Linear(2, 2)
    state = {"weight": torch.ones(2, 2, dtype=torch.float64), "bias": torch.zeros(2)}
    old = target.weight
    target.load_state_dict(state, assign=True)
    assert target.weight is not old and target.weight is target._parameters["weight"]
    assert target.weight.dtype == torch.float64 and target.weight.requires_grad
    state["weight"].fill_(5)
    assert target.weight[0, 0].item() == 5


def test_a_wrong_state_dict_reports_every_problem():
    state = {
        "fc1.weight": torch.ones(4, 2),
        "fc1.bias": 3,
        "fc2.weight": torch.ones(2, 4),
        "fc9.w": torch.ones(1),
    }
    with pytest.raises(RuntimeError) as caught:
        Net().load_state_dict(state)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Net:\n"
        '\tMissing key(s) in state_dict: "scale". \n'
        '\tUnexpected key(s) in state_dict: "fc9.w". \n'
        "\tsize mismatch for fc1.weight: copying a param with shape torch.Size([4, 2]) from checkpoint, the "
        "shape in current model is torch.Size([4, 3]).\n"
        '\tWhile copying the parameter named "fc1.bias", expected torch.Tensor or Tensor-like object from '
        "checkpoint but received <class 'int'>"
    )


def test_loading_that_is_not_strict_returns_the_keys():
    result = Net().load_state_dict({"fc9.w": torch.ones(1), "scale": torch.zeros(1)}, strict=False)
    assert result.missing_keys == ["fc1.weight", "fc1.bias", "fc2.weight"]
    assert result.unexpected_keys == ["fc9.w"]
    assert repr(result) == (
        "_IncompatibleKeys(missing_keys=['fc1.weight', 'fc1.bias', 'fc2.weight'], unexpected_keys=['fc9.w'])"
    )


def test_extra_state_is_saved_and_loaded():
    class Counter(nn.Module):
        count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    source, target = Counter(), Counter()
    source.count = 7
    assert list(source.state_dict()) == ["_extra_state"]
    target.load_state_dict(source.state_dict())
    assert target.count == 7
    with pytest.raises(RuntimeError, match='Missing key.*"_extra_state"'):
        target.load_state_dict({})


def test_state_dict_hooks_run_before_and_after():
    calls = []
    layer = nn.Linear(1, 1)
    layer.register_state_dict_pre_hook(lambda m, prefix, keep_vars: calls.append(("pre", prefix)))
    handle = layer.register_state_dict_post_hook(
        lambda m, state, prefix, meta: state.update({prefix + "extra": 1})
    )
    assert list(nn.Sequential(layer).state_dict()) == ["0.weight", "0.bias", "0.extra"]
    assert calls == [("pre", "0.")]
    handle.remove()
    assert list(layer.state_dict()) == ["weight", "bias"]


def test_loading_hooks_may_rename_keys_and_forgive():
    layer = nn.Linear(1, 1)

    def rename(module, state, prefix, *rest):
        state[prefix + "weight"] = state.pop(prefix + "w")

    layer.register_load_state_dict_pre_hook(rename)
    layer.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    layer.load_state_dict({"w": torch.full((1, 1), 3.0)})
    assert layer.weight.item() == 3


def test_forward_hooks_see_and_replace_arguments_and_results():
    layer = nn.Identity()
    seen = []
    first = layer.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    second = layer.register_forward_hook(lambda m, args, out: seen.append((args[0].item(), out.item())))
    third = layer.register_forward_hook(lambda m, args, out: out * 10)
    assert layer(torch.tensor(1.0)).item() == 20
    assert seen == [(2.0, 2.0)]
    for handle in (first, second, third):
        handle.remove()
    assert layer(torch.tensor(1.0)).item() == 1
    assert "_has_hooks" not in layer.__dict__


def test_hooks_with_kwargs_and_prepend():
    net = Net()
    order = []

    def double(module, args, kwargs):
        order.append("double")
        return args, {"shift": kwargs["shift"] * 2}

    net.register_forward_pre_hook(double, with_kwargs=True)
    net.register_forward_pre_hook(lambda m, args: order.append("first"), prepend=True)
    net.register_forward_hook(lambda m, args, kwargs, out: order.append(kwargs["shift"]), with_kwargs=True)
    net(torch.ones(1, 3), shift=2.0)
    assert order == ["first", "double", 4.0]


def test_a_pre_hook_with_kwargs_must_return_a_pair():
    layer = nn.Identity()
    layer.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    message = r"forward pre-hook must return None or a tuple of \(new_args, new_kwargs\), but got 3."
    with pytest.raises(RuntimeError, match=message):
        layer(torch.ones(1))


def test_an_always_called_hook_runs_when_forward_raises():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    module, calls = Broken(), []
    module.register_forward_hook(lambda m, args, out: calls.append("plain"))
    module.register_forward_hook(lambda m, args, out: calls.append(out), always_call=True)
    with pytest.raises(ValueError, match="broken"):
        module(torch.ones(1))
    assert calls == [None]


def test_a_handle_works_as_a_context():
    layer, calls = nn.Identity(), []
    with layer.register_forward_hook(lambda *args: calls.append(1)):
        layer(torch.ones(1))
    layer(torch.ones(1))
    assert calls == [1]


def test_global_hooks_see_every_module():
    seen = []
    hook = nn.modules.module.register_module_forward_hook(lambda m, args, out: seen.append(type(m).__name__))
    try:
        Net()(torch.ones(1, 3))
    finally:
        hook.remove()
    Net()(torch.ones(1, 3))
    assert seen == ["Linear", "ReLU", "Linear", "Net"]


def test_backward_hooks_receive_the_gradients_of_inputs_and_outputs():
    class Triple(nn.Module):
        def forward(self, x):
            return x * 3

    module, calls = Triple(), []
    module.register_full_backward_pre_hook(lambda m, grad_out: calls.append(("pre", grad_out[0].item())))
    module.register_full_backward_hook(lambda m, gi, go: calls.append(("post", gi[0].item(), go[0].item())))
    x = torch.tensor(2.0, requires_grad=True)
    (module(x) * 5).backward()
    assert calls == [("pre", 5.0), ("post", 15.0, 5.0)]
    assert x.grad.item() == 15


def test_backward_hooks_may_replace_gradients():
    module = nn.Identity()
    module.register_full_backward_pre_hook(lambda m, grad_out: (grad_out[0] * 2,))
    module.register_full_backward_hook(lambda m, grad_in, grad_out: (grad_in[0] + 1,))
    x = torch.tensor(2.0, requires_grad=True)
    module(x).backward()
    assert x.grad.item() == 3


def test_a_backward_hook_runs_when_only_parameters_need_gradients():
    layer, calls = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda m, grad_in, grad_out: calls.append((grad_in, grad_out[0].shape)))
    output = layer(torch.ones(4, 2)).sum()
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        output.backward()
    assert calls == [((None,), torch.Size([4, 1]))]


def test_train_and_eval_reach_all_modules():
    net = Net()
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    net.train()
    assert all(module.training for module in net.modules())


def test_casting_keeps_parameters_and_spares_integers():
    net = nn.BatchNorm1d(2)
    weight = net.weight
    net.weight.grad = torch.ones(2)
    assert net.double() is net
    assert net.weight is weight and weight.dtype == torch.float64 and weight.grad.dtype == torch.float64
    assert net.running_mean.dtype == torch.float64 and net.num_batches_tracked.dtype == torch.int64
    assert net.running_mean is net._buffers["running_mean"]
    assert net.to("cpu", torch.float32).weight.dtype == torch.float32
    assert net.to(torch.ones(1, dtype=torch.float64)).weight.dtype == torch.float64
    assert net.half().weight.dtype == torch.float16
    assert net.bfloat16().weight.dtype == torch.bfloat16
    assert net.float().cpu().weight.dtype == torch.float32


def test_apply_visits_children_first():
    visited = []
    nn.Sequential(nn.ReLU(), nn.Tanh()).apply(lambda m: visited.append(type(m).__name__))
    assert visited == ["ReLU", "Tanh", "Sequential"]


def test_freezing_and_zeroing():
    net = Net()
    net(torch.ones(1, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all(p.grad.abs().sum().item() == 0 for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_members_are_reached_by_path():
    net = nn.Sequential(OrderedDict(body=Net()))
    assert net.get_submodule("body.fc1") is net.body.fc1
    assert net.get_parameter("body.fc1.weight") is net.body.fc1.weight
    assert net.get_buffer("body.scale") is net.body.scale
    net.set_submodule("body.act", nn.Tanh())
    assert isinstance(net.body.act, nn.Tanh)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_whole_and_independent(duplicate):
    net = Net()
    other = duplicate(net)
    assert torch.equal(other.fc1.weight, net.fc1.weight)
    assert other.fc1.weight is not net.fc1.weight
    assert other.fc1._parameters["weight"] is other.fc1.weight and other._modules["fc1"] is other.fc1
    with torch.no_grad():
        other.fc1.weight.zero_()
    other.fc1.bias = None
    assert net.fc1.weight.abs().sum().item() > 0 and net.fc1.bias is not None
    assert list(other.state_dict()) == ["scale", "fc1.weight", "fc2.weight"]


def test_deepcopy_keeps_ties():
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    other = copy.deepcopy(net)
    assert other[0].weight is other[1].weight and other[0].weight is not net[0].weight


def test_a_shallow_copy_has_its_own_registries_and_the_same_tensors():
    layer = nn.Linear(2, 2)
    other = copy.copy(layer)
    assert other.weight is layer.weight
    other.weight = nn.Parameter(torch.zeros(2, 2))
    assert layer.weight is not other.weight


def test_an_error_names_the_module_it_comes_from():
    net = nn.Sequential(OrderedDict(body=Net()))
    with pytest.raises(RuntimeError) as caught:
        net(torch.ones(1, 5))
    text = "".join(traceback.format_exception(caught.value))
    assert "In module Sequential.body.fc1: Linear(in_features=3, out_features=4, bias=True)" in text


def test_sequential_behaves_as_a_list():
    a, b, c = nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)
    net = nn.Sequential(a, b)
    assert net.append(c) is net and len(net) == 3 and net[-1] is c
    assert list(net[1:]) == [b, c] and isinstance(net[1:], nn.Sequential)
    net.insert(1, nn.Tanh())
    assert [type(m).__name__ for m in net] == ["Linear", "Tanh", "ReLU", "Linear"]
    del net[1]
    assert names(net.named_children()) == ["0", "1", "2"] and net[1] is b
    assert len(net + nn.Sequential(nn.ReLU())) == 4
    assert net.pop(2) is c and len(net) == 2
    net[0] = c
    assert net[0] is c
    assert len(net.extend([nn.Tanh(), nn.Tanh()])) == 4
    with pytest.raises(IndexError, match="index 9 is out of range"):
        net[9]


def test_named_sequential():
    net = nn.Sequential(OrderedDict(first=nn.Linear(2, 3), act=nn.ReLU()))
    assert net.first is net[0]
    assert list(net.state_dict()) == ["first.weight", "first.bias"]


def test_module_list_prints_equal_neighbours_together():
    layers = nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])
    assert repr(layers) == "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"
    layers.insert(0, nn.Tanh())
    assert names(layers.named_children()) == ["0", "1", "2", "3"] and isinstance(layers[0], nn.Tanh)
    assert len(layers[1:]) == 3 and len(layers + [nn.ReLU()]) == 5
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_module_dict_behaves_as_a_dict():
    modules = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    assert list(modules) == ["a", "b"] and "a" in modules and len(modules) == 2
    modules["c"] = nn.Linear(1, 1)
    assert isinstance(modules.pop("a"), nn.ReLU) and list(modules.keys()) == ["b", "c"]
    modules.update([("d", nn.ReLU())])
    del modules["b"]
    assert repr(modules).splitlines()[1] == "  (c): Linear(in_features=1, out_features=1, bias=True)"
    with pytest.raises(KeyError, match="attribute 'keys' already exists"):
        modules["keys"] = nn.ReLU()


def test_parameter_list_and_dict_make_parameters_of_tensors():
    entries = nn.ParameterList([torch.ones(2), nn.Parameter(torch.ones(3)), 4])
    assert names(entries.named_parameters()) == ["0", "1"] and len(entries) == 3 and entries[2] == 4
    assert repr(entries) == (
        "ParameterList(\n"
        "    (0): Parameter containing: [torch.float32 of size 2]\n"
        "    (1): Parameter containing: [torch.float32 of size 3]\n"
        "    (2): Object of type: int\n"
        ")"
    )
    table = nn.ParameterDict({"left": torch.ones(2)})
    table["right"] = nn.Parameter(torch.zeros(1))
    assert list(table.state_dict()) == ["left", "right"] and isinstance(table["left"], nn.Parameter)
    assert table.pop("left").shape == torch.Size([2]) and "left" not in table


def test_a_parameter_is_a_leaf_that_shares_its_data():
    data = torch.ones(2)
    parameter = nn.Parameter(data)
    assert parameter.requires_grad and parameter.is_leaf and isinstance(parameter, torch.Tensor)
    data.fill_(3)
    assert parameter[0].item() == 3
    assert repr(parameter) == "Parameter containing:\ntensor([3., 3.], requires_grad=True)"
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert type(parameter * 2) is torch.Tensor


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2, bias=False)
        self.second = nn.Linear(2, 2, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x):
        return self.second(x) * self.scale


def test_a_functional_call_leaves_the_module_as_it_was():
    module, x = Tied(), torch.tensor([[1.0, 2.0]])
    weight, before = torch.ones(2, 2, requires_grad=True), module(x)
    call = torch.func.functional_call
    out = call(module, {"first.weight": weight}, x)
    out.sum().backward()
    assert out.tolist() == [[3.0, 3.0]] and weight.grad.tolist() == [[1.0, 2.0]] * 2
    assert torch.equal(call(module, {"first.weight": weight}, x, tie_weights=False), before)
    assert call(module, ({"first.weight": weight}, {"scale": torch.tensor([2.0])}), x).tolist() == [[6.0, 6.0]]
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'bias'\.\n\tMissing key\(s\): 'scale'\."):
        call(module, {"first.weight": weight, "bias": weight}, x, strict=True)
    with pytest.raises(ValueError, match=r"\['scale'\] appeared in multiple dictionaries"):
        call(module, ({"scale": weight}, {"scale": weight}), x)
    with pytest.raises(RuntimeError):
        call(module, {"first.weight": torch.ones(3, 3)}, x)
    assert torch.equal(module(x), before) and module.first.weight.grad is None


def test_data_parallel_passes_through():
    inner = nn.Linear(2, 1)
    outer = nn.DataParallel(inner)
    assert torch.equal(outer(torch.ones(1, 2)), inner(torch.ones(1, 2)))
    assert list(outer.state_dict()) == ["module.weight", "module.bias"]


def test_skip_init_wants_a_device_argument():
    assert nn.utils.skip_init(nn.Linear, 2, 3).weight.shape == (3, 2)
    with pytest.raises(RuntimeError, match="Module must support a 'device' arg to skip initialization"):
        nn.utils.skip_init(nn.ReLU)


def test_a_class_with_a_getattr_of_its_own_is_asked_for_every_member():
    class Noting(nn.Module):
        def __init__(self):
            super().__init__()
            self.read = []
            self.weight = nn.Parameter(torch.ones(2))
            self.child = nn.Linear(2, 2)
            self.register_buffer("count", torch.zeros(1))

        def __getattr__(self, name):
            self.__dict__.get("read", []).append(name)
            return super().__getattr__(name)

    module = Noting()
    del module.read[:]
    assert module.weight is module._parameters["weight"] and module.child is module._modules["child"]
    assert module.count is module.count and module.read == ["weight", "child", "count", "count"]
    assert not {"weight", "child", "count"} & vars(module).keys()
    module.weight = nn.Parameter(torch.zeros(2))
    assert module.weight.sum() == 0 and list(module.state_dict()) == ["weight", "count", "child.weight", "child.bias"]
    del module.count
    with pytest.raises(AttributeError, match="count"):
        _ = module.count
    other = copy.deepcopy(module)
    assert other.weight is not module.weight and not {"weight", "child"} & vars(other).keys()


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("cpu", True), {}),
        ((None, True), {}),
        (([],), {}),
        ((True,), {}),
        (("cpu", "cpu"), {}),
        ((torch.float32, "cpu"), {}),
        (("cpu", torch.float32, True, False, 1), {}),
        (("cpu", torch.ones(1)), {}),
        (("cpu",), {"device": "cpu"}),
        ((), {"other": 1}),
    ],
)
def test_arguments_of_a_modules_conversion_have_places_and_types(args, kwargs):
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        nn.Linear(2, 2).to(*args, **kwargs)


def test_a_modules_conversion_takes_every_form_of_its_arguments():
    module = nn.Linear(2, 2)
    for args, kwargs in (
        (("cpu", torch.float64, True), {}),
        ((torch.float64, True), {}),
        ((torch.ones(1, dtype=torch.float64),), {"non_blocking": True}),
        ((None, torch.float64), {"memory_format": torch.preserve_format}),
    ):
        assert module.float().to(*args, **kwargs) is module and module.weight.dtype == torch.float64
    with pytest.raises(RuntimeError, match="does not accept copy argument"):
        module.to("cpu", copy=True)


def test_what_apply_writes_in_place_counts_in_the_versions_of_the_parameters():
    module = nn.Linear(2, 2)
    module(torch.ones(1, 2)).sum().backward()
    before = module.weight._version, module.weight.grad._version
    module._apply(lambda t: t.add_(1))
    assert module.weight._version > before[0] and module.weight.grad._version > before[1]


def test_a_prefix_is_taken_from_the_keys_and_metadata_of_a_state():
    net = nn.Sequential(OrderedDict(module=nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))))
    state = net.state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    bare = net.module.state_dict()
    assert list(state) == list(bare)
    assert {name: state._metadata[name] for name in bare._metadata} == dict(bare._metadata)
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == list(bare)


def test_a_parameter_dictionary_takes_the_entries_of_a_plain_one_by_name():
    entries = {name: nn.Parameter(torch.ones(1)) for name in "cab"}
    assert list(nn.ParameterDict(entries)) == ["a", "b", "c"]
    assert list(nn.ParameterDict(OrderedDict(entries))) == list(nn.ParameterDict(entries.items())) == ["c", "a", "b"]
    shown = repr(nn.ParameterDict({"a": torch.ones(2, device="meta")}))
    assert shown == "ParameterDict(  (a): Parameter containing: [torch.meta.FloatTensor of size 2])"


def test_what_a_functional_call_assigns_is_given_to_the_caller():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count = self.count + 1
            return x + self.count

    counter, given = Counter(), {"count": torch.tensor(5.0)}
    assert torch.func.functional_call(counter, given, torch.ones(())) == 7
    assert given["count"] == 6 and counter.count == 0


def test_a_hook_of_loading_does_not_keep_its_module():
    seen = []
    module = nn.Linear(2, 2)
    module.register_load_state_dict_pre_hook(lambda m, *rest: seen.append(m))
    copied = copy.deepcopy(module)
    copied.load_state_dict(module.state_dict())
    assert seen == [copied]
    seen.clear()
    reference = weakref.ref(module)
    gc.disable()
    try:
        del module
        assert reference() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.HuberLoss(delta="1"), "delta must be a float or int, got: <class 'str'>"),
        (lambda: nn.HuberLoss(delta=torch.tensor(1.0)), "delta must be a float or int"),
        (lambda: nn.Softmax(dim=1.0), "dim must be an int or None, got <class 'float'>"),
        (lambda: nn.Softmax(dim=True), "dim must be an int or None, got <class 'bool'>"),
        (lambda: nn.LogSoftmax(dim="1"), "dim must be an int or None, got <class 'str'>"),
    ],
)
def test_settings_of_another_type_are_refused_when_a_module_is_made(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_a_buffer_takes_the_place_of_no_other_attribute():
    module = nn.Module()
    module.x = 5
    with pytest.raises(KeyError, match="attribute 'x' already exists"):
        module.x = nn.Buffer(torch.ones(1))
    del module.x
    module.x = nn.Buffer(torch.ones(1))
    module.x = nn.Buffer(torch.zeros(1))
    assert module.x == 0


def test_a_class_may_register_buffers_by_a_method_without_persistent():
    class Old(nn.Module):
        def register_buffer(self, name, tensor):
            super().register_buffer(name, tensor)

    module = Old()
    module.x = nn.Buffer(torch.ones(1))
    assert list(module.state_dict()) == ["x"]
    with pytest.raises(RuntimeError, match="Registering a non-persistent buffer on a Module subclass"):
        module.y = nn.Buffer(torch.ones(1), persistent=False)


def test_classes_decide_what_a_loaded_tensor_becomes_when_it_is_exchanged():
    class Doubled(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch.Tensor.module_load:
                return args[1].detach() * 2
            return super().__torch_function__(func, types, args, kwargs or {})

    class Same(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch.Tensor.module_load:
                return args[1]
            return super().__torch_function__(func, types, args, kwargs or {})

    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer = nn.Linear(2, 2, bias=False)
        weight = layer.weight
        layer.load_state_dict({"weight": torch.ones(2, 2)})
        assert layer.weight is weight and type(weight) is nn.Parameter and weight.requires_grad and weight.sum() == 4
        layer.load_state_dict({"weight": torch.ones(2, 2).as_subclass(Doubled)})
        assert layer.weight.sum() == 8
        with pytest.raises(RuntimeError, match="module_load returned one of self or other"):
            nn.Linear(2, 2, bias=False).load_state_dict({"weight": torch.ones(2, 2).as_subclass(Same)})
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
