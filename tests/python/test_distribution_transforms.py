"""Constraints and transforms: what is inside, inverses, determinants against autograd, shapes, caches, registries."""

from __future__ import annotations

import copy
import pickle

import pytest

import rgrad as torch
from rgrad.distributions import Normal, biject_to, constraints, transform_to
from rgrad.distributions import transforms as T

DOUBLE = torch.float64


def _t(*values):
    return torch.tensor(values, dtype=DOUBLE)


# Each with arguments of its domain, one value per row.
BIJECTIONS = {
    "exp": (T.ExpTransform(), _t(-1.0, 0.3, 2.0)),
    "sigmoid": (T.SigmoidTransform(), _t(-3.0, 0.3, 2.0)),
    "softplus": (T.SoftplusTransform(), _t(-3.0, 0.3, 20.0)),
    "tanh": (T.TanhTransform(), _t(-2.0, 0.3, 1.5)),
    "power": (T.PowerTransform(_t(-1.5)), _t(0.2, 1.3, 5.0)),
    "affine": (T.AffineTransform(1.0, -2.0), _t(-1.0, 0.3, 2.0)),
    "affine of tensors": (T.AffineTransform(_t(1.0, 2.0), _t(0.5, -3.0), 1), torch.tensor([[0.3, -2.0]], dtype=DOUBLE)),
    "stick breaking": (T.StickBreakingTransform(), torch.tensor([[0.5, -1.0, 2.0]], dtype=DOUBLE)),
    "correlation": (T.CorrCholeskyTransform(), torch.tensor([[0.5, -1.0, 0.2, 0.1, 0.7, -0.3]], dtype=DOUBLE)),
    "reshape": (T.ReshapeTransform((2, 2), (4,)), torch.tensor([[[1.0, 2.0], [3.0, 4.0]]], dtype=DOUBLE)),
    "independent": (T.IndependentTransform(T.ExpTransform(), 1), torch.tensor([[0.5, -1.0]], dtype=DOUBLE)),
    "composed": (
        T.ComposeTransform([T.AffineTransform(0.5, 2.0), T.StickBreakingTransform()]),
        torch.tensor([[0.5, -1.0]], dtype=DOUBLE),
    ),
    "cumulative": (T.CumulativeDistributionTransform(Normal(_t(0.5), _t(2.0))), _t(-1.0, 0.3, 2.0)),
    "inverse": (T.ExpTransform().inv, _t(0.1, 0.3, 2.0)),
}


@pytest.mark.parametrize("name", BIJECTIONS)
def test_the_inverse_undoes_a_bijection(name):
    t, x = BIJECTIONS[name]
    y = t(x)
    assert t.bijective and t.domain.check(x).all() and t.codomain.check(y).all()
    torch.testing.assert_close(t.inv(y), x)
    assert t.inv.inv is t and t.inv.domain.event_dim == t.codomain.event_dim
    assert tuple(t.forward_shape(x.shape)) == y.shape and tuple(t.inverse_shape(y.shape)) == x.shape


def _free_entries(t, y):
    """As many entries of a result as the map has arguments: those that the others follow from are left out."""
    if t.codomain is constraints.corr_cholesky:
        return y[torch.tril_indices(y.shape[-1], y.shape[-1], -1).unbind()]
    if isinstance(t.codomain, type(constraints.simplex)):
        return y[..., :-1]
    return y.flatten()


@pytest.mark.parametrize("name", BIJECTIONS)
def test_log_determinants_are_those_of_the_derivatives(name):
    t, x = BIJECTIONS[name]
    event = t.domain.event_dim
    values = x.flatten(0, x.dim() - event - 1) if x.dim() > event else x.unsqueeze(0)
    found = t.log_abs_det_jacobian(x, t(x)).flatten()
    torch.testing.assert_close(t.inv.log_abs_det_jacobian(t(x), x).flatten(), -found)
    for value, said in zip(values, found, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda v: _free_entries(t, t(v)), value)
        size = value.numel()
        expected = jacobian.reshape(size, size).det().abs().log()
        torch.testing.assert_close(said, expected)


def test_parts_of_a_tensor_are_transformed_each_by_its_own():
    x = torch.tensor([[0.3, -1.0, 2.0], [0.1, 0.2, 0.3]], dtype=DOUBLE)
    cat = T.CatTransform([T.ExpTransform(), T.AffineTransform(0.0, 2.0)], -1, [1, 2])
    stack = T.StackTransform([T.ExpTransform(), T.AffineTransform(0.0, 2.0)], 0)
    assert torch.equal(cat(x), torch.cat([x[:, :1].exp(), 2 * x[:, 1:]], -1))
    assert torch.equal(stack(x), torch.stack([x[0].exp(), 2 * x[1]]))
    for t in (cat, stack):
        torch.testing.assert_close(t.inv(t(x)), x)
        determinants = torch.autograd.functional.jacobian(lambda v, t=t: t(v).flatten(), x).reshape(6, 6).diagonal()
        torch.testing.assert_close(t.log_abs_det_jacobian(x, t(x)).flatten(), determinants.abs().log())
    inside = constraints.cat([constraints.positive, constraints.real], 1, [1, 2])
    assert inside.check(-x).tolist() == [[False, True, True], [False, True, True]]
    vectors = T.CatTransform([T.StickBreakingTransform(), T.StickBreakingTransform()], 0)
    assert vectors.log_abs_det_jacobian(x, vectors(x)).shape == (2,)
    with pytest.raises(ValueError, match="length"):
        T.CatTransform([T.ExpTransform()], lengths=[1, 2])
    with pytest.raises(ValueError):
        stack(x[:1])


