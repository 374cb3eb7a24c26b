"""peft: low-rank adapters on a GPT-2, trained, merged, saved and loaded."""

import tempfile

import torch
from _values import fill, total, wave
from peft import IA3Config, LoraConfig, PeftModel, PromptTuningConfig, TaskType, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel


def base():
    return fill(GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=100, n_positions=32)))


def main():
    ids, found = torch.arange(12).reshape(2, 6) * 7 % 97 + 3, {}
    configs = {
        "lora": LoraConfig(r=4, target_modules=["c_attn"], task_type=TaskType.CAUSAL_LM, fan_in_fan_out=True),
        "dora": LoraConfig(r=4, target_modules=["c_fc"], use_dora=True, fan_in_fan_out=True),
        "ia3": IA3Config(target_modules=["c_attn", "c_proj"], feedforward_modules=["c_proj"], fan_in_fan_out=True),
        "prompt": PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=4),
    }
    for name, config in configs.items():
        model = get_peft_model(base(), config)
        trained = {key: p for key, p in model.named_parameters() if p.requires_grad}
        for i, p in enumerate(trained.values()):
            p.data.copy_(wave(*p.shape, phase=i) * 0.2)
        model.eval()
        out = model(input_ids=ids, labels=ids)
        out.loss.backward()
        found[name] = [out.loss.item(), {key: total(p.grad) for key, p in trained.items()}]
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            again = PeftModel.from_pretrained(base(), folder).eval()
        assert (again(input_ids=ids).logits - out.logits).abs().max() < 1e-4, name
        if name == "lora":
            merged = model.merge_and_unload()
            found["merged"] = (merged(input_ids=ids).logits - out.logits).abs().max().item() < 1e-4
            found["counts"] = sum(p.numel() for p in trained.values())
    return found
