"""Layers, activations, losses and ``nn.functional``, against values worked out independently."""

import math
import warnings

import numpy as np
import pytest

import rgrad as torch
import rgrad.nn.functional as F
from rgrad import nn


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def array(tensor):
    return np.array(tensor.detach().tolist(), dtype=np.float64)


def random(*shape):
    return torch.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32).tolist())


def close(tensor, expected, tolerance=1e-5):
    np.testing.assert_allclose(array(tensor), expected, rtol=tolerance, atol=tolerance)


REPRS = [
    (lambda: nn.Linear(2, 3, bias=False), "Linear(in_features=2, out_features=3, bias=False)"),
    (lambda: nn.Bilinear(1, 2, 3), "Bilinear(in1_features=1, in2_features=2, out_features=3, bias=True)"),
    (lambda: nn.Identity(7), "Identity()"),
    (
        lambda: nn.Conv1d(1, 2, 3, stride=2, padding=1),
        "Conv1d(1, 2, kernel_size=(3,), stride=(2,), padding=(1,))",
    ),
    (
        lambda: nn.Conv2d(4, 6, 3, padding="same", dilation=2, groups=2, bias=False, padding_mode="reflect"),
        "Conv2d(4, 6, kernel_size=(3, 3), stride=(1, 1), padding=same, dilation=(2, 2), groups=2, "
        "bias=False, padding_mode=reflect)",
    ),
    (
        lambda: nn.BatchNorm2d(3),
        "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)",
    ),
    (
        lambda: nn.InstanceNorm1d(3),
        "InstanceNorm1d(3, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=False)",
    ),
    (lambda: nn.GroupNorm(2, 4), "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)"),
    (lambda: nn.LayerNorm((2, 3)), "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=True)"),
    (lambda: nn.RMSNorm(3), "RMSNorm((3,), eps=None, elementwise_affine=True)"),
    (lambda: nn.Dropout(0.1), "Dropout(p=0.1, inplace=False)"),
    (lambda: nn.Embedding(3, 4, padding_idx=-1), "Embedding(3, 4, padding_idx=2)"),
    (lambda: nn.MaxPool2d(2), "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"),
    (lambda: nn.AvgPool1d(2), "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))"),
    (lambda: nn.AvgPool2d((2, 3)), "AvgPool2d(kernel_size=(2, 3), stride=(2, 3), padding=0)"),
    (lambda: nn.AdaptiveAvgPool2d((None, 3)), "AdaptiveAvgPool2d(output_size=(None, 3))"),
    (lambda: nn.Upsample(scale_factor=2), "Upsample(scale_factor=2.0, mode='nearest')"),
    (lambda: nn.Flatten(), "Flatten(start_dim=1, end_dim=-1)"),
    (lambda: nn.Unflatten(1, (2, 3)), "Unflatten(dim=1, unflattened_size=(2, 3))"),
    (lambda: nn.ReLU(inplace=True), "ReLU(inplace=True)"),
    (lambda: nn.ReLU6(), "ReLU6()"),
    (lambda: nn.LeakyReLU(0.2, True), "LeakyReLU(negative_slope=0.2, inplace=True)"),
    (lambda: nn.GELU("tanh"), "GELU(approximate='tanh')"),
    (lambda: nn.Softplus(), "Softplus(beta=1.0, threshold=20.0)"),
    (lambda: nn.Softshrink(), "Softshrink(0.5)"),
    (lambda: nn.Hardtanh(), "Hardtanh(min_val=-1.0, max_val=1.0)"),
    (lambda: nn.Softmax(dim=1), "Softmax(dim=1)"),
    (lambda: nn.PReLU(), "PReLU(num_parameters=1)"),
    (lambda: nn.ReflectionPad2d(1), "ReflectionPad2d((1, 1, 1, 1))"),
    (lambda: nn.ConstantPad1d(1, 2.0), "ConstantPad1d(padding=(1, 1), value=2.0)"),
    (lambda: nn.ZeroPad2d((1, 2, 3, 4)), "ZeroPad2d((1, 2, 3, 4))"),
    (lambda: nn.CrossEntropyLoss(weight=torch.ones(2)), "CrossEntropyLoss()"),
]


