"""SVHN: house numbers in street views."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from rgrad.vision.datasets._download import download, has_checksum
from rgrad.vision.datasets._mat import read_mat
from rgrad.vision.datasets.vision import Transform, VisionDataset


class SVHN(VisionDataset):
    """Photographs of the digits of house numbers, of 32 by 32 pixels.

    Args:
        root: the folder that contains the published file, such as `train_32x32.mat`.
        split: "train" (73,257 images), "test" (26,032) or "extra" (531,131, easier ones).
        transform: applied to each image, a Pillow image.
        target_transform: applied to each class.
        download: download the file if it is missing.

    Attributes:
        data: the images, a uint8 array of shape (N, 3, 32, 32).
        labels: the digits, an int64 array of shape (N,).

    Raises:
        ValueError: there is no such split.
        RuntimeError: the file is missing or has another checksum.
    """

    split_list: ClassVar[dict[str, list[str]]] = {
        "train": [
            "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
            "train_32x32.mat",
            "e26dedcc434d2e4c54c9b2d4a06d8373",
        ],
        "test": [
            "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
            "test_32x32.mat",
            "eb5a983be6a315427106f1b164d9cef3",
        ],
        "extra": [
            "http://ufldl.stanford.edu/housenumbers/extra_32x32.mat",
            "extra_32x32.mat",
            "a93ce644f1a588dc4d68dda5feec44a7",
        ],
    }

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        download: bool = False,
    ) -> None:
        import numpy as np

        super().__init__(os.fspath(root), transform=transform, target_transform=target_transform)
        if split not in self.split_list:
            known = ", ".join(self.split_list)
            raise ValueError(f"Unknown value '{split}' for argument split. Valid values are {known}.")
        self.split = split
        self.url, self.filename, self.file_md5 = self.split_list[split]
        if download:
            self.download()
        if not self._check_integrity():
            raise RuntimeError("Dataset not found or corrupted. You can use download=True to download it")
        arrays = read_mat(self._path())
        labels = arrays["y"].reshape(-1).astype(np.int64)
        # The file calls the digit 0 ten.
        self.labels: Any = np.where(labels == 10, 0, labels)
        self.data: Any = np.ascontiguousarray(arrays["X"].transpose(3, 2, 0, 1))

    def _path(self) -> str:
        return os.path.join(self.root, self.filename)

    def _check_integrity(self) -> bool:
        return has_checksum(self._path(), self.file_md5)

    def download(self) -> None:
        """Downloads the split's file, unless it is there."""
        if not self._check_integrity():
            os.makedirs(self.root, exist_ok=True)
            download(self.url, self._path(), self.file_md5)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        from PIL import Image

        return self._transformed(Image.fromarray(self.data[index].transpose(1, 2, 0)), int(self.labels[index]))

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {self.split}"
