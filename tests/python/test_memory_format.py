"""How tensors lie in memory: formats that are asked for, and the order that results take from their operands."""

import copy
import pickle

import pytest

import rgrad as torch
from rgrad import nn

IMAGE, LAST = (2, 3, 4, 5), (60, 1, 15, 3)


def last(*shape):
    """Images of distinct pixels with their channels innermost."""
    return torch.arange(float(torch.Size(shape).numel())).view(shape).to(memory_format=torch.channels_last)


def test_formats_are_constants_that_survive_copies():
    for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"):
        constant = getattr(torch, name)
        assert repr(constant) == f"torch.{name}" and isinstance(constant, torch.memory_format)
        assert pickle.loads(pickle.dumps(constant)) is constant and copy.deepcopy(constant) is constant
    with pytest.raises(TypeError):
        torch.memory_format()


def test_contiguity_is_that_of_the_format_asked_about():
    rows, image = torch.zeros(IMAGE), last(*IMAGE)
    assert rows.is_contiguous() and not rows.is_contiguous(memory_format=torch.channels_last)
    assert not image.is_contiguous() and image.is_contiguous(memory_format=torch.channels_last)
    assert not torch.zeros(2, 3).is_contiguous(memory_format=torch.channels_last)
    # With one channel both hold.
    single = torch.zeros(2, 1, 4, 5)
    assert single.is_contiguous() and single.is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(TypeError, match=r"argument 'memory_format' must be torch.memory_format, not int"):
        rows.is_contiguous(memory_format=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda t, f: t.contiguous(memory_format=f),
        lambda t, f: t.clone(memory_format=f),
        lambda t, f: t.to(memory_format=f),
        lambda t, f: t.double(memory_format=f),
        lambda t, f: torch.empty_like(t, memory_format=f),
        lambda t, f: torch.rand_like(t, memory_format=f),
        lambda t, f: torch.full_like(t, 2, memory_format=f),
        lambda t, f: torch.empty(t.shape, memory_format=f),
    ],
)
def test_a_new_tensor_lies_as_it_is_asked_to(make):
    assert make(torch.zeros(IMAGE), torch.channels_last).stride() == LAST
    assert make(last(*IMAGE), torch.contiguous_format).stride() == (60, 20, 5, 1)
    assert make(torch.zeros(2, 3, 2, 3, 4), torch.channels_last_3d).stride() == (72, 1, 36, 12, 3)
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        make(torch.zeros(3), torch.channels_last)


def test_a_tensor_that_lies_as_asked_is_returned_itself():
    image = last(*IMAGE)
    assert image.to(memory_format=torch.channels_last) is image
    assert image.contiguous(memory_format=torch.channels_last) is image
    assert image.contiguous().tolist() == image.tolist()


@pytest.mark.parametrize(
    "make",
    [torch.Tensor.clone, torch.Tensor.double, torch.zeros_like, torch.rand_like, torch.exp, lambda t: t + 1],
)
def test_copies_and_results_of_one_operand_keep_dense_strides(make):
    assert make(last(*IMAGE)).stride() == LAST
    assert make(torch.ones(3, 4).t()).stride() == (1, 4)
    assert make(torch.ones(6, 4)[::2].t()).stride() == (1, 4)
    assert make(torch.ones(4, 1).expand(4, 3)).stride() == (3, 1)


def test_the_first_operand_with_a_say_decides_the_order():
    rows, columns = torch.ones(3, 4), torch.ones(4, 3).t()
    assert (columns * columns).stride() == (columns * rows).stride() == (1, 3)
    assert (rows * columns).stride() == (4, 1)
    assert (torch.ones(4) * columns).stride() == (1, 3)
    assert torch.where(columns > 0, rows, rows).stride() == (1, 3)


