"""Loops over a dimension as functions: `associative_scan` and `scan`."""

import pytest

import rgrad as torch
from rgrad._higher_order_ops import associative_scan, scan


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", ["pointwise", "generic"])
def test_an_associative_scan_of_sums_is_a_cumulative_sum(dim, reverse, mode):
    x = torch.arange(12.0).reshape(3, 4)
    wanted = x.flip(dim).cumsum(dim).flip(dim) if reverse else x.cumsum(dim)
    assert torch.equal(associative_scan(torch.add, x, dim, reverse, mode), wanted)


def test_an_associative_scan_solves_a_linear_recurrence_with_gradients():
    factor = torch.tensor([0.5, 2.0, -1.0, 3.0], dtype=torch.float64, requires_grad=True)
    added = torch.tensor([1.0, -2.0, 0.5, 4.0], dtype=torch.float64, requires_grad=True)

    def combine(left, right):
        return {"a": left["a"] * right["a"], "b": right["a"] * left["b"] + right["b"]}

    def states(factor, added):
        return associative_scan(combine, {"a": factor, "b": added}, 0)["b"]

    state, wanted = torch.zeros((), dtype=torch.float64), []
    for a, b in zip(factor, added, strict=True):
        state = a * state + b
        wanted.append(state)
    assert torch.equal(states(factor, added), torch.stack(wanted))
    assert torch.autograd.gradcheck(states, (factor, added))


def test_an_associative_scan_of_no_or_one_step_is_its_input():
    assert associative_scan(torch.add, torch.zeros(0, 2), 0).shape == (0, 2)
    assert torch.equal(associative_scan(torch.add, torch.ones(1, 2), 0), torch.ones(1, 2))


def test_an_associative_scan_checks_its_arguments():
    x = torch.ones(3, 2)
    with pytest.raises(ValueError, match="must be a callable"):
        associative_scan(3, x, 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Combine_mode must either 'pointwise' or 'generic'"):
        associative_scan(torch.add, x, 0, combine_mode="other")
    with pytest.raises(IndexError, match="Dimension out of range"):
        associative_scan(torch.add, x, 2)
    with pytest.raises(ValueError, match="same size"):
        associative_scan(lambda a, b: b, (x, x[:2]), 0)
    with pytest.raises(ValueError, match="tensors"):
        associative_scan(torch.add, 3, 0)
    with pytest.raises(RuntimeError, match="look like"):
        associative_scan(lambda a, b: (a, b), x, 0)


def test_a_scan_carries_its_state_and_joins_the_outputs():
    x = torch.arange(12.0).reshape(3, 4)
    last, outputs = scan(lambda total, row: (total + row, total * row), torch.zeros(4), x)
    assert torch.equal(last, x.sum(0))
    before = x.cumsum(0) - x
    assert torch.equal(outputs, before * x)
    last, outputs = scan(lambda total, column: (total + column, total * column), torch.zeros(3), x, dim=1)
    assert torch.equal(last, x.sum(1))
    assert torch.equal(outputs, (x.cumsum(1) - x) * x)


def test_a_scan_from_the_end_gives_outputs_in_the_order_of_the_input():
    x = torch.tensor([1.0, 2.0, 3.0])
    last, outputs = scan(lambda total, v: (total + v, total), torch.tensor(0.0), x, reverse=True)
    assert last.item() == 6
    assert outputs.tolist() == [5, 3, 0]


def test_a_scan_takes_containers_and_is_differentiable():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    last, outputs = scan(lambda c, v: ((c[0] * v["x"],), {"y": v["x"] * 2}), (torch.tensor(1.0),), {"x": x})
    assert outputs["y"].tolist() == [2, 4, 6]
    last[0].backward()
    assert x.grad is not None and x.grad.tolist() == [6, 3, 2]


def test_a_scan_of_no_steps_returns_the_first_state_and_empty_outputs():
    last, outputs = scan(lambda c, v: (c + v, c * v), torch.ones(4), torch.zeros(0, 4))
    assert last.tolist() == [1, 1, 1, 1]
    assert outputs.shape == (0, 4)


def test_a_scan_checks_its_arguments():
    x = torch.ones(3, 2)
    with pytest.raises(RuntimeError, match="must be a callable"):
        scan(2, torch.zeros(2), x)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="Reverse must be a bool"):
        scan(lambda c, v: (c, v), torch.zeros(2), x, reverse=2)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="requires init leaves"):
        scan(lambda c, v: (c, v), [], x)
    with pytest.raises(RuntimeError, match="init leaves must be a Tensor"):
        scan(lambda c, v: (c, v), 3, x)
    with pytest.raises(RuntimeError, match="a pair"):
        scan(lambda c, v: c, torch.zeros(2), x)
    with pytest.raises(RuntimeError, match="built like init"):
        scan(lambda c, v: ((c, c), v), torch.zeros(2), x)
