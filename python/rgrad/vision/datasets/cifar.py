"""CIFAR-10 and CIFAR-100."""

from __future__ import annotations

import os
import pickle
import tarfile
from pathlib import Path
from typing import Any, ClassVar

from rgrad.vision.datasets._download import download, has_checksum
from rgrad.vision.datasets.vision import Transform, VisionDataset


class CIFAR10(VisionDataset):
    """Photographs of 10 kinds of things: 50,000 training and 10,000 test images of 32 by 32 pixels.

    Args:
        root: the folder that contains the published folder, `cifar-10-batches-py`.
        train: whether to use the training images rather than the test images.
        transform: applied to each image, a Pillow image.
        target_transform: applied to each class.
        download: download and unpack the published archive if files are missing.

    Attributes:
        data: the images, a uint8 array of shape (N, 32, 32, 3).
        targets: their classes.
        classes: the names of the classes.
        class_to_idx: the number of each class.

    Raises:
        RuntimeError: if files are missing or have another checksum.
    """

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename = "cifar-10-python.tar.gz"
    tgz_md5 = "c58f30108f718f92721af3b95e74349a"
    train_list: ClassVar[list[list[str]]] = [
        ["data_batch_1", "c99cafc152244af753f735de768cd75f"],
        ["data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"],
        ["data_batch_3", "54ebc095f3ab1f0389bbae665268c751"],
        ["data_batch_4", "634d18415352ddfa80567beed471001a"],
        ["data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"],
    ]
    test_list: ClassVar[list[list[str]]] = [["test_batch", "40351d587109b95175f43aff81a1287e"]]
    meta: ClassVar[dict[str, str]] = {
        "filename": "batches.meta",
        "key": "label_names",
        "md5": "5ff9c542aee3614f3951f8cda6e48888",
    }

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        download: bool = False,
    ) -> None:
        import numpy as np

        super().__init__(os.fspath(root), transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        if not self._check_integrity():
            raise RuntimeError("Dataset not found or corrupted. You can use download=True to download it")
        batches = [self._read(name) for name, _ in (self.train_list if train else self.test_list)]
        pixels = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
        self.data: Any = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
        self.targets: list[int] = [
            int(label) for batch in batches for label in batch.get("labels", batch.get("fine_labels", ()))
        ]
        self.classes: list[str] = self._read(self.meta["filename"])[self.meta["key"]]
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}

    def _files(self) -> list[tuple[str, str]]:
        """Name and checksum of each file of the archive that is read."""
        listed = [(name, md5) for name, md5 in (*self.train_list, *self.test_list)]
        return [*listed, (self.meta["filename"], self.meta["md5"])]

    def _path(self, name: str) -> str:
        return os.path.join(self.root, self.base_folder, name)

    def _check_integrity(self) -> bool:
        return all(has_checksum(self._path(name), md5) for name, md5 in self._files())

    def _read(self, name: str) -> dict[str, Any]:
        # Unpickled only after its checksum was found to be the published one.
        return pickle.loads(Path(self._path(name)).read_bytes(), encoding="latin1")

    def download(self) -> None:
        """Downloads the archive and unpacks the files that are read, unless they are there."""
        if self._check_integrity():
            return
        os.makedirs(os.path.join(self.root, self.base_folder), exist_ok=True)
        archive = os.path.join(self.root, self.filename)
        if not has_checksum(archive, self.tgz_md5):
            download(self.url, archive, self.tgz_md5)
        with tarfile.open(archive) as tar:
            for name, _ in self._files():
                member = tar.extractfile(f"{self.base_folder}/{name}")
                if member is not None:
                    Path(self._path(name)).write_bytes(member.read())

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        from PIL import Image

        return self._transformed(Image.fromarray(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


class CIFAR100(CIFAR10):
    """As [`CIFAR10`], with 100 kinds of things; the published folder is `cifar-100-python`."""

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    filename = "cifar-100-python.tar.gz"
    tgz_md5 = "eb9058c3a382ffc7106e4002c42a8d85"
    train_list: ClassVar[list[list[str]]] = [["train", "16019d7e3df5f24257cddd939b257f8d"]]
    test_list: ClassVar[list[list[str]]] = [["test", "f0ef6b0ae62326f3e7ffdfab6717acfc"]]
    meta: ClassVar[dict[str, str]] = {
        "filename": "meta",
        "key": "fine_label_names",
        "md5": "7973b15100ade9c7d40fb424638fde48",
    }
