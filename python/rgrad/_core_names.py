"""Functions that programs look up in `torch._C`, and that need nothing of the core."""

from __future__ import annotations

from rgrad import _C

from ._size import Size


def _get_tracing_state() -> None:
    """The trace that records what runs; always None, as `jit.trace` records nothing."""
    return None


def _infer_size(a: Size, b: Size) -> Size:
    """The shape to which two shapes broadcast."""
    for place, shape in enumerate((a, b), 1):
        if not isinstance(shape, Size):
            raise RuntimeError(f"expected a torch.Size as argument {place}")
    rank = max(len(a), len(b))
    sizes: list[int] = []
    padded = ([1] * (rank - len(shape)) + [*shape] for shape in (a, b))
    for dim, (left, right) in enumerate(zip(*padded, strict=True)):
        if left != right and 1 not in (left, right):
            raise RuntimeError(
                f"The size of tensor a ({left}) must match the size of tensor b ({right}) at non-singleton dimension "
                f"{dim}"
            )
        sizes.append(right if left == 1 else left)
    return Size(sizes)


def install() -> None:
    """Puts them into the core's module."""
    for function in (_get_tracing_state, _infer_size):
        setattr(_C, function.__name__, function)
