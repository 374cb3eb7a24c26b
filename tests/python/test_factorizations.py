"""Inverses, solutions, determinants, triangles and eigenvectors of matrices."""

import pytest

import rgrad as torch
from rgrad import linalg
from rgrad.autograd import gradcheck, gradgradcheck


def square(*batch, n=4, seed=0):
    torch.manual_seed(seed)
    return torch.rand(*batch, n, n, dtype=torch.float64) + n * torch.eye(n, dtype=torch.float64)


def symmetric(*batch, n=4, seed=0):
    a = square(*batch, n=n, seed=seed)
    return a @ a.mT


def close(a, b):
    return torch.allclose(a, b, atol=1e-10)


def test_an_inverse_undoes_its_matrix():
    for a in (square(), square(2, 3), square(n=1), square(n=70)):
        assert close(linalg.inv(a) @ a, torch.eye(a.size(-1), dtype=a.dtype).expand(a.shape))
    a = square()
    assert torch.equal(a.inverse(), linalg.inv(a)) and a.float().inverse().dtype == torch.float32
    assert linalg.inv(torch.zeros(0, 0)).shape == (0, 0) and linalg.inv(torch.zeros(0, 2, 2)).shape == (0, 2, 2)


def test_solutions_fit_from_either_side_and_broadcast():
    a, b = square(2), torch.rand(4, 3, dtype=torch.float64)
    assert close(a @ linalg.solve(a, b), b.expand(2, 4, 3))
    assert close(linalg.solve(a, b.mT, left=False) @ a, b.mT.expand(2, 3, 4))
    assert close((a @ linalg.solve(a, b[:, 0]).unsqueeze(-1)).squeeze(-1), b[:, 0].expand(2, 4))
    for upper in (True, False):
        for unit in (True, False):
            triangle = a.triu() if upper else a.tril()
            if unit:
                triangle = triangle - triangle.diagonal(dim1=-2, dim2=-1).diag_embed() + torch.eye(4)
            found = linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)
            assert close(triangle @ found, b.expand(2, 4, 3))


def test_determinants_have_sign_and_size():
    a = square(3)
    a[0, :, [0, 1]] = a[0, :, [1, 0]]
    sign, size = linalg.slogdet(a)
    assert sign.tolist() == [-1, 1, 1] and close(sign * size.exp(), a.det())
    assert torch.logdet(a)[0].isnan() and close(torch.logdet(a)[1:], size[1:])
    assert linalg.det(torch.zeros(2, 2)) == 0 and linalg.slogdet(torch.zeros(2, 2)).logabsdet == -torch.inf
    assert linalg.det(torch.zeros(0, 0)) == 1


def test_factors_multiply_to_their_matrix():
    a = symmetric(2)
    lower, upper = linalg.cholesky(a), linalg.cholesky(a, upper=True)
    assert close(lower @ lower.mT, a) and torch.equal(lower.tril(), lower) and close(upper, lower.mT)
    for shape in ((4, 3), (3, 4), (2, 5, 2), (0, 3), (3, 0)):
        b = torch.rand(shape, dtype=torch.float64)
        for mode in ("reduced", "complete"):
            q, r = linalg.qr(b, mode)
            eye = torch.eye(q.size(-1), dtype=q.dtype).expand((q.mT @ q).shape)
            assert close(q @ r, b) and close(q.mT @ q, eye)
            assert torch.equal(r.triu(), r)
        assert close(linalg.qr(b, "r").R, linalg.qr(b).R) and linalg.qr(b, "r").Q.shape == (0,)
    values, vectors = linalg.eigh(a)
    assert close(vectors @ values.diag_embed() @ vectors.mT, a) and bool((values.diff() >= 0).all())
    assert close(linalg.eigvalsh(a.triu(), UPLO="U"), values)