def test_permuted_operands_give_the_numbers_of_contiguous_ones():
    torch.manual_seed(0)
    for shape in ((5, 7), (3, 40, 50), (2, 3, 30, 20)):
        x, y = torch.randn(shape), torch.randn(shape)
        want = ((x * y).exp() - y).sum(0)
        for a, b in ((x.mT.contiguous().mT, y.mT.contiguous().mT), (x, y.mT.contiguous().mT)):
            result = (a * b).exp() - b
            assert torch.equal(result, (x * y).exp() - y)
            assert torch.allclose(result.sum(0), want, atol=1e-5)
            assert torch.allclose(result.mean(), want.sum() / x.numel(), atol=1e-5)


def test_writing_in_place_keeps_the_strides_of_the_target():
    columns = torch.zeros(4, 3).t()
    columns += torch.arange(12.0).view(3, 4)
    assert columns.stride() == (1, 3) and columns.tolist() == torch.arange(12.0).view(3, 4).tolist()


def test_the_gradient_of_a_dense_leaf_has_the_strides_of_the_leaf():
    for leaf in (last(*IMAGE), torch.ones(3, 4).t().clone()):
        leaf.requires_grad_()
        for function in (
            lambda t: t.sum(),
            lambda t: (t * torch.ones(t.shape)).sum(),
            lambda t: t.contiguous().exp().sum(),
        ):
            leaf.grad = None
            function(leaf).backward()
            assert leaf.grad.stride() == leaf.stride()
    # A leaf with holes has a contiguous gradient.
    sparse = torch.ones(6, 4)[::2].requires_grad_()
    (sparse * 2).sum().backward()
    assert sparse.grad.stride() == (4, 1)


def test_a_module_moves_its_images_of_weights_alone():
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).to(memory_format=torch.channels_last)
    assert module[0].weight.stride() == (27, 1, 9, 3) and module[0].bias.stride() == (1,)
    plain = nn.Conv2d(3, 4, 3)
    plain.load_state_dict(module[0].state_dict())
    image = last(*IMAGE)
    assert torch.allclose(module[0](image), plain(image.contiguous()), atol=1e-6)


def test_training_with_channels_last_weights_is_training():
    torch.manual_seed(0)
    losses = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(1)
        module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 1)).to(
            memory_format=memory_format
        )
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.01, weight_decay=0.1)
        for _ in range(3):
            loss = module(last(*IMAGE) / 60).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_resizing_takes_a_format():
    assert torch.zeros(4).resize_(IMAGE, memory_format=torch.channels_last).stride() == LAST
    assert torch.zeros(4).resize_as_(last(*IMAGE)).stride() == (60, 20, 5, 1)
    assert torch.zeros(4).resize_as_(last(*IMAGE), memory_format=torch.preserve_format).stride() == LAST


F = nn.functional
WEIGHT = torch.arange(5.0 * 3 * 3 * 3).view(5, 3, 3, 3)
KEEP_CHANNELS_LAST = {
    "conv2d": lambda x: F.conv2d(x, WEIGHT, torch.zeros(5), padding=1),
    "conv2d by channel": lambda x: F.conv2d(x, WEIGHT[:3, :1].contiguous(), groups=3),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, WEIGHT[:3].contiguous()),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "indices of max_pool2d": lambda x: F.max_pool2d(x, 2, return_indices=True)[1],
    "max_unpool2d": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "lp_pool2d": lambda x: F.lp_pool2d(x, 2.0, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 2),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "batch_norm in evaluation": lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3)),
    "group_norm": lambda x: F.group_norm(x, 3),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2),
    "interpolate bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "interpolate area": lambda x: F.interpolate(x, size=(3, 3), mode="area"),
    "pad": lambda x: F.pad(x, (1, 0, 1, 0)),
    "pad reflect": lambda x: F.pad(x, (1, 0, 1, 0), mode="reflect"),
    "pad replicate": lambda x: F.pad(x, (1, 0, 1, 0), mode="replicate"),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 3),
    "cat": lambda x: torch.cat([x, x], 1),
    "dropout": lambda x: F.dropout(x, 0.5),
    "flip": lambda x: torch.flip(x, (1, 2)),
    "roll": lambda x: torch.roll(x, 1, 2),
    "sort": lambda x: torch.sort(x, 1)[0],
    "indices of sort": lambda x: torch.sort(x, 3)[1],
    "index": lambda x: x[torch.tensor([1, 0, 1])],
    "index_put": lambda x: x.index_put((torch.tensor([0]),), torch.tensor(1.0)),
    "index_fill": lambda x: x.index_fill(2, torch.tensor([0]), 1.0),
}


