"""Connectionist temporal classification, against sums over all alignments."""

import itertools
import math

import pytest

import rgrad as torch
import rgrad.nn.functional as F
from rgrad import nn


def alignments(path, blank):
    """The labels that a path stands for: repetitions are one, and blanks are none."""
    kept = [label for i, label in enumerate(path) if i == 0 or label != path[i - 1]]
    return [label for label in kept if label != blank]


def test_ctc_sums_the_probabilities_of_all_alignments():
    torch.manual_seed(0)
    logs = torch.randn(4, 2, 3, dtype=torch.float64).log_softmax(2)
    targets, steps = [[1, 1], [2]], [4, 3]
    expected = []
    for n, target in enumerate(targets):
        paths = itertools.product(range(3), repeat=steps[n])
        meant = [path for path in paths if alignments(path, 0) == target]
        chances = [math.exp(sum(logs[t, n, c].item() for t, c in enumerate(path))) for path in meant]
        expected.append(-math.log(sum(chances)))
    padded, joined = torch.tensor([[1, 1], [2, 0]]), torch.tensor([1, 1, 2])
    for labels in (padded, joined):
        losses = F.ctc_loss(logs, labels, steps, [2, 1], reduction="none")
        assert losses.tolist() == pytest.approx(expected)
    assert nn.CTCLoss()(logs, padded, steps, [2, 1]).item() == pytest.approx(expected[0] / 4 + expected[1] / 2)


def test_ctc_has_the_gradient_of_its_lattice():
    torch.manual_seed(0)
    x = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[1, 2], [2, 2]])
    assert torch.autograd.gradcheck(lambda x: F.ctc_loss(x.log_softmax(2), labels, [4, 3], [2, 1]), x)


@pytest.mark.parametrize("zero", [False, True])
def test_ctc_of_a_target_that_cannot_be_reached(zero):
    x = torch.zeros(2, 1, 3, requires_grad=True)
    loss = F.ctc_loss(x.log_softmax(2), torch.tensor([[1, 1]]), [2], [2], zero_infinity=zero)
    loss.backward()
    assert loss.item() == (0 if zero else math.inf)
    assert x.grad.eq(0).all() if zero else x.grad.isnan().all()


def test_a_sample_without_steps_has_no_gradient_even_where_its_target_is_impossible():
    x = torch.randn(2, 2, 4).log_softmax(2).requires_grad_()
    target, lengths = torch.ones(2, 1, dtype=torch.int64), torch.tensor([1, 0])
    losses = torch.nn.functional.ctc_loss(x, target, torch.zeros(2, dtype=torch.int64), lengths, reduction="none")
    assert losses.tolist() == [torch.inf, 0.0]
    losses.sum().backward()
    assert x.grad.count_nonzero() == 0


def test_labels_and_lengths_that_do_not_fit_are_refused():
    losses, probs = torch._C._nn.ctc_losses, torch.zeros(3, 1, 2)
    for given, why in (
        ((torch.zeros(0, 1, 2), torch.tensor([[1]]), [0], [0]), "must not be empty"),
        ((probs, torch.tensor([[1]]), [4], [1]), "log_probs has 3 of the 4"),
        ((probs, torch.tensor([[1]]), [3], [2]), "targets has 1 of the 2"),
        ((probs, torch.tensor([1]), [3], [2]), "targets has 1 of the 2"),
        ((probs, torch.tensor([[1]]), [3, 3], [1]), "must be of size batch_size"),
        ((probs, torch.tensor([[1]]), [3], [-1]), "must be non-negative"),
    ):
        with pytest.raises(RuntimeError, match=why):
            losses(*given)
    with pytest.raises(IndexError, match="Target 2 is out of bounds"):
        losses(probs, torch.tensor([[2]]), [3], [1])
