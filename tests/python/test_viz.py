"""Pictures of the graph."""

from __future__ import annotations

import re
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
        '  n1 [label="MulBackward0\\n(2)", fillcolor="#e8eef7"];',
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


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1, self.fc2, self.act = nn.Linear(width, width), nn.Linear(width, width), nn.ReLU()

    def forward(self, x):
        return x + self.fc2(self.act(self.fc1(x)))


def squares(svg: str) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of every box."""
    found = ElementTree.fromstring(svg).findall("{http://www.w3.org/2000/svg}rect[@rx='4']")
    numbers = [[float(r.attrib[k]) for k in ("x", "y", "width", "height")] for r in found]
    return [(x, y, x + w, y + h) for x, y, w, h in numbers]


def test_operations_show_the_shape_of_their_result_and_their_module():
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 1)))
    shown = viz.graph(net(torch.ones(4, 2)).sum(), net).dot
    assert '"AddmmBackward0\\n(4, 3)\\nin 0"' in shown and '"AddmmBackward0\\n(4, 1)\\nin 1.0"' in shown
    assert '"SumBackward0\\n()"' in shown


def test_recorded_modules_are_boxes_around_their_operations():
    net = nn.Sequential(nn.Linear(2, 3), Block(3))
    with viz.modules(net):
        y = net(torch.ones(4, 2))
    lines = viz.graph(y.sum(), net).dot.splitlines()
    begin = lines.index('    label="1: Block";')
    inside = [line.strip() for line in lines[begin : lines.index("  }", begin)]]
    assert {'label="1.fc1: Linear";', 'label="1.act: ReLU";'} <= set(inside)
    assert sum("Backward0" in line for line in inside) == 6
    assert any('label="AddBackward0' in line for line in inside) and any("1.fc2.bias" in line for line in inside)
    assert not any("SumBackward0" in line or '"0.weight' in line for line in inside)
    with torch.no_grad():
        net(torch.ones(4, 2))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in net.modules())


def test_a_forward_graph_shows_operations_without_gradients_too():
    net = nn.Sequential(nn.Linear(2, 3), Block(3), nn.BatchNorm1d(3))
    with torch.no_grad():
        picture = viz.forward(net, torch.ones(4, 2))
    shown = texts(picture._repr_svg_())
    assert {"input", "linear", "relu", "add", "batch_norm", "result", "1: Block", "(4, 2) float32"} <= set(shown)
    assert repr(picture) == "<graph of 8 nodes>" and picture.dot.count("->") == 8


def test_a_module_that_is_called_twice_is_two_boxes():
    layer = nn.Linear(2, 2)
    shown = texts(viz.forward(nn.Sequential(nn.Tanh(), layer, nn.Tanh(), layer), torch.ones(1, 2))._repr_svg_())
    assert shown.count("1: Linear") == 2 and shown.count("linear") == 2


def test_modules_are_folded_and_unfolded_by_their_paths():
    picture = viz.forward(nn.Sequential(Block(2), Block(2)), torch.ones(1, 2))
    folded = picture.fold("1")
    assert texts(folded._repr_svg_()).count("linear") == 2 and '"1: Block\\nas 0\\n(1, 2)"' in folded.dot
    assert "4 operations" in picture.fold("?").dot
    assert folded.unfold("1.fc*").dot == picture.dot and picture.fold().unfold().dot == picture.dot
    with pytest.raises(ValueError, match="no module '2'"):
        picture.fold("2")


@pytest.mark.parametrize("backward", [False, True])
def test_a_residual_network_fits_a_page_because_its_repetitions_are_folded(backward):
    net, x = torch.vision.models.resnet18(), torch.ones(2, 3, 32, 32)
    if backward:
        with viz.modules(net):
            loss = net(x).sum()
        loss.backward()
        picture = viz.graph(loss, net)
    else:
        picture = viz.forward(net, x)
    svg = picture._repr_svg_()
    shown = texts(svg)
    assert {"layer1.0.conv1: Conv2d", "layer2.0.downsample: Sequential", "as layer1.0", "as layer2"} <= set(shown)
    assert "layer1.1.conv1: Conv2d" not in shown and "layer4.0: BasicBlock" not in shown
    assert len(squares(svg)) < 40 and svg.count("marker-end") >= 30
    assert any("grad" in line for line in shown) == backward
    assert len(squares(picture.unfold()._repr_svg_())) == len(picture._boxes) > 70


def test_boxes_do_not_overlap_and_arrows_point_down():
    svg = viz.forward(torch.vision.models.resnet18(), torch.ones(2, 3, 32, 32))._repr_svg_()
    found = squares(svg)
    for i, (left, top, right, bottom) in enumerate(found):
        for x0, y0, x1, y1 in found[:i]:
            assert right <= x0 or x1 <= left or bottom <= y0 or y1 <= top
    for path in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}path"):
        numbers = [float(n) for n in re.findall(r"-?\d+\.\d", path.attrib["d"])]
        assert not numbers or numbers[-1] > numbers[1]