@pytest.mark.parametrize("name", KEEP_CHANNELS_LAST)
def test_operations_on_images_keep_their_channels_innermost(name):
    run, shape = KEEP_CHANNELS_LAST[name], (2, 3, 6, 8)
    image = last(*shape)
    torch.manual_seed(0)
    result = run(image)
    assert result.is_contiguous(memory_format=torch.channels_last) and not result.is_contiguous()
    rows = image.contiguous()
    torch.manual_seed(0)
    expected = run(rows)
    assert expected.is_contiguous()
    torch.testing.assert_close(result, expected, check_stride=False)
    if result.is_floating_point():
        grads = []
        for x in (image, rows):
            x.requires_grad_()
            torch.manual_seed(0)
            y = run(x)
            (y * torch.arange(float(y.numel())).view(y.shape)).sum().backward()
            grads.append(x.grad)
        assert grads[0].stride() == image.stride()
        torch.testing.assert_close(*grads, check_stride=False)


def test_a_convolution_with_such_a_weight_has_such_a_result():
    weight = WEIGHT.to(memory_format=torch.channels_last)
    result = F.conv2d(torch.zeros(2, 3, 6, 8), weight)
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert F.conv2d(torch.zeros(3, 6, 8), weight).stride() == (1, 30, 5)


def test_operations_on_volumes_keep_their_channels_innermost():
    volume = torch.rand(2, 3, 4, 4, 4).to(memory_format=torch.channels_last_3d)
    weight = torch.rand(5, 3, 2, 2, 2)
    for result in (
        F.conv3d(volume, weight),
        F.max_pool3d(volume, 2),
        F.batch_norm(volume, None, None, training=True),
        F.interpolate(volume, scale_factor=2, mode="trilinear"),
        F.pad(volume, (1, 1, 0, 0, 0, 0), mode="replicate"),
        torch.cat([volume, volume], 1),
    ):
        assert result.is_contiguous(memory_format=torch.channels_last_3d) and not result.is_contiguous()
    assert F.avg_pool3d(volume, 2).is_contiguous()
    assert F.conv3d(volume.double(), weight.double()).is_contiguous()


def test_stacked_images_lie_as_if_they_were_joined_and_split():
    image = last(2, 3, 4, 5)
    assert torch.stack([image, image]).stride() == (120, 60, 1, 15, 3)
    assert torch.stack([image, image.contiguous()]).is_contiguous()


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_the_gradient_of_padded_images_is_laid_like_the_images(mode):
    for shape, order in ((IMAGE, torch.channels_last), ((2, 3, 4, 5, 6), torch.channels_last_3d)):
        rows = torch.rand(shape, requires_grad=True)
        image = rows.detach().to(memory_format=order).requires_grad_()
        pad = (1, 2) * (len(shape) - 2)
        results = [F.pad(x, pad, mode=mode) for x in (rows, image)]
        weights = torch.rand(results[0].shape)
        expected, got = (torch.autograd.grad(y, x, weights)[0] for y, x in zip(results, (rows, image), strict=True))
        assert results[1].is_contiguous(memory_format=order) and got.is_contiguous(memory_format=order)
        torch.testing.assert_close(results[1], results[0], check_stride=False)
        torch.testing.assert_close(got, expected, check_stride=False)
    with pytest.raises(RuntimeError, match=r"padding \(0, 4\) at dimension 2 of input \[2, 3, 4, 5\]"):
        F.pad(last(*IMAGE), (0, 0, 0, 4), mode="reflect")


def test_padding_by_nothing_is_a_copy():
    image = torch.zeros(1, 2, 3, 3)
    F.pad(image, (0, 0, 0, 0), mode="reflect").fill_(1)
    assert image.sum() == 0


