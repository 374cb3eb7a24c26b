"""Times layers and networks beside PyTorch and keeps the ratios in benches/record/limits.json.

    PEER_PYTHON=... python benches/limits.py [--avx2] [words]   # all rows, or those whose names contain a word
    python benches/limits.py --one torch ROW SECONDS            # one side of one row, seconds as JSON

PEER_PYTHON names an interpreter that has PyTorch, torchvision and onnxruntime. The record has rows for each
instruction set; --avx2 forces that one on a processor that has more, in both packages; onnxruntime has no such
switch, so its row is left out. A time is the median of the calls of a process, with two threads. Processes of each
side alternate, and a ratio is the mean of those of two rounds.
"""

from __future__ import annotations

import datetime
import importlib
import json
import math
import multiprocessing
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from networks import networks

Calls = dict[str, Callable[[], Any]]

ROUNDS, SECONDS = 2, 1.5
RECORD = Path(__file__).resolve().parent / "record" / "limits.json"
# What a row may take at most of PyTorch's time: the geometric mean of its cases, and the worst of them.
BOUNDS: dict[str, tuple[float | None, float | None]] = {
    "conv 3×3, forward": (0.65, None),
    "conv 3×3, forward and backward": (0.75, None),
    "conv 7×7 stride 2": (0.8, None),
    "conv 1×1": (0.95, None),
    "conv depthwise": (0.6, None),
    "attention": (None, 0.8),
    "attention, memory": (None, 1.1),
    "recurrent and transformer layers, forward and backward": (None, 0.75),
    "networks": (0.75, 0.95),
    "ResNet-18 beside onnxruntime": (None, 1.1),
    "two threads beside one": (None, 1 / 1.7),
    "loading pictures": (None, 0.5),
}

# What limits each package to AVX2.
AVX2 = {
    "RGRAD_CPU_ISA": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}  # fmt: skip


