"""Singular values: decompositions, norms made of them, and their derivatives."""

import pytest

import rgrad as torch
from rgrad.autograd import gradcheck, gradgradcheck

SHAPES = [(4, 4), (6, 3), (3, 6), (2, 5, 3), (2, 0, 3), (0, 0), (1, 1)]


def close(a, b, atol=1e-12):
    return torch.allclose(a, b, rtol=0, atol=atol)


def random(*shape):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [False, True])
def test_the_factors_are_orthonormal_and_multiply_to_the_matrix(shape, full):
    a = random(*shape)
    u, s, vh = torch.linalg.svd(a, full_matrices=full)
    m, n = shape[-2:]
    k = min(m, n)
    assert u.shape[-2:] == (m, m if full else k) and vh.shape[-2:] == (n if full else k, n)
    assert close(u[..., :k] @ (s.unsqueeze(-1) * vh[..., :k, :]), a)
    assert close(u.mT @ u, torch.eye(u.shape[-1], dtype=a.dtype).expand_as(u.mT @ u))
    assert close(vh @ vh.mT, torch.eye(vh.shape[-2], dtype=a.dtype).expand_as(vh @ vh.mT))
    assert bool((s[..., :-1] >= s[..., 1:]).all()) and bool((s >= 0).all())
    assert close(torch.linalg.svdvals(a), s)


def test_results_have_names():
    a = random(4, 2)
    u, s, v = torch.svd(a)
    assert torch.svd(a).V.shape == (2, 2) and torch.linalg.svd(a).Vh.shape == (2, 2)
    assert close(u @ torch.diag(s) @ v.mT, a)
    assert torch.svd(a, some=False).U.shape == (4, 4)
    blank = torch.svd(a, compute_uv=False)
    assert blank.U.tolist() == torch.zeros(4, 4).tolist() and close(blank.S, s)


def test_single_precision_is_as_good_as_its_elements():
    a = random(30, 20).float()
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    assert s.dtype == torch.float32 and close(u * s @ vh, a, atol=1e-5)


def test_what_has_no_decomposition_is_refused():
    with pytest.raises(torch.linalg.LinAlgError, match="non-finite values"):
        torch.linalg.svd(torch.full((2, 2), torch.nan))
    with pytest.raises(RuntimeError, match="The input tensor A must have at least 2 dimensions."):
        torch.linalg.svd(torch.ones(3))
    with pytest.raises(
        NotImplementedError, match="Expected a floating point or complex tensor as input. Got Long"
    ):
        torch.linalg.svdvals(torch.ones(3, 3, dtype=torch.int64))
    with pytest.raises(NotImplementedError, match="\"linalg_svd_cpu\" not implemented for 'BFloat16'"):
        torch.linalg.svd(torch.ones(3, 3, dtype=torch.bfloat16))


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
def test_derivatives_agree_with_finite_differences(shape):
    a = random(*shape).requires_grad_()
    k = min(shape[-2:])

    def invariant(x, full=False):
        # Products that the signs of the vectors do not show in.
        u, s, vh = torch.linalg.svd(x, full_matrices=full)
        u, vh = u[..., :k], vh[..., :k, :]
        return u.square(), s, vh.square(), u @ vh

    assert gradcheck(lambda x: invariant(x), (a,)) and gradcheck(lambda x: invariant(x, True)[1], (a,))
    assert gradcheck(torch.linalg.svdvals, (a,)) and gradgradcheck(torch.linalg.svdvals, (a,))
    assert gradgradcheck(lambda x: invariant(x)[3], (a,))


@pytest.mark.parametrize("order", [2, -2, "nuc", "fro", 1, -1, torch.inf])
def test_matrix_norms_are_those_of_the_singular_values(order):
    a = random(3, 2, 4).requires_grad_()
    s = torch.linalg.svdvals(a)
    known = {2: s.amax(-1), -2: s.amin(-1), "nuc": s.sum(-1), "fro": s.square().sum(-1).sqrt()}
    norm = torch.linalg.matrix_norm(a, order)
    if order in known:
        assert close(norm, known[order])
    assert gradcheck(lambda x: torch.linalg.matrix_norm(x, order), (a,))
    kept = torch.linalg.matrix_norm(a, order, dim=(0, 2), keepdim=True)
    assert kept.shape == (1, 2, 1)
    assert close(kept.reshape(2), torch.linalg.norm(a.movedim(1, 0), order, dim=(1, 2)))


def test_norms_of_matrices_without_elements_are_zero():
    for order in (2, "nuc", "fro"):
        assert torch.linalg.matrix_norm(torch.ones(3, 0), order).item() == 0
    with pytest.raises(IndexError, match=r"amin\(\): Expected reduction dim"):
        torch.linalg.matrix_norm(torch.ones(3, 0), -2)


def test_the_nuclear_norm_has_a_subgradient_at_zero():
    a = torch.zeros(3, 3, requires_grad=True)
    torch.linalg.matrix_norm(a, "nuc").backward()
    assert a.grad.tolist() == torch.eye(3).tolist()


def test_low_precision_has_no_singular_values():
    with pytest.raises(
        NotImplementedError, match="linalg.matrix_norm: Low precision dtypes not supported. Got Half"
    ):
        torch.linalg.matrix_norm(torch.ones(3, 3, dtype=torch.half), "nuc")
