"""Attention whose scores and masks are functions, and causal biases."""

from __future__ import annotations

import pytest
import reference
import reference_attention

import rgrad as torch
from rgrad.autograd import gradcheck
from rgrad.nn.attention import SDPBackend, sdpa_kernel
from rgrad.nn.attention.bias import CausalBias, CausalVariant, causal_lower_right, causal_upper_left
from rgrad.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    or_masks,
)
from rgrad.nn.functional import scaled_dot_product_attention

VALUES = reference.read(reference_attention.__file__)


@pytest.mark.parametrize("name", reference_attention.CASES)
def test_values_are_those_of_pytorch(name):
    reference.check(reference_attention.CASES[name](torch), VALUES[name])


def causal(b, h, q, kv):
    return q >= kv


def data(*shape: int) -> torch.Tensor:
    return reference.wave(torch, *shape).requires_grad_()


def test_gradients_flow_into_inputs_and_into_what_functions_capture():
    q, k, v, slope = data(1, 2, 3, 4), data(1, 2, 5, 4), data(1, 2, 5, 2), data(2)
    mask = create_block_mask(lambda b, h, q, kv: kv <= q + 1, None, None, 3, 5)

    def attend(q, k, v, slope):
        return flex_attention(q, k, v, lambda s, b, h, i, j: s + slope[h] * (i - j), mask)

    assert gradcheck(attend, (q, k, v, slope))


def test_plain_attention_is_that_of_the_kernel():
    q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4), torch.randn(2, 3, 7, 4)
    assert torch.allclose(flex_attention(q, k, v), scaled_dot_product_attention(q, k, v), atol=1e-6)
    half = flex_attention(q.half(), k.half(), v.half())
    assert half.dtype == torch.float16 and torch.allclose(half.float(), flex_attention(q, k, v), atol=2e-2)


def test_attention_on_the_gpu_is_that_of_the_cpu(gpu):
    q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4), torch.randn(2, 3, 7, 4)
    for device in ("cpu", gpu):
        mask = create_block_mask(causal, None, None, 5, 7, device=device, BLOCK_SIZE=4)
        out = flex_attention(q.to(gpu), k.to(gpu), v.to(gpu), lambda s, b, h, i, j: s + h - j, mask)
        plain = flex_attention(q, k, v, lambda s, b, h, i, j: s + h - j, mask.to("cpu"))
        assert torch.allclose(out.cpu(), plain, atol=1e-5)
    assert torch.allclose(
        scaled_dot_product_attention(q.to(gpu), k.to(gpu), v.to(gpu), causal_lower_right(5, 7)).cpu(),
        scaled_dot_product_attention(q, k, v, causal_lower_right(5, 7)),
        atol=1e-5,
    )


def test_more_results_are_returned_if_they_are_asked_for():
    q = torch.randn(1, 2, 3, 4)
    out, more = flex_attention(q, q, q, return_aux=AuxRequest(lse=True, max_scores=True))
    scores = q @ q.mT / 2
    assert torch.allclose(more.lse, scores.logsumexp(-1)) and torch.allclose(more.max_scores, scores.amax(-1))
    assert flex_attention(q, q, q, return_aux=AuxRequest())[1] == (None, None) and out.shape == q.shape


def test_blocks_alone_are_a_mask():
    counts = torch.tensor([[[1, 2]]], dtype=torch.int32)
    columns = torch.tensor([[[[1, 0], [0, 1]]]], dtype=torch.int32)
    mask = BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=2)
    q = torch.randn(1, 1, 4, 3)
    seen = torch.tensor([[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]).bool()
    assert torch.allclose(
        flex_attention(q, q, q, block_mask=mask), scaled_dot_product_attention(q, q, q, seen), atol=1e-6
    )
    shifted = create_block_mask(causal, None, None, 4, 4, BLOCK_SIZE=2)
    row = shifted[:, :, 1]
    row.mask_mod = lambda b, h, i, j: shifted.mask_mod(b, h, i + 2, j)
    whole = flex_attention(q, q, q, block_mask=shifted)
    assert torch.allclose(flex_attention(q[:, :, 2:], q, q, block_mask=row), whole[:, :, 2:], atol=1e-6)


def test_a_block_mask_is_shown():
    mask = create_block_mask(causal, None, None, 300, 300)
    assert str(mask) == "BlockMask(shape=(1, 1, 300, 300), sparsity=33.33%, \n(0, 0)\n██    \n████  \n██████\n)"
    assert repr(mask).splitlines()[1] == "    kv_num_blocks=torch.Size([1, 1, 3]),"
    assert mask.as_tuple(flatten=False)[0] == (300, 300) and len(mask.as_tuple()) == 13
    assert create_block_mask(causal, None, None, 1000, 1000, BLOCK_SIZE=10).to_string((2, 2)) == "(0, 0)\n░░  \n██░░"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda q, m: flex_attention(q[0], q, q), NotImplementedError, "must be 4D tensors"),
        (lambda q, m: flex_attention(q, q[:, :1], q[:, :1]), ValueError, "same number of heads but got Hq=2 and Hkv=1"),
        (lambda q, m: flex_attention(q, q[..., :2], q), ValueError, "same embedding dimension but got E=4 and E=2"),
        (lambda q, m: flex_attention(q.double(), q, q), ValueError, "same dtype"),
        (lambda q, m: flex_attention(q, q[:1], q[:1]), ValueError, "same batch size"),
        (lambda q, m: flex_attention(q, q, q, block_mask=m), RuntimeError, "created for a larger length"),
        (
            lambda q, m: flex_attention(q, q, q, block_mask=m._adjust(2, 3)),
            RuntimeError,
            "created for a smaller length",
        ),
        (lambda q, m: m[0, 0, 0].mask_mod(0, 0, 0, 0), RuntimeError, "mask_mod from a sliced BlockMask"),
        (lambda q, m: and_masks(3), RuntimeError, "should be callable mask_mods"),
        (lambda q, m: or_masks(None), RuntimeError, "should be callable mask_mods"),
        (lambda q, m: create_mask(lambda s: s, 1, 1, 2, 2), AssertionError, "Expected 4 or 5 positional args, got 1"),
        (lambda q, m: CausalBias(3, 4, 5), AssertionError, "variant must be a CausalVariant"),
        (
            lambda q, m: scaled_dot_product_attention(q, q, q, causal_upper_left(3, 3), is_causal=True),
            ValueError,
            "should not be used with causal=True",
        ),
        (lambda q, m: sdpa_kernel(3).__enter__(), AssertionError, "Backend must be an instance of SDPBackend"),
    ],
)
def test_attention_refuses_what_does_not_fit(call, error, words):
    with pytest.raises(error, match=words):
        call(torch.randn(2, 2, 3, 4), create_block_mask(causal, None, None, 5, 5))


def test_a_causal_bias_is_a_mask_and_what_is_computed_from_it_is_not():
    mask = causal_upper_left(2, 3)
    assert mask.variant is CausalVariant.UPPER_LEFT and (mask.seq_len_q, mask.seq_len_kv) == (2, 3)
    assert type(mask | True) is torch.Tensor and mask._materialize().sum() == 3
    with pytest.warns(UserWarning, match="see no key"):
        causal_lower_right(3, 2)


def test_kernels_are_chosen_in_a_context_without_effect():
    q = torch.randn(1, 2, 3, 4)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        out = scaled_dot_product_attention(q, q, q)
    assert torch.equal(out, scaled_dot_product_attention(q, q, q))