def test_batch_norm_reads_strides_that_sizes_of_one_leave_open_as_channels_last():
    x = torch.arange(6.0).reshape(1, 3, 2, 1).permute(0, 2, 1, 3)
    for training in (False, True):
        assert torch.nn.BatchNorm2d(2).train(training)(x).stride() == (6, 1, 2, 2)
        assert torch.nn.BatchNorm3d(2).train(training)(x.unsqueeze(2)).stride() == (6, 1, 6, 2, 2)
    assert torch.nn.BatchNorm2d(2)(torch.ones(4, 2, 3, 1)).stride() == (6, 3, 1, 1)


def test_instance_norm_gives_rows_of_any_layout():
    x = torch.arange(48.0).reshape(2, 3, 2, 4).to(memory_format=torch.channels_last)
    assert torch.nn.InstanceNorm2d(3)(x).is_contiguous() and torch.nn.InstanceNorm2d(3)(x[:1]).is_contiguous()


def test_results_are_laid_like_parts_of_images_with_channels_last():
    import rgrad.nn.functional as F

    images = torch.rand(2, 4, 8, 8).contiguous(memory_format=torch.channels_last)
    part, one = images[:, :, 2:6, ::2], images[0][None]
    for function in (
        lambda x: F.interpolate(x, size=(3, 3), mode="bilinear", antialias=True),
        lambda x: F.pad(x, (1, 1, 1, 1), "replicate"),
        lambda x: F.channel_shuffle(x, 2),
        lambda x: F.interpolate((x * 255).to(torch.uint8), size=(3, 3), mode="bicubic", antialias=True),
    ):
        assert function(part).is_contiguous(memory_format=torch.channels_last)
        # The stride of its batch is that of a channel: it looks like an image in the usual order.
        assert function(one).is_contiguous()


@pytest.mark.parametrize("shape", [(2, 1, 3), (1, 2), (2, 0), (1,)])
def test_the_order_of_dims_is_ambiguous_with_a_size_of_one_or_equal_strides(shape):
    with pytest.raises(RuntimeError, match="does not have unique dim order"):
        torch.empty(shape).dim_order(ambiguity_check=True)
    assert torch.empty(shape).dim_order() == tuple(range(len(shape)))


def test_the_order_of_dims_is_checked_against_the_given_formats():
    formats = [torch.contiguous_format, torch.channels_last]
    assert torch.empty(2, 3).dim_order(ambiguity_check=True) == (0, 1)
    assert torch.empty(1, 2, 2, 2).dim_order(ambiguity_check=formats) == (0, 1, 2, 3)
    assert torch.empty(1, 2, 2, 2, memory_format=formats[1]).dim_order(ambiguity_check=formats) == (0, 2, 3, 1)
    with pytest.raises(RuntimeError, match="does not have unique dim order"):
        torch.empty(2, 1, 2, 2).dim_order(ambiguity_check=formats)
    with pytest.raises(RuntimeError, match="does not have unique dim order"):
        torch.ones(3).expand(2, 3).dim_order(ambiguity_check=True)
    with pytest.raises(TypeError, match="ambiguity_check must be a bool or a list of memory formats, got str"):
        torch.ones(3).dim_order(ambiguity_check="any")


@pytest.mark.parametrize(
    "copy",
    [
        lambda x: torch.slice_copy(x, 0, 0, 2),
        lambda x: torch.select_copy(x, 0, 1),
        lambda x: torch.split_copy(x, 1)[1],
        torch.detach_copy,
    ],
)
def test_parts_as_copies_are_contiguous(copy):
    assert copy(last(*IMAGE)).is_contiguous()


@pytest.mark.parametrize("pad", [(1, 2, 0, 1, 2, 1), (0, 1, 2, 0, 1, 1, 1, 2)])
def test_channels_and_batches_of_channels_last_are_padded_like_others(pad):
    x = torch.randn(2, 3, 4, 5)
    assert torch.equal(F.pad(x.contiguous(memory_format=torch.channels_last), pad), F.pad(x, pad))
