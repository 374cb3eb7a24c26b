"""Nested containers as trees: flattening to a list of leaves and a structure, mapping, and rebuilding.

Nodes are tuples, named tuples, lists, deques, dictionaries and classes added by `register_pytree_node`; everything
else, including `None`, is a leaf.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    IsLeaf = Callable[[Any], bool] | None

# For each type of node: a function that splits a node into children and a context, and one that rebuilds it from
# them.
_nodes: dict[type, tuple[Callable[[Any], tuple[list, Any]], Callable[[Any, Any], Any]]] = {}


# What takes a node apart into pairs of a step and a child.
_keyed: dict[type, Callable[[Any], tuple[list[tuple[Any, Any]], Any]]] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Iterable, Any]],
    unflatten_fn: Callable[[Iterable, Any], Any],
    *,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None,
    **_kwargs: Any,
) -> None:
    """Makes instances of `cls` nodes: `flatten_fn` returns their children and a context, `unflatten_fn` inverts it.

    `flatten_with_keys_fn` returns the children with their path components, and the context; the default is indices.
    PyTorch's other keyword arguments, for saving and exporting trees, are accepted and ignored.
    """
    if cls in _nodes:
        raise ValueError(f"{cls} is already registered as pytree node.")

    def apart(node: Any) -> tuple[list, Any]:
        children, context = flatten_fn(node)
        return list(children), context

    _nodes[cls] = (apart, unflatten_fn)
    if flatten_with_keys_fn is not None:
        _keyed[cls] = flatten_with_keys_fn


register_pytree_node(list, lambda node: (node, None), lambda children, _: list(children))
register_pytree_node(tuple, lambda node: (node, None), lambda children, _: tuple(children))
register_pytree_node(deque, lambda node: (node, node.maxlen), lambda children, n: deque(children, maxlen=n))
register_pytree_node(
    OrderedDict,
    lambda node: (node.values(), list(node)),
    lambda children, keys: OrderedDict(zip(keys, children, strict=True)),
)
register_pytree_node(
    defaultdict,
    lambda node: (node.values(), (node.default_factory, list(node))),
    lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
)


def _register_pytree_node(cls: type, flatten_fn: Callable, unflatten_fn: Callable, **others: Any) -> None:
    """The former name of `register_pytree_node`."""
    import warnings

    warnings.warn(
        "`torch.utils._pytree._register_pytree_node` is deprecated. Please use "
        "`torch.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
        stacklevel=2,
    )
    register_pytree_node(cls, flatten_fn, unflatten_fn, **others)


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether a value is no container, or one that `is_leaf` takes for a whole."""
    return _is_leaf(tree, is_leaf)


class MappingKey(namedtuple("MappingKey", ("key",))):
    """A path component: from a dictionary to one of its values."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The value for this key in a dictionary."""
        return mapping[self.key]


class SequenceKey(namedtuple("SequenceKey", ("idx",))):
    """The step from a list, a tuple or a deque to one of its items."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The item of a sequence."""
        return sequence[self.idx]


