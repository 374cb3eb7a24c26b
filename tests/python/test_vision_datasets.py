"""Datasets of folders, of published files and of random images."""

import gzip
import hashlib
import io
import pickle
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest

import rgrad as torch
from rgrad.vision import datasets, transforms
from rgrad.vision.datasets._mat import read_mat

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def animals(tmp_path):
    for name in ("dog", "cat"):
        (tmp_path / name / "deep").mkdir(parents=True)
        for level in range(2):
            Image.new("L", (4, 4), 50 * level).save(tmp_path / name / f"{level}.png")
        Image.new("RGB", (4, 4), (1, 2, 3)).save(tmp_path / name / "deep" / "z.BMP")
        (tmp_path / name / "notes.txt").write_text("no image")
    return tmp_path


def test_folders_are_classes_in_alphabetical_order(animals):
    folder = datasets.ImageFolder(str(animals))
    assert folder.classes == ["cat", "dog"] and folder.class_to_idx == {"cat": 0, "dog": 1}
    names = [(path.removeprefix(str(animals)), target) for path, target in folder.samples]
    assert names[:3] == [("/cat/0.png", 0), ("/cat/1.png", 0), ("/cat/deep/z.BMP", 0)] and len(folder) == 6
    assert folder.targets == [0, 0, 0, 1, 1, 1] and folder.imgs is folder.samples
    picture, target = folder[2]
    assert picture.mode == "RGB" and picture.getpixel((0, 0)) == (1, 2, 3) and target == 0
    assert repr(folder) == f"Dataset ImageFolder\n    Number of datapoints: 6\n    Root location: {animals}"


def test_transforms_apply_to_pictures_and_classes_and_are_shown(animals):
    folder = datasets.ImageFolder(str(animals), transforms.ToTensor(), lambda target: -target)
    picture, target = folder[5]
    assert picture.shape == (3, 4, 4) and target == -1
    assert "    StandardTransform\nTransform: ToTensor()\nTarget transform: <function" in repr(folder)


def test_a_loader_reads_a_folder_in_batches(animals):
    folder = datasets.ImageFolder(str(animals), transforms.ToTensor())
    (pictures, targets), _ = torch.utils.data.DataLoader(folder, batch_size=4)
    assert pictures.shape == (4, 3, 4, 4) and targets.tolist() == [0, 0, 0, 1]


def test_a_class_without_files_is_an_error_unless_allowed(animals):
    (animals / "empty").mkdir()
    with pytest.raises(
        FileNotFoundError, match="Found no valid file for the classes empty. Supported extensions are: .jpg"
    ):
        datasets.ImageFolder(str(animals))
    assert datasets.ImageFolder(str(animals), allow_empty=True).classes == ["cat", "dog", "empty"]
    with pytest.raises(FileNotFoundError, match="Couldn't find any class folder"):
        datasets.ImageFolder(str(animals / "empty"))


def test_files_are_chosen_by_extension_or_by_a_function_but_not_both(animals):
    def read(path):
        with open(path) as file:
            return file.read()

    notes = datasets.DatasetFolder(str(animals), read, (".txt",))
    assert [sample for sample, _ in notes] == ["no image"] * 2
    chosen = datasets.DatasetFolder(str(animals), str, is_valid_file=lambda path: path.endswith("1.png"))
    assert len(chosen) == 2
    with pytest.raises(ValueError, match="Both extensions and is_valid_file cannot be None or not None"):
        datasets.DatasetFolder(str(animals), str)


def test_random_pictures_are_the_same_at_each_visit_and_leave_the_generator_alone():
    fake = datasets.FakeData(3, (1, 4, 5), 7, transforms.ToTensor())
    before = torch.get_rng_state()
    (first, target), (again, same) = fake[1], fake[1]
    assert torch.equal(first, again) and target == same and 0 <= target < 7 and first.shape == (1, 4, 5)
    assert not torch.equal(first, fake[2][0]) and torch.equal(torch.get_rng_state(), before)
    assert len(list(fake)) == 3
    with pytest.raises(IndexError, match="FakeData index out of range"):
        fake[3]


def digest(content):
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def made_up(base, label_key, class_key):
    """A class of CIFAR's kind whose files are few and small, and its archive."""
    random = np.random.default_rng(0)

    def batch():
        return pickle.dumps({"data": random.integers(0, 256, (2, 3072), dtype=np.uint8), label_key: [1, 0]})

    names = [name for name, _ in (*base.train_list, *base.test_list)]
    files = {name: batch() for name in names} | {base.meta["filename"]: pickle.dumps({class_key: ["x", "y"]})}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{base.base_folder}/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))

    def listed(entries):
        return [[name, digest(files[name])] for name, _ in entries]

    meta = base.meta | {"md5": digest(files[base.meta["filename"]])}
    members = {"train_list": listed(base.train_list), "test_list": listed(base.test_list), "meta": meta}
    members["tgz_md5"] = digest(archive.getvalue())
    return type("Few", (base,), members), archive.getvalue()


@pytest.mark.parametrize(
    "base, label_key, class_key",
    [(datasets.CIFAR10, "labels", "label_names"), (datasets.CIFAR100, "fine_labels", "fine_label_names")],
)
def test_cifar_is_unpacked_from_its_archive_and_read(tmp_path, base, label_key, class_key):
    few, archive = made_up(base, label_key, class_key)
    with pytest.raises(RuntimeError, match="Dataset not found or corrupted"):
        few(tmp_path)
    (tmp_path / few.filename).write_bytes(archive)
    test = few(tmp_path, train=False, download=True)
    assert test.data.shape == (2, 32, 32, 3) and test.targets == [1, 0] and test.class_to_idx == {"x": 0, "y": 1}
    train = few(tmp_path, transform=transforms.ToTensor())
    assert len(train) == 2 * len(few.train_list) and "    Split: Train" in repr(train)
    picture, target = train[1]
    assert target == 0 and torch.equal(
        (picture * 255).round().to(torch.uint8).permute(1, 2, 0), torch.tensor(train.data[1])
    )
    batch = few.train_list[0][0]
    (tmp_path / few.base_folder / batch).write_bytes(b"changed")
    with pytest.raises(RuntimeError, match="corrupted"):
        few(tmp_path)


