"""Saving a module's state into a dictionary, and loading it back."""

import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import rgrad
from rgrad import _C
from rgrad import __future__ as conversion

from ...utils.hooks import RemovableHandle
from ..parameter import Parameter, is_lazy
from ._hooks import add_hook

EXTRA_STATE_KEY = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """The result of ``load_state_dict``: keys that the module lacks, and keys it doesn't know."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class StateMixin:
    """The part of ``Module`` that implements ``state_dict`` and ``load_state_dict``."""

    _version: int = 1

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: OrderedDict[int, Callable]
    _state_dict_pre_hooks: OrderedDict[int, Callable]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable]
    _load_state_dict_post_hooks: OrderedDict[int, Callable]

    def get_extra_state(self) -> Any:
        """Returns data that a subclass stores in the state_dict besides its tensors (override both methods)."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Override "
            "get_extra_state() together with set_extra_state()."
        )

    def set_extra_state(self, state: Any) -> None:
        """Receives what :meth:`get_extra_state` returned when the state_dict was made."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. Override "
            "set_extra_state() together with get_extra_state()."
        )

    def _has_extra_state(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(StateMixin, method)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Registers ``hook(module, state_dict, prefix, local_metadata)``; it may change the dict in place."""
        hook._from_public_api = True
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """Like :meth:`register_state_dict_post_hook`, but the hook may return another dictionary."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Registers ``hook(module, prefix, keep_vars)``, run before the module is saved."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Registers a hook that runs before the module's own entries are loaded.

        Args:
            hook: ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                error_msgs)``; it may change the dictionary and the lists in place.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> RemovableHandle:
        return add_hook(self._load_state_dict_pre_hooks, _LoadPreHook(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Registers ``hook(module, incompatible_keys)``, which may change the two lists in place."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Writes the module's own parameters, persistent buffers and extra state, without its children's."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars or is_lazy(parameter) else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars or is_lazy(buffer) else buffer.detach()
        if self._has_extra_state("get_extra_state"):
            destination[prefix + EXTRA_STATE_KEY] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Returns references to all parameters and persistent buffers, by their full names.

        Args:
            destination: the dictionary to fill; a new OrderedDict by default.
            prefix: put before every name.
            keep_vars: whether the values stay attached to the graph.

        Returns:
            ``destination``, whose ``_metadata`` holds the version of every module.

        Example:
            >>> list(rgrad.nn.Linear(2, 3).state_dict())
            ['weight', 'bias']
        """
        options = {"destination": destination, "prefix": prefix, "keep_vars": keep_vars}
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead: state_dict(destination=..., prefix=..., "
                "keep_vars=...).",
                FutureWarning,
                stacklevel=2,
            )
            # A destination passed by name takes precedence over one passed by position.
            defaults = (None, "", False)
            for (name, named), default, positional in zip(tuple(options.items()), defaults, args, strict=False):
                if named is default or named == default:
                    options[name] = positional
        return self._collect_state(**options)

    def _collect_state(self, destination: Any, prefix: str, keep_vars: bool) -> Any:
        """Fills the dictionary from this module and, through their own ``state_dict``, from its children."""
        collected = _new_state() if destination is None else destination
        about = {"version": self._version}
        # A plain dict, which callers may pass, cannot have the attribute `_metadata`.
        if hasattr(collected, "_metadata"):
            collected._metadata[prefix[:-1]] = about
        for pre_hook in self._state_dict_pre_hooks.values():
            pre_hook(self, prefix, keep_vars)
        self._save_to_state_dict(collected, prefix, keep_vars)
        children = ((name, child) for name, child in self._modules.items() if child is not None)
        for name, child in children:
            child.state_dict(destination=collected, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for post_hook in self._state_dict_hooks.values():
            replacement = post_hook(self, collected, prefix, about)
            if replacement is not None and getattr(post_hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            collected = collected if replacement is None else replacement
        return collected

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Loads the module's own entries and appends problems to the three lists."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = dict(self._parameters)
        own.update((k, v) for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set)
        own = {name: tensor for name, tensor in own.items() if tensor is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                problem = self._load_tensor(name, key, tensor, state_dict[key], assign)
                if problem is not None:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + EXTRA_STATE_KEY
        if self._has_extra_state("set_extra_state"):
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if not strict:
            return
        for key in state_dict:
            if key.startswith(prefix) and key != extra_key:
                head, *rest = key[len(prefix) :].split(".", 1)
                # A key with more components belongs to a child; this module only checks whether it has that child.
                if (head not in self._modules) if rest else (head not in own):
                    unexpected_keys.append(key)

    def _load_tensor(self, name: str, key: str, tensor: _C.Tensor, loaded: Any, assign: bool) -> str | None:
        """Gives member ``name`` the values of ``loaded``; returns an error message if that is impossible."""
        if not isinstance(loaded, _C.Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object '
                f"from checkpoint but received {type(loaded)}"
            )
        if is_lazy(tensor) and is_lazy(loaded):
            return None
        if len(tensor.shape) == 0 and len(loaded.shape) == 1 and loaded.shape[0] == 1:
            # Checkpoints written by early PyTorch versions store 0-d values as one-element vectors.
            loaded = loaded[0]
        if tensor.shape != loaded.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {loaded.shape} from checkpoint, the shape in "
                f"current model is {tensor.shape}."
            )
        if tensor.is_meta and not loaded.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
                "model, which is a no-op. assign=True gives the module the loaded tensor.",
                stacklevel=2,
            )
        try:
            with rgrad.no_grad():
                if conversion.get_swap_module_params_on_conversion():
                    rgrad.utils.swap_tensors(tensor, _loaded_as(tensor, loaded, assign))
                elif not assign:
                    tensor.copy_(loaded)
                else:
                    if isinstance(tensor, Parameter):
                        if isinstance(loaded, Parameter):
                            loaded.requires_grad_(tensor.requires_grad)
                        else:
                            loaded = Parameter(loaded, requires_grad=tensor.requires_grad)
                    setattr(self, name, loaded)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{tensor.size()} and whose dimensions in the checkpoint are {loaded.size()}, an exception "
                f"occurred : {error.args}."
            )
        return None

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copies parameters and buffers from ``state_dict`` into this module and its children.

        Args:
            state_dict: values by full name, as :meth:`state_dict` returns them.
            strict: whether missing and unexpected keys are errors.
            assign: make the given tensors the module's own (keeping their dtype and device) rather than copying
                their values; create optimizers afterwards.

        Returns:
            A named tuple ``(missing_keys, unexpected_keys)``.

        Raises:
            RuntimeError: keys don't match (with ``strict``) or shapes differ; it lists every problem.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        loading = _Loading(getattr(state_dict, "_metadata", None), assign)
        loading.visit(self, _copied(state_dict), "")
        problems = loading.problems(strict)
        if problems:
            raise RuntimeError("\n\t".join([f"Error(s) in loading state_dict for {type(self).__name__}:", *problems]))
        return loading.keys


