"""Pictures of the graph."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import rgrad as torch
from rgrad import nn, viz


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}text")]


def test_a_picture_shows_operations_leaves_and_their_paths():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    x = torch.ones(4, 2, requires_grad=True)
    picture = viz.graph(net(x).sum(), net)
    shown = texts(picture._repr_svg_())
    assert {"result", "SumBackward0", "ReluBackward0", "AddmmBackward0", "0.weight", "2.bias", "leaf"} <= set(shown)
    assert "(3, 2) float32" in shown and "(4, 2) float32" in shown
    assert not any("grad" in line for line in shown)


def test_after_backward_leaves_show_the_norms_of_their_gradients():
    a, b = torch.tensor([3.0], requires_grad=True), torch.tensor([0.0], requires_grad=True)
    loss = (a * b).sum()
    loss.backward()
    picture = viz.graph(loss, {"a": a, "b": b})
    shown = texts(picture._repr_svg_())
    assert "‖grad‖ = 0" in shown and "‖grad‖ = 3" in shown
    assert "#cccccc" in picture.dot


def test_edges_go_from_what_is_used_to_what_uses_it():
    x = torch.ones(2, requires_grad=True)
    y = x * x
    assert viz.graph([y, y.exp()]).dot.count("->") == 5
    lines = viz.graph(y, {"x": x}).dot.splitlines()
    assert lines[2:] == [
        '  n0 [label="result\\n(2) float32", fillcolor="#fff3cd"];',
        '  n1 [label="MulBackward0", fillcolor="#e8eef7"];',
        '  n2 [label="x\\n(2) float32", fillcolor="#dff0d8"];',
        "  n1 -> n0;",
        "  n2 -> n1;",
        "  n2 -> n1;",
        "}",
    ]


def test_a_picture_is_saved_by_the_ending_of_its_path(tmp_path):
    picture = viz.graph(torch.ones(1, requires_grad=True) * 2)
    picture.save(tmp_path / "g.svg")
    picture.save(str(tmp_path / "g.dot"))
    assert (tmp_path / "g.svg").read_text(encoding="utf-8") == picture._repr_svg_()
    assert (tmp_path / "g.dot").read_text(encoding="utf-8").startswith("digraph")
    with pytest.raises(ValueError, match="saved as .svg or .dot, not as '.png'"):
        picture.save(tmp_path / "g.png")


def test_a_deep_graph_is_drawn_without_recursion():
    x = torch.ones(1, requires_grad=True)
    for _ in range(3000):
        x = x + 1
    picture = viz.graph(x)
    assert repr(picture) == "<graph of 3002 nodes>" and picture.dot.count("AddBackward0") == 3000


def test_names_are_escaped():
    x = torch.ones(1, requires_grad=True)
    picture = viz.graph(x * 2, {'a<"b"': x})
    assert 'a<"b"' in texts(picture._repr_svg_()) and 'a<\\"b\\"' in picture.dot
