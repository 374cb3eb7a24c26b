"""Functions and modules over windows, bags, samples of images, and their losses and distances."""

from __future__ import annotations

import inspect
import pickle
import types

import pytest

import rgrad as torch
from rgrad import nn
from rgrad.autograd import gradcheck
from rgrad.nn import functional as F


def double(*shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_a_transposed_convolution_is_the_gradient_of_a_convolution(spatial):
    conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[spatial - 1](4, 6, 3, stride=2, padding=1, groups=2, bias=False)
    transposed = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[spatial - 1](
        6, 4, 3, stride=2, padding=1, groups=2, bias=False
    )
    transposed.load_state_dict(conv.state_dict())
    x = torch.randn(2, 4, *[7] * spatial, requires_grad=True)
    y = conv(x)
    g = torch.randn(y.shape)
    (expected,) = torch.autograd.grad(y, x, g)
    assert torch.allclose(transposed(g, output_size=x.shape), expected, atol=1e-5)


def test_a_transposed_convolution_reaches_the_sizes_its_stride_leaves_open():
    layer = nn.ConvTranspose2d(1, 1, 3, stride=2)
    x = torch.zeros(1, 1, 4, 4)
    assert layer(x).shape[2:] == (9, 9) and layer(x, output_size=(10, 9)).shape[2:] == (10, 9)
    with pytest.raises(ValueError, match=r"valid sizes range from \[9, 9\] to \[10, 10\]"):
        layer(x, output_size=(12, 9))
    with pytest.raises(ValueError, match='Only "zeros" padding mode is supported for ConvTranspose1d'):
        nn.ConvTranspose1d(1, 1, 2, padding_mode="reflect")
    assert repr(nn.ConvTranspose1d(2, 3, 4, output_padding=1, stride=2)) == (
        "ConvTranspose1d(2, 3, kernel_size=(4,), stride=(2,), output_padding=(1,))"
    )


@pytest.mark.parametrize("layer", [nn.Conv1d, nn.Conv2d, nn.Conv3d])
def test_a_convolution_takes_the_arguments_of_a_convolution_and_no_others(layer):
    given = {name: p.default for name, p in inspect.signature(layer).parameters.items()}
    assert list(given) == (
        ["in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias"]
        + ["padding_mode", "device", "dtype"]
    )
    assert list(given.values())[3:] == [1, 0, 1, 1, True, "zeros", None, None]
    for hidden in ("transposed", "output_padding"):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            layer(1, 2, 3, **{hidden: 1})
    made = layer(1, 2, 3)
    assert (made.transposed, made.output_padding) == (False, (0,) * len(made.kernel_size))
    again = pickle.loads(pickle.dumps(made))
    assert vars(again).keys() == vars(made).keys() and repr(again) == repr(made)


def test_unfold_gives_a_convolution_as_a_product():
    x, weight = double(2, 3, 5, 6), double(4, 3, 2, 3)
    columns = F.unfold(x, (2, 3), padding=1, stride=2)
    product = (weight.view(4, -1) @ columns).view(2, 4, 3, 3)
    assert torch.allclose(product, F.conv2d(x, weight, padding=1, stride=2))
    assert gradcheck(lambda x: F.unfold(x, 2, dilation=2), double(1, 1, 4, 4))


def test_fold_sums_what_windows_share():
    ones = F.unfold(torch.ones(1, 1, 3, 3), 2)
    assert nn.Fold((3, 3), 2)(ones).view(3, 3).tolist() == [[1, 2, 1], [2, 4, 2], [1, 2, 1]]
    with pytest.raises(RuntimeError, match="expected size of input's dimension 2 to match"):
        F.fold(torch.ones(1, 4, 3), (3, 3), 2)


@pytest.mark.parametrize("place", [-1, 40])
@pytest.mark.parametrize(
    ("unpool", "volume"), [(F.max_unpool1d, "4x1"), (F.max_unpool2d, "2x4"), (F.max_unpool3d, "2x2x4")]
)
def test_a_place_outside_of_the_volume_is_named(unpool, volume, place):
    shape = (1,) * (volume.count("x") + (volume != "4x1")) + (2,)
    indices = torch.tensor([0, place]).view(shape)
    with pytest.raises(RuntimeError, match=rf"invalid max index: {place} \(output volumes are of size {volume}\)"):
        unpool(torch.ones(shape), indices, 2)


def test_max_unpooling_puts_maxima_back():
    x = torch.tensor([[[1.0, 5.0, 2.0, 3.0]]])
    values, places = F.max_pool1d(x, 2, return_indices=True)
    assert nn.MaxUnpool1d(2)(values, places).tolist() == [[[0.0, 5.0, 0.0, 3.0]]]
    with pytest.raises(ValueError, match="invalid output_size"):
        F.max_unpool1d(values, places, 2, output_size=[9])


def test_pooling_by_a_norm():
    x = torch.tensor([[[3.0, 4.0, 0.0, 5.0]]])
    assert nn.LPPool1d(2, 2)(x).tolist() == [[[5.0, 5.0]]]
    assert F.lp_pool1d(x, float("inf"), 2).tolist() == [[[4.0, 5.0]]]


def test_channel_shuffle_deals_channels_out():
    x = torch.arange(6.0).view(1, 6, 1, 1)
    assert nn.ChannelShuffle(2)(x).flatten().tolist() == [0, 3, 1, 4, 2, 5]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_reduced_one_by_one(mode):
    torch.manual_seed(0)
    bags = nn.EmbeddingBag(6, 3, mode=mode, padding_idx=5)
    indices, offsets = torch.tensor([1, 2, 5, 4, 4, 0]), torch.tensor([0, 3, 3])
    reduce = {
        "sum": lambda rows: rows.sum(0),
        "mean": lambda rows: rows.mean(0),
        "max": lambda rows: rows.max(0).values,
    }
    w = bags.weight
    expected = torch.stack([reduce[mode](w[[1, 2]]), torch.zeros(3), reduce[mode](w[[4, 4, 0]])])
    assert torch.allclose(bags(indices, offsets), expected)
    weight = double(6, 2)
    assert gradcheck(lambda w: F.embedding_bag(indices, w, offsets, mode=mode), weight)


def test_bags_may_weigh_their_vectors():
    table = torch.eye(3)
    found = F.embedding_bag(torch.tensor([[0, 2]]), table, mode="sum", per_sample_weights=torch.tensor([[2.0, 3.0]]))
    assert found.tolist() == [[2.0, 0.0, 3.0]]
    with pytest.raises(NotImplementedError, match="only supported for mode='sum'"):
        F.embedding_bag(torch.tensor([[0]]), table, per_sample_weights=torch.ones(1, 1))
    with pytest.raises(ValueError, match="offsets has to be a 1D Tensor but got None"):
        F.embedding_bag(torch.tensor([0]), table)


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_sampling_an_image_at_its_own_pixels_gives_the_image(mode, align_corners):
    x = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    same = torch.eye(2, 3).expand(2, 2, 3)
    grid = F.affine_grid(same, x.shape, align_corners=align_corners)
    assert torch.allclose(F.grid_sample(x, grid, mode, align_corners=align_corners), x, atol=1e-5)


def test_what_lies_outside_an_image_is_chosen_by_the_padding_mode():
    x = torch.tensor([[[[1.0, 2.0, 3.0]]]])
    place = torch.tensor([[[[2.0, 0.0]]]])
    found = {
        mode: F.grid_sample(x, place, "nearest", mode, align_corners=True).item()
        for mode in ("zeros", "border", "reflection")
    }
    assert found == {"zeros": 0.0, "border": 3.0, "reflection": 2.0}


def test_sampling_can_be_differentiated_by_image_and_place():
    x = double(1, 2, 4, 4)
    grid = (torch.rand(1, 3, 2, 2, dtype=torch.float64) * 1.6 - 0.8).requires_grad_()
    for mode in ("bilinear", "bicubic"):
        assert gradcheck(lambda x, g, mode=mode: F.grid_sample(x, g, mode, align_corners=False), (x, grid), eps=1e-7)


def test_the_loss_over_several_labels_compares_each_with_the_rest():
    scores, labels = torch.tensor([0.1, 0.2, 0.4, 0.8]), torch.tensor([3, 0, -1, 1])
    expected = sum(max(0.0, 1 - (scores[y] - scores[i]).item()) for y in (3, 0) for i in (1, 2)) / 4
    assert abs(F.multilabel_margin_loss(scores, labels).item() - expected) < 1e-6


def test_a_triplet_loss_takes_a_distance_of_ones_own():
    loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1), margin=0.5)
    a, p, n = torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.25]])
    assert loss(a, p, n).item() == 0.25


