"""`python -m rgrad.compat`: names that a program uses and rgrad lacks, found without running it."""

from __future__ import annotations

import pytest
from test_door import _run

from rgrad import compat


def _found(source: str) -> list[tuple[int, str]]:
    return [(item.line, item.name) for item in compat.check(source)]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import torch\ntorch.no_such(1)", [(2, "torch.no_such")]),
        ("import torch as T\n\nT.nn.NoSuch()", [(3, "torch.nn.NoSuch")]),
        ("import torch.nn.functional as F\nF.no_such\nF.relu", [(2, "torch.nn.functional.no_such")]),
        ("from torch import nn, no_such\nnn.NoSuch", [(1, "torch.no_such"), (2, "torch.nn.NoSuch")]),
        ("from torch import nn as N\nclass A(N.Module): x = N.NoSuch", [(2, "torch.nn.NoSuch")]),
        ("import torch.no_such.below", [(1, "torch.no_such")]),
        ("from torch.no_such import a, b", [(1, "torch.no_such")]),
        ("from torch.nn import *\nLinear.no_such", [(2, "torch.nn.Linear.no_such")]),
        ("def f():\n    return torch.no_such\nimport torch", [(2, "torch.no_such")]),
        ("from torchvision import transforms as T\nT.NoSuch()", [(2, "torchvision.transforms.NoSuch")]),
        ("import torch\ntorch.Tensor.no_such", [(2, "torch.Tensor.no_such")]),
        ("import torch\nf(torch.no_such.below(torch.nope))", [(2, "torch.no_such"), (2, "torch.nope")]),
    ],
)
def test_missing_names_are_found_with_their_lines(source, found):
    assert sorted(_found(source)) == sorted(found)


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.ones(2).no_such",
        "import torch\ntorch.float32.itemsize, torch.__version__, torch.nn.Linear.__doc__",
        "import torch.nn as nn\nnn.Linear(1, 2).no_such",
        "from torch.nn.modules.pixelshuffle import PixelShuffle\nfrom torch.nn.modules.conv import ConvTranspose2d",
        "import torch.nn.modules.instancenorm as i\ni.InstanceNorm1d",
        "from . import torch\ntorch.no_such",
        "import numpy as torch\ntorch.no_such",
        "import torch\ntorch.my_own = 3",
        "from torch.optim.lr_scheduler import StepLR\nfrom torch.utils.data import DataLoader",
    ],
)
def test_what_is_there_is_not_listed(source):
    assert _found(source) == []


def test_the_message_is_that_of_the_lookup():
    (item,) = compat.check("import torch\ntorch.gelu")
    assert item.message.startswith("torch.gelu is not in rgrad") and "torch.nn.functional.gelu" in item.message


def test_the_command_lists_files_and_lines_and_sets_its_status(tmp_path):
    (tmp_path / "package").mkdir()
    good, bad, broken = (tmp_path / "package" / name for name in ("good.py", "bad.py", "broken.py"))
    good.write_text("import torch\ntorch.ones(1)\n")
    bad.write_text("import torch\n\ntorch.no_such(1)\nraise SystemExit('run')\n")
    done = _run("-m", "rgrad.compat", str(good))
    assert (done.returncode, done.stdout) == (0, "0 missing in 1 file\n"), done.stderr
    done = _run("-m", "rgrad.compat", str(tmp_path / "package"))
    assert done.returncode == 1 and f"{bad}:3: torch.no_such is not in rgrad" in done.stdout
    assert done.stdout.endswith("1 missing in 2 files\n")
    done = _run("-m", "rgrad.compat", "package", cwd=tmp_path)
    assert done.returncode == 1 and "bad.py:3: torch.no_such" in done.stdout
    broken.write_text("import (\n")
    assert _run("-m", "rgrad.compat", str(broken)).returncode == 2
    assert _run("-m", "rgrad.compat", str(tmp_path / "none.py")).returncode == 2
    assert _run("-m", "rgrad.compat", "no_such_package").returncode == 2
