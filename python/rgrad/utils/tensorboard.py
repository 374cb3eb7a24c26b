"""Event files for TensorBoard, written through the package `tensorboard`, which must be installed."""

from __future__ import annotations

import io
import os
import socket
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

# Missing packages are errors at import, as programs expect that ask whether there is one.
from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore
from tensorboard.compat.proto.summary_pb2 import (  # pyright: ignore
    HistogramProto,
    Summary,
    SummaryMetadata,
)
from tensorboard.compat.proto.tensor_pb2 import TensorProto  # pyright: ignore
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto  # pyright: ignore
from tensorboard.summary.writer.event_file_writer import EventFileWriter  # pyright: ignore

import rgrad
from rgrad._absent import refuse

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes summaries with their step and time to one event file.

    Args:
        log_dir: the directory.
        max_queue: how many events wait before they are written.
        flush_secs: after how many seconds they are written anyway.
        filename_suffix: added to the file's name.
    """

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = "") -> None:
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The directory."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Writes an event.

        Args:
            event: of TensorBoard's class.
            step: its step.
            walltime: seconds since 1970; now if None.
        """
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Writes a summary; see :meth:`add_event`."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Writes what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Writes what waits and closes the file."""
        self.event_writer.close()


def _number(value: Any) -> float:
    return float(value.item() if hasattr(value, "item") else value)


def _array(values: Any) -> rgrad.Tensor:
    return rgrad.as_tensor(values).detach().cpu()


def _png(image: rgrad.Tensor) -> Any:
    """An encoded image of a tensor of bytes ``(H, W, C)``."""
    from PIL import Image

    height, width, channels = image.shape
    pixels = image.repeat(1, 1, 3) if channels == 1 else image
    mode = "RGBA" if channels == 4 else "RGB"
    buffer = io.BytesIO()
    data = bytes(pixels.contiguous().flatten().tolist())
    Image.frombytes(mode, (width, height), data).save(buffer, "PNG")
    return Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=buffer.getvalue())


def _bytes_of(image: Any, formats: str) -> rgrad.Tensor:
    """An image as bytes, with its dimensions in the order H, W, C; floats are taken to lie in [0, 1]."""
    x = _array(image)
    formats = formats.upper()
    if x.dim() != len(formats):
        raise ValueError(f"size of input tensor and input format are different: {tuple(x.shape)} and {formats}")
    order = [formats.index(name) for name in formats if name == "N"]
    order += [formats.index(name) for name in "HWC" if name in formats]
    x = x.permute(order)
    if "C" not in formats:
        x = x.unsqueeze(-1)
    return (x * 255 if x.is_floating_point() else x).clamp(0, 255).to(rgrad.uint8)


