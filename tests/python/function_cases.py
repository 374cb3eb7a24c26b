"""Calls of functions, as text: record_functions.py evaluates them with PyTorch and test_functions.py with rgrad."""

from __future__ import annotations

import math
from typing import Any

LINALG = """
linalg.lu(m(4, 4))
linalg.lu(m(2, 3, 5))
linalg.lu(m(2, 5, 3))
linalg.lu(m(12, 12))
linalg.lu_factor(m(2, 4, 4))
linalg.lu_factor(m(20, 20))
linalg.lu_factor(m(3, 3).float())
linalg.lu_factor_ex(m(2, 2) * 0)
linalg.lu_factor_ex(ones(2, 3, 3))
linalg.lu_factor(ones(2, 2))
linalg.lu_factor_ex(ones(2, 2), check_errors=True)
linalg.lu(ones(3))
linalg.lu_factor(ones(3))
linalg.lu_factor(ones(3, 3).long())
linalg.lu_factor(ones(3, 3).half())
linalg.lu(m(3, 3), pivot=False)
linalg.lu(m(2, 0, 3))
linalg.lu_solve(*linalg.lu_factor(m(4, 4)), m(4, 2))
linalg.lu_solve(*linalg.lu_factor(m(2, 4, 4)), m(4, 3))
linalg.lu_solve(*linalg.lu_factor(m(4, 4)), m(3, 4), left=False)
linalg.lu_solve(*linalg.lu_factor(m(4, 4)), m(3, 4), left=False, adjoint=True)
linalg.lu_solve(*linalg.lu_factor(m(4, 4)), m(4, 3), adjoint=True)
linalg.lu_solve(*linalg.lu_factor(m(4, 4)), m(4))
linalg.lu_solve(*linalg.lu_factor(m(4, 4)), m(3, 3))
linalg.lu_solve(*linalg.lu_factor(m(4, 4)), m(4, 3).float())
linalg.lu_solve(m(4, 4), arange(1, 5), m(4, 3))
torch.lu_unpack(*linalg.lu_factor(m(2, 4, 3)))
torch.lu_unpack(*linalg.lu_factor(m(4, 4)), unpack_data=False)
torch.lu_unpack(*linalg.lu_factor(m(4, 4)), unpack_pivots=False)
torch.lu_unpack(m(2, 2), arange(2))
torch.lu_unpack(m(2, 2), arange(2).int())
torch.lu(m(3, 3))
torch.lu(m(3, 3), get_infos=True)
m(3, 3).lu()
torch.lu_solve(m(3, 2), *linalg.lu_factor(m(3, 3)))
m(3, 2).lu_solve(*linalg.lu_factor(m(3, 3)))
linalg.ldl_factor(sym(5))
linalg.ldl_factor(sym(2, 6))
linalg.ldl_factor(sym(9))
linalg.ldl_factor(sym(4).float())
linalg.ldl_factor(tensor([[0.0, 1, 2], [1, 0, 3], [2, 3, 0]]))
linalg.ldl_factor(tensor([[0.0, 2], [2, 0]]), hermitian=True)
linalg.ldl_factor_ex(zeros(2, 2))
linalg.ldl_factor_ex(zeros(2, 2), check_errors=True)
linalg.ldl_factor(m(2, 3))
linalg.ldl_solve(*linalg.ldl_factor(sym(6)), m(6, 2))
linalg.ldl_solve(*linalg.ldl_factor(sym(2, 5)), m(5, 2))
linalg.ldl_solve(*linalg.ldl_factor(sym(4)), m(3, 2))
linalg.ldl_solve(*linalg.ldl_factor(sym(4)), m(4, 2).float())
linalg.lstsq(m(5, 3), m(5, 2))
linalg.lstsq(m(5, 3), m(5))
linalg.lstsq(m(5, 3), m(5, 2), driver="gels")
linalg.lstsq(m(5, 3), m(5, 2), driver="gelsd")
linalg.lstsq(m(2, 5, 3), m(2, 5, 2), driver="gelss")
linalg.lstsq(m(3, 5), m(3, 2), driver="gels")
linalg.lstsq(m(3, 5), m(3, 2), driver="gelsd")
linalg.lstsq(m(4, 4), m(4, 2), driver="gelsd")
linalg.lstsq(m(5, 3)[:, [0, 1, 0]], m(5, 2))
linalg.lstsq(m(5, 3)[:, [0, 1, 0]], m(5, 2)).rank
linalg.lstsq(m(5, 3)[:, [0, 1, 0]], m(5, 2), driver="gelsd").residuals
linalg.lstsq(m(5, 3), m(5, 2), rcond=0.9).rank
linalg.lstsq(m(5, 3), m(5, 2), rcond=0.9, driver="gelsd")
linalg.lstsq(m(4, 5, 3), m(4, 5))
linalg.lstsq(zeros(0, 3), zeros(0, 2))
linalg.lstsq(zeros(3, 0), zeros(3, 2))
linalg.lstsq(m(5, 3), m(4, 2))
linalg.lstsq(m(5, 3), m(5, 2).float())
linalg.lstsq(m(5), m(5, 2))
linalg.lstsq(m(5, 3), m(4, 5, 2))
linalg.lstsq(ones(2, 2).long(), ones(2, 2).long())
linalg.lstsq(m(5, 3), m(5, 2), driver="foo")
linalg.matrix_exp(m(4, 4))
linalg.matrix_exp(m(2, 3, 3) * 20)
linalg.matrix_exp(m(3, 3) * 1e-3)
linalg.matrix_exp(m(3, 3).float())
linalg.matrix_exp(tensor([[0.0, 1], [0, 0]]))
linalg.matrix_exp(tensor([[math.nan, 1], [0, 0]]))
linalg.matrix_exp(zeros(0, 0))
linalg.matrix_exp(ones(2, 3))
linalg.matrix_exp(ones(3))
linalg.matrix_exp(ones(2, 2).long())
torch.matrix_exp(m(2, 2))
m(2, 2).matrix_exp()
linalg.matrix_sqrth(sym(3) @ sym(3))
linalg.matrix_sqrth(zeros(2, 2))
linalg.matrix_sqrth(-(sym(3) @ sym(3)) - 1e-3 * torch.eye(3).double())
linalg.matrix_sqrth(m(3, 2))
linalg.polar(m(5, 3))
linalg.polar(m(2, 3, 3))
linalg.polar(m(3, 5))
linalg.polar(m(3))
linalg.polar(ones(3, 3).long())
linalg.polar(ones(3, 3).half())
torch.geqrf(m(5, 3))
torch.geqrf(m(2, 3, 5))
torch.geqrf(torch.eye(3))
torch.geqrf(m(3))
torch.geqrf(ones(3, 3).long())
m(4, 2).geqrf()
linalg.householder_product(*torch.geqrf(m(5, 3)))
linalg.householder_product(m(5, 3), m(2))
linalg.householder_product(m(2, 5, 3), m(2, 3))
linalg.householder_product(m(3, 5), m(3))
linalg.householder_product(m(5, 3), m(4))
linalg.householder_product(m(5, 3), m(3).float())
linalg.householder_product(m(5), m(3))
linalg.householder_product(m(2, 5, 3), m(3))
torch.orgqr(m(5, 3), m(3))
m(5, 3).orgqr(m(3))
torch.ormqr(*torch.geqrf(m(5, 3)), m(5, 2))
torch.ormqr(*torch.geqrf(m(5, 3)), m(5, 2), transpose=True)
torch.ormqr(*torch.geqrf(m(5, 3)), m(2, 5), left=False)
torch.ormqr(*torch.geqrf(m(5, 3)), m(2, 5), False, True)
m(5, 3).ormqr(m(3), m(5, 2))
torch.ormqr(m(5, 3), m(3), m(4, 2))
torch.ormqr(m(5, 3), m(2), m(5, 2))
torch.ormqr(m(5, 3), m(3), m(5, 2).float())
torch.ormqr(m(5), m(3), m(5, 2))
torch.triangular_solve(m(3, 2), m(3, 3))
torch.triangular_solve(m(3, 2), m(3, 3), upper=False, transpose=True, unitriangular=True)
torch.triangular_solve(m(2, 1, 3, 2), m(4, 3, 3))
m(3, 2).triangular_solve(m(3, 3))
torch.triangular_solve(m(3), m(3, 3))
torch.triangular_solve(m(2, 2), m(3, 3))
torch.cholesky(sym(3))
torch.eig(sym(3))
torch.symeig(sym(3))
torch.lstsq(sym(3), sym(3))
torch.solve(sym(3), sym(3))
torch.matrix_rank(sym(3))
sym(3).cholesky()
sym(3).symeig()
"""