class GetAttrKey(namedtuple("GetAttrKey", ("name",))):
    """The step from a named tuple, or another object, to one of its attributes."""

    __slots__ = ()

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The attribute of an object."""
        return getattr(obj, self.name)


def _dict_flatten(node: dict) -> tuple[list[Any], list]:
    """The values of a dictionary, and its keys."""
    return list(node.values()), list(node)


def _dict_unflatten(values: Iterable[Any], context: Iterable[Any]) -> dict:
    """The dictionary of values and keys, as `_dict_flatten` gave them."""
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(node: dict) -> tuple[list[tuple[MappingKey, Any]], list]:
    """The values of a dictionary with their path components, and its keys."""
    return [(MappingKey(key), value) for key, value in node.items()], list(node)


register_pytree_node(dict, _dict_flatten, _dict_unflatten)


def _is_namedtuple(cls: type) -> bool:
    return cls is not tuple and issubclass(cls, tuple) and hasattr(cls, "_fields")


def _apart(tree: Any, is_leaf: IsLeaf) -> tuple[list, Any] | None:
    """The children of a node and its context; None for a leaf."""
    cls = type(tree)
    if is_leaf is not None and is_leaf(tree):
        return None
    if cls in _nodes:
        return _nodes[cls][0](tree)
    return (list(tree), cls) if _is_namedtuple(cls) else None


def _keys(tree: Any, count: int) -> list[Any]:
    """The steps from a node to its children."""
    cls = type(tree)
    if cls in _keyed:
        return [key for key, _ in _keyed[cls](tree)[0]]
    if isinstance(tree, dict):
        return [MappingKey(key) for key in tree]
    if _is_namedtuple(cls):
        return [GetAttrKey(name) for name in cls._fields]
    return [SequenceKey(i) for i in range(count)]


class TreeSpec:
    """The structure of a tree, without its leaves."""

    def __init__(self, type: type | None, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type, self.context, self.children_specs = type, context, children_specs
        self.num_children = len(children_specs)
        self.num_nodes = 1 + sum(child.num_nodes for child in children_specs)
        self.num_leaves = 1 if type is None else sum(child.num_leaves for child in children_specs)

    def is_leaf(self) -> bool:
        """Whether the whole tree is one leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The descriptions of the children, in order."""
        return self.children_specs

    def child(self, index: int) -> TreeSpec:
        """The description of one of the children."""
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable) -> Any:
        """The tree of this structure with the given leaves."""
        return tree_unflatten(leaves, self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self.context, self.children_specs) == (other.type, other.context, other.children_specs)

    def __hash__(self) -> int:
        return hash((self.type, self.num_nodes, self.num_leaves))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        children = ",\n".join(map(repr, self.children_specs)).replace("\n", "\n  ")
        return f"TreeSpec({self.type.__name__}, {self.context}, [{children}])"


_LEAF = TreeSpec(None, None, [])


def LeafSpec() -> TreeSpec:  # noqa: N802 - it was a class
    """The description of a tree that is one leaf."""
    return _LEAF


class NodeDef(namedtuple("NodeDef", ("type", "flatten_fn", "unflatten_fn", "flatten_with_keys_fn"))):
    """How a type of node is taken apart and put together."""

    __slots__ = ()


class _Supported:
    """The types of nodes, for programs that walk a tree themselves: as a dictionary of `NodeDef`."""

    def __contains__(self, kind: object) -> bool:
        return kind is namedtuple or kind in _nodes

    def __getitem__(self, kind: Any) -> NodeDef:
        if kind is namedtuple:
            return NodeDef(kind, lambda node: (list(node), type(node)), lambda parts, cls: cls(*parts), None)
        return NodeDef(kind, *_nodes[kind], _keyed.get(kind))

    def __iter__(self) -> Iterator[Any]:
        return iter((*_nodes, namedtuple))


SUPPORTED_NODES = _Supported()


def _get_node_type(tree: Any) -> Any:
    """The type under which a tree is known: `namedtuple` for all of these."""
    return namedtuple if _is_namedtuple(type(tree)) and type(tree) not in _nodes else type(tree)


def _is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether a tree is taken apart no further."""
    return _apart(tree, is_leaf) is None


def _flatten(tree: Any, leaves: list, is_leaf: IsLeaf) -> TreeSpec:
    parts = _apart(tree, is_leaf)
    if parts is None:
        leaves.append(tree)
        return _LEAF
    return TreeSpec(_get_node_type(tree), parts[1], [_flatten(child, leaves, is_leaf) for child in parts[0]])


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list, TreeSpec]:
    """The leaves of a tree, and its structure for `tree_unflatten`.

    >>> from rgrad.utils._pytree import tree_flatten, tree_unflatten
    >>> leaves, spec = tree_flatten({"a": (1, 2), "b": [3]})
    >>> leaves
    [1, 2, 3]
    >>> tree_unflatten([4, 5, 6], spec)
    {'a': (4, 5), 'b': [6]}
    """
    leaves: list = []
    spec = _flatten(tree, leaves, is_leaf)
    return leaves, spec


