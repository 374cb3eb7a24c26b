"""The former names of `torch.func`: what `import functorch` gives to programs written for it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from rgrad import func
from rgrad.fx.experimental.proxy_tensor import make_fx

from . import _modules
from ._modules import FunctionalModule, FunctionalModuleWithBuffers

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "make_fx",
    "vjp",
    "vmap",
]


def _former(function: Callable[..., Any], instead: str) -> Callable[..., Any]:
    """A function that says by which other name it is to be called."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"`functorch.{function.__name__}` is the former name of a function that is now one of torch.func, and is "
            f"deprecated. Please use `{instead}` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    return called


functionalize = _former(func.functionalize, "torch.func.functionalize")
grad = _former(func.grad, "torch.func.grad")
grad_and_value = _former(func.grad_and_value, "torch.func.grad_and_value")
hessian = _former(func.hessian, "torch.func.hessian")
jacfwd = _former(func.jacfwd, "torch.func.jacfwd")
jacrev = _former(func.jacrev, "torch.func.jacrev")
jvp = _former(func.jvp, "torch.func.jvp")
vjp = _former(func.vjp, "torch.func.vjp")
vmap = _former(func.vmap, "torch.vmap")
combine_state_for_ensemble = _former(_modules.combine_state_for_ensemble, "torch.func.stack_module_state")
make_functional = _former(_modules.make_functional, "torch.func.functional_call")
make_functional_with_buffers = _former(_modules.make_functional_with_buffers, "torch.func.functional_call")
