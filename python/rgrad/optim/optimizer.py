"""The base class of the optimizers: parameter groups, state, state dictionaries and hooks.

Note [State is the source of truth]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
`param_groups` and `state` are plain lists and dictionaries that users may change between two steps, so a step keeps
no copy of them: it reads them in a few C-level passes (`map` over the group's parameters), then makes one call into
the core for the whole group. For 60 parameters these passes take about ten microseconds.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from operator import itemgetter
from typing import Any

import rgrad
from rgrad import Tensor
from rgrad._utils import is_wrapper
from rgrad.optim._recorded import Formula, record_step
from rgrad.utils._foreach_utils import _get_fused_kernels_supported_devices
from rgrad.utils.hooks import RemovableHandle


class _Required:
    """The type of `required`, the default of a setting that every parameter group must specify."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()

# Settings that optimizers got after their first release, which states saved before lack, and what those states mean.
_LATER = {
    "amsgrad": False,
    "capturable": False,
    "decoupled_weight_decay": False,
    "differentiable": False,
    "foreach": None,
    "fused": None,
    "maximize": False,
    "nesterov": False,
}

# Entries of the state that are tensors of one element; states saved by early releases have numbers.
_COUNTERS = ("step", "eta", "mu", "mu_product")

_UNORDERED = (
    "optimizer parameters need to be organized in ordered collections: a saved state names parameters by their "
    "position, and a set has another order in every run. Pass a list."
)