CASES = {
    "inv": lambda a: linalg.inv(a),
    "solve": lambda a: linalg.solve(a, a[..., :2] + 1),
    "solve_triangular": lambda a: linalg.solve_triangular(a, a[..., :2] + 1, upper=True),
    "unit triangle": lambda a: linalg.solve_triangular(a, a[..., :2] + 1, upper=False, unitriangular=True),
    "det": lambda a: linalg.det(a),
    "logdet": lambda a: torch.logdet(a),
    "cholesky": lambda a: linalg.cholesky(a @ a.mT),
    "upper cholesky": lambda a: linalg.cholesky(a @ a.mT, upper=True),
    "tall qr": lambda a: tuple(linalg.qr(a[..., :2])),
    "wide qr": lambda a: tuple(linalg.qr(a[..., :2, :])),
    "Q of a wide matrix": lambda a: linalg.qr(a[..., :2, :])[0],
    "eigh": lambda a: (linalg.eigh(a + a.mT)[0], linalg.eigh(a + a.mT)[1].abs()),
}


@pytest.mark.parametrize("name", CASES)
def test_they_have_first_and_second_derivatives(name):
    for a in (square(n=3), square(2, n=3, seed=1)):
        a.requires_grad_()
        assert gradcheck(CASES[name], (a,)) and gradgradcheck(CASES[name], (a,))


def test_the_derivative_of_an_eigenvector_is_symmetric():
    a = symmetric(n=3).requires_grad_()
    (linalg.eigh(a)[1].abs() * torch.arange(9.0).view(3, 3)).sum().backward()
    assert close(a.grad, a.grad.mT)


