"""`vmap`: levels, random numbers, writes in place, custom functions, and what it refuses."""

import warnings

import pytest

import rgrad as torch
from rgrad.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

X = torch.linspace(-1, 2, 15).view(5, 3)
W = torch.linspace(0.5, 1.5, 12).view(3, 4)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_a_mapped_function_sees_the_shape_of_a_slice():
    seen = []

    def f(x):
        seen.append((x.shape, x.dim(), x.stride(), x.device, x.dtype))
        return x

    vmap(f, in_dims=1)(torch.ones(3, 5, 2))
    assert seen == [((3, 2), 2, (10, 1), torch.device("cpu"), torch.float32)]


def test_levels_nest_and_results_have_the_dimension_where_it_is_asked_for():
    outer = vmap(vmap(torch.mul, in_dims=(0, None)), in_dims=(None, 0))
    close(outer(X[0], W[0]), W[0][:, None] * X[0])
    assert vmap(lambda x: x @ W, out_dims=1)(X).shape == (4, 5)
    assert vmap(lambda x: (x, {"s": x.sum()}), out_dims=(1, 0))(X)[0].shape == (3, 5)
    assert vmap(lambda x: 3 * W, out_dims=None)(X).shape == (3, 4)


def test_derivatives_of_slices_are_those_of_a_loop():
    def f(w, x):
        return (torch.tanh(x @ w) ** 2).sum()

    close(vmap(grad(f), (None, 0))(W, X), torch.stack([grad(f)(W, x) for x in X]))
    close(vmap(grad(f, 1), (None, 0))(W, X), torch.stack([grad(f, 1)(W, x) for x in X]))
    close(grad(lambda w: vmap(f, (None, 0))(w, X).sum())(W), torch.stack([grad(f)(W, x) for x in X]).sum(0))
    of_one = lambda x: f(W, x)  # noqa: E731
    for transform in (jacrev, jacfwd, hessian):
        close(vmap(transform(of_one))(X), torch.stack([transform(of_one)(x) for x in X]))
    pushed = vmap(lambda x, t: jvp(of_one, (x,), (t,))[1])(X, X.cos())
    close(pushed, torch.stack([jvp(of_one, (x,), (x.cos(),))[1] for x in X]))


def test_a_product_of_vjp_is_mapped_over_vectors():
    value, product = vjp(lambda x: torch.softmax(x @ W, -1), X)
    vectors = torch.linspace(0, 1, 7 * 20).view(7, *value.shape)
    close(vmap(product)(vectors)[0], torch.stack([product(v)[0] for v in vectors]))


def test_second_derivatives_pass_through_activations():
    def f(x):
        return (x.relu() * x).sum()

    close(hessian(f)(X[2]), torch.autograd.functional.hessian(f, X[2]))


def test_gradients_of_each_sample_of_a_network_are_those_of_a_loop():
    net = torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(12, 4)
    )
    params = {k: v.detach() for k, v in net.named_parameters()}
    pictures = torch.linspace(-1, 1, 6 * 72).view(6, 2, 6, 6).sin()
    targets = torch.tensor([0, 1, 2, 3, 1, 0])

    def loss(params, x, y):
        return torch.nn.functional.cross_entropy(functional_call(net, params, (x[None],)), y[None])

    found = vmap(grad(loss), (None, 0, 0))(params, pictures, targets)
    for name in params:
        expected = torch.stack([grad(loss)(params, x, y)[name] for x, y in zip(pictures, targets, strict=True)])
        close(found[name], expected)


def test_writes_in_place_reach_the_mapped_tensor():
    x = X.clone()
    vmap(lambda row: row.add_(1).mul_(2))(x)
    close(x, (X + 1) * 2)
    y = X.clone()
    vmap(lambda row: row[::2].zero_())(y)
    assert y[:, ::2].eq(0).all() and y[:, 1].eq(X[:, 1]).all()


def test_a_write_of_slices_to_what_all_share_is_refused():
    with pytest.raises(RuntimeError, match=r"vmap: inplace arithmetic\(self, \*extra_args\) is not possible"):
        vmap(lambda x: torch.zeros(3).add_(x))(X)


