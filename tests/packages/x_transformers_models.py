"""x-transformers: decoders, encoders and their many options, forward, backward and generating."""

import torch
from _values import fill, total, wave
from x_transformers import (
    AutoregressiveWrapper,
    Decoder,
    Encoder,
    TransformerWrapper,
    ViTransformerWrapper,
    XTransformer,
)


def main():
    ids, found = torch.arange(16).reshape(2, 8) * 7 % 31, {}
    options = {
        "plain": {},
        "rotary": {"rotary_pos_emb": True, "use_rmsnorm": True, "ff_glu": True, "ff_swish": True},
        "alibi": {"alibi_pos_bias": True, "attn_one_kv_head": True},
        "relative": {"rel_pos_bias": True, "attn_qk_norm": True},
        "flash": {"attn_flash": True, "sandwich_norm": True},
        "gated": {"residual_attn": True, "attn_gate_values": True, "shift_tokens": 1},
    }
    for name, option in options.items():
        layers = Decoder(dim=32, depth=2, heads=2, attn_dim_head=16, **option)
        model = fill(TransformerWrapper(num_tokens=32, max_seq_len=16, attn_layers=layers))
        wrapped = AutoregressiveWrapper(model)
        loss = wrapped(ids)
        loss.backward()
        found[name] = [
            loss.item(),
            model(ids)[0, -1].tolist(),
            sum(total(p.grad) for p in model.parameters() if p.grad is not None),
        ]
        found[f"{name} text"] = wrapped.generate(ids[:, :3], 4, temperature=0.0).tolist()
    vit = fill(
        ViTransformerWrapper(image_size=16, patch_size=4, num_classes=5, attn_layers=Encoder(dim=32, depth=1, heads=2))
    )
    found["vit"] = vit(wave(2, 3, 16, 16, step=0.01)).tolist()
    both = fill(
        XTransformer(
            dim=32,
            enc_num_tokens=32,
            enc_depth=1,
            enc_heads=2,
            enc_max_seq_len=8,
            dec_num_tokens=32,
            dec_depth=1,
            dec_heads=2,
            dec_max_seq_len=8,
        )
    )
    found["both"] = both(ids, ids, mask=torch.ones(2, 8).bool()).item()
    return found
