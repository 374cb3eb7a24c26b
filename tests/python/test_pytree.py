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


def test_leaves_have_paths():
    from collections import OrderedDict, namedtuple

    from rgrad.utils import _pytree

    Point = namedtuple("Point", "a b")
    tree = {"x": [1, (2, 3)], "y": Point(4, OrderedDict(z=5))}
    pairs, spec = _pytree.tree_flatten_with_path(tree)
    # As PyTorch 2.15 shows them.
    assert [_pytree.keystr(path) for path, _ in pairs] == [
        "['x'][0]",
        "['x'][1][0]",
        "['x'][1][1]",
        "['y'].a",
        "['y'].b['z']",
    ]
    assert [leaf for _, leaf in pairs] == [1, 2, 3, 4, 5] and _pytree.tree_unflatten([1, 2, 3, 4, 5], spec) == tree
    assert pairs[0][0] == (_pytree.MappingKey("x"), _pytree.SequenceKey(0))
    assert repr(pairs[3][0][1]) == "GetAttrKey(name='a')"
    assert _pytree.key_get(tree, pairs[4][0]) == 5 and _pytree.tree_leaves_with_path([7])[0][1] == 7
    doubled = _pytree.tree_map_with_path(lambda path, a, b: (len(path), a + b), tree, tree)
    assert doubled["x"] == [(2, 2), ((3, 4), (3, 6))] and doubled["y"].b["z"] == (3, 10)


def test_own_nodes_tell_their_steps():
    from rgrad.utils import _pytree

    class Pair:
        def __init__(self, left, right):
            self.left, self.right = left, right

    _pytree.register_pytree_node(
        Pair,
        lambda p: ([p.left, p.right], None),
        lambda children, _: Pair(*children),
        flatten_with_keys_fn=lambda p: (
            [(_pytree.GetAttrKey("left"), p.left), (_pytree.GetAttrKey("right"), p.right)],
            None,
        ),
    )
    pairs, _ = _pytree.tree_flatten_with_path([Pair(1, [2])])
    assert [_pytree.keystr(path) for path, _ in pairs] == ["[0].left", "[0].right[0]"]


def test_programs_walk_trees_by_the_supported_nodes():
    from collections import namedtuple

    from rgrad.utils import _pytree

    Point = namedtuple("Point", "a b")
    supported = _pytree.SUPPORTED_NODES
    assert _pytree._get_node_type(Point(1, 2)) is namedtuple and namedtuple in supported and int not in supported
    children, context = supported[namedtuple].flatten_fn(Point(1, 2))
    assert children == [1, 2] and supported[namedtuple].unflatten_fn(children, context) == Point(1, 2)
    assert supported[dict].flatten_fn({"a": 1})[0] == [1] and dict in list(supported)
    assert _pytree.LeafSpec().is_leaf() and _pytree._is_leaf(3) and not _pytree._is_leaf([3])


def test_subclasses_of_dictionaries_are_taken_apart_by_the_functions_of_dictionaries():
    assert pytree._dict_flatten({"a": 1, "b": 2}) == ([1, 2], ["a", "b"])
    assert pytree._dict_unflatten([1, 2], ["a", "b"]) == {"a": 1, "b": 2}


def test_arguments_of_a_call_have_leaves():
    assert pytree.arg_tree_leaves(1, [2, 3], a={"b": 4}, c=None) == [1, 2, 3, 4, None]


def test_the_structure_of_a_namedtuple_names_its_class_as_context():
    spec = pytree.tree_structure(Pair(1, [2]))
    assert spec.type is namedtuple and spec.context is Pair and spec.child(1).type is list
    assert spec == pytree.TreeSpec(namedtuple, Pair, [pytree.LeafSpec(), pytree.tree_structure([0])])
    assert pytree.tree_unflatten([3, 4], spec) == Pair(3, [4])


def test_leaves_are_repeated_over_the_leaves_of_a_larger_tree():
    whole = pytree.tree_structure([0, (0, 0), {"a": Pair(0, 0)}])
    assert pytree._broadcast_to_and_flatten(1, whole) == [1] * 5
    assert pytree._broadcast_to_and_flatten([1, 2, {"a": 3}], whole) == [1, 2, 2, 3, 3]
    assert pytree._broadcast_to_and_flatten([1, (2, 3), {"a": Pair(4, 5)}], whole) == [1, 2, 3, 4, 5]
    for other in ((1, 2, 3), [1, 2], [1, [2, 3], 4], [1, 2, {"b": 3}], [[1], 2, 3]):
        assert pytree._broadcast_to_and_flatten(other, whole) is None


def test_the_former_name_of_a_registration_warns_and_a_leaf_is_no_container():
    class Box:
        def __init__(self, value):
            self.value = value

    with pytest.warns(FutureWarning, match="register_pytree_node"):
        pytree._register_pytree_node(Box, lambda box: ([box.value], None), lambda values, _: Box(*values))
    assert pytree.tree_leaves(Box([1, 2])) == [1, 2]
    assert pytree.tree_is_leaf(3) and not pytree.tree_is_leaf([3]) and pytree.tree_is_leaf([3], lambda tree: True)
