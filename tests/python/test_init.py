"""``nn.init`` and the default values of layers."""

import math

import pytest

import rgrad as torch
from rgrad import nn


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def moments(tensor):
    values = [float(v) for v in tensor.detach().flatten().tolist()]
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)), max(map(abs, values))


@pytest.mark.parametrize(
    ("name", "param", "gain"),
    [
        ("linear", None, 1),
        ("conv2d", None, 1),
        ("sigmoid", None, 1),
        ("tanh", None, 5 / 3),
        ("relu", None, math.sqrt(2)),
        ("leaky_relu", None, math.sqrt(2 / 1.0001)),
        ("leaky_relu", 0.2, math.sqrt(2 / 1.04)),
        ("selu", None, 0.75),
    ],
)
def test_gains(name, param, gain):
    assert nn.init.calculate_gain(name, param) == pytest.approx(gain)


def test_unknown_gains_are_errors():
    with pytest.raises(ValueError, match="Unsupported nonlinearity foo"):
        nn.init.calculate_gain("foo")
    with pytest.raises(ValueError, match="negative_slope True not a valid number"):
        nn.init.calculate_gain("leaky_relu", True)


@pytest.mark.parametrize(
    ("fill", "bound"),
    [
        (lambda w: nn.init.uniform_(w, -2, 2), 2.0),
        (lambda w: nn.init.xavier_uniform_(w, gain=2.0), 2 * math.sqrt(6 / (200 + 300))),
        (lambda w: nn.init.kaiming_uniform_(w, nonlinearity="relu"), math.sqrt(6 / 300)),
        (lambda w: nn.init.kaiming_uniform_(w, a=math.sqrt(5)), math.sqrt(1 / 300)),
        (lambda w: nn.init.kaiming_uniform_(w, mode="fan_out", nonlinearity="relu"), math.sqrt(6 / 200)),
    ],
)
def test_uniform_initialisers_fill_their_interval(fill, bound):
    weight = torch.empty(200, 300)
    assert fill(weight) is weight
    mean, std, largest = moments(weight)
    assert largest <= bound * (1 + 1e-6) and largest > 0.99 * bound
    assert abs(mean) < 0.02 * bound and std == pytest.approx(bound / math.sqrt(3), rel=0.02)


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (lambda w: nn.init.normal_(w, 0, 3), 3.0),
        (lambda w: nn.init.xavier_normal_(w), math.sqrt(2 / (200 + 300))),
        (lambda w: nn.init.kaiming_normal_(w), math.sqrt(2 / 300)),
        (lambda w: nn.init.kaiming_normal_(w, mode="fan_out"), math.sqrt(2 / 200)),
    ],
)
def test_normal_initialisers_have_their_deviation(fill, expected):
    mean, std, _ = moments(fill(torch.empty(200, 300)))
    assert abs(mean) < 0.02 * expected and std == pytest.approx(expected, rel=0.02)


def test_fans_of_a_convolution_count_the_kernel():
    _, std, _ = moments(nn.init.kaiming_normal_(torch.empty(100, 50, 3, 3)))
    assert std == pytest.approx(math.sqrt(2 / (50 * 9)), rel=0.03)


def test_the_truncated_normal_stays_inside():
    mean, std, _ = moments(nn.init.trunc_normal_(torch.empty(20000), std=1.0, a=-1.0, b=1.0))
    # The deviation of a standard normal restricted to [-1, 1].
    assert abs(mean) < 0.02 and std == pytest.approx(0.5396, rel=0.03)
    tail = nn.init.trunc_normal_(torch.empty(5000), a=1.5, b=4.0)
    assert tail.min().item() >= 1.5 and tail.max().item() <= 4.0
    # The mean of a standard normal above 1.5 (and below 4): (phi(1.5) - phi(4)) / (Phi(4) - Phi(1.5)).
    assert moments(tail)[0] == pytest.approx(1.937, abs=0.03)


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (4, 3, 2, 2)])
def test_orthogonal_matrices_are_orthogonal(shape):
    weight = nn.init.orthogonal_(torch.empty(*shape), gain=2.0)
    flat = weight.reshape(shape[0], -1)
    if flat.shape[0] > flat.shape[1]:
        flat = flat.t()
    product = flat @ flat.t()
    assert (product - 4 * torch.eye(flat.shape[0])).abs().max().item() < 1e-5