def test_functions_over_windows_take_batches_of_none():
    none = torch.empty(0, 4, 2, 2)
    assert F.unfold(none, 2).shape == (0, 16, 1) and F.pixel_shuffle(none, 2).shape == (0, 1, 4, 4)
    assert F.pixel_unshuffle(none, 2).shape == (0, 16, 1, 1) and F.local_response_norm(none, 2) is none


def test_bags_of_half_numbers_are_summed_in_single_precision():
    table = torch.full((1, 1), 1.0, dtype=torch.float16)
    ones = torch.zeros(1, 4096, dtype=torch.int64)
    assert F.embedding_bag(ones, table, mode="sum").item() == 4096
    assert F.embedding_bag(ones[:, :3000], table, mode="sum").item() == 3000


def test_distances_of_all_pairs_of_rows():
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    assert F.pdist(x).tolist() == pytest.approx([5.0, 1.0, 18**0.5])
    assert torch.pdist(x, p=1).tolist() == [7.0, 1.0, 6.0]
    with pytest.raises(RuntimeError, match="pdist only supports 2D tensors, got: 1D"):
        F.pdist(x[0])


def test_cross_entropy_of_a_linear_map():
    x, w, target = double(4, 3), double(5, 3), torch.tensor([0, 4, 2, 1])
    assert torch.allclose(F.linear_cross_entropy(x, w, target), F.cross_entropy(x @ w.T, target))
    with pytest.raises(RuntimeError, match=r"expected equal input and linear_weight last dimensions"):
        F.linear_cross_entropy(x, w[:, :2], target)


