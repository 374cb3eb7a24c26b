"""The caches of plans and programs: a batch like an earlier one has its plan, one that differs has its own."""

from __future__ import annotations

import threading

import pytest
from compile_cases import data, groups, log_of, same

import rgrad as torch

pytestmark = pytest.mark.own_region

WIDTH = 512


def check(program, *args):
    """The eager results, twice, as the second call has what the first kept."""
    compiled = torch.compile(program)
    for _ in range(2):
        assert same(compiled(*args), program(*args))


def test_numbers_and_elements_of_scalars_are_those_of_the_call():
    x = data(128, WIDTH)
    for number in (2.0, 3.0, 0.0, -0.0, 1e-3):
        check(lambda x, number=number: torch.relu(x * number) - number / 3, x)
        check(lambda x, s: torch.relu(x * s) - s / 3, x, torch.tensor(number))
        check(lambda x, s: (x + s).sum(-1) * s, x, torch.tensor([[number]]))


def test_layouts_offsets_and_dtypes_are_those_of_the_call():
    def program(x, y):
        return (x * y + 1).tanh() - y

    x, y = data(256, WIDTH), data(256, WIDTH, seed=1)
    views = [(x[k:], y[: 256 - k]) for k in range(4)]
    views += [(x[:, k:], y[:, : WIDTH - k]) for k in (1, 16)]
    views += [(x.T, y.T), (x.T, y.reshape(WIDTH, 256)), (x, y[:1]), (x, y[:, :1]), (x[::2], y[1::2])]
    views += [(x.double(), y.double()), (x.bfloat16(), y.bfloat16()), (x.double(), y)]
    for a, b in views:
        check(program, a, b)


def test_a_value_that_somebody_keeps_is_stored_and_one_that_nobody_does_is_not():
    x, kept = data(256, WIDTH), []

    def program(x, keeps):
        middle = (x * 2).exp()
        if keeps:
            kept.append(middle)
        return (middle + 1).sqrt()

    for keeps in (False, True, False, True, True):
        lines = groups(log_of(lambda keeps=keeps: kept.append(program(x, keeps))))
        assert f"{1 + keeps} of 4 results stored" in lines[0]
        out = kept.pop()
        assert same(out, (((x * 2).exp()) + 1).sqrt())
    assert len(kept) == 3 and all(same(middle, (x * 2).exp()) for middle in kept)


def test_memory_that_is_read_and_written_differs_from_memory_apart():
    def step(target, x):
        return target.copy_(torch.tanh(x * 0.5) + 1)

    for _ in range(2):
        for target_of in (torch.empty_like, lambda x: x, lambda x: x[:]):
            found, wanted = data(256, WIDTH), data(256, WIDTH)
            with torch.defer():
                step(target_of(found), found)
            before = wanted.clone()
            step(target_of(wanted), wanted)
            assert same(found, wanted) and (same(wanted, before) == (target_of is torch.empty_like))
        shifted, by_hand = data(257, WIDTH), data(257, WIDTH)
        with torch.defer():
            step(shifted[1:], shifted[:-1])
        step(by_hand[1:], by_hand[:-1].clone())
        assert same(shifted, by_hand)


def test_more_shapes_than_are_cached_have_the_eager_results():
    def program(x):
        return ((x - x.mean(-1, keepdim=True)) * 2).relu().sum(0)

    x = data(600, 256)
    for rows in [*range(130, 430), *range(130, 160)]:
        assert same(torch.compile(program)(x[:rows]), program(x[:rows])), rows


def test_each_thread_has_its_own_while_another_drops_what_it_kept():
    x = data(256, WIDTH)
    wanted = ((x * 2).exp() + 1).sqrt()
    failed: list[int] = []

    def work(seed: int):
        for k in range(40):
            with torch.defer():
                middle = (x * 2).exp()
                held = [middle] if (k + seed) % 3 else []
                dropper = threading.Thread(target=held.clear)
                dropper.start()
                out = (middle + 1).sqrt()
                del middle
            dropper.join()
            if not same(out, wanted):
                failed.append(k)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_small_value_between_two_groups_is_computed_before_both():
    x = data(256, WIDTH)

    def places_of_extrema(x):
        most = x.amax(0)
        mask = (x == most) | most.isnan()
        return mask.float() * 3

    kept = []
    lines = groups(log_of(lambda: kept.append(places_of_extrema(x))))
    assert same(kept[0], places_of_extrema(x))
    masks = [line for line in lines if "eq" in line]
    assert len(masks) == 1 and "bitwise_or" in masks[0] and "mul" in masks[0], lines
