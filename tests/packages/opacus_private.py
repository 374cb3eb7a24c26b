"""opacus: gradients of single examples, clipped, and a private training without noise."""

import warnings

import torch
from _values import wave
from opacus import GradSampleModule, PrivacyEngine
from opacus.validators import ModuleValidator
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")


def set_weights(model):
    for i, p in enumerate(model.parameters()):
        p.data.copy_(wave(*p.shape, phase=i) * 0.3)
    return model


def main():
    nn, found = torch.nn, {}
    layers = nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)
    sampled = GradSampleModule(set_weights(nn.Sequential(*layers)))
    x, y = wave(6, 1, 8, 8, step=0.1), torch.tensor([0, 1, 0, 1, 1, 0])
    nn.functional.cross_entropy(sampled(x), y).backward()
    found["samples"] = [p.grad_sample.flatten(1).norm(dim=1).tolist() for p in sampled.parameters()]

    model = set_weights(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    data = DataLoader(TensorDataset(wave(32, 4), (wave(32) > 0).long()), batch_size=8)
    engine = PrivacyEngine(accountant="rdp")
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=data,
        noise_multiplier=0.0,
        max_grad_norm=0.5,
        poisson_sampling=False,
    )
    losses = []
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    found["losses"] = losses

    bad = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4))
    found["errors"] = len(ModuleValidator.validate(bad, strict=False))
    found["fixed"] = type(ModuleValidator.fix(bad)[1]).__name__
    noisy = set_weights(nn.Sequential(nn.Linear(4, 2)))
    noisy, optimizer, loader = PrivacyEngine(accountant="rdp").make_private(
        module=noisy,
        optimizer=torch.optim.Adam(noisy.parameters()),
        data_loader=data,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    for inputs, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(noisy(inputs), labels).backward()
        optimizer.step()
    found["shape"] = list(noisy.state_dict()["_module.0.weight"].shape)
    return found
