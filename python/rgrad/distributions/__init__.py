"""Probability distributions: sampling, densities, moments, divergences, and transforms of all of them.

>>> import rgrad as torch
>>> policy = torch.distributions.Categorical(logits=torch.zeros(4, requires_grad=True))
>>> action = policy.sample()
>>> loss = -policy.log_prob(action) * 2.0
>>> loss.backward()
"""

from . import constraints, transforms, utils
from .bernoulli import Bernoulli
from .categorical import Categorical
from .constraint_registry import biject_to, transform_to
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .independent import Independent
from .mixture_same_family import MixtureSameFamily
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import *
from .uniform import Uniform
