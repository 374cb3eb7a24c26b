"""Subclasses of Tensor, the constructors of old, and the names for tensors of one dtype."""

import copy
import pickle

import pytest

import rgrad as torch
from rgrad import _subclass, nn
from rgrad.nn import functional as F


class Tagged(torch.Tensor):
    kind = "tagged"


class Logged(torch.Tensor):
    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


@pytest.fixture
def y():
    return torch.arange(6.0).reshape(2, 3).as_subclass(Tagged)


def test_a_tensor_as_a_subclass_shares_its_memory_and_has_its_history():
    w = torch.ones(2, requires_grad=True)
    s = (w * 2).as_subclass(Tagged)
    assert type(s) is Tagged and s.kind == "tagged" and s.grad_fn.name() == "AliasBackward0"
    s.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0] and type(w.grad) is torch.Tensor
    t = torch.zeros(2)
    t.as_subclass(Tagged).fill_(3)
    assert t.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("cls", [int, 3])
def test_only_a_subclass_of_tensor_can_be_asked_for(cls):
    words = (
        "cls must be a type"
        if cls == 3
        else "Creating a Tensor subclass from a class that does not inherit from Tensor"
    )
    with pytest.raises(TypeError, match=words):
        torch.ones(1).as_subclass(cls)
    with pytest.raises(TypeError, match=words):
        torch.Tensor._make_subclass(cls, torch.ones(1))


def test_a_made_subclass_is_a_leaf():
    x = torch.ones(2, requires_grad=True) * 2
    made = torch.Tensor._make_subclass(Tagged, x, True)
    assert type(made) is Tagged and made.is_leaf and made.requires_grad and made.data_ptr() == x.data_ptr()
    with pytest.raises(TypeError, match=r"_make_subclass\(\): argument 'data' \(position 2\) must be Tensor, not int"):
        torch.Tensor._make_subclass(Tagged, 3)


def test_operations_on_a_subclass_return_its_class(y):
    x = torch.ones(2, 3)
    plain = [y + 1, 1 - y, x * y, y**2, y == x, y @ y.T, -y, abs(y), y[0], y.T, y.detach(), y.clone(), y.sum()]
    assert {type(t) for t in plain} == {Tagged}
    functions = [torch.add(x, y), torch.cat([x, y]), F.relu(y), F.linear(x, y), y.max(0).values, y.unbind()[1]]
    assert {type(t) for t in functions} == {Tagged}
    y += 1
    assert type(y) is Tagged and type(y.shape) is torch.Size and isinstance(y.tolist(), list)


def test_a_class_below_another_wins_and_unrelated_ones_do_not_mix(y):
    class Below(Tagged):
        pass

    class Other(torch.Tensor):
        pass

    b, o = y.as_subclass(Below), torch.ones(2, 3).as_subclass(Other)
    assert type(y + b) is Below and type(b + y) is Below
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Other' and 'Tagged'"):
        o + y
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.add'"):
        torch.add(o, y)


def test_a_class_may_see_every_call():
    Logged.calls.clear()
    t = torch.ones(2).as_subclass(Logged)
    assert (
        type(torch.add(t, 1)) is Logged and type(t.mul(2)) is Logged and type(torch.cat([t, torch.ones(1)])) is Logged
    )
    assert Logged.calls == ["add", "mul", "cat"]
    with torch._C.DisableTorchFunctionSubclass():
        assert type(t + 1) is torch.Tensor
    assert Logged.calls == ["add", "mul", "cat"]


def test_parameters_give_plain_tensors():
    p = nn.Parameter(torch.ones(2))
    assert type(p * 2) is torch.Tensor and type(p.detach()) is torch.Tensor


def test_a_subclass_survives_copies_and_pickle(y):
    y.tag = [1]
    for other in (copy.copy(y), copy.deepcopy(y), pickle.loads(pickle.dumps(y))):
        assert type(other) is Tagged and other.tolist() == y.tolist() and other.tag == [1]


# Constructors of old


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("FloatTensor", "float32"), ("LongTensor", "int64"), ("ByteTensor", "uint8"), ("BoolTensor", "bool")],
)
def test_a_tensor_type_makes_and_knows_tensors_of_its_dtype(name, dtype):
    kind, dtype = getattr(torch, name), getattr(torch, dtype)
    t = kind([1, 0])
    assert t.dtype == dtype and t.tolist() == [1, 0] and type(t) is torch.Tensor
    assert isinstance(t, kind) and not isinstance(t.double(), kind) and not isinstance(1, kind)
    assert kind(2, 3).shape == (2, 3) and kind().shape == (0,) and kind(torch.Size([4])).shape == (4,)
    assert repr(kind) == f"<class 'torch.{name}'>" and pickle.loads(pickle.dumps(kind)) is kind
    assert t.type() == f"torch.{name}" and torch.ones(2).type(kind).dtype == dtype


