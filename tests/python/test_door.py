"""The door: `torch` is rgrad, here and in processes that are started. Each test opens it in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rgrad

ROOT = Path(rgrad.__file__).parents[1]


def _run(*arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=cwd, timeout=120
    )


def _inside(code: str, **variables: str) -> str:
    """What a program prints that runs with the door open."""
    done = _run("-c", "import rgrad.as_torch\n" + code, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_torch_and_torchvision_are_the_same_objects_as_rgrad():
    code = """
import sys
import torch, rgrad, torchvision, torch.nn.functional as F, importlib
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms
from torch.optim.lr_scheduler import StepLR
assert torch is rgrad and torchvision is rgrad.vision and nn.Module is rgrad.nn.Module
assert F is rgrad.nn.functional and DataLoader is rgrad.utils.data.DataLoader and transforms is rgrad.vision.transforms
assert importlib.import_module("torch.optim.swa_utils") is rgrad.optim.swa_utils
assert StepLR is rgrad.optim.lr_scheduler.StepLR
for name, module in list(sys.modules.items()):
    if name == "torch" or name.startswith("torch."):
        native = sys.modules.get("rgrad" + name[5:])
        assert native is None or native is module, name
import torch.autograd.function
assert torch.autograd.Function is torch.autograd.function.Function
print(float(F.relu(nn.Linear(2, 1)(torch.ones(1, 2))).sum()) >= 0)
"""
    assert _inside(code) == "True"


def test_specs_and_metadata_and_versions_answer_as_packages_ask():
    code = """
import importlib.metadata as metadata, importlib.util as util
from packaging.version import Version
assert util.find_spec("torch") and util.find_spec("torch.nn") and util.find_spec("torchvision.transforms")
assert util.find_spec("torch.optim.swa_utils") and util.find_spec("torch.nn.modules.pixelshuffle")
assert util.find_spec("torch.no_such_module") is None and util.find_spec("torchvision.no_such_module") is None
assert metadata.version("torch") == "2.15.0+rgrad" == metadata.distribution("torch").version
assert metadata.metadata("torch")["Name"] == "torch" and metadata.distribution("Torch").files is None
assert {"torch", "torchvision", "numpy"} <= {d.metadata["Name"] for d in metadata.distributions()}
import torch, torchvision
assert torch.__version__ == "2.15.0+rgrad" == torch.version.__version__
assert metadata.version("torchvision") == torchvision.__version__
assert Version(torch.__version__) > Version("2.14") and torch.__version__ >= "2.9" and torch.__version__ > (2, 14)
assert not torch.__version__ < (2, 15) and torch.__version__.split("+")[0] == "2.15.0"
try:
    metadata.version("torchaudio")
except metadata.PackageNotFoundError:
    print(torch.__name__, torch.nn.__name__, torchvision.__name__)
"""
    assert _inside(code) == "torch torch.nn torchvision"


def test_another_torch_that_was_loaded_first_is_an_error(tmp_path):
    (tmp_path / "torch.py").write_text("name = 'another'\n")
    done = _run("-c", "import torch, rgrad.as_torch", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert done.returncode == 1
    assert "ImportError: torch was imported before rgrad could take its name" in done.stderr
    assert str(tmp_path / "torch.py") in done.stderr


def test_another_torch_on_the_path_is_never_imported(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (tmp_path / "torch" / "secret.py").write_text("raise RuntimeError('imported')\n")
    code = """
import importlib.util, torch, rgrad
assert torch is rgrad and importlib.util.find_spec("torch.secret") is None
try:
    import torch.secret
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert _inside(code, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}") == "torch.secret"


def test_a_script_runs_as_the_program_with_its_arguments(tmp_path):
    (tmp_path / "beside.py").write_text("import torch\nvalue = torch.ones(2).sum().item()\n")
    script = tmp_path / "train.py"
    script.write_text(
        "import pickle, sys, torch, beside\n"
        "class Net(torch.nn.Module): pass\n"
        "assert pickle.loads(pickle.dumps(Net)) is Net and __name__ == '__main__' and __spec__ is None\n"
        "print(sys.argv[1:], sys.argv[0] == __file__, beside.value, Net)\n"
        "sys.exit(3)\n"
    )
    done = _run("-m", "rgrad", str(script), "--epochs", "3", "-m")
    assert done.stdout == "['--epochs', '3', '-m'] True 2.0 <class '__main__.Net'>\n", done.stderr
    assert done.returncode == 3


