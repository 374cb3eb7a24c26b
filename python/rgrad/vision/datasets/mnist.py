"""MNIST and Fashion-MNIST."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C
from rgrad.utils.data.dataset import within
from rgrad.vision.datasets._download import download_from
from rgrad.vision.datasets._idx import read_idx
from rgrad.vision.datasets.vision import VisionDataset
from rgrad.vision.transforms import on_batch


@functools.cache
def _pillow() -> Any:
    """Pillow's Image module if it is installed, else None."""
    try:
        from PIL import Image
    except ImportError:
        return None
    return Image


class MNIST(VisionDataset):
    """Handwritten digits: 60,000 training and 10,000 test images of 28 by 28 pixels.

    A sample is an image and its class. The image is a Pillow image, or, if Pillow is not installed, a uint8 tensor of
    shape (28, 28); `transforms.ToTensor` gives the same result for both.

    Args:
        root: the folder in which `MNIST/raw` (`FashionMNIST/raw`) contains the published files, plain or gzipped.
        train: whether to use the training images rather than the test images.
        transform: applied to each image.
        target_transform: applied to each class.
        download: download missing files.

    Attributes:
        data: the images, uint8 of shape (N, 28, 28).
        targets: their classes, int64 of shape (N,).
    """

    mirrors = ["https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    ]
    classes = [
        "0 - zero",
        "1 - one",
        "2 - two",
        "3 - three",
        "4 - four",
        "5 - five",
        "6 - six",
        "7 - seven",
        "8 - eight",
        "9 - nine",
    ]
    # Where a Linux distribution's package installs the files system-wide.
    system_folder: str | None = None

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(os.fspath(root), transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        self._require_files()
        self.data, self.targets = self._load_data()

    @property
    def raw_folder(self) -> str:
        """The folder in which the files are expected."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class."""
        return {name: index for index, name in enumerate(self.classes)}

    def _find(self, name: str) -> str | None:
        """The path of a published file, by its gzipped name; None if it does not exist."""
        for folder in (self.raw_folder, self.system_folder):
            for candidate in (name.removesuffix(".gz"), name):
                path = os.path.join(folder, candidate) if folder else ""
                if os.path.isfile(path):
                    return path
        return None

    def _missing(self) -> list[tuple[str, str]]:
        """The missing published files, and their checksums."""
        return [(name, md5) for name, md5 in self.resources if self._find(name) is None]

    def _check_exists(self) -> bool:
        return not self._missing()

    def _require_files(self) -> None:
        if not self._check_exists():
            names = ", ".join(name for name, _ in self._missing())
            raise RuntimeError(
                f"Dataset not found. You can use download=True to download it: {self.raw_folder} lacks {names}"
            )

    def download(self) -> None:
        """Downloads the missing files."""
        for name, md5 in self._missing():
            os.makedirs(self.raw_folder, exist_ok=True)
            download_from(self.mirrors, name, self.raw_folder, md5)

    def _load_data(self) -> tuple[Any, Any]:
        images, labels = (path for path in map(self._find, self._names()) if path is not None)
        data, targets = read_idx(images, 3), read_idx(labels, 1)
        if len(data) != len(targets):
            raise RuntimeError(f"{images} holds {len(data)} pictures, but {labels} holds {len(targets)} labels")
        return data, targets.to(rgrad.int64)

    def _names(self) -> tuple[str, str]:
        begin = 0 if self.train else 2
        return self.resources[begin][0], self.resources[begin + 1][0]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        picture: Any = self.data[index]
        target: Any = int(self.targets[index])
        image = _pillow()
        if image is not None:
            height, width = picture.shape
            picture = picture.contiguous()
            start = picture.storage_offset()
            elements = _C._storage_bytes(picture)[start : start + height * width]
            picture = image.frombytes("L", (width, height), bytes(elements))
        if self.transform is not None:
            picture = self.transform(picture)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return picture, target

    def _collated(self, indices: list[int]) -> list[Any] | None:
        # See Note [Whole batches] of rgrad.utils.data.
        if self.target_transform is not None or type(self).__getitem__ is not MNIST.__getitem__:
            return None
        if not within(indices, len(self)):
            return None
        rows = rgrad.tensor(indices)
        pictures = on_batch(self.transform, self.data, rows)
        return None if pictures is None else [pictures, self.targets.index_select(0, rows)]

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


class FashionMNIST(MNIST):
    """Images of clothes in MNIST's format, by Zalando Research.

    The files are searched in `root/FashionMNIST/raw` and where Debian's package `dataset-fashion-mnist` installs
    them. A small subset comes with this package: see `subset`.
    """

    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    ]
    classes = [
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ]
    system_folder = "/usr/share/datasets/fashion-mnist"

    @classmethod
    def subset(
        cls,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> FashionMNIST:
        """The 2,000 training or 500 test images included in this package, with equally many of each class.

        Args:
            train: whether to use the training images rather than the test images.
            transform: applied to each image.
            target_transform: applied to each class.

        Returns:
            A dataset like the full one.

        Example:
            >>> from rgrad.vision.datasets import FashionMNIST
            >>> len(FashionMNIST.subset(train=False))
            500
        """
        return FashionMNISTSubset(os.path.dirname(__file__), train, transform, target_transform)


class KMNIST(MNIST):
    """Handwritten characters of ten kinds in old Japanese script, in the format and with the arguments of [`MNIST`]."""

    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"),
        ("train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"),
        ("t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"),
        ("t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134"),
    ]
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]


class FashionMNISTSubset(FashionMNIST):
    """The images included in this package."""

    system_folder = None

    @property
    def raw_folder(self) -> str:
        """The folder within the package."""
        return os.path.join(self.root, "fashion_mnist_subset")
