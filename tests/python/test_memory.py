"""Memory that others own: misaligned, wrapped twice, with bytes that are no truth values, given back once."""

import ctypes
import gc
import mmap
import threading
import warnings

import numpy as np
import pytest

import rgrad as torch
from rgrad import _C
from rgrad.doctor.samples import samples


def misaligned(values, dtype=torch.float32):
    """A tensor of these values from the second byte of a buffer on, and the buffer."""
    values = torch.tensor(values, dtype=dtype)
    memory = bytearray(1 + values.numel() * values.element_size())
    tensor = torch.frombuffer(memory, dtype=dtype, offset=1).view(values.shape)
    return tensor.copy_(values), memory


# ---- misaligned memory


def through_frombuffer(memory):
    return torch.frombuffer(memory, dtype=torch.float32, offset=1)


def through_a_view(memory):
    return torch.frombuffer(memory, dtype=torch.uint8, offset=1).view(torch.float32)


def through_numpy(memory):
    return torch.from_numpy(np.frombuffer(memory, np.uint8)[1:].view(np.float32))


def through_dlpack(memory):
    return torch.from_dlpack(np.frombuffer(memory, np.uint8)[1:].view(np.float32))


def through_as_tensor(memory):
    return torch.as_tensor(np.frombuffer(memory, np.uint8)[1:].view(np.float32))


def through_a_storage_buffer(memory):
    return _C._tensor_from_buffer(memory, torch.float32, 1, 4)


WAYS_IN = [
    through_frombuffer,
    through_a_view,
    through_numpy,
    through_dlpack,
    through_as_tensor,
    through_a_storage_buffer,
]


@pytest.mark.parametrize("way_in", WAYS_IN)
def test_misaligned_memory_is_shared_whichever_way_it_comes_in(way_in):
    memory = bytearray(1 + 4 * 4)
    array = np.frombuffer(memory, np.uint8)[1:].view(np.float32)
    tensor = way_in(memory)
    assert tensor.data_ptr() % 4 == 1 and tensor.is_contiguous()
    array[:] = [1, 2, 3, 4]
    assert tensor.tolist() == [1, 2, 3, 4]
    tensor.mul_(10)
    tensor[1:].add_(tensor[:1])
    tensor[3] = -1
    tensor[::2] *= 2
    assert array.tolist() == [20, 30, 80, -1] and memory[0] == 0
    assert repr(tensor) == "tensor([20., 30., 80., -1.])"
    assert (tensor[1].item(), tensor.sum().item(), tensor.view(2, 2).t()[0, 1].item()) == (30, 129, 80)
    assert tensor.numpy().tolist() == tensor.clone().tolist() == [20, 30, 80, -1]
    tensor.fill_(7)
    tensor.masked_fill_(torch.tensor([True, False, False, True]), 5)
    tensor.index_add_(0, torch.tensor([0, 0]), torch.ones(2))
    torch.add(torch.ones(4), 1, out=tensor[:4].view(4))
    assert array.tolist() == [2, 2, 2, 2]


def test_a_mapped_file_is_read_from_any_byte(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"head:" + np.arange(5, dtype=np.float64).tobytes())
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    tensor = _C._tensor_from_buffer(memoryview(mapped), torch.float64, 5, 5)
    assert (tensor * 2).tolist() == [0, 2, 4, 6, 8] and tensor.cumsum(0)[-1] == 10
    with pytest.raises(RuntimeError, match="read-only"):
        tensor.zero_()


def test_fields_of_records_are_read_where_they_lie():
    records = np.zeros(3, dtype=[("a", "u1"), ("b", "<f4"), ("c", "u1", 3)])
    tensor = torch.from_numpy(records["b"])
    assert tensor.stride() == (2,) and tensor.data_ptr() % 4 == 1
    tensor.copy_(torch.tensor([1.0, 2.0, 3.0]))
    assert records["b"].tolist() == [1, 2, 3] and records["c"].sum() == records["a"].sum() == 0


