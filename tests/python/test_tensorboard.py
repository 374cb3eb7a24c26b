"""Event files, read back by TensorBoard's own reader; where that package is missing, only its absence is tested."""

from __future__ import annotations

import importlib.util
import io

import pytest

import rgrad as torch

installed = importlib.util.find_spec("tensorboard") is not None
with_tensorboard = pytest.mark.skipif(not installed, reason="tensorboard is not installed")


@pytest.mark.skipif(installed, reason="tensorboard is installed")
def test_without_the_package_the_import_says_what_is_missing():
    with pytest.raises(ModuleNotFoundError, match="No module named 'tensorboard'"):
        importlib.import_module("rgrad.utils.tensorboard")


def _read(path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(path), size_guidance={"images": 0, "histograms": 0, "tensors": 0})
    return events.Reload()


@with_tensorboard
def test_scalars_are_read_back(tmp_path):
    with torch.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", torch.tensor(0.5**step), step, walltime=100.0 + step)
        writer.add_scalars("rates", {"low": 1, "high": 2.5}, 7)
    events = _read(tmp_path).Scalars("loss")
    assert [(e.step, e.value, e.wall_time) for e in events] == [(0, 1, 100), (1, 0.5, 101), (2, 0.25, 102)]
    assert _read(tmp_path / "rates_high").Scalars("rates")[0].value == 2.5


@with_tensorboard
def test_images_and_texts_are_read_back(tmp_path):
    from PIL import Image

    with torch.utils.tensorboard.SummaryWriter(str(tmp_path)) as writer:
        pixels = torch.arange(24, dtype=torch.uint8).view(3, 2, 4) * 10
        writer.add_image("one", pixels, 1)
        writer.add_image("gray", torch.tensor([[0.0, 1.0]]), dataformats="HW")
        writer.add_images("many", torch.zeros(9, 3, 2, 2))
        writer.add_text("note", "**bold**", 2)
        with pytest.raises(ValueError, match="input format are different"):
            writer.add_image("wrong", torch.zeros(2, 2))
        with pytest.raises(NotImplementedError, match="draws a model"):
            writer.add_graph(torch.nn.Identity())
    events = _read(tmp_path)
    image = Image.open(io.BytesIO(events.Images("one")[0].encoded_image_string))
    assert image.size == (4, 2) and image.getpixel((1, 0)) == tuple(pixels[:, 0, 1].tolist())
    gray = Image.open(io.BytesIO(events.Images("gray")[0].encoded_image_string))
    assert [gray.getpixel((x, 0)) for x in (0, 1)] == [(0, 0, 0), (255, 255, 255)]
    assert (events.Images("many")[0].width, events.Images("many")[0].height) == (16, 4)
    assert events.Tensors("note/text_summary")[0].tensor_proto.string_val[0] == b"**bold**"


@with_tensorboard
@pytest.mark.parametrize("settings", [{}, {"bins": [-4.0, 0.0, 1.0, 5.0]}, {"max_bins": 20}])
def test_histograms_count_every_value(tmp_path, settings):
    values = torch.tensor([-3.0, -0.5, 0.0, 0.25, 0.25, 4.0])
    with torch.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_histogram("weights", values, 3, **settings)
        with pytest.raises(ValueError, match="no element"):
            writer.add_histogram("nothing", torch.empty(0))
    found = _read(tmp_path).Histograms("weights")[0].histogram_value
    assert sum(found.bucket) == found.num == 6 and (found.min, found.max, found.sum) == (-3, 4, 1)
    assert len(found.bucket) == len(found.bucket_limit) and found.bucket_limit == sorted(found.bucket_limit)
    for value in set(values.tolist()):
        # Every value lies in the bucket that ends first beyond it.
        last = next(
            i for i, limit in enumerate(found.bucket_limit) if limit > value or i == len(found.bucket_limit) - 1
        )
        assert found.bucket[last] >= 1


@with_tensorboard
def test_hyperparameters_are_written_beside_their_results(tmp_path):
    with torch.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": 0.1, "kind": "sgd", "deep": True}, {"accuracy": 0.9}, run_name="first")
    events = _read(tmp_path / "first")
    assert events.Scalars("accuracy")[0].value == pytest.approx(0.9)
    assert "hparams" in {events.SummaryMetadata(tag).plugin_data.plugin_name for tag in events.summary_metadata}
