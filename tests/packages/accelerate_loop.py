"""accelerate: a loop with accumulated and clipped gradients, and its saved state."""

import tempfile

import torch
from _values import fill, wave
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = fill(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)), 0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    data = DataLoader(TensorDataset(wave(32, 4), wave(32, 1, phase=1.0)), batch_size=8)
    model, optimizer, data, schedule = accelerator.prepare(model, optimizer, data, schedule)
    losses = []
    for _ in range(2):
        for x, y in data:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss).item())
    with tempfile.TemporaryDirectory() as folder:
        accelerator.save_state(folder)
        before = [p.detach().clone() for p in model.parameters()]
        for p in model.parameters():
            p.data.zero_()
        accelerator.load_state(folder)
    same = all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    return {"losses": losses, "same": same, "rate": schedule.get_last_lr()[0]}
