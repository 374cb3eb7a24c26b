"""Intermediate results of networks: which there are, and networks that return some of them.

>>> import rgrad as torch
>>> from rgrad.vision.models import resnet18
>>> from rgrad.vision.models.feature_extraction import create_feature_extractor
>>> body = create_feature_extractor(resnet18().eval(), {"layer1": "fine", "layer4": "coarse"})
>>> {name: feature.shape[-2:] for name, feature in body(torch.zeros(1, 3, 64, 64)).items()}
{'fine': torch.Size([16, 16]), 'coarse': torch.Size([2, 2])}
"""

from __future__ import annotations

import copy
import inspect
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from rgrad import fx, nn
from rgrad.fx.graph_module import _copy_path
from rgrad.vision import ops

__all__ = ["create_feature_extractor", "get_graph_node_names"]


def _modules_of_ops() -> list[type]:
    return [value for value in vars(ops).values() if inspect.isclass(value) and issubclass(value, nn.Module)]


class _Tracer(fx.Tracer):
    """Traces a module and names each node by the path of the module that computes it.

    A node of a leaf module is called by the leaf's path; any other by what it calls, below the path of the module
    whose `forward` calls it. Where a name is taken, a number follows it.

    Attributes:
        names: the name of each node.
    """

    def __init__(self, leaf_modules: Iterable[type] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.names: dict[fx.Node, str] = {}
        self._leaves = tuple(leaf_modules or ())
        self._within = [""]
        self._uses: Counter[str] = Counter()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a call of a module becomes one node."""
        return isinstance(m, self._leaves) or super().is_leaf_module(m, module_qualified_name)

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What a call of a module becomes."""
        self._within.append(self.path_of_module(m))
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self._within.pop()

    def create_node(self, kind: str, *args: Any, **kwargs: Any) -> fx.Node:
        """Adds a node."""
        node = super().create_node(kind, *args, **kwargs)
        if kind != "output":
            within = self._within[-1]
            called = re.sub(r"_\d+$", "", node.name)
            name = within if kind == "call_module" else ".".join(filter(None, (within, called)))
            uses = self._uses[name]
            self._uses[name] += 1
            self.names[node] = f"{name}_{uses}" if uses else name
        return node


def _traced(
    model: nn.Module, training: bool, tracer_kwargs: dict[str, Any] | None, concrete_args: dict[str, Any] | None
) -> tuple[fx.Graph, dict[str, fx.Node]]:
    """The graph of a model in training or in evaluation, and its nodes by their names."""
    options: dict[str, Any] = {"autowrap_modules": (math, ops), "leaf_modules": _modules_of_ops()}
    tracer = _Tracer(**options | (tracer_kwargs or {}))
    graph = tracer.trace(model.train(training), concrete_args=concrete_args)
    return graph, {name: node for node, name in tracer.names.items()}


def _both_traced(
    model: nn.Module, tracer_kwargs: dict[str, Any] | None, concrete_args: dict[str, Any] | None
) -> list[tuple[fx.Graph, dict[str, fx.Node]]]:
    """What `_traced` returns in training and in evaluation; afterwards the model's modules are as they were."""
    before = {module: module.training for module in model.modules()}
    try:
        return [_traced(model, training, tracer_kwargs, concrete_args) for training in (True, False)]
    finally:
        for module, training in before.items():
            module.training = training


def _warn_of_difference(training: list[str], evaluation: list[str]) -> None:
    if training == evaluation:
        return
    remaining = iter(training)
    if all(name in remaining for name in evaluation):
        what = "in evaluation some nodes of training are absent"
    else:
        what = "in training and in evaluation its nodes differ"
    warnings.warn(
        f"{what}: choose by train_return_nodes and eval_return_nodes where a name stands for another node.",
        stacklevel=3,
    )


def get_graph_node_names(
    model: nn.Module,
    tracer_kwargs: dict[str, Any] | None = None,
    suppress_diff_warning: bool = False,
    concrete_args: dict[str, Any] | None = None,
) -> tuple[list[str], list[str]]:
    """Lists the intermediate results of a model, in the order in which they are computed.

    Args:
        model: the model, which `fx` must be able to trace.
        tracer_kwargs: arguments of `fx.Tracer`, and `leaf_modules`: classes of modules that count as one node.
        suppress_diff_warning: whether to be silent if the lists differ.
        concrete_args: values that arguments of the model are fixed to.

    Returns:
        The names in training and those in evaluation.
    """
    training, evaluation = (list(nodes) for _, nodes in _both_traced(model, tracer_kwargs, concrete_args))
    if not suppress_diff_warning:
        _warn_of_difference(training, evaluation)
    return training, evaluation


def _as_names(nodes: list[str] | dict[str, str]) -> dict[str, str]:
    return {str(key): str(value) for key, value in nodes.items()} if isinstance(nodes, dict) else {n: n for n in nodes}


def _reduced(graph: fx.Graph, nodes: dict[str, fx.Node], wanted: dict[str, str]) -> fx.Graph:
    """Makes a graph return a dictionary of some nodes, and drops what they do not need."""
    outputs: dict[str, fx.Node] = {}
    for query, name in wanted.items():
        # The path of a module stands for the last node in it.
        found = [node for path, node in nodes.items() if path == query or path.startswith(query + ".")]
        if not found:
            raise ValueError(
                f"node: '{query}' is not present in model. Hint: `get_graph_node_names` lists those that are; in "
                "training and in evaluation they may differ, for which there are `train_return_nodes` and "
                "`eval_return_nodes`."
            )
        outputs[name] = found[-1]
    graph.erase_node(graph.output_node())
    graph.output(outputs)
    graph.eliminate_dead_code()
    return graph


class _FeatureExtractor(fx.GraphModule):
    """A module that runs one graph in training and another in evaluation."""

    def __init__(self, root: nn.Module, training: fx.Graph, evaluation: fx.Graph, class_name: str) -> None:
        super().__init__(root, training, class_name)
        for node in evaluation.nodes:
            if node.op in ("call_module", "get_attr"):
                _copy_path(root, self, str(node.target))
        self.__dict__["_graphs"] = (evaluation, training)
        self.train(root.training)

    def train(self, mode: bool = True) -> Any:
        """Chooses the graph too."""
        if "_graphs" in self.__dict__:
            self.graph = self.__dict__["_graphs"][mode]
        return super().train(mode)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        evaluation, training = copy.deepcopy(self.__dict__["_graphs"], memo)
        root = nn.Module()
        for name, module in self.named_children():
            root.add_module(name, copy.deepcopy(module, memo))
        for name, parameter in self.named_parameters(recurse=False):
            root.register_parameter(name, copy.deepcopy(parameter, memo))
        for name, buffer in self.named_buffers(recurse=False):
            root.register_buffer(name, copy.deepcopy(buffer, memo))
        root.training = self.training
        return _FeatureExtractor(root, training, evaluation, type(self).__name__)


def create_feature_extractor(
    model: nn.Module,
    return_nodes: list[str] | dict[str, str] | None = None,
    train_return_nodes: list[str] | dict[str, str] | None = None,
    eval_return_nodes: list[str] | dict[str, str] | None = None,
    tracer_kwargs: dict[str, Any] | None = None,
    suppress_diff_warning: bool = False,
    concrete_args: dict[str, Any] | None = None,
) -> fx.GraphModule:
    """Makes a module that returns intermediate results of a model.

    Args:
        model: the model, which `fx` must be able to trace. The result has those of its modules that it needs, and
            shares them.
        return_nodes: the results, by names of `get_graph_node_names` or paths of modules, whose last result is meant;
            a dictionary says how they are called in what the module returns.
        train_return_nodes: the results in training, instead of `return_nodes`.
        eval_return_nodes: the results in evaluation, instead of `return_nodes`.
        tracer_kwargs: as for `get_graph_node_names`, and so the others.

    Returns:
        A module that returns a dictionary of tensors.

    Raises:
        ValueError: there is no such result, or neither `return_nodes` nor both of the others are given.
    """
    separate = (train_return_nodes is not None, eval_return_nodes is not None)
    if any(separate) and not all(separate):
        raise ValueError("If `train_return_nodes` or `eval_return_nodes` is specified, then both should be specified")
    if (return_nodes is None) != all(separate):
        raise ValueError(
            "What should be specified is `return_nodes`, or instead of it `train_return_nodes` with `eval_return_nodes`"
        )
    chosen = (train_return_nodes, eval_return_nodes) if all(separate) else (return_nodes, return_nodes)
    wanted = [_as_names(nodes or []) for nodes in chosen]
    traced = _both_traced(model, tracer_kwargs, concrete_args)
    if not suppress_diff_warning and not any(separate):
        _warn_of_difference(*(list(nodes) for _, nodes in traced))
    graphs = [_reduced(graph, nodes, names) for (graph, nodes), names in zip(traced, wanted, strict=True)]
    return _FeatureExtractor(model, graphs[0], graphs[1], type(model).__name__)
