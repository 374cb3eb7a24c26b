"""Attention with masks and scores that are functions, whose values are compared with PyTorch's; see `reference`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from reference import Case, wave, write


def _causal(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return q >= kv


def _near(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return (q - kv).abs() <= 3


def _of_sample(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return (kv % 3 == b) | (h == 1)


def _attend(masks: tuple[Any, ...], score: Any = None, sizes: Any = (2, 3, 3), **settings: Any) -> Case:
    def case(torch: Any) -> Any:
        flex = import_module(f"{torch.__name__}.nn.attention.flex_attention")
        batch, heads, shared = sizes
        q = wave(torch, batch, heads, 5, 4)
        k, v = (wave(torch, batch, shared, 7, 4, phase=phase) for phase in (1.0, 2.0))
        mask = flex.create_block_mask(flex.and_masks(*masks), batch, heads, 5, 7, device="cpu") if masks else None
        change = None
        if score == "distance":
            slopes = wave(torch, heads, phase=5.0)

            def change(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
                return s + slopes[h] * (i - j)

        elif score == "table":
            table = wave(torch, batch, 5, 7, phase=6.0)

            def change(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
                return torch.tanh(s) * 2 + table[b, i, j]

        return flex.flex_attention(q, k, v, change, mask, return_lse=True, **settings)

    return case


def _blocks(mask: Any, *shape: Any, **settings: Any) -> Case:
    def case(torch: Any) -> Any:
        flex = import_module(f"{torch.__name__}.nn.attention.flex_attention")
        blocks = flex.create_block_mask(mask, *shape, device="cpu", **settings)
        names = ("kv_num_blocks", "full_kv_num_blocks", "q_num_blocks", "full_q_num_blocks")
        orders = ("kv_indices", "full_kv_indices", "q_indices", "full_q_indices")
        lists = [getattr(blocks, name) for name in (*names, *orders)]
        row = blocks[0, :, 1]
        smaller = blocks._adjust(70, 90)
        again = flex.BlockMask.from_kv_blocks(blocks.kv_num_blocks, blocks.kv_indices, BLOCK_SIZE=blocks.BLOCK_SIZE)
        return [
            *([] if t is None else t for t in lists),
            *(blocks.to_dense(), blocks.sparsity(), list(blocks.shape), blocks.numel(), list(row.shape)),
            *(row.kv_num_blocks, row.kv_indices, list(smaller.shape), smaller.to_dense(), list(again.shape)),
            *(again.q_num_blocks, again.q_indices, list(blocks.BLOCK_SIZE)),
        ]

    return case


def _masks(torch: Any) -> Any:
    flex = import_module(f"{torch.__name__}.nn.attention.flex_attention")
    made = [_causal, flex.or_masks(_causal, _near), flex.and_masks(_near, _of_sample), flex.noop_mask]
    masks = [flex.create_mask(mask, 2, 3, 6, 5, device="cpu") for mask in made]

    def score(s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
        return torch.where(q > kv, s, -float("inf"))

    return [*masks, flex.create_mask(score, None, None, 3, 4, device="cpu")]


def _biases(torch: Any) -> Any:
    bias = import_module(f"{torch.__name__}.nn.attention.bias")
    results = []
    for queries, keys in ((3, 5), (5, 3), (4, 4)):
        q, k, v = wave(torch, 2, queries, 4), wave(torch, 2, keys, 4, phase=1.0), wave(torch, 2, keys, 4, phase=2.0)
        for make in (bias.causal_upper_left, bias.causal_lower_right):
            if make is bias.causal_lower_right and queries > keys:
                continue
            mask = make(queries, keys)
            results += [torch.nn.functional.scaled_dot_product_attention(q, k, v, mask), repr(mask)]
            results.append(torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3))
    return results


CASES: dict[str, Case] = {
    "plain": _attend(()),
    "causal": _attend((_causal,)),
    "scaled": _attend((), scale=0.3),
    "two masks": _attend((_near, _of_sample)),
    "some queries see nothing": _attend((lambda b, h, q, kv: kv > q + 3,)),
    "distances": _attend((), "distance"),
    "a table under a causal mask": _attend((_causal,), "table"),
    "shared heads": _attend((), "distance", sizes=(1, 4, 2), enable_gqa=True),
    "blocks of a causal mask": _blocks(_causal, None, None, 300, 300),
    "small blocks": _blocks(_near, 1, 1, 100, 130, BLOCK_SIZE=32),
    "blocks of heads": _blocks(_of_sample, 2, 3, 100, 90, BLOCK_SIZE=(32, 16)),
    "blocks that are not told apart": _blocks(_causal, 1, 2, 256, 128, BLOCK_SIZE=64, separate_full_blocks=False),
    "masks": _masks,
    "causal biases": _biases,
}

if __name__ == "__main__":
    write(CASES, __file__)
