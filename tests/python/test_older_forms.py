import subprocess
import sys
from typing import Any

import pytest

import rgrad as torch
from rgrad.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore:This overload of")

# Not typed: the stub has the present forms only.
add: Any = torch.add
A: Any = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
B = torch.tensor([[0.5, -1.0], [2.0, 0.25]])
V = torch.tensor([2.0, -3.0])
FACTOR = 2.5


@pytest.mark.parametrize("name", ["add", "sub"])
@pytest.mark.parametrize("factor", [FACTOR, 2, torch.tensor(2.0)])
def test_alpha_may_precede_the_other_operand(name, factor):
    expected = getattr(torch, name)(A, B, alpha=float(factor))
    for result in (
        getattr(torch, name)(A, factor, B),
        getattr(A, name)(factor, B),
        getattr(A, name)(alpha=factor, other=B),
        getattr(A, name)(factor, other=B),
        getattr(A.clone(), f"{name}_")(factor, B),
        getattr(torch, name)(A, factor, B, out=torch.empty(2, 2)),
    ):
        assert result.equal(expected)


def test_a_number_may_be_what_is_added_with_a_factor():
    assert add(A, 2, 3).equal(A + 6) and A.sub(2, 0.5).equal(A - 1)
    assert add(torch.tensor(True), torch.tensor(True), True).equal(torch.tensor(True))
    with pytest.raises(TypeError, match="positional arguments"):
        torch.addcmul(A, 2, 3, B)


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_value_may_precede_the_tensors(name):
    expected = getattr(torch, name)(A, A, B, value=FACTOR)
    assert getattr(torch, name)(A, FACTOR, A, B).equal(expected)
    assert getattr(A, name)(FACTOR, A, B).equal(expected)
    assert getattr(A.clone(), f"{name}_")(FACTOR, A, B).equal(expected)


@pytest.mark.parametrize(
    ("name", "left", "right"),
    [
        ("addmm", A, B),
        ("addmv", A, V),
        ("addr", V, V),
        ("addbmm", A[None], B[None]),
        ("baddbmm", A[None], B[None]),
    ],
)
def test_beta_and_alpha_may_precede_products(name, left, right):
    start = V if name == "addmv" else A[None] if name == "baddbmm" else A
    function, method = getattr(torch, name), getattr(start, name)
    expected = function(start, left, right, beta=3.0)
    assert function(3.0, start, left, right).equal(expected) and method(3.0, left, right).equal(expected)
    expected = function(start, left, right, beta=3.0, alpha=FACTOR)
    assert function(3.0, start, FACTOR, left, right).equal(expected)
    assert method(3.0, FACTOR, left, right).equal(expected)


def test_older_forms_have_gradients():
    x: Any = A.clone().requires_grad_()
    y: Any = B.clone().requires_grad_()
    x.add(FACTOR, y).sum().backward()
    assert x.grad.eq(1).all() and y.grad.eq(FACTOR).all()


def test_what_is_no_older_form_keeps_its_error():
    for call in (lambda: add(2.0, A, B), lambda: A.add(2.0, "3"), lambda: A.add(torch.ones(1), B)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError):
        A.addcmul("2", A, B)


def test_the_first_older_form_warns_and_names_the_new_one():
    program = (
        "import warnings, rgrad\n"
        "x = rgrad.ones(2)\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    x.add(2, x); rgrad.addcmul(x, 2, x, x)\n"
        "assert len(seen) == 1, seen\n"
        "print(seen[0].message)\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "add(Number alpha, Tensor other)" in told and "add(Tensor other, *, Number alpha = 1)" in told


@pytest.mark.parametrize(
    "loss",
    [
        F.mse_loss,
        F.l1_loss,
        F.smooth_l1_loss,
        F.binary_cross_entropy,
        F.binary_cross_entropy_with_logits,
    ],
)
def test_older_arguments_of_losses_choose_the_reduction_and_warn(loss):
    input, target = torch.rand(3, 4), torch.rand(3, 4)
    for older, reduction in (
        ({"reduce": False}, "none"),
        ({"size_average": False}, "sum"),
        ({"size_average": True, "reduce": True, "reduction": "sum"}, "mean"),
    ):
        with pytest.warns(UserWarning, match=f"please use reduction='{reduction}' instead"):
            found = loss(input, target, **older)
        assert found.equal(loss(input, target, reduction=reduction))


def test_older_arguments_choose_the_reduction_of_losses_of_classes():
    input, target = torch.randn(3, 4).log_softmax(1), torch.tensor([0, 3, 1])
    for loss in (F.nll_loss, F.cross_entropy):
        with pytest.warns(UserWarning, match="reduction='none'"):
            assert loss(input, target, reduce=False).shape == (3,)


def test_older_arguments_choose_the_reduction_of_divergences():
    input, target = torch.randn(3, 4).log_softmax(1), torch.rand(3, 4).softmax(1)
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert F.kl_div(input, target, reduce=False).shape == (3, 4)
