"""Functions written in Python give the results, gradients and errors that record_functions.py saw in PyTorch."""

from __future__ import annotations

import builtins
import json
import warnings
from pathlib import Path

import function_cases as cases
import pytest

import rgrad as torch

RECORDED = json.loads(Path(__file__).with_name("functions.json").read_text())


def _matches(found, expected):
    if isinstance(expected, dict):
        assert isinstance(found, torch.Tensor) and str(found.dtype) == expected["dtype"]
        assert list(found.shape) == expected["shape"]
        values = torch.tensor([float(v) for v in expected["values"]], dtype=torch.float64).reshape(found.shape)
        tolerance = {torch.float64: 1e-9, torch.float32: 2e-5}.get(found.dtype, 1e-2)
        torch.testing.assert_close(found.double(), values, rtol=tolerance, atol=tolerance, equal_nan=True)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _matches(one, other)
    else:
        assert found == expected


@pytest.mark.parametrize("call", [call for table in cases.CALLS for call in cases.lines(table)])
def test_a_call_gives_what_was_recorded(call):
    expected = RECORDED[call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if isinstance(expected, dict) and "error" in expected:
            with pytest.raises(getattr(builtins, expected["error"])):
                eval(call, cases.names(torch))
        else:
            _matches(eval(call, cases.names(torch)), expected)


@pytest.mark.parametrize("case", cases.lines(cases.GRADIENTS))
def test_gradients_are_those_recorded(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        _matches(cases.gradients(torch, case), RECORDED[case])


SECOND = {
    "lu": lambda a: torch.linalg.lu(a)[1:],
    "lstsq": lambda a: torch.linalg.lstsq(a, a[:, :1] + 1).solution,
    "matrix_exp": torch.linalg.matrix_exp,
    "matrix_sqrth": lambda a: torch.linalg.matrix_sqrth(a @ a.mT),
    "polar": lambda a: tuple(torch.linalg.polar(a)),
    "householder_product": lambda a: torch.linalg.householder_product(a, a[0]),
    "ldl_solve": lambda a: torch.linalg.ldl_solve(a, torch.tensor([2, -3, -3], dtype=torch.int32), a),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_agree_with_differences(name):
    a = cases.names(torch)["m"](3, 3).requires_grad_()
    assert torch.autograd.gradcheck(SECOND[name], a) and torch.autograd.gradgradcheck(SECOND[name], a)


def test_factors_of_large_matrices_multiply_to_them():
    torch.manual_seed(0)
    for shape in ((100, 100), (2, 70, 30), (30, 70)):
        a = torch.randn(shape, dtype=torch.float64)
        P, L, U = torch.linalg.lu(a)
        torch.testing.assert_close(P @ L @ U, a, rtol=1e-12, atol=1e-12)
        assert L.abs().max() <= 1
        rank = min(shape[-2:])
        if shape[-2] >= shape[-1]:
            packed, tau = torch.geqrf(a)
            Q = torch.linalg.householder_product(packed, tau)
            torch.testing.assert_close(Q @ packed[..., :rank, :].triu(), a, rtol=1e-12, atol=1e-12)


def test_eigenvalues_of_any_matrix_are_refused_as_they_are_complex():
    for function in (torch.linalg.eig, torch.linalg.eigvals):
        with pytest.raises(NotImplementedError, match="complex"):
            function(torch.eye(2))
    for function in (torch.geqrf, torch.linalg.ldl_factor):
        with pytest.raises(NotImplementedError, match="derivative for"):
            function(torch.eye(2, requires_grad=True))[0].sum().backward()