def _loaded_as(tensor: _C.Tensor, loaded: _C.Tensor, assign: bool) -> _C.Tensor:
    """What takes the place of a member: the classes of both tensors decide, by `Tensor.module_load`."""
    new: _C.Tensor = tensor.module_load(loaded, assign=assign)
    if new is tensor or new is loaded:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning one of the inputs in "
            "module_load"
        )
    if isinstance(new, Parameter):
        new.requires_grad_(tensor.requires_grad)
    elif isinstance(tensor, Parameter):
        new = Parameter(new, requires_grad=tensor.requires_grad)
    return new


class _Loading:
    """One call of ``load_state_dict``: the entries of every module, and the problems found so far."""

    def __init__(self, metadata: dict[str, dict[str, Any]] | None, assign: bool) -> None:
        self.metadata = metadata or {}
        self.assign = assign
        self.keys = _IncompatibleKeys([], [])
        self.errors: list[str] = []

    def visit(self, module: StateMixin, entries: dict[str, Any], prefix: str) -> None:
        """Loads a module and its descendants from the entries whose keys begin with ``prefix``."""
        about = self.metadata.get(prefix[:-1], {})
        if self.assign:
            about["assign_to_params_buffers"] = True
        # Strict is always True here: whether the collected problems are errors is decided at the end.
        module._load_from_state_dict(entries, prefix, about, True, *self.keys, self.errors)
        for name, child in module._modules.items():
            if child is not None:
                inner = f"{prefix}{name}."
                self.visit(child, {key: entries[key] for key in entries if key.startswith(inner)}, inner)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, self.keys) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return "
                    "anything: they change the two lists of incompatible_keys in place."
                )

    def problems(self, strict: bool) -> list[str]:
        """A line for each thing that is wrong."""
        found = {"Missing": self.keys.missing_keys, "Unexpected": self.keys.unexpected_keys} if strict else {}
        lines = [f"{kind} key(s) in state_dict: {_quoted(keys)}. " for kind, keys in found.items() if keys]
        return lines + self.errors


def _new_state() -> Any:
    state: Any = OrderedDict()
    state._metadata = OrderedDict()
    return state


def _copied(state_dict: Mapping[str, Any]) -> Any:
    """A copy that pre-hooks may change, including the metadata that some of them read."""
    copy: Any = OrderedDict(state_dict)
    if hasattr(state_dict, "_metadata"):
        copy._metadata = state_dict._metadata  # type: ignore[attr-defined]
    return copy


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


class _LoadPreHook:
    """A load pre-hook and the module to call it with, if any; copied and pickled with that module."""

    def __init__(self, hook: Callable, module: Any) -> None:
        self.hook = hook
        # Weak, as the module has the hook: a cycle would keep its memory until the next collection.
        self._module = None if module is None else weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        return self.hook(*args) if self._module is None else self.hook(self._module(), *args)

    def __getstate__(self) -> tuple[Callable, Any]:
        return self.hook, self._module and self._module()

    def __setstate__(self, state: tuple[Callable, Any]) -> None:
        self.__init__(*state)
