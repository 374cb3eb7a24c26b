"""safetensors: tensors are written, read whole and by slices."""

import tempfile

import torch
from _values import wave
from safetensors import safe_open
from safetensors.torch import load, load_file, save, save_file, save_model


def main():
    tensors = {"a": wave(3, 4), "b": torch.arange(5), "c": wave(2).to(torch.bfloat16), "d": torch.zeros(0, 3)}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/x.safetensors"
        save_file(tensors, path, metadata={"made": "here"})
        read = load_file(path)
        with safe_open(path, framework="pt") as file:
            names, said = sorted(file.keys()), file.metadata()
            part = file.get_slice("a")[1:, :2]
            whole = file.get_tensor("b")
        save_model(torch.nn.Linear(2, 2), path)
        model = sorted(load_file(path))
    same = all(torch.equal(read[k], t) and read[k].dtype == t.dtype for k, t in tensors.items())
    return {
        "same": same and all(torch.equal(load(save(tensors))[k], t) for k, t in tensors.items()),
        "names": names,
        "said": said,
        "part": part.tolist(),
        "whole": whole.tolist(),
        "model": model,
    }
