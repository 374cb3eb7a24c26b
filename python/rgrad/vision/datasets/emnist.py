"""EMNIST: handwritten letters and digits in MNIST's format."""

from __future__ import annotations

import os
import shutil
import string
import zipfile
from typing import Any, ClassVar

from rgrad.vision.datasets._download import download, has_checksum
from rgrad.vision.datasets.mnist import MNIST

_DIGITS, _CAPITALS, _SMALL = map(list, (string.digits, string.ascii_uppercase, string.ascii_lowercase))
# Where small and capital letters look alike, "bymerge" and "balanced" count both as the capital.
_MERGED = [*_DIGITS, *_CAPITALS, *(letter for letter in _SMALL if letter not in "cijklmopsuvwxyz")]


class EMNIST(MNIST):
    """Handwritten letters and digits, of 28 by 28 pixels.

    As published, the images are transposed: rows of the files are columns of the writing.

    Args:
        root: the folder in which `EMNIST/raw` contains the published files, plain or gzipped.
        split: "byclass" (62 classes), "bymerge" and "balanced" (47), "letters" (26, numbered from 1), "digits" or
            "mnist" (10).
        **kwargs: `train`, `transform`, `target_transform` and `download`, as for [`MNIST`]. The published archive has
            the files of all splits, and is kept.

    Raises:
        ValueError: there is no such split.
        RuntimeError: files are missing, or the archive has another checksum.
    """

    url = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"
    md5 = "58c8d27c78d21e728a6bc7b3cc06412e"
    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    classes_split_dict: ClassVar[dict[str, list[str]]] = {
        "byclass": [*_DIGITS, *_CAPITALS, *_SMALL],
        "bymerge": _MERGED,
        "balanced": _MERGED,
        "letters": ["N/A", *_SMALL],
        "digits": _DIGITS,
        "mnist": _DIGITS,
    }

    def __init__(self, root: str | os.PathLike[str], split: str, **kwargs: Any) -> None:
        if split not in self.splits:
            raise ValueError(f"Unknown value '{split}' for argument split. Valid values are {', '.join(self.splits)}.")
        self.split = split
        # The files have no checksums of their own; the archive's is verified.
        self.resources = [
            (f"emnist-{split}-{part}-{kind}-ubyte.gz", "")
            for part in ("train", "test")
            for kind in ("images-idx3", "labels-idx1")
        ]
        self.classes = self.classes_split_dict[split]
        super().__init__(root, **kwargs)

    @property
    def images_file(self) -> str:
        """The path of the images' file, unpacked."""
        return os.path.join(self.raw_folder, self._names()[0].removesuffix(".gz"))

    @property
    def labels_file(self) -> str:
        """The path of the labels' file, unpacked."""
        return os.path.join(self.raw_folder, self._names()[1].removesuffix(".gz"))

    def _missing(self) -> list[tuple[str, str]]:
        return [(name, "") for name in self._names() if self._find(name) is None]

    def download(self) -> None:
        """Downloads the archive if it is not there, and unpacks the split's files that are missing."""
        if self._check_exists():
            return
        os.makedirs(self.raw_folder, exist_ok=True)
        archive = os.path.join(self.raw_folder, os.path.basename(self.url))
        if not has_checksum(archive, self.md5):
            download(self.url, archive, self.md5)
        with zipfile.ZipFile(archive) as files:
            for name, _ in self.resources:
                with files.open(f"gzip/{name}") as packed, open(os.path.join(self.raw_folder, name), "wb") as file:
                    shutil.copyfileobj(packed, file)
