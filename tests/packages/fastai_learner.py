"""fastai: a learner fits a small model with its callbacks and schedules, and is saved and loaded."""

import tempfile

import fastai.callback.progress
import fastai.callback.schedule  # noqa: F401 - these two add methods to Learner
import torch
from _values import wave
from fastai.basics import DataLoader, DataLoaders, Learner, MSELossFlat, mae, tensor


def main():
    x = wave(64, 4)
    y = torch.tanh(x.sum(1, keepdim=True))
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    for i, p in enumerate(model.parameters()):
        p.data.copy_(wave(*p.shape, phase=i) * 0.3)
    pairs = list(zip(x, y, strict=True))
    loaders = DataLoaders(DataLoader(pairs, bs=16), DataLoader(pairs, bs=16), device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        learner = Learner(loaders, model, loss_func=MSELossFlat(), metrics=mae, path=folder, lr=0.02)
        with learner.no_bar(), learner.no_logging():
            learner.fit(2)
            learner.fit_one_cycle(2, 0.02)
        found = {"values": [float(v) for v in learner.recorder.values[-1]]}
        found["losses"] = [float(v) for v in learner.recorder.losses]
        found["validated"] = [float(v) for v in learner.validate()]
        learner.save("model")
        learner.load("model")
        found["again"] = [float(v) for v in learner.validate()]
    found["tensor"] = tensor(1, 2, 3).tolist()
    return found
