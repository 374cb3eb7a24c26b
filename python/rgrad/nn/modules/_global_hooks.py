"""Hooks of every module: their registration."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from rgrad.utils.hooks import RemovableHandle

from ._hooks import BOTH_FORMS, HookMixin, add_hook, global_hooks


def _add_global_hook(hooks: OrderedDict, hook: Callable, *flags: OrderedDict) -> RemovableHandle:
    HookMixin._has_hooks = True
    return add_hook(hooks, hook, flags=flags)


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """Registers ``hook(module, args)`` for every module."""
    return _add_global_hook(global_hooks()._global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Registers ``hook(module, args, output)`` for every module."""
    flags = []
    if with_kwargs:
        flags.append(global_hooks()._global_forward_hooks_with_kwargs)
    if always_call:
        flags.append(global_hooks()._global_forward_hooks_always_called)
    return _add_global_hook(global_hooks()._global_forward_hooks, hook, *flags)


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """Registers ``hook(module, grad_output)`` for every module."""
    return _add_global_hook(global_hooks()._global_backward_pre_hooks, hook)


def _add_backward_hook(hook: Callable, *, full: bool) -> RemovableHandle:
    everywhere = global_hooks()
    if everywhere._global_backward_hooks and everywhere._global_is_full_backward_hook is not full:
        raise RuntimeError(BOTH_FORMS.format("as a global Module hook"))
    everywhere._global_is_full_backward_hook = full
    return _add_global_hook(everywhere._global_backward_hooks, hook)


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """Registers ``hook(module, grad_input, grad_output)`` for every module."""
    return _add_backward_hook(hook, full=True)


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """Registers a hook of the older form for every module; see :meth:`Module.register_backward_hook`."""
    return _add_backward_hook(hook, full=False)


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """Registers ``hook(module, name, parameter)``, which may return another parameter to be registered."""
    return add_hook(global_hooks()._global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """Registers ``hook(module, name, buffer)``, which may return another buffer to be registered."""
    return add_hook(global_hooks()._global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """Registers ``hook(module, name, submodule)``, which may return another module to be registered."""
    return add_hook(global_hooks()._global_module_registration_hooks, hook)
