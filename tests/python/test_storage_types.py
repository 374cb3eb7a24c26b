import copy
import io
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import rgrad as torch

TYPES = {kind.dtype: kind for kind in (torch.FloatStorage, torch.LongStorage, torch.BoolStorage, torch.HalfStorage)}


def test_storages_are_made_by_number_or_by_elements_on_a_device():
    for made in (torch.TypedStorage(3, dtype=torch.int32), torch.IntStorage(3)):
        assert made.dtype == torch.int32 and made.nbytes() == 12
    storage = torch.TypedStorage([1, 2], dtype=torch.float64, device="meta")
    assert storage.device.type == "meta" and storage.size() == 2 and storage.data_ptr() == 0
    for of in (storage, storage.untyped()):
        with pytest.raises(NotImplementedError, match="Not available for 'meta'"):
            of[0]


@pytest.mark.parametrize(
    ("arguments", "options", "kind", "words"),
    [
        ((1, 2), {}, RuntimeError, "Too many positional arguments"),
        (("text",), {}, TypeError, "invalid data type"),
        ((torch.ones(2),), {}, TypeError, "Argument type not recognized"),
        ((), {"wrap_storage": torch.FloatStorage(1), "dtype": torch.float32}, TypeError, "must be UntypedStorage"),
        ((1,), {"wrap_storage": torch.UntypedStorage(4)}, RuntimeError, "No positional arguments"),
    ],
)
def test_constructors_of_storages_name_the_argument_that_is_wrong(arguments: Any, options: Any, kind: Any, words: str):
    with pytest.raises(kind, match=words):
        torch.TypedStorage(*arguments, **options)
    legacy: Any = {name: value for name, value in options.items() if name != "dtype"}
    with pytest.raises(kind, match=words):
        torch.FloatStorage(*arguments, **legacy)


def test_legacy_types_take_neither_device_nor_dtype():
    given: list[dict[str, Any]] = [{"device": "cpu"}, {"dtype": torch.float32}]
    for options in given:
        with pytest.raises(RuntimeError, match=f"'{next(iter(options))}' cannot be specified"):
            torch.FloatStorage(**options)
    with pytest.raises(TypeError, match="got an unexpected keyword"):
        torch.FloatStorage(other=1)
    with pytest.raises(RuntimeError, match="Only child classes of _LegacyStorage"):
        torch.storage._LegacyStorage()


def test_elements_are_read_from_a_buffer_in_either_byte_order():
    numbers = [1, 2, 300]
    for order in ("big", "little"):
        data = b"".join(n.to_bytes(8, order) for n in numbers)
        assert torch.LongStorage.from_buffer(data, order).tolist() == numbers
        assert torch.LongStorage.from_buffer(data, order, 1, 8).tolist() == [2]
    assert torch.LongStorage.from_buffer((5).to_bytes(8, sys.byteorder), "native").tolist() == [5]
    assert torch.BoolStorage.from_buffer(b"\0x2", "big").tolist() == [False, True, True]
    assert torch.ByteStorage.from_buffer(b"\1\2").tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="byte_order"):
        torch.FloatStorage.from_buffer(b"\0" * 4)
    with pytest.raises(ValueError, match="invalid byte_order 'middle'"):
        torch.FloatStorage.from_buffer(b"\0" * 4, "middle")
    with pytest.raises(ValueError, match="must be a multiple of element size"):
        torch.ShortStorage.from_buffer(b"\0" * 3, "native")
    with pytest.raises(ValueError, match="has only 1 elements after offset 1"):
        torch.LongStorage.from_buffer(b"\0" * 9, "native", 2, 1)


def test_a_storage_from_a_file_shares_it(tmp_path):
    path = str(tmp_path / "numbers")
    first = torch.FloatStorage.from_file(path, True, 3)
    second = torch.FloatStorage.from_file(path, True, 3)
    first.fill_(2.5)
    assert second.tolist() == [2.5] * 3 and second.type() == "torch.FloatStorage"


def test_the_type_of_a_tensors_storage_follows_its_dtype():
    for dtype, kind in TYPES.items():
        assert torch.zeros(1, dtype=dtype).storage_type() is kind
        assert torch.storage._dtype_to_storage_type_map()[dtype] == kind.__name__
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.Storage is torch.storage.Storage is torch.DoubleStorage
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.Storage is torch.FloatStorage
    sizes = [torch.zeros(n).untyped_storage().__sizeof__() for n in (0, 10, 20)]
    assert sizes[1] - sizes[0] == sizes[2] - sizes[1] == 40


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_tensor_and_its_storage_are_copied_as_one():
    x = torch.ones(3)
    copied, storage, view = copy.deepcopy([x, x.storage(), x[1:]])
    storage.fill_(5.0)
    assert copied.tolist() == [5] * 3 and view.tolist() == [5] * 2 and x.tolist() == [1] * 3


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_tensors_are_made_of_storages_of_their_dtype_only():
    x = torch.arange(6.0).reshape(2, 3)
    for storage in (x.storage(), x.untyped_storage()):
        assert torch.tensor(storage).equal(x.flatten())
        assert torch.tensor([]).set_(storage).equal(x.flatten())
        assert torch.FloatTensor(storage).data_ptr() == x.data_ptr() == x.new(storage).data_ptr()
        assert torch.tensor(storage).data_ptr() != x.data_ptr()
    for refuse in (
        lambda: torch.tensor(x.storage(), dtype=torch.int32),
        lambda: torch.tensor([], dtype=torch.int32).set_(x.storage()),
        lambda: torch.IntTensor(x.storage()),
    ):
        with pytest.raises(RuntimeError, match="Expected a Storage of type Int or an UntypedStorage"):
            refuse()
    assert torch.UntypedStorage(4, device="meta").device.type == "meta"


