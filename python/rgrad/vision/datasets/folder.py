"""Datasets of files whose folder is their class."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rgrad.vision.datasets.vision import Transform, VisionDataset

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename: str, extensions: str | Sequence[str]) -> bool:
    """Whether a file's name ends in one of the extensions, in either case."""
    return filename.lower().endswith(extensions if isinstance(extensions, str) else tuple(extensions))


def is_image_file(filename: str) -> bool:
    """Whether a file's name is that of an image."""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory: str | os.PathLike[str]) -> tuple[list[str], dict[str, int]]:
    """The folders of a directory as classes, in alphabetical order.

    Args:
        directory: its path.

    Returns:
        The names of the classes, and the number of each.

    Raises:
        FileNotFoundError: if there is no folder.
    """
    with os.scandir(directory) as entries:
        classes = sorted(entry.name for entry in entries if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: number for number, name in enumerate(classes)}


def make_dataset(
    directory: str | os.PathLike[str],
    class_to_idx: dict[str, int] | None = None,
    extensions: str | Sequence[str] | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """The files of each class, at any depth.

    Args:
        directory: a path whose folders are classes.
        class_to_idx: the number of each class; found by default.
        extensions: what names of files must end in. Either this or `is_valid_file` is given.
        is_valid_file: says of a path whether it is a sample.
        allow_empty: whether a class may have no files.

    Returns:
        Path and class of each file, ordered by class and path.

    Raises:
        ValueError: if both or neither of `extensions` and `is_valid_file` are given.
        FileNotFoundError: if a class has no files.
    """
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")
    numbers = find_classes(directory)[1] if class_to_idx is None else class_to_idx
    if not numbers:
        raise ValueError("'class_to_index' must have at least one entry to collect any samples.")

    def is_sample(path: str) -> bool:
        return is_valid_file(path) if is_valid_file is not None else has_file_allowed_extension(path, extensions or ())

    samples: list[tuple[str, int]] = []
    empty: list[str] = []
    for name in sorted(numbers):
        top = os.path.join(os.path.expanduser(os.fspath(directory)), name)
        found = [
            path
            for folder, _, files in sorted(os.walk(top, followlinks=True))
            for path in (os.path.join(folder, file) for file in sorted(files))
            if is_sample(path)
        ]
        samples.extend((path, numbers[name]) for path in found)
        if not found:
            empty.append(name)
    if empty and not allow_empty:
        message = f"Found no valid file for the classes {', '.join(empty)}."
        if extensions is not None:
            listed = extensions if isinstance(extensions, str) else ", ".join(extensions)
            message += f" Supported extensions are: {listed}"
        raise FileNotFoundError(message)
    return samples


def pil_loader(path: str | os.PathLike[str]) -> Any:
    """Reads an image as RGB through Pillow."""
    from PIL import Image

    with Path(path).open("rb") as file:
        return Image.open(file).convert("RGB")


def default_loader(path: str | os.PathLike[str]) -> Any:
    """Reads an image as RGB."""
    return pil_loader(path)


class DatasetFolder(VisionDataset):
    """Files in folders that are their classes: `root/dog/one.ext`, `root/cat/nested/two.ext`.

    Args:
        root: the folder of the classes.
        loader: reads a sample from a path.
        extensions: what names of files end in. Either this or `is_valid_file` is given.
        transform: applied to each sample.
        target_transform: applied to each class.
        is_valid_file: says of a path whether it is a sample.
        allow_empty: whether a class may have no files.

    Attributes:
        classes: the names of the classes, in alphabetical order.
        class_to_idx: the number of each class.
        samples: path and class of each file.
        targets: the class of each file.

    Raises:
        FileNotFoundError: if there is no class, or a class has no files.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.loader = loader
        self.extensions = extensions
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = self.make_dataset(self.root, self.class_to_idx, extensions, is_valid_file, allow_empty)
        self.targets = [target for _, target in self.samples]

    @staticmethod
    def make_dataset(
        directory: str | os.PathLike[str],
        class_to_idx: dict[str, int] | None,
        extensions: tuple[str, ...] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> list[tuple[str, int]]:
        """The files of each class; subclasses may override it. See [`make_dataset`]."""
        if class_to_idx is None:
            raise ValueError("The class_to_idx parameter cannot be None.")
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: str | os.PathLike[str]) -> tuple[list[str], dict[str, int]]:
        """The classes and their numbers; subclasses may override it. See [`find_classes`]."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self._transformed(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(DatasetFolder):
    """Images in folders that are their classes: `root/dog/one.png`, `root/cat/two.jpg`.

    Args:
        root: the folder of the classes.
        transform: applied to each image.
        target_transform: applied to each class.
        loader: reads an image from a path; as RGB through Pillow by default.
        is_valid_file: says of a path whether it is a sample; by default the extension does.
        allow_empty: whether a class may have no images.

    Attributes:
        imgs: path and class of each image, as `samples`.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        extensions = IMG_EXTENSIONS if is_valid_file is None else None
        super().__init__(root, loader, extensions, transform, target_transform, is_valid_file, allow_empty)
        self.imgs = self.samples
