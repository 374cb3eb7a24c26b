"""Published weights, and the registry of networks that have them."""

from __future__ import annotations

import fnmatch
import os
import typing
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import rgrad
from rgrad.vision.models._utils import _ovewrite_named_param
from rgrad.vision.transforms import functional as F  # noqa: N812


class ImageClassification:
    """The preprocessing of an image for a network trained on ImageNet.

    Args:
        crop_size: edge length of the central crop.
        resize_size: length to which the shorter edge is resized first.
        mean: subtracted from each channel.
        std: divides each channel.
        interpolation: of the resize.
        antialias: whether a tensor is averaged where it is reduced in size.
    """

    def __init__(
        self,
        *,
        crop_size: int,
        resize_size: int = 256,
        mean: tuple[float, ...] = (0.485, 0.456, 0.406),
        std: tuple[float, ...] = (0.229, 0.224, 0.225),
        interpolation: F.InterpolationMode = F.InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        self.crop_size = [crop_size]
        self.resize_size = [resize_size]
        self.mean = list(mean)
        self.std = list(std)
        self.interpolation = interpolation
        self.antialias = antialias

    def __call__(self, picture: Any) -> Any:
        picture = F.resize(picture, self.resize_size, self.interpolation, antialias=bool(self.antialias))
        picture = F.center_crop(picture, (self.crop_size[0], self.crop_size[0]))
        if not isinstance(picture, rgrad.Tensor):
            picture = F.pil_to_tensor(picture)
        return F.normalize(F.convert_image_dtype(picture, rgrad.float32), self.mean, self.std)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(\n    crop_size={self.crop_size}\n    resize_size={self.resize_size}\n"
            f"    mean={self.mean}\n    std={self.std}\n    interpolation={self.interpolation}\n)"
        )


@dataclass
class Weights:
    """One set of published weights.

    Attributes:
        url: the URL at which the file was published.
        transforms: returns the preprocessing of its images.
        meta: metadata.
    """

    url: str
    transforms: Callable[..., Any]
    meta: dict[str, Any] = field(default_factory=dict)


def weights_folders() -> list[str]:
    """The folders in which weights are searched: `RGRAD_WEIGHTS_DIR`, then PyTorch's cache."""
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    home = os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))
    folders = [os.environ.get("RGRAD_WEIGHTS_DIR", ""), os.path.join(home, "hub", "checkpoints")]
    return [os.path.expanduser(folder) for folder in folders if folder]


class WeightsEnum(Enum):
    """The published weights of one network; `DEFAULT` is the best of them."""

    @classmethod
    def verify(cls, weights: Any) -> WeightsEnum | None:
        """Returns the member given by `weights`, itself or its name; None is returned as None."""
        if weights is None:
            return None
        if isinstance(weights, str):
            return cls[weights.removeprefix(cls.__name__ + ".")]
        if not isinstance(weights, cls):
            raise TypeError(
                f"Invalid Weight class provided; expected {cls.__name__} but received {type(weights).__name__}."
            )
        return weights

    @property
    def url(self) -> str:
        """The URL at which the file was published."""
        return self.value.url

    @property
    def transforms(self) -> Callable[..., Any]:
        """Returns the preprocessing of its images."""
        return self.value.transforms

    @property
    def meta(self) -> dict[str, Any]:
        """Metadata of the weights."""
        return self.value.meta

    def get_state_dict(
        self, weights_dir: str | os.PathLike[str] | None = None, progress: bool = True, check_hash: bool = False
    ) -> dict[str, Any]:
        """Reads the weights from a local file, which is downloaded if there is none.

        Args:
            weights_dir: a folder to search before the default ones.
            progress: as for `hub.load_state_dict_from_url`.
            check_hash: whether the file's hash is compared with the one in its name.

        Returns:
            The state dict.

        Raises:
            FileNotFoundError: there is no such file, and it can't be downloaded.
        """
        name = self.url.rpartition("/")[2]
        folders = ([os.fspath(weights_dir)] if weights_dir is not None else []) + weights_folders()
        for folder in folders:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return rgrad.load(path, map_location="cpu", weights_only=True)
        try:
            return rgrad.hub.load_state_dict_from_url(
                self.url, map_location="cpu", progress=progress, check_hash=check_hash
            )
        except OSError as error:
            raise FileNotFoundError(
                f"the weights {self} are neither on this machine nor could they be downloaded ({error}): put {name} "
                f"from {self.url} into one of {folders}, or set RGRAD_WEIGHTS_DIR to the folder that has it"
            ) from error

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return repr(self)


BUILTIN_MODELS: dict[str, Callable[..., Any]] = {}
_ENUMS: dict[Callable[..., Any], type[WeightsEnum]] = {}


