"""pytorch-tabnet: its network on fixed weights, and a classifier that learns a table."""

import warnings

import numpy as np
import torch
from _values import fill, total, wave
from pytorch_tabnet.tab_model import TabNetClassifier
from pytorch_tabnet.tab_network import TabNet

warnings.filterwarnings("ignore")


def main():
    groups = torch.eye(6)
    net = fill(TabNet(6, 3, n_d=4, n_a=4, n_steps=2, group_attention_matrix=groups), 0.5)
    x = wave(8, 6)
    logits, sparse = net(x)
    (logits.square().mean() + sparse).backward()
    grads = [total(p.grad) for p in net.parameters() if p.grad is not None]
    found = {"network": [logits.tolist(), sparse.item(), grads]}
    explained, masks = net.forward_masks(x)
    found["masks"] = [explained.tolist(), [mask.tolist() for mask in masks.values()]]

    table = np.random.default_rng(0).normal(size=(256, 5)).astype(np.float32)
    labels = (table[:, 0] > 0).astype(np.int64)
    model = TabNetClassifier(verbose=0, seed=0, n_d=4, n_a=4, n_steps=2, optimizer_params={"lr": 0.05})
    model.fit(
        table, labels, eval_set=[(table, labels)], max_epochs=30, batch_size=64, virtual_batch_size=32, patience=0
    )
    assert (model.predict(table) == labels).mean() > 0.8
    found["importance"] = list(model.feature_importances_.shape)
    return found
