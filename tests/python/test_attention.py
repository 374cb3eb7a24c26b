"""Attention in tiles: values, gradients, masks, layouts and memory."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

import rgrad as torch
from rgrad.autograd import gradcheck, gradgradcheck
from rgrad.nn.functional import scaled_dot_product_attention as attention


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def by_definition(q, k, v, mask=None, causal=False, scale=None, shared=False):
    """Attention composed of products and a softmax."""
    if shared:
        k, v = (x.repeat_interleave(q.size(-3) // x.size(-3), -3) for x in (k, v))
    scores = q @ k.mT * (1 / math.sqrt(q.size(-1)) if scale is None else scale)
    if causal:
        mask = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    blind = scores.isneginf().all(-1, keepdim=True)
    weights = torch.where(blind, 0.0, scores).softmax(-1)
    return torch.where(blind, 0.0, weights) @ v


def compare(shapes, mask=None, dtype=torch.float64, tolerance=1e-12, **options):
    inputs = [(t if isinstance(t, torch.Tensor) else torch.randn(*t)).to(dtype).detach() for t in shapes]
    inputs = [t.requires_grad_() for t in inputs]
    settings = {"causal": "is_causal", "shared": "enable_gqa"}
    out = attention(*inputs, mask, **{settings.get(name, name): value for name, value in options.items()})
    assert out.grad_fn.name() == "ScaledDotProductFlashAttentionForCpuBackward0"
    grad = torch.randn(*out.shape).to(dtype)
    wide = [t.detach().double().requires_grad_() for t in inputs]
    wide_mask = mask.double() if mask is not None and mask.dtype != torch.bool else mask
    expected = by_definition(*wide, wide_mask, **options)
    gradients = zip(
        (out, *torch.autograd.grad(out, inputs, grad)),
        (expected, *torch.autograd.grad(expected, wide, grad.double())),
        strict=True,
    )
    for got, exact in gradients:
        assert got.dtype == dtype and got.shape == exact.shape
        error = (got.double() - exact).abs().max().item()
        assert error <= tolerance * (1 + exact.abs().max().item()), error


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "sizes", [(8, 1, 1, 1), (33, 5, 3, 2), (40, 300, 16, 24), (130, 129, 20, 8), (257, 550, 24, 40), (300, 290, 64, 64)]
)
def test_results_and_gradients_are_those_of_products_and_a_softmax(sizes, causal):
    queries, keys, size, width = sizes
    shapes = ((2, 3, queries, size), (2, 3, keys, size), (2, 3, keys, width))
    compare(shapes, causal=causal)
    compare(shapes, causal=causal, dtype=torch.float32, tolerance=5e-6)


@pytest.mark.parametrize("dtype, tolerance", [(torch.bfloat16, 1.5e-2), (torch.float16, 2e-3)])
def test_half_types_are_computed_in_float32(dtype, tolerance):
    compare(((2, 3, 50, 20), (2, 3, 70, 20), (2, 3, 70, 12)), dtype=dtype, tolerance=tolerance)


MASKS = [(60, 290), (290,), (1, 290), (60, 1), (2, 1, 1, 290), (3, 60, 290), (2, 3, 60, 290), (2, 1, 60, 290), (1,)]


@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_masks_broadcast(shape):
    shapes = ((2, 3, 60, 16), (2, 3, 290, 16), (2, 3, 290, 16))
    mask = torch.randn(*shape, dtype=torch.float64)
    compare(shapes, mask)
    compare(shapes, mask > 0.5)
    compare(shapes, mask.masked_fill(mask > 0.5, -math.inf))
    compare(shapes, mask.float(), dtype=torch.float32, tolerance=5e-6)


def test_a_mask_may_be_of_any_layout_and_floating_point_dtype():
    shapes = ((2, 3, 60, 16), (2, 3, 70, 16), (2, 3, 70, 16))
    mask = torch.randn(70, 120)
    compare(shapes, mask.double()[:, ::2].mT)
    compare(shapes, (mask > 0)[:, ::2].mT)
    compare(shapes, torch.randn(60, 140).double()[:, ::2])
    compare(shapes, torch.randn(60, 140)[:, ::2] > 0)
    compare(shapes, torch.randn(60, 70))


def test_queries_that_attend_to_no_key_have_the_result_zero_and_pass_no_gradient():
    q, k, v = (torch.randn(1, 2, 40, 8).requires_grad_() for _ in range(3))
    mask = torch.ones(40, 40, dtype=torch.bool)
    mask[3] = mask[:, 5] = False
    out = attention(q, k, v, mask)
    out.sum().backward()
    assert not out[:, :, 3].any() and not q.grad[:, :, 3].any()
    assert not k.grad[:, :, 5].any() and not v.grad[:, :, 5].any() and q.grad[:, :, 4].all()
    assert out.isfinite().all()


def test_query_heads_share_heads_of_keys_and_values():
    compare(((2, 6, 40, 16), (2, 2, 70, 16), (2, 2, 70, 16)), shared=True)
    compare(((2, 6, 240, 16), (2, 2, 200, 16), (2, 2, 200, 8)), shared=True, causal=True)
    compare(((6, 40, 16), (1, 300, 16), (1, 300, 16)), torch.randn(6, 40, 300).double(), shared=True)


def test_the_scale_and_the_number_of_dimensions_are_free():
    compare(((2, 3, 140, 16), (2, 3, 220, 16), (2, 3, 220, 16)), scale=2.5)
    compare(((2, 3, 14, 16), (2, 3, 22, 16), (2, 3, 22, 16)), scale=0.0)
    compare(((3, 40, 16), (3, 20, 16), (3, 20, 16)))
    compare(((40, 16), (20, 16), (20, 16)), torch.randn(40, 20).double())
    compare(((2, 2, 3, 40, 16), (2, 2, 3, 20, 16), (2, 2, 3, 20, 16)), torch.randn(40, 20).double())


def test_inputs_may_be_views_and_the_result_has_the_layout_of_the_query():
    both = torch.randn(2, 60, 3, 3, 16)
    q, k, v = (x.squeeze(2).transpose(1, 2) for x in both.split(1, 2))
    compare((q, k, v))
    separate = q.transpose(1, 2).contiguous().transpose(1, 2)
    assert attention(separate, k, v).transpose(1, 2).is_contiguous()
    compare((q.flip(2), k[:, :, ::2], v[:, :, ::2]))
    compare((q.mT.contiguous().mT, k.mT.contiguous().mT, v))
    compare((q, k[:1].expand(2, -1, -1, -1), v[:, :, :1].expand(-1, -1, 60, -1)))
    # Rows that begin a page each.
    paged = torch.randn(1, 40, 4, 512).transpose(1, 2)[..., :64]
    compare((paged, paged, paged))


def test_scores_of_any_size_do_not_overflow():
    q = torch.randn(1, 1, 40, 16)
    out = attention(q * 1e3, q * 1e3, q)
    assert torch.allclose(out, by_definition(q.double() * 1e3, q.double() * 1e3, q.double()).float(), atol=1e-4)
    # The maximum grows from block to block of keys. Scores of 839 are rounded to 6e-5.
    k = torch.arange(700.0)[:, None].expand(700, 16)[None, None] * 0.3
    q, v = torch.ones(1, 1, 40, 16), torch.randn(1, 1, 700, 16)
    assert torch.allclose(attention(q, k, v), by_definition(q.double(), k.double(), v.double()).float(), atol=2e-3)
    q, k = torch.randn(1, 1, 40, 16), torch.randn(1, 1, 700, 16)
    k[0, 0, 600, 3] = math.nan
    assert attention(q, k, v).isnan().all() and attention(q, k, v, is_causal=True).isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_every_order(causal):
    q, k, v = (torch.randn(1, 2, n, 3, dtype=torch.float64).requires_grad_() for n in (9, 7, 7))
    assert gradcheck(lambda *t: attention(*t, is_causal=causal), (q, k, v))
    assert gradgradcheck(lambda *t: attention(*t, is_causal=causal), (q, k, v))
    mask = torch.randn(9, 7, dtype=torch.float64)
    mask[2] = -math.inf
    assert gradcheck(lambda *t: attention(*t, mask), (q, k, v))
    assert gradgradcheck(lambda *t: attention(*t, mask), (q, k, v))
    shared = torch.randn(1, 1, 7, 3, dtype=torch.float64).requires_grad_()
    assert gradgradcheck(lambda *t: attention(*t, enable_gqa=True), (q, shared, shared))


def test_a_mask_gets_a_gradient_if_it_requires_one():
    q, mask = torch.randn(1, 1, 9, 3, dtype=torch.float64), torch.randn(9, 9, dtype=torch.float64).requires_grad_()
    assert gradcheck(lambda m: attention(q, q, q, m), (mask,))


def test_what_backward_saves_must_not_be_written():
    q = torch.randn(1, 2, 40, 8).requires_grad_()
    out = attention(q, q, q)
    saved = out.grad_fn
    assert saved._saved_logsumexp.shape == (1, 2, 40) and saved._saved_output.shape == out.shape
    assert not saved._saved_is_causal and saved._saved_attn_mask is None
    out.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_results_do_not_depend_on_the_number_of_threads():
    q, k, v = (torch.randn(1, 3, n, 32).requires_grad_() for n in (300, 600, 600))
    before, seen = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            out = attention(q, k, v)
            seen.append([out.detach(), *torch.autograd.grad(out.sin().sum(), (q, k, v))])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in seen[1:] for a, b in zip(seen[0], other, strict=True))


MEMORY = """
import sys
import rgrad as torch
from rgrad.nn.functional import scaled_dot_product_attention as attention

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024

q = torch.randn(1, 1, 64, 8).requires_grad_()
attention(q, q, q, is_causal=True).sum().backward()
q, k, v = (torch.randn(1, 1, int(sys.argv[1]), 8).requires_grad_() for _ in range(3))
before = peak()
attention(q, k, v, is_causal=True).sum().backward()
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_memory_is_linear_in_the_length():
    def growth(length):
        command = [sys.executable, "-c", MEMORY, str(length)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    # The scores alone would take 4,096 MB; the tensors of a pass take 1 MB each.
    assert growth(32768) < 40
