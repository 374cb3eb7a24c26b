"""The device "meta": tensors that have a shape, a dtype and a history, and no elements."""

import copy

import pytest

import rgrad as torch
from rgrad import nn
from rgrad.nn import functional as F

NO_DATA = "Cannot copy out of meta tensor; no data!"


def meta(*shape, **options):
    return torch.empty(*shape, device="meta", **options)


def test_a_meta_tensor_has_a_size_and_no_memory():
    t = meta(10**7, 10**7)
    assert t.is_meta and t.device == torch.device("meta") and not t.is_cpu and not t.is_cuda
    assert (t.shape, t.dtype, t.data_ptr()) == ((10**7, 10**7), torch.float32, 0)
    assert t.untyped_storage().nbytes() == 4 * 10**14
    assert torch.zeros(2, device="meta").type() == "torch.meta.FloatTensor"
    assert not torch.ones(2).is_meta and torch.ones(2).is_cpu


def test_a_meta_tensor_shows_its_size_in_the_place_of_its_elements():
    assert repr(meta(2, 3)) == "tensor(..., device='meta', size=(2, 3))"
    assert repr(torch.arange(5, device="meta")) == "tensor(..., device='meta', size=(5,), dtype=torch.int64)"


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.zeros(2, 3, device=d),
        lambda d: torch.full((2, 3), 7, device=d),
        lambda d: torch.randn(2, 3, device=d),
        lambda d: torch.arange(5, device=d),
        lambda d: torch.eye(3, dtype=torch.float64, device=d),
        lambda d: torch.tensor([[1, 2], [3, 4]], device=d),
        lambda d: torch.randint(3, (4,), device=d),
        lambda d: torch.empty_strided((2, 3), (1, 2), device=d),
    ],
)
def test_factories_make_what_they_make_on_the_cpu_but_for_the_elements(make):
    here, there = make("cpu"), make("meta")
    assert there.is_meta
    assert (there.shape, there.dtype, there.stride()) == (here.shape, here.dtype, here.stride())


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: x + 1,
        lambda x, w: x.t() @ x,
        lambda x, w: (x > 0).sum(),
        lambda x, w: x.mean(0, keepdim=True),
        lambda x, w: x.transpose(0, 1).exp(),
        lambda x, w: x.half().softmax(-1),
        lambda x, w: x.max(1).indices,
        lambda x, w: x.sort(0).values[1:],
        lambda x, w: torch.cat([x, x], 1).cumsum(1),
        lambda x, w: torch.where(x > 0, x, 0.0),
        lambda x, w: F.layer_norm(x, (3,)),
        lambda x, w: F.conv2d(x.reshape(1, 1, 2, 3), w, padding=1),
        lambda x, w: F.max_pool2d(x.reshape(1, 1, 2, 3), 2),
        lambda x, w: F.cross_entropy(x, x.long()[:, 0]),
        lambda x, w: x.gather(1, x.long()),
        lambda x, w: x[:, [0, 0]],
        lambda x, w: torch.linalg.qr(x).R,
        lambda x, w: x.to(torch.float64).var(),
        lambda x, w: x * torch.tensor(2.0),
    ],
)
def test_results_are_described_as_on_the_cpu(f):
    here, there = torch.zeros(2, 3), meta(2, 3)
    a, b = f(here, torch.ones(1, 1, 2, 2)), f(there, meta(1, 1, 2, 2))
    assert b.is_meta
    assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())


def test_histories_are_recorded_and_gradients_are_meta_tensors():
    x = meta(4, 3, requires_grad=True)
    layer = nn.Linear(3, 2, device="meta")
    loss = layer(x).relu().sum()
    assert loss.grad_fn.name() == "SumBackward0"
    loss.backward()
    assert x.grad.is_meta and x.grad.shape == (4, 3) and layer.weight.grad.shape == (2, 3)
    torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9).step()


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.tolist(),
        lambda t: t.cpu(),
        lambda t: t.to("cpu"),
        lambda t: torch.ones(2, 3).copy_(t),
        lambda t: t.nonzero(),
        lambda t: t[t > 0],
        lambda t: torch.masked_select(t, t > 0),
        lambda t: torch.unique(t),
    ],
)
def test_what_needs_elements_is_not_implemented(read):
    with pytest.raises(NotImplementedError, match=NO_DATA):
        read(meta(2, 3))