def test_a_composition_counts_as_many_dimensions_as_its_parts_need():
    outer = T.ComposeTransform([T.ExpTransform(), T.StickBreakingTransform()])
    assert repr(outer.domain) == "IndependentConstraint(Real(), 1)" and outer.codomain is constraints.simplex
    inner = T.ComposeTransform([T.StickBreakingTransform(), T.ExpTransform()])
    assert repr(inner.codomain) == "IndependentConstraint(GreaterThan(lower_bound=0.0), 1)"
    assert T.identity_transform(outer) is outer and T.identity_transform.inv == T.identity_transform
    assert T.ComposeTransform([T.AffineTransform(0, -1), T.ExpTransform()]).sign == -1
    with pytest.raises(ValueError, match="domain.event_dim"):
        _ = T.ReshapeTransform((2, 2), (4,)).event_dim


def test_matrices_with_a_positive_diagonal_and_positive_definite_ones_are_made_of_any():
    x = torch.randn(3, 4, 4, dtype=DOUBLE, generator=torch.Generator().manual_seed(1))
    for t, region in (
        (T.LowerCholeskyTransform(), constraints.lower_cholesky),
        (T.PositiveDefiniteTransform(), constraints.positive_definite),
    ):
        y = t(x)
        assert region.check(y).tolist() == [True] * 3
        torch.testing.assert_close(t(t.inv(y)), y)


def test_a_cache_gives_the_very_argument_back_and_is_not_copied():
    t = T.TanhTransform(cache_size=1)
    x = torch.tensor([20.0])
    assert t.inv(t(x)) is x and T.TanhTransform().inv(t(x)).isinf().all()
    for other in (copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
        assert other == t and other.inv(t(x)) is not x
    assert t.with_cache(1) is t and t.with_cache(0)._cache_size == 0
    composed = T.ComposeTransform([T.ExpTransform(), T.AffineTransform(1.0, 2.0)]).with_cache(1)
    assert composed.inv(composed(x)) is x
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        T.ExpTransform(2)


def test_transforms_are_equal_if_their_parameters_are():
    assert T.ExpTransform() == T.ExpTransform() and T.ExpTransform() != T.SigmoidTransform()
    assert T.AffineTransform(0.0, _t(1.0)) == T.AffineTransform(_t(0.0), 1.0)
    assert T.AffineTransform(0.0, 1.0) != T.AffineTransform(0.0, 2.0)
    assert T.ExpTransform().inv == T.ExpTransform().inv != T.ExpTransform()
    with pytest.raises(TypeError):
        hash(T.ExpTransform())

    class Own(T.Transform):
        def __init__(self):
            super().__init__()

    assert Own() != Own()
    with pytest.raises(NotImplementedError, match="with_cache"):
        Own().with_cache(1)


def test_shapes_that_a_transform_can_not_take_are_refused():
    for call in (
        lambda: T.StickBreakingTransform().forward_shape(()),
        lambda: T.CorrCholeskyTransform().forward_shape((5,)),
        lambda: T.CorrCholeskyTransform().inverse_shape((2, 3)),
        lambda: T.ReshapeTransform((2,), (3,)),
        lambda: T.ReshapeTransform((2, 3), (6,)).forward_shape((5, 3, 2)),
        lambda: T.IndependentTransform(T.ExpTransform(), 1)(torch.tensor(1.0)),
    ):
        with pytest.raises(ValueError):
            call()


INSIDE = {
    constraints.real: ([1.0, -1.0], [float("nan")]),
    constraints.boolean: ([0.0, 1.0], [0.5, 2.0]),
    constraints.nonnegative_integer: ([0.0, 3.0], [-1.0, 0.5]),
    constraints.positive_integer: ([1.0, 3.0], [0.0]),
    constraints.integer_interval(1, 3): ([1.0, 3.0], [0.0, 4.0, 1.5]),
    constraints._IntegerLessThan(3): ([-1.0, 3.0], [4.0, 1.5]),
    constraints.positive: ([0.1], [0.0, -1.0]),
    constraints.nonnegative: ([0.0], [-1.0]),
    constraints.less_than(2.0): ([1.0], [2.0]),
    constraints.unit_interval: ([0.0, 1.0], [-0.1, 1.1]),
    constraints.half_open_interval(0.0, 1.0): ([0.0], [1.0]),
    constraints.simplex: ([[0.2, 0.8]], [[0.5, 0.6], [1.5, -0.5]]),
    constraints.one_hot: ([[0.0, 1.0]], [[1.0, 1.0], [0.5, 0.5]]),
    constraints.multinomial(3): ([[1.0, 2.0]], [[2.0, 2.0], [-1.0, 1.0]]),
    constraints.lower_triangular: ([[[1.0, 0.0], [1.0, 0.0]]], [[[1.0, 1.0], [0.0, 1.0]]]),
    constraints.lower_cholesky: ([[[1.0, 0.0], [1.0, 2.0]]], [[[1.0, 0.0], [1.0, -2.0]]]),
    constraints.corr_cholesky: ([[[1.0, 0.0], [0.6, 0.8]]], [[[1.0, 0.0], [1.0, 1.0]]]),
    constraints.symmetric: ([[[1.0, 2.0], [2.0, 0.0]]], [[[1.0, 2.0], [0.0, 1.0]]]),
    constraints.positive_semidefinite: ([[[0.0, 0.0], [0.0, 1.0]]], [[[1.0, 0.0], [0.0, -1.0]]]),
    constraints.positive_definite: ([[[2.0, 1.0], [1.0, 2.0]]], [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]]]),
}


