"""Questions about dtypes and shapes, and settings that programs make once."""

from __future__ import annotations

import copy
import pickle
import platform
import subprocess
import sys

import pytest

import rgrad as torch


def test_results_may_be_cast_upward_in_kind_only():
    assert torch.can_cast(torch.float64, torch.float16) and torch.can_cast(torch.int64, torch.uint8)
    assert torch.can_cast(torch.bool, torch.float32) and torch.can_cast(torch.bool, torch.bool)
    assert not torch.can_cast(torch.float16, torch.int64) and not torch.can_cast(torch.int8, torch.bool)
    with pytest.raises(TypeError, match=r"argument 'from_' \(position 1\) must be torch.dtype, not int"):
        torch.can_cast(1, torch.int8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_limits_of_floats_hold_in_arithmetic(dtype):
    limits = torch.finfo(dtype)
    one = torch.ones((), dtype=dtype)
    assert (one + limits.eps).item() > 1 and (one + limits.eps / 4).item() == 1
    assert torch.tensor(limits.max, dtype=dtype).isfinite().item()
    assert torch.tensor(limits.max, dtype=dtype).mul(2).isinf().item()
    assert limits == torch.finfo(type=dtype) and limits.bits == 8 * dtype.itemsize


def test_limits_of_integers_hold_in_arithmetic():
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        limits = torch.iinfo(dtype)
        assert torch.tensor(limits.max, dtype=dtype).add(1).item() == limits.min
    assert torch.iinfo(torch.int8) != torch.iinfo(torch.uint8)
    with pytest.raises(TypeError, match="torch.bool is not supported by torch.iinfo"):
        torch.iinfo(torch.bool)
    with pytest.raises(TypeError, match="torch.finfo.. requires a floating point input type"):
        torch.finfo(torch.int32)


def test_shapes_broadcast_as_tensors_do():
    shapes = [(2, 1, 4), (3, 1), 4]
    tensors = torch.broadcast_tensors(torch.ones(2, 1, 4), torch.ones(3, 1), torch.ones(4))
    assert torch.broadcast_shapes(*shapes) == tensors[0].shape
    assert torch.broadcast_shapes() == torch.Size([])
    with pytest.raises(
        RuntimeError, match=r"length 4 at -1! Mismatching argument at index 1 had \(4,\).*\[2, 3\]"
    ):
        torch.broadcast_shapes((2, 3), (4,))
    with pytest.raises(ValueError, match="negative length"):
        torch.broadcast_shapes((2, -1))


def test_the_default_device_is_what_new_tensors_have():
    before = torch.get_default_device()
    torch.set_default_device("cpu")
    assert torch.zeros(1).device == torch.get_default_device() == torch.device("cpu")
    torch.set_default_device(None)
    with pytest.raises(RuntimeError):
        torch.set_default_device("nowhere")
    assert torch.get_default_device() == before


def test_a_device_is_a_context_manager_for_new_tensors():
    with torch.device("cpu") as device:
        assert torch.zeros(1).device == device == torch.get_default_device()
    with pytest.raises(ValueError, match="left"), torch.device("cpu"):
        raise ValueError("left")
    assert torch.get_default_device() == torch.device("cpu")


def test_determinism_is_what_was_asked_for():
    assert not torch.are_deterministic_algorithms_enabled()
    try:
        torch.set_deterministic_debug_mode("warn")
        assert (
            torch.are_deterministic_algorithms_enabled()
            and torch.is_deterministic_algorithms_warn_only_enabled()
        )
        torch.use_deterministic_algorithms(True)
        assert torch.get_deterministic_debug_mode() == 2
    finally:
        torch.use_deterministic_algorithms(False)
    with pytest.raises(RuntimeError, match="expected 0, 1, or 2, but got 7"):
        torch.set_deterministic_debug_mode(7)


def test_unpooling_is_refused_or_warns_where_determinism_was_asked_for():
    pooled, places = torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 2, 2, dtype=torch.int64)
    unpool = torch.nn.MaxUnpool2d(2)
    try:
        torch.use_deterministic_algorithms(True)
        with pytest.raises(RuntimeError, match="^max_unpooling2d_forward_out does not have a deterministic implem"):
            unpool(pooled, places)
        with pytest.raises(RuntimeError, match="^max_unpooling3d_forward_out does not"):
            torch.nn.MaxUnpool3d(2)(pooled.unsqueeze(0), places.unsqueeze(0))
        torch.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="^max_unpooling2d_forward_out does not"):
            assert unpool(pooled, places).sum() == 1
    finally:
        torch.use_deterministic_algorithms(False)
    assert unpool(pooled, places).sum() == 1


def test_layouts_and_memory_formats_are_closed_sets_of_constants():
    assert isinstance(torch.strided, torch.layout) and isinstance(torch.channels_last, torch.memory_format)
    assert torch.ones(1).layout is torch.strided
    for constant in (torch.strided, torch.preserve_format):
        assert pickle.loads(pickle.dumps(constant)) is constant and copy.deepcopy(constant) is constant
    with pytest.raises(TypeError, match="cannot create 'torch.layout' instances"):
        torch.layout()


def test_the_precision_of_products_is_remembered():
    torch.set_float32_matmul_precision("high")
    with pytest.warns(UserWarning, match="is not one of 'highest', 'high', or 'medium'"):
        torch.set_float32_matmul_precision("low")
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision("highest")


def test_autocast_is_asked_about_by_device():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
        assert not torch.is_autocast_enabled()
    assert not torch.is_autocast_enabled("cpu")


