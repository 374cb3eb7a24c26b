"""Python's protocols on tensors: copying, pickling, hashing, weak references, operators."""

import copy
import gc
import pickle
import subprocess
import sys
import weakref

import pytest

import rgrad as torch
from rgrad import nn

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


# Copies


def test_a_copy_shares_memory_and_a_deep_copy_does_not():
    tensor = torch.zeros(2)
    shallow, deep = copy.copy(tensor), copy.deepcopy(tensor)
    tensor.fill_(3)
    assert shallow is not tensor and shallow.tolist() == [3, 3]
    assert deep.tolist() == [0, 0]


def test_a_deep_copy_keeps_gradient_strides_and_attributes():
    tensor = torch.arange(6.0).view(2, 3).t().requires_grad_()
    tensor.grad = torch.ones(3, 2)
    tensor.tag = ["a"]
    result = copy.deepcopy(tensor)
    assert result.requires_grad and result.is_leaf and result.stride() == (1, 3)
    assert result.tolist() == tensor.tolist()
    assert result.grad is not tensor.grad and result.grad.tolist() == tensor.grad.tolist()
    assert result.tag == ["a"] and result.tag is not tensor.tag
    assert copy.copy(tensor).tag is tensor.tag


def test_tensors_that_share_memory_share_it_in_a_deep_copy():
    base = torch.zeros(4)
    copies = copy.deepcopy([base, base[1:], base])
    copies[0].fill_(1)
    assert copies[1].tolist() == [1, 1, 1] and copies[2] is copies[0]
    assert base.tolist() == [0, 0, 0, 0]


def test_only_leaves_are_copied_deeply():
    tensor = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(tensor)


def test_a_deep_copy_of_a_module_is_independent_and_keeps_its_ties():
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second.weight = first.weight
    module = nn.Sequential(first, second)
    result = copy.deepcopy(module)
    assert result[0].weight is result[1].weight
    assert type(result[0].weight) is nn.Parameter
    with torch.no_grad():
        result[0].weight.fill_(7)
    assert module[0].weight.tolist() != result[0].weight.tolist()


def test_a_parameter_keeps_its_class():
    class Special(nn.Parameter):
        pass

    parameter = Special(torch.ones(2))
    assert type(copy.deepcopy(parameter)) is Special
    assert type(copy.deepcopy(nn.Parameter(torch.ones(2), requires_grad=False))) is nn.Parameter


# Pickle


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_dtype_survives_pickle(dtype, protocol):
    tensor = torch.tensor([[0, 1, 2], [3, 0, 5]]).to(getattr(torch, dtype)).t()
    result = pickle.loads(pickle.dumps(tensor, protocol))
    assert result.dtype == tensor.dtype and result.shape == tensor.shape
    assert result.tolist() == tensor.tolist()


