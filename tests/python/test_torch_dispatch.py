"""Classes and modes with `__torch_dispatch__`."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import threading

import pytest
from dispatch_cases import OF_MATRIX, OF_PICTURES

import rgrad as torch
from rgrad import nn
from rgrad.doctor.samples import samples
from rgrad.utils import _python_dispatch
from rgrad.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from rgrad.utils._pytree import tree_map

F = torch.nn.functional
CASES = [*((name, (3, 4), f) for name, f in OF_MATRIX.items()), *((n, (2, 3, 8, 8), f) for n, f in OF_PICTURES.items())]


class Wrapper(torch.Tensor):
    """Computes with a tensor that it holds."""

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=requires_grad,
        )
        made.inner = inner
        return made

    def __repr__(self):
        return super().__repr__(tensor_contents=f"{self.inner}")

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def unwrap(value):
            return value.inner if isinstance(value, Wrapper) else value

        out = func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
        out = tree_map(lambda value: cls(value) if isinstance(value, torch.Tensor) else value, out)
        return return_and_correct_aliasing(func, args, kwargs, out)


class Log(TorchDispatchMode):
    """Notes the operations of a block."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func).removeprefix("aten."))
        return func(*args, **(kwargs or {}))


def _data(shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def _weights(y):
    return torch.cos(torch.arange(y.numel())).reshape(y.shape).to(y.dtype)


def _expected(shape, f):
    x = _data(shape).requires_grad_()
    y = f(x)
    y.backward(_weights(y))
    return y.detach(), x.grad


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "shape", "f"), CASES, ids=[case[0] for case in CASES])
def test_a_class_that_holds_a_tensor_computes_and_differentiates_as_that_tensor(name, shape, f):
    y, grad = _expected(shape, f)
    x = Wrapper(_data(shape), requires_grad=True)
    out = f(x)
    assert type(out) is Wrapper and out.requires_grad
    out.backward(Wrapper(_weights(y)))
    assert type(x.grad) is Wrapper
    torch.testing.assert_close(out.inner, y)
    torch.testing.assert_close(x.grad.inner, grad)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "shape", "f"), CASES, ids=[case[0] for case in CASES])
def test_a_mode_that_calls_what_it_is_handed_changes_no_result_and_no_gradient(name, shape, f):
    y, grad = _expected(shape, f)
    with Log() as log:
        x = _data(shape).requires_grad_()
        out = f(x)
        out.backward(_weights(out))
    assert log.names
    torch.testing.assert_close(out, y, check_stride=True)
    torch.testing.assert_close(x.grad, grad)


def _names(call):
    with Log() as log:
        call()
    return log.names


@pytest.mark.parametrize(
    ("call", "names"),
    [
        # As PyTorch 2.15 shows them.
        (lambda x, w: F.linear(x, w), "t.default mm.default"),
        (lambda x, w: F.linear(x, w, torch.ones(5)), "ones.default t.default addmm.default"),
        (lambda x, w: x[None] @ w.t(), "unsqueeze.default t.default view.default mm.default view.default"),
        (lambda x, w: x.reshape(4, 3), "view.default"),
        (lambda x, w: x.t().reshape(-1), "t.default clone.default view.default"),
        (lambda x, w: x.flatten(), "view.default"),
        (lambda x, w: x[1], "select.int"),
        (lambda x, w: x[:, 1:3], "slice.Tensor"),
        (lambda x, w: 1 - x, "rsub.Scalar"),
        (lambda x, w: 2 / x, "reciprocal.default mul.Tensor"),
        (lambda x, w: x**2, "pow.Tensor_Scalar"),
        (lambda x, w: x.softmax(1), "_softmax.default"),
        (lambda x, w: x.double(), "_to_copy.default"),
        (lambda x, w: x.float(), ""),
        (lambda x, w: x.contiguous(), ""),
        (lambda x, w: x.mT, "transpose.int"),
        (lambda x, w: x.split(2), "split.Tensor"),
        (lambda x, w: x.movedim(0, 1), "permute.default"),
        (lambda x, w: x.add_(1), "add_.Tensor"),
        (lambda x, w: x.fill_(1), "fill_.Scalar"),
        (lambda x, w: x.max(1), "max.dim"),
        (lambda x, w: torch.abs(x, out=torch.empty(3, 4)), "empty.memory_format abs.out"),
        (lambda x, w: torch.arange(0, 3, 2), "arange.start_step"),
        (lambda x, w: F.embedding(torch.arange(2), x), "arange.default embedding.default"),
    ],
)
def test_a_mode_sees_the_operations_that_a_function_is_made_of(call, names):
    x, w = torch.ones(3, 4), torch.ones(5, 4)
    assert _names(lambda: call(x, w)) == names.split()