SPECIAL = """
special.entr(grid())
special.entr(tensor([1, 2]))
special.ndtr(grid())
special.ndtr(tensor([1, 2]))
special.log_ndtr(grid())
special.log_ndtr(tensor([1, 2]))
special.erfcx(grid())
special.erfcx(tensor([1, 2]))
special.i0e(grid())
special.i0e(tensor([1, 2]))
special.i1e(grid())
special.i1e(tensor([1, 2]))
special.i0(grid().clamp(-600, 600))
special.i1(grid().clamp(-600, 600))
special.ndtr(grid().half())
special.log_ndtr(grid().float().clamp(-1e15, 1e15))
special.erfcx(grid().float())
special.i0(tensor([0.5, -3.0, 20.0, 80.0]))
torch.i0(tensor([0.5, -3.0]).half())
tensor([0.5, -3.0]).i0()
tensor([0.5, -3.0]).i0_()
special.ndtri(tensor([0.0, 1.0, -0.5, 1.5, math.nan]).double())
special.ndtri(tensor([1e-300, 1e-30, 1e-10, 0.01, 0.1, 0.3, 0.5, 0.50001, 0.9, 0.999, 1 - 1e-12]).double())
special.ndtri(tensor([1e-30, 1e-10, 0.01, 0.1, 0.3, 0.5, 0.9, 0.999]))
special.xlog1py(tensor([0.0, 0, 0, 1, math.nan, 1, 2]), tensor([-1.0, -2, math.nan, -1, 1, math.inf, 1e-20]))
special.xlog1py(2, tensor([1.0]))
special.xlog1py(tensor([1]), 3)
special.xlog1py(2, 3)
special.multigammaln(tensor([2.0, 3]), 2)
special.multigammaln(tensor([2, 3]), 1)
special.multigammaln(tensor([2.0, 3]).double() * 10, p=5)
special.multigammaln(tensor([2.0, 3]), 0)
torch.mvlgamma(tensor([2.0, 3]), 2)
tensor([2.0, 3]).mvlgamma(2)
tensor([2.0, 3]).mvlgamma_(2)
special.zeta(tensor([2.0, 1, 0.5, 3, 2, 2.5, math.nan, 2, 3]), tensor([1.0, 1, 1, 0, -0.5, -0.5, 1, -1, -20.3]))
special.zeta(tensor([1.01, 1.5, 4, 30, 100, 400]).double(), tensor([[1e-3], [0.5], [3], [9], [50], [1e6]]).double())
special.zeta(2, tensor([1, 2]))
special.zeta(tensor([2.0]), 3.5)
special.zeta(2, 3)
special.polygamma(1, tensor([-1.5, 0, 1, 2, 1e5, 1e-5]).double())
special.polygamma(0, tensor([1.0, -2.5]))
special.polygamma(4, tensor([0.3, 1, 2, 30]).double())
special.polygamma(3, tensor([-1.5, 0.0, -1]))
special.polygamma(-1, tensor([1.0]))
torch.polygamma(2, tensor([1, 2]))
tensor([1.5]).polygamma(2)
tensor([1.5]).polygamma_(2)
special.gammainc(*edges())
special.gammaincc(*edges())
special.gammainc(shapes(), tensor([[1e-4], [0.5], [3], [9], [81], [9.9e3]]).double())
special.gammaincc(shapes(), tensor([[1e-4], [0.5], [3], [9], [81], [1.02e4]]).double()).log()
torch.igamma(tensor([1.0, 2]), tensor([3.0]))
torch.igammac(tensor([1.0, 2]), tensor([3.0]))
tensor([1.0, 2]).igamma_(tensor([3.0]))
tensor([1.0, 2]).igammac(tensor([3.0]))
special.gammainc(tensor([1, 2]), tensor([1, 2]))
special.gammainc(tensor([1.0]), 2.0)
special.spherical_bessel_j0(grid())
special.legendre_polynomial_p(0.3, arange(5).double())
special.legendre_polynomial_p(tensor([0.3]), 2.7)
special.legendre_polynomial_p(0.3, 2)
special.legendre_polynomial_p(tensor([1, 2]), 3)
special.legendre_polynomial_p(tensor([1.0, 2]), arange(5))
torch.fft.fftfreq(5, 0.5)
torch.fft.fftfreq(6, d=0.3, dtype=torch.float64)
torch.fft.fftfreq(0)
torch.fft.fftfreq(-1)
torch.fft.fftfreq(4, dtype=torch.int64)
torch.fft.fftfreq(3, dtype=torch.half)
torch.fft.rfftfreq(5)
torch.fft.rfftfreq(4, d=2, dtype=torch.float64)
torch.fft.fftshift(arange(12).view(3, 4))
torch.fft.fftshift(arange(15).view(3, 5), dim=(0, 1))
torch.fft.ifftshift(arange(15).view(3, 5), dim=1)
torch.fft.ifftshift(arange(15).view(3, 5))
torch.fft.fftshift(arange(15).view(3, 5), dim=3)
torch.fft.fftshift(tensor(1.0))
special.chebyshev_polynomial_t(places(), orders())
special.chebyshev_polynomial_u(places(), orders())
special.chebyshev_polynomial_v(places(), orders())
special.chebyshev_polynomial_w(places(), orders())
special.shifted_chebyshev_polynomial_t(places(), orders())
special.shifted_chebyshev_polynomial_u(places(), orders())
special.shifted_chebyshev_polynomial_v(places(), orders())
special.shifted_chebyshev_polynomial_w(places(), orders())
special.hermite_polynomial_h(places(), orders())
special.hermite_polynomial_he(places(), orders())
special.laguerre_polynomial_l(places(), orders())
special.legendre_polynomial_p(places(), orders())
"""