def test_brackets_select_with_indices_of_slices():
    table = torch.arange(60.0).view(5, 3, 4)
    at = torch.tensor([[0, 2], [1, 1], [2, 0], [0, 1], [2, 2]])
    close(vmap(lambda t, i: t[i])(table, at), torch.stack([t[i] for t, i in zip(table, at, strict=True)]))
    close(vmap(lambda i: table[0][i])(at), torch.stack([table[0][i] for i in at]))
    close(vmap(lambda t, i: t[:, i])(table, at), torch.stack([t[:, i] for t, i in zip(table, at, strict=True)]))
    close(vmap(lambda t: t[..., None, 1:3])(table), table[..., None, 1:3])

    def put(t, i):
        t = t.clone()
        t[i] = 7.0
        return t

    close(vmap(put)(table, at), torch.stack([put(t, i) for t, i in zip(table, at, strict=True)]))


def test_values_of_slices_do_not_decide_what_python_does():
    with pytest.raises(RuntimeError, match="data-dependent control flow"):
        vmap(lambda x: x if x.sum() > 0 else -x)(X)
    with pytest.raises(RuntimeError, match=r"\.item\(\)"):
        vmap(lambda x: x.sum().item())(X)
    with pytest.raises(RuntimeError, match="dynamic shape"):
        vmap(torch.nonzero)(X)


def test_random_numbers_are_refused_the_same_or_different():
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda x: x + torch.rand(3))(X)
    drawn = vmap(lambda x: torch.rand(3), randomness="different")(X)
    assert len({tuple(row.tolist()) for row in drawn}) == 5
    drawn = vmap(lambda x: torch.rand(3), randomness="same")(X)
    assert len({tuple(row.tolist()) for row in drawn}) == 1
    kept = vmap(lambda x: torch.dropout(torch.ones_like(x), 0.5, True), randomness="same")(X)
    assert len({tuple(row.tolist()) for row in kept}) == 1
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5))(X[:, None])
    close(vmap(lambda x: F.dropout(x, 0.0))(X), X)
    counts = vmap(torch.poisson, randomness="different")(X.abs() * 50)
    assert counts.shape == X.shape


def test_parts_of_the_slices_give_the_same():
    f = vmap(lambda x: (x @ W, x.sum()), chunk_size=2)
    close(f(X)[0], X @ W)
    close(f(X)[1], X.sum(1))


class Cube(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return x**3 * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return 3 * x**2 * w * g, x**3 * g


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x):
        assert info.batch_size == 5
        return Doubled.apply(x.movedim(in_dims[0], 0)), 0


def test_custom_functions_are_mapped_by_their_rule_or_a_generated_one():
    w = W[:, 0].clone().requires_grad_()
    y = vmap(Cube.apply, (0, None))(X, w)
    close(y, X**3 * w)
    y.sum().backward()
    close(w.grad, (X**3).sum(0))
    close(vmap(grad(lambda x: Cube.apply(x, W[:, 0]).sum()))(X), 3 * X**2 * W[:, 0])
    close(vmap(Doubled.apply, 1)(X.T), X * 2)