def test_a_mode_sees_the_operations_of_backward():
    x = torch.ones(2, 3, requires_grad=True)
    w = torch.ones(4, 3, requires_grad=True)
    y = F.linear(x, w).relu().sum()
    names = _names(y.backward)
    assert names.count("mm.default") == 2 and "threshold_backward.default" in names
    pictures = torch.ones(1, 2, 4, 4, requires_grad=True)
    y = F.max_pool2d(F.conv2d(pictures, torch.ones(2, 2, 3, 3)), 2).sum()
    names = _names(y.backward)
    assert "convolution_backward.default" in names and "max_pool2d_with_indices_backward.default" in names


def test_a_mode_sees_what_brackets_read_and_write():
    x, i = torch.arange(6.0).view(2, 3), torch.tensor([0, 1])
    mask, row = torch.tensor([True, False]), torch.ones(3)

    def seen(f):
        with Log() as log:
            f()
        return log.names

    assert seen(lambda: x[i]) == ["index.Tensor"]
    assert seen(lambda: x[:, i]) == ["index.Tensor"]
    assert seen(lambda: x[mask]) == ["index.Tensor"]
    assert seen(lambda: x[1:, 0]) == ["slice.Tensor", "select.int"]
    assert seen(lambda: x.__setitem__(0, row)) == ["select.int", "copy_.default"]
    assert seen(lambda: x.__setitem__((slice(None), 1), 5)) == ["select.int", "fill_.Scalar"]
    assert seen(lambda: x.__setitem__(i, row)) == ["index_put_.default"]
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_factory_functions_get_their_options():
    seen = []

    class Options(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((args, kwargs))
            return func(*args, **kwargs)

    with Options():
        torch.zeros(2, dtype=torch.float64)
        torch.ones_like(torch.empty(1))
    assert seen[0] == (([2],), {"dtype": torch.float64, "device": torch.device("cpu"), "pin_memory": False})
    assert seen[2][1] == {"pin_memory": False}


def test_modes_are_called_from_the_innermost_outward():
    with Log() as outer, Log() as inner:
        torch.ones(1).neg()
    assert outer.names == inner.names == ["ones.default", "neg.default"]
    assert _python_dispatch._get_current_dispatch_mode_stack() == []


def test_what_a_mode_refuses_goes_to_the_one_outside_of_it():
    class Refuses(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    x = torch.ones(2)
    with Log() as log, Refuses():
        y = x.neg()
    assert log.names == ["neg.default"] and y.tolist() == [-1, -1]
    with Refuses(), pytest.raises(TypeError, match=r"Multiple dispatch failed for 'torch.ops.aten.neg.default'"):
        x.neg()


def test_a_mode_may_return_anything_of_the_right_kind():
    class Doubles(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {})) * 2

    x = torch.ones(2, requires_grad=True)
    with Doubles():
        y = x.exp()
    y.sum().backward()
    # The history is that of the operation, whatever was computed.
    torch.testing.assert_close(x.grad, y.detach())


def test_an_error_of_a_handler_is_the_error_of_the_call_and_ends_the_mode():
    class Fails(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise LookupError("no")

    with pytest.raises(LookupError, match="no"), Fails():
        torch.ones(1)
    assert _python_dispatch._get_current_dispatch_mode_stack() == []
    assert torch.ones(1).item() == 1


def test_a_mode_belongs_to_its_thread():
    with Log() as log:
        thread = threading.Thread(target=lambda: torch.ones(2).neg())
        thread.start()
        thread.join()
    assert log.names == []


def test_a_class_method_is_no_handler_of_a_mode():
    class Wrong(TorchDispatchMode):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with pytest.raises(RuntimeError, match="classmethod is not supported"), Wrong():
        pass


def test_the_result_is_the_object_that_the_handler_returned():
    made = []

    class Keeps(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            out = super().__torch_dispatch__(func, types, args, kwargs)
            made.append(id(out))
            return out

    y = Keeps(torch.ones(2)).neg()
    assert id(y) == made[-1]


def test_what_the_graph_alone_holds_keeps_its_attributes():
    x = Wrapper(torch.tensor([2.0]), requires_grad=True)
    y = x.exp()
    z = y * y
    del y
    gc.collect()
    z.backward(Wrapper(torch.ones(1)))
    torch.testing.assert_close(x.grad.inner, 2 * torch.exp(torch.tensor([4.0])))


def test_gradients_accumulate_and_hooks_get_objects_of_the_class():
    x = Wrapper(torch.tensor([2.0]), requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(type(g)))
    for _ in range(2):
        y = x * x
        y.retain_grad()
        y.sum().backward()
    assert seen == [Wrapper, Wrapper]
    assert x.grad.inner.tolist() == [8.0] and y.grad.inner.tolist() == [1.0]


def test_second_derivatives_of_operations_that_save_arguments_alone():
    x = Wrapper(torch.tensor([2.0]), requires_grad=True)
    (g,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), x)
    assert gg.inner.tolist() == [12.0]


DIFFERENTIATED_TWICE = {
    "cumsum": lambda x: x.cumsum(0).pow(3),
    "unbind": lambda x: x.unbind()[1] ** 3,
    "slice": lambda x: x[1:] ** 3,
    "select": lambda x: x[0].exp(),
    "diagonal": lambda x: x.diagonal() ** 3,
    "repeat": lambda x: x.repeat(2, 1) ** 3,
    "max_pool1d": lambda x: F.max_pool1d(x**3, 2),
    "layer_norm": lambda x: F.layer_norm(x, (3,)) ** 3,
    "prod": lambda x: x.prod(),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.tensor([0, 2, 1])),
}


@pytest.mark.parametrize("name", DIFFERENTIATED_TWICE)
def test_derivatives_of_higher_orders_are_those_of_the_tensor_that_is_held(name):
    data = torch.linspace(0.5, 2.0, 9, dtype=torch.float64).view(3, 3)
    data = (data * 7).sin() + 1.5
    found = []
    for x in (Wrapper(data, requires_grad=True), data.clone().requires_grad_()):
        orders = []
        y = DIFFERENTIATED_TWICE[name](x)
        for _ in range(3):
            (y,) = torch.autograd.grad(y.sin().sum(), x, create_graph=True)
            orders.append(y.inner if isinstance(y, Wrapper) else y.detach())
        found.append(orders)
    for of_wrapper, of_tensor in zip(*found, strict=True):
        assert torch.allclose(of_wrapper, of_tensor), name


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_of_a_batch_go_through_a_class(create_graph):
    data = torch.linspace(0.5, 2.0, 9, dtype=torch.float64).view(3, 3)
    found = []
    for x in (Wrapper(data, requires_grad=True), data.clone().requires_grad_()):
        y = torch.softmax((x @ x).relu().cumsum(0), -1).sum(0)
        batch = torch.eye(3, dtype=torch.float64)
        (g,) = torch.autograd.grad(y, x, batch, is_grads_batched=True, create_graph=create_graph)
        found.append(g.inner if isinstance(g, Wrapper) else g.detach())
    assert found[0].shape == (3, 3, 3) and torch.allclose(*found)


def test_a_recorded_gradient_requires_grad_where_it_depends_on_something_that_does():
    x = Wrapper(torch.ones(3), requires_grad=True)
    (g,) = torch.autograd.grad(x.unbind()[0], x, create_graph=True)
    assert not g.requires_grad


def test_objects_of_the_class_are_written_to_plain_tensors_and_select_in_them():
    for key in (1, slice(0, 2), torch.tensor([0, 2]), (slice(None), 1)):
        plain, expected = torch.zeros(3, 3), torch.zeros(3, 3)
        expected[key] = 5.0
        plain[key] = Wrapper(torch.tensor(5.0))
        assert plain.tolist() == expected.tolist()
    plain = torch.zeros(3)
    plain[Wrapper(torch.tensor([0, 2]))] = 5.0
    assert plain.tolist() == [5.0, 0.0, 5.0]
    assert plain[Wrapper(torch.tensor([0]))].inner.tolist() == [5.0]


def test_a_derivative_of_random_numbers_that_would_be_drawn_anew_is_refused():
    x = Wrapper(torch.ones(1, 4, 4), requires_grad=True)
    y = F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
    state = torch.get_rng_state()
    with pytest.raises(NotImplementedError, match="it draws random numbers"):
        y.sum().backward()
    assert torch.equal(torch.get_rng_state(), state)


def test_a_module_with_a_parameter_of_the_class_trains():
    layer = nn.Linear(3, 2)
    layer.weight = nn.Parameter(Wrapper(layer.weight.detach()))
    plain = nn.Linear(3, 2)
    plain.load_state_dict({"weight": layer.weight.inner.clone(), "bias": layer.bias.detach().clone()})
    x = torch.ones(4, 3)
    for model in (layer, plain):
        F.mse_loss(model(x), torch.zeros(4, 2)).backward()
    assert type(layer.weight) is Wrapper
    torch.testing.assert_close(layer.weight.grad.inner, plain.weight.grad)


def test_a_tensor_of_a_class_that_has_memory_is_handed_on():
    seen = []

    class Sees(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append((str(func), types))
            return super().__torch_dispatch__(func, types, args, kwargs)

    made = torch.ones(2).as_subclass(Sees), torch.Tensor._make_subclass(Sees, torch.ones(2))
    for x in (Sees(2), Sees([1.0, 2.0]), *made):
        seen.clear()
        assert (x + 1).shape == (2,)
        assert seen == [("aten.add.Tensor", (Sees,))]


def test_sizes_and_device_are_those_that_were_given():
    x = Wrapper(torch.ones(2, 3, dtype=torch.float64))
    assert (x.shape, x.dtype, x.device, x.is_meta) == ((2, 3), torch.float64, torch.device("cpu"), False)
    assert repr(Wrapper(torch.ones(2))) == "Wrapper(tensor([1., 1.]))"
    assert repr(Wrapper(torch.ones(1), requires_grad=True)) == "Wrapper(tensor([1.]), requires_grad=True)"
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.Tensor._make_wrapper_subclass(Wrapper, (2, -1))
    with pytest.raises(RuntimeError, match="length of strides"):
        torch.Tensor._make_wrapper_subclass(Wrapper, (2,), strides=(1, 1))

    class NoHandler(torch.Tensor):
        pass

    with pytest.raises(TypeError, match="NoHandler must define __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(NoHandler, (2,))


def test_elements_are_asked_of_the_class():
    x = Wrapper(torch.tensor(3.0))
    assert x.item() == 3.0 and float(x) == 3.0
    with pytest.raises(RuntimeError, match="not supported for tensor subclasses"):
        x.numpy()
    with pytest.raises(RuntimeError, match="not supported for tensor subclasses"):
        x.tolist()


def test_handlers_are_off_where_a_program_says_so():
    x = Wrapper(torch.ones(1))
    with Log() as log, torch._C._DisableTorchDispatch():
        torch.ones(1)
    assert log.names == [] and (x + 1).inner.item() == 2


def test_operations_of_a_handler_are_recorded_where_it_re_enters_dispatch():
    class Records(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            with torch.overrides.enable_reentrant_dispatch():
                return super().__torch_dispatch__(func, types, args, kwargs)

    inner = torch.tensor([2.0], requires_grad=True)
    out = Records(inner) * 3
    assert not out.requires_grad and out.inner.requires_grad
    out.inner.backward()
    assert inner.grad.item() == 3
    outside = torch.overrides.enable_reentrant_dispatch()
    with pytest.raises(RuntimeError, match="outside of '__torch_dispatch__'"), outside:
        pass


def test_wrappers_are_copied_and_pickled_by_their_attributes():
    x = Wrapper(torch.ones(2), requires_grad=True)
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(y) is Wrapper and y.requires_grad and y.inner.tolist() == [1, 1]
        assert y.inner is not x.inner
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Wrapper"):
        torch.load(file)
    with torch.serialization.safe_globals([Wrapper]):
        file.seek(0)
        y = torch.load(file)
    assert type(y) is Wrapper and y.inner.tolist() == [1, 1]


def test_files_of_weights_have_wrappers_of_classes_that_are_allowed():
    file = io.BytesIO()
    torch.save(Wrapper(torch.ones(2)), file)
    name = f"{Wrapper.__module__}.{Wrapper.__qualname__}"
    assert torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(file.getvalue())) == [name]
    with pytest.raises(pickle.UnpicklingError, match=rf"GLOBAL {name} was not an allowed global .* Please use"):
        torch.load(io.BytesIO(file.getvalue()))
    with torch.serialization.safe_globals([Wrapper]):
        assert type(torch.load(io.BytesIO(file.getvalue()))) is Wrapper


def test_handlers_get_results_as_plain_tuples_and_lists():
    kinds = []

    class Kinds(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            kinds.append(type(out))
            return out

    x = torch.ones(2, 3)
    with Kinds():
        assert x.max(1).indices.shape == (2,)
        assert type(x.split(1)) is tuple and type(x.unbind()) is tuple
    assert kinds == [tuple, list, list]


def test_a_gradient_that_is_given_is_handed_on_as_it_is():
    seen = []

    class Sees(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = Sees(torch.ones(2), requires_grad=True)
    y = x * x
    seen.clear()
    torch.autograd.grad(y, x, Sees(torch.ones(2)))
    assert seen == ["aten.mul.Tensor", "aten.mul.Tensor", "aten.add.Tensor"]


def test_a_mask_is_filled_in_place():
    x = Wrapper(torch.arange(3.0))
    x[x > 0] = 5
    assert x.inner.tolist() == [0, 5, 5]


def test_a_handler_that_returns_too_few_tensors_is_told():
    class Few(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return (cls(torch.ones(2)),)

    x = Few(torch.ones(4), requires_grad=True)
    with pytest.raises(RuntimeError, match="returned 1 tensors instead of 2"):
        x.split(2)


def test_operations_are_told_by_their_class():
    from rgrad import _ops

    assert isinstance(torch.ops.aten.add.Tensor, _ops.OpOverload)
    assert isinstance(torch.ops.aten.add, _ops.OpOverloadPacket)
    assert copy.deepcopy(torch.ops.aten.add.Tensor) is torch.ops.aten.add.Tensor
    with pytest.raises(NotImplementedError, match="handler of __torch_dispatch__"):
        from rgrad._library import aten

        aten.shown("max_pool2d_with_indices_backward").default(torch.ones(1))


PARTS = 6


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_every_operation_of_the_table_computes_under_a_mode_what_it_computes_without(part):
    wrong, calls = [], 0
    for op in torch._C._op_table()[part::PARTS]:
        for sample in samples(op):
            for dtype in ("float32", "int64"):
                try:
                    expected = sample.call(dtype, "cpu", grad=True)
                except Exception:
                    continue
                try:
                    with Log():
                        found = sample.call(dtype, "cpu", grad=True)
                    for want, got in ((expected.results, found.results), (expected.gradients, found.gradients)):
                        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, equal_nan=True)
                except Exception as error:
                    wrong.append(f"{sample.name} {sample.args} {dtype}: {type(error).__name__} {str(error)[:200]}")
                calls += 1
    assert calls > 100
    assert wrong == []


def test_a_stream_given_by_numbers_reaches_modes_and_is_waited_for_only_if_it_exists():
    seen = []

    class Streams(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((func.name(), args))

    stream = torch.Stream(stream_id=1, device_index=2, device_type=3)
    x = torch.ones(1)
    with Streams():
        x.record_stream(stream)
    ((name, given),) = seen
    assert name == "aten::record_stream" and given[1] is stream and stream.stream_id == 1
    with pytest.raises(RuntimeError, match="stream 1 of device type 3"):
        stream.synchronize()
    assert torch.Stream(stream_id=0, device_index=-1, device_type=0) == torch.Stream(device="cpu")
    with pytest.raises(TypeError, match="stream_id, device_index and device_type"):
        torch.Stream(stream_id=1)


def test_type_as_a_tensor_whose_class_answers_for_the_device_goes_there():
    class Elsewhere(torch.Tensor):
        @staticmethod
        def __new__(cls):
            return torch.Tensor._make_wrapper_subclass(cls, (1,), dispatch_device=True)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return torch.device("meta") if func is torch.ops.prim.device.default else NotImplemented

    assert torch.ones(1).type_as(Elsewhere()).is_meta


class Elements(torch.Tensor):
    """Wraps a tensor; addition has no result."""

    @staticmethod
    def __new__(cls, elem):
        made = torch.Tensor._make_wrapper_subclass(cls, elem.shape, dtype=elem.dtype)
        made.elem = elem
        return made

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """As a method of the object, which it need not be."""
        assert isinstance(self, Elements)
        if func is torch.ops.aten.add.Tensor:
            return None
        args, kwargs = tree_map(lambda t: t.elem if isinstance(t, Elements) else t, (args, kwargs or {}))
        return tree_map(lambda t: Elements(t) if isinstance(t, torch.Tensor) else t, func(*args, **kwargs))


def test_an_operator_gives_the_none_that_a_handler_returned():
    x = Elements(torch.ones(2))
    assert x + 2 is None and 2 + x is None
    assert type(x * 2) is Elements
    with pytest.raises(RuntimeError, match="but got None"):
        torch.nn.functional.mse_loss(x.requires_grad_(), x).acos().backward()


def test_the_storage_of_a_wrapper_has_no_address_and_its_object_no_other_class():
    class Other(torch.Tensor):
        pass

    x = Elements(torch.ones(2))
    with pytest.raises(RuntimeError, match="without memory"):
        x.untyped_storage().data_ptr()
    for make in (x.as_subclass, lambda cls: cls(x), lambda cls: torch.Tensor._make_subclass(cls, x)):
        with pytest.raises(RuntimeError, match="subclass Other but.*already associated to a python object"):
            make(Other)
    assert x.as_subclass(Elements).shape == x.shape


def test_a_form_of_an_operation_is_found_by_name_and_tensors_of_classes_are_told_apart():
    sin = torch._C._dispatch_find_schema_or_throw("aten::sin", "")
    x = torch.ones(2)
    assert torch.equal(torch._C._dispatch_call_boxed(sin, x), x.sin())
    with pytest.raises(RuntimeError, match="Could not find schema for aten::sine"):
        torch._C._dispatch_find_schema_or_throw("aten::sine", "")
    assert torch._C._dispatch_isTensorSubclassLike(Elements(x))
    assert not torch._C._dispatch_isTensorSubclassLike(x)


def test_a_detached_tensor_of_a_class_counts_writes_with_it_and_its_data_does_not():
    x = Elements(torch.ones(2))
    before = x._version
    x.detach().mul_(2)
    assert x._version == before + 1
    x.data.mul_(2)
    assert x._version == before + 1
