"""Nested containers as trees (`utils._pytree`)."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import rgrad as torch
from rgrad.utils import _pytree as pytree

Pair = namedtuple("Pair", "left right")
TREE = {"a": (1, [2, 3]), "b": Pair(4, None), "c": OrderedDict(x=deque([5], maxlen=3)), "d": defaultdict(int, {"k": 6})}


def test_a_tree_is_put_together_again_from_its_leaves():
    leaves, spec = pytree.tree_flatten(TREE)
    assert leaves == [1, 2, 3, 4, None, 5, 6]
    assert (spec.num_leaves, spec.num_children) == (7, 4)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == TREE and type(again["b"]) is Pair and again["c"]["x"].maxlen == 3
    with pytest.raises(ValueError, match="`leaves` has length 1 but the spec refers to a pytree that holds 7 items"):
        pytree.tree_unflatten([1], spec)


def test_a_function_is_mapped_over_leaves_at_the_same_places():
    assert pytree.tree_map(lambda a, b: a + b, [1, (2, 3)], [4, (5, 6)]) == [5, (7, 9)]
    assert pytree.tree_map(lambda a, b: (a, b), [1, (2,)], [[7], (8,)]) == [(1, [7]), ((2, 8),)]
    assert pytree.tree_map_only(int, lambda v: -v, [1, "x"]) == [-1, "x"]
    assert pytree.tree_leaves([1, (2,)], is_leaf=lambda v: isinstance(v, tuple)) == [1, (2,)]
    with pytest.raises(ValueError, match="Node arity mismatch; expected 1, but got 2"):
        pytree.tree_map(lambda a, b: a, [1], [1, 2])


def test_results_with_several_values_are_nodes():
    found = torch.max(torch.tensor([[1.0, 3.0], [2.0, 0.0]]), 0)
    doubled = pytree.tree_map(lambda t: t * 2, found)
    assert type(doubled) is type(found)
    assert doubled.values.tolist() == [4.0, 6.0] and doubled.indices.tolist() == [2, 0]


def test_a_description_prints_as_in_pytorch():
    spec = pytree.tree_structure([1, (2, 3)])
    assert repr(spec) == "TreeSpec(list, None, [*,\n  TreeSpec(tuple, None, [*,\n    *])])"


def test_other_classes_become_nodes_once():
    class Box:
        def __init__(self, held):
            self.held = held

    pytree.register_pytree_node(Box, lambda box: ([box.held], None), lambda held, _: Box(*held))
    assert pytree.tree_map(lambda v: v + 1, Box([1, 2])).held == [2, 3]
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Box, lambda box: ([], None), lambda held, _: Box(held))
