"""Factorizations on a GPU give the numbers, the signs and the errors of the CPU."""

import pytest

import rgrad as torch
from rgrad import linalg

pytestmark = pytest.mark.usefixtures("gpu")

# A size that is done in one launch, and one that is done step by step.
SIZES = [((3,), 5), ((), 40)]


def square(batch, n):
    torch.manual_seed(n)
    return torch.rand(*batch, n, n) + n * torch.eye(n)


def symmetric(batch, n):
    """Eigenvalues of about 1 to 2, all apart."""
    q = linalg.qr(square(batch, n) - n * torch.eye(n)).Q
    return (q * torch.linspace(1, 2, n)) @ q.mT


CALLS = {
    "inv": lambda a, s, b: linalg.inv(a),
    "solve": lambda a, s, b: linalg.solve(a, b),
    "solve from the right": lambda a, s, b: linalg.solve(a, b.mT, left=False),
    "upper triangle": lambda a, s, b: linalg.solve_triangular(a, b, upper=True),
    "lower triangle": lambda a, s, b: linalg.solve_triangular(a, b, upper=False),
    "unit triangle": lambda a, s, b: linalg.solve_triangular(s / 8, b, upper=True, unitriangular=True),
    "det": lambda a, s, b: linalg.det(s),
    "slogdet": lambda a, s, b: linalg.slogdet(-a),
    "logdet": lambda a, s, b: torch.logdet(a),
    "cholesky": lambda a, s, b: linalg.cholesky(s),
    "upper cholesky": lambda a, s, b: linalg.cholesky(s, upper=True),
    "cholesky_inverse": lambda a, s, b: torch.cholesky_inverse(linalg.cholesky(s)),
    "cholesky_solve": lambda a, s, b: torch.cholesky_solve(b, linalg.cholesky(s)),
    "qr": lambda a, s, b: linalg.qr(a),
    "tall qr": lambda a, s, b: linalg.qr(a[..., :3]),
    "wide qr": lambda a, s, b: linalg.qr(a[..., :3, :]),
    "complete qr": lambda a, s, b: linalg.qr(a[..., :3].detach(), "complete"),
    "R": lambda a, s, b: linalg.qr(a.detach(), "r")[1],
    "eigh": lambda a, s, b: (linalg.eigh(s)[0], linalg.eigh(s)[1].abs()),
    "eigvalsh": lambda a, s, b: linalg.eigvalsh(s, UPLO="U"),
    "pinv": lambda a, s, b: linalg.pinv(a[..., :3]),
    "cond": lambda a, s, b: linalg.cond(a, 1),
    "matrix_power": lambda a, s, b: linalg.matrix_power(s, -2),
}


def outcome(call, device, tensors):
    leaves = [t.to(device).requires_grad_() for t in tensors]
    found = call(*leaves)
    found = (found,) if isinstance(found, torch.Tensor) else tuple(found)
    assert all(f.device == leaves[0].device for f in found)
    if any(f.requires_grad for f in found):
        sum((f * f).sum() for f in found).backward()
    return [f.detach().cpu() for f in found] + [t.grad.cpu() for t in leaves if t.grad is not None]


@pytest.mark.parametrize(("batch", "n"), SIZES)
@pytest.mark.parametrize("name", CALLS)
def test_numbers_and_gradients_are_those_of_the_cpu(name, batch, n):
    tensors = [square(batch, n), symmetric(batch, n), torch.rand(*batch, n, 3)]
    there, here = (outcome(CALLS[name], device, tensors) for device in ("gpu", "cpu"))
    assert len(there) == len(here)
    # A derivative of eigenvectors divides by how far the values are apart.
    rtol = 1e-4 * n if name == "eigh" else 1e-4
    for got, want in zip(there, here, strict=True):
        assert got.dtype == want.dtype and got.stride() == want.stride()
        assert torch.allclose(got, want, rtol=rtol, atol=rtol * max(1.0, want.abs().max().item()))


def test_many_steps_are_all_done():
    a = symmetric((), 100)
    there = a.to("gpu")
    values, vectors = (t.cpu() for t in linalg.eigh(there))
    assert torch.allclose(values, torch.linspace(1, 2, 100), atol=1e-5)
    assert torch.allclose((vectors * values) @ vectors.mT, a, atol=1e-5)
    q, r = (t.cpu() for t in linalg.qr(there))
    assert torch.allclose(q @ r, a, atol=1e-5) and torch.allclose(q.mT @ q, torch.eye(100), atol=1e-5)
    assert torch.allclose(linalg.inv(there).cpu() @ a, torch.eye(100), atol=1e-5)


