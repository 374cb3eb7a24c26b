"""`vmap` of every operation of the table against a loop over the slices."""

from itertools import product

import pytest

import rgrad as torch
from rgrad import Tensor
from rgrad.doctor.samples import _cotangent, _Maker, _tensors, samples
from rgrad.utils._pytree import tree_flatten, tree_unflatten

PARTS = 6
SLICES = 2

# The shapes of their results depend on values.
DYNAMIC = {"argwhere", "bincount", "masked_select", "nonzero", "unique", "unique_consecutive"}
# They return memory as it is, or make views of memory that slices share.
UNCOMPARED = {
    "as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter", "empty", "empty_like", "empty_permuted",
    "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_", "set_",
}  # fmt: skip


def _is_compared(op):
    draws = op["name"] == "dropout" or any("Generator" in signature for signature in op["signatures"])
    return not draws and op["name"] not in UNCOMPARED


def _arguments(sample, dtype, seed):
    make = _Maker(dtype, "cpu", "contiguous", False, sample.op.endswith("_"), False)
    make._seed = seed
    return tree_flatten((make.fill(list(sample.args)), make.fill(sample.kwargs)))


def _masks(count):
    """Which of the tensors are mapped: all, and each alone."""
    if count == 1:
        return [(True,)]
    return [(True,) * count, *(tuple(i == k for i in range(count)) for k in range(count))]


def _run(f, leaves, grad):
    """Results, and gradients of the leaves that can have some."""
    leaves = [t.detach().clone().requires_grad_(grad and t.is_floating_point()) for t in leaves]
    results = _tensors(f(leaves))
    roots = [r for r in results if r.requires_grad]
    if not roots:
        return results, []
    seeds = [_cotangent(r.shape, i).to(r.dtype) for i, r in enumerate(roots)]
    wanted = [t for t in leaves if t.requires_grad]
    return results, torch.autograd.grad(roots, wanted, seeds, allow_unused=True, materialize_grads=True)


def _differences(sample, dtype, mask, wrong):
    (flat, spec), (other, _) = (_arguments(sample, dtype, seed) for seed in (0, 10))
    places = [i for i, t in enumerate(flat) if isinstance(t, Tensor)]
    writes = sample.op.endswith("_")
    if not places or (writes and not mask[0]):
        return 0
    mapped = {i for i, on in zip(places, mask, strict=True) if on}
    leaves = [torch.stack([flat[i], other[i]]) if i in mapped else flat[i] for i in places]

    def call(*own):
        given = list(flat)
        for i, t in zip(places, own, strict=True):
            given[i] = t.clone() if writes else t
        args, kwargs = tree_unflatten(given, spec)
        return tuple(_tensors(sample._function(args)(*args, **kwargs)))

    def loop(leaves):
        outs = [call(*(t[k] if i in mapped else t for i, t in zip(places, leaves, strict=True))) for k in range(SLICES)]
        return [torch.stack(column) for column in zip(*outs, strict=True)]

    def together(leaves):
        dims = tuple(0 if i in mapped else None for i in places)
        return torch.func.vmap(call, dims)(*leaves)

    # A mask that the slices share selects as many elements of each.
    is_refused = sample.op in DYNAMIC and (sample.op != "masked_select" or mask[-1])
    try:
        expected = _run(loop, leaves, dtype == "float64")
    except Exception:
        return 0
    try:
        found = _run(together, leaves, dtype == "float64")
        for want, got in zip(expected, found, strict=True):
            torch.testing.assert_close(list(got), list(want), rtol=1e-6, atol=1e-8, equal_nan=True)
    except Exception as error:
        if not is_refused or "dynamic shape" not in str(error):
            called = f"{sample.name} {sample.args} {sample.kwargs} {dtype} {mask}"
            wrong.append(f"{called}: {type(error).__name__} {str(error)[:300]}")
        return 0
    if is_refused:
        wrong.append(f"{sample.name} is not refused")
    return 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_vmap_of_every_operation_of_the_table_is_a_loop_over_the_slices(part):
    wrong, calls = [], 0
    for op in torch._C._op_table()[part::PARTS]:
        if not _is_compared(op):
            continue
        for sample in samples(op):
            flat, _ = _arguments(sample, "float64", 0)
            count = sum(isinstance(t, Tensor) for t in flat)
            for dtype, mask in product(("float64", "int64"), _masks(count) if 0 < count < 5 else []):
                calls += _differences(sample, dtype, mask, wrong)
    assert calls > 100
    assert wrong == []
