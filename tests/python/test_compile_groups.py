"""Which operations `compile` computes together, with the bits of the eager program."""

from __future__ import annotations

import os

import pytest
from compile_cases import data, groups, log_of, same

import rgrad as torch

REDUCED = {
    "rows divided by their norms": lambda x: x / x.norm(dim=-1, keepdim=True),
    "sums of magnitudes": lambda x: x.norm(1, dim=-1) * 2,
    "logsumexp beside a mean": lambda x: x.logsumexp(-1) - x.mean(-1),
    "norm of all": lambda x: (x * 2).norm(),
}


@pytest.mark.own_region
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("program", REDUCED.values(), ids=REDUCED)
def test_norms_and_logsumexp_are_one_group_and_have_the_eager_bits(program, dtype):
    wide = data(300, 128).to(dtype)
    # The second begins within its memory.
    for x in (wide, wide[7:263], data(20_000, 3).to(dtype), data(8, 8192).to(dtype)):
        kept = []
        lines = groups(log_of(lambda x=x, kept=kept: kept.append(program(x))))
        assert same(kept[0], program(x)), x.shape
        if x is wide:
            # The root of a norm of all is computed alone, from one number.
            large = [line for line in lines if "| 1 float" not in line]
            assert len(large) == 1 and large[0].startswith("fused: "), lines
    wide[3] = -torch.inf
    assert torch.equal(torch.compile(program)(wide).isnan(), program(wide).isnan())


@pytest.mark.own_region
def test_norms_of_columns_and_of_other_degrees_are_the_eager_ones():
    x = data(300, 200)
    for program in (lambda x: x.norm(dim=0), lambda x: x.norm(3, dim=-1), lambda x: x.logsumexp(0)):
        assert same(torch.compile(program)(x), program(x))


@pytest.mark.own_region
@pytest.mark.parametrize("side", [16, 61, 200])
def test_slices_with_long_runs_are_read_in_place_with_the_eager_bits(side):
    pictures = data(5, 3, side, side)

    def weighted(p):
        return p[:, 0] * 0.3 + p[:, 1] * 0.6 + p[:, 2] * 0.1

    def steps(p):
        return (p[..., 1:, :] - p[..., :-1, :]).abs().sum() + (p[..., 1:] - p[..., :-1]).abs().sum()

    for program in (weighted, steps):
        assert same(torch.compile(program)(pictures), program(pictures))


@pytest.mark.own_region
def test_large_operations_without_a_value_in_common_are_apart():
    def variation(x):
        return (x[..., 1:, :] - x[..., :-1, :]).abs().sum() + (x[..., 1:] - x[..., :-1]).abs().sum()

    large, small = data(8, 256, 256), data(2, 160, 160)
    for x, count in ((large, 3), (small, 2)):
        kept = []
        # The last is the sum of both numbers.
        lines = groups(log_of(lambda x=x, kept=kept: kept.append(variation(x))))
        assert len(lines) == count and all(line.startswith("fused: ") for line in lines[:-1]), lines
        assert same(kept[0], variation(x))
    # Chains that read one tensor, or end in one result, are together.
    kept = []
    lines = groups(log_of(lambda: kept.extend([large.exp() * 2, large.abs() + 1])))
    assert len(lines) == 1, lines
    lines = groups(log_of(lambda: kept.append((large * 2).exp() + (large.flip(0) * 3).abs())))
    assert len(lines) == 1 and "exp" in lines[0] and "abs" in lines[0], lines


@pytest.mark.own_region
def test_a_gradient_that_is_made_in_a_region_becomes_that_of_the_leaf():
    x = data(300, 200).requires_grad_()

    def step():
        (x * 2).exp().sum().backward()

    lines = groups(log_of(step))
    assert not any("copy_" in line for line in lines), lines
    wanted = x.grad.clone()
    x.grad = None
    step()
    assert same(wanted, x.grad)
    # In a second step it is added to.
    kept = x.grad
    with torch.defer():
        step()
    assert kept is x.grad and same(kept, wanted * 2)


@pytest.mark.own_region
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_of_rows_of_many_runs_are_one_group_and_have_the_eager_bits(dtype):
    def overlap(x, y):
        return (x * y).sum((1, 2)) / (x.sum((1, 2), keepdim=True) + 1).flatten(), (x - y).abs().amax((1, 2))

    for shape in ((5, 3, 8192), (2, 4, 16384), (3, 7, 1171), (4, 2, 8192)):
        x, y = data(*shape).to(dtype), data(*shape, seed=1).to(dtype)
        kept = []
        lines = groups(log_of(lambda x=x, y=y, kept=kept: kept.extend(overlap(x, y))))
        for got, wanted in zip(kept, overlap(x, y), strict=True):
            assert same(got, wanted), shape
        if shape[1] * shape[2] % 8192 == 0:
            large = [line for line in lines if "mul" in line]
            assert len(large) == 1 and all(name in large[0] for name in ("sub", "abs", "reduction")), lines
    x = data(3, 2, 8192).to(dtype).requires_grad_()
    ((x**2).mean((1, 2)) * x.norm(dim=(1, 2))).sum().backward()
    wanted, x.grad = x.grad, None
    with torch.defer():
        ((x**2).mean((1, 2)) * x.norm(dim=(1, 2))).sum().backward()
    assert same(x.grad, wanted)


