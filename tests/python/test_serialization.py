"""Saving and loading: PyTorch's zip format, safetensors, pickle and copy; and files that are not what they
seem.
"""

import contextlib
import copy
import io
import json
import mmap
import pickle
import pickletools
import random
import re
import struct
import warnings
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

import rgrad as torch
from rgrad import nn, safetensors, serialization
from rgrad.serialization._zip_file import ZipWriter

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def saved(obj):
    file = io.BytesIO()
    torch.save(obj, file)
    return file.getvalue()


def loaded(data, **options):
    return torch.load(io.BytesIO(data), **options)


def archive(pickled, records=(), name="archive"):
    """A file with a pickle and records of one's own."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr(f"{name}/data.pkl", pickled)
        for key, data in records:
            out.writestr(f"{name}/data/{key}", data)
        out.writestr(f"{name}/version", "3\n")
    return file.getvalue()


def handwritten(offset=0, size=(2,), stride=(1,), count=4, storage="FloatStorage", record=b"\0" * 16):
    """A file with one tensor whose numbers need not fit."""
    number = lambda n: pickle.BININT + struct.pack("<i", n)  # noqa: E731
    tuple_of = lambda items: pickle.MARK + b"".join(map(number, items)) + pickle.TUPLE  # noqa: E731
    text = lambda s: pickle.BINUNICODE + struct.pack("<I", len(s)) + s.encode()  # noqa: E731
    body = pickle.PROTO + b"\2" + b"ctorch._utils\n_rebuild_tensor_v2\n" + pickle.MARK
    body += pickle.MARK + text("storage") + f"ctorch\n{storage}\n".encode() + text("0") + text("cpu")
    body += number(count) + pickle.TUPLE + pickle.BINPERSID
    body += number(offset) + tuple_of(size) + tuple_of(stride) + pickle.NEWFALSE
    body += b"ccollections\nOrderedDict\n" + pickle.EMPTY_TUPLE + pickle.REDUCE
    body += pickle.TUPLE + pickle.REDUCE + pickle.STOP
    return archive(body, [("0", record)])


# Round trips


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back(dtype):
    tensor = torch.tensor([[0, 1, 2], [3, 0, 5]]).to(getattr(torch, dtype))
    result = loaded(saved(tensor))
    assert result.dtype == tensor.dtype and torch.equal(result, tensor)


def test_a_program_may_silence_the_warning_of_changed_sources():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.serialization.SourceChangeWarning)
        assert loaded(saved(torch.ones(2))).tolist() == [1.0, 1.0]


def test_plain_data_comes_back():
    data = {
        "numbers": [1, -2, 2.5, 10**30, True, None],
        "text": ("ä", b"\xff\0"),
        "set": {1, 2},
        "size": torch.Size([1, 2]),
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "ordered": OrderedDict(b=1, a=2),
        "numpy": np.float64(1.5),
    }
    result = loaded(saved(data))
    assert result == data
    assert isinstance(result["ordered"], OrderedDict) and isinstance(result["numpy"], np.float64)


def test_views_keep_their_shape_and_go_on_sharing():
    base = torch.arange(12.0)
    result = loaded(saved({"a": base[2:5], "b": base.view(3, 4).t(), "empty": torch.empty(0, 3)}))
    assert result["b"].stride() == (1, 4) and result["empty"].shape == (0, 3)
    result["a"].fill_(-1.0)
    assert result["b"].t().flatten().tolist() == [0, 1, -1, -1, -1, 5, 6, 7, 8, 9, 10, 11]


def test_a_shared_storage_is_stored_once():
    base = torch.zeros(1000)
    names = zipfile.ZipFile(io.BytesIO(saved([base, base[5:], base.view(10, 100)]))).namelist()
    assert [name for name in names if "/data/" in name] == ["archive/data/0"]


def test_parameters_and_a_modules_state_come_back():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    state = loaded(saved(net.state_dict()))
    assert list(state) == list(net.state_dict())
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    other.load_state_dict(state)
    assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), other.state_dict().values(), strict=True))
    parameter = loaded(saved(nn.Parameter(torch.ones(2), requires_grad=False)))
    assert isinstance(parameter, nn.Parameter) and not parameter.requires_grad


def test_files_work_with_and_without_mapping(tmp_path):
    path = tmp_path / "weights.pth"
    torch.save({"w": torch.arange(5)}, path)
    assert torch.load(str(path))["w"].tolist() == [0, 1, 2, 3, 4]
    mapped = torch.load(path, mmap=True)["w"]
    mapped.fill_(7)
    assert torch.load(path)["w"].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        torch.load(io.BytesIO(path.read_bytes()), mmap=True)


def test_the_file_has_pytorchs_layout():
    data = saved({"w": torch.ones(3)})
    records = zipfile.ZipFile(io.BytesIO(data)).infolist()
    assert [record.filename for record in records] == [
        "archive/data.pkl",
        "archive/byteorder",
        "archive/data/0",
        "archive/version",
    ]
    for record in records:
        name_length, extra_length = struct.unpack_from("<HH", data, record.header_offset + 26)
        assert (record.header_offset + 30 + name_length + extra_length) % 64 == 0
    pickled = zipfile.ZipFile(io.BytesIO(data)).read("archive/data.pkl")
    names = [argument for opcode, argument, _ in pickletools.genops(pickled) if opcode.name == "GLOBAL"]
    assert names == ["torch._utils _rebuild_tensor_v2", "torch FloatStorage", "collections OrderedDict"]
    assert saved({"w": torch.ones(3)}) == data


def test_a_function_or_a_dict_can_choose_the_device():
    data = saved(torch.ones(2))
    for choice in ("cpu", torch.device("cpu"), {"cpu": "cpu"}, lambda storage, location: storage):
        assert loaded(data, map_location=choice).tolist() == [1, 1]


def test_without_weights_only_other_objects_come_back_too():
    assert loaded(saved(Ordinary(torch.ones(1))), weights_only=False).value.tolist() == [1]


class Ordinary:
    def __init__(self, value):
        self.value = value


def test_classes_can_be_allowed():
    data = saved(Ordinary(5))
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global: GLOBAL .*Ordinary was not an allowed"):
        loaded(data)
    serialization.add_safe_globals([Ordinary])
    try:
        assert loaded(data).value == 5
    finally:
        serialization.clear_safe_globals()


def legacy(count=3, values=(1.0, 2.0, 3.0)):
    """A file as PyTorch wrote it before 1.6."""
    begin = b"".join(pickle.dumps(item, 2) for item in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
    pickled = zipfile.ZipFile(io.BytesIO(saved({"w": torch.zeros(3)}))).read("archive/data.pkl")
    pickled = pickled.replace(pickle.BININT1 + b"\3" + b"tq", pickle.BININT1 + bytes([count]) + b"tq", 1)
    return begin + pickled + pickle.dumps(["0"], 2) + struct.pack("<q3f", len(values), *values)


def test_files_older_than_the_zip_format_load():
    assert loaded(legacy())["w"].tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="unexpected EOF, expected 2 more bytes"):
        loaded(legacy()[:-2])
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        loaded(legacy(count=200))


def test_the_format_older_than_zip_is_written_too(tmp_path):
    shared = torch.arange(4.0)
    state = {"w": shared, "tail": shared[2:], "p": nn.Parameter(torch.ones(2)), "dtype": torch.int8}
    state["empty"] = torch.zeros(0)
    file = io.BytesIO()
    torch.save(state, file, _use_new_zipfile_serialization=False)
    for options in ({}, {"weights_only": False}):
        found = loaded(file.getvalue(), **options)
        assert found["w"].tolist() == [0, 1, 2, 3] and found["tail"].tolist() == [2, 3]
        assert found["tail"].data_ptr() == found["w"].data_ptr() + 8
        assert isinstance(found["p"], nn.Parameter) and found["dtype"] is torch.int8 and found["empty"].shape == (0,)
    torch.save(state, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert (tmp_path / "old.pt").read_bytes() == file.getvalue()
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        torch.load(tmp_path / "old.pt", mmap=True)


def test_objects_of_the_older_format_may_follow_each_other():
    file = io.BytesIO()
    for value in (torch.ones(2), "two"):
        torch.save(value, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert torch.load(file).tolist() == [1, 1] and torch.load(file) == "two"


def test_storages_are_saved_as_such_and_stay_tied():
    x = torch.ones(2)
    memory = torch.FloatStorage(wrap_storage=x.untyped_storage())
    for format in (True, False):
        file = io.BytesIO()
        torch.save([x, memory], file, _use_new_zipfile_serialization=format)
        tensor, storage = loaded(file.getvalue())
        assert isinstance(storage, torch.FloatStorage) and not isinstance(storage, torch.LongStorage)
        storage[0] = 5
        assert tensor.tolist() == [5, 1]
    assert loaded(saved(x.untyped_storage())).tolist() == list(x.numpy().tobytes())


def test_names_that_a_file_needs_can_be_listed():
    assert serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(saved([Ordinary(1), torch.ones(1)]))) == [
        f"{Ordinary.__module__}.Ordinary"
    ]
    with pytest.raises(ValueError, match="Expected input to be a checkpoint returned by torch.save"):
        serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(legacy()))


# Hostile and damaged files


class Runs:
    def __reduce__(self):
        return print, ("this must not run",)


def test_code_in_a_file_does_not_run(capsys):
    for data in (saved(Runs()), archive(pickle.dumps(Runs())), archive(b"cos\nsystem\n(S'true'\ntR.")):
        with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
            loaded(data)
    assert capsys.readouterr().out == ""
    with pytest.raises(pickle.UnpicklingError, match="unsupported GLOBAL posix.system whose module posix is blocked"):
        loaded(archive(b"cposix\nsystem\n(S'true'\ntR."))


def test_what_is_no_file_of_ours_is_refused_in_pytorchs_words():
    with pytest.raises(EOFError):
        loaded(b"")
    with pytest.raises(RuntimeError, match="Invalid magic number; corrupt file"):
        loaded(pickle.dumps({}, 2))
    with pytest.raises(RuntimeError, match="Invalid protocol version: 7"):
        loaded(pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(7, 2))
    with pytest.raises(RuntimeError, match="failed finding central directory. This is an internal miniz error"):
        loaded(saved(1)[:-5])
    with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like object with a 'write'"):
        torch.save(1, 3)
    with pytest.raises(AttributeError, match="You can only torch.load from a file that is seekable"):
        torch.load(3)
    with pytest.raises(RuntimeError, match=r"don't know how to restore data location .* \(tagged with nowhere\)"):
        loaded(saved(torch.ones(1)), map_location="nowhere")


def test_an_allowed_name_can_not_be_changed_by_a_file():
    # BUILD on a function would set its attributes.
    poison = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}b."
    with pytest.raises(pickle.UnpicklingError, match="Can only build"):
        loaded(archive(poison))


def test_a_well_formed_handwritten_file_loads():
    assert loaded(handwritten()).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offset": 3}, "out of bounds for storage of size 4"),
        ({"size": (5,)}, "out of bounds for storage of size 4"),
        ({"size": (2, 2), "stride": (3, 1)}, "out of bounds for storage of size 4"),
        ({"offset": -1}, "malformed tensor"),
        ({"stride": (-1,)}, "malformed tensor"),
        ({"size": (2, 2)}, "malformed tensor"),
        ({"size": (2**31 - 1,) * 3, "stride": (0,) * 3}, "malformed tensor"),
        ({"count": 5}, "storage 0 should have 5 elements"),
        ({"count": -4}, "malformed storage"),
        ({"storage": "NoStorage"}, "Unsupported global"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(change, message):
    with pytest.raises(pickle.UnpicklingError, match=message):
        loaded(handwritten(**change))


def test_truncated_and_foreign_files_are_refused(tmp_path):
    data = saved({"w": torch.arange(100.0)})
    for cut in (1, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(RuntimeError, match="PytorchStreamReader failed"):
            loaded(data[:cut])
    with pytest.raises(RuntimeError, match="failed locating file data.pkl"):
        file = io.BytesIO()
        zipfile.ZipFile(file, "w").close()
        loaded(file.getvalue())
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "absent.pth")


def test_changed_weights_are_noticed():
    data = bytearray(saved(torch.arange(100.0)))
    place = bytes(data).index(struct.pack("<f", 50.0))
    data[place] ^= 1
    with pytest.raises(RuntimeError, match="checksum mismatch"):
        loaded(bytes(data))


def test_zip_bombs_are_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("archive/data.pkl", b"N.")
        out.writestr("archive/data/0", bytes(10_000_000))
    with pytest.raises(RuntimeError, match="compressed"):
        loaded(file.getvalue())


def test_deep_and_circular_pickles_end_in_an_error_or_a_value():
    deep = b"\x80\x02" + pickle.EMPTY_TUPLE + pickle.TUPLE1 * 100_000 + pickle.STOP
    value, depth = loaded(archive(deep)), 0
    while value:
        (value,), depth = value, depth + 1
    assert depth == 100_000
    as_key = b"\x80\x02}" + pickle.EMPTY_TUPLE + pickle.TUPLE1 * 100_000 + b"Ns."
    with pytest.raises(pickle.UnpicklingError):
        loaded(archive(as_key))


def test_random_damage_never_does_more_than_raise():
    pickled = zipfile.ZipFile(io.BytesIO(saved({"w": torch.ones(3), "n": [1, "x", 2.5]}))).read("archive/data.pkl")
    generator, values = random.Random(0), []
    for _ in range(400):
        changed = bytearray(pickled)
        for _ in range(generator.choice([1, 2, 5])):
            changed[generator.randrange(len(changed))] = generator.randrange(256)
        with contextlib.suppress(pickle.UnpicklingError, RuntimeError):
            values.append(loaded(archive(bytes(changed), [("0", struct.pack("<3f", 1, 1, 1))])))
    # Some damage is within a number or a string; most is noticed.
    assert 0 < len(values) < 200
    for w in (v["w"] for v in values if isinstance(v, dict) and isinstance(v.get("w"), torch.Tensor)):
        assert w.untyped_storage().nbytes() == 12 and set(w.flatten().tolist()) <= {1.0}


# Pickle and copy


def test_tensors_survive_pickle_and_copy():
    tensor = torch.arange(6.0).view(2, 3).t().requires_grad_()
    for other in (
        pickle.loads(pickle.dumps(tensor)),
        pickle.loads(pickle.dumps(tensor, 5)),
        copy.deepcopy(tensor),
    ):
        assert torch.equal(other, tensor) and other.requires_grad and other.is_leaf
        with torch.no_grad():
            other.add_(1)
        assert tensor[0, 0].item() == 0


def test_a_deep_copy_keeps_ties_and_gradients():
    base = torch.arange(4.0)
    one, two = copy.deepcopy([base, base[1:]])
    one.fill_(9.0)
    assert two.tolist() == [9, 9, 9] and base[1].item() == 1
    tensor = torch.ones(2, requires_grad=True)
    tensor.grad = torch.full((2,), 3.0)
    assert copy.deepcopy(tensor).grad.tolist() == [3, 3]
    weight = nn.Parameter(torch.ones(2))
    assert isinstance(copy.deepcopy(weight), nn.Parameter)
    with pytest.raises(RuntimeError, match="support the deepcopy protocol at the moment"):
        copy.deepcopy(weight * 2)


# safetensors


def test_safetensors_come_back_in_every_dtype(tmp_path):
    tensors = {name: torch.tensor([[0, 1, 1]]).to(getattr(torch, name)) for name in DTYPES}
    tensors["empty"] = torch.empty(0, 4)
    path = tmp_path / "weights.safetensors"
    safetensors.save_file(tensors, path, metadata={"made": "here"})
    for result in (safetensors.load_file(path), safetensors.load(path.read_bytes())):
        assert set(result) == set(tensors)
        for name, tensor in tensors.items():
            assert result[name].dtype == tensor.dtype and result[name].shape == tensor.shape
            assert torch.equal(result[name], tensor)


def test_safetensors_refuse_what_they_can_not_hold():
    with pytest.raises(ValueError, match="non contiguous tensor: `w`"):
        safetensors.save({"w": torch.zeros(2, 3).t()})
    base = torch.zeros(4)
    with pytest.raises(RuntimeError, match="share memory"):
        safetensors.save({"a": base, "b": base[1:]})


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 1 << 70]},
        {"dtype": "F33", "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [-2], "data_offsets": [0, -8]},
        {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [2]},
        [1, 2],
    ],
)
def test_safetensors_check_their_header(entry):
    header = json.dumps({"w": entry}).encode()
    with pytest.raises(safetensors.SafetensorError):
        safetensors.load(struct.pack("<Q", len(header)) + header + bytes(8))


def test_damaged_safetensors_are_refused():
    data = safetensors.save({"w": torch.ones(2)})
    for damaged in (data[:4], data[:-1], data + b"x", b"\xff" * 8 + data[8:], data[:8] + b"[" + data[9:]):
        with pytest.raises(safetensors.SafetensorError):
            safetensors.load(damaged)


def test_classes_can_be_allowed_for_a_while():
    data = saved(Ordinary(5))
    with serialization.safe_globals([Ordinary]):
        assert loaded(data).value == 5
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global"):
        loaded(data)


def test_a_slice_of_a_storage_is_a_storage_over_the_same_bytes():
    whole = torch.arange(10, dtype=torch.uint8)
    storage = whole.untyped_storage()
    part = storage[2:6]
    assert isinstance(part, torch.UntypedStorage) and part.tolist() == [2, 3, 4, 5]
    assert part.data_ptr() - storage.data_ptr() == 2 and storage[3] == 3
    view = torch.asarray(part, dtype=torch.uint8)
    view[0] = 99
    assert whole[2] == 99 and part[1:][0] == 3 and part[-1:].tolist() == [5] and storage[5:2].tolist() == []
    assert torch.empty(0, dtype=torch.int16).set_(storage[4:8]).tolist() == [0x0504, 0x0706]
    del whole, storage
    assert view.tolist() == [99, 3, 4, 5]
    with pytest.raises(RuntimeError, match="only a step of 1 is supported"):
        part[::2]


def test_the_records_of_a_file_can_be_read(tmp_path):
    torch.save({"x": torch.arange(3.0)}, tmp_path / "x.pt")
    reader = torch.PyTorchFileReader(str(tmp_path / "x.pt"))
    assert reader.has_record("data.pkl") and not reader.has_record("none") and "data/0" in reader.get_all_records()
    assert reader.get_record("data/0") == torch.arange(3.0).numpy().tobytes()
    assert torch.equal(reader.get_storage_from_record("data/0", 3, torch.float32), torch.arange(3.0))
    with pytest.raises(RuntimeError, match="no 4 elements"):
        reader.get_storage_from_record("data/0", 4, torch.float32)


def test_weights_only_builds_arrays_of_numpy_that_are_allowed():
    reconstruct = np.ones(1).__reduce__()[0]
    state = {"numpy": np.random.default_rng(0).normal(size=(2, 3)), "big": np.arange(3, dtype=">i4")}
    file = io.BytesIO(saved(state))
    with pytest.raises(pickle.UnpicklingError, match="_reconstruct"):
        torch.load(file)
    file.seek(0)
    with serialization.safe_globals([reconstruct, np.ndarray, np.dtype]):
        loaded = torch.load(file)
    for name, array in state.items():
        assert np.array_equal(loaded[name], array) and loaded[name].dtype == array.dtype.newbyteorder("=")


def test_a_whole_transformer_is_loaded_where_its_classes_and_activation_are_allowed():
    layer = nn.TransformerEncoderLayer(4, 2, 8, activation=nn.functional.relu)
    allowed = {type(module) for module in layer.modules()} | {nn.functional.relu}
    with serialization.safe_globals(list(allowed)):
        loaded = torch.load(io.BytesIO(saved(layer)))
    assert loaded.activation is nn.functional.relu
    assert type(loaded.self_attn.out_proj) is nn.modules.linear.NonDynamicallyQuantizableLinear
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global"):
        torch.load(io.BytesIO(saved(layer)))


class OnlyWrites:
    """A file that has nothing but `write` and `flush`."""

    def __init__(self):
        self.data, self.flushed = b"", False

    def write(self, data):
        self.data += bytes(data)
        return len(data)

    def flush(self):
        self.flushed = True


class Reads:
    """A file that counts what is asked of it."""

    def __init__(self, data, names):
        self.calls = set()
        file = io.BytesIO(data)
        for name in names:
            setattr(self, name, self._counted(name, getattr(file, name)))

    def _counted(self, name, function):
        def counted(*arguments):
            self.calls.add(name)
            return function(*arguments)

        return counted


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_needs_write_and_flush_to_save_and_read_seek_and_tell_to_load(zipped):
    file = OnlyWrites()
    torch.save({"x": torch.arange(3.0)}, file, _use_new_zipfile_serialization=zipped)
    assert file.flushed
    for names in (("read", "seek", "tell"), ("read", "readinto", "seek", "tell")):
        reader = Reads(file.data, names)
        assert torch.load(reader)["x"].tolist() == [0, 1, 2]
        assert ("readinto" in reader.calls) == ("readinto" in names)
    with pytest.raises(AttributeError, match=r"You can only torch.load from a file that is seekable\. Please pre-load"):
        torch.load(Reads(file.data, ("read",)))


def test_records_can_be_written_and_read_by_name(tmp_path):
    records = {"a": b"123", "c/d": b"", "é": bytes(range(256))}
    for file in (tmp_path / "x.zip", io.BytesIO()):
        with serialization._open_zipfile_writer(file) as writer:
            for name, data in records.items():
                writer.write_record(name, data, len(data))
        if isinstance(file, io.BytesIO):
            file.seek(0)
        with zipfile.ZipFile(file) as archive:
            root = "archive" if isinstance(file, io.BytesIO) else "x"
            assert archive.testzip() is None
            assert {n: archive.read(n) for n in archive.namelist()} == {f"{root}/{n}": records[n] for n in records}
        if isinstance(file, io.BytesIO):
            file.seek(0)
        with serialization._open_zipfile_reader(file) as reader:
            assert {name: reader.get_record(name) for name in records} == records


def test_sizes_above_4_gb_are_in_the_fields_of_zip64():
    class Counts:
        """Keeps what is short, and counts the rest."""

        def __init__(self):
            self.kept, self.place = {}, 0

        def write(self, data):
            if len(data) < 1000:
                self.kept[self.place] = bytes(data)
            self.place += len(data)

    file = Counts()
    writer = ZipWriter(file)
    # As if as much had been written already.
    writer._place = file.place = 2**32 + 64
    writer.write_record("x", b"12")
    writer.close()
    last = b"".join(data for place, data in sorted(file.kept.items()) if place > 2**32 + 64 + 2)
    directory = last[last.index(b"PK\1\2") :]
    assert struct.unpack_from("<I", directory, 42) == (0xFFFFFFFF,)
    assert struct.unpack_from("<HHQ", directory, 46 + len("archive/x")) == (1, 8, 2**32 + 64)
    assert b"PK\6\6" in last and b"PK\6\7" in last and last.endswith(b"\xff\xff\xff\xff\0\0")


def test_tensors_without_memory_are_saved_as_their_shape():
    x = torch.empty_strided((10**6, 10**6), (1, 10**6), device="meta", dtype=torch.float16, requires_grad=True)
    data = saved({"x": x, "p": nn.Parameter(x.detach(), requires_grad=False)})
    assert len(data) < 2000
    for options in ({}, {"weights_only": False}):
        found = loaded(data, **options)
        assert found["x"].is_meta and found["x"].dtype == torch.float16 and found["x"].requires_grad
        assert found["x"].shape == x.shape and found["x"].stride() == x.stride()
        assert isinstance(found["p"], nn.Parameter) and not found["p"].requires_grad


def test_strings_of_python_2_have_an_encoding():
    text = "zażółć".encode()
    old = legacy().replace(b"X\1\0\0\0w", b"U" + bytes([len(text)]) + text)
    assert list(loaded(old)) == ["zażółć"]
    assert list(loaded(old, encoding="bytes")) == [text]
    assert list(loaded(old, encoding="bytes", weights_only=False)) == [text]
    with pytest.raises(pickle.UnpicklingError):
        loaded(old, encoding="ascii")


def test_names_of_storages_may_be_bytes_in_files_of_python_2():
    # A string that is no Unicode: its length takes one byte instead of four.
    old = re.sub(rb"X(.)\0\0\0", rb"U\1", legacy(), flags=re.S)
    for options in ({}, {"weights_only": False}):
        assert loaded(old, encoding="bytes", **options)[b"w"].tolist() == [1, 2, 3]
        assert loaded(old, **options)["w"].tolist() == [1, 2, 3]


def test_views_of_storages_in_the_oldest_files_share_their_memory():
    begin = b"".join(pickle.dumps(item, 2) for item in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))

    class Pickler(pickle._Pickler):
        def persistent_id(self, obj):
            return ("storage", FLOATS, "7", "cpu", 3, obj.view) if isinstance(obj, View) else None

        def save(self, obj, save_persistent_id=True):
            if obj is FLOATS:
                self.write(b"ctorch\nFloatStorage\n")
            else:
                super().save(obj, save_persistent_id)

    FLOATS = object()

    class View:
        def __init__(self, *view):
            self.view = view

    def file(*views):
        made = io.BytesIO()
        Pickler(made, 2).dump([View(*view) for view in views])
        return begin + made.getvalue() + pickle.dumps(["7"], 2) + struct.pack("<q3f", 3, 1.0, 2.0, 3.0)

    first, last, again = loaded(file(("a", 0, 1), ("b", 1, 2), ("b", 1, 2)))
    assert first.tolist() == [1] and last.tolist() == [2, 3] and first.data_ptr() + 4 == last.data_ptr()
    assert again.data_ptr() == last.data_ptr()
    with pytest.raises(pickle.UnpicklingError, match="malformed view"):
        loaded(file(("a", 2, 2)))


def test_versions_of_modules_are_compared_part_by_part():
    class Module:
        __name__, __version__ = "module", "1.10.3"

    module = Module()
    check = serialization.check_module_version_greater_or_equal
    assert check(module, (1, 9)) and check(module, (1, 10, 3)) and not check(module, (1, 11))
    module.__version__ = "1.x"
    with pytest.raises(RuntimeError, match="'module' module version is malformed"):
        check(module, (1, 2))
    with pytest.warns(UserWarning, match="malformed"):
        assert check(module, (1, 2), error_if_malformed=False)


def test_a_buffer_that_was_loaded_from_may_be_closed_or_written():
    buffer = io.BytesIO()
    torch.save(nn.Linear(2, 3), buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    before = loaded.weight.tolist()
    buffer.seek(0)
    buffer.write(bytes(len(buffer.getvalue()) + 100))
    buffer.close()
    assert loaded.weight.tolist() == before


def test_elements_of_another_byte_order_are_reversed():
    numbers = torch.arange(3, dtype=torch.int16)
    big = numbers.numpy().astype(">i2").tobytes()
    archive = zipfile.ZipFile(io.BytesIO(saved(numbers)))
    records = {name: archive.read(name) for name in archive.namelist()}

    def rewritten(order):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as other:
            for name, data in records.items():
                if name.endswith("/byteorder"):
                    if order is None:
                        continue
                    data = order
                other.writestr(name, big if name.endswith("data/0") else data)
        return file.getvalue()

    assert torch.equal(loaded(rewritten(b"big")), numbers)
    assert torch.equal(loaded(rewritten(None)), numbers * 256)
    order = serialization.LoadEndianness
    assert serialization.get_default_load_endianness() is None
    try:
        serialization.set_default_load_endianness(order.BIG)
        assert torch.equal(loaded(rewritten(None)), numbers)
    finally:
        serialization.set_default_load_endianness(None)
    with pytest.raises(ValueError, match="Unknown endianness type: middle"):
        loaded(rewritten(b"middle"))
    with pytest.raises(TypeError, match="Invalid argument type"):
        serialization.set_default_load_endianness("big")


def test_files_without_checksums_are_read():
    try:
        serialization.set_crc32_options(False)
        data = saved(torch.arange(3.0))
    finally:
        serialization.set_crc32_options(True)
    assert serialization.get_crc32_options()
    with pytest.raises(zipfile.BadZipFile, match="Bad CRC-32"):
        zipfile.ZipFile(io.BytesIO(data)).read("archive/data/0")
    assert torch.equal(loaded(data), torch.arange(3.0))


def test_a_shared_mapping_writes_to_its_file(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(torch.zeros(3), path)
    torch.load(path, mmap=True)[0] = 1
    assert torch.load(path).sum() == 0
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        torch.load(path, mmap=True)[0] = 1
    assert torch.load(path, mmap=True).sum() == 1 and serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    with pytest.raises(ValueError, match=r"expected mmap\.MAP_PRIVATE or mmap\.MAP_SHARED, but got 5"):
        serialization.set_default_mmap_options(5)


def test_files_may_have_room_in_place_of_elements():
    x = torch.ones(4)
    with serialization.skip_data():
        data = saved({"x": x, "part": x[1:]})
        with pytest.raises(RuntimeError, match="outside the skip_data context manager"):
            loaded(data)
    found = loaded(data)
    assert found["x"].shape == (4,) and found["x"].sum() == 0
    assert found["part"].untyped_storage() is found["x"].untyped_storage()


def test_a_file_can_be_put_together_from_records():
    file, made = io.BytesIO(saved(torch.ones(2))), io.BytesIO()
    with serialization._open_file_like(file, "rb") as opened, serialization._open_zipfile_reader(opened) as reader:
        pickled, place = reader.get_record("data.pkl"), reader.get_record_offset("data/0")
    assert file.getvalue()[place : place + 8] == torch.ones(2).numpy().tobytes()
    with serialization._open_zipfile_writer(made) as writer:
        writer.write_record("data.pkl", pickled, len(pickled))
        writer.write_record("byteorder", "little", 6)
        writer.write_record_metadata("data/0", 8)
    assert torch.equal(loaded(made.getvalue()), torch.zeros(2))


class _Slots:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


class _SlotsAndMore(_Slots):
    pass


@pytest.mark.parametrize("cls", [_Slots, _SlotsAndMore])
def test_objects_with_slots_that_are_declared_safe_are_loaded(cls):
    made = cls(3)
    if cls is _SlotsAndMore:
        made.y = 4
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    with torch.serialization.safe_globals([cls]):
        loaded = torch.load(file, weights_only=True)
    assert type(loaded) is cls and loaded.x == 3 and getattr(loaded, "y", 4) == 4


class _Overriding(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs)


@pytest.mark.parametrize("parameter", [False, True])
def test_tensors_of_a_class_that_overrides_functions_are_saved_in_pytorchs_form(parameter):
    made = torch.ones(3).as_subclass(_Overriding)
    made.note = "kept"
    if parameter:
        made = nn.Parameter(made)
    file = io.BytesIO()
    torch.save((made, torch.zeros(2), nn.Parameter(torch.zeros(2))), file)
    file.seek(0)
    with torch.serialization.safe_globals([_Overriding]):
        loaded, *others = torch.load(file)
    assert [type(other) for other in others] == [torch.Tensor, nn.Parameter]
    assert type(loaded) is _Overriding and torch.equal(loaded, made)
    assert isinstance(loaded, nn.Parameter) == parameter and loaded.requires_grad == parameter
    assert parameter or loaded.note == "kept"
    with zipfile.ZipFile(file) as archive:
        pickled = archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))
    assert b"rgrad" not in pickled
