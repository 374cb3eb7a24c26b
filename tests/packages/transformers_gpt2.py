"""transformers: GPT-2 forward, backward, generating with a cache and without, saved and loaded."""

import tempfile

import torch
from _values import fill, total
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 100, "n_positions": 64}
    model = fill(GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=99)))
    x = torch.arange(10)[None] * 7 % 100
    made = model(x, labels=x)
    made.loss.backward()
    texts = [model.generate(x, max_new_tokens=8, do_sample=False, use_cache=c).tolist() for c in (True, False)]
    beams = model.generate(x, max_new_tokens=5, num_beams=3, do_sample=False).tolist()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = GPT2LMHeadModel.from_pretrained(folder).eval()
    state, other = model.state_dict(), again.state_dict()
    return {
        "loss": made.loss.item(),
        "logits": made.logits[0, :, ::9].tolist(),
        "grad": total(model.transformer.wte.weight.grad),
        "texts": texts,
        "beams": beams,
        "same": all(torch.equal(state[k], other[k]) for k in state),
    }