def test_training_with_misaligned_parameters_is_that_with_aligned_ones():
    start = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]]
    odd, memory = misaligned(start)
    even = torch.tensor(start)
    x = torch.arange(12.0).view(4, 3) / 7
    for make in (torch.optim.SGD, torch.optim.Adam):
        for parameter in (odd, even):
            parameter.requires_grad_()
            optimizer = make([parameter], lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                (x @ parameter.t()).relu().square().mean().backward()
                optimizer.step()
        assert odd.tolist() == even.tolist() != start
    assert np.frombuffer(memory, np.float32, offset=1).tolist() == even.flatten().tolist()


def outcome(sample, dtype, layout):
    with warnings.catch_warnings():
        # Some are given once in a process.
        warnings.simplefilter("ignore")
        try:
            found = sample.call(dtype, "cpu", layout, grad=dtype == "float32")
        except Exception as e:
            return type(e).__name__, str(e)
    return [t.detach().clone() for t in found.results + found.gradients]


def test_every_operation_on_misaligned_memory_gives_what_it_gives_on_aligned_memory():
    wrong, calls = [], 0
    # What gives the memory of nothing, or tells where memory lies.
    unlike = {"empty_like", "data_ptr", "new_empty", "empty_strided", "new_empty_strided"}
    for op in torch._C._op_table():
        for sample in samples(op):
            if sample.op in unlike:
                continue
            for dtype in ("float32", "float16", "int64", "bool"):
                got, want = outcome(sample, dtype, "misaligned"), outcome(sample, dtype, "contiguous")
                if isinstance(want, tuple) or isinstance(got, tuple):
                    if got != want:
                        wrong.append(f"{sample.name} {sample.args} {dtype}: {got}")
                    continue
                calls += 1
                alike = len(got) == len(want) and all(
                    a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
                    for a, b in zip(got, want, strict=True)
                )
                if not alike:
                    wrong.append(f"{sample.name} {sample.args} {dtype}: other numbers")
    assert calls > 2000
    assert wrong == []


# ---- one buffer, wrapped twice


def two_wraps(first, second, n=4096):
    """Two tensors over parts of one array, which are two storages, and copies of them."""
    array = (np.arange(n, dtype=np.float32) * 7 % 31) - 11
    a, b = torch.from_numpy(array[first]), torch.from_numpy(array[second])
    assert a.untyped_storage()._cdata != b.untyped_storage()._cdata or first == second
    return a, b, a.clone(), b.clone()


SAME = (slice(0, 2048), slice(0, 2048))
CROSSED = (slice(0, 2048, 2), slice(1, 2048, 2))
SHIFTED = (slice(0, 2047), slice(1, 2048))


@pytest.mark.parametrize("parts", [SAME, CROSSED], ids=["same", "crossed"])
@pytest.mark.parametrize(
    "write",
    [
        lambda a, b: a.add_(b),
        lambda a, b: a.copy_(b),
        lambda a, b: a.mul_(b),
        lambda a, b: a.addcmul_(b, b),
        lambda a, b: a.view(32, -1).copy_(b.view(-1, 32).t()) if a.is_contiguous() else a.copy_(b),
        lambda a, b: torch.add(b, 1, out=a),
        lambda a, b: torch.where(b > 0, b, -b, out=a),
        lambda a, b: a.masked_fill_(b > 3, 100),
        lambda a, b: a.masked_scatter_(b > 3, b.clone()),
        lambda a, b: a.index_put_((torch.arange(len(a)),), b, accumulate=True),
        lambda a, b: a.index_add_(0, torch.arange(len(a)).flip(0), b.clone()),
        lambda a, b: a.scatter_(0, torch.arange(len(a)).flip(0), b.clone()),
        lambda a, b: a.lerp_(b, 0.5),
    ],
)
def test_two_wraps_of_one_array_are_written_as_if_the_input_were_a_copy(parts, write):
    a, b, copy, other = two_wraps(*parts)
    try:
        write(a, b)
    except RuntimeError as e:
        assert "single memory location" in str(e)
        assert a.tolist() == copy.tolist()
        return
    write(copy, other)
    assert a.tolist() == copy.tolist()


def test_wraps_that_are_shifted_are_refused_as_in_pytorch():
    a, b, copy, _ = two_wraps(*SHIFTED)
    for write in (
        lambda: a.add_(b),
        lambda: torch.mul(b, 2, out=a),
        lambda: a.copy_(b),
        lambda: torch.cumsum(b, 0, out=a),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
    assert a.tolist() == copy.tolist()


def test_an_optimizer_reads_a_gradient_that_lies_in_its_parameter():
    array = np.arange(5000, dtype=np.float32)
    parameter, gradient = torch.from_numpy(array), torch.from_numpy(array[::-1])
    parameter.requires_grad_()
    parameter.grad = gradient
    want = array - 0.5 * array[::-1]
    torch.optim.SGD([parameter], lr=0.5).step()
    assert parameter.tolist() == want.tolist()


# ---- truth values of any byte


def test_bytes_other_than_one_are_true_as_one_is():
    bytes_ = np.array([2, 0, 1, 255] * 100, np.uint8)
    x, even = torch.arange(400.0), torch.from_numpy(bytes_ != 0)
    for odd in (torch.from_numpy(bytes_.view(bool)), torch.from_numpy(bytes_).view(torch.bool)):
        for f in (
            torch.sum,
            torch.Tensor.int,
            torch.Tensor.float,
            torch.all,
            torch.any,
            torch.logical_not,
            torch.nonzero,
            torch.count_nonzero,
            torch.unique,
            torch.sort,
            torch.Tensor.tolist,
            torch.Tensor.to,
            lambda m: m.cumsum(0),
            lambda m: m.max(),
            lambda m: m.amin(),
            lambda m: m == even,
            lambda m: m ^ even,
            lambda m: (~m).view(torch.uint8),
            lambda m: m * 2,
            lambda m: x[m],
            lambda m: torch.where(m, x, -x),
            lambda m: x.clone().masked_fill_(m, 5),
            lambda m: torch.zeros(400).masked_scatter_(m, x),
            lambda m: torch.masked_select(x, m),
            lambda m: m.view(20, 20).any(0),
            lambda m: m.view(20, 20).sum(1),
            lambda m: torch.isin(m, torch.tensor([True])),
            lambda m: m[0].item(),
        ):
            assert str(f(odd)) == str(f(even))
    seen = torch.tensor([2, 0, 1], dtype=torch.uint8).view(torch.bool)
    assert seen.tolist() == [True, False, True] and seen.view(torch.uint8).tolist() == [2, 0, 1]


# ---- memory of others, given back


class Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Foreign:
    """A tensor of another library, which counts how often it is given back, and by threads with the interpreter."""

    def __init__(self, shape, dtype=(2, 32), strides=None):
        self.deleted = []
        self.memory = (ctypes.c_float * 16)(*range(16))
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        # Called without taking the interpreter's lock: it would abort the process where that is not held.
        self.deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self.deleted.append)
        tensor = DLTensor(
            ctypes.addressof(self.memory), Device(1, 0), len(shape), DataType(*dtype, 1), self.shape, self.strides, 0
        )
        self.managed = Managed(tensor, None, ctypes.cast(self.deleter, DELETER))

    def capsule(self):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)