def test_settings_of_the_precision_of_float32_are_kept():
    backends = torch.backends
    with backends.flags(fp32_precision="ieee"), backends.cudnn.flags(fp32_precision="ieee"):
        assert backends.fp32_precision == backends.cudnn.fp32_precision == "ieee"
    assert backends.fp32_precision == backends.cudnn.fp32_precision == backends.mkldnn.fp32_precision == "none"
    for library in (backends.cudnn.conv, backends.cudnn.rnn, backends.mkldnn.conv, backends.mkldnn.matmul):
        before = library.fp32_precision
        library.fp32_precision = "ieee"
        assert library.fp32_precision == "ieee"
        library.fp32_precision = before
    assert not backends.xnnpack.enabled


def test_global_flags_can_be_disabled_for_the_rest_of_the_process():
    code = """
import rgrad as torch
from rgrad import backends
backends.cudnn.benchmark = True
assert not backends.flags_frozen()
backends.disable_global_flags()
backends.disable_global_flags()
assert backends.flags_frozen()
for module, name in ((backends, "fp32_precision"), (backends.cudnn, "benchmark"), (backends.mkldnn, "enabled")):
    try:
        setattr(module, name, False)
    except RuntimeError as error:
        assert "not allowed to set torch.backends" in str(error) and "flags()" in str(error), error
    else:
        raise SystemExit(f"{name} was set")
torch._C._set_mkldnn_enabled(True)
assert backends.mkldnn.enabled and torch._C._get_mkldnn_enabled()
with backends.cudnn.flags(benchmark=False):
    assert backends.cudnn.benchmark is False
with backends.flags(fp32_precision="ieee"):
    assert backends.fp32_precision == "ieee"
backends.cudnn.another = 3
assert backends.cudnn.benchmark is True and backends.fp32_precision == "none" and backends.cudnn.another == 3
print("done")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr


def test_capabilities_of_the_processor_agree_with_what_the_core_uses():
    found = torch.cpu.get_capabilities()
    assert found["architecture"] == platform.machine() and found["num_logical_cores"] >= 1
    assert found is torch.cpu.get_capabilities()
    with pytest.raises(TypeError):
        found["avx2"] = True
    if "avx2" in found:
        assert found["avx2"] or torch.cpu.get_cpu_capability() == "baseline"
        assert found["avx512_f"] or torch.cpu.get_cpu_capability() != "avx512"
        assert 1 <= found["num_physical_cores"] <= found["num_logical_cores"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.uint16, torch.int64, torch.bool])
def test_deterministic_programs_get_no_memory_as_it_was(dtype):
    from rgrad.utils import deterministic

    x = torch.zeros(2, 3, dtype=dtype)
    torch.use_deterministic_algorithms(True)
    try:
        made = [
            torch.empty(3, dtype=dtype),
            torch.empty_like(x),
            torch.empty_strided((2, 3), (1, 4), dtype=dtype),
            torch.empty_permuted((2, 3), (1, 0), dtype=dtype),
            x.new_empty(4),
            x.clone().resize_(9)[6:],
        ]
        deterministic.fill_uninitialized_memory = False
        assert not torch._C._get_deterministic_fill_uninitialized_memory()
        torch.empty(3)
    finally:
        deterministic.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)
    for t in made:
        if dtype.is_floating_point:
            assert t.isnan().all()
        else:
            assert set(t.reshape(-1).tolist()) == {True if dtype == torch.bool else torch.iinfo(dtype).max}


def test_the_check_of_sparse_tensors_is_a_setting_for_a_block_or_a_function():
    check = torch.sparse.check_sparse_tensor_invariants
    assert not check.is_enabled()
    with check():
        assert check.is_enabled() and not check(False)(check.is_enabled)()
    assert not check.is_enabled()
    check.enable()
    try:
        assert check.is_enabled()
    finally:
        check.disable()
    once = check()
    with once, pytest.raises(RuntimeError, match="already activated"):
        once.__enter__()
    with pytest.raises(NotImplementedError, match="none is sparse"):
        torch.sparse.mm(torch.ones(1, 1), torch.ones(1, 1))


def test_options_of_the_compiler_of_pytorch_are_kept():
    from rgrad._inductor import config, utils

    config.coordinate_descent_tuning = True
    with config.patch({"max_autotune": True, "triton.cudagraphs": True}, cpp_wrapper=True):
        assert config.max_autotune and config.triton.cudagraphs and config.cpp_wrapper
    assert not config.max_autotune and not config.triton.cudagraphs and not config.cpp_wrapper
    with pytest.raises(AttributeError, match="no_such_option does not exist"), config.patch("no_such_option", 1):
        pass
    assert "cuda" in utils.GPU_TYPES and not torch._dynamo.config.compiled_autograd


def test_suites_find_what_pytorch_has_for_its_own_tests():
    from rgrad._logging.scribe import open_source_signpost

    assert open_source_signpost(subsystem="x", name="y") is None
    assert torch._C._jit_set_profiling_executor(False) and not torch._C._jit_set_profiling_executor(True)
    assert not torch._C._get_graph_executor_optimize() and not isinstance(torch.nn.ReLU(), torch._C.ScriptModule)
    assert torch.backends.quantized.supported_engines == ["none"] and torch.__config__._cxx_flags() == ""
    assert torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
    assert isinstance(torch.cpu._is_avx2_supported(), bool)
    torch._C._set_mkldnn_enabled(True)
    assert torch._C._get_mkldnn_enabled() and torch.backends.mkldnn.enabled
    torch._C._set_mkldnn_enabled(False)
    with pytest.raises(NotImplementedError, match="exported to no other format"):
        torch.onnx.unregister_custom_op_symbolic("a::b", 9)
