"""What is made of many elements on a GPU is shared out, because loops of an invocation are not without end.

llvmpipe leaves them after 65,535 times, without a word.
"""

import pytest

import rgrad as torch
from rgrad import nn

F = nn.functional

pytestmark = pytest.mark.usefixtures("gpu")

LONG = 70_001


def slope(f, x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad((f(x) ** 2).sum(), x)[0]


def weight_slope(x, w, **how):
    w = w.detach().requires_grad_()
    return torch.autograd.grad((F.conv2d(x, w, **how) ** 2).sum(), w)[0]


def picture(device, n=270):
    return torch.linspace(0, 30, n * n).sin().view(1, 1, n, n).to(device)


def lanes(device, dtype=torch.float32):
    return torch.linspace(-3, 3, 2 * LONG, dtype=dtype).sin().view(2, LONG).to(device)


def places(device):
    return (torch.arange(LONG) * 7919 % 13).to(device)


CASES = {
    "softmax": lambda d: F.softmax(lanes(d), 1),
    "softmax of columns": lambda d: F.softmax(lanes(d).T.contiguous(), 0),
    "softmax in float64": lambda d: F.softmax(lanes(d, torch.float64), 1),
    "log_softmax": lambda d: F.log_softmax(lanes(d), 1),
    "gradient of softmax": lambda d: slope(lambda x: F.softmax(x, 1) * 100, lanes(d)),
    "gradient of log_softmax": lambda d: slope(lambda x: F.log_softmax(x, 1)[:, :99], lanes(d)),
    "cross_entropy": lambda d: F.cross_entropy(lanes(d), torch.tensor([3, 70_000], device=d)),
    "gradient of a weight": lambda d: weight_slope(picture(d), torch.ones(32, 1, 3, 3, device=d), padding=1),
    "gradient of a weight along a line": lambda d: weight_slope(
        lanes(d).view(1, 1, 2, LONG), torch.ones(1, 1, 1, 3, device=d), stride=(1, 2)
    ),
    "gradient of maxima": lambda d: slope(lambda x: F.max_pool2d(x, 3, 2, 1), picture(d)),
    "gradient of maxima with gaps": lambda d: slope(lambda x: F.max_pool2d(x, 2, 1, dilation=3), picture(d)),
    "gradient of maxima of shares": lambda d: slope(lambda x: F.adaptive_max_pool2d(x, (7, 11)), picture(d)),
    "gradient of maxima of overlapping shares": lambda d: slope(
        lambda x: F.adaptive_max_pool2d(x, (19, 7)), picture(d, 10)
    ),
    "gradient of means of overlapping shares": lambda d: slope(
        lambda x: F.adaptive_avg_pool2d(x, (19, 7)), picture(d, 10)
    ),
    "mean of a plane": lambda d: F.adaptive_avg_pool2d(picture(d), 1),
    "sums of float64 that meet": lambda d: torch.zeros(13, dtype=torch.float64, device=d).index_add(
        0, places(d), lanes(d, torch.float64)[0]
    ),
    "maxima of int64 that meet": lambda d: torch.zeros(13, dtype=torch.int64, device=d).scatter_reduce(
        0, places(d), torch.arange(LONG, device=d), "amax"
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_long_loops_are_shared_out(case):
    expected = CASES[case]("cpu")
    actual = CASES[case]("gpu").cpu()
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual, expected, rtol=2e-4, atol=1e-6 * float(expected.abs().max()))


REFUSED = {
    "a mean of a large window": lambda: F.avg_pool2d(picture("gpu", 300), 280),
    "a maximum of a large share": lambda: F.adaptive_max_pool2d(picture("gpu"), 1),
    "a convolution of many taps": lambda: F.conv1d(lanes("gpu").view(1, 2, -1), torch.ones(1, 2, LONG, device="gpu")),
    "a gradient that all places add to": lambda: slope(
        lambda x: F.interpolate(x, size=200_000, mode="linear"), torch.ones(1, 1, 2, device="gpu")
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_not_be_shared_out_is_refused_on_software(case):
    if "llvmpipe" not in torch.gpu.get_device_properties()["name"]:
        pytest.skip("the loops of this adapter end when they are done")
    with pytest.raises(NotImplementedError, match="whose loops end before"):
        REFUSED[case]()