def test_dtypes_without_tensors_are_dtypes_to_isinstance_and_refused_by_operations():
    for dtype in (torch.complex64, torch.quint8):
        assert isinstance(dtype, torch.dtype) and copy.copy(dtype) is dtype
        with pytest.raises(TypeError, match="has no tensors"):
            torch.zeros(2, dtype=dtype)
    assert torch.result_type(torch.ones(1), 1j) is torch.complex64
    assert torch.result_type(1j, torch.ones(1, dtype=torch.float64)) is torch.complex128


def test_what_storages_are_not_made_of_is_named():
    storage = torch.FloatStorage([1.0, 2.0])
    for kind, why, make in (
        (TypeError, "Argument 'dtype' must be torch.dtype", lambda: torch.TypedStorage(wrap_storage=storage, dtype=0)),
        (RuntimeError, "Storage device not recognized: xla", lambda: torch.TypedStorage(device="xla")),
        (
            RuntimeError,
            "Argument 'device' should not be specified",
            lambda: torch.TypedStorage(wrap_storage=storage.untyped(), dtype=torch.float32, device="cpu"),
        ),
        (RuntimeError, "cannot set item with value type .*TypedStorage", lambda: storage.fill_(storage)),
        (RuntimeError, "cannot set item with value type .*TypedStorage", lambda: storage.__setitem__(0, storage)),
    ):
        with pytest.raises(kind, match=why):
            make()
    assert storage.tolist() == [1.0, 2.0]


def test_the_classes_of_storages_are_known():
    assert {torch.UntypedStorage, torch.TypedStorage, *TYPES.values()} < torch._storage_classes
    for name in ("from_buffer", "_new_with_weak_ptr", "_new_shared_filename"):
        with pytest.raises(RuntimeError, match="Not available for CUDA storage"):
            getattr(torch.cuda.FloatStorage, name)()


def test_parts_are_copied_to_given_tensors():
    x = torch.arange(5.0)
    parts = torch.empty(2), torch.empty(2), torch.empty(1)
    assert torch.split_copy(x, 2, out=parts) is None
    assert [part.tolist() for part in parts] == [[0, 1], [2, 3], [4]]
    with pytest.raises(RuntimeError, match="out= argument of size 3, got size 1"):
        torch.split_copy(x, 2, out=parts[:1])


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_tensor_is_set_to_a_storage_of_its_dtype_or_to_bytes():
    stored = torch.ones(8, dtype=torch.uint8)
    for arguments in ((), (0, (2,), (1,))):
        with pytest.raises(RuntimeError, match="Expected a Storage of type Float"):
            torch.empty(0).set_(stored.storage(), *arguments)
        assert torch.empty(0).set_(stored.untyped_storage(), *arguments).shape == (2,)
        assert torch.empty(0, dtype=torch.uint8).set_(stored.storage(), *arguments)[0] == 1


def test_a_legacy_constructor_names_its_forms_where_a_tuple_is_one_of_several_arguments():
    for make in (torch.LongTensor, torch.ones(1).new):
        with pytest.raises(TypeError, match="received an invalid combination of arguments"):
            make((6, 0), 1, 1, 0)


def test_a_storage_has_one_object_while_that_lives():
    x = torch.ones(3)
    storage = x.untyped_storage()
    storage.note = "kept"
    assert x.untyped_storage() is storage and x[1:].untyped_storage().note == "kept"
    seen = weakref.ref(storage)
    del storage
    assert seen() is None and not hasattr(x.untyped_storage(), "note")


def test_classes_may_derive_from_storages_of_bytes():
    class Named(torch.UntypedStorage):
        pass

    named = Named(3)
    named.name = "a"
    assert named.nbytes() == 3 and isinstance(named, torch.UntypedStorage)