def _add_hook(hooks: OrderedDict[int, Callable[..., Any]], hook: Callable[..., Any], prepend: bool = False) -> Any:
    """Adds a hook after or before the others, and returns the handle that removes it."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def number(value: float | Tensor) -> float:
    """A setting as a Python number, because kernels do not accept tensors for settings such as `lr`."""
    return value.item() if isinstance(value, rgrad.Tensor) else value


def check_settings(**settings: Any) -> None:
    """Raises PyTorch's errors for invalid settings.

    Args:
        **settings: any of `lr`, `eps`, `weight_decay`, `betas`, `momentum`, ... as passed to the constructor.
    """
    names = {"lr": "learning rate", "eps": "epsilon value"}
    for key, value in settings.items():
        if key == "lr" and isinstance(value, rgrad.Tensor) and value.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if key == "betas":
            for index in (0, 1):
                if not 0.0 <= value[index] < 1.0:
                    raise ValueError(f"Invalid beta parameter at index {index}: {value[index]}")
        elif key == "differentiable":
            continue
        elif not value >= 0.0:
            raise ValueError(f"Invalid {names.get(key, f'{key} value')}: {value}")


def arguments(local: dict[str, Any]) -> dict[str, Any]:
    """The settings passed to an optimizer's constructor: all its arguments except the parameters.

    Args:
        local: the constructor's `locals()`, before other variables are assigned.
    """
    return {name: value for name, value in local.items() if name not in ("self", "params", "__class__")}


def check_fused(fused: bool | None, foreach: bool | None) -> None:
    """Raises if both implementations are requested, although rgrad has only one."""
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


_global_optimizer_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Registers `hook(optimizer, args, kwargs)`, called before each step of every optimizer."""
    return _add_hook(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Registers `hook(optimizer, args, kwargs)`, called after each step of every optimizer."""
    return _add_hook(_global_optimizer_post_hooks, hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `step` of an optimizer class so that it runs the hooks and records that it ran, for schedulers."""

    @functools.wraps(step)
    def wrapper(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        # A class around another optimizer that does not call `Optimizer.__init__` has no hooks of its own until one
        # is registered.
        own = self.__dict__
        before = own.get("_optimizer_step_pre_hooks")
        if before or _global_optimizer_pre_hooks:
            for hook in (*_global_optimizer_pre_hooks.values(), *(before or {}).values()):
                result = hook(self, args, kwargs)
                if result is None:
                    continue
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise RuntimeError(
                        f"{step} must return None or a tuple of (new_args, new_kwargs), but got {result}."
                    )
                args, kwargs = result
        out = step(self, *args, **kwargs)
        self._opt_called = True
        after = own.get("_optimizer_step_post_hooks")
        if after or _global_optimizer_post_hooks:
            for hook in (*(after or {}).values(), *_global_optimizer_post_hooks.values()):
                hook(self, args, kwargs)
        return out

    wrapper.hooked = True  # type: ignore[attr-defined]
    return wrapper


class Optimizer:
    """Base class of all optimizers.

    Args:
        params: an iterable of tensors, of `(name, tensor)` pairs, or of dicts that each describe a parameter group.
        defaults: default settings of the parameter groups.
    """

    _opt_called = _followed = False
    # Whether a parameter is of a class that keeps its numbers elsewhere.
    _has_wrappers = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not getattr(step, "hooked", False):
            cls.step = _with_hooks(step)

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hooks()
        if isinstance(params, rgrad.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + _typename(params)
            )
        if isinstance(params, set):
            warnings.warn(_UNORDERED, FutureWarning, stacklevel=3)
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a `step` so that it runs the hooks, and records that it ran."""
        return func if getattr(func, "hooked", False) else _with_hooks(func)

    def _patch_step_function(self) -> None:
        """Wraps the class's `step`, if that was assigned after the class was made."""
        type(self).step = self.profile_hook_step(type(self).step)

    def _hooks(self, name: str) -> OrderedDict[int, Callable[..., Any]]:
        """The optimizer's hooks of a kind; also of a subclass that does not call the constructor."""
        return self.__dict__.setdefault(name, OrderedDict())

    def _make_hooks(self) -> None:
        self._opt_called = self._followed = False
        self._optimizer_step_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._optimizer_step_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._optimizer_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._optimizer_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._make_hooks()
        for name in _LATER.keys() & self.defaults.keys():
            for group in self.param_groups:
                group.setdefault(name, _LATER[name])
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [f"{self.__class__.__name__} ("]
        for index, group in enumerate(self.param_groups):
            lines.append(f"{chr(10) if index else ''}Parameter Group {index}")
            lines.extend(f"    {key}: {group[key]}" for key in sorted(group) if key != "params")
        lines.append(")")
        return "\n".join(lines)

    def _follow(self) -> None:
        """Called by schedulers, which warn if no step was made since the first scheduler was attached."""
        if not self._followed:
            self._followed, self._opt_called = True, False

    # Parameter groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters with its own settings, for example for layers unfrozen during fine-tuning.

        Args:
            param_group: a dict with `params`, a tensor or an iterable of tensors or of `(name, tensor)` pairs, and any
                    of the optimizer's settings. The dict becomes the group: missing settings are added to it.

        Raises:
            TypeError: the group is not a dict, or its parameters are not tensors or are not ordered.
            ValueError: a parameter is the result of an operation, or in another group; only some of the parameters have
                names; a setting without a default is missing.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        named = param_group | _split_names(param_group["params"])
        _check_trainable(named["params"], self.defaults.get("differentiable", False))
        param_group.update(self._with_defaults(named))
        if len(set(map(id, param_group["params"]))) != len(param_group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters: a step updates a parameter as often "
                "as it is listed.",
                stacklevel=3,
            )
        self._check_beside_others(param_group)
        self._has_wrappers = self._has_wrappers or any(map(is_wrapper, param_group["params"]))
        self.param_groups.append(param_group)

    def _with_defaults(self, group: dict[str, Any]) -> dict[str, Any]:
        missing = {name: default for name, default in self.defaults.items() if name not in group}
        for name, default in missing.items():
            if default is required:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
        return group | missing

    def _check_beside_others(self, group: dict[str, Any]) -> None:
        """Raises if the group shares parameters with another one, or if only some of the groups have names."""
        named = "param_names" in group
        mine = set(map(id, group["params"]))
        for other in self.param_groups:
            if ("param_names" in other) is not named:
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {'with' if named else 'without'} names to the optimizer"
                )
            if not mine.isdisjoint(map(id, other["params"])):
                raise ValueError("some parameters appear in more than one parameter group")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients of all parameters, or fills them with zeros.

        Args:
            set_to_none: drop the gradients, which also frees their memory, instead of filling them with zeros.
        """
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    # With create_graph the gradient has a history, which would keep the last graph alive. A view
                    # without one, which a package may have set, can't be detached in place.
                    if param.grad.grad_fn is not None:
                        param.grad.detach_()
                    else:
                        param.grad.requires_grad_(False)
                    param.grad.zero_()

    # Steps

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters once from their gradients.

        Args:
            closure: evaluates the model again, calls `backward` and returns the loss.

        Returns:
            The closure's result, or None without a closure.
        """
        raise NotImplementedError

    def _evaluate(self, closure: Callable[[], Any] | None) -> Any:
        if closure is None:
            return None
        with rgrad.enable_grad():
            return closure()

    @staticmethod
    def _with_grad(group: dict[str, Any]) -> tuple[list[Tensor], list[Tensor]]:
        """The group's parameters that have a gradient, and these gradients."""
        params = group["params"]
        grads = [grad for param in params if (grad := param.grad) is not None]
        if len(grads) != len(params):
            params = [param for param in params if param.grad is not None]
        return params, grads

    # State dictionaries

    def state_dict(self) -> dict[str, Any]:
        """Returns the optimizer's state as plain data.

        Returns:
            A dict of `state` (per parameter, under the parameter's number) and `param_groups` (settings, with
            numbers in place of parameters). Tensors are not copied.
        """
        for pre_hook in list(self._hooks("_optimizer_state_dict_pre_hooks").values()):
            pre_hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for param in group["params"]:
                numbers.setdefault(id(param), len(numbers))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {
            (numbers[id(key)] if isinstance(key, rgrad.Tensor) else key): value for key, value in self.state.items()
        }
        state_dict = {"state": state, "param_groups": groups}
        for post_hook in list(self._hooks("_optimizer_state_dict_post_hooks").values()):
            result = post_hook(self, state_dict)
            if result is not None:
                state_dict = result
        return state_dict

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a state that `state_dict` returned.

        Args:
            state_dict: as `state_dict` returns it. Its tensors are converted to the dtype and device of their
                parameter.
        """
        state_dict = state_dict.copy()
        for pre_hook in list(self._hooks("_optimizer_load_state_dict_pre_hooks").values()):
            result = pre_hook(self, state_dict)
            if result is not None:
                state_dict = result
        groups, saved_groups = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        pairs = list(zip(groups, saved_groups, strict=True))
        if any(len(group["params"]) != len(saved["params"]) for group, saved in pairs):
            sizes = [[len(group["params"]) for group in part] for part in (saved_groups, groups)]
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                f"the groups have {sizes[0]} parameters, the optimizer's {sizes[1]}"
            )
        params = {
            number: param
            for group, saved in pairs
            for number, param in zip(saved["params"], group["params"], strict=True)
        }
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = _like_param(params[key], value)
            else:
                state[key] = value
        for group, saved in pairs:
            saved["params"] = group["params"]
            if "param_names" in group:
                saved.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for post_hook in list(self._hooks("_optimizer_load_state_dict_post_hooks").values()):
            post_hook(self)

    # Hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Registers `hook(optimizer, args, kwargs)`, called before each step; it may return new `(args, kwargs)`."""
        return _add_hook(self._hooks("_optimizer_step_pre_hooks"), hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Registers `hook(optimizer, args, kwargs)`, called after each step."""
        return _add_hook(self._hooks("_optimizer_step_post_hooks"), hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Registers `hook(optimizer)`, called before `state_dict`."""
        return _add_hook(self._hooks("_optimizer_state_dict_pre_hooks"), hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Registers `hook(optimizer, state_dict)`, called after `state_dict`; it may return another dict."""
        return _add_hook(self._hooks("_optimizer_state_dict_post_hooks"), hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Registers `hook(optimizer, state_dict)`, called before a state is loaded; it may return another dict."""
        return _add_hook(self._hooks("_optimizer_load_state_dict_pre_hooks"), hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Registers `hook(optimizer)`, called after a state is loaded."""
        return _add_hook(self._hooks("_optimizer_load_state_dict_post_hooks"), hook, prepend)


class GroupOptimizer(Optimizer):
    """Base of the optimizers that update every parameter group separately, in one call of a kernel.

    A subclass implements `_update` and lists its zero-initialized state in `_zeros`, or overrides `_new_state`.
    """

    # Names of the state tensors that have the parameter's shape and start at zero.
    _zeros: tuple[str, ...] = ()
    # See Note [Differentiable steps].
    _formula: Formula | None = None

    def _update_wrappers(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """As `_update`, by a formula for parameters whose class keeps the numbers elsewhere and computes with them."""
        formula = self._formula
        if formula is None:
            self._update(group, params, grads)
            return
        of_class: tuple[list[Tensor], list[Tensor]] = [], []
        of_core: tuple[list[Tensor], list[Tensor]] = [], []
        for param, grad in zip(params, grads, strict=True):
            of = of_class if is_wrapper(param) else of_core
            of[0].append(param)
            of[1].append(grad)
        record_step(formula, group, *of_class, self._states(group, of_class[0]), recorded=False)
        if of_core[0]:
            self._update(group, *of_core)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for entries in self.state.values():
            for name in _COUNTERS:
                if isinstance(entries, dict) and isinstance(entries.get(name), (int, float)):
                    entries[name] = rgrad.tensor(float(entries[name]), dtype=rgrad.float32)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters once; see `Optimizer.step`."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads = self._with_grad(group)
            if group.get("fused"):
                check_fusible(params)
            elif group.get("capturable"):
                check_capturable(params)
            if self._formula is not None and group.get("differentiable"):
                record_step(self._formula, group, params, grads, self._states(group, params))
            elif self._has_wrappers:
                self._update_wrappers(group, params, grads)
            else:
                self._update(group, params, grads)
        return loss

    def _update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """Updates those of a group's parameters that have a gradient."""
        raise NotImplementedError

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
        """The state of a parameter before its first step."""
        state = {"step": rgrad.tensor(0.0, dtype=rgrad.float32)}
        state.update((name, rgrad.zeros_like(param)) for name in self._zeros)
        return state

    def _states(self, group: dict[str, Any], params: list[Tensor]) -> list[dict[str, Any]]:
        """The states of some of a group's parameters; missing ones are created."""
        states = list(map(self.state.__getitem__, params))
        if not all(states):
            for param, state in zip(params, states, strict=True):
                if not state:
                    state.update(self._new_state(param, group))
        return states

    def _columns(self, group: dict[str, Any], params: list[Tensor]) -> Callable[[str], list[Any]]:
        """Returns a function that returns the named entry of the state for all parameters, as a list."""
        states = self._states(group, params)
        return lambda key: list(map(itemgetter(key), states))


def check_fusible(params: list[Tensor]) -> None:
    """Refuses `fused=True` for parameters that have no memory, or no floating-point numbers in it."""
    for param in params:
        if param.is_meta or not param.is_floating_point():
            raise RuntimeError(
                "`fused=True` requires all the params to be floating point Tensors of supported devices: "
                f"{_get_fused_kernels_supported_devices()} but {param.dtype} and {param.device.type}"
            )


def check_capturable(params: list[Tensor]) -> None:
    """Refuses `capturable=True` for parameters on the CPU: only the work of a GPU can be captured."""
    if any(param.is_cpu for param in params):
        raise AssertionError(
            "If capturable=True, params and state_steps must be on supported devices: a GPU, but one of them is on "
            "the CPU. Without capturable, steps are the same."
        )


def _split_names(params: Any) -> dict[str, list[Any]]:
    """The entries `params` and, if they are given as pairs with names, `param_names` of a group."""
    if isinstance(params, set):
        raise TypeError(_UNORDERED)
    given = [params] if isinstance(params, rgrad.Tensor) else list(params)
    pairs = [entry for entry in given if isinstance(entry, tuple)]
    if not pairs:
        return {"params": given}
    if len(pairs) != len(given):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return {"params": [pair[1] for pair in pairs], "param_names": [pair[0] for pair in pairs]}


def _check_trainable(params: list[Any], recorded: bool) -> None:
    for param in params:
        if not isinstance(param, rgrad.Tensor):
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {_typename(param)}")
        if not (recorded or param.is_leaf or param.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")


def _like_param(param: Tensor, value: Any, key: Any = None) -> Any:
    """A saved state for `param`: tensors in the parameter's dtype on its device; `step` stays on the CPU."""
    if isinstance(value, rgrad.Tensor):
        if key == "step":
            return value.cpu()
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, dict):
        return {name: _like_param(param, item, name) for name, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return type(value)(_like_param(param, item) for item in value)
    return value


def _typename(obj: object) -> str:
    """The type's full name, as in PyTorch's messages."""
    if isinstance(obj, rgrad.Tensor):
        return obj.type()
    module = type(obj).__module__
    name = type(obj).__qualname__
    return name if module in ("builtins", "__main__") else f"{module}.{name}"
