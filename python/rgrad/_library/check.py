"""`opcheck`: tests whether the registrations of an operation agree with its behavior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rgrad import _C
from rgrad._C import Tensor
from rgrad._library import operation as _operation
from rgrad._library.operation import Operation
from rgrad.utils._pytree import tree_leaves, tree_map

ALL_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """A registration of an operation is wrong."""


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _copied(values: Any) -> Any:
    """The same structure with copies of the tensors, which are leaves of the graph."""

    def copy(leaf: Any) -> Any:
        return leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, Tensor) else leaf

    return tree_map(copy, values)


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(_C.eq(a, b).logical_or((a != a) & (b != b)).all())


def _test_schema(operation: Operation, args: Any, kwargs: Any, close: Any) -> None:
    from rgrad.autograd.grad_mode import no_grad

    args, kwargs = tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, _copied((args, kwargs)))
    before = tree_map(lambda x: x.clone() if isinstance(x, Tensor) else x, (args, kwargs))
    with no_grad():
        result = operation(*args, **kwargs)
    parameters = operation.schema.arguments
    by_position = [a for a in parameters if not a.keyword_only]
    given = [(a, args[i], before[0][i]) for i, a in enumerate(by_position[: len(args)])]
    given += [(a, kwargs[a.name], before[1][a.name]) for a in parameters if a.name in kwargs]
    for argument, after, old in given:
        changed = any(not _same(x, y) for x, y in zip(_tensors(after), _tensors(old), strict=True))
        if changed and not argument.mutated:
            raise OpCheckError(
                f"{operation.dotted} wrote to argument {argument.name}, which its schema does not say: "
                f"{operation.schema}"
            )
    storages = {t.untyped_storage().data_ptr() for t in _tensors((args, kwargs)) if t.numel()}
    results = _tensors(result)
    if any(t.numel() and t.untyped_storage().data_ptr() in storages for t in results):
        raise OpCheckError(f"a result of {operation.dotted} shares memory with an argument; return a clone")
    if len(results) != len(operation.schema.returns) and not any("[" in kind for kind in operation.schema.returns):
        count = len(tree_leaves(result)) if result is not None else 0
        if count != len(operation.schema.returns):
            raise OpCheckError(f"{operation.dotted} returned {count} values for {operation.schema}")


def _test_autograd(operation: Operation, args: Any, kwargs: Any, close: Any) -> None:
    if not any(t.requires_grad for t in _tensors((args, kwargs))):
        return
    if operation.backward is None and operation.autograd is None and operation.composite is None:
        raise OpCheckError(
            f"{operation.dotted} has no formula for gradients: register one by torch.library.register_autograd"
        )
    args, kwargs = _copied((args, kwargs))
    results = [t for t in _tensors(operation(*args, **kwargs)) if t.is_floating_point()]
    if not any(t.requires_grad for t in results):
        raise OpCheckError(f"no result of {operation.dotted} has a history")


def _test_fake(operation: Operation, args: Any, kwargs: Any, close: Any) -> None:
    from rgrad.autograd.grad_mode import no_grad

    if operation.fake is None:
        if operation.composite is None:
            raise OpCheckError(
                f"{operation.dotted} has nothing that makes results without values: torch.library.register_fake"
            )
        return
    with no_grad():
        real = _tensors(operation(*_copied(args), **_copied(kwargs)))
        fake = _tensors(operation.fake(*_copied(args), **_copied(kwargs)))
    told = [(t.shape, t.dtype, str(t.device)) for t in fake]
    seen = [(t.shape, t.dtype, str(t.device)) for t in real]
    if told != seen:
        raise OpCheckError(f"{operation.dotted} makes {seen}, but what was registered as fake makes {told}")


def _test_again(operation: Operation, args: Any, kwargs: Any, close: Callable[[Tensor, Tensor], None]) -> None:
    """Checks that two runs, each with its backward, give the same results."""
    runs = []
    for _ in range(2):
        own_args, own_kwargs = _copied((args, kwargs))
        results = _tensors(operation(*own_args, **own_kwargs))
        inputs = [t for t in _tensors((own_args, own_kwargs)) if t.requires_grad]
        outputs = [t for t in results if t.requires_grad]
        grads: Sequence[Any] = ()
        if inputs and outputs:
            from rgrad.autograd import grad

            grads = grad([t.sum() for t in outputs], inputs, allow_unused=True)
        runs.append([*results, *(g for g in grads if g is not None)])
    for first, second in zip(*runs, strict=True):
        close(first, second)


_CHECKS = (_test_schema, _test_autograd, _test_fake, _test_again)
_TESTS: dict[str, Callable[..., None]] = dict(zip(ALL_TESTS, _CHECKS, strict=True))


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = ALL_TESTS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Checks the registrations of an operation on one call.

    Args:
        op: the operation, its name, or its definition.
        args: arguments of the call; they are copied.
        kwargs: arguments by name.
        test_utils: the checks to run: "test_schema" (it writes only to arguments that its schema marks, and its results
            are new memory), "test_autograd_registration" (there is a formula if gradients are required),
            "test_faketensor" (fake results have the shapes and dtypes of the real ones),
            "test_aot_dispatch_dynamic" (two runs and their gradients agree).
        raise_exception: whether to raise the first failure; otherwise failures are returned.
        atol: absolute tolerance between two runs.
        rtol: relative tolerance between two runs.

    Returns:
        For each check, "SUCCESS" or its error.
    """
    from rgrad.testing import assert_close

    operation = _operation.find(op)
    names = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    unknown = [name for name in names if name not in _TESTS]
    if unknown:
        raise ValueError(f"opcheck: unknown checks {unknown}; there are {list(ALL_TESTS)}")

    def close(a: Tensor, b: Tensor) -> None:
        assert_close(a, b, atol=atol, rtol=rtol, equal_nan=True)

    found: dict[str, Any] = {}
    for name in names:
        try:
            _TESTS[name](operation, args, kwargs or {}, close)
            found[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            found[name] = error
    return found