@pytest.mark.own_region
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_column_sums_are_in_the_group_of_their_terms_with_the_eager_bits(dtype):
    def pooled(x, keep):
        gated = x * keep
        return gated.sum(1), (gated.exp() + 1).mean(1), gated.amax(-1)

    # One block of rows and several, few rows, no multiple of eight rows, and several matrices.
    shapes = [(32, 128, 256), (3, 1000, 64), (7, 130, 72), (64, 9, 100)]
    for shape in [*shapes, (2, 700, 33), (1, 5000, 32), (50, 17, 600), (3, 5, 4096)]:
        x = data(*shape).to(dtype)
        keep = (data(*shape[:2], 1, seed=1) > 0).to(dtype)
        # The rows of another operand repeat after several.
        for other in (keep, data(*shape[1:], seed=2).to(dtype), data(shape[2], seed=3).to(dtype)):
            kept = []
            lines = groups(log_of(lambda x=x, other=other, kept=kept: kept.extend(pooled(x, other))))
            for got, wanted in zip(kept, pooled(x, other), strict=True):
                assert same(got, wanted), (shape, other.shape)
            if x.numel() >= 1 << 15:
                large = [line for line in lines if "exp" in line]
                assert len(large) == 1 and large[0].count("reduction") == 3, lines


@pytest.mark.own_region
def test_the_gradient_of_a_bias_is_summed_where_its_terms_are_made():
    x, bias, out = data(600, 256).requires_grad_(), data(256, seed=1).requires_grad_(), data(600, 256, seed=2)

    def step():
        torch.sigmoid(x + bias).square().backward(out)

    lines = groups(log_of(step))
    backward = [line for line in lines if "reduction" in line and "2 of" in line]
    assert backward and "sigmoid" in backward[0], lines
    found = [x.grad, bias.grad]
    x.grad = bias.grad = None
    step()
    assert all(same(a, b) for a, b in zip(found, [x.grad, bias.grad], strict=True))


@pytest.mark.own_region
def test_column_sums_of_narrow_and_very_wide_rows_are_the_eager_ones():
    for shape in ((5000, 8), (40, 4097), (2, 3000, 31), (200_000, 1)):
        x = data(*shape)
        for program in (lambda x: (x * 2).sum(-2), lambda x: (x * 2).prod(-2), lambda x: (x * 2).amax(-2)):
            assert same(torch.compile(program)(x), program(x)), shape


def turned(x):
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)


@pytest.mark.own_region
@pytest.mark.parametrize("width", [32, 64, 96, 128])
def test_rotary_embeddings_by_halves_are_one_group_with_the_eager_bits(width):
    q, cos, sin = data(2, 5, 128, width), data(128, width, seed=1), data(128, width, seed=2)
    of_a_batch = cos[None, None].expand(2, 1, -1, -1).contiguous(), sin[None, None].expand(2, 1, -1, -1).contiguous()

    def embedded(q, cos, sin):
        return q * cos + turned(q) * sin

    for c, s in ((cos, sin), of_a_batch, (cos[:, :1], sin[:1])):
        kept = []
        lines = groups(log_of(lambda c=c, s=s, kept=kept: kept.append(embedded(q, c, s))))
        assert len(lines) == 1 and lines[0].startswith("fused: "), lines
        assert same(kept[0], embedded(q, c, s)), c.shape
    leaf = q.clone().requires_grad_()
    embedded(leaf, cos, sin).square().mean().backward()
    wanted, leaf.grad = leaf.grad, None
    with torch.defer():
        embedded(leaf, cos, sin).square().mean().backward()
    assert same(leaf.grad, wanted)


