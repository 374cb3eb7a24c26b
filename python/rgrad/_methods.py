"""Methods of Tensor that functions of other modules provide, which are loaded when one is first called."""

from __future__ import annotations

import importlib
import warnings
from operator import attrgetter

from rgrad import _C
from rgrad._C import Tensor

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

# The methods by module; each calls the function of its name with the tensor first.
NAMES_OF = {
    "_functions.hashes": ("hash_tensor",),
    "_functions.histograms": ("histogram",),
    "_functions.views": (
        *("conj_physical", "conj_physical_", "is_distributed", "isreal", "unsafe_chunk", "unsafe_split"),
        "unsafe_split_with_sizes",
    ),
    "_linalg.householder": ("geqrf", "orgqr", "ormqr"),
    "_linalg.matrix_functions": ("matrix_exp",),
    "_linalg.older": ("cholesky", "eig", "lstsq", "lu", "lu_solve", "solve", "symeig", "triangular_solve"),
    "_special.bessel": ("i0", "i0_"),
    "_special.gamma": ("igamma", "igamma_", "igammac", "igammac_", "mvlgamma", "mvlgamma_"),
    "_special.methods": ("polygamma", "polygamma_"),
}

# What a tensor is not; each is an attribute that is False.
NOT = ("is_ipu", "is_maia", "is_mkldnn", "is_mtia", "is_sparse_csr", "is_vulkan", "is_xla", "is_xpu", "volatile")
_LAYOUTS = {
    "coalesce": "sparse coordinate tensor",
    "is_coalesced": "sparse coordinate tensor",
    "indices": "sparse coordinate tensor",
    "values": "sparse tensor",
    "crow_indices": "sparse row compressed tensor",
    "col_indices": "sparse row compressed tensor",
    "ccol_indices": "sparse column compressed tensor",
    "row_indices": "sparse column compressed tensor",
}


def _method(module: str, name: str) -> Callable[..., Any]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(f"rgrad.{module}"), name)(self, *args, **kwargs)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"Calls `rgrad.{name}` with this tensor."
    return method