def test_a_singular_matrix_has_a_derivative_of_its_determinant():
    a = torch.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    linalg.det(a).backward()
    assert a.grad.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: linalg.inv(torch.zeros(2, 2)), linalg.LinAlgError,
         "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed"),
        (lambda: linalg.inv(torch.stack([torch.eye(2), torch.zeros(2, 2)])), linalg.LinAlgError,
         r"linalg.inv: \(Batch element 1\): The diagonal element 1 is zero"),
        (lambda: linalg.solve(torch.zeros(2, 2), torch.ones(2)), linalg.LinAlgError,
         "torch.linalg.solve: The solver failed because the input matrix is singular."),
        (lambda: linalg.cholesky(-torch.eye(2)), linalg.LinAlgError,
         r"input is not positive-definite \(the leading minor of order 1 is not positive-definite\)"),
        (lambda: linalg.eigh(torch.full((2, 2), torch.nan)), linalg.LinAlgError, "failed to converge"),
        (lambda: linalg.eigh(torch.full((2, 2), torch.inf)), linalg.LinAlgError, "failed to converge"),
        (lambda: linalg.det(torch.ones(2, 3)), RuntimeError,
         "linalg.det: A must be batches of square matrices, but they are 2 by 3 matrices"),
        (lambda: linalg.inv(torch.ones(3)), RuntimeError, "input tensor A must have at least 2 dimensions"),
        (lambda: linalg.solve(torch.eye(2), torch.ones(3)), RuntimeError,
         r"Incompatible shapes of A and B for the equation AX = B \(2x2 and 3x1\)"),
        (lambda: linalg.solve(torch.eye(2), torch.ones(2).double()), RuntimeError,
         "Expected A and B to have the same dtype, but found A of type Float and B of type Double instead"),
        (lambda: linalg.inv(torch.ones(2, 2, dtype=torch.int64)), NotImplementedError,
         "linalg.inv: Expected a floating point or complex tensor as input. Got Long"),
        (lambda: linalg.inv(torch.ones(2, 2).half()), NotImplementedError,
         "Low precision dtypes not supported. Got Half"),
        (lambda: linalg.cholesky(torch.ones(2, 2).half()), NotImplementedError, '"cholesky_cpu" not implemented for'),
        (lambda: linalg.qr(torch.ones(2, 2), "x"), RuntimeError, "qr received unrecognized mode 'x'"),
        (lambda: linalg.eigh(torch.ones(2, 2), "X"), RuntimeError,
         "Expected UPLO argument to be 'L' or 'U', but got X"),
        (lambda: linalg.qr(torch.ones(2, 2, requires_grad=True), "r")[1].sum().backward(), RuntimeError,
         "The derivative of linalg.qr depends on Q, which is not computed when mode='r'"),
        (lambda: linalg.qr(torch.ones(3, 2, requires_grad=True), "complete")[1].sum().backward(), RuntimeError,
         "not differentiable when mode='complete' and nrows > ncols"),
    ],
)  # fmt: skip
def test_what_has_no_answer_is_refused_in_pytorchs_words(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_powers_multiply_and_invert():
    a = square(2, n=3)
    power = linalg.matrix_power
    assert close(power(a, 3), a @ a @ a) and close(power(a, -2) @ a @ a, power(a, 0))
    assert power(a, 1) is not a and torch.equal(a.matrix_power(1), a)


def test_triangles_of_cholesky_solve_and_invert():
    a, b = symmetric(2), torch.rand(4, 3, dtype=torch.float64)
    for upper in (False, True):
        triangle = linalg.cholesky(a, upper=upper)
        assert close(a @ torch.cholesky_solve(b, triangle, upper), b.expand(2, 4, 3))
        assert close(a @ torch.cholesky_inverse(triangle, upper), torch.eye(4, dtype=a.dtype).expand(a.shape))


def test_chains_are_multiplied_in_the_cheapest_order():
    a, b, c = torch.rand(10, 1), torch.rand(1, 10), torch.rand(10, 2)
    assert torch.allclose(linalg.multi_dot([a, b, c]), a @ b @ c)
    assert linalg.multi_dot([b[0], c]).shape == (2,) and linalg.multi_dot([b[0], c, torch.ones(2)]).shape == ()
    with pytest.raises(RuntimeError, match=r"tensors 0 and 1 with shapes \[10, 1\] and \[10, 2\] cannot be multiplied"):
        linalg.multi_dot([a, c])


def test_a_pseudo_inverse_is_one_for_any_shape_and_rank():
    for shape in ((4, 3), (3, 4), (2, 3, 3)):
        a = torch.rand(shape, dtype=torch.float64).requires_grad_()
        p = linalg.pinv(a)
        assert close(a @ p @ a, a) and close(p @ a @ p, p)
        assert gradcheck(linalg.pinv, (a,)) and gradgradcheck(linalg.pinv, (a,))
    one = torch.ones(3, 3, dtype=torch.float64)
    assert close(linalg.pinv(one, hermitian=True), one / 9) and linalg.matrix_rank(one) == 1
    assert linalg.matrix_rank(torch.diag(torch.tensor([1.0, 0.1])), atol=0.5) == 1
    out = torch.empty(3, 3, dtype=torch.float64)
    assert linalg.pinv(one, out=out) is out and close(out, one / 9)


def test_condition_numbers_and_equations_of_tensors():
    a = torch.diag(torch.tensor([4.0, 2.0]))
    assert [linalg.cond(a, p).item() for p in (None, -2, 1)] == [2, 0.5, 2]
    t = square(n=6).view(2, 3, 6)
    assert close(torch.tensordot(linalg.tensorinv(t), t, 2), torch.eye(6, dtype=t.dtype))
    x = linalg.tensorsolve(t, torch.ones(2, 3, dtype=t.dtype))
    assert close(torch.tensordot(t, x, 1), torch.ones(2, 3, dtype=t.dtype))


def test_forms_that_report_failures_tell_where():
    good = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    singular = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    batch = torch.stack([good, singular, torch.zeros(2, 2)])
    inverse, info = torch.linalg.inv_ex(batch)
    assert torch.equal(inverse[0], good.inverse()) and info.tolist() == [0, 2, 1] and info.dtype == torch.int32
    assert torch.linalg.inv_ex(good).info.item() == 0 and torch.linalg.inv_ex(good).inverse.shape == (2, 2)
    factor = torch.linalg.cholesky_ex(torch.stack([good, -good, torch.diag(torch.tensor([1.0, -1.0]))]))
    assert torch.equal(factor.L[0], torch.linalg.cholesky(good)) and factor.info.tolist() == [0, 1, 2]
    solved = torch.linalg.solve_ex(batch, torch.ones(3, 2))
    assert torch.equal(solved.result[0], torch.linalg.solve(good, torch.ones(2))) and solved.info[1:].all()
    for call in (torch.linalg.inv_ex, torch.linalg.cholesky_ex):
        with pytest.raises(torch.linalg.LinAlgError):
            call(batch, check_errors=True)
    x = good.clone().requires_grad_()
    torch.linalg.inv_ex(x).inverse.sum().backward()
    assert x.grad is not None


def test_approximations_of_low_rank_are_exact_for_matrices_of_that_rank():
    torch.manual_seed(0)
    for shape in ((9, 6), (6, 9), (2, 7, 7)):
        a = torch.randn(*shape[:-1], 3, dtype=torch.float64) @ torch.randn(*shape[:-2], 3, shape[-1]).double()
        u, s, v = torch.svd_lowrank(a, q=4)
        torch.testing.assert_close((u * s.unsqueeze(-2)) @ v.mT, a)
        torch.testing.assert_close(s[..., :3], torch.linalg.svdvals(a)[..., :3])
        assert u.shape == (*shape[:-1], 4) and v.shape == (*shape[:-2], shape[-1], 4)
    a = a[0] + 5.0
    _, s, v = torch.pca_lowrank(a, q=3)
    torch.testing.assert_close(s, torch.linalg.svdvals(a - a.mean(0))[:3])
    torch.testing.assert_close(v.mT @ v, torch.eye(3, dtype=torch.float64))
    assert torch.pca_lowrank(torch.randn(4, 9))[1].shape == (4,)
    torch.testing.assert_close(torch.svd_lowrank(a, 3, M=a.mean(0))[1], s)
    with pytest.raises(ValueError, match=r"q\(=8\)"):
        torch.svd_lowrank(a, q=8)


@pytest.mark.parametrize("name", ["inv", "cholesky", "det", "eigvalsh", "svdvals"])
def test_an_output_of_a_matrix_function_has_the_dtype_and_the_device_of_the_result(name):
    function, a = getattr(torch.linalg, name), 2 * torch.eye(2)
    for dtype, word in ((torch.int32, "int"), (torch.float64, "double")):
        with pytest.raises(RuntimeError, match=f"Expected out tensor to have dtype float, but got {word} instead"):
            function(a, out=torch.empty(0, dtype=dtype))
    with pytest.raises(RuntimeError, match="Expected out tensor to have device cpu, but got meta instead"):
        function(a, out=torch.empty(0, device="meta"))


@pytest.mark.parametrize("call", [torch.sum, torch.mean, torch.prod, torch.cumsum, torch.cumprod])
def test_an_output_has_the_dtype_that_is_asked_for(call):
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype double, but got float instead"):
        call(torch.ones(3), 0, dtype=torch.float64, out=torch.empty(3))


def test_results_that_were_stored_in_outputs_have_names():
    a, out = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), (torch.empty(0), torch.empty(0))
    found = torch.linalg.eigh(a, out=out)
    assert type(found) is torch.return_types.linalg_eigh_out
    assert found.eigenvalues is out[0] and found.eigenvectors is out[1]
    assert out[0].tolist() == [1, 2]
    values, where = torch.max(a, 0, out=[torch.empty(0), torch.empty(0, dtype=torch.int64)])
    assert (values.tolist(), where.tolist()) == ([2, 1], [0, 1])


