"""Optimizers and learning rate schedules, with PyTorch's names, settings and state dictionaries."""

from rgrad.optim import functional, lr_scheduler, swa_utils
from rgrad.optim.adadelta import Adadelta
from rgrad.optim.adafactor import Adafactor
from rgrad.optim.adagrad import Adagrad
from rgrad.optim.adam import Adam
from rgrad.optim.adamax import Adamax
from rgrad.optim.adamw import AdamW
from rgrad.optim.asgd import ASGD
from rgrad.optim.lbfgs import LBFGS
from rgrad.optim.muon import Muon
from rgrad.optim.nadam import NAdam
from rgrad.optim.optimizer import Optimizer
from rgrad.optim.radam import RAdam
from rgrad.optim.rmsprop import RMSprop
from rgrad.optim.rprop import Rprop
from rgrad.optim.sgd import SGD
from rgrad.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "functional",
    "lr_scheduler",
    "swa_utils",
]