def test_a_tensor_type_takes_no_tensor_of_another_dtype():
    x = torch.ones(2)
    assert torch.FloatTensor(x).data_ptr() == x.data_ptr()
    with pytest.raises(TypeError, match=r"expected TensorOptions\(dtype=long int,.*got TensorOptions\(dtype=float,"):
        torch.LongTensor(x)


@pytest.mark.parametrize("make", [torch.Tensor, torch.FloatTensor, torch.ones(1).new])
def test_a_constructor_of_old_takes_sizes_and_sequences_alone(make):
    assert make((1, 2)).tolist() == [1.0, 2.0] and make(1, 2).shape == (1, 2) and make(size=(3,)).shape == (3,)
    for data in (2.5, None, True):
        with pytest.raises(TypeError, match=r"new\(\): data must be a sequence \(got "):
            make(data)
    with pytest.raises(TypeError, match=r"new\(\): invalid data type 'str'"):
        make("a")
    with pytest.raises(RuntimeError, match=r"Trying to create tensor with negative dimension -1: \[2, -1\]"):
        make(2, -1)
    with pytest.raises(TypeError, match=r"new\(\) received an invalid combination of arguments"):
        make(foo=1)


def test_new_tensor_takes_dtype_and_device_from_its_tensor():
    like = torch.ones(1, dtype=torch.uint8)
    assert like.new_tensor([1, 2]).dtype == torch.uint8
    assert like.new_tensor([1.5], dtype=torch.float64, requires_grad=True).requires_grad
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        like.new_tensor(torch.ones(2))
    with pytest.raises(RuntimeError, match="value cannot be converted to type uint8 without overflow"):
        like.new_tensor(300)


def test_a_copy_of_a_tensor_by_tensor_warns():
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        torch.tensor(torch.ones(2))


def test_the_transpose_of_other_than_a_matrix_warns():
    with pytest.warns(UserWarning, match="The use of `x.T` on tensors of dimension other than 2"):
        assert torch.ones(2, 3, 4).T.shape == (4, 3, 2)
    with pytest.warns(UserWarning, match="Tensor.T is deprecated on 0-D tensors"):
        assert torch.tensor(1.0).T.shape == ()


def test_a_size_holds_integers_alone():
    assert torch.Size([torch.tensor(2), True]) == (2, 1) and torch.Size((1, 2)) + (3,) == torch.Size([1, 2, 3])
    with pytest.raises(TypeError, match=r"torch.Size\(\) takes an iterable of 'int' \(item 1 is 'float'\)"):
        torch.Size([1, 1.5])
    with pytest.raises(TypeError, match=r"can only concatenate tuple \(not list\) to torch.Size"):
        torch.Size([1]) + [2]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "Device string must not be empty"),
        ("cpu:", "Invalid device string: 'cpu:'"),
        ("cpu:01", "Invalid device string: 'cpu:01'"),
        (":0", "Invalid device string: ':0'"),
        ("foo", "Expected one of cpu, cuda"),
    ],
)
def test_a_string_that_names_no_device_is_refused(name, words):
    with pytest.raises(RuntimeError, match=words):
        torch.device(name)
    with pytest.raises(RuntimeError, match=words):
        torch.zeros(1, device=name)


def test_numbers_are_counted_by_bincount():
    t = torch.tensor([0, 1, 1, 3])
    assert torch.bincount(t).tolist() == [1, 2, 0, 1]
    weighed = torch.bincount(t, torch.tensor([0.5, 1.0, 2.0, 4.0], dtype=torch.float16), minlength=5)
    assert weighed.dtype == torch.float64 and weighed.tolist() == [0.5, 3.0, 0.0, 4.0, 0.0]
    with pytest.raises(RuntimeError, match="bincount only supports 1-d non-negative integral inputs"):
        torch.bincount(torch.tensor([-1]))


def test_no_class_of_the_package_has_every_operation_look_for_overrides():
    assert not torch.nn.Parameter._takes_part
    assert not torch.nn.Buffer._takes_part


class Labelled(torch.Tensor):
    pass


