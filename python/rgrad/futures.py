"""Results that are not there yet."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A value that somebody will set.

    Args:
        devices: accepted, without effect.
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._inner: Any = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether it has its value, or its error."""
        return self._inner.done()

    def wait(self) -> Any:
        """The value, for which it waits; raises the error if that was set."""
        return self._inner.result()

    def value(self) -> Any:
        """The value; an error where there is none yet."""
        if not self._inner.done():
            raise RuntimeError("the value was not set yet")
        return self._inner.result()

    def set_result(self, result: Any) -> None:
        """Sets the value, once."""
        self._expect_pending()
        self._inner.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Sets an error, which `wait` raises."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._expect_pending()
        self._inner.set_exception(result)

    def _expect_pending(self) -> None:
        if self._inner.done():
            raise RuntimeError("the value is set already: a Future can only be marked completed once")

    def __reduce__(self) -> Any:
        raise RuntimeError("Can not pickle torch.futures.Future: it ends with its process")

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Has a function called with this future when it has its value."""
        self._inner.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future of what a function makes of this one when it has its value.

        An error of the function is the cause of the RuntimeError that the new future raises.
        """
        made = Future()

        def finish(_: Any) -> None:
            try:
                result = callback(self)
            except Exception as error:
                failure = RuntimeError(
                    f"Got the following error when running the callback: {type(error).__name__}: {error}"
                )
                failure.__cause__ = error
                made.set_exception(failure)
            else:
                made.set_result(result)

        self._inner.add_done_callback(finish)
        return made


def _expect_futures(futures: Iterable[Any]) -> None:
    for future in futures:
        if future is None:
            raise RuntimeError("Future can't be None")
        if not isinstance(future, Future):
            raise TypeError(f"expected Futures, but got {type(future).__name__}")


def collect_all(futures: list[Future]) -> Future:
    """A future of the futures, which is done when all of them are."""
    import threading

    _expect_futures(futures)
    made = Future()
    left = [len(futures)]
    lock = threading.Lock()

    def one_less(_: Any) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            made.set_result(futures)

    for future in futures:
        future.add_done_callback(one_less)
    if not futures:
        made.set_result(futures)
    return made


def wait_all(futures: list[Future]) -> list[Any]:
    """The values of all, for which it waits; raises the first error."""
    _expect_futures(futures)
    return [future.wait() for future in futures]