def _histogram(values: Any, bins: Any, max_bins: int | None) -> Any:
    x = _array(values).flatten().double()
    if not x.numel():
        raise ValueError("The input has no element.")
    if isinstance(bins, str):
        # The exponential bins of TensorBoard: both signs, from 1e-12 on, each 1.1 times the one before.
        positive, edge = [], 1e-12
        while edge < 1e20:
            positive.append(edge)
            edge *= 1.1
        edges = rgrad.tensor([-e for e in reversed(positive)] + [0.0] + positive, dtype=rgrad.float64)
    else:
        edges = rgrad.as_tensor(bins).double()
    inside = x[(x >= edges[0]) & (x <= edges[-1])]
    place = (rgrad.bucketize(inside, edges, right=True) - 1).clamp(0, edges.numel() - 2)
    counts = rgrad.bincount(place, minlength=edges.numel() - 1)
    if max_bins is not None and counts.numel() > max_bins:
        group = -(-counts.numel() // max_bins)
        counts = rgrad.nn.functional.pad(counts, (0, -counts.numel() % group)).view(-1, group).sum(1)
        ends = [min((i + 1) * group, edges.numel() - 1) for i in range(counts.numel())]
        edges = edges[[0, *ends]]
    used = counts.nonzero().flatten()
    # From the first bin that is not empty to the last, with an empty one before it.
    low, high = (int(used[0]), int(used[-1])) if used.numel() else (0, 0)
    limits = edges[low : high + 2].tolist()
    buckets = [0, *counts[low : high + 1].tolist()]
    return HistogramProto(
        min=x.min().item(),
        max=x.max().item(),
        num=x.numel(),
        sum=x.sum().item(),
        sum_squares=(x * x).sum().item(),
        bucket_limit=limits,
        bucket=buckets,
    )


class SummaryWriter:
    """Writes scalars, histograms, images, texts and hyperparameters to event files in a directory.

    Args:
        log_dir: the directory; ``runs/``, the date and the host's name if None.
        comment: added to the default directory.
        purge_step: steps from this one on, of an earlier run, are dropped.
        max_queue: how many events wait before they are written.
        flush_secs: after how many seconds they are written anyway.
        filename_suffix: added to the file's name.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self._settings = (max_queue, flush_secs, filename_suffix)
        self.all_writers: dict[str, FileWriter] = {}
        writer = self._get_file_writer()
        if purge_step is not None:
            writer.add_event(Event(file_version="brain.Event:2"), purge_step)
            from tensorboard.compat.proto.event_pb2 import SessionLog  # pyright: ignore

            writer.add_event(Event(session_log=SessionLog(status=SessionLog.START)), purge_step)

    def _get_file_writer(self, part: str = "") -> FileWriter:
        directory = os.path.join(self.log_dir, part) if part else self.log_dir
        if directory not in self.all_writers:
            self.all_writers[directory] = FileWriter(directory, *self._settings)
        return self.all_writers[directory]

    def get_logdir(self) -> str:
        """The directory."""
        return self.log_dir

    def _add(self, value: Any, step: int | None, walltime: float | None) -> None:
        self._get_file_writer().add_summary(Summary(value=[value]), step, walltime)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Writes a number.

        Args:
            tag: its name.
            scalar_value: a number or a tensor of one element.
            global_step: the step.
            walltime: seconds since 1970; now if None.
            new_style: accepted, without effect.
            double_precision: accepted, without effect.
        """
        self._add(Summary.Value(tag=tag, simple_value=_number(scalar_value)), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Writes numbers that one plot shows, each to a directory of its own.

        Args:
            main_tag: name of the plot.
            tag_scalar_dict: the numbers by their names.
            global_step: the step.
            walltime: seconds since 1970; now if None.
        """
        for name, number in tag_scalar_dict.items():
            part = f"{main_tag.replace('/', '_')}_{name}"
            value = Summary.Value(tag=main_tag, simple_value=_number(number))
            self._get_file_writer(part).add_summary(Summary(value=[value]), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Writes the distribution of values.

        Args:
            tag: its name.
            values: a tensor, or what can be made one.
            global_step: the step.
            bins: edges of the bins; exponential ones if a string.
            walltime: seconds since 1970; now if None.
            max_bins: bins are joined until there are no more than these.
        """
        self._add(Summary.Value(tag=tag, histo=_histogram(values, bins, max_bins)), global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Writes an image.

        Args:
            tag: its name.
            img_tensor: bytes, or floats in [0, 1], with 1, 3 or 4 channels.
            global_step: the step.
            walltime: seconds since 1970; now if None.
            dataformats: the order of its dimensions, like ``'CHW'``, ``'HWC'`` or ``'HW'``.
        """
        self._add(Summary.Value(tag=tag, image=_png(_bytes_of(img_tensor, dataformats))), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Writes images side by side as one, in rows of up to 8.

        Args:
            tag: the name.
            img_tensor: bytes, or floats in [0, 1].
            global_step: the step.
            walltime: seconds since 1970; now if None.
            dataformats: the order of the dimensions, like ``'NCHW'``.
        """
        images = _bytes_of(img_tensor, dataformats)
        count, height, width, channels = images.shape
        columns = min(8, count)
        missing = images.new_zeros((-count % columns, height, width, channels))
        grid = rgrad.cat([images, missing]).view(-1, columns, height, width, channels)
        grid = grid.permute(0, 2, 1, 3, 4).reshape(-1, columns * width, channels)
        self._add(Summary.Value(tag=tag, image=_png(grid)), global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Writes a figure of matplotlib, or several as one image.

        Args:
            tag: its name.
            figure: the figure, or a list.
            global_step: the step.
            close: whether to close the figure.
            walltime: seconds since 1970; now if None.
        """
        from matplotlib import pyplot  # pyright: ignore
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # pyright: ignore

        figures = figure if isinstance(figure, (list, tuple)) else [figure]
        drawn = []
        for one in figures:
            canvas = FigureCanvasAgg(one)
            canvas.draw()
            drawn.append(rgrad.as_tensor(bytearray(canvas.buffer_rgba()), dtype=rgrad.uint8))
            width, height = canvas.get_width_height()
            drawn[-1] = drawn[-1].view(height, width, 4)[..., :3]
            if close:
                pyplot.close(one)
        if isinstance(figure, (list, tuple)):
            self.add_images(tag, rgrad.stack(drawn), global_step, walltime, "NHWC")
        else:
            self.add_image(tag, drawn[0], global_step, walltime, "HWC")

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Writes a text, which TensorBoard renders as Markdown.

        Args:
            tag: its name.
            text_string: the text.
            global_step: the step.
            walltime: seconds since 1970; now if None.
        """
        from tensorboard.compat.proto.types_pb2 import DT_STRING  # pyright: ignore

        plugin = SummaryMetadata.PluginData(plugin_name="text", content=b"")
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        tensor = TensorProto(dtype=DT_STRING, string_val=[text_string.encode()], tensor_shape=shape)
        metadata = SummaryMetadata(plugin_data=plugin)
        value = Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=tensor)
        self._add(value, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, Sequence[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Writes hyperparameters and the results that they led to.

        Args:
            hparam_dict: numbers, strings and bools by their names.
            metric_dict: numbers by their names.
            hparam_domain_discrete: accepted, without effect.
            run_name: the directory inside this one; the time if None.
            global_step: the step.
        """
        from tensorboard.plugins.hparams import summary_v2  # pyright: ignore

        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        values = {name: _number(v) if isinstance(v, rgrad.Tensor) else v for name, v in hparam_dict.items()}
        hparams = [summary_v2.HParam(name) for name in values]
        metrics = [summary_v2.Metric(name) for name in metric_dict]
        writer = self._get_file_writer(run_name or str(time.time()))
        writer.add_summary(summary_v2.hparams_config_pb(hparams, metrics))
        writer.add_summary(summary_v2.hparams_pb(values))
        for name, number in metric_dict.items():
            value = Summary.Value(tag=name, simple_value=_number(number))
            writer.add_summary(Summary(value=[value]), global_step)

    def add_graph(self, model: Any, *args: Any, **kwargs: Any) -> None:
        """Refuses: `rgrad.viz.graph` draws a model."""
        refuse("torch.utils.tensorboard.SummaryWriter.add_graph", "rgrad.viz.graph draws a model")

    def flush(self) -> None:
        """Writes what waits."""
        for writer in self.all_writers.values():
            writer.flush()

    def close(self) -> None:
        """Writes what waits and closes the files; further events go to new ones."""
        for writer in self.all_writers.values():
            writer.close()
        self.all_writers.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
