"""Times calls of a few hundred operations on about a million elements beside PyTorch, to find those that lag behind.

    PEER_PYTHON=... python benches/survey.py [names]     # a table, the slowest ratio first
    python benches/survey.py --one torch names           # one side, figures as JSON

PEER_PYTHON names an interpreter that has PyTorch. The figures are the best of many calls in two processes of each
package in alternation. Ratios of calls that wait for memory vary by a half on a machine that is shared.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
import time
import warnings

SETUP = """
N = 1 << 20
a, b, v = t.randn(1024, 1024), t.randn(1024, 1024), t.randn(N)
i, idx = t.randint(0, 1000, (1024, 1024)), t.randint(0, 1024, (1024,))
m, p, small, seq = a > 0, a.abs() + 0.1, t.randn(64, 64), t.randn(32, 128, 256)
x4, img, x1 = t.randn(8, 32, 56, 56), t.randn(8, 3, 224, 224), t.randn(16, 64, 1000)
u8, d, h, bf = (t.rand(8, 3, 224, 224) * 255).to(t.uint8), a.double(), a.half(), a.bfloat16()
B, Q = t.randn(32, 32, 32) + 32 * t.eye(32), a[:256, :256] @ a[:256, :256].t() + 256 * t.eye(256)
q, edges, grid = t.randn(4, 8, 256, 64), t.linspace(-3, 3, 100), t.rand(8, 56, 56, 2) * 2 - 1
xcl, wcl = x4.to(memory_format=t.channels_last), t.ones(32, 32, 3, 3).to(memory_format=t.channels_last)
"""

UNARY = (
    "abs neg sign floor round reciprocal exp expm1 sin cos tan tanh sigmoid erf atan sinh trunc frac square isnan"
    " isfinite logical_not"
)
POSITIVE = "sqrt rsqrt log log1p log2 lgamma digamma"
BINARY = "add sub mul div maximum minimum atan2 fmod remainder lt eq logical_and hypot floor_divide"
ACTIVATIONS = "relu gelu silu mish softplus elu leaky_relu hardswish selu logsigmoid hardsigmoid relu6 softsign"
REDUCTIONS = "sum mean std var prod max min amax argmax"

CALLS = """
a ** 2; p ** b; p ** 0.5; t.where(m, a, b); a.clamp(-1, 1); t.lerp(a, b, 0.3); t.addcmul(a, a, b)
a.masked_fill(m, 0.0); t.asin(a * 0.1); t.erfinv(a * 0.1); F.glu(a); F.dropout(a, 0.5); m.all(); m.any(); m.any(0)
m.any(1); a.norm(); a.median(); a.median(1); a.logsumexp(0); a.logsumexp(1); a.cumsum(0); a.cumsum(1); a.cumprod(1)
a.kthvalue(10, 1); a.topk(10, 1); a.sort(1); a.argsort(0); i.unique(); i.view(-1).bincount(); a.histc(100)
i[:64].mode(1); m.nonzero(); t.searchsorted(edges, a); a.softmax(0); a.softmax(1); a.log_softmax(1)
F.layer_norm(a, (1024,)); F.rms_norm(a, (1024,)); F.group_norm(x4, 8); F.batch_norm(x4, None, None, training=True)
F.instance_norm(x4); F.normalize(a); F.cosine_similarity(a, b); t.cat([a, b], 0); t.cat([a, b], 1); t.stack([a, b], 2)
a.flip(0); a.flip(1); a.roll(3, 0); a.roll(3, 1); a.tril(); a.t().contiguous(); x4.permute(0, 2, 3, 1).contiguous()
a.repeat(2, 2); a.repeat_interleave(2, 1); small.tile(16, 16); F.pad(x4, (1, 1, 1, 1))
F.pad(x4, (1, 1, 1, 1), mode="reflect"); F.unfold(x4[:2], 3); F.fold(F.unfold(x4[:2], 3), (56, 56), 3); a.clone()
t.kron(small[:32, :32], small[:32, :32]); a.index_select(0, idx); a[:, idx]; a.gather(0, i); a.gather(1, i); a.take(i)
a.masked_select(m); t.zeros_like(a).scatter_add_(1, i, b); t.zeros_like(a).index_add_(0, idx, b)
t.zeros_like(a).index_put_((idx,), b); F.one_hot(idx, 1024); F.embedding(i[:64], a); F.embedding_bag(i[:256, :32], a)
F.max_pool2d(x4, 2); F.max_pool2d(x4, 3, 2, 1); F.avg_pool2d(x4, 2); F.adaptive_avg_pool2d(x4, 1)
F.adaptive_avg_pool2d(x4, 7); F.interpolate(x4, scale_factor=2, mode="bilinear"); F.interpolate(x4, scale_factor=2)
F.interpolate(img, size=(112, 112), mode="bicubic")
F.interpolate(img, size=(112, 112), mode="bilinear", antialias=True); F.grid_sample(x4, grid, align_corners=False)
F.pixel_shuffle(x4, 2); F.max_pool1d(x1, 2); F.avg_pool1d(x1, 2); u8.float(); u8 / 255; a.half(); h.float()
a.bfloat16(); bf.float(); a.double(); d.exp(); d + d; bf + bf; h * h; F.gelu(bf); bf.softmax(1); i + i; i.sum()
i.float(); i % 7; i // 7; m.sum(); i == 5; m & m; i ^ 3; i << 1; a[:256, :256] @ b[:256, :256]; a @ b; a @ b.t()
a @ v[:1024]; d[:512, :512] @ d[:512, :512]; seq @ seq.transpose(1, 2); bf[:512, :512] @ bf[:512, :512]
h[:512, :512] @ h[:512, :512]; t.outer(v[:1024], v[:1024]); F.linear(seq, a[:512, :256], v[:512])
t.cdist(a[:, :64], b[:, :64]); t.addmm(v[:1024], a, b); t.linalg.inv(Q); t.linalg.cholesky(Q)
t.linalg.solve(Q, a[:256, :64]); t.linalg.qr(a[:256, :256]); t.linalg.svd(a[:128, :128]); t.linalg.eigh(Q[:128, :128])
t.linalg.det(B); t.linalg.inv(B); t.matrix_exp(small * 0.1); t.linalg.pinv(a[:128, :128])
t.linalg.lstsq(a[:256, :64], b[:256, :8]).solution; t.rand(N); t.randn(N); t.randint(0, 10, (N,)); t.randperm(100000)
t.multinomial(p[:64], 10); t.empty(N).exponential_(); t.arange(N); t.zeros(N); t.full((N,), 2.0); t.eye(1024)
F.cross_entropy(a, idx); F.mse_loss(a, b); F.binary_cross_entropy_with_logits(a, m.float()); F.smooth_l1_loss(a, b)
F.ctc_loss(t.zeros(50, 16, 20), t.ones(16, 10, dtype=t.long), t.full((16,), 50), t.full((16,), 10))
F.conv1d(x1, t.ones(64, 64, 3), padding=1); F.conv_transpose2d(x4, t.ones(32, 16, 2, 2), stride=2)
F.conv2d(x4, t.ones(32, 32, 5, 5), padding=2); F.conv2d(x4, t.ones(64, 8, 3, 3), padding=1, groups=4)
F.conv2d(x4, t.ones(32, 32, 3, 3), padding=2, dilation=2)
F.conv3d(x4.view(8, 8, 4, 56, 56), t.ones(8, 8, 3, 3, 3), padding=1); F.conv2d(x4, t.ones(64, 32, 1, 1))
F.conv2d(img, t.ones(64, 3, 7, 7), None, 2, 3); F.conv2d(img, t.ones(192, 3, 16, 16), None, 16)
F.conv2d(x4[:1], t.ones(64, 32, 3, 3), padding=1); F.conv2d(xcl, wcl, padding=1)
F.conv2d(x4, t.ones(32, 1, 7, 7), padding=3, groups=32); F.scaled_dot_product_attention(q, q, q)
F.scaled_dot_product_attention(q[:, :, :1], q, q); F.scaled_dot_product_attention(q, q, q, is_causal=True)
"""


def calls() -> list[str]:
    """The expressions of all calls."""
    out = [f"t.{name}(a)" for name in UNARY.split()] + [f"t.{name}(p)" for name in POSITIVE.split()]
    out += [f"t.{name}(a, b)" for name in BINARY.split()] + [f"F.{name}(a)" for name in ACTIVATIONS.split()]
    out += [f"a.{name}({dim})" for name in REDUCTIONS.split() for dim in ("", "0", "1")]
    return out + [call.strip() for call in CALLS.replace("\n", ";").split(";") if call.strip()]


def measure(package: str, wanted: list[str]) -> dict[str, float]:
    """Microseconds of each call, the best of at least six; without those that the package does not have."""
    t = importlib.import_module(package)
    t.set_num_threads(2)
    t.manual_seed(0)
    scope = {"t": t, "F": t.nn.functional}
    exec(SETUP, scope)
    found = {}
    warnings.simplefilter("ignore")
    for call in calls():
        if wanted and not any(part in call for part in wanted):
            continue
        run = eval(f"lambda: {call}", scope)
        try:
            run()
        except (AttributeError, NotImplementedError, RuntimeError) as e:
            print(f"{package}: {call}: {e}", file=sys.stderr)
            continue
        times: list[float] = []
        began = time.perf_counter()
        while len(times) < 6 or time.perf_counter() - began < 0.06:
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        found[call] = min(times) * 1e6
    return found


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], sys.argv[3:])))
        return
    best: dict[str, dict[str, float]] = {"rgrad": {}, "torch": {}}
    for _ in range(2):
        for package, python in (("rgrad", sys.executable), ("torch", os.environ.get("PEER_PYTHON", sys.executable))):
            command = [python, __file__, "--one", package, *sys.argv[1:]]
            got = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            best[package] = {call: min(us, best[package].get(call, us)) for call, us in got.items()}
    ours, theirs = best["rgrad"], best["torch"]
    for call in sorted(ours.keys() ^ theirs.keys()):
        print(f"   only {'rgrad' if call in ours else 'torch'} has  {call}")
    rows = sorted(((ours[c] / theirs[c], c) for c in ours.keys() & theirs.keys()), reverse=True)
    for ratio, call in rows:
        print(f"{ratio:6.2f} {ours[call]:10.0f} {theirs[call]:10.0f}  {call}")
    mean = math.exp(sum(math.log(ratio) for ratio, _ in rows) / len(rows))
    print(f"{len(rows)} calls, geometric mean {mean:.2f}, slower than PyTorch: {sum(ratio > 1 for ratio, _ in rows)}")


if __name__ == "__main__":
    main()