def test_a_custom_function_without_a_rule_says_so():
    class Plain(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

    class Ruleless(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    with pytest.raises(RuntimeError, match="does not have vmap support"):
        vmap(Ruleless.apply)(X)
    # What forward keeps in its ctx would be of all slices, or of another derivative.
    for transform in (vmap, grad, jacrev, jacfwd, hessian, torch.func.functionalize):
        with pytest.raises(RuntimeError, match="must override the setup_context"):
            transform(Plain.apply)(X[0])


class Pair(torch.autograd.Function):
    """Takes a container, and returns what its rule is told to."""

    rule = None

    @staticmethod
    def forward(pair, *, factor=1):
        return pair[0] * pair[1] * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, pair, *, factor=1):
        return Pair.rule(in_dims, pair, factor)


def test_the_rule_of_a_custom_function_gets_containers_and_returns_dims_for_its_results():
    Pair.rule = lambda in_dims, pair, factor: ([pair[0] * factor, pair[1]], in_dims[0])
    first, second = vmap(lambda x: Pair.apply([x, W[:, 0]], factor=3), out_dims=[0, None])(X)
    close(first, 3 * X)
    assert second is W[:, 0] or torch.equal(second, W[:, 0])
    Pair.rule = lambda in_dims, pair, factor: ((pair[0].sum(), 5), None)
    assert vmap(lambda x: Pair.apply([x, x])[0])(X).tolist() == [X.sum().item()] * 5
    Pair.rule = lambda in_dims, pair, factor: pair[0]
    with pytest.raises(RuntimeError, match="to have two returns.* Got a <class 'rgrad.Tensor'> instead"):
        vmap(lambda x: Pair.apply([x, x]))(X)
    Pair.rule = lambda in_dims, pair, factor: (pair[0], (0, 0))
    with pytest.raises(RuntimeError, match="returned an incompatible"):
        vmap(lambda x: Pair.apply([x, x]))(X)
    with pytest.raises(NotImplementedError, match="kwarg-only Tensor"):
        vmap(lambda x: Pair.apply([x, x], factor=x))(X)


def test_hooks_see_the_gradients_of_slices():
    seen = []

    def f(x):
        y = x * 2
        y.register_hook(lambda g: (seen.append(g.shape), g * 10)[1])
        return (y * y).sum()

    close(vmap(grad(f))(X), 80 * X)
    close(jacrev(lambda x: torch.stack([f(x), -f(x)]))(X[0]), torch.stack([80 * X[0], -80 * X[0]]))
    close(vmap(vmap(grad(f)), 1)(X.view(5, 3, 1).expand(5, 3, 2)), 80 * X.T[:, :, None].expand(3, 5, 2))
    assert seen == [(3,)] * 3 + [(2,)]
    with pytest.raises(RuntimeError, match="cannot register a hook"):
        vmap(lambda x: x.register_hook(print))(X)


def test_the_jacobian_by_columns_draws_random_numbers_only_if_it_may():
    def noisy(x):
        return x * torch.rand(3)

    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        jacfwd(noisy)(X[0])
    same = jacfwd(lambda x: x.sum() * torch.rand(4), randomness="same")(X[0])
    assert torch.equal(same, same[:, :1].expand(4, 3))
    other, aux = jacfwd(lambda x, y: (x.sum() * torch.rand(4), y), (0, 1), True, randomness="different")(X[0], W[0])
    assert [t.shape for t in other] == [(4, 3), (4, 4)] and torch.equal(aux, W[0])
    assert other[0].unique().numel() == 12 and not other[1].any()


def test_whether_all_or_any_are_true_is_asked_of_all_slices():
    seen = []
    vmap(lambda x: (seen.append((torch._is_all_true(x > -2).item(), torch._is_any_true(x > 1.9).item())), x)[1])(X)
    assert seen == [(True, True)]


def test_a_result_that_is_no_tensor_is_returned_where_its_dimension_is_none():
    assert vmap(lambda x: (x, "text"), out_dims=(0, None))(X)[1] == "text"
    assert vmap(lambda x: None, out_dims=None)(X) is None
    with pytest.raises(ValueError, match="must be an int, None or a python collection of ints"):
        vmap(torch.sin, out_dims="first")(X)
    for options in ({}, {"chunk_size": 2}):
        with pytest.raises(ValueError, match="out_dims is not compatible with the structure of `outputs`"):
            vmap(torch.sin, out_dims=(0, 0), **options)(X)


def test_strides_within_vmap_stay_within_the_slice():
    close(vmap(lambda x: x.as_strided((2, 2), (1, 1)))(X), torch.stack([X[:, :2], X[:, 1:]], 1))
    with pytest.raises(RuntimeError, match="can access memory outside of `tensor`"):
        vmap(lambda x: x.as_strided((4,), (1,)))(X)


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="expected `in_dims` to be int or a"):
        vmap(torch.mul, [0, 0])(X, X)
    with pytest.raises(ValueError, match="in_dims is not compatible with the structure"):
        vmap(torch.mul, (0,))(X, X)
    with pytest.raises(ValueError, match="Expected all tensors to have the same size in the mapped dimension"):
        vmap(torch.mul, (0, 1))(X, X)
    with pytest.raises(ValueError, match="must only return Tensors, got type <class 'int'>"):
        vmap(lambda x: 1)(X)
    for transform in (vmap, grad, jacfwd):
        with pytest.raises(RuntimeError, match=r"Tensor.requires_grad_\(\) .*inside of a function being transformed"):
            transform(lambda x: x.requires_grad_().sum())(X)
    with pytest.raises(RuntimeError, match=r"Tensor.retain_grad\(\) inside of a function being transformed"):
        grad(lambda x: (x.retain_grad(), x.sum())[1])(X)
    with pytest.raises(RuntimeError, match=r"backward\(\) called inside a functorch transform"):
        vmap(lambda x: (x * 2).sum().backward())(X)