# What is differentiated with respect to the inputs: the sum of all results, each element with its own weight.
GRADIENTS = """
linalg.lu(x) | m(4, 4)
linalg.lu(x) | m(2, 3, 5)
linalg.lu(x) | m(2, 5, 3)
linalg.lu_factor(x) | m(2, 4, 4)
linalg.lu_solve(x, tensor([3, 3, 4, 4]).int(), y) | m(4, 4), m(4, 2)
linalg.lu_solve(x, tensor([3, 3, 4, 4]).int(), y, left=False, adjoint=True) | m(4, 4), m(2, 4)
linalg.lstsq(x, y) | m(5, 3), m(5, 2)
linalg.lstsq(x, y, driver="gels") | m(5, 3), m(5, 2)
linalg.lstsq(x, y) | m(3, 5), m(3, 2)
linalg.lstsq(x[:, [0, 1, 0]], y) | m(5, 3), m(5, 2)
linalg.matrix_exp(x) | m(2, 4, 4)
linalg.matrix_exp(20 * x) | m(3, 3)
linalg.matrix_sqrth(x @ x.mT) | m(4, 4)
linalg.polar(x) | m(5, 3)
linalg.polar(x) | m(2, 3, 3)
linalg.householder_product(x, y) | m(5, 3), m(3)
linalg.householder_product(x, y) | m(2, 5, 3), m(2, 2)
torch.ormqr(x, y, z) | m(5, 3), m(3), m(5, 2)
torch.ormqr(x, y, z, left=False, transpose=True) | m(5, 3), m(3), m(2, 5)
torch.triangular_solve(x, y)[0] | m(3, 2), m(3, 3)
special.entr(x) | m(9).abs()
special.xlog1py(x, y) | tensor([0.0, 1, 2, -3]).double(), tensor([0.5, 3, -0.5, 1e-9]).double()
special.ndtr(x) | m(9) * 5
special.log_ndtr(x) | grid().clamp(-100, 100)
special.ndtri(x) | tensor([1e-300, 1e-10, 0.05, 0.3, 0.5, 0.8, 1 - 1e-7]).double()
special.erfcx(x) | m(9) * 9 + 3
special.i0(x) | m(9) * 20
special.i0e(x) | m(9) * 20
special.i1(x) | m(9) * 20
special.i1e(x) | m(9) * 20
special.i1(x) | zeros(2).double()
special.multigammaln(x, 3) | m(4) + 4
special.zeta(3.5, x) | m(5).abs() + 0.1
special.polygamma(2, x) | m(5).abs() + 0.1
torch.igamma(tensor([0.5, 3, 10]).double(), x) | tensor([0.1, 4, 11]).double()
torch.igammac(tensor([0.5, 3, 10]).double(), x) | tensor([0.1, 4, 11]).double()
"""


