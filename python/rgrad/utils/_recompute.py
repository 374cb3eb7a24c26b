"""Non-reentrant checkpointing: backward recomputes the saved tensors when it needs them.

Note [Placeholders]
While the region runs, every tensor that a node would save is replaced by an empty `Placeholder`, in the order of
saving. When backward asks for the first of them, the region runs again, and the tensors that its operations save then
are assigned to the placeholders in the same order. As soon as the last placeholder has its tensor, the second run
stops (early stop). A placeholder returns its tensor only once, so memory is freed as backward proceeds; another
backward over a retained graph runs the region once more.
"""

from __future__ import annotations

import contextlib
import itertools
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C
from rgrad.autograd.grad_mode import enable_grad
from rgrad.autograd.graph import saved_tensors_hooks
from rgrad.random import fork_rng

Tensor = _C.Tensor

_TIP = (
    "\nTip: `checkpoint(..., debug=True)`, or a block of `set_checkpoint_debug_enabled(True)`, shows where in the "
    "program each run saved its tensors.\n"
)


class CheckpointError(RuntimeError):
    """The second run of a region saved other tensors than the first."""


class _Enough(Exception):
    """Ends the second run when it has saved as many tensors as the first."""


class Surroundings:
    """The state besides its arguments that a region depends on: random generator and autocast. Restored to rerun
    it.
    """

    def __init__(self, preserve_rng_state: bool) -> None:
        self.rng_state = rgrad.get_rng_state() if preserve_rng_state else None
        self.autocast = {kind: _C._get_autocast(kind) for kind in ("cpu", "gpu")}

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls the function in the recorded state; restores the current state afterwards."""
        with fork_rng(enabled=self.rng_state is not None):
            if self.rng_state is not None:
                rgrad.set_rng_state(self.rng_state)
            before = {kind: _C._set_autocast(*self.autocast[kind], kind) for kind in self.autocast}
            try:
                return function(*args, **kwargs)
            finally:
                for kind, state in before.items():
                    _C._set_autocast(*state, kind)


class RegionHooks(saved_tensors_hooks):
    """The hooks of one run of a region.

    Args:
        pack_hook: gets each tensor that is saved.
        unpack_hook: restores it.
        restores_rng: whether the run is one whose random state the region sets, and resets afterwards.
    """

    _of_program = False

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor], restores_rng: bool = False
    ) -> None:
        super().__init__(pack_hook, unpack_hook)
        self.restores_rng = restores_rng


class Placeholder:
    """Replaces a saved tensor; after the second run it holds the tensor, by backward, until backward asks for it."""

    __slots__ = ("__weakref__", "tensors")

    def __init__(self) -> None:
        self.tensors: dict[int, Tensor] = {}


def _shape_dtype_device(x: Tensor) -> dict[str, Any]:
    return {"shape": x.shape, "dtype": x.dtype, "device": x.device}


DETERMINISM_CHECKS: dict[str, Callable[[Tensor], Any]] = {
    "default": _shape_dtype_device,
    "none": lambda x: None,
}

# Numbers used instead of a backward's number when a saved tensor is requested outside of any backward.
_numbers_outside = itertools.count(-2, -1)


class Region:
    """One checkpointed call. See Note [Placeholders]."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        preserve_rng_state: bool,
        context_fn: Callable[[], tuple[Any, Any]],
        describe: Callable[[Tensor], Any],
        early_stop: bool,
        debug: bool,
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.versions = [x._version if isinstance(x, Tensor) else 0 for x in args]
        self.surroundings = Surroundings(preserve_rng_state)
        self.forward_context, self.recompute_context = context_fn()
        self.describe = describe
        self.early_stop = early_stop
        self.placeholders: list[weakref.ref[Placeholder]] = []
        self.descriptions: list[Any] = []
        self.finished = False
        # Which tensors the two runs saved, and where in the program; only with `debug`.
        self.logs: tuple[list[str], list[str]] | None = ([], []) if debug else None
        # The backwards for which the region has been run again.
        self.runs: set[int] = set()

    def forward(self) -> Any:
        """The first run."""
        if not rgrad.is_grad_enabled():
            return self.function(*self.args, **self.kwargs)
        returned = False
        result = None
        with RegionHooks(self._pack, self._unpack), self.forward_context:
            result = self.function(*self.args, **self.kwargs)
            returned = True
        if not returned:
            raise RuntimeError(
                "torch.utils.checkpoint: the forward context provided by context_fn suppressed an exception, and left "
                "nothing that could be returned."
            )
        self.finished = True
        return result

    def _pack(self, x: Tensor) -> Placeholder:
        placeholder = Placeholder()
        self.placeholders.append(weakref.ref(placeholder))
        with rgrad.no_grad():
            self.descriptions.append(self.describe(x))
        self._log(0, x)
        return placeholder

    def _log(self, run: int, x: Tensor) -> None:
        if self.logs is not None:
            stack = "".join(traceback.format_stack()[:-2])
            self.logs[run].append(f"{len(self.logs[run])}: {x.dtype} {list(x.shape)}, saved at\n{stack}")

    def _unpack(self, placeholder: Placeholder) -> Tensor:
        run = _C._current_graph_task_id()
        if run == -1:
            run = next(_numbers_outside)
        if run not in self.runs:
            try:
                self._run_again(run)
            except CheckpointError as e:
                if self.logs is None:
                    raise
                raise CheckpointError(self._report()) from e
        if run not in placeholder.tensors:
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. A "
                "backward may ask for ctx.saved_tensors one time."
            )
        return placeholder.tensors.pop(run)

    def _report(self) -> str:
        before, again = ("\n".join(log) for log in self.logs or ([], []))
        return (
            " An error happened while unpacking tensors; dumping logs of latest computation.\n"
            "You are seeing this error because you passed `debug=True` to checkpoint.\n"
            f"\nTensors saved in the original forward:\n\n{before}\n"
            f"\nTensors saved during recomputation:\n\n{again}\n"
        )

    def _check_inputs(self) -> None:
        for x, version in zip(self.args, self.versions, strict=True):
            if isinstance(x, Tensor) and x._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"[{x.type()} {list(x.shape)}] is at version {x._version}; expected version {version} instead. "
                    "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
                    "torch.autograd.set_detect_anomaly(True)."
                )

    def _run_again(self, run: int) -> None:
        self._check_inputs()
        saved = 0
        lenient = False
        if self.logs is not None:
            self.logs[1].clear()
        here: dict[int, Any] = {}

        def pack(x: Tensor) -> Tensor:
            nonlocal saved, lenient
            x = x.detach() if x.requires_grad else x
            place, saved = saved, saved + 1
            self._log(1, x)
            if place >= len(self.placeholders):
                # A backward inside the region itself reruns it before the first run has saved all its tensors.
                lenient = not self.finished
                if lenient:
                    return x
                raise CheckpointError(
                    "torch.utils.checkpoint: trying to save more tensors during recomputation than during the "
                    "original forward pass.\n"
                )
            here[place] = self.describe(x)
            placeholder = self.placeholders[place]()
            if placeholder is not None:
                placeholder.tensors[run] = x
            if self.early_stop and saved == len(self.placeholders):
                raise _Enough
            return x

        hooks = RegionHooks(pack, lambda x: x, restores_rng=self.surroundings.rng_state is not None)
        with contextlib.suppress(_Enough), hooks, enable_grad():
            self.surroundings.run(self._call_again)
        self.runs.add(run)
        if not lenient:
            self._compare(saved, here)

    def _call_again(self) -> None:
        with self.recompute_context:
            self.function(*self.args, **self.kwargs)

    def _compare(self, saved: int, here: dict[int, Any]) -> None:
        if saved != len(self.placeholders):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.placeholders)}\n"
                f"Number of tensors saved during recomputation: {saved}.\n{_TIP}"
            )
        different = [
            f"tensor at position {i}:\nsaved metadata: {before}\nrecomputed metadata: {here[i]}\n"
            for i, (before, placeholder) in enumerate(zip(self.descriptions, self.placeholders, strict=True))
            if placeholder() is not None and before != here[i]
        ]
        if different:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                f"during the forward pass.\n{''.join(different)}.\n{_TIP}"
            )
