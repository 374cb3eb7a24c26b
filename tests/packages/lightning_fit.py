"""lightning: a small model is fitted, checked and saved."""

import logging
import tempfile
import warnings

import torch
from _values import wave
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        self.seen = []

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        self.seen.append(loss.item())
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("check", torch.nn.functional.mse_loss(self.net(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.05)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]


def main():
    model = Model()
    for i, p in enumerate(model.parameters()):
        p.data.copy_(wave(*p.shape, phase=i) * 0.3)
    data = DataLoader(TensorDataset(wave(32, 4), wave(32, 1, phase=1.0)), batch_size=8)
    with tempfile.TemporaryDirectory() as folder:
        options = {"enable_progress_bar": False, "enable_model_summary": True, "logger": False, "accelerator": "cpu"}
        trainer = Trainer(max_epochs=3, default_root_dir=folder, **options)
        trainer.fit(model, data, data)
        last = trainer.callback_metrics["loss"].item()
        path = f"{folder}/model.ckpt"
        trainer.save_checkpoint(path)
        again = Model.load_from_checkpoint(path)
        same = all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
        checked = trainer.validate(again, data, verbose=False)[0]["check"]
    return {"losses": model.seen, "check": checked, "same": same, "last": last}
