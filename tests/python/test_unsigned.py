"""uint16, uint32 and uint64: what is stored, cast, indexed and compared, and what is refused."""

import copy
import io
import pickle

import numpy as np
import pytest

import rgrad as torch

UNSIGNED = ["uint16", "uint32", "uint64"]
OTHERS = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", *UNSIGNED]
MASK = torch.tensor([True, False, True, False])


def dtype_of(name):
    return getattr(torch, name)


def largest(name):
    return int(np.iinfo(name).max)


def edges(name):
    """The numbers at the ends and in the middle of the range."""
    top = largest(name)
    return [0, 1, top // 2, top // 2 + 1, top - 1, top]


def array(name):
    return np.array(edges(name), dtype=name)


@pytest.mark.parametrize("name", UNSIGNED)
def test_every_number_of_the_range_is_stored_and_read_back(name):
    dtype, numbers = dtype_of(name), edges(name)
    t = torch.tensor(numbers, dtype=dtype)
    assert t.tolist() == numbers and [x.item() for x in t] == numbers and t.dtype is dtype
    assert t.numpy().dtype == name and (t.numpy() == array(name)).all()
    assert torch.from_numpy(array(name)).equal(t) and torch.tensor(array(name)).dtype is dtype
    assert torch.frombuffer(array(name), dtype=dtype).equal(t) and torch.from_dlpack(array(name)).equal(t)
    assert (np.from_dlpack(t) == array(name)).all()
    assert torch.full((2,), largest(name), dtype=dtype).tolist() == [largest(name)] * 2
    assert torch.zeros(3, dtype=dtype).tolist() == [0] * 3 and torch.arange(3, dtype=dtype).tolist() == [0, 1, 2]
    assert repr(t[-1]) == f"tensor({largest(name)}, dtype=torch.{name})"
    assert t.type() == f"torch.{dtype_name(name)}Tensor" and not t.is_signed() and not t.is_floating_point()
    assert t.element_size() == np.dtype(name).itemsize


def dtype_name(name):
    return name.replace("uint", "UInt")


@pytest.mark.parametrize("name", UNSIGNED)
@pytest.mark.parametrize("other", OTHERS)
def test_casts_are_those_of_numpy(name, other):
    with np.errstate(over="ignore"):
        expected = array(name).astype(other)
    assert torch.from_numpy(array(name)).to(dtype_of(other)).numpy().tobytes() == expected.tobytes()
    if other in UNSIGNED:
        return
    numbers = np.array([0, 1, 3, 100], dtype=other)
    assert torch.from_numpy(numbers).to(dtype_of(name)).tolist() == numbers.astype(name).tolist()
    if other.startswith("int"):
        negative = np.array([-1, -100], dtype=other)
        assert torch.from_numpy(negative).to(dtype_of(name)).tolist() == negative.astype(name).tolist()


def test_large_uint64_are_rounded_once_and_read_from_floating_point():
    # A float32 has 24 bits: beyond the midpoint of two of them by 1, which float64 does not tell.
    between = 2**63 + 2**39 + 1
    t = torch.tensor([between], dtype=torch.uint64)
    assert t.float().item() == float(np.uint64(between).astype(np.float32)) == 2.0**63 + 2.0**40
    assert t.double().float().item() == 2.0**63
    doubles = torch.tensor([2.0**63, 2.0**64 - 2048, 5e9, 1.9], dtype=torch.float64)
    assert doubles.to(torch.uint64).tolist() == [2**63, 2**64 - 2048, 5 * 10**9, 1]
    assert t.to(torch.int64).item() == between - 2**64 and t.to(torch.uint32).item() == between % 2**32


@pytest.mark.parametrize("name", UNSIGNED)
def test_casts_of_strided_broadcast_and_long_tensors_agree_with_dense_ones(name):
    numbers = np.arange(3000, dtype=name).reshape(50, 60)
    t = torch.from_numpy(numbers)
    assert (t.t().float().numpy() == numbers.T.astype("float32")).all()
    assert (t[::2, 1::3].long().numpy() == numbers[::2, 1::3].astype("int64")).all()
    assert t.float().t().to(t.dtype).equal(t.t()) and t[:1].expand(4, 60).double().sum().item() == 4 * numbers[0].sum()
    into = torch.zeros(60, 50, dtype=t.dtype).t()
    assert into.copy_(t.int()).equal(t)


@pytest.mark.parametrize("name", UNSIGNED)
def test_elements_are_moved_indexed_and_written(name):
    x, dtype = array(name), dtype_of(name)
    t = torch.from_numpy(x.copy())
    i = torch.tensor([3, 0, 5])
    assert (t[i].numpy() == x[i.numpy()]).all() and (t.flip(0).numpy() == x[::-1]).all()
    assert (t.gather(0, i).numpy() == x[i.numpy()]).all() and (t.index_select(0, i).numpy() == x[i.numpy()]).all()
    assert (torch.cat([t, t]).numpy() == np.concatenate([x, x])).all() and torch.stack([t, t]).shape == (2, 6)
    assert (t[t != 0].numpy() == x[x != 0]).all() and t.roll(2).tolist() == np.roll(x, 2).tolist()
    written = t.clone()
    written[i] = torch.tensor([7, 8, 9], dtype=dtype)
    written[1] = largest(name)
    assert written.tolist() == [8, largest(name), int(x[2]), 7, int(x[4]), 9]
    where = torch.where(torch.tensor([True, False] * 3), t, torch.zeros_like(t))
    assert where.tolist() == np.where([True, False] * 3, x, 0).tolist()
    assert t.masked_fill(t == 0, largest(name))[0].item() == largest(name)
    assert t.view(torch.uint8).tolist() == x.view("uint8").tolist()
    assert t.view(dtype_of(name[1:])).view(dtype).equal(t)
    added = torch.zeros(4, dtype=dtype).scatter_add(0, i % 2, t[i])
    assert added.tolist() == [int(x[0]), (int(x[3]) + int(x[5])) % (largest(name) + 1), 0, 0]
    assert copy.deepcopy(t).equal(t) and [1, 2][t[1]] == 2


@pytest.mark.parametrize("name", UNSIGNED)
def test_order_is_that_of_unsigned_numbers(name):
    x, top = array(name), largest(name)
    t = torch.from_numpy(x)
    shuffled = t[torch.tensor([5, 2, 0, 4, 3, 1])]
    values, order = shuffled.sort()
    assert values.equal(t) and shuffled[order].equal(t) and shuffled.sort(descending=True)[0].equal(t.flip(0))
    assert torch.cat([t, t]).unique().equal(t) and shuffled.argsort().equal(order)
    middle = torch.full_like(t, top // 2)
    assert (torch.maximum(t, middle).numpy() == np.maximum(x, middle.numpy())).all()
    assert (torch.minimum(t, middle).numpy() == np.minimum(x, middle.numpy())).all()
    assert t.clamp(1, 5).tolist() == np.clip(x, 1, 5).tolist() and t.clamp(min=-3).equal(t) and t.relu().equal(t)
    assert not t.signbit().any() and (t == top).tolist() == (x == top).tolist()
    assert (t == -1).tolist() == (x == top).tolist()  # -1 is converted to the dtype
    assert t.isfinite().all() and not t.isinf().any()


@pytest.mark.parametrize("name", UNSIGNED)
def test_products_and_bitwise_operations_wrap(name):
    x = torch.from_numpy(array(name))
    with np.errstate(over="ignore"):
        assert (x * x).tolist() == (array(name) * array(name)).tolist()
    assert (x * -1).tolist() == [-n % (largest(name) + 1) for n in edges(name)]
    assert (x & 6).tolist() == [n & 6 for n in edges(name)] and (x ^ x).count_nonzero() == 0
    assert (x | 1).tolist() == [n | 1 for n in edges(name)]
    assert torch.outer(x[:2], x[:2]).dtype is x.dtype
    assert x.mul_(2).tolist() == [n * 2 % (largest(name) + 1) for n in edges(name)]


@pytest.mark.parametrize("name", UNSIGNED)
def test_sums_are_int64_and_floating_point_functions_are_of_the_default_dtype(name):
    x = torch.tensor([3, 1, 2], dtype=dtype_of(name))
    assert x.sum().dtype is x.prod().dtype is x.cumsum(0).dtype is torch.int64
    assert (x.sum().item(), x.prod().item(), x.cumsum(0).tolist()) == (6, 6, [3, 4, 6])
    assert (x / 2).tolist() == [1.5, 0.5, 1.0] and x.exp().dtype is (x * 1.5).dtype is torch.float32
    top = torch.tensor([largest(name)], dtype=dtype_of(name))
    assert (top / 1).item() == float(np.float32(largest(name))) and (top + 1.0).dtype is torch.float32
    assert top.sum(dtype=torch.float64).item() == float(largest(name))
    assert (x + torch.ones(3)).tolist() == [4.0, 2.0, 3.0] and bool(x.all()) and bool(x.any())


@pytest.mark.parametrize("name", UNSIGNED)
def test_operations_without_kernels_are_refused_with_their_name(name):
    x, shown = torch.tensor([3, 1, 2], dtype=dtype_of(name)), dtype_name(name)
    for kernel, call in (
        ("add_stub", lambda: x + x),
        ("add_stub", lambda: x.sub_(1)),
        ("neg_cpu", lambda: -x),
        ("abs_cpu", lambda: x.abs()),
        ("bitwise_not_cpu", lambda: ~x),
        ("div_floor_cpu", lambda: x // x),
        ("remainder_cpu", lambda: x % 2),
        ("pow", lambda: x**2),
        ("lt_cpu", lambda: x < x),
        ("lshift_cpu", lambda: x << 1),
        ("max_all", lambda: x.max()),
        ("min_cpu", lambda: x.min(0)),
        ("max_values_cpu", lambda: x.amax()),
        ("argmax_cpu", lambda: x.argmax()),
        ("topk_cpu", lambda: x.topk(1)),
        ("median_cpu", lambda: x.median()),
        ("cummax_cpu", lambda: x.cummax(0)),
        ("sum_cpu", lambda: x.sum(dtype=x.dtype)),
        ("addmm_impl_cpu_", lambda: x[None] @ x[:, None]),
        ("searchsorted_out_cpu", lambda: torch.searchsorted(x, x)),
    ):
        with pytest.raises(NotImplementedError, match=f"\"{kernel}\" not implemented for '{shown}'"):
            call()


@pytest.mark.parametrize("name", UNSIGNED)
def test_promotion_with_other_integers_is_refused_and_with_floating_point_is_that(name):
    dtype, other = dtype_of(name), torch.uint16 if name == "uint32" else torch.uint32
    for partner in (torch.bool, torch.uint8, torch.int64, other):
        with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not supported"):
            torch.promote_types(dtype, partner)
        with pytest.raises(RuntimeError, match=f"attempted to promote {dtype_name(name)}"):
            torch.ones(2, dtype=dtype) * torch.ones(2, dtype=partner)
    for partner in (torch.float16, torch.bfloat16, torch.float32, torch.float64, dtype):
        assert torch.promote_types(dtype, partner) is torch.promote_types(partner, dtype) is partner
    x = torch.ones(2, dtype=dtype)
    assert torch.result_type(x, 1) is torch.result_type(x, torch.tensor(1)) is dtype
    assert torch.result_type(x, 1.5) is torch.float32
    assert torch.result_type(x[0], torch.ones(1, dtype=torch.int8)) is torch.int8
    assert torch.can_cast(dtype, torch.int8) and torch.can_cast(dtype, torch.float16)
    assert not torch.can_cast(torch.float16, dtype) and not torch.can_cast(dtype, torch.bool)
    with pytest.raises(RuntimeError, match=f"Unknown Complex ScalarType for {dtype_name(name)}"):
        dtype.to_complex()
    assert dtype.to_real() is dtype


@pytest.mark.parametrize("name", UNSIGNED)
def test_numbers_outside_of_the_range_are_refused(name):
    dtype, top = dtype_of(name), largest(name)
    x = torch.zeros(2, dtype=dtype)
    assert x.fill_(-1).tolist() == [top] * 2 and x.fill_(1.7).tolist() == [1, 1]
    for number in (top + 1, -1.5):
        with pytest.raises((RuntimeError, OverflowError)):
            x.fill_(number)
    limits = torch.iinfo(dtype)
    assert (limits.min, limits.max, limits.bits) == (0, top, 8 * dtype.itemsize)
    with pytest.raises(RuntimeError, match="from is out of bounds for"):
        torch.randint(-1, 2, (2,), dtype=dtype)
    drawn = torch.randint(1000, (500,), dtype=dtype)
    assert drawn.dtype is dtype and min(drawn.tolist()) >= 0 and 900 < max(drawn.tolist()) < 1000
    with pytest.raises(RuntimeError, match="can require gradients"):
        torch.ones(2, dtype=dtype, requires_grad=True)


def test_elements_of_uint64_are_integers_that_are_not_negative():
    assert torch.tensor([2**64 - 1, True], dtype=torch.uint64).tolist() == [2**64 - 1, 1]
    with pytest.raises(OverflowError, match="can't convert negative int to unsigned"):
        torch.tensor(-1, dtype=torch.uint64)
    with pytest.raises(OverflowError):
        torch.tensor([2**64], dtype=torch.uint64)
    with pytest.raises(TypeError, match="an integer is required"):
        torch.tensor([1.5], dtype=torch.uint64)
    assert torch.tensor(-1, dtype=torch.uint16).item() == 2**16 - 1


@pytest.mark.parametrize("name", UNSIGNED)
def test_files_pickles_and_storages_keep_the_dtype(name, tmp_path):
    from rgrad import safetensors

    t = torch.from_numpy(array(name))
    file = io.BytesIO()
    torch.save({"all": t, "part": t[2:], "dtype": t.dtype}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["all"].equal(t) and loaded["part"].equal(t[2:]) and loaded["dtype"] is t.dtype
    assert loaded["all"].untyped_storage().data_ptr() == loaded["part"].untyped_storage().data_ptr()
    file.seek(0)
    assert torch.load(file, weights_only=False)["part"].equal(t[2:])
    assert pickle.loads(pickle.dumps(t)).equal(t)
    safetensors.save_file({"t": t}, tmp_path / "t.safetensors")
    assert safetensors.load_file(tmp_path / "t.safetensors")["t"].equal(t)
    storage = torch.TypedStorage(wrap_storage=t.untyped_storage(), dtype=t.dtype)
    assert storage.dtype is t.dtype and storage.tolist() == edges(name)
    assert storage.type() == "torch.storage.TypedStorage" and t.untyped_storage().nbytes() == t.nbytes


@pytest.mark.parametrize("name", UNSIGNED)
def test_meta_tensors_have_shapes_and_dtypes(name):
    x = torch.empty(2, 3, dtype=dtype_of(name), device="meta")
    assert (x * x).dtype is x.dtype and x.sum().dtype is torch.int64 and (x == x).shape == (2, 3)
    assert x.float().dtype is torch.float32 and x.t().contiguous().shape == (3, 2)


@pytest.mark.parametrize("name", UNSIGNED)
def test_random_numbers_from_a_bound_on_reach_the_largest_number(name):
    x = torch.empty(2000, dtype=dtype_of(name)).random_(100, None)
    values = x.tolist()
    largest = min(torch.iinfo(x.dtype).max, 2**63 - 1)
    assert min(values) >= 100 and largest * 0.9 < max(values) <= largest
    with pytest.raises(NotImplementedError, match="random_kernel_cpu"):
        x.random_()
