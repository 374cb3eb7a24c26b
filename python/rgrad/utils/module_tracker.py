"""Which modules a program is in, in the forward pass and in the backward pass."""

from __future__ import annotations

import weakref
from typing import Any

import rgrad
from rgrad import _C
from rgrad.autograd.graph import register_multi_grad_hook
from rgrad.nn.modules import module as _module
from rgrad.utils._pytree import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """A block in which `parents` holds the names of the modules that are computing, the outermost being "Global".

    Names of a model's modules are those of `named_modules`, below the name of the model's class.

    Example:
        >>> import rgrad as torch
        >>> class Shows(torch.nn.Module):
        ...     def forward(self, x):
        ...         print(sorted(tracker.parents))
        ...         return x
        >>> with torch.utils.module_tracker.ModuleTracker() as tracker:
        ...     y = torch.nn.Sequential(Shows())(torch.ones(1))
        ['Global', 'Sequential', 'Sequential.0']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._known: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._hooks: list[Any] = []
        self._in_backward = False

    def _name_of(self, module: Any) -> str:
        if module not in self._known:
            root = type(module).__name__
            for path, inner in module.named_modules():
                self._known[inner] = f"{root}.{path}" if path else root
        return self._known[module]

    def _enter(self, name: str, backward: bool) -> None:
        if backward and not self._in_backward:
            self._in_backward = True
            rgrad.autograd.Variable._execution_engine.queue_callback(self._end_backward)
        self.parents.add(name)

    def _leave(self, name: str) -> None:
        self.parents.discard(name)

    def _end_backward(self) -> None:
        self._in_backward = False
        self.parents = {"Global"}

    def _before(self, module: Any, inputs: Any) -> None:
        name = self._name_of(module)
        self._enter(name, backward=False)
        recorded = [t for t in tree_leaves(inputs) if isinstance(t, rgrad.Tensor) and t.requires_grad]
        if recorded:
            # The backward pass has left the module once the gradients of its inputs are there.
            self._hooks.append(register_multi_grad_hook(recorded, lambda grads: self._leave(name)))

    def _after(self, module: Any, inputs: Any, outputs: Any) -> None:
        name = self._name_of(module)
        self._leave(name)
        recorded = [t for t in tree_leaves(outputs) if isinstance(t, rgrad.Tensor) and t.requires_grad]
        if recorded:
            enter = register_multi_grad_hook(recorded, lambda grad: self._enter(name, backward=True), mode="any")
            self._hooks.append(enter)

    def __enter__(self) -> ModuleTracker:
        self._global = (
            _module.register_module_forward_pre_hook(self._before),
            _module.register_module_forward_hook(self._after, always_call=True),
        )
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in (*self._global, *self._hooks):
            handle.remove()
        self._hooks.clear()

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass runs."""
        return _C._current_graph_task_id() != -1
