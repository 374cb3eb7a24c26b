"""skorch: a classifier and a regressor fitted like those of scikit-learn, searched over, saved and loaded."""

import pickle
import tempfile

import numpy as np
import torch
from _values import wave
from sklearn.model_selection import cross_val_score
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EpochScoring, LRScheduler


class Net(torch.nn.Module):
    def __init__(self, outputs=2):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, outputs))
        for i, p in enumerate(self.parameters()):
            p.data.copy_(wave(*p.shape, phase=i) * 0.3)

    def forward(self, x):
        return self.layers(x)


def main():
    x = wave(64, 4).numpy()
    labels = (x.sum(1) > 0).astype(np.int64)
    options = {"max_epochs": 5, "lr": 0.1, "batch_size": 16, "verbose": 0}
    callbacks = [EpochScoring("accuracy", name="score"), LRScheduler("StepLR", step_size=2, gamma=0.5)]
    net = NeuralNetClassifier(Net, criterion=torch.nn.CrossEntropyLoss, callbacks=callbacks, **options).fit(x, labels)
    found = {
        "losses": net.history[:, "train_loss"],
        "valid": net.history[:, "valid_loss"],
        "scores": net.history[:, "score"],
    }
    found["probabilities"] = net.predict_proba(x[:5]).tolist()
    with tempfile.TemporaryDirectory() as folder:
        net.save_params(f"{folder}/net.pt")
        other = NeuralNetClassifier(Net, criterion=torch.nn.CrossEntropyLoss, **options).initialize()
        other.load_params(f"{folder}/net.pt")
    found["again"] = bool((other.predict(x) == net.predict(x)).all())
    found["pickled"] = bool((pickle.loads(pickle.dumps(net)).predict(x) == net.predict(x)).all())
    found["cross"] = cross_val_score(net, x, labels, cv=2).tolist()
    target = x[:, :1] * 0.5
    line = NeuralNetRegressor(Net, module__outputs=1, train_split=None, optimizer=torch.optim.Adam, **options)
    found["regressor"] = [line.fit(x, target).history[:, "train_loss"], line.predict(x[:5]).tolist()]
    return found
