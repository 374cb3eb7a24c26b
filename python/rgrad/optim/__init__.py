"""Optimizers and learning rate schedules, with PyTorch's names, settings and state dictionaries."""

from rgrad.optim import lr_scheduler
from rgrad.optim.adadelta import Adadelta
from rgrad.optim.adagrad import Adagrad
from rgrad.optim.adam import Adam
from rgrad.optim.adamax import Adamax
from rgrad.optim.adamw import AdamW
from rgrad.optim.nadam import NAdam
from rgrad.optim.optimizer import Optimizer
from rgrad.optim.radam import RAdam
from rgrad.optim.rmsprop import RMSprop
from rgrad.optim.sgd import SGD

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "lr_scheduler",
]
