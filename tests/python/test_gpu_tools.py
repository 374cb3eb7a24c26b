"""What stands around the GPU's kernels: users' own, times, the doctor, caches, large tensors."""

import json
import os
import subprocess
import sys

import pytest

import rgrad as torch

pytestmark = pytest.mark.usefixtures("gpu")


def run(script, *arguments, **environment):
    """What a process of its own prints."""
    env = {**os.environ, **{k: str(v) for k, v in environment.items()}}
    command = [sys.executable, *(["-c", script] if script else []), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# ---- operations of one's own

SQUARE = "fn square(x: f32) -> f32 { return x * x; }"
ROW_SUMS = """struct Params { count: u32, columns: u32, scale: f32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= params.count { return; }
    var sum = 0.0;
    for (var c = 0u; c < params.columns; c++) { sum += x[id.x * params.columns + c]; }
    sums[id.x] = params.scale * sum;
}
"""


def test_a_formula_in_wgsl_is_an_operation_that_broadcasts():
    op = torch.library.wgsl_op("mix", "fn mix2(x: f32) -> f32 { return x; }\nfn mix(x: f32, y: f32, k: f32) -> f32 {\n"
                               "    return mix2(x) + k * y;\n}")
    x, y = torch.arange(6.0, device="gpu").reshape(2, 3), torch.arange(3.0, device="gpu")
    assert torch.equal(op(x, y, 0.5), x + 0.5 * y)
    assert torch.equal(op(x.t(), y[1:], y[2]), x.t() + y[2] * y[1:])
    assert torch.equal(op(x, y, k=2), x + 2 * y)
    assert op(torch.ones(0, device="gpu"), 1.0, 1.0).shape == (0,)
    with pytest.raises(TypeError, match=r"mix\(\) takes x, y, k"):
        op(x, y)
    with pytest.raises(TypeError, match="'x' is f32, but the tensor is of torch.int64"):
        op(torch.ones(2, device="gpu", dtype=torch.int64), 1.0, 1.0)


def test_an_operation_in_wgsl_takes_part_in_autograd():
    slope = torch.library.wgsl_op("slope", "fn slope(g: f32, x: f32) -> f32 { return g * 2.0 * x; }")
    op = torch.library.wgsl_op("square", SQUARE, backward=lambda g, x: slope(g, x))
    x = torch.tensor([1.0, -3.0], device="gpu", requires_grad=True)
    y = op(x * 2)
    assert y.grad_fn is not None
    y.sum().backward()
    assert x.grad.tolist() == [8.0, -24.0]
    without = torch.library.wgsl_op("square", SQUARE)
    with pytest.raises(RuntimeError, match="Trying to backward through square but no autograd formula"):
        without(x).sum().backward()


def test_a_kernel_in_wgsl_has_results_of_its_own_shape():
    op = torch.library.wgsl_op(
        "row_sums",
        ROW_SUMS,
        result=lambda x, **_: (x.shape[:1], x.dtype),
        backward=lambda g, x, scale, **_: (g * scale).unsqueeze(1).expand_as(x),
    )
    x = torch.arange(200.0, device="gpu").reshape(100, 2).requires_grad_()
    y = op(x, columns=2, scale=0.5)
    assert torch.equal(y, x.sum(1) * 0.5)
    y.sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 0.5))
    with pytest.raises(TypeError, match="missing the number 'scale'"):
        op(x, columns=2)
    with pytest.raises(TypeError, match="got an unexpected number 'rows'"):
        op(x, rows=2)


