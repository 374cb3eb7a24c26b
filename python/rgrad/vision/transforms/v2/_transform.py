"""The base class of transforms of samples, and transforms made of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import rgrad
from rgrad.utils import _pytree
from rgrad.vision.transforms import _draw
from rgrad.vision.transforms._kinds import is_pil
from rgrad.vision.tv_tensors import Image, TVTensor


def is_pure_tensor(inpt: Any) -> bool:
    """Whether something is a tensor of no class of `tv_tensors`."""
    return isinstance(inpt, rgrad.Tensor) and not isinstance(inpt, TVTensor)


def images_among(parts: list[Any]) -> list[bool]:
    """Which parts of a sample are images: the first plain tensor only counts if there is nothing better."""
    sure = [isinstance(part, Image) or is_pil(part) for part in parts]
    if not any(sure):
        first = next((place for place, part in enumerate(parts) if is_pure_tensor(part)), None)
        return [place == first for place in range(len(parts))]
    return sure


def sample_of(inputs: tuple[Any, ...]) -> Any:
    """The only argument, or several as one sample."""
    arguments = list(inputs)
    return inputs if len(arguments) > 1 else arguments[0]


def leaves_of(inputs: tuple[Any, ...]) -> tuple[list[Any], Any]:
    """The parts of a sample and its structure."""
    return _pytree.tree_flatten(sample_of(inputs))


class Transform(rgrad.nn.Module):
    """The base class: calls :meth:`transform` for each image of a sample.

    A subclass defines `transform`, and `make_params` if it draws random numbers.
    """

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Raises an error for samples that cannot be transformed.

        Args:
            flat_inputs: all parts of the sample.
        """

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draws what is the same for every image of a sample.

        Args:
            flat_inputs: the images of the sample.

        Returns:
            The second argument of :meth:`transform`.
        """
        return {}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Transforms an image.

        Args:
            inpt: the image.
            params: what :meth:`make_params` returned for its sample.

        Returns:
            The new image.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no transform")

    def forward(self, *inputs: Any) -> Any:
        """Transforms a sample, given as one argument or several, and returns it with the same structure."""
        parts, structure = leaves_of(inputs)
        self.check_inputs(parts)
        chosen = images_among(parts)
        params = self.make_params([part for part, is_image in zip(parts, chosen, strict=True) if is_image])
        results = [
            self.transform(part, params) if is_image else part for part, is_image in zip(parts, chosen, strict=True)
        ]
        return _pytree.tree_unflatten(results, structure)

    def extra_repr(self) -> str:
        """The settings that `repr` shows."""
        shown = {name: value for name, value in vars(self).items() if name[0] != "_" and name != "training"}
        simple = (bool, int, float, str, tuple, list, Enum)
        texts = (
            f"{name}={value.value if isinstance(value, Enum) else value}"
            for name, value in shown.items()
            if isinstance(value, simple)
        )
        return ", ".join(texts)

    def __repr__(self) -> str:
        return rgrad.nn.Module.__repr__(self)


class Identity(Transform):
    """Returns samples as they are."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt


class Lambda(Transform):
    """Applies a function to all parts of a sample.

    Args:
        lambd: the function.
        *types: the classes of the parts that it is applied to; all by default.
    """

    def __init__(self, lambd: Callable[[Any], Any], *types: type) -> None:
        super().__init__()
        self.lambd = lambd
        self.types = types or (object,)

    def forward(self, *inputs: Any) -> Any:
        """Transforms a sample."""
        parts, structure = leaves_of(inputs)
        results = [self.lambd(part) if isinstance(part, self.types) else part for part in parts]
        return _pytree.tree_unflatten(results, structure)

    def extra_repr(self) -> str:
        name = getattr(self.lambd, "__name__", None)
        text = [name] if name and name != "<lambda>" else []
        return ", ".join([*text, f"types={[kind.__name__ for kind in self.types]}"])


class _Several(Transform):
    """A transform made of others."""

    def __init__(self, transforms: Any) -> None:
        super().__init__()
        if not isinstance(transforms, (Sequence, rgrad.nn.ModuleList)):
            raise TypeError("Argument transforms should be a sequence of callables")
        if not transforms:
            raise ValueError("Pass at least one transform")
        self.transforms: Any = transforms

    def _apply_all(self, inputs: tuple[Any, ...], order: Sequence[int]) -> Any:
        sample = sample_of(inputs)
        for place in order:
            sample = self.transforms[place](*inputs)
            inputs = sample if len(inputs) > 1 else (sample,)
        return sample


class Compose(_Several):
    """Applies transforms one after the other.

    Args:
        transforms: the transforms.

    Example:
        >>> import rgrad as torch
        >>> from rgrad.vision.transforms import v2
        >>> prepare = v2.Compose([v2.CenterCrop(2), v2.ToDtype(torch.float32, scale=True)])
        >>> image, label = prepare(torch.full((3, 4, 4), 255, dtype=torch.uint8), 7)
        >>> image.shape, image.max(), label
        (torch.Size([3, 2, 2]), tensor(1.), 7)
    """

    def forward(self, *inputs: Any) -> Any:
        """Transforms a sample."""
        return self._apply_all(inputs, range(len(self.transforms)))

    def extra_repr(self) -> str:
        return _listed(self.transforms)


def _listed(transforms: Any) -> str:
    return "\n".join(f"    {transform}" for transform in transforms)


class RandomApply(_Several):
    """Applies all of its transforms, or none of them.

    Args:
        transforms: the transforms.
        p: the probability that they are applied.
    """

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__(transforms)
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        self.p = p

    def forward(self, *inputs: Any) -> Any:
        """Transforms a sample, or returns it."""
        return self._apply_all(inputs, range(len(self.transforms)) if _draw.chance() < self.p else ())

    def extra_repr(self) -> str:
        return _listed(self.transforms)


class RandomChoice(_Several):
    """Applies one of its transforms.

    Args:
        transforms: the transforms.
        p: their probabilities, or numbers in proportion to them; equal by default.

    Raises:
        ValueError: there are not as many probabilities as transforms.
    """

    def __init__(self, transforms: Any, p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        weights = [1.0] * len(transforms) if p is None else list(p)
        if len(weights) != len(transforms):
            raise ValueError(f"Length of p doesn't match the number of transforms: {len(weights)} != {len(transforms)}")
        self.p = [weight / sum(weights) for weight in weights]

    def forward(self, *inputs: Any) -> Any:
        """Transforms a sample."""
        return self._apply_all(inputs, [_draw.weighted(self.p)])


class RandomOrder(_Several):
    """Applies its transforms in an order drawn for each sample.

    Args:
        transforms: the transforms.
    """

    def forward(self, *inputs: Any) -> Any:
        """Transforms a sample."""
        return self._apply_all(inputs, _draw.permutation(len(self.transforms)))
