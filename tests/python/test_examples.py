"""The example programs, in their small settings."""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from pathlib import Path

import pytest

import rgrad as torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = ("actor_critic", "char_gpt", "dcgan", "finetune_resnet", "vae", "wgsl_activation")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs an example by its name; checks that its picture is written, or that the program says why not."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def run(name, *arguments):
        result = importlib.import_module(name).main(["--small", "--out", str(tmp_path), *arguments])
        path = tmp_path / f"{name}.png"
        if importlib.util.find_spec("matplotlib"):
            assert result["picture"] == path and path.read_bytes().startswith(b"\x89PNG")
        else:
            assert result["picture"] is None and f"{path} is not drawn" in capsys.readouterr().out
        return result

    yield run
    for name in ("common", *SCRIPTS):
        sys.modules.pop(name, None)


def mean(values):
    return sum(values) / len(values)


def test_every_example_is_run_here():
    others = {"common", "demo", "make_fashion_mnist_subset"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*SCRIPTS, *others}


def test_a_transformer_learns_the_next_character(run, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 40, encoding="utf-8")
    result = run("char_gpt", "--text", str(text))
    characters = len(set(text.read_text(encoding="utf-8")))
    assert mean(result["losses"][-5:]) < 0.6 * math.log(characters) < result["losses"][0]
    assert len(result["text"]) == 61


def test_a_transformer_finds_a_text_of_its_own(run):
    losses = run("char_gpt", "--steps", "20")["losses"]
    assert mean(losses[-3:]) < losses[0]


def test_an_autoencoder_learns_to_copy_and_invents_pictures(run):
    result = run("vae")
    assert result["losses"][-1] < 0.9 * result["losses"][0]
    assert result["samples"].shape == (36, 1, 28, 28) and 0 < result["samples"].std().item() < 1


def test_a_generator_learns_the_brightness_of_pictures(run):
    result = run("dcgan")
    untrained = run("dcgan", "--epochs", "0")

    def error(samples):
        return (samples.mean(0) - result["real"].mean(0)).abs().mean().item()

    assert error(result["samples"]) < 0.8 * error(untrained["samples"])
    assert mean(result["discriminator"][-3:]) < result["discriminator"][0]


def test_a_network_that_knows_other_classes_learns_faster(run):
    result = run("finetune_resnet")
    fine, scratch = result["fine-tuned"][0], result["from scratch"][0]
    assert fine[-1] < fine[0] and fine[-1] < scratch[-1]
    assert result["first classes"][0][-1] < result["first classes"][0][0]


def test_weights_of_a_file_take_the_place_of_the_first_training(run, tmp_path):
    torch.save(torch.vision.models.resnet18().state_dict(), tmp_path / "weights.pth")
    sizes = ("--epochs", "1", "--few", "32", "--tests", "10")
    result = run("finetune_resnet", "--weights", str(tmp_path / "weights.pth"), *sizes)
    assert "first classes" not in result and len(result["fine-tuned"][0]) == 1


def test_a_policy_learns_to_balance_a_pole(run):
    lengths = run("actor_critic")["lengths"]
    assert mean(lengths[-20:]) > 1.5 * mean(lengths[:20])


def test_an_activation_in_wgsl_fits_a_wave_better_than_relu_gpu(run, gpu):
    losses = run("wgsl_activation")["losses"]
    assert losses["snake"][-1] < 0.01 * losses["snake"][0] and losses["snake"][-1] < losses["ReLU"][-1]


def test_the_derivatives_of_the_activation_are_those_of_its_formula_gpu(monkeypatch, gpu):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    snake = importlib.import_module("wgsl_activation").snake
    data, a = torch.randn(50, 4), torch.linspace(0.5, 2, 4)
    pairs = {}
    for device in ("cpu", "gpu"):
        x, b = (t.clone().to(device).requires_grad_() for t in (data, a))
        y = snake(x, b) if device == "gpu" else x + (b * x).sin() ** 2 / b
        y.pow(2).sum().backward()
        pairs[device] = [t.cpu() for t in (y.detach(), x.grad, b.grad)]
    torch.testing.assert_close(pairs["gpu"], pairs["cpu"], rtol=1e-4, atol=1e-4)
