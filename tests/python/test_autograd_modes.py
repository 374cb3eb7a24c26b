"""Inference mode and its tensors; anomaly mode and what it shows."""

from __future__ import annotations

import warnings

import pytest

import rgrad as torch


def leaf() -> torch.Tensor:
    return torch.ones(2, requires_grad=True)


def inferred() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(2)


def test_inference_mode_makes_inference_tensors_and_records_nothing():
    x = leaf()
    with torch.inference_mode():
        assert not torch.is_grad_enabled() and torch.is_inference_mode_enabled()
        y = x * 2
        assert y.is_inference() and not y.requires_grad and not x.view(2).is_inference()
        with torch.enable_grad():
            assert torch.is_grad_enabled() and not (x * 2).requires_grad
        with torch.inference_mode(False):
            assert torch.is_grad_enabled() and not torch.ones(2).is_inference()
    assert torch.is_grad_enabled() and not torch.ones(2).is_inference()


def test_views_of_inference_tensors_are_such_and_results_outside_are_not():
    t = inferred()
    assert t.view(2).is_inference() and t.detach().is_inference()
    assert not (t * 2).is_inference() and not t.clone().is_inference()


def test_an_inference_tensor_may_take_part_where_it_is_not_saved():
    t, x = inferred(), leaf()
    assert (t + x).requires_grad
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward. Please do not use Tensors"):
        _ = t * x
    assert (t * 3).sum().item() == 6.0 and (t + x).requires_grad


@pytest.mark.parametrize(
    "write", [lambda t: t.add_(1), lambda t: t.__setitem__(0, 1.0), lambda t: torch.add(torch.ones(2), 1, out=t)]
)
def test_an_inference_tensor_is_not_written_outside(write):
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        write(inferred())


def test_an_inference_tensor_has_no_version_and_cannot_require_grad_outside():
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        _ = inferred()._version
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        inferred().requires_grad_()


def _failing(x):
    return (x.sqrt() * 0).sum()


def _messages(record) -> str:
    return "\n".join(str(w.message) for w in record)


def test_anomaly_mode_shows_where_the_failing_node_was_made():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        with (
            torch.autograd.detect_anomaly(),
            pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output."),
        ):
            _failing(x).backward()
    text = _messages(record)
    assert "Anomaly Detection has been enabled." in text
    assert "Error detected in SqrtBackward0. Traceback of forward call that caused the error:" in text
    assert "return (x.sqrt() * 0).sum()" in text
    assert not torch.is_anomaly_enabled()


def test_anomaly_mode_says_when_forward_ran_outside_it():
    x = torch.tensor([0.0], requires_grad=True)
    y = _failing(x)
    with (
        torch.autograd.set_detect_anomaly(True),
        pytest.warns(UserWarning, match="No forward pass information available"),
        pytest.raises(RuntimeError, match="nan values"),
    ):
        y.backward()


def test_anomaly_mode_may_let_nan_pass():
    x = torch.tensor([0.0], requires_grad=True)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
        _failing(x).backward()
    assert x.grad.isnan().all()


def test_anomaly_mode_goes_back_through_the_backward_that_made_a_node():
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            raise ValueError("broken")

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return Broken.apply(g)

    x, weight = leaf(), torch.ones(2, requires_grad=True)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        with torch.autograd.set_detect_anomaly(True):
            (g,) = torch.autograd.grad(Twice.apply(x), x, weight, create_graph=True)
            with pytest.raises(ValueError, match="broken"):
                g.sum().backward()
    text = _messages(record)
    assert "Error detected in BrokenBackward. Traceback of forward call that caused the error:" in text
    assert "Previous calculation was induced by TwiceBackward. Traceback of forward call that induced" in text


def test_forward_mode_is_reached_as_an_attribute():
    import rgrad.autograd.forward_ad as forward_ad

    assert forward_ad is torch.autograd.forward_ad


def test_the_modules_of_modes_have_pytorchs_names():
    from rgrad.autograd import anomaly_mode, grad_mode

    assert anomaly_mode.detect_anomaly is torch.autograd.detect_anomaly
    assert repr(grad_mode.set_grad_enabled(True)) == "rgrad.autograd.grad_mode.set_grad_enabled(mode=True)"
    with pytest.raises(TypeError, match=r"set_anomaly_enabled\(\): argument 'enabled' \(position 1\) must be bool"):
        torch.autograd.set_detect_anomaly("yes")


def test_in_anomaly_mode_a_version_error_points_at_the_trace():
    x = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning), torch.autograd.detect_anomaly():
        y = x.exp()
        y.add_(1)
        with pytest.raises(RuntimeError, match="Hint: the backtrace further above shows the operation"):
            y.sum().backward()


def test_gradients_beyond_the_outputs_are_not_looked_at():
    x = torch.ones(2, requires_grad=True)
    (g,) = torch.autograd.grad((x * 2).sum(), x, [torch.tensor(3.0), torch.tensor(5.0)])
    assert g.tolist() == [6.0, 6.0]


def test_a_view_of_an_inference_tensor_has_no_base():
    x = inferred()
    assert not x.view(-1)._is_view() and x.view(-1).is_inference()
    with torch.inference_mode():
        y = torch.ones(2, requires_grad=True)
    assert y.view(-1).is_leaf and not y.view(-1).requires_grad
    with torch.inference_mode():
        assert not x.view(-1)._is_view()
        x.transpose_(0, -1)
    assert x.is_inference() and not x._is_view()


def test_an_inference_tensor_that_requires_grad_is_resized_in_inference_mode():
    with torch.inference_mode():
        x = torch.ones(2, 3, requires_grad=True)
        assert x.resize_(3).shape == (3,) and x.requires_grad
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        torch.ones(2, requires_grad=True).resize_(3)


def test_warnings_of_anomaly_mode_that_are_errors_leave_the_error_of_the_node(capsys):
    x = torch.tensor([0.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            y = _failing(x)
            warnings.simplefilter("error")
            with pytest.raises(RuntimeError, match="nan values"):
                y.backward()
    assert "UserWarning: Error detected in SqrtBackward0" in capsys.readouterr().err
