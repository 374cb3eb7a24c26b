"""int64 where an adapter has none: shaders compute with pairs of words, and give the CPU's numbers all the same."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("gpu")


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """Runs a program in a process that leaves the driver's int64 alone, and returns what it prints."""
    folder = tmp_path_factory.mktemp("cache")

    def run(program, *arguments):
        env = os.environ | {"RGRAD_CACHE_DIR": str(folder)}
        command = [sys.executable, "-c", BEGIN + program, *map(str, arguments)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    run("assert torch._C._gpu_avoid(0, ['int64'])")
    return run


BEGIN = """
import sys
import rgrad as torch
import rgrad.nn.functional as F
from rgrad import nn

"""


def test_every_operation_gives_the_numbers_of_the_cpu(without):
    found = without(
        """
from rgrad.doctor.parity import check
from rgrad.doctor.samples import LAYOUTS, samples

has = torch.gpu.get_device_properties()
assert not has["int64"] or "int64" in has["avoided"]
agrees, wrong = 0, []
for number, op in enumerate(torch._C._op_table()):
    for sample in samples(op):
        layout = LAYOUTS[number % len(LAYOUTS)]
        verdict = check(sample, "int64", "gpu", layout)
        agrees += verdict.kind == "agrees"
        # A few go through float64, which an adapter may lack too.
        refused = verdict.kind == "unsupported" and "torch.float64" not in verdict.why
        if verdict.kind == "wrong" or refused:
            wrong.append(f"{sample.name} {sample.args} {layout}: {verdict.why}")
assert not wrong, wrong
print(agrees)
"""
    )
    assert int(found) > 1000


def test_arithmetic_is_right_at_the_ends_of_the_range(without):
    without(
        """
ends = [0, 1, -1, 2, -2, 7, -7, 10**9, -(10**9), 2**31, -(2**31), 2**32 - 1, 2**32, 2**32 + 1, -(2**32), 2**40 + 12345,
        -(2**40) - 54321, 2**53 + 1, 2**62 - 1, 2**63 - 1, -(2**63), -(2**63) + 1]
x = torch.tensor(ends).reshape(-1, 1)
y = x.t()
divisors = y[y != 0].reshape(1, -1)
shifts = torch.tensor([0, 1, 31, 32, 33, 63, 64, -1]).reshape(1, -1)

def same(f, *args):
    want, got = f(*args), f(*(a.to("gpu") for a in args))
    assert want.dtype == got.dtype and torch.equal(want, got.cpu()), (f, want, got)

for f in (torch.add, torch.sub, torch.mul, torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge, torch.maximum,
          torch.minimum, torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor, torch.gcd):
    same(f, x, y)
for f in (torch.floor_divide, torch.remainder, torch.fmod, lambda a, b: torch.div(a, b, rounding_mode="trunc")):
    same(f, x, divisors)
for f in (torch.bitwise_left_shift, torch.bitwise_right_shift):
    same(f, x, shifts)
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.uint8, torch.bool):
    same(lambda a: a.to(dtype), x)
for f in (torch.neg, torch.abs, torch.sign, torch.bitwise_not, torch.square, lambda a: a / 3, lambda a: a ** 3):
    same(f, x)
whole = torch.tensor([0.0, -0.0, 0.75, -0.75, 1.5, -1.5, 8388609.0, -16777217.0, 1e10, -1e18, 9.2e18, -(2.0**63)])
same(lambda a: a.long(), whole)
same(lambda a: a.half().float().clamp(-6e4, 6e4).long(), whole)
same(lambda a: a.int().long(), whole[:8])
"""
    )


def test_sums_sorts_and_products_carry_over_words(without):
    without(
        """
torch.manual_seed(0)
x = torch.randint(-(2**62), 2**62, (37, 41))
g = x.to("gpu")
assert torch.equal(g.cpu(), x)
for f in (lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.prod(1), lambda x: x.cumsum(1), lambda x: x.cumprod(0),
          lambda x: x.amax(0), lambda x: x.argmin(1), lambda x: x.sort(1)[0], lambda x: x.topk(5)[1],
          lambda x: x @ x.t(), lambda x: x.t().contiguous(),
          lambda x: x.index_add(0, torch.zeros(37, dtype=torch.int64, device=x.device), x)):
    assert torch.equal(f(g).cpu(), f(x))
"""
    )


def test_a_classifier_over_words_trains_with_labels_on_the_device(without):
    without(
        """
def train(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(11, 8, padding_idx=0), nn.Flatten(), nn.Linear(32, 5)).to(device)
    words, labels = torch.randint(0, 11, (24, 4)).to(device), torch.randint(0, 5, (24,)).to(device)
    step, found = torch.optim.SGD(model.parameters(), lr=0.5), []
    for _ in range(5):
        scores = model(words)
        loss = F.cross_entropy(scores, labels)
        step.zero_grad()
        loss.backward()
        step.step()
        right = (scores.argmax(1) == labels).sum().item()
        picked = scores.detach()[torch.arange(24, device=device), labels].sum().item()
        found += [loss.item(), float(right), picked, F.one_hot(labels).float().mean(0)[0].item()]
    order = torch.arange(24, device=device)[labels.argsort(stable=True)]
    return found, order.tolist(), torch.nonzero(labels == 2).tolist(), F.one_hot(labels).sum(0).tolist()

(here, *lists), (there, *others) = train("cpu"), train("gpu")
assert all(abs(a - b) <= 1e-4 * max(1, abs(a)) for a, b in zip(here, there, strict=True)), (here, there)
assert lists == others
"""
    )