def test_a_singular_matrix_has_an_infinite_condition_number_in_every_norm():
    batch = torch.stack([torch.ones(2, 2), 2 * torch.eye(2)])
    for p in ("fro", "nuc", float("inf"), float("-inf"), 1, -1):
        found = torch.linalg.cond(batch, p)
        assert found[0] == float("inf") and torch.equal(found[1], torch.linalg.cond(batch[1], p))
    assert torch.linalg.cond(torch.ones(2, 0, 3)).tolist() == [0, 0]
    with pytest.raises(ValueError, match="invalid norm type: foo"):
        torch.linalg.cond(batch, "foo")
    with pytest.raises(RuntimeError, match=r"cond\(ord=fro\): A must be batches of square matrices"):
        torch.linalg.cond(torch.ones(2, 3), "fro")


def test_a_pseudo_inverse_takes_its_relative_threshold_by_its_older_name():
    A = torch.diag(torch.tensor([2.0, 0.5]))
    for found in (torch.linalg.pinv(A, 0.3), torch.linalg.pinv(A, rcond=torch.tensor(0.3), hermitian=True)):
        torch.testing.assert_close(found, torch.diag(torch.tensor([0.5, 0.0])))
    with pytest.raises(TypeError, match="rcond and atol or rtol"):
        torch.linalg.pinv(A, rcond=0.1, rtol=0.1)
    with pytest.raises(RuntimeError, match=r"linalg.pinv\(Int\{\[2, 2\]\}\): expected a tensor with 2 or more"):
        torch.linalg.pinv(A.int())