@pytest.mark.own_region
def test_rows_that_are_written_in_parts_are_right_whoever_reads_them():
    x, y = data(300, 128), data(300, 128, seed=1)

    def kept_whole(x, y):
        rows = turned(x)
        return rows * y, rows

    def in_quarters(x, y):
        a, b, c, d = x.chunk(4, -1)
        return torch.cat([d * 2, c, b.exp(), a], -1).add_(y).mul_(0.5)

    def summed(x, y):
        rows = turned(x)
        return (rows + y).sum(-1), rows.sum(0)

    def normalized(x, y):
        z = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return z * y + turned(z) * (y + 1)

    def overwritten(x, y):
        rows = turned(x) + y
        rows[:, 3] = 7
        return rows * 2

    def uneven(x, y):
        return torch.cat([x[:, 32:], -x[:, :32]], -1) * y

    def by_column(x, y):
        return torch.cat([-x[:, 64:], x[:, :64]], -1) * y[:, :1] + (y > 0)

    for program in (kept_whole, in_quarters, summed, normalized, overwritten, uneven, by_column):
        found, wanted = torch.compile(program)(x, y), program(x, y)
        pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
        assert all(same(a, b) for a, b in pairs), program.__name__
    kept = []
    lines = groups(log_of(lambda: kept.append(normalized(x, y))))
    assert len(lines) == 1 and lines[0].startswith("fused: "), lines


@pytest.mark.own_region
def test_values_that_are_copied_in_another_order_are_computed_in_it():
    pictures = (data(3, 70, 80, 3).abs() * 100).to(torch.uint8)
    rows, bias = data(8, 50, 96), data(96, seed=1)

    def channels_first(p):
        return ((p.float() / 255 - 0.45) / 0.22).permute(0, 3, 1, 2).contiguous()

    def heads(x):
        return torch.tanh(x * 0.5 + bias).view(8, 50, 6, 16).transpose(1, 2).contiguous()

    for program, x in ((channels_first, pictures), (heads, rows)):
        kept = []
        lines = groups(log_of(lambda program=program, x=x, kept=kept: kept.append(program(x))))
        assert len(lines) == 1 and lines[0].startswith("fused: ") and "copy_" in lines[0], lines
        assert same(kept[0], program(x)) and kept[0].is_contiguous()
    leaf = rows.clone().requires_grad_()
    heads(leaf).square().mean().backward()
    wanted, leaf.grad = leaf.grad, None
    with torch.defer():
        heads(leaf).square().mean().backward()
    assert same(leaf.grad, wanted)


@pytest.mark.own_region
def test_permuted_values_that_others_read_too_are_right():
    x, y = data(40, 30, 50), data(40, 30, 50, seed=1)

    def kept(x, y):
        z = x * y + 1
        return z.transpose(0, 1).contiguous() * 2, z

    def transposed(x, y):
        return (x * y + 1).transpose(1, 2).contiguous().exp()

    def of_a_sum(x, y):
        z = x * y
        return (z - z.sum(-1, keepdim=True)).transpose(0, 1).contiguous()

    def part(x, y):
        return (x * y + 1)[:, 3:].transpose(0, 1).contiguous()

    def twice(x, y):
        z = (x * y).transpose(0, 1).contiguous() + 1
        return (z * z).transpose(0, 1).contiguous() - y

    def added_to(x, y):
        z = x * y
        z.add_(y)
        return z.transpose(0, 1).clone(memory_format=torch.contiguous_format)

    for program in (kept, transposed, of_a_sum, part, twice, added_to):
        found, wanted = torch.compile(program)(x, y), program(x, y)
        pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
        assert all(same(a, b) for a, b in pairs), program.__name__


@pytest.mark.own_region
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_of_short_rows_have_the_eager_bits(dtype):
    for n in (8, 16, 24, 32, 40, 48, 56):
        points, centres = data(300, n).to(dtype), data(50, n, seed=1).to(dtype)

        def distances(points, centres):
            square = (points[:, None] - centres[None]) ** 2
            return square.sum(-1).exp(), (square * 0.5).sum(-1)

        found, wanted = torch.compile(distances)(points, centres), distances(points, centres)
        assert all(same(a, b) for a, b in zip(found, wanted, strict=True)), n


@pytest.mark.own_region
def test_operands_whose_rows_lie_in_several_dimensions_have_the_eager_bits():
    x = data(6, 40, 8, 64)
    tables = data(40, 64, seed=1), data(6, 1, 8, 64, seed=2), data(6, 40, 1, 64, seed=3)

    def heads(x, table):
        return (x.transpose(1, 2) * 2 + 1) * x.transpose(1, 2).exp() - table

    def across(x, table):
        return (x * table).tanh() + x[:, ::2].repeat(1, 2, 1, 1) - x.flip(1)

    for table in (tables[0], tables[1].transpose(1, 2), tables[2].transpose(1, 2)):
        assert same(torch.compile(heads)(x, table), heads(x, table)), table.shape
    for table in (tables[0][:, None], *tables[1:]):
        assert same(torch.compile(across)(x, table), across(x, table)), table.shape