CALLS = (LINALG, SPECIAL)


def lines(text: str) -> list[str]:
    """The calls, one a line."""
    return text.strip().splitlines()


def names(torch: Any) -> dict[str, Any]:
    """What the calls refer to."""

    def m(*shape: int) -> Any:
        """A matrix, or several, without pattern."""
        n = math.prod(shape)
        return torch.arange(1, n + 1, dtype=torch.float64).square().sin().reshape(shape) * 1.5

    def sym(*shape: int) -> Any:
        made = m(*shape, shape[-1])
        return made + made.mT

    def grid() -> Any:
        """Small, large and special numbers of either sign."""
        sizes = [0.0, 1e-320, 1e-12, 0.1, 0.5, 1, 3, 5.5, 9, 12.5, 20.5, 30, 34.9, 35.1, 100, 1e10, math.inf]
        return torch.tensor([*sizes, *(-s for s in sizes), math.nan], dtype=torch.float64)

    def edges() -> Any:
        """Arguments of the incomplete gamma functions where they are 0, 1 or not defined."""
        inf, nan = math.inf, math.nan
        a, x = [0.0, 0, 1, 1, -1, 1, inf, inf, 2, nan], [0.0, 1, 0, inf, 1, -1, 1, inf, 3, 1]
        return torch.tensor(a), torch.tensor(x)

    tables = {
        "edges": edges,
        "shapes": lambda: torch.tensor([1e-3, 0.3, 1, 5, 80, 1e4], dtype=torch.float64),
        "places": lambda: torch.tensor([-1.0, -0.3, 0, 0.7, 1, 2.5], dtype=torch.float64),
        "orders": lambda: torch.tensor([[0], [1], [2], [5], [20], [-1]]),
    }
    functions = {n: getattr(torch, n) for n in ("ones", "zeros", "arange", "tensor", "linalg", "special")}
    return {"torch": torch, "math": math, "m": m, "sym": sym, "grid": grid, **tables, **functions}


def gradients(torch: Any, case: str) -> list[Any]:
    """The gradients of a line of `GRADIENTS`."""
    call, _, inputs = case.partition(" | ")
    scope = names(torch)
    made = eval(f"({inputs},)", scope)
    leaves = [t.requires_grad_() for t in made]
    found = eval(call, scope | dict(zip("xyz", leaves, strict=False)))
    results = [found] if isinstance(found, torch.Tensor) else list(found)
    weighted = [(r * scope["m"](*r.shape)).sum() for r in results if r.requires_grad]
    return list(torch.autograd.grad(sum(weighted), leaves))