def test_margin_losses_check_their_targets_and_weights():
    scores = torch.randn(2, 3)
    with pytest.raises(RuntimeError, match=r"Expected target size \[2\], but got \[3\]"):
        F.multi_margin_loss(scores, torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="weight must be one-dimensional"):
        F.multi_margin_loss(scores, torch.zeros(2, dtype=torch.int64), weight=torch.ones(()))
    with pytest.raises(ValueError, match="few is not a valid value for reduction"):
        F.multilabel_margin_loss(scores, torch.zeros(2, 3, dtype=torch.int64), reduction="few")
    single = F.multi_margin_loss(scores[0], torch.tensor([1]), reduction="none")
    assert single.shape == (1,) and F.multi_margin_loss(scores[0], torch.tensor(1), reduction="none").shape == ()


def test_batch_norm_needs_a_positive_eps_to_train():
    with pytest.raises(ValueError, match="eps must be positive"):
        nn.BatchNorm1d(2, eps=0)(torch.ones(3, 2))
    with pytest.raises(ValueError, match=r"expected 2D or 3D input \(got 4D input\)"):
        nn.CircularPad1d(1)(torch.ones(1, 1, 1, 2))


def test_the_functions_that_functional_offers_are_those_that_it_lists():
    offered = {
        name for name, value in vars(F).items() if callable(value) and not name.startswith("_") and name.islower()
    }
    # Helpers of the modules, which programs have no use for.
    internal = {"lstm_layer", "gru_layer", "bag_sums", "pad_edges", "pad_edges_backward", "ctc_losses"}
    assert offered - set(F.__all__) == internal
    assert set(F.__all__) <= offered and list(F.__all__) == sorted(F.__all__)
    namespace: dict[str, object] = {}
    exec("from rgrad.nn.functional import *", namespace)
    assert namespace.keys() - {"__builtins__"} == set(F.__all__)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_padding_with_zeros_is_padding_with_a_constant(dims):
    zero, constant = getattr(nn, f"ZeroPad{dims}d")(1), getattr(nn, f"ConstantPad{dims}d")(1, 0.0)
    x = torch.ones(1, 1, *[2] * dims)
    assert isinstance(zero, type(constant)) and torch.equal(zero(x), constant(x))
    assert zero.padding == constant.padding == (1,) * (2 * dims)
    assert repr(zero) == f"ZeroPad{dims}d({zero.padding})"