def test_the_file_of_a_script_is_an_absolute_path_as_python_makes_it(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys\nos.chdir('/')\nassert sys.argv[0] == 'train.py'\n"
        "print(__file__, (lambda: 0).__code__.co_filename, os.path.isfile(__file__))\n"
    )
    done = _run("-m", "rgrad", "train.py", cwd=tmp_path)
    assert done.stdout.split() == [str(script), str(script), "True"], done.stderr


def test_a_module_and_code_run_as_the_program(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("import torch\n")
    (tmp_path / "package" / "train.py").write_text(
        "import sys, torch\nfrom . import torch as again\n"
        "print(sys.argv[1:], __spec__.name, __package__, again is torch, __name__)\n"
    )
    done = _run("-m", "rgrad", "-m", "package.train", "a", cwd=tmp_path)
    assert done.stdout == "['a'] package.train package True __main__\n", done.stderr
    done = _run("-m", "rgrad", "-c", "import sys, torch; print(sys.argv, torch.__name__)", "b")
    assert done.stdout == "['-c', 'b'] torch\n", done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [([], 2, "usage"), (["--no-such"], 2, "usage"), (["-m"], 1, "Argument expected"), (["none.py"], 1, "can't open")],
)
def test_a_wrong_command_line_says_so(arguments, status, said):
    done = _run("-m", "rgrad", *arguments)
    assert done.returncode == status and said in done.stderr


def test_an_error_in_a_script_is_shown_with_its_line(tmp_path):
    script = tmp_path / "wrong.py"
    script.write_text("import torch\ntorch.no_such_name\n")
    done = _run("-m", "rgrad", str(script))
    assert done.returncode == 1
    assert 'wrong.py", line 2, in <module>' in done.stderr and "torch.no_such_name is not in rgrad" in done.stderr


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_processes_of_multiprocessing_have_the_door_open(method, tmp_path):
    if sys.platform != "linux":
        pytest.skip("fork and forkserver are not everywhere")
    script = tmp_path / "parent.py"
    script.write_text(
        "import torch, multiprocessing\nfrom torch.nn.modules.pixelshuffle import PixelShuffle\n"
        "def work(module):\n"
        "    import rgrad\n"
        "    return torch is rgrad, type(module).__module__, tuple(module(torch.ones(1, 4, 1, 1)).shape)\n"
        "if __name__ == '__main__':\n"
        f"    with multiprocessing.get_context({method!r}).Pool(1) as pool:\n"
        "        print(pool.map(work, [PixelShuffle(2)]))\n"
    )
    done = _run("-m", "rgrad", str(script))
    assert done.stdout == "[(True, 'torch.nn.modules.pixelshuffle', (1, 1, 2, 2))]\n", done.stderr


def test_workers_of_a_loader_have_the_door_open(tmp_path):
    script = tmp_path / "loads.py"
    script.write_text(
        "import torch\nfrom torch.utils.data import DataLoader, Dataset\n"
        "class Numbers(Dataset):\n"
        "    def __len__(self): return 4\n"
        "    def __getitem__(self, i):\n"
        "        import torch, rgrad\n"
        "        return torch.tensor(float(i)) if torch is rgrad else None\n"
        "if __name__ == '__main__':\n"
        "    for context in ('fork', 'spawn'):\n"
        "        loader = DataLoader(Numbers(), 2, num_workers=1, multiprocessing_context=context)\n"
        "        print([batch.tolist() for batch in loader])\n"
    )
    done = _run("-m", "rgrad", str(script))
    assert done.stdout == "[[0.0, 1.0], [2.0, 3.0]]\n" * 2, done.stderr


def test_a_subprocess_has_the_door_open_wherever_it_starts(tmp_path):
    # The parent found rgrad by a path that its children don't get.
    code = f"""
import subprocess, sys
sys.path.insert(0, {str(ROOT)!r})
import rgrad.as_torch
child = "import torch, sys; print(torch.__name__, torch.__version__, [p for p in sys.path if '_door' in p])"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, cwd={str(tmp_path)!r}).stdout)
"""
    done = _run("-c", code, PYTHONPATH="")
    assert done.stdout.strip() == "torch 2.15.0+rgrad []", done.stderr


