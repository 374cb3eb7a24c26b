"""botorch: a Gaussian process is fitted, acquisition functions are evaluated and optimized."""

import warnings

import torch
from botorch.acquisition import (
    LogExpectedImprovement,
    ProbabilityOfImprovement,
    UpperConfidenceBound,
    qExpectedImprovement,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood

warnings.filterwarnings("ignore")


def main():
    torch.manual_seed(0)
    x = torch.linspace(0, 1, 8, dtype=torch.float64)[:, None].repeat(1, 2)
    x[:, 1] = (x[:, 1] * 2.3) % 1
    y = torch.sin(x.sum(1, keepdim=True) * 5)
    model = SingleTaskGP(x, y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    points = torch.linspace(0.05, 0.95, 5, dtype=torch.float64)[:, None, None].repeat(1, 1, 2)
    made, best = model.posterior(points.squeeze(1)), y.max()
    found = {"mean": made.mean.flatten().tolist(), "variance": made.variance.flatten().tolist()}
    for kind, options in (
        (LogExpectedImprovement, {"best_f": best}),
        (ProbabilityOfImprovement, {"best_f": best}),
        (UpperConfidenceBound, {"beta": 0.2}),
    ):
        found[kind.__name__] = kind(model, **options)(points).tolist()
    many = qExpectedImprovement(model, best_f=best, sampler=SobolQMCNormalSampler(torch.Size([512]), seed=1))
    assert many(points).shape == (5,)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    upper = UpperConfidenceBound(model, beta=0.2)
    candidate, value = optimize_acqf(upper, bounds, q=1, num_restarts=4, raw_samples=64)
    found["best"] = value.item()
    return found
