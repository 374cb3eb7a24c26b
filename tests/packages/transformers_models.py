"""transformers: BERT, Llama, T5, ViT and CLIP forward and backward; saved and loaded; Llama and T5 generate."""

import tempfile

import torch
import transformers as t
from _values import fill, total, wave

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def again(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        state, other = model.state_dict(), type(model).from_pretrained(folder).state_dict()
    return all(torch.equal(state[k], other[k]) for k in state)


def trained(model, logits, **inputs):
    made = model(**inputs)
    made.loss.backward()
    grads = sum(total(p.grad) for p in model.parameters() if p.grad is not None)
    return [made.loss.item(), getattr(made, logits).flatten()[::7].tolist(), grads]


def main():
    ids = torch.arange(12).reshape(2, 6) * 7 % 97 + 3
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    picture = wave(2, 3, 32, 32, step=0.01)
    found = {}

    config = t.BertConfig(**SIZES, vocab_size=100, max_position_embeddings=32, num_labels=3)
    bert = fill(t.BertForSequenceClassification(config))
    labels = torch.tensor([0, 2])
    found["bert"] = trained(bert, "logits", input_ids=ids, attention_mask=mask, labels=labels)
    found["bert again"] = again(bert)

    config = t.LlamaConfig(
        **SIZES, num_key_value_heads=1, vocab_size=100, pad_token_id=0, bos_token_id=1, eos_token_id=2
    )
    llama = fill(t.LlamaForCausalLM(config))
    found["llama"] = trained(llama, "logits", input_ids=ids, labels=ids)
    found["llama texts"] = llama.generate(ids, max_new_tokens=6, do_sample=False).tolist()
    found["llama again"] = again(llama)

    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    config = t.T5Config(**sizes, vocab_size=100, decoder_start_token_id=0)
    t5 = fill(t.T5ForConditionalGeneration(config))
    found["t5"] = trained(t5, "logits", input_ids=ids, labels=ids[:, :4].clone())
    found["t5 texts"] = t5.generate(ids, max_new_tokens=6, do_sample=False).tolist()
    found["t5 again"] = again(t5)

    vit = fill(t.ViTForImageClassification(t.ViTConfig(**SIZES, image_size=32, patch_size=8, num_labels=5)))
    found["vit"] = trained(vit, "logits", pixel_values=picture, labels=torch.tensor([1, 3]))
    found["vit again"] = again(vit)

    text = {**SIZES, "vocab_size": 100, "max_position_embeddings": 16, "eos_token_id": 99, "bos_token_id": 0}
    config = t.CLIPConfig(
        text_config=text, vision_config={**SIZES, "image_size": 32, "patch_size": 8}, projection_dim=16
    )
    clip = fill(t.CLIPModel(config))
    ids[:, -1] = 99
    found["clip"] = trained(clip, "logits_per_image", input_ids=ids, pixel_values=picture, return_loss=True)
    return found