def test_corners_of_a_single_pixel_are_warned_of():
    theta = torch.eye(2, 3).unsqueeze(0)
    with pytest.warns(UserWarning, match="See the documentation of affine_grid for details"):
        assert F.affine_grid(theta, [1, 1, 2, 1], align_corners=True)[..., 0].abs().sum() == 0
    F.affine_grid(theta, [1, 1, 2, 1], align_corners=False)


def test_gradients_of_convolutions_are_found_by_the_functions_too():
    x, w = torch.randn(1, 2, 4, 4), torch.randn(3, 2, 3, 3)
    assert F.grad.conv2d_input(x.shape, w, torch.ones(1, 3, 2, 2)).shape == x.shape


def test_functions_belong_to_the_module_in_which_programs_know_them():
    written = [function for name in F.__all__ if isinstance(function := getattr(F, name), types.FunctionType)]
    assert len(written) > 100
    for function in written:
        assert inspect.getmodule(function) is F
        assert pickle.loads(pickle.dumps(function)) is function
        assert "def " in inspect.getsource(function)


def test_functions_that_stand_before_the_core_s_have_its_signature():
    table = {op["name"]: op["signatures"][0] for op in torch._C._op_table() if op["nn"]}
    for function in (F.relu, F.cross_entropy, F.max_pool2d, F.layer_norm, F.huber_loss):
        names = [part.partition(":")[0] for part in table[function.__name__].split(", ")]
        assert list(inspect.signature(function).parameters) == names


def test_grids_are_checked_before_they_are_sampled():
    def sample(image, grid, **options):
        return F.grid_sample(torch.ones(image), torch.zeros(grid), align_corners=False, **options)

    for image, grid, why in (
        ((1, 1, 2, 2), (2, 1, 1, 2), "grid and input to have same batch size"),
        ((1, 2, 2), (1, 1, 1, 2), "grid to have size 1 in last dimension"),
        ((1, 1, 0, 2), (1, 1, 1, 2), "input to have non-empty spatial dimensions"),
        ((1, 1, 2, 2), (1, 1, 2), "4D input and grid with same number of dimensions"),
        ((1, 2), (1, 0), "5D input and grid with same number of dimensions"),
    ):
        with pytest.raises(RuntimeError, match=f"expected {why}"):
            sample(image, grid)
    with pytest.raises(RuntimeError, match="expected scalar type Double but found Float"):
        F.grid_sample(torch.ones(1, 1, 2, 2).double(), torch.zeros(1, 1, 1, 2), align_corners=False)
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        F.grid_sample(torch.ones(1, 1, 2, 2).long(), torch.zeros(1, 1, 1, 2).long(), align_corners=False)
    x, grid = torch.rand(1, 1, 3, 3), torch.rand(1, 2, 2, 2)
    numbers = (F.GRID_SAMPLE_INTERPOLATION_MODES["nearest"], F.GRID_SAMPLE_PADDING_MODES["border"])
    expected = F.grid_sample(x, grid, "nearest", "border", align_corners=True)
    assert torch.equal(torch._grid_sampler_2d_cpu_fallback(x, grid, *numbers, True), expected)


