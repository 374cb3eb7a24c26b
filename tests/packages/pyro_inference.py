"""pyro: densities of models with plates, variational inference and Hamiltonian sampling."""

import pyro
import pyro.distributions as dist
import torch
from _values import wave
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDiagonalNormal
from pyro.optim import Adam

DATA = 2.0 + wave(40)


def model(data):
    place = pyro.sample("place", dist.Normal(0.0, 10.0))
    scale = pyro.sample("scale", dist.HalfNormal(2.0))
    with pyro.plate("data", len(data)):
        pyro.sample("x", dist.Normal(place, scale), obs=data)


def guide(data):
    pyro.sample("place", dist.Delta(pyro.param("at", torch.tensor(0.0))))
    pyro.sample("scale", dist.Delta(pyro.param("wide", torch.tensor(1.0), constraint=dist.constraints.positive)))


def main():
    pyro.set_rng_seed(0)
    pyro.clear_param_store()
    values = {"place": torch.tensor(1.5), "scale": torch.tensor(0.8)}
    trace = pyro.poutine.trace(pyro.poutine.condition(model, data=values)).get_trace(DATA)
    found = {"density": trace.log_prob_sum().item()}
    inference = SVI(model, guide, Adam({"lr": 0.05}), Trace_ELBO())
    found["losses"] = [inference.step(DATA) for _ in range(60)]
    found["found"] = [pyro.param("at").item(), pyro.param("wide").item()]

    pyro.clear_param_store()
    auto = AutoDiagonalNormal(model)
    inference = SVI(
        model, auto, Adam({"lr": 0.05}), Trace_ELBO(num_particles=4, vectorize_particles=True, max_plate_nesting=1)
    )
    for _ in range(300):
        inference.step(DATA)
    assert abs(auto.median()["place"].item() - DATA.mean().item()) < 0.4
    drawn = Predictive(model, guide=auto, num_samples=20)(DATA)
    assert drawn["place"].shape[0] == 20

    chain = MCMC(NUTS(model), num_samples=60, warmup_steps=40, disable_progbar=True)
    chain.run(DATA)
    assert abs(chain.get_samples()["place"].mean().item() - DATA.mean().item()) < 0.4
    return found
