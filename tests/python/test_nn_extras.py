"""Seldom used modules and functions of networks, beside PyTorch's values."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing

import pytest
import reference
import reference_nn

import rgrad as torch
from rgrad import nn
from rgrad.autograd import gradcheck, gradgradcheck
from rgrad.nn import functional as F
from rgrad.nn.utils import prune

VALUES = reference.read(reference_nn.__file__)


@pytest.mark.parametrize("name", reference_nn.CASES)
def test_values_and_gradients_are_those_of_pytorch(name):
    tolerance = 2e-6 if name in ("rows in groups", "pairs", "columns in groups", "sums in groups") else 1e-9
    reference.check(reference_nn.CASES[name](torch), VALUES[name], tolerance)


def test_every_reference_value_has_its_case():
    assert VALUES.keys() == reference_nn.CASES.keys()


def data(*shape: int) -> torch.Tensor:
    return reference.wave(torch, *shape).requires_grad_()


def test_fractional_pooling_draws_its_windows():
    x = torch.arange(400.0).view(1, 1, 20, 20)
    first, second = (F.fractional_max_pool2d(x, 2, output_size=13) for _ in range(2))
    assert first.shape == (1, 1, 13, 13) and not torch.equal(first, second)
    rows = first[0, 0, :, 0] // 20
    assert {1.0, 2.0} == set((rows[1:] - rows[:-1]).tolist()) and rows[-1] == 19
    torch.manual_seed(3)
    drawn = F.fractional_max_pool2d(x, 2, output_size=13)
    torch.manual_seed(3)
    assert torch.equal(drawn, F.fractional_max_pool2d(x, 2, output_size=13, _random_samples=torch.rand(1, 1, 2)))


def test_fractional_pooling_finds_a_nan_and_takes_one_sample():
    x = torch.ones(2, 6, 6)
    x[1, 2, 2] = float("nan")
    pooled, indices = nn.FractionalMaxPool2d(3, output_size=4, return_indices=True)(x)
    assert pooled.shape == (2, 4, 4) and not pooled[0].isnan().any() and pooled[1, 1, 1].isnan()
    assert indices[1, 1, 1] == 14


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: F.fractional_max_pool2d(x, 3), ValueError, "requires specifying either an output_size or"),
        (
            lambda x: F.fractional_max_pool2d(x, 3, 7),
            RuntimeError,
            "pool height 3 too large relative to input height 8",
        ),
        (lambda x: F.fractional_max_pool2d(x, 3, (4, 8)), RuntimeError, "pool width 3 too large"),
        (lambda x: F.fractional_max_pool2d(x, 0, 2), RuntimeError, "must be positive"),
        (lambda x: F.fractional_max_pool3d(x, 3, 2), RuntimeError, "pool time 3 too large"),
        (lambda x: F.fractional_max_pool2d(x[None], 3, 2), RuntimeError, "Expected 3D or 4D tensor"),
        (lambda x: F.fractional_max_pool2d(x[:, :0], 3, 2), RuntimeError, "dimension 1 being empty"),
        (
            lambda x: F.fractional_max_pool2d(x, 3, 2, _random_samples=torch.rand(2, 2, 2)),
            RuntimeError,
            "equals to input channel size",
        ),
        (lambda x: nn.FractionalMaxPool2d(3), ValueError, "requires specifying either an output size, or"),
        (lambda x: nn.FractionalMaxPool2d(3, 4, 0.5), ValueError, "only one of output_size and output_ratio"),
        (lambda x: nn.FractionalMaxPool3d(3, output_ratio=1.5), ValueError, "must be between 0 and 1"),
    ],
)
def test_fractional_pooling_refuses_what_does_not_fit(call, error, words):
    with pytest.raises(error, match=words):
        call(torch.ones(2, 3, 8, 9))


def test_the_adaptive_softmax_is_a_distribution_and_refuses_other_targets():
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10])
    assert torch.allclose(layer.log_prob(torch.randn(3, 16)).exp().sum(1), torch.ones(3))
    assert layer.predict(torch.randn(0, 16)).shape == (0,)
    assert layer(torch.randn(0, 16), torch.empty(0, dtype=torch.int64)).loss.isnan()
    for target, words in (
        (torch.tensor([1, 20]), r"should be in \[0, 19\], but values in range \[1, 20\]"),
        (torch.tensor([1, 2, 3]), "same size in the batch dimension"),
        (torch.tensor(1), "0D target tensor expects 1D input"),
        (torch.tensor([[1], [2]]), "multi-target not supported"),
    ):
        with pytest.raises(RuntimeError, match=words):
            layer(torch.randn(2, 16), target)
    for cutoffs in ([], [5, 5], [10, 5], [0], [5.5], [20]):
        with pytest.raises(ValueError, match="cutoffs should be a sequence"):
            nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs)


def test_a_loss_in_parts_is_the_loss_at_once():
    x, weight = data(7, 3), data(5, 3)
    factors = torch.rand(5, dtype=torch.float64)
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=3)
    for target in (torch.tensor([0, 1, 2, 3, 4, 0, 1]), torch.rand(7, 5, dtype=torch.float64)):
        for reduction in ("mean", "sum", "none"):
            settings = {"weight": factors, "reduction": reduction, "label_smoothing": 0.1}
            whole = F.linear_cross_entropy(x, weight, target, **settings)
            parts = F.linear_cross_entropy(x, weight, target, **settings, options=options)
            assert torch.allclose(whole, parts)
            grads = [torch.autograd.grad(value.sum(), [x, weight]) for value in (whole, parts)]
            assert all(torch.allclose(a, b) for a, b in zip(*grads, strict=True))


def test_filtered_resizing_has_second_derivatives():
    x = data(1, 1, 5, 4)
    for mode in ("bilinear", "bicubic", "lanczos"):

        def resize(x: torch.Tensor, mode: str = mode) -> torch.Tensor:
            return F.interpolate(x, (3, 6), mode=mode, antialias=True) ** 2

        assert gradcheck(resize, x) and gradgradcheck(resize, x)


def test_filtered_resizing_keeps_constants_and_the_memory_format():
    image = torch.full((1, 3, 8, 6), 0.7).contiguous(memory_format=torch.channels_last)
    small = F.interpolate(image, scale_factor=0.5, mode="bicubic", antialias=True)
    assert small.shape == (1, 3, 4, 3) and torch.allclose(small, torch.full_like(small, 0.7))
    assert small.is_contiguous(memory_format=torch.channels_last)


def test_filtered_resizing_on_the_gpu_is_that_of_the_cpu(gpu):
    x = torch.rand(1, 2, 9, 7)
    for mode in ("bilinear", "bicubic", "lanczos"):
        on_gpu = F.interpolate(x.to(gpu), (4, 10), mode=mode, antialias=True)
        assert on_gpu.device.type == gpu.type
        assert torch.allclose(on_gpu.cpu(), F.interpolate(x, (4, 10), mode=mode, antialias=True), atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"size": 3, "mode": "nearest", "antialias": True}, ValueError, "restricted to bilinear, bicubic, and lanczos"),
        ({"size": 3, "mode": "lanczos"}, ValueError, "Lanczos mode requires antialias=True"),
        (
            {"size": 3, "mode": "area", "antialias": True, "align_corners": False},
            ValueError,
            "align_corners option can only be set",
        ),
        (
            {"size": 3, "mode": "area", "antialias": True, "recompute_scale_factor": True},
            ValueError,
            "is not meaningful with an explicit size",
        ),
        ({"mode": "bilinear", "antialias": True}, ValueError, "either size or scale_factor"),
        ({"size": 3, "scale_factor": 2, "mode": "bilinear", "antialias": True}, ValueError, "only one of size or"),
        ({"size": (1, 2, 3), "mode": "bilinear", "antialias": True}, ValueError, "same number of spatial dimensions"),
        ({"size": 0, "mode": "bilinear", "antialias": True}, RuntimeError, "should be greater than 0"),
    ],
)
def test_filtered_resizing_refuses_what_it_cannot_do(settings, error, words):
    with pytest.raises(error, match=words):
        F.interpolate(torch.ones(1, 1, 4, 4), **settings)
    with pytest.raises(NotImplementedError, match="not implemented for"):
        F.interpolate(torch.ones(1, 1, 4, 4).half(), 2, mode="bilinear", antialias=True)


def test_groups_have_gradients_and_refuse_what_does_not_fit():
    a, b = torch.randn(6, 4, requires_grad=True), torch.randn(2, 4, 3, requires_grad=True)
    ends = torch.tensor([2, 5], dtype=torch.int32)
    out = F.grouped_mm(a, b, offs=ends)
    out.sum().backward()
    assert torch.equal(out[5], torch.zeros(3)) and torch.equal(a.grad[5], torch.zeros(4))
    assert torch.allclose(b.grad[1], a[2:5].detach().sum(0).unsqueeze(1).expand(4, 3), atol=1e-6)
    for call, words in (
        (lambda: F.grouped_mm(a, b), "Have to provide offsets"),
        (lambda: F.grouped_mm(a, b, offs=ends.long()), "have to be int32"),
        (lambda: F.grouped_mm(a, b, offs=ends[:1]), "batch sizes have to match"),
        (lambda: F.grouped_mm(a.double(), b.double(), offs=ends), "Expected mat_a to be Float32"),
        (lambda: F.grouped_mm(a, b, offs=ends + 2), "exceed the size 6"),
        (lambda: F.grouped_mm(a, b.transpose(1, 2), offs=ends), "contraction dimension"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()


def test_gradients_of_convolutions_have_gradients():
    weight, g = data(3, 2, 3), data(1, 3, 5)
    assert gradcheck(lambda w, g: nn.grad.conv1d_input((1, 2, 5), w, g, padding=1), (weight, g))
    assert not nn.grad.conv1d_input((1, 2, 5), weight.detach(), g.detach(), padding=1).requires_grad


def test_new_modules_can_be_copied():
    for module in (nn.CrossMapLRN2d(3), nn.FractionalMaxPool2d(2, 3), nn.LinearCrossEntropyLoss(2, 3)):
        assert repr(copy.deepcopy(module)) == repr(module)
    with pytest.raises(ValueError, match="Expected input to be 4D, got 3D instead"):
        nn.CrossMapLRN2d(3)(torch.ones(2, 3, 4))


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_an_orthogonal_weight_stays_one_and_can_be_assigned(kind, shape):
    layer = nn.utils.parametrizations.orthogonal(nn.Linear(*shape).double(), orthogonal_map=kind)
    one = torch.eye(min(shape), dtype=torch.float64)

    def product(w: torch.Tensor) -> torch.Tensor:
        return w @ w.T if w.size(0) < w.size(1) else w.T @ w

    assert torch.allclose(product(layer.weight), one)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    before = layer.weight.detach()
    layer(torch.ones(2, shape[0], dtype=torch.float64)).square().sum().backward()
    optimizer.step()
    assert torch.allclose(product(layer.weight), one) and not torch.allclose(layer.weight, before)
    layer.weight = before
    assert torch.allclose(layer.weight, before)
    batch = nn.utils.parametrizations.orthogonal(nn.Conv2d(3, 4, 3), orthogonal_map=kind).weight
    assert torch.allclose(batch @ batch.mT, torch.eye(3).expand(4, 3, 3, 3), atol=1e-5)


def test_orthogonal_weights_refuse_what_they_are_not():
    orthogonal = nn.utils.parametrizations.orthogonal
    with pytest.raises(ValueError, match='has to be one of "matrix_exp", "cayley", "householder". Got: foo'):
        orthogonal(nn.Linear(3, 3), orthogonal_map="foo")
    with pytest.raises(ValueError, match="no parameter or buffer with name 'foo'"):
        orthogonal(nn.Linear(3, 3), "foo")
    with pytest.raises(ValueError, match="Got a tensor of 1 dimensions"):
        orthogonal(nn.Linear(3, 3), "bias")
    layer = orthogonal(nn.Linear(3, 3), orthogonal_map="cayley", use_trivialization=False)
    with pytest.raises(NotImplementedError, match="not possible to assign to the matrix exponential or the Cayley"):
        layer.weight = torch.eye(3)


def test_random_pruning_keeps_what_is_left_and_prunes_no_more_than_asked():
    layer = nn.Linear(6, 10)
    prune.random_unstructured(layer, "weight", 0.25)
    assert layer.weight_mask.sum() == 45
    first = layer.weight_mask
    prune.random_unstructured(layer, "weight", 0.2)
    assert layer.weight_mask.sum() == 36 and torch.equal(layer.weight_mask, layer.weight_mask * first)
    prune.random_structured(layer, "weight", 3, 0)
    empty = (layer.weight == 0).all(1)
    assert empty.sum() == 3 and prune.is_pruned(nn.Sequential(layer))
    (hook,) = layer._forward_pre_hooks.values()
    assert [type(method).__name__ for method in hook] == [
        "RandomUnstructured",
        "RandomUnstructured",
        "RandomStructured",
    ]


def test_a_pruned_parameter_is_trained_only_where_it_is_left():
    layer = prune.l1_unstructured(nn.Linear(3, 2), "weight", 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    layer(torch.ones(1, 3))
    assert torch.equal(layer.weight == 0, layer.weight_mask == 0) and layer.weight_orig.grad.eq(0).sum() == 2
    values = layer.weight.detach()
    prune.remove(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter) and torch.equal(layer.weight, values) and not layer._forward_pre_hooks
    assert list(layer.state_dict()) == ["bias", "weight"] and not prune.is_pruned(layer)


class Every3rd(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        mask.view(-1)[::3] = 0
        return mask


def test_a_method_of_ones_own_prunes():
    layer = nn.Linear(3, 2)
    Every3rd.apply(layer, "weight")
    assert layer.weight_mask.tolist() == [[0, 1, 1], [0, 1, 1]]
    Every3rd.apply(layer, "weight")
    assert layer.weight_mask.tolist() == [[0, 0, 1], [0, 1, 0]]
    assert Every3rd().prune(torch.ones(4)).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda m: prune.l1_unstructured(m, "weight", -1), ValueError, "amount=-1 should either be a float"),
        (lambda m: prune.l1_unstructured(m, "weight", 1.5), ValueError, "amount=1.5 should either be a float"),
        (
            lambda m: prune.l1_unstructured(m, "weight", 7),
            ValueError,
            "smaller than the number of parameters to prune=6",
        ),
        (lambda m: prune.l1_unstructured(m, "weight", "x"), TypeError, "Invalid type for amount: x"),
        (lambda m: prune.l1_unstructured(m, "foo", 1), AttributeError, "has no attribute 'foo'"),
        (lambda m: prune.random_structured(m, "bias", 1, 0), ValueError, "only be applied to multidimensional"),
        (lambda m: prune.random_structured(m, "weight", 1, 2), IndexError, "Invalid index 2"),
        (lambda m: prune.custom_from_mask(m, "weight", torch.eye(4)), AssertionError, "must match self.mask shape"),
        (lambda m: prune.remove(m, "weight"), ValueError, "has to be pruned before pruning can be removed"),
        (
            lambda m: prune.global_unstructured([(m, "weight")], prune.LnStructured, n=1, amount=1),
            TypeError,
            'Only "unstructured" PRUNING_TYPE',
        ),
        (lambda m: prune.PruningContainer().add_pruning_method(3), TypeError, "is not a BasePruningMethod subclass"),
    ],
)
def test_a_refused_pruning_leaves_the_module_as_it_is(call, error, words):
    layer = nn.Linear(3, 2)
    with pytest.raises(error, match=words):
        call(layer)
    assert list(layer.state_dict()) == ["weight", "bias"] and not prune.is_pruned(layer)


def test_weights_of_convolutions_change_their_memory_format():
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ConvTranspose2d(3, 2, 3), nn.Conv3d(2, 2, 3))
    assert nn.utils.convert_conv2d_weight_memory_format(model, torch.channels_last) is model
    assert all(model[i].weight.is_contiguous(memory_format=torch.channels_last) for i in (0, 1))
    assert model[2].weight.is_contiguous()
    nn.utils.convert_conv3d_weight_memory_format(model, torch.channels_last_3d)
    assert model[2].weight.is_contiguous(memory_format=torch.channels_last_3d)


def test_a_replica_has_no_parameters_and_shares_the_rest():
    layer = nn.BatchNorm1d(3)
    replica = layer._replicate_for_data_parallel()
    assert replica._is_replica and list(replica.parameters()) == [] and replica.running_mean is layer.running_mean
    replica.weight, replica.running_mean = torch.ones(3), torch.zeros(3)
    assert layer.weight is dict(layer.named_parameters())["weight"] and replica.running_mean is not layer.running_mean


def test_older_names_warn():
    with pytest.warns(FutureWarning, match="`NLLLoss2d` has been deprecated"):
        loss = nn.NLLLoss2d()
    x, target = torch.randn(1, 3, 2, 2), torch.zeros(1, 2, 2, dtype=torch.int64)
    assert torch.equal(loss(x, target), F.nll_loss(x, target))
    with pytest.warns(FutureWarning, match="`nn.Container` is deprecated"):
        assert list(dict(nn.Container(a=nn.ReLU()).named_children())) == ["a"]


def test_arguments_for_factories_are_gathered():
    assert nn.factory_kwargs(None) == {}
    assert nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": 1}}) == {"dtype": 1, "device": "cpu"}
    with pytest.raises(TypeError, match="unexpected kwargs {'x'}"):
        nn.factory_kwargs({"x": 1})
    with pytest.raises(TypeError, match="device specified twice"):
        nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"device": "cpu"}})


def test_synchronized_normalization_takes_the_group_of_this_process():
    torch.distributed.init_process_group("gloo", world_size=1, rank=0)
    try:
        group = torch.distributed.group.WORLD
        model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(3)), group)
        assert isinstance(model[0], nn.SyncBatchNorm) and model[0].process_group is group
        x = torch.randn(2, 3, 4, 4)
        assert torch.equal(model(x), nn.BatchNorm2d(3)(x))
    finally:
        torch.distributed.destroy_process_group()


def test_weights_of_filters_made_in_inference_mode_are_used_in_training():
    with torch.inference_mode():
        F.interpolate(torch.ones(1, 1, 5, 5), (2, 3), mode="bicubic", antialias=True)
    x = torch.ones(1, 1, 5, 5, requires_grad=True)
    F.interpolate(x, (2, 3), mode="bicubic", antialias=True).sum().backward()
    assert x.grad.sum().item() == pytest.approx(6)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.multi_margin_loss(torch.ones(0), torch.ones(10).long()), RuntimeError, "Expected non-empty vector"),
        (lambda: F.multilabel_margin_loss(torch.ones(0), torch.ones(10).long()), RuntimeError, "Expected non-empty"),
        (lambda: F.unfold(torch.ones(0, 0, 3, 3), 2), RuntimeError, "other non-zero dimensions for input"),
        (lambda: F.fold(torch.ones(1, 8, 0), (3, 3), (2, 2)), RuntimeError, "possibly 0 batch size"),
        (lambda: F.fold(torch.ones(1, 12, 12), (4, 5), (2, 2), 8), RuntimeError, "blocks as .-4, -3., which is"),
        (lambda: F.ctc_loss(torch.zeros(3, 1, 2), torch.ones(1), [3.0], [1]), RuntimeError, "must be integral"),
        (
            lambda: F.ctc_loss(torch.zeros(3, 1, 2), torch.ones(1), [3], torch.ones(1)),
            RuntimeError,
            "target_lengths must be integral",
        ),
        (
            lambda: F.embedding_bag(torch.tensor([[4, 1]]), torch.ones(4, 2), padding_idx=0),
            RuntimeError,
            "Expected idx >= 0 && idx < num_embeddings but found idx to be 4",
        ),
        (
            lambda: F.embedding_bag(
                torch.tensor([[1]]), torch.ones(4, 2), mode="sum", per_sample_weights=torch.ones(1, 1).double()
            ),
            RuntimeError,
            "torch.FloatTensor does not equal torch.DoubleTensor",
        ),
    ],
)
def test_impossible_sizes_and_types_are_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_modules_take_empty_batches():
    assert nn.ChannelShuffle(3)(torch.ones(0, 6, 4, 4)).shape == (0, 6, 4, 4)
    layer = nn.TransformerEncoderLayer(8, 2, 16).eval()
    x = torch.ones(5, 0, 8, requires_grad=True)
    layer(x).sum().backward()
    assert layer(x).shape == x.grad.shape == x.shape
    assert F.fold(torch.ones(0, 8, 4), (3, 3), (2, 2)).shape == (0, 2, 3, 3)


def test_an_instance_norm_without_eps_normalizes_and_counts():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5)
    for affine in (False, True):
        exact, usual = (nn.InstanceNorm1d(3, eps=eps, affine=affine, track_running_stats=True) for eps in (0, 1e-12))
        assert torch.allclose(exact(x), usual(x), atol=1e-5)
        assert torch.allclose(exact.running_mean, usual.running_mean) and torch.allclose(
            exact.running_var, usual.running_var
        )


def test_the_angle_between_integers_and_numbers_is_that_of_numbers():
    x, y = torch.tensor([[3, 4]], dtype=torch.int8), torch.tensor([[4.0, 3.0]])
    assert F.cosine_similarity(x, y).item() == pytest.approx(24 / 25)


def test_nearest_pixels_of_a_single_one_have_no_slope():
    grid = torch.zeros(1, 2, 2, 2, requires_grad=True)
    F.grid_sample(torch.ones(1, 1, 1, 1), grid, "nearest", "reflection", True).sum().backward()
    assert grid.grad.abs().sum() == 0


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_positions_that_are_no_numbers_are_sampled_without_harm(mode, padding_mode):
    grid = torch.tensor([[[[float("nan"), 0.0], [0.0, float("inf")], [0.0, 0.0]]]])
    sampled = F.grid_sample(torch.ones(1, 1, 3, 3), grid, mode, padding_mode, align_corners=False)
    assert sampled.shape == (1, 1, 1, 3) and sampled[0, 0, 0, 2] == 1
    if mode == "nearest":
        assert not sampled.isnan().any()


def test_pools_of_the_wrong_number_of_sizes_are_refused():
    x = torch.ones(1, 2, 7, 7)
    for kernel, output, text in (((), 3, "kernel_size must either"), (2, (3,), "output_size must either")):
        with pytest.raises(RuntimeError, match=text):
            F.fractional_max_pool2d(x, kernel, output)
    with pytest.raises(RuntimeError, match="output_size"):
        F.adaptive_max_pool1d(x[0], [])
    assert F.fractional_max_pool2d(x, 2, (0, 1)).shape == (1, 2, 0, 1)


@pytest.mark.parametrize(
    ("shape", "dilation", "transposed", "name"),
    [
        ((2, 6, 7), 1, False, "Slow2d"),
        ((2, 6, 7, 7), 2, False, "SlowDilated2d"),
        ((2, 6, 7, 7), 2, True, "SlowTranspose2d"),
        ((2, 6, 7, 7, 7), 1, False, "Slow3d"),
        ((0, 6, 7), 1, False, "Empty"),
        ((2, 0, 7, 7), 1, False, "Empty"),
    ],
)
def test_kernels_of_convolutions_have_names(shape, dilation, transposed, name):
    dim = len(shape) - 2
    x, weight = torch.ones(shape), torch.ones((12, shape[1] // 3) + (3,) * dim)
    sizes = [(1,) * dim, (0,) * dim, (dilation,) * dim, transposed, (0,) * dim]
    chosen = torch._C._select_conv_backend(x, weight, None, *sizes, 3)
    assert chosen.name == name and chosen is getattr(torch._C._ConvBackend, name)


def test_what_has_no_spatial_dimension_has_no_kernel():
    with pytest.raises(RuntimeError, match="one to three spatial dimensions"):
        torch._C._select_conv_backend(torch.ones(2, 6), torch.ones(12, 6), None, (), (), (), False, (), 1)


def test_functions_that_pytorch_writes_in_python_are_functions_of_python():
    for function in (F.relu, F.leaky_relu, F.layer_norm, F.cross_entropy, F.max_pool2d, F.sigmoid, F.tanh):
        assert inspect.isfunction(function) and function.__module__ == "rgrad.nn.functional"
        assert function.__doc__ and next(iter(inspect.signature(function).parameters)) == "input"
        assert pickle.loads(pickle.dumps(function)) is function and copy.deepcopy(function) is function
        function.initialization = nn.init.kaiming_uniform_
        assert vars(function).pop("initialization") is nn.init.kaiming_uniform_
    for function in (F.linear, F.conv2d, F.gelu, F.avg_pool2d):
        assert inspect.isbuiltin(function)


def test_a_function_that_is_a_class_attribute_is_bound():
    class Layer(nn.Module):
        activation = F.relu

    layer = Layer()
    assert layer.activation.__self__ is layer
    with pytest.raises(TypeError, match="input"):
        Layer.activation()


def test_overrides_receive_the_functions_of_python():
    class Seen(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func, len(args), kwargs))
            return super().__torch_function__(func, types, args, kwargs or {})

    seen = []
    x = torch.randn(2, 4).as_subclass(Seen)
    calls = [(F.relu, ()), (F.max_pool1d, (2,)), (F.layer_norm, ((4,),))]
    for function, arguments in calls:
        function(x, *arguments)
    assert [(func, count) for func, count, _ in seen] == [(f, 1 + len(a)) for f, a in calls]
    assert seen[0][2] == {"inplace": False}


def test_annotations_of_modules_are_understood_outside_their_files():
    classes = {base for name in dir(nn) for base in getattr(getattr(nn, name), "__mro__", ())}
    for base in (base for base in classes if base.__module__.startswith("rgrad.nn")):
        holder = type("Holder", (), {"__annotations__": vars(base).get("__annotations__", {})})()
        typing.get_type_hints(holder, globalns={})
    hints = typing.get_type_hints(nn.CrossEntropyLoss(), globalns={})
    assert hints["weight"] == torch.Tensor | None
    assert "params" in typing.get_type_hints(torch.optim.SGD.__init__)


@pytest.mark.filterwarnings("ignore:size_average and reduce:UserWarning", "ignore:reduction. .mean.:UserWarning")
@pytest.mark.parametrize(
    "loss",
    [
        lambda **k: F.mse_loss(_SCORES, _SCORES.flip(0), **k),
        lambda **k: F.l1_loss(_SCORES, _SCORES.flip(0), **k),
        lambda **k: F.smooth_l1_loss(_SCORES, _SCORES.flip(0), **k),
        lambda **k: F.kl_div(_SCORES, _SCORES.flip(0), **k),
        lambda **k: F.binary_cross_entropy(_SCORES, _SCORES.flip(0), **k),
        lambda **k: F.binary_cross_entropy_with_logits(_SCORES, _SCORES.flip(0), **k),
        lambda **k: F.nll_loss(_SCORES, torch.tensor([0, 2]), **k),
        lambda **k: F.cross_entropy(_SCORES, torch.tensor([0, 2]), **k),
        lambda **k: F.poisson_nll_loss(_SCORES, _SCORES.flip(0), **k),
    ],
)
def test_older_arguments_of_losses_choose_the_reduction(loss):
    for older, reduction in (
        ({"reduce": False}, "none"),
        ({"size_average": False}, "sum"),
        ({"size_average": True, "reduction": "sum"}, "mean"),
        ({"size_average": False, "reduce": False}, "none"),
    ):
        assert torch.equal(loss(**older), loss(reduction=reduction))
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        loss(size_average=False)


_SCORES = torch.tensor([[0.1, 0.5, 0.2], [0.7, 0.3, 0.9]])


def test_ratios_of_fractional_pools_are_one_for_each_dimension():
    with pytest.raises(ValueError, match="fractional_max_pool2d requires output_ratio to either be a single Int or"):
        torch.nn.FractionalMaxPool2d(2, output_ratio=[0.5, 0.5, 0.6])(torch.rand(1, 1, 8, 8))


@pytest.mark.parametrize("antialias", [False, True])
def test_sizes_of_images_are_integers(antialias):
    with pytest.raises(TypeError, match=r"expected size to be one of int or Tuple.*<class 'float'>, <class 'int'>"):
        torch.nn.functional.interpolate(torch.ones(1, 1, 4, 4), (2.0, 2), mode="bilinear", antialias=antialias)


@pytest.mark.parametrize(("mode", "padding", "whole"), [("mean", None, False), ("mean", 9, True), ("max", None, True)])
def test_the_last_bag_goes_to_the_end_where_pytorch_does_not_read_its_end(mode, padding, whole):
    table = torch.arange(20.0).view(10, 2)
    indices, offsets = torch.tensor([0, 1, 2]), torch.tensor([0, 2, 2])
    options = {"mode": mode, "padding_idx": padding, "include_last_offset": True}
    result = F.embedding_bag(indices, table, offsets, **options)
    assert result[1].tolist() == ([4.0, 5.0] if whole else [0.0, 0.0])


@pytest.mark.parametrize("weight", [None, [0.5, 2.0, 1.0, 1.0]])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_a_batch_of_ignored_targets_has_no_gradient(weight, smoothing):
    x = torch.randn(3, 4, requires_grad=True)
    settings = {"weight": None if weight is None else torch.tensor(weight), "label_smoothing": smoothing}
    loss = F.cross_entropy(x, torch.full((3,), -100), **settings)
    assert loss.isnan()
    (grad,) = torch.autograd.grad(loss, x, create_graph=True)
    assert grad.count_nonzero() == 0
    loss.backward()
    assert x.grad.count_nonzero() == 0


def test_batch_norm_of_an_empty_input_takes_parameters_of_another_dtype():
    module = nn.BatchNorm2d(3)
    x = torch.empty(0, 3, 2, 2, dtype=torch.float64, requires_grad=True)
    out = module(x)
    out.sum().backward()
    assert out.dtype == torch.float64 and module.weight.grad.tolist() == [0.0] * 3 and x.grad.shape == x.shape