def test_a_sitecustomize_of_the_users_is_run_as_well(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.users_own = True\n")
    code = """
import subprocess, sys
print(subprocess.run([sys.executable, "-c", "import torch, sys; print(sys.users_own, torch.__name__)"],
                     capture_output=True, text=True).stdout)
"""
    assert _inside(code, PYTHONPATH=f"{ROOT}{os.pathsep}{tmp_path}") == "True torch"


def test_without_the_door_nothing_of_it_is_loaded():
    code = "import sys, rgrad, rgrad.nn; print([m for m in sys.modules if 'door' in m or m.startswith('torch')])"
    done = _run("-c", code)
    assert done.stdout == "[]\n", done.stderr
    assert _run("-c", "import rgrad; print('as_torch' in dir(rgrad))").stdout == "False\n"


def test_missing_names_say_so_and_what_is_near():
    code = """
import torch, torch.nn.functional as F
def said(function):
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
print(said(lambda: torch.foo))
def take(): from torch import foo
print(said(take))
def take(): from torch.nn.functional import relux
print(said(take))
print(said(lambda: torch.gelu))
print(said(lambda: torch.nn.Linaer))
print(hasattr(torch, "foo"), hasattr(torch.nn, "Linear"), getattr(F, "foo", 3))
try:
    import torch.foo
except ModuleNotFoundError as error:
    print(error.name)
"""
    lines = _inside(code).splitlines()
    release = ".".join(rgrad.__version__.split(".")[:2])
    assert lines[0].startswith(f"AttributeError: torch.foo is not in rgrad {release}; nearest: torch.floor")
    assert lines[1] == lines[0].replace("AttributeError", "ImportError")
    assert lines[2].startswith("ImportError: torch.nn.functional.relux is not in rgrad")
    assert "nearest: torch.nn.functional.relu" in lines[2]
    assert "nearest: torch.nn.functional.gelu" in lines[3]
    assert "nearest: torch.nn.Linear" in lines[4]
    assert lines[5:] == ["False True 3", "torch.foo"]


def test_reloading_keeps_the_names():
    code = """
import importlib, torch, rgrad
assert importlib.reload(torch.nn.functional) is torch.nn.functional and importlib.reload(torch) is torch is rgrad
print(torch.__name__, torch.nn.functional.__name__, torch.nn.functional.__spec__.name, torch.__version__)
torch.no_such_name
"""
    done = _run("-c", "import rgrad.as_torch\n" + code)
    assert done.stdout == "torch torch.nn.functional rgrad.nn.functional 2.15.0+rgrad\n"
    assert "torch.no_such_name is not in rgrad" in done.stderr


def test_a_gpu_is_called_cuda():
    code = """
import torch
device = torch.device("cuda")
print(device.type, device, repr(torch.device("cuda:1")), torch.device("cpu").type, repr(torch.device("cpu")))
print(torch.device("gpu") == device, hash(torch.device("gpu")) == hash(device), torch.device(str(device)) == device)
"""
    name = "mps" if sys.platform == "darwin" else "cuda"
    lines = _inside(code).splitlines()
    assert lines == [f"{name} {name} device(type='{name}', index=1) cpu device(type='cpu')", "True True True"]
    done = _run("-c", "import rgrad; print(rgrad.device('cuda').type)")
    assert done.stdout == "gpu\n"


def test_a_tensor_on_a_gpu_prints_cuda_and_autocast_and_save_know_it(gpu):
    code = """
import io, torch
x = torch.ones(2, device="cuda")
print(x, x.device, torch.cuda.is_available(), x.is_cuda)
with torch.autocast("cuda", dtype=torch.float16):
    print((x[None] @ x[:, None]).dtype, torch.nn.functional.mse_loss(x.half(), x.half()).dtype)
file = io.BytesIO()
torch.save(x, file)
file.seek(0)
print(torch.load(file).device)
file.seek(0)
print(torch.load(file, map_location="cpu").device, b"cuda:0" in file.getvalue())
"""
    name = "mps" if sys.platform == "darwin" else "cuda"
    assert _inside(code).splitlines() == [
        f"tensor([1., 1.], device='{name}:0') {name}:0 True True",
        "torch.float16 torch.float32",
        f"{name}:0",
        "cpu True",
    ]


def test_functions_written_in_python_are_overridden_and_traced_as_a_whole():
    code = """
import torch, torch.nn.functional as F
class Seen(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print(torch.overrides.resolve_name(func), func is F.adaptive_avg_pool2d)
        return func(*args, **(kwargs or {}))
image = torch.ones(1, 1, 2, 2)
with Seen():
    F.adaptive_avg_pool2d(image, 1)
traced = torch.fx.symbolic_trace(lambda x: F.adaptive_avg_pool2d(x, (1, 1)))
print([node.name for node in traced.graph.nodes])
"""
    lines = _inside(code).splitlines()
    assert lines[0] == "torch.nn.functional.adaptive_avg_pool2d True"
    assert lines[-1] == "['x', 'adaptive_avg_pool2d', 'output']"