def test_a_parameter_of_a_subclass_is_of_that_class():
    values = torch.ones(2, 2).as_subclass(Labelled)
    weight = torch.nn.Parameter(values)
    assert (
        type(weight) is Labelled
        and isinstance(weight, torch.nn.Parameter)
        and not isinstance(values, torch.nn.Parameter)
    )
    assert weight.requires_grad and weight.is_leaf and weight.data_ptr() == values.data_ptr()
    assert not values.requires_grad and type(weight + 1) is Labelled
    assert not torch.nn.Parameter(values, requires_grad=False).requires_grad
    layer = torch.nn.Linear(2, 2, bias=False)
    layer.weight = weight
    assert dict(layer.named_parameters()) == {"weight": weight} and type(layer(torch.ones(1, 2))) is Labelled
    layer(torch.ones(1, 2)).sum().backward()
    torch.optim.SGD(layer.parameters(), 0.5).step()
    assert weight.tolist() == [[0.5, 0.5], [0.5, 0.5]] and type(layer.double().weight) is Labelled
    with pytest.raises(TypeError, match="torch.nn.Parameter or None expected"):
        layer.weight = values


def test_a_subclass_whose_detach_gives_another_class_is_no_parameter():
    class Plain(torch.Tensor):
        def detach(self):
            return torch.ones(1)

    with pytest.raises(RuntimeError, match="requires that detach\\(\\) returns an instance of the same type"):
        torch.nn.Parameter(torch.ones(1).as_subclass(Plain))
    assert not isinstance(torch.ones(1), torch.nn.Parameter) and not isinstance(1, torch.nn.Parameter)


def test_methods_that_a_program_adds_to_tensor_are_not_overridden(monkeypatch):
    def noted(self, note):
        return type(self), note

    monkeypatch.setattr(torch.Tensor, "noted", noted, raising=False)
    monkeypatch.setattr(torch.Tensor, "kind_of", property(lambda self: type(self).__name__), raising=False)
    _subclass._rest.cache_clear()  # what earlier classes found was without the two

    class Strict(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    try:
        x = torch.ones(2).as_subclass(Strict)
        with pytest.raises(TypeError):
            x.numel()
        assert x.noted("new") == (Strict, "new")
        assert x.kind_of == "Strict"
    finally:
        _subclass._rest.cache_clear()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("grid_sample", lambda x: F.grid_sample(torch.ones(1, 2, 4, 4), x.reshape(1, 3, 1, 2), align_corners=True)),
        ("cosine_similarity", lambda x: F.cosine_similarity(torch.ones(3, 2), x)),
        ("normalize", lambda x: F.normalize(x, dim=0)),
        ("glu", lambda x: F.glu(x)),
        ("einsum", lambda x: torch.einsum("ij,ij->i", torch.ones(3, 2), x)),
        ("triplet_margin_loss", lambda x: F.triplet_margin_loss(x, torch.ones(3, 2), torch.zeros(3, 2))),
    ],
)
def test_a_class_that_handles_calls_itself_sees_a_function_as_one_call(name, call):
    class Handling(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    calls = []
    x = torch.tensor([[0.1, -0.2], [0.3, 0.4], [0.0, 0.9]])
    handled = x.as_subclass(Handling)
    made = call(handled)
    assert [n for n in calls if n != "reshape"] == [name]
    assert type(made) is Handling
    assert torch.equal(made.as_subclass(torch.Tensor), call(x))


def test_handlers_get_methods_and_properties_of_tensor_itself():
    seen = []

    class Watch(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Watch)
    seen.clear()
    _ = (x.detach(), x.new_tensor([1.0]), x[0], x.numpy(), x.norm(), x.is_leaf, -x, len(x))
    of_tensor = torch.Tensor
    expected = (of_tensor.detach, of_tensor.new_tensor, of_tensor.__getitem__, of_tensor.numpy, of_tensor.norm)
    expected += (of_tensor.is_leaf.__get__, of_tensor.neg, of_tensor.__len__)
    assert all(function in seen for function in expected)


def test_the_text_of_a_parameter_of_a_class_of_its_own_says_so():
    class Own(torch.Tensor):
        pass

    x = torch.ones(2).as_subclass(Own)
    assert repr(torch.nn.Parameter(x)) == "Parameter(Own([1., 1.], requires_grad=True))"
    assert repr(x) == "Own([1., 1.])"


def test_a_copied_parameter_of_a_class_that_overrides_functions_is_a_parameter_and_a_leaf():
    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs)

    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.ones(2).as_subclass(Own))
    copied = copy.deepcopy(module).weight
    assert type(copied) is Own and isinstance(copied, torch.nn.Parameter)
    assert copied.is_leaf and copied.requires_grad and copied.data_ptr() != module.weight.data_ptr()
    plain = torch.ones(2).as_subclass(Own)
    plain.note = ["kept"]
    again = copy.deepcopy(plain)
    assert type(again) is Own and again.note == ["kept"] and again.note is not plain.note