def test_numbers_and_arrays_are_refused():
    for read in (lambda t: t.item(), float, bool):
        with pytest.raises(RuntimeError, match=r"Tensor\.item\(\) cannot be called on meta tensors"):
            read(meta(2).sum())
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        meta(2).numpy()
    with pytest.raises(BufferError):
        meta(2).__dlpack__()
    with pytest.raises(BufferError):
        memoryview(meta(2).untyped_storage())


def test_tensors_of_two_devices_do_not_meet():
    with pytest.raises(RuntimeError):
        meta(3) + torch.ones(3)
    t = meta(3)
    assert t.copy_(torch.ones(3)) is t and torch.ones(3).to("meta").is_meta


def test_modules_are_built_without_memory_and_get_it_later():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    assert all(t.is_meta for t in model.state_dict().values())
    with pytest.raises(NotImplementedError, match=f"{NO_DATA} .*to_empty"):
        model.to("cpu")
    model.to_empty(device="cpu")
    assert all(t.is_cpu for t in model.state_dict().values())
    before = torch.get_rng_state()
    layer = nn.utils.skip_init(nn.Linear, 2, 3)
    assert torch.equal(torch.get_rng_state(), before)
    assert layer.weight.is_cpu and layer.weight.shape == (3, 2)


def test_a_state_dict_gives_a_meta_module_its_tensors():
    with torch.device("meta"):
        model = nn.Linear(2, 3)
    source = nn.Linear(2, 3)
    with pytest.warns(UserWarning, match="for weight: copying from a non-meta parameter in the checkpoint to a meta"):
        model.load_state_dict({"weight": source.weight}, strict=False)
    assert model.weight.is_meta
    model.load_state_dict(source.state_dict(), assign=True)
    x = torch.randn(4, 2)
    assert torch.equal(model(x), source(x)) and isinstance(model.weight, nn.Parameter)


def test_a_wrapper_of_a_tensor_is_copied_by_its_own_clone():
    class Wrapper(torch.Tensor):
        __slots__ = ("inner",)

        @staticmethod
        def __new__(cls, inner):
            made = torch.Tensor._make_subclass(cls, inner.to("meta"), inner.requires_grad)
            made.inner = inner
            return made

        def clone(self):
            return type(self)(self.inner.clone())

    wrapper = Wrapper(torch.arange(3.0))
    wrapper.label = ["a"]
    other = copy.deepcopy(wrapper)
    assert type(other) is Wrapper and other.inner.tolist() == [0, 1, 2] and other.inner is not wrapper.inner
    assert other.label == ["a"] and other.label is not wrapper.label
    Wrapper.clone = lambda self: torch.ones(3)
    with pytest.raises(RuntimeError, match="copied by its `clone`"):
        copy.deepcopy(wrapper)


def test_constructors_of_typed_tensors_ignore_a_context_of_the_meta_device():
    with torch.device("meta"):
        assert torch.Tensor(2).device.type == torch.FloatTensor([1]).device.type == "cpu"
        assert torch.zeros(1, device="cpu").new(2).device.type == "cpu" and torch.zeros(1).new(2).device.type == "meta"


@pytest.mark.parametrize("name", ["chebyshev_polynomial_t", "hermite_polynomial_he", "legendre_polynomial_p"])
def test_polynomials_have_a_shape_without_values(name):
    x = torch.ones(2, 3, device="meta")
    result = getattr(torch.special, name)(x, torch.ones(3, device="meta"))
    assert result.device.type == "meta" and result.shape == (2, 3) and result.dtype == torch.float32
