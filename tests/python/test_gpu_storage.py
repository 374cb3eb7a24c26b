"""Memory of a GPU as bytes."""

import pytest

import rgrad as torch

pytestmark = pytest.mark.usefixtures("gpu")


@pytest.fixture
def storage():
    return torch.tensor([1, 2, 300], dtype=torch.int16, device="gpu").untyped_storage()


def test_bytes_are_read_from_the_device(storage):
    assert storage.tolist() == [1, 0, 2, 0, 44, 1] and bytes(storage) == bytes([1, 0, 2, 0, 44, 1])
    assert storage[-2] == 44 and list(storage) == storage.tolist()
    assert repr(storage).startswith(" 1\n 0\n") and "device=gpu:0" in repr(storage)


def test_bytes_are_written_on_the_device():
    t = torch.tensor([1, 2, 300], dtype=torch.int16, device="gpu")
    storage = t.untyped_storage()
    storage[1] = 1
    assert t.tolist() == [257, 2, 300]
    storage.copy_(torch.tensor([4, 5, 6], dtype=torch.int16).untyped_storage())
    assert t.tolist() == [4, 5, 6]
    kept = storage.clone()
    storage.fill_(0)
    assert t.tolist() == [0, 0, 0] and kept.device.type == "gpu" and kept[0] == 4


def test_storage_goes_from_device_to_device(storage):
    here = storage.cpu()
    assert here.device.type == "cpu" and here.tolist() == storage.tolist()
    assert here.cuda(0).device.type == here.to(device="gpu").device.type == "gpu"
    assert storage.cuda()._cdata == storage._cdata and here.cpu()._cdata == here._cdata


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_typed_storage_goes_to_the_device():
    typed = torch.ones(2).storage().cuda()
    assert typed.device.type == "gpu" and typed.tolist() == [1.0, 1.0]


def test_memory_of_a_gpu_has_no_buffer(storage):
    with pytest.raises(BufferError, match="the memory of a GPU has no buffer"):
        memoryview(storage)


def test_a_map_may_return_storage_on_another_device(tmp_path):
    torch.save({"a": torch.arange(6.0).view(2, 3).mT}, tmp_path / "t.pth")
    a = torch.load(tmp_path / "t.pth", map_location=lambda storage, location: storage.cuda(0))["a"]
    assert a.is_cuda and a.stride() == (1, 3) and a.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