def test_an_operation_in_wgsl_that_is_not_valid_shows_the_line_and_a_caret():
    with pytest.raises(RuntimeError, match=r"not valid WGSL(?s:.*)square:2:16(?s:.*)return x \* z;(?s:.*)\^ unknown"):
        torch.library.wgsl_op("square", "fn square(x: f32) -> f32 {\n    return x * z;\n}")
    with pytest.raises(RuntimeError, match=r"not valid WGSL(?s:.*)square:1:18(?s:.*)\^\^ expected"):
        torch.library.wgsl_op("square", "fn square(x: f32 -> f32 { return x; }")
    with pytest.raises(RuntimeError, match="neither 'fn cube"):
        torch.library.wgsl_op("cube", SQUARE)
    with pytest.raises(RuntimeError, match=r"arrays must stand at @binding\(1\)"):
        torch.library.wgsl_op("row_sums", ROW_SUMS.replace("binding(2)", "binding(4)"))


def test_an_operation_in_wgsl_refuses_tensors_of_the_cpu_unless_it_is_told_what_to_do():
    with pytest.raises(NotImplementedError, match="'square' is not implemented for the cpu device"):
        torch.library.wgsl_op("square", SQUARE)(torch.ones(2))
    with pytest.raises(TypeError, match="'x' is f32, but the tensor is of torch.int32"):
        torch.library.wgsl_op("square", SQUARE)(torch.ones(2, dtype=torch.int32, device="gpu"))
    op = torch.library.wgsl_op("square", SQUARE, cpu=lambda x: x * x)
    assert op(torch.full((2,), 3.0)).tolist() == [9.0, 9.0]


# ---- times


@pytest.mark.own_region
def test_a_profile_times_every_launch_and_writes_a_trace(tmp_path):
    x = torch.ones(64, 64, device="gpu")
    with torch.gpu.profile() as profile:
        y = (x @ x).relu()
        y.exp()
    torch.ones(3, device="gpu").sum().item()
    ops = [e.op for e in profile.events]
    assert [op for op in ops if op != "fill"] == ["matmul", "relu", "exp"]
    assert all(0 <= e.begin <= e.end and e.groups > 0 for e in profile.events)
    assert sum(r.total for r in profile.kernels()) == pytest.approx(profile.total)
    assert f"{len(ops)} launches" in profile.table()
    profile.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {e["name"] for e in trace if e.get("cat") == "kernel"} == set(ops)
    with torch.gpu.profile(), pytest.raises(RuntimeError, match="is being profiled already"):
        torch.gpu.profile().__enter__()


# ---- the doctor


def test_the_doctor_compares_operations_with_the_cpu_and_writes_a_report(tmp_path, capsys):
    from rgrad.doctor import main

    report = tmp_path / "report.json"
    arguments = ["--ops", "add,exp,index_select", "--dtypes", "float32,int32", "--report", str(report)]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    found = json.loads(report.read_text())
    assert found["operations"]["add"]["int32"]["verdict"] == "exact"
    assert set(found["operations"]) == {"add", "exp", "index_select"}
    assert all(v > 0 for v in found["speed"].values()) and found["adapter"]["name"] in shown
    assert "exact" in shown and "matmul 512 float32" in shown


def test_the_doctor_advises_against_a_dtype_that_is_wrong_where_its_sibling_is_right():
    from rgrad.doctor import _faulty

    def row(int32, int64):
        return {"int32": {"kind": int32}, "int64": {"kind": int64}}

    good = {f"op{i}": row("agrees", "agrees") for i in range(20)}
    assert _faulty(good | {"bad": row("agrees", "wrong"), "both": row("wrong", "wrong")}) == []
    assert _faulty(good | {f"bad{i}": row("agrees", "wrong") for i in range(4)}) == ["int64"]


def test_a_feature_that_was_found_faulty_is_left_alone_by_the_next_process(tmp_path):
    note = "import rgrad\nassert rgrad._C._gpu_avoid(0, ['int64', 'unheard of'])"
    use = """
import rgrad as torch
assert torch.gpu.get_device_properties()["avoided"] == ["int64"]
# Computed with pairs of words, where float64, whose bits are looked at as an int64, is not.
assert (torch.ones(2, dtype=torch.int64, device="gpu") + 1).tolist() == [2, 2]
try:
    torch.ones(2, dtype=torch.float64, device="gpu") + 1
except NotImplementedError as e:
    print(e)
assert torch._C._gpu_avoid(0, [])
"""
    run(note, RGRAD_CACHE_DIR=tmp_path)
    told = run(use, RGRAD_CACHE_DIR=tmp_path)
    assert "torch.float64" in told and "which has no such type" in told
    assert run("import rgrad\nprint(rgrad.gpu.get_device_properties()['avoided'])", RGRAD_CACHE_DIR=tmp_path) == "[]"


