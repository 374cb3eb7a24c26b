"""Predefined parametrizations: orthogonal matrices, weight normalization and spectral normalization."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import _C

from .. import functional as F
from ..modules.conv_transpose import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from . import parametrize
from ._orthogonal import _OrthMaps, _Orthogonal

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

Tensor = _C.Tensor


def norm_except_dim(v: Tensor, dim: int) -> Tensor:
    """The 2-norm over all dimensions but ``dim``, or over all if it is -1; reduced dimensions have size 1."""
    if dim == -1:
        return v.norm()
    return v.norm(2, [d for d in range(v.dim()) if d != dim % v.dim()], keepdim=True)


def scaled_direction(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """The tensor with the direction of ``v`` and the norm ``g``."""
    return v * (g / norm_except_dim(v, dim))


def matrix_of(weight: Tensor, dim: int) -> Tensor:
    """The weight as a matrix with one row per index of a dimension."""
    order = [dim, *(d for d in range(weight.dim()) if d != dim)]
    return weight.permute(order).flatten(1)


def output_dim(module: Module) -> int:
    """The dimension of a module's weight that indexes its outputs."""
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return scaled_direction(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrizes a weight by its length and its direction, which are learned separately.

    Args:
        module: the module.
        name: name of the weight.
        dim: the dimension with one length per index; None for a single length.

    Returns:
        The module, with ``parametrizations.weight.original0`` (length) and ``original1`` (direction).

    Example:
        >>> layer = rgrad.nn.utils.parametrizations.weight_norm(rgrad.nn.Linear(20, 40))
        >>> layer.parametrizations.weight.original0.shape
        torch.Size([40, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename_older_keys(state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename_older_keys)
    return module


class _SpectralNorm(Module):
    """Divides a weight by its largest singular value, estimated by power iteration across forwards."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = matrix_of(weight.detach(), self.dim)
            for vector, size in zip(("_u", "_v"), matrix.shape, strict=True):
                self.register_buffer(vector, F.normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        with rgrad.no_grad():
            for _ in range(times):
                self._u.copy_(F.normalize(rgrad.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(rgrad.mv(matrix.t(), self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = matrix_of(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Clones, because the next iteration overwrites the vectors in place.
        u, v = self._u.clone(), self._v.clone()
        return weight / rgrad.dot(u, rgrad.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divides a weight by its largest singular value.

    Args:
        module: the module.
        name: name of the weight.
        n_power_iterations: steps of power iteration per forward in training.
        eps: smallest length of the vectors of the iteration.
        dim: the dimension that indexes the outputs; None for the default of the module's class.

    Returns:
        The module.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    dim = output_dim(module) if dim is None else dim
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Parametrizes a weight so that its rows or columns, whichever are fewer, stay orthonormal.

    Args:
        module: the module; it is changed and returned.
        name: name of the weight, a matrix or a batch of matrices.
        orthogonal_map: ``'matrix_exp'``, ``'cayley'`` or ``'householder'``; by default the first for square matrices,
            the last for others. See Note [Orthogonal maps].
        use_trivialization: whether the map is multiplied by a fixed matrix, which makes every weight assignable.

    Raises:
        ValueError: there is no such weight or map, or the weight is no matrix.

    >>> layer = rgrad.nn.utils.parametrizations.orthogonal(rgrad.nn.Linear(20, 40))
    >>> rgrad.allclose(layer.weight.T @ layer.weight, rgrad.eye(20), atol=1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.size(-2) == weight.size(-1) else "householder"
    chosen = _OrthMaps.__members__.get(orthogonal_map)
    if chosen is None:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    return module