def test_pivots_that_are_no_rows_are_refused():
    with pytest.raises(RuntimeError, match="Pivots given to lu_solve must all be greater or equal to 1"):
        torch.linalg.lu_solve(torch.eye(2), torch.tensor([0, 1], dtype=torch.int32), torch.eye(2))


def test_reflections_and_products_name_the_operand_that_does_not_fit():
    with pytest.raises(RuntimeError, match="Expected tau to have one dimension less than input"):
        torch.ormqr(torch.ones(3, 2), torch.ones(2, 2), torch.ones(3, 2))
    with pytest.raises(
        RuntimeError, match=r"batch dimensions of other to be equal to input.shape\[:-2\], but got \[3\]"
    ):
        torch.ormqr(torch.ones(2, 3, 2), torch.ones(2, 2), torch.ones(3, 3, 2))
    with pytest.raises(RuntimeError, match="same dtype but tensor 0 is float and tensor 1 double"):
        torch.linalg.multi_dot([torch.ones(2, 2), torch.ones(2, 2).double()])
    with pytest.raises(TypeError, match="must be tuple of Tensors, not Tensor"):
        torch.linalg.multi_dot(torch.ones(2, 2, 2))
    with pytest.raises(RuntimeError, match="Tensor dimension is 1, expected 2 instead"):
        torch.chain_matmul(torch.ones(2), torch.ones(2, 2))
    with pytest.raises(ValueError, match=r"einsum\(\): must specify at least one operand"):
        torch.einsum("", [])
    with pytest.raises(ValueError, match=r"einsum\(\): subscript in subscript list is not within the valid range"):
        torch.einsum(torch.ones(2), [52])
    LU, pivots = torch.linalg.lu_factor(torch.eye(2))
    with pytest.raises(RuntimeError, match=r"must all be smaller or equal to LU.size\(-2\)"):
        torch.linalg.lu_solve(LU, pivots + 1, torch.ones(2, 1))


def test_reflections_are_stored_column_after_column():
    found = torch.geqrf(torch.ones(2, 3, 2))
    assert found.a.stride() == (6, 1, 3) and found.tau.stride() == (2, 1)


def test_an_older_name_warns_at_its_first_call_only(monkeypatch):
    monkeypatch.setattr("rgrad._linalg.older._told", set())
    with pytest.warns(UserWarning, match="torch.lu is deprecated"):
        torch.lu(torch.eye(2))
    torch.lu(torch.eye(2))
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="torch.lu is deprecated"):
            torch.lu(torch.eye(2))
    finally:
        torch.set_warn_always(False)


@pytest.mark.parametrize(
    ("equation", "operands", "what"),
    [
        (". ..", 1, "'.' for operand 0 that is not part of any ellipsis"),
        ("...a...b", 1, "'.' for operand 0 for which an ellipsis was already found"),
        ("ab->... .", 1, "'.' for output but an ellipsis"),
        ("ab->a..", 1, "'.' for output that is not part of any ellipsis"),
        ("ab -> 1", 1, "at index 6 in the equation string"),
        ("a- >b", 1, "at index 1 in the equation string"),
        ("ab->a,", 1, "at index 5 in the equation string"),
        ("ab,bc", 1, "fewer operands were provided"),
        ("ab", 2, "more operands were provided"),
        ("abc...", 1, r"\(3\) is more than the number of dimensions \(2\) for operand 0"),
        ("a", 1, r"\(1\) does not match the number of dimensions \(2\) for operand 0 and no ellipsis"),
        ("aa", 1, "subscript a is repeated for operand 0 but the sizes don't match, 3 != 2"),
        ("ab,ba", 2, "subscript b has size 2 for operand 1"),
        ("...a,...", 2, "dimension 1 covered by ellipsis in operand 1"),
    ],
)
def test_an_equation_that_means_nothing_is_refused_with_the_place(equation, operands, what):
    with pytest.raises(RuntimeError, match=what):
        torch.einsum(equation, *[torch.ones(2, 3)] * operands)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32])