def test_another_librarys_memory_is_given_back_once_whichever_thread_lets_go_of_it():
    foreign = Foreign((4, 4))
    capsule = foreign.capsule()
    tensor = torch.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="can be consumed only once"):
        torch.from_dlpack(capsule)
    held = [tensor.t()[1:]]
    assert held[0][0].tolist() == [1, 5, 9, 13]
    del tensor, capsule
    gc.collect()
    assert foreign.deleted == []
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert len(foreign.deleted) == 1


def test_memory_that_backward_lets_go_of_is_given_back_once():
    foreign = Foreign((16,))
    x = torch.ones(16, requires_grad=True)
    y = (x * torch.from_dlpack(foreign.capsule())).sum()
    gc.collect()
    assert foreign.deleted == []
    y.backward()
    assert x.grad.tolist() == list(range(16)) and len(foreign.deleted) == 1


@pytest.mark.parametrize(
    "foreign",
    [
        lambda: Foreign((2, 2), dtype=(5, 64)),
        lambda: Foreign((-1, 2)),
        lambda: Foreign((2**40, 2**40)),
        lambda: Foreign((2, 2), strides=(2**62, 1)),
    ],
)
def test_a_capsule_that_is_refused_is_given_back_once_or_stays_its_owners(foreign):
    foreign = foreign()
    capsule = foreign.capsule()
    with pytest.raises((ValueError, BufferError, RuntimeError)):
        torch.from_dlpack(capsule)
    consumed = '"used_dltensor"' in repr(capsule)
    assert len(foreign.deleted) == consumed


def test_a_tensor_of_no_elements_gives_the_memory_back_at_once():
    foreign = Foreign((0, 3))
    assert torch.from_dlpack(foreign.capsule()).shape == (0, 3)
    assert len(foreign.deleted) == 1


def test_a_storage_of_more_bytes_than_there_are_is_refused():
    with pytest.raises(RuntimeError, match="allocate memory"):
        torch.UntypedStorage(2**62)