def test_exact_initialisers():
    assert nn.init.eye_(torch.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert nn.init.constant_(torch.empty(2), 3).tolist() == [3, 3]
    assert nn.init.ones_(torch.empty(2)).tolist() == [1, 1]
    assert nn.init.zeros_(torch.ones(2)).tolist() == [0, 0]
    image = torch.arange(18.0).reshape(1, 2, 3, 3)
    weight = nn.init.dirac_(torch.empty(2, 2, 3, 3))
    assert torch.equal(nn.functional.conv2d(image, weight, padding=1), image)
    sparse = nn.init.sparse_(torch.empty(10, 4), 0.3)
    assert (sparse == 0).sum(0).tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (lambda: nn.init.xavier_uniform_(torch.empty(3)), "fewer than 2 dimensions"),
        (lambda: nn.init.kaiming_normal_(torch.empty(3, 3), mode="x"), "Mode x not supported"),
        (lambda: nn.init.eye_(torch.empty(3)), "Only tensors with 2 dimensions are supported"),
        (lambda: nn.init.dirac_(torch.empty(3)), "Only tensors with 3, 4, or 5 dimensions are supported"),
        (lambda: nn.init.orthogonal_(torch.empty(3)), "Only tensors with 2 or more dimensions are supported"),
    ],
)
def test_wrong_shapes_are_errors(fill, message):
    with pytest.raises(ValueError, match=message):
        fill()


def test_older_names_warn():
    with pytest.warns(FutureWarning, match="`nn.init.xavier_uniform` is now deprecated"):
        nn.init.xavier_uniform(torch.empty(2, 2))


def test_initialising_a_parameter_records_nothing():
    parameter = nn.Parameter(torch.empty(3, 3))
    nn.init.xavier_normal_(parameter)
    assert parameter.is_leaf and parameter.requires_grad and parameter.grad_fn is None


@pytest.mark.parametrize(
    ("layer", "fan_in"),
    [
        (lambda: nn.Linear(64, 200), 64),
        (lambda: nn.Conv1d(16, 200, 3), 48),
        (lambda: nn.Conv2d(8, 200, 3), 72),
        (lambda: nn.Conv2d(8, 200, 3, groups=2), 36),
        (lambda: nn.Bilinear(16, 4, 200), 16),
    ],
)
def test_default_weights_and_biases_are_uniform_within_one_over_the_root_of_fan_in(layer, fan_in):
    layer, bound = layer(), 1 / math.sqrt(fan_in)
    for tensor in (layer.weight, layer.bias):
        mean, std, largest = moments(tensor)
        assert 0.95 * bound < largest <= bound * (1 + 1e-6)
        assert abs(mean) < 0.15 * bound and std == pytest.approx(bound / math.sqrt(3), rel=0.12)


def test_default_values_of_embeddings_and_norms():
    table = nn.Embedding(500, 20, padding_idx=3)
    mean, std, _ = moments(table.weight)
    assert abs(mean) < 0.05 and std == pytest.approx(1, rel=0.05)
    assert table.weight[3].abs().sum().item() == 0
    norm = nn.BatchNorm2d(4)
    assert norm.weight.tolist() == [1] * 4 and norm.bias.tolist() == [0] * 4
    assert norm.running_mean.tolist() == [0] * 4 and norm.running_var.tolist() == [1] * 4
    assert norm.num_batches_tracked.item() == 0
    assert nn.PReLU(3).weight.tolist() == [0.25] * 3