def test_factors_of_addr_are_of_the_kind_of_the_result(dtype):
    m, v = torch.ones(2, 2, dtype=dtype), torch.ones(2, dtype=dtype)
    for name in ("alpha", "beta"):
        with pytest.raises(RuntimeError, match=f"Boolean {name} only supported"):
            torch.addr(m, v, v, **{name: True})
        if not dtype.is_floating_point:
            with pytest.raises(RuntimeError, match=f"argument {name} must not be a floating point"):
                torch.addr(m, v, v, **{name: 0.5})


@pytest.mark.parametrize("name", ["cholesky", "eig", "lstsq", "matrix_rank", "solve", "symeig"])
def test_removed_functions_say_what_stands_in_their_place(name):
    with pytest.raises(RuntimeError, match="deprecated since version 1.9 and is now removed.*use torch.linalg"):
        getattr(torch, name)(torch.eye(2))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (40, 40), (60, 20), (2, 9, 4)])
@pytest.mark.parametrize("spread", [0, -3, -5.5, -6.5, -9])
@pytest.mark.parametrize("rcond", [None, -1.0, 0.0, 1e-4, 2.0])
def test_least_squares_have_the_rank_that_the_singular_values_tell(shape, spread, rcond):
    torch.manual_seed(1)
    u, s, vh = torch.linalg.svd(torch.randn(shape, dtype=torch.float64), full_matrices=False)
    a = (u * torch.logspace(0, spread, s.shape[-1], dtype=torch.float64) @ vh).float()
    b = torch.randn(*shape[:-1], 2)
    found = torch.linalg.lstsq(a, b, rcond)
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    kept = s > (torch.finfo(a.dtype).eps * max(shape[-2:]) if rcond is None else rcond) * s[..., :1]
    assert torch.equal(found.rank, kept.sum(-1))
    expected = vh.mT @ (torch.where(kept, 1 / s, 0).unsqueeze(-1) * (u.mT @ b))
    # Where the matrix is nearly singular, the digits of a solution are those of rounding.
    tolerance = 1e-5 + 1e-6 * (s[..., 0] / s[..., -1]).max().item()
    size = expected.abs().max().item()
    assert tolerance > 0.1 or torch.allclose(found.solution, expected, tolerance, tolerance * size)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("rows, columns", [(0, 0), (3, 0), (0, 3)])
def test_least_squares_of_nothing_has_a_gradient_of_nothing(driver: str, rows: int, columns: int):
    a, b = torch.ones(rows, columns, requires_grad=True), torch.ones(rows, 2, requires_grad=True)
    solution = torch.linalg.lstsq(a, b, driver=driver).solution
    solution.sum().backward()
    assert solution.shape == (columns, 2) and a.grad.shape == a.shape and torch.equal(b.grad, torch.zeros(rows, 2))


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares_of_no_matrices_keep_the_shapes_of_a_matrix(driver: str):
    found = torch.linalg.lstsq(torch.ones(0, 3, 2), torch.ones(0, 3, 1), driver=driver)
    assert found.solution.shape == (0, 2, 1)
    assert found.rank.shape == (0,)
    assert found.singular_values.shape == ((0, 2) if driver in ("gelsd", "gelss") else (0,))


@pytest.mark.parametrize(("shape", "which"), [((3, 5), -2), ((2, 4), -2), ((4,), -1)])
def test_right_hand_sides_of_other_sizes_are_named_by_the_dimension_that_does_not_fit(shape, which):
    with pytest.raises(RuntimeError, match=rf"input.size\(-2\) should match other.size\({which}\)"):
        torch.linalg.lstsq(torch.ones(2, 3, 4) if len(shape) == 2 else torch.ones(3, 4), torch.ones(shape))


def test_results_from_a_triangle_are_written_to_no_integers():
    for call in (torch.cholesky_inverse, lambda a, out: torch.cholesky_solve(a, a, out=out)):
        with pytest.raises(RuntimeError, match="safely castable from Float dtype, but got result with dtype Int"):
            call(torch.eye(2), out=torch.empty(2, 2, dtype=torch.int32))