def register_model(name: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds a function, which makes a network, to the registry.

    Args:
        name: the name in the registry; the function's by default.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        key = function.__name__ if name is None else name
        if key in BUILTIN_MODELS:
            raise ValueError(f"An entry is already registered under the name '{key}'.")
        BUILTIN_MODELS[key] = function
        return function

    return add


def _legacy(arguments: tuple[Any, ...], options: dict[str, Any], enum: type[WeightsEnum]) -> None:
    """Turns `weights` by position, and `pretrained`, into the option `weights`, with a warning."""
    for name, value in zip(("weights", "progress"), arguments, strict=False):
        warnings.warn(
            f"Using '{name}' as positional parameter(s) is deprecated since 0.13 and may be removed in the future. "
            "Please use keyword parameter(s) instead.",
            stacklevel=3,
        )
        options[name] = value
    old = "pretrained" in options
    given: Any = options.pop("pretrained", None) if old else options.get("weights")
    if old or isinstance(given, bool):
        # What `pretrained` meant are the first weights that were published.
        given = next(iter(enum)) if given else None
        warnings.warn(
            "The parameter 'pretrained' is deprecated since 0.13, as are bools for 'weights'; here it means "
            f"weights={given}.",
            stacklevel=3,
        )
    options["weights"] = given


def builder(
    name: str,
    enum: Any,
    make: Callable[..., Any],
    title: str,
    loaded: Callable[[Any, dict[str, Any]], None] | None = None,
    convert: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    finish: Callable[[Any, dict[str, Any]], None] | None = None,
) -> Any:
    """The registered function of a network: `name(*, weights=None, progress=True, **kwargs)`.

    Args:
        name: the function's name.
        enum: the published weights.
        make: makes the network from the other keyword arguments.
        title: begins the function's docstring.
        loaded: changes the keyword arguments where published weights are loaded.
        convert: changes the keys of published weights.
        finish: is called with the network that loaded weights and with the arguments that the caller gave.
    """

    def build(*args: Any, weights: Any = None, progress: bool = True, weights_dir: Any = None, **kwargs: Any) -> Any:
        options: dict[str, Any] = {"weights": weights, "progress": progress, **kwargs}
        _legacy(args, options, enum)
        chosen, progress = enum.verify(options.pop("weights")), options.pop("progress")
        if chosen is None:
            return make(**options)
        given = dict(options)
        _ovewrite_named_param(options, "num_classes", chosen.meta["num_classes"])
        if loaded is not None:
            loaded(chosen, options)
        model = make(**options)
        state = chosen.get_state_dict(weights_dir, progress=progress, check_hash=True)
        model.load_state_dict(state if convert is None else convert(state))
        if finish is not None:
            finish(model, given)
        return model

    build.__name__ = build.__qualname__ = name
    build.__module__ = enum.__module__
    build.__doc__ = f"""{title}

    Args:
        weights: published weights, a member of `{enum.__name__}` or its name; None for random initialization.
        progress: as for `hub.load_state_dict_from_url`.
        weights_dir: a folder to search for the file first.
        **kwargs: arguments of the network's class, such as `num_classes`.

    Returns:
        The network.
    """
    _ENUMS[build] = enum
    return register_model()(build)


def get_model_builder(name: str) -> Callable[..., Any]:
    """The function that makes the network of a name, in any case."""
    if name.lower() not in BUILTIN_MODELS:
        raise ValueError(f"Unknown model {name}")
    return BUILTIN_MODELS[name.lower()]


def get_model(name: str, **config: Any) -> Any:
    """Makes the network of a name.

    Args:
        name: as in `list_models()`, in any case.
        **config: arguments of the function of that name.

    Example:
        >>> import rgrad as torch
        >>> torch.vision.models.get_model("squeezenet1_1", num_classes=4)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 4])
    """
    return get_model_builder(name)(**config)


def get_model_weights(name: Callable[..., Any] | str) -> type[WeightsEnum]:
    """The enumeration of the published weights of a network, given by its name or by its function."""
    function = get_model_builder(name) if isinstance(name, str) else name
    enum = _ENUMS.get(function)
    if enum is None:
        # A package's own function tells it by an annotation.
        hint = typing.get_type_hints(function).get("weights")
        kinds = [kind for kind in typing.get_args(hint) or (hint,) if isinstance(kind, type)]
        enum = next((kind for kind in kinds if issubclass(kind, WeightsEnum)), None)
    if enum is None:
        raise ValueError(f"the published weights of {name} are unknown: its parameter 'weights' has no annotation")
    return enum


def get_weight(name: str) -> WeightsEnum:
    """The weights of a full name, such as "ResNet50_Weights.IMAGENET1K_V2"."""
    cls, dot, member = name.partition(".")
    if not dot or "." in member:
        raise ValueError(f"Invalid weight name provided: '{name}'.")
    for enum in _ENUMS.values():
        if enum.__name__ == cls:
            return enum[member]
    raise ValueError(f"The weight enum '{cls}' for the specific method couldn't be retrieved.")


def list_models(
    module: Any = None, include: Iterable[str] | str | None = None, exclude: Iterable[str] | str | None = None
) -> list[str]:
    """The names of networks in order.

    Args:
        module: only those that this module has.
        include: only those that match one of these patterns, such as "resnet*".
        exclude: not those that match one of these.
    """

    def match(name: str, patterns: Iterable[str] | str) -> bool:
        return any(fnmatch.fnmatch(name, p) for p in ([patterns] if isinstance(patterns, str) else patterns))

    def wanted(name: str, function: Any) -> bool:
        here = module is None or getattr(module, function.__name__, None) is function
        return here and (not include or match(name, include)) and not (exclude and match(name, exclude))

    return sorted(name for name, function in BUILTIN_MODELS.items() if wanted(name, function))
