"""torchviz: the picture of a graph of gradients names the nodes that PyTorch has."""

import torch
from _values import fill, wave
from torchviz import make_dot


def main():
    model = fill(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)))
    dot = make_dot(model(wave(2, 3)).mean(), params=dict(model.named_parameters()), show_saved=True)
    labels = sorted(
        line.split("label=")[1].split(" ")[0].strip('"]').split("\\n")[0] for line in dot.body if "label=" in line
    )
    return {"nodes": labels, "arrows": sum("->" in line for line in dot.body)}
