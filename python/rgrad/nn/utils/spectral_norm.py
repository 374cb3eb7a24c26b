"""Spectral normalization by a hook: the older form of `parametrizations.spectral_norm`."""

from __future__ import annotations

from typing import Any, TypeVar

import rgrad
from rgrad import _C

from ...utils.hooks import RemovableHandle
from .. import functional as F
from ..modules.module import Module
from ..parameter import Parameter, is_lazy
from .parametrizations import matrix_of, output_dim

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]

M = TypeVar("M", bound=Module)


class SpectralNorm:
    """The hook that divides a weight by its largest singular value before each forward."""

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps
        self._state_handles: tuple[RemovableHandle, ...] = ()

    def compute_weight(self, module: Module, do_power_iteration: bool) -> _C.Tensor:
        """Returns the weight divided by its largest singular value."""
        weight, u, v = (getattr(module, self.name + suffix) for suffix in ("_orig", "_u", "_v"))
        matrix = matrix_of(weight, self.dim)
        if do_power_iteration:
            with rgrad.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(rgrad.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(rgrad.mv(matrix, v), dim=0, eps=self.eps))
                # Clones, because the next iteration overwrites the vectors in place.
                u, v = u.clone(), v.clone()
        return weight / rgrad.dot(u, rgrad.mv(matrix, v))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Creates the hook and registers it on a module."""
        if any(isinstance(h, SpectralNorm) and h.name == name for h in module._forward_pre_hooks.values()):
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters: the first `forward` gives "
                "them shapes."
            )
        rows, columns = matrix_of(weight.detach(), dim).shape
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        # A plain attribute, so that the weight exists before the first forward.
        setattr(module, name, weight.data)
        for suffix, size in (("_u", rows), ("_v", columns)):
            vector = weight.detach().new_empty(size).normal_(0, 1)
            module.register_buffer(name + suffix, F.normalize(vector, dim=0, eps=eps))
        module.register_forward_pre_hook(hook)
        hook._state_handles = (
            module._register_state_dict_hook(hook._note_version),
            module._register_load_state_dict_pre_hook(hook._load_older),
        )
        return hook

    def _note_version(self, module: Module, state_dict: Any, prefix: str, metadata: dict[str, Any]) -> None:
        metadata.setdefault("spectral_norm", {})[f"{self.name}.version"] = 1

    def _load_older(self, state_dict: Any, prefix: str, metadata: dict[str, Any], *_: Any) -> None:
        """Computes the right vector of a state of version 0, which has the normalized weight instead."""
        version = metadata.get("spectral_norm", {}).get(f"{self.name}.version")
        key = prefix + self.name
        if version is not None or key not in state_dict or f"{key}_orig" not in state_dict:
            return
        weight, original = state_dict.pop(key), state_dict[f"{key}_orig"]
        if f"{key}_v" in state_dict or f"{key}_u" not in state_dict:
            return
        u = state_dict[f"{key}_u"]
        with rgrad.no_grad():
            matrix = matrix_of(original, self.dim)
            v = rgrad.linalg.lstsq(matrix, u.unsqueeze(1)).solution.squeeze(1)
            # Of the length with which `compute_weight` finds the singular value that the weight was divided by.
            state_dict[f"{key}_v"] = v * ((original / weight).mean() / rgrad.dot(u, rgrad.mv(matrix, v)))

    def remove(self, module: Module) -> None:
        """Restores the weight as a parameter."""
        with rgrad.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))
        for handle in self._state_handles:
            handle.remove()

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divides a weight by its largest singular value; see :func:`rgrad.nn.utils.parametrizations.spectral_norm`."""
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Undoes :func:`spectral_norm`."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