# ---- pipelines on disk


def test_compiled_pipelines_are_kept_on_disk_and_a_broken_file_is_replaced(tmp_path):
    work = "import rgrad\nprint((rgrad.ones(3, device='gpu') + 1).sum().item())"
    assert run(work, RGRAD_CACHE_DIR=tmp_path) == "6.0"
    (file,) = tmp_path.glob("pipelines-*")
    first = file.read_bytes()
    assert run(work, RGRAD_CACHE_DIR=tmp_path) == "6.0"
    file.write_bytes(first[: len(first) // 2])
    assert run(work, RGRAD_CACHE_DIR=tmp_path) == "6.0"
    assert file.read_bytes()[:8] == first[:8] and len(file.read_bytes()) == len(first)
    assert list(tmp_path.iterdir()) == [file]


# ---- tensors above the limit of a binding


def test_tensors_above_the_limit_of_a_binding_are_worked_on_in_windows():
    # 64 KiB at once; the tensors have 1.2 MiB.
    run(
        """
import rgrad as torch

n = 300_001
cpu = torch.arange(n, dtype=torch.float32)
x = cpu.to("gpu")
assert torch.equal((x * 2 + x).cpu(), cpu * 3)
assert torch.equal(torch.full((n,), 7.0, device="gpu").cpu(), torch.full((n,), 7.0))
assert torch.equal((x + 1.0).to(torch.float16).cpu(), (cpu + 1.0).to(torch.float16))
wide = cpu[:300_000].reshape(500, 600)
g = wide.to("gpu")
assert torch.equal(g.t().contiguous().cpu(), wide.t().contiguous())
assert torch.equal((g + g[3]).cpu(), wide + wide[3])
assert torch.equal((g > 1000).cpu(), wide > 1000)
g[:, 100:300] = -1.0
wide[:, 100:300] = -1.0
assert torch.equal(g.cpu(), wide)
assert torch.equal(g[5:7].clone().cpu(), wide[5:7])
for f in (torch.sum, torch.mean, torch.amax, torch.norm, lambda x: x.sum(0), lambda x: x.mean(1), lambda x: x.amin(1),
          lambda x: x.var(1), lambda x: x.std(0), lambda x: (x / 1e5).logsumexp(1), lambda x: (x / 1e5).logsumexp(0),
          lambda x: (x / 1e5).softmax(1), lambda x: (x / 1e5).log_softmax(1), lambda x: torch.cat([x, x], 1),
          lambda x: x.reshape(3, 50, 2000).sum(1), lambda x: (x > 0).all(), lambda x: x.half().sum(1),
          lambda x: torch.nn.utils.get_total_norm([x, x[0], x]), lambda x: x.argmax(1), lambda x: x.flip(1).argmin(1),
          lambda x: x.max(1)[0], lambda x: x.reshape(50, 100, 60).argmax(1)):
    torch.testing.assert_close(f(g).cpu(), f(wide), rtol=2e-5, atol=1e-6)
gradients = []
for x in (wide, g):
    x = (x / 1e5).requires_grad_()
    (x.softmax(1) * x.log_softmax(1)).sum().backward()
    gradients.append(x.grad.cpu())
torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-7)
try:
    g.softmax(0)
except NotImplementedError as e:
    assert "which shows a kernel 65536 at once" in str(e), e
else:
    raise AssertionError("no error")
""",
        RGRAD_GPU_MAX_BINDING=65536,
    )
