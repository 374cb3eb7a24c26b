"""Pages and pictures of the site that are made while it is built, from the package and the README."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import rgrad as torch
from rgrad import nn, viz
from rgrad.vision import models

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import generate  # noqa: E402


def pictures() -> dict[str, str]:
    """The pictures of docs/autograd.md, as SVG by path."""
    torch.manual_seed(0)
    found = {}

    w, b = torch.randn(3, requires_grad=True), torch.zeros(1, requires_grad=True)
    loss = ((torch.ones(4, 3) @ w + b) ** 2).mean()
    found["line"] = viz.graph(loss, {"w": w, "b": b})

    x = torch.tensor(2.0, requires_grad=True)
    (slope,) = torch.autograd.grad(x**3, x, create_graph=True)
    found["second"] = viz.graph(slope, {"x": x})

    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    loss = net(torch.randn(16, 4)).square().mean()
    loss.backward()
    found["network"] = viz.graph(loss, net)

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.fc2(self.fc1(x).relu())

    net = nn.Sequential(nn.Linear(4, 8), Residual())
    with viz.modules(net):
        loss = net(torch.ones(16, 4)).mean()
    found["modules"] = viz.graph(loss, net)
    found["resnet18"] = viz.forward(models.resnet18().eval(), torch.zeros(1, 3, 224, 224))
    return {f"pictures/{name}.svg": picture._repr_svg_() for name, picture in found.items()}


def tensor_page() -> str:
    """The properties and methods of tensors that are no operations; operations have a page of their own."""
    operations = set()
    for op in torch._C._op_table():
        for name in (op["name"], *op["aliases"]):
            operations |= {name, f"{name}_"}
    lines = [
        "# Tensor",
        "",
        "What a tensor has beside its operations, which are methods too and stand in [Operations](../ops.md).",
        "",
    ]
    for name in dir(torch.Tensor):
        member = inspect.getattr_static(torch.Tensor, name)
        text = inspect.getdoc(getattr(torch.Tensor, name)) or generate.MEMBERS.get(name)
        if name.startswith("_") or name in operations or not text:
            continue
        signature = ""
        if callable(member) and not isinstance(member, property):
            try:
                signature = re.sub(r"\(self(, /)?(, )?", "(", str(inspect.signature(getattr(torch.Tensor, name))))
            except ValueError:
                signature = "()"
        lines += [f"## {name}", "", f"```text\nx.{name}{signature}\n```", "", text, ""]
    return "\n".join(lines)


def support_page() -> str:
    """The table of the README as a page."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(r"## (What runs and what does not)\n(.*?)\n## ", text, re.S)
    assert section is not None
    return f"# {section[1]}\n{section[2]}\n".replace("](docs/", "](")


def on_files(files: Files, config: Any) -> Files:
    """Adds what is made here."""
    made = {"api/tensor.md": tensor_page(), "support.md": support_page(), **pictures()}
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files
