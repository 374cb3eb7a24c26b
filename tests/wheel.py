"""Run by `make test-wheel` with the Python of an environment that has nothing but the wheel and NumPy."""

import sys
from pathlib import Path

import rgrad as torch

assert "numpy" not in sys.modules, "the import of rgrad loaded NumPy"
assert Path(torch.__file__).is_relative_to(sys.prefix), f"this is not the wheel's rgrad: {torch.__file__}"

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
(x * x).sum().backward()
assert x.grad.tolist() == [2.0, 4.0, 6.0]

model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
model(x.detach()).backward()
assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
assert torch.from_numpy(x.detach().numpy()).tolist() == [1.0, 2.0, 3.0]

print(f"rgrad {torch.__version__} works from its wheel")