def test_a_dataset_of_its_own_takes_either_one_transform_or_two():
    with pytest.raises(ValueError, match="Only transforms or transform/target_transform can be passed"):
        datasets.VisionDataset("here", transforms=lambda x, y: (x, y), transform=str)
    with pytest.raises(NotImplementedError):
        datasets.VisionDataset("here")[0]


def idx(array):
    array = np.asarray(array, dtype=np.uint8)
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def emnist_files(split):
    pictures = np.arange(3 * 28 * 28).reshape(3, 28, 28) % 251
    for part in ("train", "test"):
        yield f"emnist-{split}-{part}-images-idx3-ubyte.gz", gzip.compress(idx(pictures))
        yield f"emnist-{split}-{part}-labels-idx1-ubyte.gz", gzip.compress(idx([1, 26, 3]))


def test_emnist_is_unpacked_from_its_archive_and_read(tmp_path):
    with pytest.raises(ValueError, match="Unknown value 'greek' for argument split"):
        datasets.EMNIST(tmp_path, "greek")
    with pytest.raises(RuntimeError, match="Dataset not found"):
        datasets.EMNIST(tmp_path, "letters")
    archive = tmp_path / "EMNIST" / "raw" / "gzip.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as packed:
        for split in ("letters", "digits"):
            for name, content in emnist_files(split):
                packed.writestr(f"gzip/{name}", content)
    few = type("EMNIST", (datasets.EMNIST,), {"md5": digest(archive.read_bytes())})
    letters = few(tmp_path, "letters", download=True, transform=transforms.ToTensor())
    assert len(letters) == 3 and letters.targets.tolist() == [1, 26, 3] and letters.classes[26] == "z"
    assert torch.equal((letters[1][0] * 255).round().to(torch.uint8)[0], letters.data[1])
    assert len(datasets.EMNIST(tmp_path, "letters", train=False)) == 3
    with pytest.raises(RuntimeError, match="digits-test"):
        datasets.EMNIST(tmp_path, "digits", train=False)
    assert letters.images_file.endswith("emnist-letters-train-images-idx3-ubyte")


@pytest.mark.parametrize("split, count", [("byclass", 62), ("bymerge", 47), ("balanced", 47), ("letters", 27)])
def test_emnist_names_its_classes(split, count):
    classes = datasets.EMNIST.classes_split_dict[split]
    assert len(classes) == len(set(classes)) == count
    assert ("c" in classes) == (split != "bymerge" and split != "balanced")


def mat_element(kind, content):
    if len(content) <= 4 and kind != 15:
        return struct.pack("<I", len(content) << 16 | kind) + content.ljust(4, b"\0")
    padding = b"" if kind == 15 else bytes(-len(content) % 8)
    return struct.pack("<II", kind, len(content)) + content + padding


def mat_file(compressed, **arrays):
    """A MATLAB file of uint8 arrays."""
    content = b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM"
    for name, array in arrays.items():
        flags = mat_element(6, struct.pack("<II", 9, 0))
        sizes = mat_element(5, struct.pack(f"<{array.ndim}i", *array.shape))
        numbers = mat_element(2, array.tobytes(order="F"))
        matrix = mat_element(14, flags + sizes + mat_element(1, name.encode()) + numbers)
        content += mat_element(15, zlib.compress(matrix)) if compressed else matrix
    return content


@pytest.mark.parametrize("compressed", [False, True])
def test_svhn_is_read_from_its_file(tmp_path, monkeypatch, compressed):
    pixels = np.arange(32 * 32 * 3 * 4).reshape(32, 32, 3, 4).astype(np.uint8)
    labels = np.array([[1], [10], [3], [10]], dtype=np.uint8)
    path = tmp_path / "test_32x32.mat"
    path.write_bytes(mat_file(compressed, X=pixels, y=labels))
    with pytest.raises(RuntimeError, match="Dataset not found or corrupted"):
        datasets.SVHN(tmp_path, "test")
    url, name, _ = datasets.SVHN.split_list["test"]
    monkeypatch.setitem(datasets.SVHN.split_list, "test", [url, name, digest(path.read_bytes())])
    numbers = datasets.SVHN(tmp_path, "test", target_transform=lambda target: -target)
    assert numbers.labels.tolist() == [1, 0, 3, 0] and numbers.data.shape == (4, 3, 32, 32)
    picture, target = numbers[2]
    assert target == -3 and np.array_equal(np.asarray(picture), pixels[..., 2])
    assert "    Split: test\n" in repr(numbers)
    with pytest.raises(ValueError, match="Valid values are train, test, extra"):
        datasets.SVHN(tmp_path, "validation")


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_matlab_files_are_refused(tmp_path, compressed):
    whole = mat_file(compressed, y=np.arange(40, dtype=np.uint8))
    path = tmp_path / "x.mat"
    path.write_bytes(whole)
    assert read_mat(path)["y"].tolist() == list(range(40))
    for content in (whole[:100], whole[:140], whole[:-9], whole[:128] + bytes(200)):
        path.write_bytes(content)
        with pytest.raises(RuntimeError, match="MATLAB|corrupt"):
            assert read_mat(path)
