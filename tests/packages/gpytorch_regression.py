"""gpytorch: exact and variational Gaussian processes: likelihoods, gradients and predictions."""

import gpytorch
import torch
from _values import total, wave
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood, kernel):
        super().__init__(x, y, likelihood)
        self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), ScaleKernel(kernel)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Sparse(gpytorch.models.ApproximateGP):
    def __init__(self, points):
        chosen = gpytorch.variational.CholeskyVariationalDistribution(points.size(0))
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, chosen))
        self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), ScaleKernel(RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def main():
    torch.manual_seed(0)
    x, found = torch.linspace(0, 1, 15, dtype=torch.float64), {}
    y = torch.sin(x * 6) + 0.1 * wave(15).double()
    for kernel in (RBFKernel(), MaternKernel(nu=2.5), PeriodicKernel()):
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        model = Exact(x, y, likelihood, kernel).double()
        marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.1), []
        for _ in range(10):
            optimizer.zero_grad()
            loss = -marginal(model(x), y)
            loss.backward()
            losses.append(loss.item())
            optimizer.step()
        model.eval(), likelihood.eval()
        with torch.no_grad():
            made = likelihood(model(torch.linspace(0, 1.2, 7, dtype=torch.float64)))
        name = type(kernel).__name__
        found[name] = [losses, made.mean.tolist(), made.variance.tolist()]
    sparse, likelihood = Sparse(x[::3, None].float()), gpytorch.likelihoods.GaussianLikelihood()
    sparse.variational_strategy.variational_params_initialized.fill_(1)
    bound = gpytorch.mlls.VariationalELBO(likelihood, sparse, num_data=15)
    loss = -bound(sparse(x[:, None].float()), y.float())
    loss.backward()
    found["sparse"] = [loss.item(), [total(p.grad) for p in sparse.parameters() if p.grad is not None]]
    return found