def test_pickle_keeps_what_a_tensor_is():
    tensor = torch.ones(2, requires_grad=True)
    tensor.tag = 3
    result = pickle.loads(pickle.dumps(tensor))
    assert result.requires_grad and result.is_leaf and result.tag == 3
    parameter = pickle.loads(pickle.dumps(nn.Parameter(torch.ones(2), requires_grad=False)))
    assert type(parameter) is nn.Parameter and not parameter.requires_grad
    assert pickle.loads(pickle.dumps(torch.tensor(2.5))).item() == 2.5
    assert pickle.loads(pickle.dumps(torch.empty(0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    "t",
    [
        torch.arange(6.0).view(2, 3).t(),
        torch.ones(2).expand(3, 2),
        torch.arange(12.0).view(3, 4)[:, 1:3],
        torch.ones(0, 3),
        torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    ],
)
def test_pickle_keeps_strides(t):
    loaded = pickle.loads(pickle.dumps(t))
    assert torch.equal(loaded, t) and loaded.stride() == t.stride() and not loaded._is_view()


def test_a_pickled_module_computes_the_same():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    again = pickle.loads(pickle.dumps(module))
    x = torch.ones(2, 3)
    assert again(x).tolist() == module(x).tolist()


def test_pickle_writes_elements_out_of_band_on_request():
    tensor = torch.arange(1000)
    buffers = []
    data = pickle.dumps(tensor, protocol=5, buffer_callback=buffers.append)
    assert len(data) < 1000 and len(buffers) == 1
    assert pickle.loads(data, buffers=buffers).tolist() == tensor.tolist()


# Identity


def test_tensors_are_hashed_by_identity():
    a, b = torch.ones(2), torch.ones(2)
    table = {a: "a", b: "b"}
    assert table[a] == "a" and table[b] == "b" and hash(a) != hash(b)


def test_a_weak_reference_sees_the_end_of_a_tensor():
    tensor = torch.ones(2)
    reference = weakref.ref(tensor)
    assert reference() is tensor
    del tensor
    assert reference() is None


def test_a_cycle_through_an_attribute_is_collected():
    class Marker:
        pass

    tensor, marker = torch.ones(2), Marker()
    tensor.marker, marker.tensor = marker, tensor
    gone = weakref.ref(marker)
    del tensor, marker
    gc.collect()
    assert gone() is None


# Operators


def test_power_takes_numbers_and_tensors_on_either_side():
    x = torch.tensor([2.0, 3.0])
    assert (x**2).tolist() == [4, 9]
    assert (2**x).tolist() == [4, 8]
    assert (x**x).tolist() == [4, 27]
    assert (x**-1).tolist() == [0.5, pytest.approx(1 / 3)]
    whole = 2 ** torch.tensor([3])
    assert whole.dtype == torch.int64 and whole.tolist() == [8]


def test_power_in_place_changes_the_tensor():
    x = y = torch.tensor([2.0, 3.0])
    y **= 2
    assert y is x and x.tolist() == [4, 9]
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \*\*=: 'Tensor' and 'str'"):
        y **= "a"


def test_power_is_differentiable():
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    (x**3).sum().backward()
    assert x.grad.tolist() == [12, 27]


def test_power_of_something_else_is_a_type_error():
    x = torch.ones(1)
    for attempt in (lambda: x ** "a", lambda: "a" ** x, lambda: pow(x, 2, 3)):
        with pytest.raises(TypeError, match="unsupported operand type"):
            attempt()
    with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
        torch.tensor([2]) ** -1


def test_invert_flips_bits_and_truth_values():
    assert (~torch.tensor([1, -2])).tolist() == [-2, 1]
    assert (~torch.tensor([True, False])).tolist() == [False, True]
    with pytest.raises(TypeError, match="only implemented on integer and Boolean-type tensors"):
        ~torch.ones(1)


def test_the_matrix_product_needs_tensors():
    x = torch.eye(2)
    assert (x @ x).tolist() == [[1, 0], [0, 1]]
    for other in (3, [1, 2]):
        with pytest.raises(TypeError, match="unsupported operand type"):
            other @ x
    y = x
    y @= 2 * torch.eye(2)
    assert y is not x and y.tolist() == [[2, 0], [0, 2]]


def test_reversed_flips_the_first_dimension():
    assert reversed(torch.tensor([[1, 2], [3, 4]])).tolist() == [[3, 4], [1, 2]]
    assert reversed(torch.tensor(1)).item() == 1


def test_a_tensor_says_how_it_is_stored():
    tensor = torch.ones(1)
    assert tensor.layout is torch.strided
    assert not (tensor.is_meta or tensor.is_mps or tensor.is_nested)


def test_division_has_its_old_names():
    tensor = torch.tensor([1.0, 4.0])
    assert tensor.__rdiv__(2).tolist() == [2.0, 0.5] and tensor.__div__(2).tolist() == [0.5, 2.0]


def test_the_reflected_product_of_matrices_keeps_the_dtype():
    a, b = torch.arange(4.0).view(2, 2).bfloat16(), torch.ones(2, 2).bfloat16()
    product = b.__rmatmul__(a)
    assert product.dtype == torch.bfloat16 and product.tolist() == [[1, 1], [5, 5]]


def test_a_size_stays_one_on_either_side_of_a_plus():
    assert repr((3,) + torch.Size([1])) == repr(torch.Size([3]) + (1,)) == "torch.Size([3, 1])"


def test_swapped_tensors_have_each_others_class_attributes_and_gradient():
    a, b = torch.ones(2, requires_grad=True), torch.nn.Parameter(torch.zeros(3))
    a.mark = 1
    (a * 2).sum().backward()
    torch.utils.swap_tensors(a, b)
    assert (type(a), type(b)) == (torch.nn.Parameter, torch.Tensor)
    assert (a.tolist(), b.tolist(), b.grad.tolist(), a.grad) == ([0, 0, 0], [1, 1], [2, 2], None)
    assert b.mark == 1
    assert not hasattr(a, "mark")
    grad = b.grad
    (b * a.sum()).sum().backward()
    assert b.grad is grad
    assert a.grad.tolist() == [2, 2, 2]


class Tagged(torch.Tensor):
    __slots__ = ("tag",)


def test_swapped_tensors_have_each_others_slots():
    a, b = torch.ones(2).as_subclass(Tagged), torch.ones(3).as_subclass(Tagged)
    a.tag = "a"
    torch.utils.swap_tensors(a, b)
    assert b.tag == "a"
    assert not hasattr(a, "tag")
    with pytest.raises(RuntimeError, match="different slots"):
        torch.utils.swap_tensors(a, torch.ones(1))
    assert type(a) is Tagged
    torch.utils.swap_tensors(b, b)
    assert (b.tag, b.shape) == ("a", (2,))


def test_tensors_with_weak_references_are_not_swapped():
    a, b = torch.ones(2), torch.ones(3)
    there = weakref.ref(b)
    with pytest.raises(RuntimeError, match="Cannot swap t1 because it has weakref associated with it"):
        torch.utils.swap_tensors(b, a)
    with pytest.raises(RuntimeError, match="Cannot swap t2 because it has weakref associated with it"):
        torch.utils.swap_tensors(a, b)
    assert there() is b


def test_threads_may_read_a_tensor_while_another_gives_it_other_data():
    script = (
        "import sys, threading, time\n"
        "import rgrad as torch\n"
        "sys.setswitchinterval(1e-6)\n"
        "x, end = torch.arange(4), time.monotonic() + 3\n"
        "def repeat(f):\n"
        "    while time.monotonic() < end:\n"
        "        for _ in range(100): f()\n"
        "def write(): x.data = torch.arange(4)\n"
        "reads = [lambda: ~x, lambda: 3 in x, lambda: x ** 2, lambda: x.sum().item(), lambda: x.tolist()]\n"
        "threads = [threading.Thread(target=repeat, args=(f,)) for f in [write, *reads]]\n"
        "[t.start() for t in threads]\n"
        "[t.join() for t in threads]\n"
        "print(x.tolist())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[0, 1, 2, 3]"), done.stderr[-2000:]