def _unflatten(leaves: Iterator, spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    children = [_unflatten(leaves, child) for child in spec.children_specs]
    if spec.type in _nodes:
        return _nodes[spec.type][1](children, spec.context)
    # Structured results of operations, such as `return_types.max`, are constructed from a sequence.
    return getattr(spec.context, "_make", spec.context)(children)


def tree_unflatten(leaves: Iterable, treespec: TreeSpec) -> Any:
    """The tree of structure `treespec` with the given leaves; ValueError if their number differs."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item of type "
            f"{type(treespec)}."
        )
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
            f"holds {treespec.num_leaves} items ({treespec})."
        )
    return _unflatten(iter(leaves), treespec)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list:
    """The leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list:
    """The leaves of the arguments of a call, those given by keyword last."""
    return tree_leaves((args, kwargs))


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator:
    """An iterator over the leaves of a tree."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure of a tree, without its leaves."""
    return tree_flatten(tree, is_leaf)[1]


def _leaves_as(spec: TreeSpec, tree: Any) -> list:
    """The subtrees of `tree` at the positions where the tree of `spec` has its leaves."""
    if spec.type is None:
        return [tree]
    if _get_node_type(tree) is not spec.type:
        raise ValueError(f"Node type mismatch; expected {spec.type!r}, but got {_get_node_type(tree)!r}.")
    children, context = _apart(tree, None) or ([], None)
    if len(children) != spec.num_children:
        raise ValueError(f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}.")
    if context != spec.context:
        raise ValueError(f"Node context mismatch for node type {spec.type!r}.")
    return [leaf for part, child in zip(spec.children_specs, children, strict=True) for leaf in _leaves_as(part, child)]


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list | None:
    """The leaves of a tree, each as often as a larger tree has leaves in its place; None if it is no prefix of that.

    Args:
        tree: the smaller tree.
        treespec: the structure of the larger one.
        is_leaf: says of nodes of `tree` whether they are leaves.

    >>> from rgrad.utils._pytree import _broadcast_to_and_flatten, tree_structure
    >>> _broadcast_to_and_flatten([1, 2], tree_structure([0, (0, 0)]))
    [1, 2, 2]
    """
    apart = _apart(tree, is_leaf)
    if apart is None:
        return [tree] * treespec.num_leaves
    children, context = apart
    if treespec.is_leaf() or _get_node_type(tree) is not treespec.type:
        return None
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    leaves = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        leaves += part
    return leaves


def tree_map(func: Callable, tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree of results of `func`, called with each leaf and the corresponding leaves of `rests`."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_leaves_as(spec, rest) for rest in rests]
    return _unflatten(map(func, leaves, *others), spec)


def tree_map_(func: Callable, tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Calls `func` for each leaf and returns the original tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _only(types: Any, func: Callable | None) -> Callable:
    """`func` for values that are of one of `types` (or satisfy it, a predicate), and the identity for others."""
    chosen = types if callable(types) and not isinstance(types, type) else lambda leaf: isinstance(leaf, types)

    def decorated(func: Callable) -> Callable:
        return lambda leaf: func(leaf) if chosen(leaf) else leaf

    return decorated if func is None else decorated(func)


def map_only(type_or_types_or_pred: Any, /) -> Callable:
    """A decorator: the function is applied to values of the type; other values are returned unchanged."""
    return _only(type_or_types_or_pred, None)


def tree_map_only(type_or_types_or_pred: Any, /, func: Callable, tree: Any, is_leaf: IsLeaf = None) -> Any:
    """`tree_map` of the leaves of some types (or that satisfy a predicate); the others are unchanged."""
    return tree_map(_only(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred: Any, /, func: Callable, tree: Any, is_leaf: IsLeaf = None) -> Any:
    """`tree_map_` of the leaves of some types (or that satisfy a predicate)."""
    return tree_map_(_only(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves satisfy `pred`."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether any leaf satisfies `pred`."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types: Any, /, pred: Callable, tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves of some types satisfy `pred`."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(type_or_types: Any, /, pred: Callable, tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether any leaf of some types satisfies `pred`."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


# Trees with the paths to their leaves.


def _paths(tree: Any, path: tuple[Any, ...], is_leaf: IsLeaf) -> Iterator[tuple[tuple[Any, ...], Any]]:
    parts = _apart(tree, is_leaf)
    if parts is None:
        yield path, tree
        return
    children = list(parts[0])
    for key, child in zip(_keys(tree, len(children)), children, strict=True):
        yield from _paths(child, (*path, key), is_leaf)


def tree_flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """The leaves of a tree, each with the steps that lead to it, and what `tree_unflatten` makes it of again.

    >>> from rgrad.utils._pytree import keystr, tree_flatten_with_path
    >>> [(keystr(path), leaf) for path, leaf in tree_flatten_with_path({"a": (1, 2)})[0]]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return list(_paths(tree, (), is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[tuple[Any, ...], Any]]:
    """The leaves of a tree, each with the steps that lead to it."""
    return list(_paths(tree, (), is_leaf))


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """`tree_map` of a function whose first argument is the path of a leaf."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [_leaves_as(spec, rest) for rest in rests]
    return _unflatten((func(path, leaf, *more) for (path, leaf), *more in zip(pairs, *others, strict=True)), spec)


def keystr(kp: Iterable[Any]) -> str:
    """A path as Python would write it."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: Iterable[Any]) -> Any:
    """What stands at a path of a tree."""
    for key in kp:
        obj = key.get(obj)
    return obj


def __getattr__(name: str) -> Any:
    if name == "PyTree":
        from typing import Any

        return Any
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