def test_pooling_takes_an_empty_first_dimension_and_names_any_other():
    for pool in (F.adaptive_avg_pool3d, F.adaptive_max_pool3d):
        assert pool(torch.ones(0, 4, 4, 4), 2).shape == (0, 2, 2, 2)
        with pytest.raises(RuntimeError, match="with dimension 1 being empty"):
            pool(torch.ones(3, 0, 4, 4), 2)
    assert F.adaptive_max_pool2d(torch.ones(0, 4, 4), 2).shape == (0, 2, 2)
    assert F.adaptive_max_pool1d(torch.ones(0, 4), 3).shape == (0, 3)
    for pool in (F.max_pool3d, F.avg_pool3d):
        assert pool(torch.ones(0, 3, 4, 4, 4), 2).shape == (0, 3, 2, 2, 2)
        with pytest.raises(RuntimeError, match="Expected input to have non-zero size .* with dimension 1 being empty"):
            pool(torch.ones(1, 0, 4, 4, 4), 2)


def test_a_window_that_fits_nowhere_is_refused():
    with pytest.raises(RuntimeError, match=r"Given input size: \(2x1x2\)\..*Output size is too small"):
        F.max_pool1d(torch.ones(1, 2, 2), 3, return_indices=True)
    with pytest.raises(RuntimeError, match="Invalid computed output size: 0"):
        F.max_pool1d(torch.ones(1, 2, 2), 3)
    with pytest.raises(RuntimeError, match=r"\(T: 2 H: 2 W: 2\) smaller than kernel size \(kT: 3 kH: 3 kW: 3\)"):
        F.avg_pool3d(torch.ones(1, 2, 2, 2, 2), 3)


def test_resampling_refuses_dtypes_that_it_has_no_kernel_for():
    image = torch.ones(1, 2, 4, 4)
    for dtype, name in ((torch.int8, "Char"), (torch.int32, "Int"), (torch.int64, "Long")):
        for mode in ("nearest", "nearest-exact"):
            with pytest.raises(NotImplementedError, match=f"not implemented for '{name}'"):
                F.interpolate(image.to(dtype), (2, 2), mode=mode)
    for dtype in (torch.uint8, torch.float16, torch.float64):
        assert F.interpolate(image.to(dtype), (2, 2)).dtype == dtype
    assert F.interpolate(image, (torch.tensor(2), 2)).shape == (1, 2, 2, 2)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_many_channels_are_sampled_as_each_alone(mode):
    image, grid = double(2, 9, 5, 6), (double(2, 3, 4, 2) * 0.8).detach().requires_grad_()
    weight = torch.randn(2, 9, 3, 4, dtype=torch.float64)
    together = F.grid_sample(image, grid, mode, align_corners=False)
    alone = torch.cat([F.grid_sample(image[:, [c]], grid, mode, align_corners=False) for c in range(9)], 1)
    torch.testing.assert_close(together, alone)
    gradients = [torch.autograd.grad(result, [image, grid], weight) for result in (together, alone)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_of_one_length_are_those_of_their_offsets(mode):
    table, bags = double(7, 3), torch.tensor([[1, 2], [2, 2], [6, 0]])
    offsets, weight = torch.arange(0, 6, 2), torch.randn(3, 3, dtype=torch.float64)
    rows, flat = F.embedding_bag(bags, table, mode=mode), F.embedding_bag(bags.flatten(), table, offsets, mode=mode)
    torch.testing.assert_close(rows, flat)
    (one,), (other,) = torch.autograd.grad(rows, [table], weight), torch.autograd.grad(flat, [table], weight)
    torch.testing.assert_close(one, other)
    assert F.embedding_bag(torch.zeros(2, 0, dtype=torch.long), table, mode=mode).tolist() == [[0.0] * 3] * 2