def _of_sparse(name: str, layout: str) -> Callable[..., Any]:
    def method(self: Tensor) -> NoReturn:
        raise RuntimeError(f"{name} expected {layout} layout but got Strided")

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = "Raises an error, as tensors are strided."
    return method


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself, or in another dtype: it is strided already."""
    return self if dtype is None else self.to(dtype)


def dense_dim(self: Tensor) -> int:
    """The number of dimensions: none is sparse."""
    return self.dim()


def sparse_dim(self: Tensor) -> int:
    """0: no dimension is sparse."""
    return 0


def dim_order(self: Tensor, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the outermost to the innermost in memory; in order where strides are equal.

    Args:
        self: a tensor.
        ambiguity_check: whether dimensions that might stand in any order are an error; or a list of memory formats, one
            of which it must have.
    """
    if not isinstance(ambiguity_check, (bool, list, tuple)):
        kind = type(ambiguity_check).__name__
        raise TypeError(f"dim_order(): ambiguity_check must be a bool or a list of memory formats, got {kind}")
    order = sorted(range(self.dim()), key=lambda d: -self.stride(d))
    if isinstance(ambiguity_check, (list, tuple)):
        ambiguous = sum(self.is_contiguous(memory_format=f) for f in ambiguity_check) != 1
    else:
        # A dimension of size 1 might stand anywhere.
        strides = self.stride()
        ambiguous = ambiguity_check and (1 in self.shape or 0 in strides or len(set(strides)) < len(strides))
    if ambiguous:
        raise RuntimeError(
            "The tensor does not have unique dim order: several orders, or none of the given formats, have its strides."
        )
    return tuple(order)


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What a module is to hold in place of this tensor when `other` is loaded.

    Args:
        self: the parameter or buffer of the module.
        other: what is loaded.
        assign: whether `other` itself takes the place; else its values are copied to this tensor.
    """
    if _C._has_torch_function((self, other)):
        return _C._handle_torch_function(Tensor.module_load, (self, other), (self, other), {"assign": assign})
    return other.detach() if assign else self.copy_(other).detach()


def record_stream(self: Tensor, stream: Any) -> None:
    """Has no effect: a GPU has one stream, and memory is reused in its order."""
    if _C._torch_dispatch_stack() or getattr(type(self), "_dispatches", False):
        from ._dispatch import call

        call("record_stream.default", lambda tensor, stream: None, (self, stream), {})


def _imag(self: Tensor) -> NoReturn:
    """The imaginary part, which no tensor has here."""
    raise TypeError("imag is not implemented for tensors with non-complex dtypes.")


def _set_grad(self: Tensor, value: Tensor | None) -> None:
    self.grad = value


def _volatile(self: Tensor) -> bool:
    """False, with a warning: tensors have no such flag since PyTorch 0.4."""
    warnings.warn("volatile was removed: it is False for every tensor", stacklevel=2)
    return False


def _set_volatile(self: Tensor, value: bool) -> None:
    warnings.warn("volatile was removed and now has no effect: use no_grad() instead", stacklevel=2)


def _backward_hooks(self: Tensor) -> Any:
    return self.__dict__["_hooks_by_name"] if "_hooks_by_name" in self.__dict__ else _HOOKS.__get__(self)


def _set_backward_hooks(self: Tensor, value: Any) -> None:
    """Makes the hooks of a dict those of the tensor, as programs do that restore a tensor; None changes nothing."""
    if value is None:
        return
    self.__dict__["_hooks_by_name"] = value
    if self.requires_grad:
        from rgrad.autograd.function import _run_hook_dict

        self.register_hook(lambda grad: _run_hook_dict(value, grad))


def _keep_backward_hooks(self: Tensor) -> NoReturn:
    raise RuntimeError("Deletion of _backward_hooks is not allowed")


def _with_contents(self: Tensor, contents: str) -> str:
    """The text of a tensor with a text in place of its elements, which a subclass may hold elsewhere."""
    import rgrad

    name = type(self).__name__
    parts = [contents]
    if self.device.type != "cpu":
        parts.append(f"device='{self.device}'")
    if self.dtype not in (rgrad.get_default_dtype(), rgrad.int64, rgrad.bool):
        parts.append(f"dtype={self.dtype}")
    if self.grad_fn is not None:
        parts.append(f"grad_fn=<{self.grad_fn.name()}>")
    elif self.requires_grad:
        parts.append("requires_grad=True")
    return f"{'tensor' if name in ('Tensor', 'Parameter') else name}({', '.join(parts)})"


def _repr(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """The text of a tensor; within a level of forward mode, with its tangent."""
    from rgrad.autograd import _dual

    text = _REPR(self) if tensor_contents is None else _with_contents(self, tensor_contents)
    if "_is_param" in vars(self):
        # A parameter of a class of its own.
        text = f"Parameter({text})"
    if not _dual.levels():
        return text
    from rgrad.autograd.forward_ad import shown

    return shown(self, text)


_REPR = Tensor.__repr__
_HOOKS = Tensor._backward_hooks  # type: ignore[attr-defined]


def _set_grad_fn(self: Tensor, value: None) -> None:
    if value is not None:
        raise RuntimeError("_grad_fn can be only set to None")
    self.detach_()


def _keep_grad_fn(self: Tensor) -> NoReturn:
    raise RuntimeError("Deletion of _grad_fn not allowed: use detach_() instead.")


def install() -> None:
    """Adds the methods and attributes to Tensor."""
    from . import _absent_names

    for module, names in NAMES_OF.items():
        for name in names:
            setattr(Tensor, name, _method(module, name))
    for method in _OWN:
        setattr(Tensor, method.__name__, method)
    for name in NOT:
        setattr(Tensor, name, False)
    for name, layout in _LAYOUTS.items():
        setattr(Tensor, name, _of_sparse(name, layout))
    for name, refusal in _absent_names.methods().items():
        setattr(Tensor, name, refusal)
    Tensor.__repr__ = _repr
    Tensor.imag = property(_imag)  # type: ignore[attr-defined]
    Tensor._grad = property(attrgetter("grad"), _set_grad)  # type: ignore[attr-defined]
    Tensor._grad_fn = property(attrgetter("grad_fn"), _set_grad_fn, _keep_grad_fn)  # type: ignore[attr-defined]
    Tensor.volatile = property(_volatile, _set_volatile)  # type: ignore[attr-defined]
    Tensor._backward_hooks = property(  # type: ignore[attr-defined]
        _backward_hooks, _set_backward_hooks, _keep_backward_hooks
    )
    Tensor.name = None  # type: ignore[attr-defined]
    Tensor.const_data_ptr = Tensor.data_ptr  # type: ignore[attr-defined]


_OWN = (to_dense, dense_dim, sparse_dim, dim_order, module_load, record_stream)


_PROPERTIES = ("imag", "_grad", "_grad_fn", "volatile", "name", "const_data_ptr")


def names() -> set[str]:
    """The names of all that `install` adds."""
    from . import _absent_names

    refused = (name for names in _absent_names.METHODS.values() for name in names)
    called = (name for names in NAMES_OF.values() for name in names)
    return {*called, *refused, *NOT, *_LAYOUTS, *(m.__name__ for m in _OWN), *_PROPERTIES}