@pytest.mark.own_region
def test_results_that_are_stacked_are_in_the_group_that_computes_them():
    x, y = data(4, 120, 100), data(4, 120, 100, seed=1)
    for dim in (1, 2, 3):

        def program(x, y, dim=dim):
            return torch.stack([x + y, x * y, x.exp()], dim)

        kept = []
        lines = groups(log_of(lambda program=program, kept=kept: kept.append(program(x, y))))
        assert same(kept[0], program(x, y)), dim
        if "RGRAD_DEFER_FROM" not in os.environ:
            assert len(lines) == 1, lines

    # Results whose elements alternate in memory, in another order, of several tensors and some of them twice.
    def alternating(x, y):
        pairs, out = torch.stack([x - y, y * 3], -1), torch.zeros(4, 120, 100, 4)
        for k in (2, 0, 3, 1):
            out[..., k] = x * k + y
        out[..., 2] = y.exp()
        return pairs, out, torch.stack([x.sum(-1), y.amax(-1)], -1), torch.stack([x * 2, y * 2, x, y, x - 1], -1)

    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64):
        inputs = (x * 10).to(dtype), (y * 10).to(dtype)
        assert all(map(same, torch.compile(alternating)(*inputs), alternating(*inputs))), dtype

    # Parts of one result that have elements in common are written in order.
    def overlapping(x, y):
        out = torch.zeros(4, 3, 120, 100)
        out[:, 0:2] = x.unsqueeze(1) + 1
        out[:, 1] = y * 2
        out[:, 1:] *= x.unsqueeze(1)
        out.view(-1)[::2] += 1
        out.view(-1)[1::2] -= 1
        return out

    assert same(torch.compile(overlapping)(x, y), overlapping(x, y))


@pytest.mark.own_region
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_long_pieces_of_a_concatenation_are_computed_in_one_group(dtype):
    # Runs that are one row, several rows, and a prime number of elements.
    for channels, side in ((3, (56, 56)), (3, (224, 224)), (1, (1, 65_537)), (2, (90, 100)), (64, (30, 30))):
        x, y = (data(3, channels, *side, seed=seed).to(dtype) for seed in (0, 1))
        weight = data(channels, 1, 1, seed=2).to(dtype)

        def program(x, y, weight):
            both = torch.cat([torch.relu(x) * weight, x - y, (x * 0.5).exp()], 1)
            return both, both[:, 1:] * 2, torch.cat([y + 1, x * y], 0)

        kept = []
        log_of(lambda kept=kept, args=(x, y, weight): kept.extend(program(*args)))
        assert all(same(a, b) for a, b in zip(kept, program(x, y, weight), strict=True)), (channels, side)

        def loss(x, y, weight):
            return sum((part * torch.arange(part.shape[-1])).sum() for part in program(x, y, weight))

        found, wanted = [], []
        for f, gradients in ((torch.compile(loss), found), (loss, wanted)):
            leaf = x.clone().requires_grad_()
            f(leaf, y, weight).backward()
            gradients.append(leaf.grad)
        assert same(found[0], wanted[0]), (channels, side)


@pytest.mark.own_region
def test_a_reduction_of_memory_is_apart_from_the_values_per_row_that_are_computed_from_it():
    x, target, kept = data(512, 256), data(512), []
    log = groups(log_of(lambda: kept.append((target - x.mean(-1) * 0.5).abs())))
    assert log[0].startswith("alone: reduction") and log[1].startswith("fused: div") and len(log) == 2, log
    # Not if the elements are read again, or are computed.
    for f in (lambda: x - x.mean(-1, keepdim=True), lambda: (x * 2).mean(-1) * 0.5):
        log = groups(log_of(lambda f=f: kept.append(f())))
        assert len(log) == 1 and log[0].startswith("fused"), log


@pytest.mark.own_region
def test_extrema_of_columns_that_a_group_computes_are_in_the_group():
    x, mask, kept = data(8, 256, 512), data(8, 256, 1, seed=1) > 0.5, []
    pooled = lambda x: x.masked_fill(mask, -1e4).amax(1)  # noqa: E731
    (line,) = groups(log_of(lambda: kept.append(pooled(x))))
    assert line.startswith("fused: ") and "1 of 3 results stored" in line, line
    assert same(kept[0], pooled(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(1100, 257), (300, 1000), (70, 4096), (2100, 128)], ids=str)
def test_softmax_between_others_has_the_bits_of_eager_kernels(dtype, shape):
    x, r = data(*shape).to(dtype), data(*shape, seed=1).to(dtype)

    def program(x):
        return torch.softmax(x * 2 + r, -1) * r, torch.log_softmax(x - r, -1) + 1

    assert all(same(a, b) for a, b in zip(torch.compile(program)(x), program(x), strict=True))