def convolutions(t: Any, row: str) -> Calls:
    """Convolutions of eight pictures, without a bias."""
    shapes = {
        "conv 3×3": [(c, c, 3, 1, 3584 // c, 1) for c in (64, 128, 256, 512)],
        "conv 7×7 stride 2": [(3, 64, 7, 2, 224, 1)],
        "conv 1×1": [
            (64, 256, 1, 1, 56, 1), (256, 64, 1, 1, 56, 1), (512, 128, 1, 1, 28, 1),
            (256, 1024, 1, 1, 14, 1), (2048, 512, 1, 1, 7, 1),
        ],
        "conv depthwise": [
            (32, 32, 3, 1, 112, 32), (96, 96, 3, 2, 112, 96), (144, 144, 3, 1, 56, 144), (192, 192, 3, 1, 28, 192),
            (384, 384, 3, 1, 14, 384), (576, 576, 3, 2, 14, 576), (960, 960, 3, 1, 7, 960),
        ],
    }  # fmt: skip
    calls = {}
    for c_in, c_out, kernel, stride, side, groups in shapes[row.partition(",")[0]]:
        backward = row.endswith("backward")
        x = t.randn(8, c_in, side, side, requires_grad=backward)
        w = t.randn(c_out, c_in // groups, kernel, kernel, requires_grad=backward)

        def call(x: Any = x, w: Any = w, stride: int = stride, groups: int = groups) -> None:
            y = t.nn.functional.conv2d(x, w, None, stride, w.shape[-1] // 2, 1, groups)
            if x.requires_grad:
                t.autograd.grad(y, (x, w), y.detach())

        calls[f"{c_in} → {c_out} of {side}²"] = call
    return calls


def attention(t: Any, row: str) -> Calls:
    """`scaled_dot_product_attention` on 4 × 8 heads of 512 × 64."""

    def call(backward: bool, causal: bool) -> Callable[[], None]:
        q, k, v = (t.randn(4, 8, 512, 64, requires_grad=backward) for _ in range(3))

        def run() -> None:
            y = t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
            if backward:
                t.autograd.grad(y, (q, k, v), y.detach())

        return run

    return {
        "forward": call(False, False), "causal": call(False, True),
        "forward and backward": call(True, False), "causal, forward and backward": call(True, True),
    }  # fmt: skip


def layers(t: Any, row: str) -> Calls:
    """Recurrent layers of 32 × 64 × 128 → 256 and a transformer layer of 16 × 128 × 256, in training."""
    nn = t.nn
    sizes = {"batch_first": True, "dropout": 0.0}
    made = {
        "LSTM": (nn.LSTM(128, 256, batch_first=True), (32, 64, 128)),
        "GRU": (nn.GRU(128, 256, batch_first=True), (32, 64, 128)),
        "transformer": (nn.TransformerEncoderLayer(256, 8, 1024, **sizes), (16, 128, 256)),
    }
    calls = {}
    for name, (layer, shape) in made.items():
        x = t.randn(*shape, requires_grad=True)

        def call(layer: Any = layer, x: Any = x) -> None:
            y = layer(x)
            (y[0] if isinstance(y, tuple) else y).sum().backward()

        calls[name] = call
    return calls


def whole_networks(t: Any, row: str) -> Calls:
    """Inference of 1 and 8 pictures of 224² and a training step of 8."""
    calls = {}
    for name, make in networks(t).items():
        evaluated, trained = make().eval(), make()
        optimizer = t.optim.SGD(trained.parameters(), lr=0.01, momentum=0.9)
        x, y = t.randn(8, 3, 224, 224), t.randint(0, 1000, (8,))

        def infer(net: Any = evaluated, x: Any = x) -> None:
            with t.no_grad():
                net(x)

        def step(net: Any = trained, optimizer: Any = optimizer, x: Any = x, y: Any = y) -> None:
            optimizer.zero_grad()
            t.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()

        calls |= {
            f"{name}, inference of 1": lambda infer=infer, x=x[:1]: infer(x=x),
            f"{name}, inference of 8": infer,
            f"{name}, training step of 8": step,
        }
    return calls


def exported(t: Any, row: str) -> Calls:
    """Inference of one picture by ResNet-18: by onnxruntime in the place of PyTorch."""
    net, x = networks(t)["ResNet-18"]().eval(), t.randn(1, 3, 224, 224)
    if t.__name__ == "rgrad":

        def infer() -> None:
            with t.no_grad():
                net(x)

        return {"inference of 1": infer}
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    program = t.onnx.export(net, (x,), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    given = {session.get_inputs()[0].name: x.numpy()}
    return {"inference of 1": lambda: session.run(None, given)}


def threads(t: Any, row: str) -> Calls:
    """What two threads should halve: one thread stands in the place of PyTorch."""
    a, b, large = t.randn(1024, 1024), t.randn(1024, 1024), t.randn(4 << 20)
    x, w = t.randn(8, 64, 56, 56), t.randn(64, 64, 3, 3)
    return {
        "product of 1024³": lambda: a @ b,
        "conv 3×3 on 64 of 56²": lambda: t.nn.functional.conv2d(x, w, padding=1),
        "gelu of 4 M": lambda: t.nn.functional.gelu(large),
        "exp of 4 M": lambda: large.exp(),
    }


class Pictures:
    """Pictures of Fashion-MNIST's size as a data set reads them: PIL, then tensors with mean 0."""

    def __init__(self, package: str) -> None:
        import numpy as np

        self.data = np.random.default_rng(0).integers(0, 256, (10_000, 28, 28), dtype=np.uint8)
        if package == "rgrad":
            from rgrad.vision import transforms
        else:
            from torchvision import transforms
        self.transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.2860,), (0.3530,))])

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        from PIL import Image

        return self.transform(Image.fromarray(self.data[i])), i % 10


def loading(t: Any, row: str) -> Calls:
    """Epochs of 10,000 decoded pictures with ToTensor and Normalize, by two workers: PyTorch has processes alone."""

    def epoch(**options: str) -> Callable[[], None]:
        data = Pictures(t.__name__)
        loader = t.utils.data.DataLoader(data, batch_size=128, shuffle=True, num_workers=2, **options)

        def run() -> None:
            for _ in loader:
                pass

        return run

    threads = {"worker_type": "thread"} if t.__name__ == "rgrad" else {}
    return {"by threads": epoch(**threads), "by processes": epoch()}


def memory(t: Any, row: str) -> dict[str, float]:
    """Growth of the peak of memory by attention on 8,192 tokens, 8 heads of 64, in bytes."""

    def attend(length: int, backward: bool) -> int:
        q, k, v = (t.randn(1, 8, length, 64, requires_grad=backward) for _ in range(3))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        y = t.nn.functional.scaled_dot_product_attention(q, k, v)
        if backward:
            t.autograd.grad(y, (q, k, v), y.detach())
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    def grown(backward: bool) -> float:
        # The first call loads code and starts threads.
        attend(512, backward)
        return attend(8192, backward) * 1024.0

    # Each in a process of its own, which starts with a peak of its own.
    context = multiprocessing.get_context("fork")
    found = {}
    for name, backward in (("forward", False), ("forward and backward", True)):
        results = context.SimpleQueue()
        process = context.Process(target=lambda b=backward, r=results: r.put(grown(b)))
        process.start()
        found[name] = results.get()
        process.join()
    return found


ROWS: dict[str, Callable[[Any, str], Calls]] = {
    **{row: convolutions for row in BOUNDS if row.startswith("conv")},
    "attention": attention,
    "recurrent and transformer layers, forward and backward": layers,
    "networks": whole_networks,
    "ResNet-18 beside onnxruntime": exported,
    "two threads beside one": threads,
    "loading pictures": loading,
}


def measure(package: str, row: str, seconds: float) -> dict[str, float]:
    """The median of the times of each case of a row."""
    t = importlib.import_module(package)
    t.set_num_threads(int(os.environ.get("RGRAD_NUM_THREADS", 2)))
    t.manual_seed(0)
    if row == "attention, memory":
        return memory(t, row)
    found = {}
    for name, call in ROWS[row](t, row).items():
        call()
        call()
        times: list[float] = []
        began = time.perf_counter()
        while len(times) < 3 or time.perf_counter() - began < seconds:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        found[name] = statistics.median(times)
    return found


def side(row: str, peer: bool) -> dict[str, float]:
    """A row measured in a process of its own."""
    package, python, environment = "rgrad", sys.executable, dict(os.environ)
    if peer and row == "two threads beside one":
        environment["RGRAD_NUM_THREADS"] = "1"
    elif peer:
        package, python = "torch", os.environ["PEER_PYTHON"]
    command = [python, __file__, "--one", package, row, str(SECONDS)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def processor(forced: bool) -> tuple[str, str]:
    """The name of the processor with the instructions that decide the loops, and the instruction set in use."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    names = [line.partition(": ")[2] for line in text.splitlines() if line.startswith("model name")]
    flags = next((line.split() for line in text.splitlines() if line.startswith("flags")), [])
    has = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_tile") if flag in flags]
    isa = "AVX-512" if "avx512f" in has and not forced else "AVX2"
    machine = f"{names[0] if names else platform.processor()}, {os.cpu_count()} processors, {', '.join(has)}"
    return machine + (", AVX2 forced" if forced and "avx512f" in has else ""), isa


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], sys.argv[3], float(sys.argv[4]))))
        return
    if "PEER_PYTHON" not in os.environ:
        print("PEER_PYTHON is not set: nothing to compare with")
        return
    words = [word for word in sys.argv[1:] if word != "--avx2"]
    if "--avx2" in sys.argv:
        os.environ.update(AVX2)
    machine, isa = processor(forced="--avx2" in sys.argv)
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for row, (mean_bound, worst_bound) in BOUNDS.items():
        if words and not any(word in row for word in words) or "--avx2" in sys.argv and "onnxruntime" in row:
            continue
        rounds = [(side(row, peer=False), side(row, peer=True)) for _ in range(ROUNDS)]
        cases = {}
        for name in rounds[0][0]:
            ratios = [ours[name] / theirs[name] for ours, theirs in rounds]
            ours, theirs = (statistics.mean(pair[i][name] for pair in rounds) for i in (0, 1))
            ratio, spread = statistics.mean(ratios), [min(ratios), max(ratios)]
            cases[name] = {"target": ours, "peer": theirs, "ratio": ratio, "range": spread}
            print(f"{ratio:6.2f}  {row}: {name}", flush=True)
        ratios = [case["ratio"] for case in cases.values()]
        mean = math.exp(statistics.mean(map(math.log, ratios)))
        print(f"{mean:6.2f}  {row}: geometric mean; worst {max(ratios):.2f}", flush=True)
        record.setdefault(isa, {})[row] = {
            "date": datetime.date.today().isoformat(), "machine": machine,
            "mean": mean, "mean_bound": mean_bound, "worst": max(ratios), "worst_bound": worst_bound, "cases": cases,
        }  # fmt: skip
        RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
