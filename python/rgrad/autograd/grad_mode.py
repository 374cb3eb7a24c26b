"""Switching the recording of operations on and off, for a block, a function or a generator."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable

from rgrad import _C

from . import _dual

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any, Self, TypeVar, overload

    F = TypeVar("F", bound=Callable[..., Any])


class _Switch:
    """A context manager that is also a decorator; entered anew for each call and each step of a generator."""

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError

    def clone(self) -> _Switch:
        """A fresh one with the same arguments, so that nested calls do not share state."""
        return type(self)()

    def __call__(self, f: F) -> F:
        wrapped: Any = self._wrap(f)
        return wrapped

    def _wrap(self, f: Callable) -> Callable:
        import inspect  # which takes as long to load as all of this package

        if inspect.isclass(f):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. Of a class only the making "
                "of objects is decorated: decorate its `__init__`, or the methods that are meant.",
                FutureWarning,
                stacklevel=2,
            )
            made = f
            # Nothing of the class is its name.
            f = lambda *args, **kwargs: made(*args, **kwargs)  # noqa: E731
        if inspect.isgeneratorfunction(f):
            return self._wrap_generator(f)
        if inspect.iscoroutinefunction(f):

            @functools.wraps(f)
            async def awaited(*args, **kwargs):
                with self.clone():
                    return await f(*args, **kwargs)

            return awaited

        @functools.wraps(f)
        def called(*args, **kwargs):
            with self.clone():
                return f(*args, **kwargs)

        return called

    def _wrap_generator(self, f: Callable) -> Callable:
        @functools.wraps(f)
        def generator(*args, **kwargs):
            gen = f(*args, **kwargs)
            try:
                with self.clone():
                    response = gen.send(None)
                while True:
                    try:
                        request = yield response
                    except GeneratorExit:
                        with self.clone():
                            gen.close()
                        raise
                    except BaseException as e:
                        with self.clone():
                            response = gen.throw(e)
                    else:
                        with self.clone():
                            response = gen.send(request)
            except StopIteration as e:
                return e.value

        return generator


class _ModeSwitch(_Switch):
    """A switch that is made with what it switches to."""

    mode: bool

    def clone(self) -> _Switch:
        clone: Any = type(self)
        return clone(self.mode)


# What follows is entered once for every few operations: `__enter__` and `__exit__` call the core without a detour.


class _Recording(_Switch):
    """A switch of grad mode; `_before` is the mode to restore."""

    _before: bool

    def __exit__(self, *exc: object) -> None:
        _dual.set_grad_enabled(self._before)


class _Fixed(_Recording):
    """Grad mode on or off, depending on the class; also usable as a decorator."""

    if TYPE_CHECKING:

        @overload
        def __new__(cls) -> Self: ...

        @overload
        def __new__(cls, orig_func: F) -> F: ...

    def __new__(cls, orig_func: Callable | None = None) -> Any:
        return object.__new__(cls) if orig_func is None else cls()(orig_func)


class no_grad(_Fixed):
    """Operations in the block are not recorded.

    >>> import rgrad
    >>> x = rgrad.ones(2, requires_grad=True)
    >>> with rgrad.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __enter__(self) -> None:
        self._before = _dual.set_grad_enabled(False)


class enable_grad(_Fixed):
    """Operations in the block are recorded, even within a `no_grad` block."""

    def __enter__(self) -> None:
        self._before = _dual.set_grad_enabled(True)


class set_grad_enabled(_Recording, _ModeSwitch):
    """Sets grad mode immediately; as a context manager, until the block ends."""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self.mode = mode
        self._before = _dual.set_grad_enabled(mode)

    def __call__(self, f: F) -> F:
        _dual.set_grad_enabled(self._before)
        return super().__call__(f)

    def __enter__(self) -> None:
        _dual.set_grad_enabled(self.mode)

    def __repr__(self) -> str:
        return f"{__name__}.set_grad_enabled(mode={self.mode})"


class inference_mode(_ModeSwitch):
    """As `no_grad`, for code whose results are never used with autograd."""

    if TYPE_CHECKING:

        @overload
        def __new__(cls, mode: bool = True) -> Self: ...
        @overload
        def __new__(cls, mode: F) -> F: ...

    def __new__(cls, mode: bool | Callable = True) -> Any:
        return cls()(mode) if callable(mode) else object.__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self._before = _C._set_inference_mode(self.mode), _dual.set_grad_enabled(not self.mode)

    def __exit__(self, *exc: object) -> None:
        inference, grad = self._before
        _C._set_inference_mode(inference)
        _dual.set_grad_enabled(grad)


class _unsafe_preserve_version_counter:
    """Writes in the block do not increment version counters: a backward that needs the old values reads the new
    ones.
    """

    def __init__(self, tensors: _C.Tensor | tuple[_C.Tensor, ...]) -> None:
        self.tensors = (tensors,) if isinstance(tensors, _C.Tensor) else tensors
        if not isinstance(self.tensors, tuple):
            raise AssertionError("Expected tensors to be a tuple")
        self._before = [t._version for t in self.tensors]
        _C._leave_writes_uncounted(list(self.tensors))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _C._unsafe_set_version_counter(list(self.tensors), self._before)


class set_detect_anomaly:
    """Sets anomaly mode immediately; as a context manager, until the block ends.

    Args:
        mode: whether nodes record the Python code that made them, to be shown when their backward fails.
        check_nan: whether a backward that produces NaN fails.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_anomaly_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self._before = _C._set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _C._set_anomaly_enabled(*self._before)


class detect_anomaly(set_detect_anomaly):
    """Anomaly mode for a block.

    If a backward in the block fails or produces NaN, the Python code that made the failed node is shown. Both forward
    and backward must run in the block.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check = check_nan
        self._before = _C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled()
        warnings.warn(
            "Anomaly Detection has been enabled. Every operation now notes where it was called, which takes time: "
            "switch it off when the error is found.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        _C._set_anomaly_enabled(True, self._check)


_multithreading = threading.local()


def is_multithreading_enabled() -> bool:
    """The last argument of `set_multithreading_enabled` in this thread; True by default."""
    return getattr(_multithreading, "enabled", True)


class set_multithreading_enabled(_ModeSwitch):
    """For compatibility; a backward always runs on the calling thread."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self._before = is_multithreading_enabled()
        _multithreading.enabled = mode

    def __enter__(self) -> None:
        _multithreading.enabled = self.mode

    def __exit__(self, *exc: object) -> None:
        _multithreading.enabled = self._before