@pytest.mark.parametrize("constraint", INSIDE, ids=repr)
def test_a_constraint_tells_what_is_inside(constraint):
    inside, outside = INSIDE[constraint]
    answers = constraint.check(torch.tensor([*inside, *outside], dtype=DOUBLE))
    assert answers.tolist() == [True] * len(inside) + [False] * len(outside)
    assert pickle.loads(pickle.dumps(constraint)).event_dim == constraint.event_dim


def test_an_event_is_inside_if_all_its_elements_are():
    x = torch.tensor([[1.0, 2.0], [1.0, -1.0]])
    assert constraints.independent(constraints.positive, 1).check(x).tolist() == [True, False]
    assert constraints.independent(constraints.positive, 0).check(x).shape == x.shape
    with pytest.raises(ValueError, match="Expected value.dim"):
        constraints.real_vector.check(torch.tensor(1.0))
    assert constraints.square.check(torch.ones(3, 2, 2)).all() and not constraints.square.check(torch.ones(2, 3))
    slices = constraints.stack([constraints.positive, constraints.real], 0)
    assert slices.check(x).tolist() == [[True, True], [True, True]]
    mixed = constraints.MixtureSameFamilyConstraint(constraints.interval(torch.zeros(3), torch.arange(3) + 1.0))
    assert mixed.check(torch.tensor([0.5, 1.5])).tolist() == [True, False]


def test_dependent_constraints_say_what_they_know():
    assert constraints.is_dependent(constraints.dependent) and not constraints.is_dependent(constraints.real)
    with pytest.raises(ValueError, match="dependent"):
        constraints.dependent.check(torch.ones(1))
    for name in ("event_dim", "is_discrete"):
        with pytest.raises(NotImplementedError, match=name):
            getattr(constraints.dependent, name)
    known = constraints.dependent(event_dim=2)
    assert known.event_dim == 2 and known(is_discrete=True).is_discrete

    class Own:
        @constraints.dependent_property(event_dim=1)
        def support(self):
            return constraints.simplex

    assert Own.support.event_dim == 1 and constraints.is_dependent(Own.support) and Own().support is constraints.simplex


REGIONS = [
    constraints.real,
    constraints.positive,
    constraints.greater_than(-2.0),
    constraints.greater_than_eq(1.0),
    constraints.less_than(2.0),
    constraints.unit_interval,
    constraints.interval(-2.0, 3.0),
    constraints.half_open_interval(-2.0, torch.tensor(3.0)),
    constraints.simplex,
    constraints.corr_cholesky,
    constraints.real_vector,
    constraints.cat([constraints.real, constraints.positive], 0, [1, 2]),
    constraints.stack([constraints.real, constraints.positive, constraints.unit_interval]),
]


@pytest.mark.parametrize("constraint", REGIONS, ids=repr)
def test_the_registries_lead_into_the_region(constraint):
    free = torch.tensor([-0.7, 0.4, 1.5])
    for registry in (biject_to, transform_to):
        t = registry(constraint)
        assert constraint.check(t(free)).all()
    assert biject_to(constraint).bijective


@pytest.mark.parametrize("name", ["lower_cholesky", "positive_definite", "positive_semidefinite"])
def test_regions_of_matrices_can_be_reached_but_by_no_bijection(name):
    constraint = getattr(constraints, name)
    assert constraint.check(transform_to(constraint)(torch.randn(2, 3, 3))).all()
    with pytest.raises(NotImplementedError, match="Cannot transform"):
        biject_to(constraint)


def test_only_constraints_can_be_registered():
    with pytest.raises(TypeError, match="Constraint subclass or instance"):
        biject_to.register(3, lambda c: None)