@pytest.mark.parametrize(("make", "text"), REPRS, ids=[text.split("(")[0] for _, text in REPRS])
def test_layers_print_their_options(make, text):
    assert repr(make()) == text


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "in_channels must be divisible by groups"),
        (lambda: nn.Conv2d(4, 3, 3, groups=2), ValueError, "out_channels must be divisible by groups"),
        (lambda: nn.Conv2d(4, 4, 3, groups=0), ValueError, "groups must be a positive integer"),
        (lambda: nn.Conv2d(4, 4, 3, padding="foo"), ValueError, "Invalid padding string 'foo'"),
        (lambda: nn.Conv2d(4, 4, 3, 2, padding="same"), ValueError, "not supported for strided convolutions"),
        (lambda: nn.Conv2d(4, 4, 3, padding_mode="x"), ValueError, "but got padding_mode='x'"),
        (lambda: nn.Dropout(2), ValueError, "dropout probability has to be between 0 and 1, but got 2"),
        (lambda: nn.GroupNorm(3, 4), ValueError, r"num_channels \(4\) must be divisible by num_groups \(3\)"),
        (
            lambda: nn.Embedding(3, 2, padding_idx=4),
            AssertionError,
            "Padding_idx must be within num_embeddings",
        ),
        (
            lambda: nn.Unflatten(1, 3),
            TypeError,
            "unflattened_size must be a tuple of ints, but found type int",
        ),
        (lambda: nn.BatchNorm2d(3)(torch.ones(2, 3)), ValueError, r"expected 4D input \(got 2D input\)"),
        (lambda: nn.BatchNorm1d(3)(torch.ones(3)), ValueError, r"expected 2D or 3D input \(got 1D input\)"),
        (
            lambda: nn.TripletMarginLoss(margin=0),
            ValueError,
            "expected margin to be greater than 0, got 0 instead",
        ),
        (
            lambda: F.soft_margin_loss(torch.ones(1), torch.ones(1), reduction="x"),
            ValueError,
            "x is not a valid value",
        ),
        (
            lambda: F.pad(torch.ones(1, 2), (2, 0), "reflect"),
            RuntimeError,
            "Padding size should be less than",
        ),
        (lambda: F.pad(torch.ones(1, 2), (3, 0), "circular"), RuntimeError, "wrapping around more than once"),
        (lambda: F.pad(torch.ones(1, 2), (1, 0), "x"), NotImplementedError, "Unrecognised padding mode x"),
        (
            lambda: F.glu(torch.ones(1, 3)),
            RuntimeError,
            "Halving dimension must be even, but dimension 1 is size 3",
        ),
        (
            lambda: F.one_hot(torch.tensor([3]), 2),
            RuntimeError,
            "Class values must be smaller than num_classes.",
        ),
        (lambda: F.one_hot(torch.tensor([-1])), RuntimeError, "Class values must be non-negative."),
    ],
)
def test_mistakes_raise_pytorchs_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_linear_is_a_product_and_a_sum():
    layer, x = nn.Linear(4, 3), random(5, 2, 4)
    close(layer(x), array(x) @ array(layer.weight).T + array(layer.bias))
    close(nn.Linear(4, 3, bias=False)(torch.zeros(1, 4)), np.zeros((1, 3)))


def test_bilinear_sums_over_both_inputs():
    layer, a, b = nn.Bilinear(4, 3, 5), random(2, 6, 4), random(2, 6, 3)
    expected = np.einsum("nli,kij,nlj->nlk", array(a), array(layer.weight), array(b)) + array(layer.bias)
    close(layer(a, b), expected)


def conv2d_by_definition(x, w, stride, dilation):
    out_h = (x.shape[2] - dilation * (w.shape[2] - 1) - 1) // stride + 1
    out_w = (x.shape[3] - dilation * (w.shape[3] - 1) - 1) // stride + 1
    result = np.zeros((x.shape[0], w.shape[0], out_h, out_w))
    for i in range(out_h):
        for j in range(out_w):
            rows = i * stride + dilation * np.arange(w.shape[2])
            columns = j * stride + dilation * np.arange(w.shape[3])
            result[:, :, i, j] = np.einsum("nchw,ochw->no", x[:, :, rows][:, :, :, columns], w)
    return result


