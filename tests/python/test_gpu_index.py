"""Indexing on a GPU against the CPU: every dtype that is stored, every kind of index, forward and backward."""

import os

os.environ.setdefault("RGRAD_GPU_ALLOW_CPU", "1")

import numpy as np
import pytest

import rgrad

if rgrad.gpu.device_count() == 0:
    if os.environ.get("RGRAD_REQUIRE_GPU"):
        raise RuntimeError("no adapter was found")
    pytest.skip("no adapter", allow_module_level=True)

DTYPES = ["float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


def numbers(*shape, dtype="float32", seed=0):
    values = np.random.default_rng(seed).integers(-5, 6, shape).astype("float32")
    return rgrad.tensor(values).to(getattr(rgrad, dtype))


def indices(high, *shape, seed=0):
    return rgrad.tensor(np.random.default_rng(seed).integers(0, high, shape))


def same(f, *tensors, grad=False):
    """Calls `f` on both devices and compares its result, and the gradients of the floats where asked for."""

    def run(device):
        args = [t.to(device).detach() for t in tensors]
        leaves = [t.requires_grad_() for t in args if grad and t.dtype.is_floating_point]
        out = f(*args)
        assert out.device.type == rgrad.device(device).type
        results = [out.detach().cpu()]
        if leaves:
            out.float().pow(2).sum().backward()
            results += [t.grad.cpu() for t in leaves]
        return results

    for found, expected in zip(run("gpu"), run("cpu"), strict=True):
        assert found.dtype == expected.dtype and found.shape == expected.shape
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_are_picked_in_every_dtype_and_layout(dtype):
    x, i = numbers(4, 6, 5, dtype=dtype), indices(6, 7)
    for t in (x, x.transpose(0, 2), x[:, 1:, ::2]):
        n = t.shape[1]
        same(lambda t, i: t.index_select(1, i), t, indices(n, 7))
        same(lambda t, i: t[:, i], t, indices(n, 2, 3))
        same(lambda t, i: t[i, :, i - 2], t, indices(t.shape[2], 4) % t.shape[0])
        same(lambda t, i: t.gather(1, i), t, indices(n, t.shape[0] - 1, 9, t.shape[2]))
        same(lambda t, i: t.take(i), t, indices(t.numel(), 3, 3) - 10)
    same(lambda t, i: t[i], x, i % 4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_are_written_in_every_dtype(dtype):
    x, v, i = numbers(6, 5, dtype=dtype), numbers(4, 5, dtype=dtype, seed=1), rgrad.tensor([4, 0, 5, 2])
    same(lambda x, v, i: x.index_copy(0, i, v), x, v, i)
    same(lambda x, v, i: x.index_put((i,), v), x, v, i)
    same(lambda x, i: x.index_fill(0, i, 1), x, i)
    wide = i[:, None].expand(4, 5)
    same(lambda x, v, i: x.scatter(0, i, v), x, v, wide)
    same(lambda x, i: x.scatter(0, i, 1), x, wide)


@pytest.mark.parametrize("dtype", DTYPES[:-1])
def test_values_that_meet_are_summed_in_every_dtype(dtype):
    x, v, i = numbers(3, 5, dtype=dtype), numbers(40, 5, dtype=dtype, seed=1), indices(3, 40)
    same(lambda x, v, i: x.index_add(0, i, v), x, v, i)
    same(lambda x, v, i: x.index_put((i,), v, accumulate=True), x, v, i)
    same(lambda x, v, i: x.scatter_add(0, i[:, None].expand(40, 5), v), x, v, i)


@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
def test_values_that_meet_are_reduced(how):
    x, v, i = numbers(3, 5), numbers(9, 5, seed=1), indices(3, 9, 5)
    for included in (True, False):
        same(lambda x, v, i: x.scatter_reduce(0, i, v, how, include_self=included), x, v, i)  # noqa: B023


def test_float64_and_wide_integers_meet_in_order():
    x, v, i = numbers(3, 5, dtype="float64"), numbers(9, 5, dtype="float64", seed=1), indices(3, 9, 5)
    same(lambda x, v, i: x.scatter_add(0, i, v), x, v, i)
    same(lambda x, v, i: x.index_add(0, i[:, 0], v), x, v, i)
    same(lambda x, i: x.gather(0, i), x, i, grad=True)
    for how in ("prod", "amax", "amin"):
        same(lambda x, v, i: x.scatter_reduce(0, i, v, how), x.long(), v.long(), i)  # noqa: B023


def test_gradients_of_picked_elements_are_summed():
    x, i = numbers(5, 7), indices(5, 30)
    same(lambda x, i: x[i], x, i, grad=True)
    same(lambda x, i: x.index_select(0, i), x, i, grad=True)
    same(lambda x, i: x.gather(0, i), x, indices(5, 9, 7), grad=True)
    same(lambda x, i: x.take(i), x, i, grad=True)
    # Each row once: which of several writes to one element stays is nobody's promise.
    same(lambda x, v, i: x.index_put((i,), v), x, numbers(5, 7, seed=3), rgrad.arange(5).flip(0), grad=False)
    same(lambda x, v, i: x.scatter(0, i, v), x, numbers(5, 7), indices(5, 1, 7), grad=True)


def test_embeddings_agree_with_all_their_options():
    w, i = numbers(10, 6), indices(10, 4, 5)
    for options in ({}, {"padding_idx": 3}, {"scale_grad_by_freq": True}):
        same(lambda i, w: rgrad.nn.functional.embedding(i, w, **options), i, w, grad=True)  # noqa: B023


def test_masks_select_fill_and_scatter():
    x, mask = numbers(7, 300), numbers(7, 300, seed=2) > 0
    same(lambda x, m: x[m], x, mask, grad=True)
    same(lambda x, m: x.masked_select(m[0]), x, mask, grad=True)
    same(lambda x, m: x.masked_fill(m, -2.5), x, mask, grad=True)
    same(lambda x, m: x.masked_scatter(m, x.flip(0)), x, mask, grad=True)
    same(lambda m: m.nonzero(), mask)
    same(lambda m: m[:, None].nonzero(), mask)
    same(lambda m: (m & ~m).nonzero(), mask)
    for dtype in DTYPES:
        same(lambda x, m: x[m], x.to(getattr(rgrad, dtype)), mask)

    def write(x, m):
        x = x.clone()
        x[m] = 3
        x[:, [0, 2]] = x[:, [1, 3]] + 1
        x[[1, 2], -1] = 9
        return x

    same(write, x, mask)


def test_an_index_out_of_range_is_told_at_the_next_wait():
    x, i = numbers(5, 3).to("gpu"), rgrad.tensor([1, 5]).to("gpu")
    for call, message in (
        (lambda: x[i], "index 5 is out of bounds for dimension 0 with size 5"),
        (lambda: x.index_select(0, i), "index out of range in self"),
        (lambda: x.take(i + 10), "out of range: tried to access index 15 on a tensor of 15 elements."),
    ):
        # On software at the call, on a GPU where the result is looked at.
        with pytest.raises(IndexError) as error:
            call().cpu()
        assert str(error.value).startswith(message + " ('")
        assert x.sum().item() == x.cpu().sum().item()


def test_tensors_are_joined_moved_and_repeated():
    x, y = numbers(4, 3, 5), numbers(4, 2, 5, seed=1)
    same(lambda x, y: rgrad.cat([x, y], 1), x, y, grad=True)
    same(lambda x: rgrad.stack([x, x.flip(0)], 1), x, grad=True)
    same(lambda x: x.flip(0, 2), x, grad=True)
    same(lambda x: x.roll((1, -2), (0, 2)), x, grad=True)
    same(lambda x: x.repeat(2, 1, 3), x, grad=True)
    same(lambda x: x[:, :2].expand(4, 2, 5).reshape(8, 5), x, grad=True)
    for dtype in DTYPES:
        t = getattr(rgrad, dtype)
        same(lambda x, y: rgrad.cat([x, y], 1), x.to(t), y.to(t))


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangles_agree_in_every_dtype(dtype):
    x = numbers(2, 5, 7, dtype=dtype)
    for k in (-10, -2, 0, 3, 10):
        same(lambda x: x.tril(k), x)  # noqa: B023
        same(lambda x: x.transpose(1, 2).triu(k), x)  # noqa: B023


def test_attention_agrees_under_every_mask():
    q, k, v = (numbers(2, 6, 4, seed=s) / 4 for s in range(3))
    seen = numbers(6, 6, seed=4) > 0
    seen[2] = False
    for options in ({}, {"is_causal": True}, {"attn_mask": seen}):

        def run(device):
            args = [t.to(device).detach().requires_grad_() for t in (q, k, v)]
            there = {n: o.to(device) if n == "attn_mask" else o for n, o in options.items()}  # noqa: B023
            out = rgrad.nn.functional.scaled_dot_product_attention(*args, **there)
            out.pow(2).sum().backward()
            return [out.detach().cpu(), *(t.grad.cpu() for t in args)]

        for found, expected in zip(run("gpu"), run("cpu"), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
