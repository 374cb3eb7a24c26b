"""`__torch_function__`: what modes, subclasses and objects that pass for tensors see of calls."""

import copy
import sys

import pytest

import rgrad as torch
from rgrad import nn, overrides
from rgrad.nn import functional as F


class Seeing(overrides.TorchFunctionMode):
    """Notes what it is shown, then makes the call."""

    def __init__(self):
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = overrides.resolve_name(func) or func.__name__
        self.calls.append((name, types, args, kwargs or {}))
        return func(*args, **(kwargs or {}))

    @property
    def names(self):
        return [name for name, *_ in self.calls]


def seen(call):
    with Seeing() as mode:
        call()
    return mode.calls


def names(call):
    return [name for name, *_ in seen(call)]


class Thing:
    """Passes for a tensor."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return overrides.resolve_name(func), types, args, kwargs or {}


X = torch.ones(3)
M = torch.ones(2, 2)
I = torch.ones(2, 2, dtype=torch.int64)  # noqa: E741 - as a program would call it

# As PyTorch 2.15 shows them.
CALLS = {
    "add": (lambda: X + 1, ["torch.Tensor.add"]),
    "radd": (lambda: 1 + X, ["torch.Tensor.add"]),
    "sub": (lambda: X - 1, ["torch.Tensor.sub"]),
    "rsub": (lambda: 1 - X, ["torch.Tensor.__rsub__"]),
    "mul": (lambda: 2 * X, ["torch.Tensor.mul"]),
    "div": (lambda: X / 2, ["torch.Tensor.div"]),
    "rdiv": (lambda: 2 / X, ["torch.Tensor.__rtruediv__"]),
    "floordiv": (lambda: X // 2, ["torch.Tensor.__floordiv__"]),
    "mod": (lambda: X % 2, ["torch.Tensor.remainder"]),
    "pow": (lambda: X**2, ["torch.Tensor.__pow__"]),
    "rpow": (lambda: 2**X, ["torch.Tensor.__rpow__"]),
    "and": (lambda: I & 1, ["torch.Tensor.__and__"]),
    "rand": (lambda: 1 & I, ["torch.Tensor.bitwise_and"]),
    "lshift": (lambda: I << 1, ["torch.Tensor.__lshift__"]),
    "matmul": (lambda: M @ M, ["torch.Tensor.matmul"]),
    "eq": (lambda: X == 1, ["torch.Tensor.__eq__"]),
    "ne": (lambda: X != 1, ["torch.Tensor.ne"]),
    "lt": (lambda: X < 1, ["torch.Tensor.lt"]),
    "neg": (lambda: -X, ["torch.Tensor.neg"]),
    "abs": (lambda: abs(X), ["torch.Tensor.abs"]),
    "invert": (lambda: ~I, ["torch.Tensor.__invert__"]),
    "getitem": (lambda: X[0], ["torch.Tensor.__getitem__"]),
    "len": (lambda: len(X), ["torch.Tensor.__len__"]),
    "bool": (lambda: bool(X[0]), ["torch.Tensor.__getitem__", "torch.Tensor.__bool__"]),
    "float": (lambda: float(X[0]), ["torch.Tensor.__getitem__", "torch.Tensor.__float__"]),
    "contains": (lambda: 1 in X, ["torch.Tensor.__contains__"]),
    "reversed": (lambda: reversed(X), ["torch.Tensor.__reversed__"]),
    "repr": (lambda: repr(X), ["torch.Tensor.__repr__"]),
    "deepcopy": (lambda: copy.deepcopy(X), ["torch.Tensor.__deepcopy__"]),
    "method": (lambda: X.sum(), ["torch.Tensor.sum"]),
    "in place": (lambda: X.clone().add_(1), ["torch.Tensor.clone", "torch.Tensor.add_"]),
    "function": (lambda: torch.add(X, 1), ["torch.add"]),
    "list": (lambda: torch.cat([X, X]), ["torch.cat"]),
    "zeros": (lambda: torch.zeros(3), ["torch.zeros"]),
    "tensor": (lambda: torch.tensor([1.0]), ["torch.tensor"]),
    "as_tensor": (lambda: torch.as_tensor([1.0]), ["torch.as_tensor"]),
    "randn": (lambda: torch.randn(2), ["torch.randn"]),
    "relu": (lambda: F.relu(X), ["torch.nn.functional.relu"]),
    "top relu": (lambda: torch.relu(X), ["torch.relu"]),
    "softmax": (lambda: F.softmax(X, 0), ["torch.nn.functional.softmax"]),
    "linear": (lambda: F.linear(M, M), ["torch.nn.functional.linear"]),
    "loss": (lambda: F.cross_entropy(M, torch.zeros(2).long()), None),
    "python loss": (lambda: F.gaussian_nll_loss(X, X, X), ["torch.nn.functional.gaussian_nll_loss"]),
    "shape": (lambda: X.shape, ["torch.Tensor.shape.__get__"]),
    "grad": (lambda: X.grad, ["torch.Tensor.grad.__get__"]),
    "dtype": (lambda: X.dtype, ["torch.Tensor.dtype.__get__"]),
    "T": (lambda: M.T, ["torch.Tensor.T.__get__"]),
    "size": (lambda: X.size(), ["torch.Tensor.size"]),
    "item": (lambda: X.sum().item(), ["torch.Tensor.sum", "torch.Tensor.item"]),
    "detach": (lambda: X.detach(), ["torch.Tensor.detach"]),
    "linalg": (lambda: torch.linalg.norm(X), ["torch.linalg.norm"]),
    "uniform_": (lambda: nn.init.uniform_(torch.ones(2)), None),
}


@pytest.mark.parametrize("name", [name for name, (_, expected) in CALLS.items() if expected])
def test_a_mode_sees_calls_under_the_names_that_pytorch_gives_them(name):
    call, expected = CALLS[name]
    assert names(call) == expected


def test_a_mode_sees_properties_that_are_set_and_deleted():
    x = torch.ones(2)

    def change():
        x.requires_grad = True
        x.grad = None
        del x.grad

    assert names(change) == ["torch.Tensor.requires_grad.__set__", "torch.Tensor.grad.__set__", "__delete__"]
    assert x.requires_grad


def test_a_mode_sees_operators_in_place():
    x, i = torch.ones(2), torch.ones(2, dtype=torch.int64)

    def change():
        nonlocal x, i
        x += 1
        x -= 1
        x *= 2
        x /= 2
        x //= 1
        x %= 2
        x **= 2
        i &= 1
        i <<= 1
        x[0] = 3

    assert names(change) == [
        *(f"torch.Tensor.{n}_" for n in ("add", "sub", "mul", "div", "floor_divide", "remainder")),
        *(f"torch.Tensor.{n}" for n in ("__ipow__", "__iand__", "__ilshift__", "__setitem__")),
    ]
    assert x.tolist() == [3.0, 1.0] and i.tolist() == [2, 2]


SHOWN = {
    "operator": (lambda: X + 1, (), (X, 1), {}),
    "reflected operator": (lambda: 1 - X, (torch.Tensor,), (X, 1), {}),
    "function": (lambda: torch.add(X, 1, alpha=2), (), (X, 1), {"alpha": 2}),
    "creation": (lambda: torch.zeros(3, dtype=torch.int64), (), (3,), {"dtype": torch.int64}),
    "property": (lambda: X.shape, (torch.Tensor,), (X,), {}),
    "relu": (lambda: F.relu(X), (torch.Tensor,), (X,), {"inplace": False}),
    "softmax": (lambda: F.softmax(X, 0), (torch.Tensor,), (X,), {"dim": 0, "_stacklevel": 3, "dtype": None}),
    "dropout": (lambda: F.dropout(X), (torch.Tensor,), (X,), {"p": 0.5, "training": True, "inplace": False}),
    "linear": (lambda: F.linear(X, M), None, (X, M), {}),
    "size": (lambda: X.size(0), (), (X, 0), {}),
    "dim": (lambda: X.dim(), (torch.Tensor,), (X,), {}),
    "mse_loss": (
        lambda: F.mse_loss(X, X),
        (torch.Tensor,),
        (X, X),
        {"size_average": None, "reduce": None, "reduction": "mean", "weight": None},
    ),
    "uniform_": (
        lambda: nn.init.uniform_(X.detach(), b=0.5),
        (torch.Tensor,),
        (),
        {"tensor": X, "a": 0.0, "b": 0.5, "generator": None},
    ),
}


class Stopping(overrides.TorchFunctionMode):
    """Notes the last call and does not make it."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func == torch.Tensor.detach:
            return args[0]
        self.call = types, args, kwargs or {}