@pytest.mark.parametrize(
    ("mode", "numpy_mode"),
    [("zeros", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")],
)
def test_convolutions_pad_in_every_mode(mode, numpy_mode):
    layer, x = nn.Conv2d(2, 3, (2, 3), padding=(1, 2), padding_mode=mode, bias=False), random(2, 2, 5, 6)
    padded = np.pad(array(x), ((0, 0), (0, 0), (1, 1), (2, 2)), mode=numpy_mode)
    close(layer(x), conv2d_by_definition(padded, array(layer.weight), 1, 1))


@pytest.mark.parametrize(("mode", "numpy_mode"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
@pytest.mark.parametrize("pads", [(1, 2), (4, 0, 0, 2), (0, 0, 2, 0), (3, 4, 2, 1, 1, 2), (0, 1, 0, 0, 2, 0)])
def test_padding_takes_elements_of_the_input_as_numpy_does(mode, numpy_mode, pads):
    x = random(*(2, 2, 3, 4, 5)[: len(pads) // 2 + 1], 5)
    widths = [(0, 0)] * (x.dim() - len(pads) // 2) + [tuple(pads[i : i + 2]) for i in range(len(pads) - 2, -1, -2)]
    close(F.pad(x, pads, mode), np.pad(array(x), widths, mode=numpy_mode))
    # The derivative is the transpose of the matrix that pads.
    x.requires_grad_()
    padded = F.pad(x, pads, mode)
    weights = random(*padded.shape)
    (grad,) = torch.autograd.grad(padded, x, weights)
    close((grad * x).sum().detach(), array((weights * padded).sum()))


def test_same_padding_puts_the_odd_element_behind():
    layer, x = nn.Conv2d(1, 1, (2, 4), padding="same", bias=False), random(1, 1, 5, 6)
    padded = np.pad(array(x), ((0, 0), (0, 0), (0, 1), (1, 2)))
    close(layer(x), conv2d_by_definition(padded, array(layer.weight), 1, 1))
    reflected = nn.Conv2d(1, 1, (2, 4), padding="same", bias=False, padding_mode="reflect")
    padded = np.pad(array(x), ((0, 0), (0, 0), (0, 1), (1, 2)), mode="reflect")
    close(reflected(x), conv2d_by_definition(padded, array(reflected.weight), 1, 1))


def test_strided_dilated_convolution():
    layer, x = nn.Conv2d(2, 3, 3, stride=2, dilation=2), random(2, 2, 9, 10)
    expected = conv2d_by_definition(array(x), array(layer.weight), 2, 2) + array(layer.bias)[:, None, None]
    close(layer(x), expected)


def test_conv1d_is_a_conv2d_of_one_row():
    layer, x = nn.Conv1d(2, 3, 3, padding=1, bias=False), random(2, 2, 7)
    padded = np.pad(array(x), ((0, 0), (0, 0), (1, 1)))[:, :, None]
    close(layer(x), conv2d_by_definition(padded, array(layer.weight)[:, :, None], 1, 1)[:, :, 0])


def test_batch_norm_normalises_and_tracks():
    layer, x = nn.BatchNorm2d(3, momentum=0.25), random(4, 3, 2, 5)
    values = array(x)
    mean, variance = values.mean((0, 2, 3)), values.var((0, 2, 3))
    shape = (1, 3, 1, 1)
    close(layer(x), (values - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + 1e-5))
    close(layer.running_mean, 0.25 * mean)
    close(layer.running_var, 0.75 + 0.25 * variance * 40 / 39)
    assert layer.num_batches_tracked.item() == 1
    running = array(layer.running_mean), array(layer.running_var)
    layer.eval()
    close(layer(x), (values - running[0].reshape(shape)) / np.sqrt(running[1].reshape(shape) + 1e-5))
    assert layer.num_batches_tracked.item() == 1


def test_batch_norm_without_momentum_averages_all_batches():
    layer, x, y = nn.BatchNorm1d(2, momentum=None), random(6, 2), random(6, 2) * 3 + 1
    layer(x), layer(y)
    close(layer.running_mean, (array(x).mean(0) + array(y).mean(0)) / 2)


def test_batch_norm_without_running_statistics_uses_the_batch_in_evaluation():
    layer, x = nn.BatchNorm1d(2, track_running_stats=False, affine=False).eval(), random(6, 2)
    assert list(layer.state_dict()) == [] and layer.running_mean is None
    close(layer(x), (array(x) - array(x).mean(0)) / np.sqrt(array(x).var(0) + 1e-5))


def test_batch_norm_without_bias_only_scales():
    assert list(dict(nn.BatchNorm1d(2, bias=False).named_parameters())) == ["weight"]


def test_old_batch_norm_checkpoints_have_no_counter():
    state = nn.BatchNorm1d(2).state_dict()
    del state["num_batches_tracked"]
    state._metadata.clear()
    layer = nn.BatchNorm1d(2)
    layer(random(4, 2))
    layer.load_state_dict(state)
    assert layer.num_batches_tracked.item() == 1
    state._metadata[""] = {"version": 2}
    with pytest.raises(RuntimeError, match='Missing key.*"num_batches_tracked"'):
        layer.load_state_dict(state)
    empty = nn.BatchNorm1d(2, device="meta")
    empty.load_state_dict({}, assign=True, strict=False)
    assert empty.num_batches_tracked.device.type == "cpu" and empty.running_mean.is_meta


def normalised(values, axes, eps=1e-5):
    return (values - values.mean(axes, keepdims=True)) / np.sqrt(values.var(axes, keepdims=True) + eps)


def test_norms_within_a_sample():
    x = random(2, 4, 3, 5)
    values = array(x)
    close(nn.LayerNorm(5)(x), normalised(values, 3))
    close(nn.LayerNorm((3, 5))(x), normalised(values, (2, 3)))
    close(nn.InstanceNorm2d(4)(x), normalised(values, (2, 3)))
    close(nn.InstanceNorm2d(4)(x[0]), normalised(values[0], (1, 2)))
    close(nn.GroupNorm(2, 4)(x), normalised(values.reshape(2, 2, -1), 2).reshape(values.shape))
    close(nn.RMSNorm(5, eps=1e-3)(x), values / np.sqrt((values**2).mean(3, keepdims=True) + 1e-3))
    neighbours = np.pad(values**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    mean = (neighbours[:, :-2] + neighbours[:, 1:-1] + neighbours[:, 2:]) / 3
    close(nn.LocalResponseNorm(3, alpha=0.5)(x), values / (1 + 0.5 * mean) ** 0.75)


def test_instance_norm_tracks_the_mean_over_the_batch():
    layer, x = nn.InstanceNorm1d(3, affine=True, track_running_stats=True), random(4, 3, 7)
    layer(x)
    values = array(x)
    close(layer.running_mean, 0.1 * values.mean((0, 2)))
    close(layer.running_var, 0.9 + 0.1 * values.var(2, ddof=1).mean(0))
    layer.eval()
    mean, variance = (array(t)[:, None] for t in (layer.running_mean, layer.running_var))
    close(layer(x), (values - mean) / np.sqrt(variance + 1e-5))


def test_pooling():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert nn.MaxPool2d(2)(x).tolist() == [[[[5, 7], [13, 15]]]]
    assert nn.AvgPool2d(2)(x).tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
    assert nn.AdaptiveAvgPool2d(1)(x).tolist() == [[[[7.5]]]]
    assert nn.AdaptiveAvgPool2d((2, None))(x).shape == torch.Size([1, 1, 2, 4])
    values, places = nn.MaxPool2d(2, stride=1, return_indices=True)(x)
    assert values[0, 0, 0].tolist() == [5, 6, 7] and places[0, 0, 0].tolist() == [5, 6, 7]
    line = torch.tensor([[[1.0, 5.0, 2.0, 8.0, 3.0]]])
    assert nn.MaxPool1d(2)(line).tolist() == [[[5, 8]]]
    assert nn.MaxPool1d(2, ceil_mode=True)(line).tolist() == [[[5, 8, 3]]]
    assert nn.AvgPool1d(3, stride=2, padding=1)(line).tolist() == [[[2.0, 5.0, pytest.approx(11 / 3)]]]
    values, places = nn.AdaptiveMaxPool1d(2, return_indices=True)(line)
    assert values.tolist() == [[[5, 8]]] and places.tolist() == [[[1, 3]]]


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


ACTIVATIONS = {
    "ReLU": lambda v: np.maximum(v, 0),
    "ReLU6": lambda v: np.clip(v, 0, 6),
    "LeakyReLU": lambda v: np.where(v > 0, v, 0.01 * v),
    "RReLU": lambda v: np.where(v > 0, v, 11 / 48 * v),
    "PReLU": lambda v: np.where(v > 0, v, 0.25 * v),
    "ELU": lambda v: np.where(v > 0, v, np.expm1(v)),
    "CELU": lambda v: np.where(v > 0, v, np.expm1(v)),
    "SELU": lambda v: 1.0507009873554805 * np.where(v > 0, v, 1.6732632423543772 * np.expm1(v)),
    "GELU": lambda v: v * np.vectorize(lambda t: 0.5 * (1 + math.erf(t / math.sqrt(2))))(v),
    "SiLU": lambda v: v * sigmoid(v),
    "Mish": lambda v: v * np.tanh(np.log1p(np.exp(v))),
    "Softplus": lambda v: np.log1p(np.exp(v)),
    "Softsign": lambda v: v / (1 + np.abs(v)),
    "Softshrink": lambda v: np.sign(v) * np.maximum(np.abs(v) - 0.5, 0),
    "Hardshrink": lambda v: np.where(np.abs(v) > 0.5, v, 0),
    "Tanhshrink": lambda v: v - np.tanh(v),
    "Hardtanh": lambda v: np.clip(v, -1, 1),
    "Hardswish": lambda v: v * np.clip(v + 3, 0, 6) / 6,
    "Hardsigmoid": lambda v: np.clip(v + 3, 0, 6) / 6,
    "LogSigmoid": lambda v: -np.log1p(np.exp(-v)),
    "Sigmoid": sigmoid,
    "Tanh": np.tanh,
    "Identity": lambda v: v,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    x = torch.tensor([-7.0, -2.5, -0.75, -0.25, 0.0, 0.25, 0.75, 2.5, 7.0])
    close(getattr(nn, name)().eval()(x), ACTIVATIONS[name](array(x)), 2e-5)


def test_activations_with_options():
    x = torch.tensor([-2.0, -0.5, 0.5, 2.0])
    values = array(x)
    inner = np.sqrt(2 / np.pi) * (values + 0.044715 * values**3)
    close(nn.GELU("tanh")(x), 0.5 * values * (1 + np.tanh(inner)))
    close(nn.Threshold(0.6, -1.0)(x), [-1, -1, -1, 2])
    close(nn.Hardtanh(-0.25, 1.0)(x), [-0.25, -0.25, 0.5, 1])
    close(nn.Softplus(beta=2)(x), np.log1p(np.exp(2 * values)) / 2)
    close(nn.GLU()(x), values[:2] * sigmoid(values[2:]))
    exponentials = np.exp(values)
    close(nn.Softmax(0)(x), exponentials / exponentials.sum())
    close(nn.LogSoftmax(0)(x), values - np.log(exponentials.sum()))
    close(nn.Softmin(0)(x), (1 / exponentials) / (1 / exponentials).sum())


def test_inplace_activations_overwrite_their_input():
    x = torch.tensor([-1.0, 2.0])
    assert nn.ReLU(inplace=True)(x) is x and x.tolist() == [0, 2]
    assert F.leaky_relu_(torch.tensor([-1.0]), 0.5).tolist() == [-0.5]


def test_rrelu_draws_slopes_in_training():
    x = -torch.ones(1000)
    slopes = -array(nn.RReLU()(x))
    assert slopes.min() >= 1 / 8 and slopes.max() <= 1 / 3 and slopes.std() > 0.05


def test_dropout_keeps_the_mean_and_does_nothing_in_evaluation():
    x = torch.ones(20000)
    dropped = array(nn.Dropout(0.25)(x))
    assert set(np.unique(dropped.round(5))) == {0.0, round(4 / 3, 5)}
    assert dropped.mean() == pytest.approx(1, abs=0.02)
    assert nn.Dropout(0.25).eval()(x).tolist() == x.tolist()
    assert nn.Dropout(1.0)(x).abs().sum().item() == 0


def test_feature_dropout_zeroes_whole_channels():
    channels = array(nn.Dropout2d(0.5)(torch.ones(50, 8, 3, 3))).reshape(400, 9)
    assert (channels == channels[:, :1]).all() and set(np.unique(channels)) == {0.0, 2.0}
    channels = array(nn.Dropout1d(0.5)(torch.ones(400, 5)))
    assert (channels == channels[:, :1]).all() and set(np.unique(channels)) == {0.0, 2.0}
    assert nn.Dropout2d(1.0)(torch.ones(2, 3, 4, 4)).abs().sum().item() == 0


def test_alpha_dropout_keeps_mean_and_variance():
    x = torch.randn(40000)
    dropped = array(nn.AlphaDropout(0.3)(x))
    assert dropped.mean() == pytest.approx(0, abs=0.03) and dropped.std() == pytest.approx(1, abs=0.03)


def test_embedding_looks_up_rows_and_spares_the_padding():
    table = nn.Embedding(5, 2, padding_idx=1)
    index = torch.tensor([[0, 1], [4, 0]])
    found = table(index)
    close(found, array(table.weight)[[[0, 1], [4, 0]]])
    found.sum().backward()
    assert table.weight.grad.tolist() == [[2, 2], [0, 0], [0, 0], [0, 0], [1, 1]]
    frozen = nn.Embedding.from_pretrained(torch.ones(3, 2))
    assert not frozen.weight.requires_grad and frozen.num_embeddings == 3


def test_flattening_and_unflattening():
    x = torch.zeros(2, 3, 4)
    assert nn.Flatten()(x).shape == torch.Size([2, 12])
    assert nn.Flatten(0, 1)(x).shape == torch.Size([6, 4])
    assert nn.Unflatten(2, (2, -1))(x).shape == torch.Size([2, 3, 2, 2])


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (lambda: nn.ReflectionPad1d((2, 1)), [[2, 1, 0, 1, 2, 1]]),
        (lambda: nn.ReplicationPad1d((1, 4)), [[0, 0, 1, 2, 2, 2, 2, 2]]),
        (lambda: nn.CircularPad1d((2, 1)), [[1, 2, 0, 1, 2, 0]]),
        (lambda: nn.ConstantPad1d((1, -1), 5.0), [[5, 0, 1]]),
        (lambda: nn.ZeroPad1d(1), [[0, 0, 1, 2, 0]]),
    ],
)
def test_padding_of_a_line(layer, expected):
    assert layer()(torch.tensor([[0.0, 1.0, 2.0]])).tolist() == expected


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding_by_the_input_needs_elements(mode):
    for shape, padding, ranks in (
        ((3, 0, 10), (2, 2), "2D or 3D"),
        ((0, 10, 10), (1, 1, 1, 1), "3D or 4D"),
        ((3, 2, 0, 10, 10), (1,) * 6, "4D or 5D"),
    ):
        with pytest.raises(RuntimeError, match=rf"^Expected {ranks} \(batch mode\) tensor .*got: \[{shape[0]}, "):
            F.pad(torch.ones(shape), padding, mode)
    assert F.pad(torch.ones(0, 3, 10), (2, 2), mode).shape == (0, 3, 14)
    with pytest.raises(RuntimeError, match=r"input \(W: 4\) is too small. Calculated output W: -1"):
        F.pad(torch.ones(3, 2, 4), (0, -5), mode)
    with pytest.raises(RuntimeError, match=r"output H: 4 W: 0 must be >= 1 in every dimension \(input H: 4, W: 5\)"):
        F.pad(torch.ones(3, 2, 4, 5), (0, -5, 0, 0), mode)


@pytest.mark.parametrize(
    ("mode", "numpy_mode"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
)
def test_padding_of_images_and_its_gradient(mode, numpy_mode):
    x = random(2, 3, 4).requires_grad_()
    padded = F.pad(x, (1, 2, 0, 2), mode)
    close(padded, np.pad(array(x), ((0, 0), (0, 2), (1, 2)), mode=numpy_mode))
    padded.sum().backward()
    index = np.pad(np.arange(12).reshape(3, 4), ((0, 2), (1, 2)), mode=numpy_mode)
    close(x.grad, np.tile(np.bincount(index.ravel(), minlength=12).reshape(3, 4), (2, 1, 1)))


def test_upsampling_and_pixel_shuffle():
    x = torch.tensor([[[[1.0, 2.0]]]])
    assert nn.Upsample(scale_factor=2)(x).tolist() == [[[[1, 1, 2, 2], [1, 1, 2, 2]]]]
    assert nn.UpsamplingNearest2d(size=(1, 4))(x).tolist() == [[[[1, 1, 2, 2]]]]
    packed = torch.arange(8.0).reshape(1, 8, 1, 1)
    shuffled = nn.PixelShuffle(2)(packed)
    assert shuffled.tolist() == [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]]
    assert nn.PixelUnshuffle(2)(shuffled).tolist() == packed.tolist()


def log_softmax(values):
    return values - np.log(np.exp(values).sum(1, keepdims=True))


def test_cross_entropy():
    logits, target = random(6, 4), torch.tensor([0, 3, 1, 1, 2, 0])
    logs, index = log_softmax(array(logits)), np.array([0, 3, 1, 1, 2, 0])
    picked = -logs[np.arange(6), index]
    close(nn.CrossEntropyLoss()(logits, target), picked.mean())
    close(nn.CrossEntropyLoss(reduction="sum")(logits, target), picked.sum())
    close(nn.CrossEntropyLoss(reduction="none")(logits, target), picked)
    close(nn.CrossEntropyLoss(ignore_index=1)(logits, target), picked[index != 1].mean())
    weight = np.array([1.0, 2.0, 0.5, 3.0])
    weighted = nn.CrossEntropyLoss(weight=torch.tensor(weight.tolist()))
    close(weighted(logits, target), (picked * weight[index]).sum() / weight[index].sum())
    assert list(weighted.state_dict()) == ["weight"]
    close(
        nn.CrossEntropyLoss(label_smoothing=0.2)(logits, target), (0.8 * picked - 0.2 * logs.mean(1)).mean()
    )
    probabilities = np.full((6, 4), 0.25)
    close(nn.CrossEntropyLoss()(logits, torch.tensor(probabilities.tolist())), -logs.mean(1).mean())
    close(nn.NLLLoss()(F.log_softmax(logits, 1), target), picked.mean())


X, Y = np.array([[-1.5, 0.25, 2.0], [0.5, -0.5, 1.0]]), np.array([[0.0, 1.0, 0.5], [1.0, 0.25, 0.75]])
SIGNS = np.array([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]])
ERROR = np.abs(X - Y)
BCE = -(Y * np.log(sigmoid(X)) + (1 - Y) * np.log(1 - sigmoid(X)))
LOSSES = [
    ("MSELoss", {}, Y, ERROR**2),
    ("L1Loss", {}, Y, ERROR),
    ("SmoothL1Loss", {"beta": 0.5}, Y, np.where(ERROR < 0.5, ERROR**2, ERROR - 0.25)),
    ("HuberLoss", {"delta": 0.5}, Y, np.where(ERROR < 0.5, ERROR**2 / 2, 0.5 * (ERROR - 0.25))),
    ("BCEWithLogitsLoss", {}, Y, BCE),
    ("KLDivLoss", {"log_target": True}, Y, np.exp(Y) * (Y - X)),
    ("PoissonNLLLoss", {}, Y, np.exp(X) - Y * X),
    ("SoftMarginLoss", {}, SIGNS, np.log1p(np.exp(-SIGNS * X))),
    ("HingeEmbeddingLoss", {"margin": 0.5}, SIGNS, np.where(SIGNS == 1, X, np.maximum(0, 0.5 - X))),
    ("MultiLabelSoftMarginLoss", {}, Y, BCE.mean(1)),
]


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides the total loss")
@pytest.mark.parametrize(("name", "options", "target", "expected"), LOSSES, ids=[name for name, *_ in LOSSES])
def test_losses_in_every_reduction(name, options, target, expected):
    x, y = torch.tensor(X.tolist()), torch.tensor(target.tolist())
    make = getattr(nn, name)
    close(make(**options, reduction="none")(x, y), expected)
    close(make(**options, reduction="sum")(x, y), expected.sum())
    close(make(**options)(x, y), expected.mean())


REDUCED_AS_COMPUTED = [
    (F.mse_loss, {}, "MseLossBackward0"),
    (F.smooth_l1_loss, {"beta": 0.5}, "SmoothL1LossBackward0"),
    (F.huber_loss, {"delta": 0.7}, "HuberLossBackward0"),
    (F.binary_cross_entropy, {}, "BinaryCrossEntropyBackward0"),
    (F.binary_cross_entropy_with_logits, {}, "BinaryCrossEntropyWithLogitsBackward0"),
]


@pytest.mark.parametrize(("loss", "options", "node"), REDUCED_AS_COMPUTED, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("shape", [(7, 5), (300, 301), (2, 40, 40, 41)])
def test_a_reduced_loss_has_the_bits_of_its_elements_reduced(loss, options, node, shape):
    """The elements of large ones are summed as they are computed."""
    for dtype in (torch.float32, torch.float64):
        x, y = torch.rand(shape, dtype=dtype), torch.rand(shape, dtype=dtype)
        every = loss(x, y, reduction="none", **options)
        n = every.numel()
        for reduction, expected, scale in (("sum", every.sum(), 1.0), ("mean", every.sum() / n, 1.0 / n)):
            assert loss(x, y, reduction=reduction, **options).item() == expected.item()
            leaf = x.clone().requires_grad_()
            reduced = loss(leaf, y, reduction=reduction, **options)
            assert type(reduced.grad_fn).__name__ == node
            assert reduced.item() == expected.item() and reduced.shape == ()
            reduced.backward()
            other = x.clone().requires_grad_()
            loss(other, y, reduction="none", **options).backward(torch.full(shape, scale, dtype=dtype))
            assert torch.equal(leaf.grad, other.grad)


def test_a_large_reduced_loss_is_differentiated_twice_and_by_both_inputs():
    x, y = torch.rand(300, 300, requires_grad=True), torch.rand(300, 300, requires_grad=True)
    loss = F.mse_loss(x, y, reduction="sum")
    by_x, by_y = torch.autograd.grad(loss, (x, y), create_graph=True)
    assert torch.equal(by_x, 2 * (x - y)) and torch.equal(by_y, -by_x)
    assert torch.equal(torch.autograd.grad(by_x.sum(), x)[0], torch.full((300, 300), 2.0))


def test_a_large_loss_of_channels_last_images_is_what_it_was():
    x, y = torch.rand(8, 16, 32, 32), torch.rand(8, 16, 32, 32)
    turned = [t.contiguous(memory_format=torch.channels_last) for t in (x, y)]
    every = F.mse_loss(*turned, reduction="none")
    assert F.mse_loss(*turned, reduction="sum").item() == every.sum().item()
    assert F.mse_loss(turned[0], y, reduction="sum").item() == F.mse_loss(turned[0], y, reduction="none").sum().item()


def test_losses_of_probabilities_and_weights():
    p, y = torch.tensor(sigmoid(X).tolist()), torch.tensor(Y.tolist())
    close(nn.BCELoss()(p, y), BCE.mean())
    weight = np.array([1.0, 2.0, 3.0])
    expected = -(weight * Y * np.log(sigmoid(X)) + (1 - Y) * np.log(1 - sigmoid(X)))
    loss = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(weight.tolist()))
    close(loss(torch.tensor(X.tolist()), y), expected.mean())
    variance = np.array([[1.0], [0.5]])
    gaussian = 0.5 * (np.log(variance) + (X - Y) ** 2 / variance)
    close(nn.GaussianNLLLoss()(torch.tensor(X.tolist()), y, torch.tensor(variance.tolist())), gaussian.mean())
    with pytest.raises(ValueError, match="var has negative entry/entries"):
        nn.GaussianNLLLoss()(p, y, -p)


def test_losses_of_several_inputs():
    a, b = torch.tensor(X.tolist()), torch.tensor(Y.tolist())
    sign = np.array([1.0, -1.0])
    cosine = (X * Y).sum(1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Y, axis=1)
    close(nn.CosineSimilarity()(a, b), cosine)
    expected = np.where(sign == 1, 1 - cosine, np.maximum(0, cosine - 0.1))
    close(nn.CosineEmbeddingLoss(0.1)(a, b, torch.tensor(sign.tolist())), expected.mean())
    ranking = np.maximum(0, -SIGNS * (X - Y) + 0.1)
    close(nn.MarginRankingLoss(0.1)(a, b, torch.tensor(SIGNS.tolist())), ranking.mean())
    near = np.linalg.norm(X - Y + 1e-6, axis=1)
    close(nn.PairwiseDistance()(a, b), near)
    far = np.linalg.norm(X - SIGNS + 1e-6, axis=1)
    close(nn.TripletMarginLoss()(a, b, torch.tensor(SIGNS.tolist())), np.maximum(0, near - far + 1).mean())
    index = np.array([2, 0])
    gaps = np.maximum(0, 1 - X[np.arange(2), index][:, None] + X)
    gaps[np.arange(2), index] = 0
    close(nn.MultiMarginLoss()(a, torch.tensor(index.tolist())), gaps.mean())


def test_older_reduction_arguments_warn():
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert nn.MSELoss(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="please use reduction='none' instead"):
        assert nn.MSELoss(reduce=False).reduction == "none"


def test_normalize_and_one_hot():
    close(F.normalize(torch.tensor([[3.0, 4.0], [0.0, 0.0]])), [[0.6, 0.8], [0, 0]])
    assert F.one_hot(torch.tensor([[1], [0]]), 3).tolist() == [[[0, 1, 0]], [[1, 0, 0]]]
    assert F.one_hot(torch.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]


def test_gumbel_softmax_draws_classes_with_their_probabilities():
    logits = torch.tensor([math.log(0.2), math.log(0.8)]).expand(5000, 2)
    soft = F.gumbel_softmax(logits)
    close(soft.sum(-1), np.ones(5000))
    hard = F.gumbel_softmax(logits, hard=True)
    assert set(np.unique(array(hard).round(5))) == {0.0, 1.0}
    assert array(hard)[:, 1].mean() == pytest.approx(0.8, abs=0.03)


def gradients(*values):
    parameters = [nn.Parameter(torch.zeros(len(value))) for value in values]
    for parameter, value in zip(parameters, values, strict=True):
        parameter.grad = torch.tensor(value)
    return parameters


def test_clipping_by_norm_scales_all_gradients_together():
    parameters = gradients([3.0, 0.0], [4.0]) + [nn.Parameter(torch.zeros(1))]
    assert nn.utils.clip_grad_norm_(parameters, 1.0).item() == pytest.approx(5)
    close(parameters[0].grad, [0.6, 0])
    close(parameters[1].grad, [0.8])
    nn.utils.clip_grad_norm_(parameters, 10.0)
    close(parameters[1].grad, [0.8])
    assert nn.utils.clip_grad_norm_(gradients([3.0, -9.0], [4.0]), 1.0, math.inf).item() == 9
    assert nn.utils.get_total_norm([torch.tensor([1.0, -2.0])], 1).item() == 3
    assert nn.utils.get_total_norm([]).item() == 0


def test_clipping_a_norm_that_is_not_finite_may_be_an_error():
    with pytest.raises(
        RuntimeError, match="The total norm of order 2.0 for gradients from `parameters` is non-finite"
    ):
        nn.utils.clip_grad_norm_(gradients([math.inf]), 1.0, error_if_nonfinite=True)


def test_clipping_by_value():
    (parameter,) = gradients([3.0, -0.5, -4.0])
    nn.utils.clip_grad_value_(parameter, 1)
    assert parameter.grad.tolist() == [1, -0.5, -1]


def test_parameters_become_a_vector_and_back():
    layer = nn.Linear(2, 1)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    close(vector, [*array(layer.weight).ravel(), *array(layer.bias)])
    nn.utils.vector_to_parameters(torch.tensor([1.0, 2.0, 3.0]), layer.parameters())
    assert layer.weight.tolist() == [[1, 2]] and layer.bias.tolist() == [3]


def test_a_network_learns_exclusive_or():
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = torch.tensor([0, 1, 1, 0])
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    loss = nn.CrossEntropyLoss()
    for _ in range(300):
        net.zero_grad()
        loss(net(x), y).backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 0.5 * parameter.grad
    assert net(x).argmax(1).tolist() == y.tolist()


def test_choosing_the_dimension_of_a_softmax_by_rank_warns():
    x = torch.zeros(2, 3)
    for function in (F.softmax, F.log_softmax, F.softmin):
        with pytest.warns(
            UserWarning, match=f"Implicit dimension choice for {function.__name__} has been deprecated"
        ):
            assert function(x).shape == (2, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            function(x, dim=1)


def test_padding_lies_within_the_embeddings():
    table, index = torch.ones(3, 2), torch.tensor([1])
    for padding in (3, -4):
        with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
            F.embedding(index, table, padding_idx=padding)
        with pytest.raises(RuntimeError, match=f"number of embeddings, -3 through 2, but got {padding}"):
            F.embedding_bag(index, table, torch.tensor([0]), padding_idx=padding)


def test_pretrained_embeddings_take_options_by_position():
    table = nn.Embedding.from_pretrained(torch.ones(4, 2), False, 1)
    assert table.padding_idx == 1 and table.weight.requires_grad
    bags = nn.EmbeddingBag.from_pretrained(torch.ones(4, 2), True, None, 2.0, False, "sum")
    assert bags.mode == "sum" and not bags.weight.requires_grad


def test_the_statistics_of_a_group_norm_are_recorded_with_its_parameters():
    weight = torch.ones(6, requires_grad=True)
    out, mean, scale = torch.native_group_norm(torch.rand(2, 6, 5), weight, None, 2, 6, 5, 2, 1e-5)
    assert mean.requires_grad and scale.requires_grad
    (out.sum() * 0 + mean.sum() + scale.sum()).backward()
    assert torch.equal(weight.grad, torch.zeros(6))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda F, x: F.rms_norm(x, [3], torch.ones(1)), r"Expected weight to be of same shape .* shape \[1\]"),
        (lambda F, x: F.multi_margin_loss(x, torch.zeros(2)), "expected scalar type Long but found Float"),
        (lambda F, x: F.max_unpool1d(x, torch.zeros(2, 3), 2), "indices should be type int64 but got: Float"),
        (lambda F, x: F.adaptive_max_pool1d(x, (1, 2)), r"should contain one int \(got 2\)"),
        (lambda F, x: F.linear_cross_entropy(x, torch.ones(3), torch.tensor([0, 0])), "dimensionality at least 2"),
        (
            lambda F, x: F.linear_cross_entropy(x, torch.ones(4, 3), torch.tensor([0, 0]), label_smoothing=2.0),
            r"label_smoothing to be in range \[0, 1\], got 2.0",
        ),
        (
            lambda F, x: F.linear_cross_entropy(x, torch.ones(4, 3), torch.ones(2, 4), ignore_index=1),
            "ignore_index cannot be specified when target contains probabilities",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_pytorchs_words(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(nn.functional, torch.ones(2, 3))
