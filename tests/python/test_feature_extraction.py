"""Intermediate results of networks: their names, and networks that return some of them."""

import copy
import warnings

import pytest

import rgrad as torch
from rgrad import nn
from rgrad.vision import models
from rgrad.vision.models.feature_extraction import create_feature_extractor, get_graph_node_names


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        x = self.relu(self.lin(self.relu(x)))
        return torch.relu(x) + x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Inner()
        self.seq = nn.Sequential(nn.Linear(3, 3), Inner())
        self.drop = nn.Dropout()

    def forward(self, x):
        y = self.seq(self.a(x))
        if self.training:
            y = self.drop(y)
        return {"out": torch.relu(torch.relu(y)) + 1, "x": x}


def test_results_are_named_by_the_modules_that_compute_them():
    net = Net().eval()
    with pytest.warns(UserWarning, match="in evaluation some nodes of training are absent"):
        training, evaluation = get_graph_node_names(net)
    inner = ["relu", "lin", "relu_1", "relu_2", "add"]
    middle = [f"a.{name}" for name in inner] + ["seq.0"] + [f"seq.1.{name}" for name in inner]
    assert evaluation == ["x", *middle, "relu", "relu_1", "add"]
    assert training == ["x", *middle, "drop", "relu", "relu_1", "add"]
    leaves = get_graph_node_names(net, {"leaf_modules": [Inner]}, suppress_diff_warning=True)[1]
    assert leaves == ["x", "a", "seq.0", "seq.1", "relu", "relu_1", "add"]
    assert not any(module.training for module in net.modules())


def test_an_extractor_returns_the_last_result_of_a_path_and_shares_the_modules():
    net = Net().eval()
    x = torch.randn(2, 3)
    extractor = create_feature_extractor(net, {"a": "first", "seq": "second"}, suppress_diff_warning=True)
    found = extractor(x)
    assert list(found) == ["first", "second"] and type(extractor).__name__ == "Net"
    assert torch.equal(found["first"], net.a(x)) and torch.equal(found["second"], net.seq(net.a(x)))
    assert extractor.a.lin.weight is net.a.lin.weight and "drop" not in dict(extractor.named_children())
    again = copy.deepcopy(extractor)
    assert torch.equal(again(x)["second"], found["second"]) and again.a.lin.weight is not net.a.lin.weight


def test_training_and_evaluation_have_their_own_graphs():
    net = Net().eval()
    x = torch.randn(4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        extractor = create_feature_extractor(net, train_return_nodes=["drop"], eval_return_nodes=["seq.0"])
    assert list(extractor(x)) == ["seq.0"]
    assert list(extractor.train()(x)) == ["drop"] and list(extractor.eval()(x)) == ["seq.0"]


@pytest.mark.parametrize(
    "nodes", [{}, {"train_return_nodes": ["a"]}, {"return_nodes": ["nope"]}, {"return_nodes": ["seq.1.rel"]}]
)
def test_nodes_that_are_not_there_or_only_for_one_mode_are_refused(nodes):
    with pytest.raises(ValueError, match="should be specified|is not present in model"):
        create_feature_extractor(Net(), **nodes, suppress_diff_warning=True)


@pytest.mark.parametrize("name, last", [("resnet18", "layer4.1.relu_1"), ("mobilenet_v2", "features.18")])
def test_features_of_networks_are_those_on_the_way_to_the_result(name, last):
    network = getattr(models, name)().eval()
    training, evaluation = get_graph_node_names(network)
    assert training == evaluation and last in evaluation
    classifier = evaluation[-1]
    extractor = create_feature_extractor(network, {last: "features", classifier: "classes"})
    x = torch.rand(1, 3, 32, 32)
    with torch.no_grad():
        found = extractor(x)
        assert torch.equal(found["classes"], network(x)) and found["features"].shape[-2:] == (1, 1)


def test_dense_networks_can_be_traced():
    names = get_graph_node_names(models.DenseNet(4, (2, 2, 1, 1), 8))[1]
    assert names[:6] == [
        *("x", "features.conv0", "features.norm0", "features.relu0", "features.pool0"),
        "features.denseblock1.denselayer1.cat",
    ]