@pytest.mark.parametrize("shape", [(64, 64), (70, 30), (20, 50)])
@pytest.mark.parametrize("full", [False, True])
def test_singular_values_of_large_matrices_and_of_deficient_ones(shape, full):
    a = torch.randn(shape)
    for x in (a, a[:, :5] @ torch.randn(5, shape[1]), torch.zeros(shape)):
        u, s, vh = (t.cpu() for t in linalg.svd(x.to("gpu"), full_matrices=full))
        k = min(shape)
        assert torch.allclose((u[:, :k] * s) @ vh[:k], x, atol=2e-5) and bool((s.diff() <= 0).all())
        assert torch.allclose(s, linalg.svdvals(x), atol=2e-5)
        assert torch.allclose(u.mT @ u, torch.eye(u.shape[1]), atol=1e-5)
        assert torch.allclose(vh @ vh.mT, torch.eye(vh.shape[0]), atol=1e-5)


def test_equal_eigenvalues_converge():
    for values in (torch.ones(40), torch.arange(40) // 10 - 1.0, torch.zeros(40)):
        q = linalg.qr(torch.rand(40, 40)).Q
        found = linalg.eigvalsh(((q * values) @ q.mT).to("gpu")).cpu()
        assert torch.allclose(found, values, atol=1e-5)


def test_huge_and_tiny_matrices_keep_their_digits():
    for scale in (1e-30, 1e30):
        a = torch.tensor([[3.0, 4.0], [4.0, -3.0]], device="gpu") * scale
        assert torch.allclose(linalg.eigvalsh(a).cpu() / scale, torch.tensor([-5.0, 5.0]))
        assert torch.allclose(linalg.qr(a).R.cpu() / scale, torch.tensor([[-5.0, 0.0], [0.0, -5.0]]), atol=1e-5)
        assert torch.allclose(linalg.cholesky(a.abs() + scale * torch.eye(2, device="gpu") * 2).cpu()[0, 0],
                              torch.tensor(5 * scale).sqrt())  # fmt: skip


def test_matrices_without_elements():
    x = torch.ones(0, 0, device="gpu")
    assert linalg.inv(x).shape == (0, 0) and linalg.det(x) == 1 and linalg.slogdet(x)[1] == 0
    assert linalg.cholesky(x).shape == (0, 0) and linalg.eigh(x)[1].shape == (0, 0)
    assert linalg.inv(torch.ones(0, 2, 2, device="gpu")).shape == (0, 2, 2)
    assert torch.equal(linalg.qr(torch.ones(3, 0, device="gpu"), "complete")[0].cpu(), torch.eye(3))


def test_right_sides_may_be_wide():
    a, b = square((), 30), torch.rand(30, 700)
    assert torch.allclose(linalg.solve(a.to("gpu"), b.to("gpu")).cpu(), linalg.solve(a, b), atol=1e-5)


FAILURES = [
    lambda d: linalg.inv(torch.zeros(2, 2, device=d)),
    lambda d: linalg.inv(torch.stack([torch.eye(2), torch.ones(2, 2)]).to(d)),
    lambda d: linalg.solve(torch.ones(30, 30, device=d), torch.ones(30, device=d)),
    lambda d: linalg.cholesky(-torch.eye(2, device=d)),
    lambda d: linalg.cholesky(torch.eye(40, device=d).index_fill(0, torch.tensor([7], device=d), -1)),
    lambda d: linalg.eigh(torch.full((2, 2), torch.nan, device=d)),
    lambda d: linalg.eigh(torch.full((30, 30), torch.nan, device=d)),
    lambda d: linalg.det(torch.ones(2, 3, device=d)),
    lambda d: linalg.inv(torch.ones(2, 2, device=d).half()),
    lambda d: linalg.cholesky(torch.ones(2, 2, device=d).half()),
]


@pytest.mark.parametrize("call", FAILURES)
def test_errors_are_those_of_the_cpu(call):
    with pytest.raises(Exception) as here:
        call("cpu")
    with pytest.raises(type(here.value)) as there:
        call("gpu")
    assert str(there.value) == str(here.value)


def test_a_singular_matrix_has_a_derivative_of_its_determinant():
    a = torch.tensor([[1.0, 2.0], [2.0, 4.0]], device="gpu", requires_grad=True)
    linalg.det(a).backward()
    assert a.grad.tolist() == [[0, 0], [0, 0]]


def test_the_packed_factorization_of_the_core_is_refused_on_a_gpu_and_lu_factor_computed_there():
    x = torch.tensor([[0.0, 2.0], [4.0, 8.0]])
    with pytest.raises(NotImplementedError, match="'_lu_factor' is not implemented for the gpu:0 device"):
        torch._C._linalg._lu_factor(x.to("gpu"), True)
    found = linalg.lu_factor(x.to("gpu"))
    assert found.LU.device.type == "gpu" and found.LU.cpu().tolist() == [[4.0, 8.0], [0.0, 2.0]]