def test_the_text_of_a_batched_tensor_shows_its_levels():
    seen = []
    vmap(vmap(lambda x: seen.append(repr(x)) or x))(torch.ones(1, 1, 1))
    text = "BatchedTensor(lvl=2, bdim=0, value= BatchedTensor(lvl=1, bdim=0, value= tensor([[[1.]]]) ) )"
    assert seen[0].split() == text.split()


def test_an_error_in_a_mapped_function_ends_its_level():
    with pytest.raises(IndexError):
        vmap(lambda x: x.sum(5))(X)
    assert torch._C._vmap_levels() == []
    close(vmap(torch.sum)(X), X.sum(1))


def test_an_operation_without_a_rule_warns_and_is_called_for_each_slice():
    a = torch.eye(3) + X[:3, None] * 0.01
    with pytest.warns(UserWarning, match="There is a performance drop"):
        found = vmap(lambda x: torch.renorm(x, 2, 0, 1.0))(a)
    close(found, torch.stack([torch.renorm(x, 2, 0, 1.0) for x in a]))


def test_calls_for_each_slice_are_announced_or_disabled():
    a = torch.eye(3) + X[:3, None] * 0.01
    assert torch._C._debug_only_are_vmap_fallback_warnings_enabled() and torch._C._is_vmap_fallback_enabled()
    torch._C._debug_only_display_vmap_fallback_warnings(False)
    torch._C._set_vmap_fallback_enabled(False)
    try:
        with pytest.raises(RuntimeError, match="hit the vmap fallback which is currently disabled"):
            vmap(lambda x: torch.renorm(x, 2, 0, 1.0))(a)
        torch._C._set_vmap_fallback_enabled(True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            close(vmap(lambda x: torch.renorm(x, 2, 0, 1.0))(a)[1], torch.renorm(a[1], 2, 0, 1.0))
    finally:
        torch._C._debug_only_display_vmap_fallback_warnings(True)
        torch._C._set_vmap_fallback_enabled(True)


F = torch.nn.functional
L = torch.linalg
SQUARE = torch.linspace(-2, 2, 27, dtype=torch.float64).cos().view(3, 3, 3) + 2 * torch.eye(3, dtype=torch.float64)
TALL = torch.linspace(0, 7, 45, dtype=torch.float64).sin().view(3, 5, 3)
SIDES = torch.linspace(-1, 3, 30, dtype=torch.float64).view(3, 5, 2)


def householder(a):
    return L.householder_product(*torch.geqrf(a))


def ldl(a):
    return L.ldl_factor(a + a.mT)[0]


@pytest.mark.parametrize(
    ("f", "given", "dims"),
    [
        (L.lu, (TALL,), (0,)),
        (lambda a, b: L.lu_solve(*L.lu_factor(a), b), (SQUARE, TALL[:, :3]), (0, 0)),
        (lambda a, b: L.lu_solve(*L.lu_factor(a), b), (SQUARE, TALL[0, :3]), (0, None)),
        (lambda a: torch.lu_unpack(*L.lu_factor(a))[1:], (SQUARE,), (2,)),
        (lambda a, b: L.lstsq(a, b, driver="gels").solution, (TALL, SIDES), (0, 0)),
        (lambda a, b: L.lstsq(a, b, driver="gelsd").solution, (TALL, SIDES), (0, 0)),
        (lambda a, b: L.lstsq(a, b, driver="gelsd").residuals, (TALL, SIDES[0]), (0, None)),
        (lambda a, b: L.lstsq(a, b).solution, (TALL[0], SIDES[..., 0]), (None, 0)),
        (ldl, (SQUARE,), (0,)),
        (L.solve, (SQUARE, TALL[:, :3]), (0, 0)),
        (L.solve, (SQUARE, TALL[0, :3]), (0, None)),
        (L.solve, (SQUARE[0], TALL[:, :3]), (None, 0)),
        (L.solve, (SQUARE, TALL[0, 0]), (0, None)),
        (L.solve, (SQUARE, SQUARE[:, 0]), (0, 1)),
        (lambda a, b: L.solve(a, b, left=False), (SQUARE, TALL), (0, 0)),
        (lambda a, b: L.solve_triangular(a, b, upper=True), (SQUARE, TALL[1, :3]), (0, None)),
        (lambda a: L.svd(a, full_matrices=False)[1], (TALL,), (0,)),
        (lambda a: torch.svd(a)[1], (TALL,), (0,)),
        (L.pinv, (TALL,), (0,)),
        (L.matrix_exp, (SQUARE,), (0,)),
        (householder, (TALL,), (0,)),
        (torch.special.zeta, (TALL.abs() + 2, TALL[0].abs() + 1), (0, None)),
        (torch.special.zeta, (TALL[:, 0, 0].abs() + 2, TALL.abs() + 1), (0, 0)),
        (torch.special.bessel_j1, (TALL,), (1,)),
    ],
)
def test_matrices_and_special_functions_of_all_slices_are_computed_in_one_call(f, given, dims):
    def outputs(*own):
        found = f(*own)
        return tuple(found) if isinstance(found, tuple) else (found,)

    size = next(t.shape[d] for t, d in zip(given, dims, strict=True) if d is not None)
    slices = [[t if d is None else t.select(d, i) for t, d in zip(given, dims, strict=True)] for i in range(size)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = vmap(outputs, dims)(*given)
    for t, expected in zip(found, zip(*(outputs(*own) for own in slices), strict=True), strict=True):
        torch.testing.assert_close(t, torch.stack(expected), rtol=1e-9, atol=1e-9)
    if f in (householder, ldl, torch.special.zeta):
        return  # which have no derivative

    def weighed(a):
        return sum((t * (1 + t.detach().cos())).sum() for t in outputs(a, *given[1:]) if t.requires_grad)

    if dims == (0,) or dims == (0, None):
        expected = torch.stack([grad(weighed)(a) for a in given[0]])
        torch.testing.assert_close(vmap(grad(weighed))(given[0]), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("f", [L.eigh, L.inv, L.cholesky, L.qr, L.svdvals, torch.tril, lambda a: L.matrix_power(a, 2)])
def test_a_mapped_dimension_does_not_make_a_matrix_of_vectors(f):
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        vmap(f)(SQUARE[0])


@pytest.mark.parametrize(
    ("f", "given", "dims"),
    [
        (lambda a, b: torch.select_scatter(a, b, 1, 2), (TALL, TALL[:, :, 0]), (0, 0)),
        (lambda a, b: torch.slice_scatter(a, b, 0, 1, 5, 2), (TALL[0], TALL[:, :2]), (None, 0)),
        (lambda a, b: torch.diagonal_scatter(a, b, 1, -2, -1), (SQUARE, SQUARE[0, 0, :2]), (0, None)),
        (F.prelu, (TALL, SQUARE[0]), (0, 0)),
        (F.prelu, (TALL[0], SQUARE[0]), (None, 0)),
    ],
)
def test_parts_that_are_replaced_and_slopes_are_those_of_slices(f, given, dims):
    slices = [[t if d is None else t[i] for t, d in zip(given, dims, strict=True)] for i in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        close(vmap(f, dims)(*given), torch.stack([f(*own) for own in slices]))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_slices_are_a_loop(mode):
    table = torch.linspace(-1, 2, 42).sin().view(3, 7, 2)
    bags = torch.arange(45).mul(5).remainder(7).view(3, 3, 5)
    starts = torch.tensor([0, 2, 4])
    for f, given, dims in (
        (lambda i, w: F.embedding_bag(i, w, mode=mode), (bags, table), (0, 0)),
        (lambda i, w: F.embedding_bag(i, w, mode=mode, padding_idx=1), (bags, table[0]), (0, None)),
        (lambda i, w: F.embedding_bag(i, w, starts, mode=mode), (bags[:, 0], table), (0, 0)),
        (lambda i, w: F.embedding_bag(i, w, mode=mode), (bags[0], table), (None, 0)),
    ):
        slices = [[t if d is None else t[i] for t, d in zip(given, dims, strict=True)] for i in range(3)]
        close(vmap(f, dims)(*given), torch.stack([f(*own) for own in slices]))


@pytest.mark.parametrize(
    "f",
    [
        lambda a: torch.stack(torch.var_mean(a, True)),
        lambda a: torch.stack(torch.std_mean(a, False)),
        lambda a: L.matrix_norm(a, float("inf"), (-1, 0)),
        lambda a: L.matrix_norm(a, 1, (0, 1), keepdim=True),
        lambda a: torch.as_strided_copy(a, (2, 2), (3, 1)),
        lambda a: torch.masked_select(a, X > 0.5),
        lambda a: F.dropout(a, 1.0),
        lambda a: torch.narrow(a, 0, torch.tensor(1), 2),
    ],
)
def test_reductions_views_and_selections_of_slices_are_a_loop(f):
    slices = torch.linspace(-1, 2, 45).sin().view(3, 5, 3)
    close(vmap(f)(slices), torch.stack([f(a) for a in slices]))
    weighed = grad(lambda a: (f(a) * 1.5).sum())
    close(vmap(weighed)(slices), torch.stack([weighed(a) for a in slices]))


def test_pictures_with_channels_last_are_unpooled():
    pictures = torch.linspace(-1, 2, 128).sin().view(2, 1, 4, 4, 4).movedim(4, 2)

    def f(a):
        return F.max_unpool2d(*F.max_pool2d(a, 2, return_indices=True), 2)

    wholes = [f(a) for a in pictures]
    pooled, places = zip(*(F.max_pool2d(a, 2, return_indices=True) for a in pictures), strict=True)
    laid = [t.contiguous(memory_format=torch.channels_last) for t in pooled]
    stacked = torch.stack([t.movedim(1, 3) for t in laid]).movedim(4, 2)
    close(vmap(lambda a, i: F.max_unpool2d(a, i, 2))(stacked, torch.stack(places)), torch.stack(wholes))


def test_a_dimension_is_a_number_or_none_wherever_it_stands():
    with pytest.raises(ValueError, match="in_dim must be either an integer"):
        vmap(torch.add, (0, "a"))(X, X)
    with pytest.raises(ValueError, match="in_dim must be either an integer"):
        vmap(torch.add, (0, True))(X, X)
    for out_dims in ((0, "a"), "a", (0, 1.5), True):
        with pytest.raises(ValueError, match="`out_dims` must be an int, None or a python collection"):
            vmap(lambda a: (a, a), out_dims=out_dims)(X)


def test_arguments_by_keyword_are_shared_by_all_slices():
    found = vmap(lambda a, k=1.0: a * k, chunk_size=2)(X, k=torch.tensor([1.0, 2.0, 3.0]))
    close(found, X * torch.tensor([1.0, 2.0, 3.0]))


def test_what_has_no_meaning_for_slices_says_so():
    for f, error in (
        (lambda a: a.data, "accessing `data` under vmap"),
        (lambda a: a.numpy(), "Cannot access data pointer"),
        (lambda a: a.tolist(), "Cannot access data pointer"),
        (lambda a: torch.allclose(a, a), "vmap over torch.allclose isn't supported yet"),
        (lambda a: torch.equal(a, a), "Batching rule not implemented for aten::equal"),
        (lambda a: a.sum().backward(), r"backward\(\) called inside a functorch transform"),
    ):
        with pytest.raises(RuntimeError, match=error):
            vmap(f)(X)
    with pytest.raises(RuntimeError, match="explicit positive num_classes"):
        vmap(F.one_hot)(torch.tensor([0, 2]))
    with pytest.raises(RuntimeError, match=r"backward\(\) called inside a functorch transform"):
        grad(lambda a: a.sum().backward())(X)
    with pytest.raises(RuntimeError, match="All outputs of f must be floating-point"):
        jacrev(lambda a: a.long())(X[0])
    with pytest.raises(ValueError, match="must be Tensor, got <class 'float'>"):
        grad(torch.sin)(3.0)


def test_orders_of_polynomials_may_differ_between_slices():
    orders = torch.tensor([0.0, 2.0, 3.0])
    found = vmap(torch.special.chebyshev_polynomial_t, (None, 0))(X, orders)
    close(found, torch.stack([torch.special.chebyshev_polynomial_t(X, n) for n in orders]))


def test_a_view_of_memory_that_slices_share_has_a_gradient_for_each():
    x = torch.arange(6.0).view(2, 3)
    weights = torch.arange(12.0).view(3, 2, 2)

    def taken(w):
        return grad(lambda a: (a.as_strided((2, 2), (3, 1), 1) * w).sum())(x)

    with pytest.warns(UserWarning, match="as_strided"):
        found = vmap(taken)(weights)
    close(found, torch.stack([taken(w) for w in weights]))


def test_an_error_in_a_backward_of_the_program_is_raised_once():
    calls = []

    class Counts(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.clone()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            calls.append(g.shape)
            g.nonzero()
            return g

    with pytest.raises(RuntimeError, match="We do not support batching operators that can output dynamic shape"):
        torch.func.jacrev(Counts.apply, chunk_size=2)(X[0])
    assert calls == [X[0].shape]
    # Rows that are computed one by one may differ.
    close(torch.func.jacrev(Counts.apply, chunk_size=1)(X[0]), torch.eye(3))


def test_what_a_mapped_function_returns_as_it_is_is_the_whole_tensor_itself():
    x, y = torch.ones(2, 3), torch.ones(2, 3, 4)
    assert vmap(lambda a: a)(x) is x and vmap(lambda a: a.acos_())(x) is x and vmap(vmap(lambda a: a))(y) is y
    assert vmap(lambda a: a, out_dims=1)(x)._base is x


def test_dimensions_of_results_are_ints():
    for dims in ("lol", ("lol",)):
        with pytest.raises(ValueError, match="must be an int, None or a python collection of ints"):
            vmap(torch.sin, out_dims=dims)(X)


LSTM = torch.nn.LSTM(4, 5, batch_first=True, bidirectional=True)
ATTENTION = torch.nn.MultiheadAttention(4, 2, batch_first=True)
LAYER = torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize(
    ("f", "shape"),
    [
        (lambda x: LSTM(x)[0], (2, 6, 4)),
        (lambda x: ATTENTION(x, x, x)[0], (2, 5, 4)),
        (LAYER, (2, 5, 4)),
        (torch.nn.BatchNorm1d(3, track_running_stats=False), (5, 3)),
        (torch.nn.GroupNorm(2, 4, affine=True), (2, 4, 3)),
        (torch.nn.ConvTranspose2d(2, 3, 3, stride=2), (1, 2, 4, 4)),
        (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (1, 2, 3, 3)),
        (lambda x: F.fold(x, (3, 3), 2), (1, 8, 4)),
        (lambda x: torch.einsum("ij,kj->ik", x, x), (2, 3)),
        (lambda x: F.cross_entropy(x, torch.tensor([0, 3]), label_smoothing=0.1), (2, 4)),
        (lambda x: F.cross_entropy(x, x.softmax(-1)), (2, 4)),
        (lambda x: torch.special.i0(x) + torch.special.entr(x.abs()), (4,)),
        (lambda x: torch.linalg.solve(x @ x.mT + torch.eye(3), x), (3, 3)),
        (lambda x: x.unfold(0, 2, 1).quantile(0.3, dim=0), (5,)),
        (lambda x: x.new_tensor([1.0, 2.0]) * x[0:4:2], (5,)),
        (lambda x: torch.utils.checkpoint.checkpoint(torch.tanh, x * 2, use_reentrant=False), (3,)),
    ],
)
def test_layers_and_functions_of_many_operations_are_a_loop(f, shape):
    x = torch.linspace(-2, 2, 3 * torch.Size(shape).numel()).view(3, *shape).sin()
    close(vmap(f)(x), torch.stack([f(row) for row in x]))

    def weighed(x):
        y = f(x)
        return (y * torch.arange(float(y.numel())).view(y.shape).cos()).sum()

    found = vmap(grad(weighed))(x)
    torch.testing.assert_close(found, torch.stack([grad(weighed)(row) for row in x]), rtol=1e-4, atol=1e-4)


def test_autocast_and_one_hot_inside():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = vmap(lambda x: x @ W)(X)
    assert found.dtype == torch.bfloat16 and found.device.type == "cpu"
    assert vmap(lambda i: F.one_hot(i, 4))(torch.tensor([3, 0])).tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]


def test_slices_on_a_gpu_are_those_of_the_cpu(gpu):
    def f(w, x):
        return (torch.tanh(x @ w) ** 2).sum()

    found = vmap(grad(f), (None, 0))(W.to(gpu), X.to(gpu))
    assert found.device.type == gpu.type
    close(found.cpu(), vmap(grad(f), (None, 0))(W, X))
    seen = []
    vmap(lambda x: seen.append((x.device.type, x.new_zeros(2).device.type)) or x.cpu())(X.to(gpu))
    assert seen == [(gpu.type, gpu.type)]
    close(vmap(lambda i: X.to(gpu)[i])(torch.tensor([4, 0], device=gpu)).cpu(), X[[4, 0]])


def test_a_tensor_of_slices_is_not_used_after_its_vmap_nor_given_other_memory():
    kept = []
    vmap(lambda x: kept.append(x) or x)(X)
    with pytest.raises(RuntimeError, match="a vmap that has ended"):
        kept[0] + 1
    with pytest.raises(RuntimeError, match="cannot be changed or exchanged"):
        vmap(lambda x: x.resize_(7))(X.clone())
    kept.clear()
    close(X + 1, 1 + X)


def test_copies_of_a_tensor_of_slices_are_copies_of_its_slices():
    x = X.clone()
    with pytest.warns(UserWarning, match="copy construct"):
        found = vmap(lambda row: torch.tensor(row, dtype=torch.float64).mul_(2))(x)
    close(found, X.double() * 2)
    close(x, X)
    with pytest.raises(RuntimeError, match="calling .item"):
        vmap(lambda row: torch.tensor([row[0], 1.0]))(X)
    with pytest.raises(NotImplementedError, match="Cannot access storage of BatchedTensorImpl"):
        vmap(lambda row: row.untyped_storage())(X)


def test_slices_have_no_format_of_whole_tensors():
    pictures = torch.ones(2, 1, 2, 3, 4)
    last = torch.channels_last
    for call in (lambda x: x.contiguous(memory_format=last), lambda x: x.is_contiguous(memory_format=last)):
        with pytest.raises(RuntimeError, match="querying is_contiguous inside of vmap for memory_format other than"):
            vmap(call)(pictures)
    with pytest.raises(RuntimeError, match="only supported with memory_format torch.preserve_format"):
        vmap(lambda x: x.clone(memory_format=last))(pictures)
    close(vmap(lambda x: x.contiguous(memory_format=torch.contiguous_format))(pictures), pictures)


def test_the_rule_of_a_custom_function_gets_arguments_as_vmap_got_them():
    class Seen(torch.autograd.Function):
        calls = []

        @staticmethod
        def forward(x, y):
            raise AssertionError

        @staticmethod
        def setup_context(ctx, inputs, output): ...

        @staticmethod
        def vmap(info, in_dims, x, y):
            Seen.calls.append((info.batch_size, in_dims, tuple(x.shape)))
            return x, in_dims[0]

    x = torch.arange(6.0).view(2, 3)
    close(vmap(Seen.apply, (1, None))(x, x), x.t())
    close(vmap(Seen.apply, (-1, 0))(x, x.t()), x.t())
    close(vmap(lambda row: Seen.apply(row * 1, 2))(x), x)
    assert Seen.calls == [(3, (1, None), (2, 3)), (3, (1, 0), (2, 3)), (2, (0, None), (2, 3))]
    shown = []
    vmap(lambda row: shown.append(repr(row)) or row, 1)(x)
    assert "bdim=1" in shown[0] and "[[0., 1., 2.]" in shown[0]