@pytest.mark.parametrize("name", SHOWN)
def test_a_mode_is_shown_types_and_arguments_as_pytorch_shows_them(name):
    call, types, args, kwargs = SHOWN[name]
    with Stopping() as mode:
        call()
    found_types, found_args, found_kwargs = mode.call
    assert types is None or found_types == types
    assert [*map(id, found_args)] == [*map(id, args)] or repr(found_args) == repr(args)
    assert list(found_kwargs) == list(kwargs) and repr(found_kwargs) == repr(kwargs)


def test_the_innermost_mode_is_asked_first_and_its_own_calls_go_to_those_around_it():
    with Seeing() as outer, Seeing() as inner:
        torch.ones(2)
    assert inner.names == outer.names == ["torch.ones"]
    assert len(outer.calls) == 1
    with Seeing() as alone, overrides.BaseTorchFunctionMode():
        torch.ones(2)
    assert alone.names == ["torch.ones"]


def test_a_mode_may_put_something_in_the_place_of_a_result():
    class Seven(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 7

    with Seven():
        assert X + X == 7 and X.shape == 7 and torch.zeros(2) == 7 and F.relu(X) == 7 and X.sum() == 7
    assert X.shape == (3,) and (X + X).tolist() == [2.0, 2.0, 2.0]


def test_a_mode_ends_with_its_block_and_with_an_error():
    class Failing(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise KeyError(func.__name__)

    with pytest.raises(KeyError, match="ones"), Seeing() as outer, Failing():
        torch.ones(2)
    assert torch._C._len_torch_function_stack() == 0
    with outer, Failing():
        with pytest.raises(KeyError):
            torch.ones(2)
        assert torch._C._len_torch_function_stack() == 2
    assert torch.ones(2).tolist() == [1.0, 1.0]


def test_the_stack_of_modes_can_be_looked_at_and_taken_apart():
    first, second = Seeing(), Seeing()
    assert overrides._get_current_function_mode() is None
    with first, second:
        assert overrides._get_current_function_mode() is second
        assert overrides._get_current_function_mode_stack() == [first, second]
        with overrides._pop_mode_temporarily() as mode:
            assert mode is second and torch._C._len_torch_function_stack() == 1
        assert overrides._pop_mode() is second
        overrides._push_mode(second)
    with pytest.raises(RuntimeError, match="empty mode stack"):
        overrides._pop_mode()
    with pytest.raises(NotImplementedError), overrides.TorchFunctionMode():
        torch.ones(1)


def test_overriding_can_be_switched_off_for_arguments_or_altogether():
    class Logged(torch.Tensor):
        calls: list = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    t = torch.ones(2).as_subclass(Logged)
    with Seeing() as mode:
        with torch._C.DisableTorchFunctionSubclass():
            assert not torch._C._is_torch_function_enabled() and torch._C._is_torch_function_mode_enabled()
            assert type(t + 1) is torch.Tensor
        assert mode.names == ["torch.Tensor.add"] and Logged.calls == []
        with torch._C.DisableTorchFunction():
            assert not torch._C._is_torch_function_mode_enabled()
            assert type(t + 1) is torch.Tensor
        assert len(mode.calls) == 1
        assert type(t + 1) is Logged
    assert len(mode.calls) == 2 and Logged.calls == ["add"]


def test_a_subclass_that_overrides_sees_properties_and_methods():
    class Logged(torch.Tensor):
        calls: list = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(overrides.resolve_name(func) or func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    t = torch.ones(2, 3).as_subclass(Logged)
    Logged.calls.clear()
    assert t.shape == (2, 3) and t.dim() == 2 and t[0].shape == (3,) and (2 - t).tolist()[0] == [1.0, 1.0, 1.0]
    assert len(Logged.calls) >= 6


def test_an_object_that_passes_for_a_tensor_is_taken_by_every_operation():
    thing, x = Thing(), torch.ones(2)
    for name, result in {
        "torch.add": torch.add(thing, 1),
        "torch.Tensor.add": x + thing,
        "torch.Tensor.mul": x * thing,
        "torch.Tensor.matmul": x @ thing,
        "torch.cat": torch.cat([x, thing]),
        "torch.stack": torch.stack((thing,)),
        "torch.sum": torch.sum(thing),
        "torch.mean": torch.mean(thing, dim=0),
        "torch.where": torch.where(x > 0, thing, x),
        "torch.zeros_like": torch.zeros_like(thing),
        "torch.nn.functional.relu": F.relu(thing),
        "torch.nn.functional.linear": F.linear(thing, x),
        "torch.linalg.norm": torch.linalg.norm(thing),
    }.items():
        assert result[0] == name and result[1] == (Thing,), name
    assert x.add(thing)[0] == "torch.Tensor.add" and x.add_(thing)[0] == "torch.Tensor.add_"
    assert torch.mean(thing, dim=0)[3] == {"dim": 0}
    assert not torch.is_tensor(thing) and overrides.is_tensor_like(thing) and not overrides.is_tensor_like(3)


def test_what_nobody_takes_is_refused():
    class Refusing:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    class RefusingMode(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    words = "Multiple dispatch failed for 'torch.add'; all __torch_function__ handlers returned NotImplemented"
    with pytest.raises(TypeError, match=words):
        torch.add(Refusing(), 1)
    with pytest.raises(TypeError, match="unsupported operand"):
        torch.ones(1) + Refusing()
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.zeros'"), RefusingMode():
        torch.zeros(2)
    with pytest.raises(TypeError, match="must be Tensor, not object"):
        torch.sum(object())


def test_functions_of_a_program_can_be_overridden_too():
    def double(x, factor=2):
        if overrides.has_torch_function_variadic(x):
            return overrides.handle_torch_function(double, (x,), x, factor=factor)
        return x * factor

    assert double(3) == 6 and double(Thing())[3] == {"factor": 2}
    with Seeing() as mode:
        assert double(X).tolist() == [2.0, 2.0, 2.0]
    assert mode.calls[0] == ("double", (torch.Tensor,), (X,), {"factor": 2})

    @overrides.wrap_torch_function(lambda a: (a,))
    def triple(a):
        """Three of it."""
        return a * 3

    assert triple.__name__ == "triple" and triple(2) == 6 and triple(Thing())[1] == (Thing,)
    assert overrides.has_torch_function((Thing(),)) and overrides.has_torch_function_unary(Thing())
    assert not overrides.has_torch_function((X,)) and not overrides.has_torch_function_unary(nn.Parameter(X))


def test_functions_have_names_and_kinds():
    name = overrides.resolve_name
    assert name(torch.add) == "torch.add" and name(torch.Tensor.add) == "torch.Tensor.add" and name(len) is None
    assert name(F.relu) == "torch.nn.functional.relu" and name(torch.linalg.norm) == "torch.linalg.norm"
    assert name(torch.Tensor.shape.__get__) == "torch.Tensor.shape.__get__"
    of_tensor = overrides.is_tensor_method_or_property
    assert of_tensor(torch.Tensor.add) and of_tensor(torch.Tensor.shape.__get__) and of_tensor(torch.Tensor.backward)
    assert not of_tensor(torch.add) and not of_tensor(len)
    found = overrides.get_overridable_functions()
    assert torch.add in found[torch] and torch.Tensor.add in found[torch.Tensor] and F.relu in found[F]
    assert F.gaussian_nll_loss in found[F]
    ignored = overrides.get_ignored_functions()
    assert torch.is_tensor in ignored and torch.add not in ignored
    assert not {f for functions in found.values() for f in functions} & ignored


def test_testing_overrides_take_what_their_functions_take():
    dummies = overrides.get_testing_overrides()
    assert dummies[torch.add](X, 1) == -1 and dummies[torch.Tensor.shape.__get__](X) == -1
    with pytest.raises(TypeError):
        dummies[torch.add]()


def test_every_function_that_can_be_overridden_asks_a_mode():
    class Caught(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return "caught"

    passed = []
    for functions in overrides.get_overridable_functions().values():
        for function in functions:
            try:
                with Caught():
                    result = function(X)
            except TypeError:  # it wants other arguments
                continue
            if result != "caught":
                passed.append(function)
    assert passed == []


def test_a_mode_does_not_slow_what_comes_after_it_or_change_what_is_imported():
    relu = F.gaussian_nll_loss
    with Seeing():
        pass
    assert F.gaussian_nll_loss is relu and torch.ones(2).shape == (2,)
    with torch.device("cpu"):
        assert names(lambda: torch.ones(2)) == ["torch.ones"]


def test_what_runs_inside_a_call_is_seen_by_the_modes_around_alone():
    x = torch.ones(2, requires_grad=True)
    y = (x * 2).sum()
    x.register_hook(lambda g: g * 3)
    with Seeing() as mode:
        y.backward()
    assert mode.names == ["torch.Tensor.backward"] and x.grad.tolist() == [6.0, 6.0]


def test_a_debugger_may_read_the_locals_of_every_function_that_asks_a_mode():
    read = []

    class Reading(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            frame = sys._getframe()
            while frame is not None:
                read.append((frame.f_code.co_name, dict(frame.f_locals)))
                frame = frame.f_back
            return func(*args, **(kwargs or {}))

    assert F.pdist.__closure__ and F.max_pool1d_with_indices.__closure__
    with Reading():
        F.pdist(torch.ones(2, 3))
        F.max_pool1d_with_indices(torch.ones(1, 1, 4), 2)
    found = dict(read)
    assert found["pdist"]["kwargs"] == {} and found["max_pool1d_with_indices"]["args"][1] == 2


def test_indexing_asks_the_classes_of_the_index_and_of_what_is_written():
    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    x, index = torch.zeros(3), Asked([0.0])
    assert x[index] == x[[index, index]] == x[index, 0] == "__getitem__"
    x[0] = Asked([7.0])
    assert torch.equal(x, torch.zeros(3))