def test_storages_that_no_tensor_uses_can_be_resized():
    storage = torch.UntypedStorage([1, 2, 3])
    assert storage.resize_(5) is storage and storage[:3].tolist() == [1, 2, 3] and len(storage) == 5
    assert storage.resize_(2).tolist() == [1, 2]
    typed = torch.FloatStorage([1.0, 2.0])
    assert typed.resizable() and typed.resize_(1) is None and typed.tolist() == [1.0]
    meta = torch.TypedStorage(4, dtype=torch.float32, device="meta")
    meta.resize_(10)
    used = torch.ones(2)
    assert meta.size() == 10
    with pytest.raises(NotImplementedError, match=r"Tensor\.resize_ resizes a tensor"):
        used.untyped_storage().resize_(16)
    with pytest.raises(RuntimeError, match="not resizable"):
        torch.from_numpy(np.zeros(2)).untyped_storage().resize_(32)
    with pytest.raises(TypeError, match="expects an int, but got str"):
        storage.resize_("2")


def test_storages_without_memory_have_no_elements_to_give():
    meta = torch.TypedStorage(4, dtype=torch.float32, device="meta")
    for call, error, words in (
        (meta.tolist, NotImplementedError, "Not available for 'meta'"),
        (meta._share_fd_cpu_, RuntimeError, "_share_fd_: only available on CPU"),
        (meta._share_filename_cpu_, RuntimeError, "_share_filename_: only available on CPU"),
        (meta.share_memory_, RuntimeError, "only available on CPU"),
        (meta.pin_memory, TypeError, "only CPU memory can be pinned"),
        (lambda: meta._write_file(io.BytesIO(), True, True, 4), NotImplementedError, "Cannot copy out of meta tensor"),
    ):
        with pytest.raises(error, match=words):
            call()
    assert not meta.is_pinned() and not meta.untyped().is_pinned()


def test_bytes_of_elements_are_reversed_in_place():
    x = torch.tensor([1, 2], dtype=torch.int16)
    x.untyped_storage().byteswap(torch.int16)
    assert x.tolist() == [256, 512]
    with pytest.raises(RuntimeError, match="not a multiple of 8"):
        torch.UntypedStorage(3).byteswap(torch.int64)
    complex_number = torch.UntypedStorage([*range(8)])
    complex_number.byteswap(torch.complex64)
    assert complex_number.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


def test_bytes_are_written_and_copied_and_cast():
    storage = torch.tensor([1, 2], dtype=torch.int16).untyped_storage()
    file = io.BytesIO()
    storage._write_file(file, False, True, 2)
    assert file.getvalue() == (2).to_bytes(8, sys.byteorder) + bytes(storage)
    copied = copy.copy(storage)
    copied[0] = 9
    assert storage[0] == 1 and storage.float().tolist() == [1.0, 0.0, 2.0, 0.0] and storage.get_device() == -1


def test_every_use_of_a_storage_with_a_dtype_may_warn():
    torch.storage._set_always_warn_typed_storage_removal(True)
    try:
        for _ in range(2):
            with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
                torch.ones(1).storage()
    finally:
        torch.storage._set_always_warn_typed_storage_removal(False)
    assert not torch.storage._get_always_warn_typed_storage_removal()


def test_a_storage_has_as_many_elements_as_a_number_of_numpy_says():
    assert len(torch.FloatStorage(np.int16(3))) == 3 and len(torch.IntStorage(np.array([4, 5]))) == 2


def test_a_program_has_classes_of_storages():
    base = torch._C.StorageBase
    assert isinstance(torch.ones(1).untyped_storage(), base) and issubclass(torch.UntypedStorage, base)
    assert not isinstance(torch.ones(1), base) and not issubclass(torch.TypedStorage, base)
    with pytest.raises(RuntimeError, match="Cannot directly construct StorageBase"):
        base()
    ended = []

    class Named(base):
        __slots__ = ("name",)

        def __del__(self):
            ended.append(self.name)

    storage = Named(torch.UntypedStorage([1, 2]))
    storage.name = "first"
    assert storage.tolist() == [1, 2] and isinstance(storage, torch.UntypedStorage)
    assert not isinstance(torch.UntypedStorage(1), Named)
    del storage
    assert ended == ["first"]


def test_storages_have_the_names_that_give_no_warning():
    t = torch.arange(3, dtype=torch.float32)
    storage = t._typed_storage()
    assert (storage._size(), storage._nbytes(), storage._element_size(), storage._dtype) == (3, 12, 4, torch.float32)
    assert storage._data_ptr() == t.data_ptr() and storage._pickle_storage_type() == "FloatStorage"
    storage._setitem(slice(0, 2), 7.0)
    assert t.tolist() == [7.0, 7.0, 2.0] and storage._getitem(2) == 2.0 and not storage._is_shared()
    other = storage._deepcopy({})
    other._setitem(0, 1.0)
    assert t[0] == 7.0 and torch.FloatStorage._dtype == torch.float32
    grown = torch.FloatStorage(2, _internal=True)
    grown._resize_(5)
    assert grown._size() == 5 and grown._share_memory_() is grown
    assert torch.UntypedStorage(1)._fix_weakref() is None
