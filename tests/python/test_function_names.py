"""Functions of `torch` itself that draw random numbers, set something, or are names only."""

from __future__ import annotations

import math
import pickle
import re

import pytest

import rgrad as torch
from rgrad import _absent_names
from rgrad.nn import functional as F


def _seeded(call):
    torch.manual_seed(3)
    return call()


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "feature_alpha_dropout"])
def test_dropout_draws_what_its_functional_form_draws(name):
    x = torch.rand(4, 5, 6)
    expected = _seeded(lambda: getattr(F, name)(x, 0.4, True))
    assert torch.equal(_seeded(lambda: getattr(torch, name)(x, 0.4, True)), expected)
    changed = x.clone()
    assert _seeded(lambda: getattr(torch, name + "_")(changed, 0.4, True)) is changed
    assert torch.equal(changed, expected)


def test_feature_dropout_zeroes_whole_channels():
    x = torch.ones(50, 40, 3)
    made = _seeded(lambda: torch.feature_dropout(x, 0.25, True))
    channels = made.sum(-1)
    assert set(channels.unique().tolist()) == {0.0, 4.0} and 0.2 < (channels == 0).float().mean() < 0.3
    assert torch.equal(_seeded(lambda: torch.feature_dropout_(x, 0.25, True)), made) and torch.equal(x, made)


def test_native_dropout_says_what_it_kept():
    x = torch.rand(1000, requires_grad=True)
    made, kept = torch.native_dropout(x, 0.5, None)
    assert kept.dtype == torch.bool and 400 < kept.sum() < 600
    torch.testing.assert_close(made, x * kept * 2)
    (grad,) = torch.autograd.grad(made.sum(), x)
    torch.testing.assert_close(grad, kept * 2.0)


def test_counts_have_their_mean_and_variance():
    torch.manual_seed(0)
    for rate in (0.5, 30.0):
        drawn = torch.poisson(torch.full((20000,), rate))
        assert abs(drawn.mean() - rate) < 0.05 * rate and abs(drawn.var() - rate) < 0.1 * rate
    drawn = torch.binomial(torch.full((20000,), 40.0), torch.tensor(0.3))
    assert abs(drawn.mean() - 12) < 0.2 and abs(drawn.var() - 8.4) < 0.5
    slopes = torch.rrelu(-torch.ones(1000), 0.25, 0.5, True)
    assert -0.5 <= slopes.min() < -0.45 and -0.3 < slopes.max() <= -0.25


def test_a_generator_of_its_own_gives_the_numbers_of_its_seed():
    count, rate = torch.full((50,), 40.0), torch.full((50,), 0.3)
    own = torch.Generator()
    torch.manual_seed(5)
    state = torch.get_rng_state()
    for draw in (
        lambda g: torch.poisson(count, generator=g),
        lambda g: torch.binomial(count, rate, generator=g),
        lambda g: torch._standard_gamma(count, generator=g),
        lambda g: torch._sample_dirichlet(count, generator=g),
        lambda g: torch.rrelu(-count, training=True, generator=g),
    ):
        own.manual_seed(7)
        first, second = draw(own), draw(own)
        own.manual_seed(7)
        assert torch.equal(draw(own), first) and not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), state)


def test_parts_that_are_copies_may_be_written_to():
    x = torch.arange(6.0, requires_grad=True)
    first, second = torch.unsafe_chunk(x * 1, 2)
    first.mul_(2)
    (grad,) = torch.autograd.grad((first + second).sum(), x)
    assert grad.tolist() == [2, 2, 2, 1, 1, 1]
    assert torch.detach_copy(x).grad_fn is None and not torch.select_copy(x, 0, 1)._is_view()


def test_a_vector_over_a_file_shares_its_bytes(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(torch.arange(4.0).numpy().tobytes())
    x = torch.from_file(str(path), shared=True, size=4)
    assert x.tolist() == [0, 1, 2, 3]
    x[1] = 7
    assert torch.from_file(str(path), size=2).tolist() == [0, 7]
    assert torch.from_file(str(path), size=2, dtype=torch.int32).dtype == torch.int32


def test_autocast_is_set_for_good_by_its_older_functions():
    try:
        torch.set_autocast_enabled("cpu", True)
        assert torch.is_autocast_cpu_enabled() and torch.get_autocast_cpu_dtype() == torch.bfloat16
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        torch.set_autocast_cpu_dtype(torch.float16)
        assert torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.float16
    finally:
        torch.set_autocast_dtype("cpu", torch.bfloat16)
        torch.set_autocast_cpu_enabled(False)
    assert not torch.is_autocast_enabled("cpu") and not torch.is_autocast_cache_enabled()
    with pytest.raises(RuntimeError, match="device type"):
        torch.set_autocast_enabled("toaster", True)


def test_anomaly_mode_is_set_for_good():
    torch.set_anomaly_enabled(True, False)
    assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
    torch.set_anomaly_enabled(False)
    assert not torch.is_anomaly_enabled()


def test_a_loop_ends_where_its_condition_does_and_differentiates():
    x = torch.tensor([1.5], requires_grad=True)
    made = torch.while_loop(lambda x: x.sum() < 10, lambda x: x * 2, (x,))
    (grad,) = torch.autograd.grad(made, x)
    assert made.item() == 12 and grad.item() == 8
    with pytest.raises(RuntimeError, match="should return 1 values"):
        torch.while_loop(lambda x: True, lambda x: (x, x), (x,))
    with pytest.raises(RuntimeError, match="single-element"):
        torch.cond(torch.ones(2), len, len, (x,))


def test_layouts_are_there_to_be_compared_with():
    for name in ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"):
        layout = getattr(torch, name)
        assert repr(layout) == f"torch.{name}" and isinstance(layout, torch.layout) and torch.ones(1).layout != layout
        assert pickle.loads(pickle.dumps(layout)) is layout


def test_functions_of_complex_sparse_and_quantized_tensors_say_why_they_are_not_there():
    names = [name for names in _absent_names.FUNCTIONS.values() for name in names]
    assert len(names) == len(set(names)) > 80
    for name in names:
        with pytest.raises(NotImplementedError, match=rf"^torch\.{name} is not in rgrad: "):
            getattr(torch, name)(torch.ones(2))
    for why, names in _absent_names.METHODS.items():
        for name in names:
            with pytest.raises(NotImplementedError, match=re.escape(f"torch.Tensor.{name} is not in rgrad: {why}")):
                getattr(torch.ones(2), name)()


@pytest.mark.parametrize("name", ["complex", "polar"])
def test_what_no_complex_tensor_is_made_of_is_an_error_of_its_own(name):
    function, x = getattr(torch, name), torch.ones(2)
    for y in (x.long(), x.bool(), x.bfloat16()):
        with pytest.raises(NotImplementedError, match="both inputs to be Half, Float or Double tensors but got"):
            function(x, y)
    with pytest.raises(RuntimeError, match="scalar type Float but got scalar type Double for second argument"):
        function(x, x.double())
    with pytest.raises(RuntimeError, match="scalar type ComplexDouble but got scalar type Long for argument 'out'"):
        function(x.double(), x.double(), out=x.long())
    with pytest.raises(RuntimeError, match="[Ss]hape|size"):
        function(x, torch.ones(3))
    with pytest.raises(NotImplementedError, match="there are no complex tensors"):
        function(x, x)


def test_a_dtype_without_tensors_is_refused_by_its_name():
    for use in (
        lambda: torch.tensor([1.0], dtype=torch.complex64),
        lambda: torch.ones(2).to(torch.complex64),
        lambda: torch.promote_types(torch.complex64, torch.float32),
    ):
        with pytest.raises(TypeError, match="complex64, of which rgrad has no tensors"):
            use()
    assert torch.complex64.to_real() is torch.float32 and torch.complex64.to_complex() is torch.cfloat
    assert pickle.loads(pickle.dumps(torch.uint4)) is torch.uint4 and torch.bit is torch.uint1
    assert torch.iinfo(torch.uint64).bits == 64


def test_cuda_answers_what_is_true_of_a_gpu_of_any_vendor():
    cuda = torch.cuda
    assert cuda.get_arch_list() == [] and cuda.get_gencode_flags() == "" and cuda.get_allocator_backend() == "native"
    assert not cuda.can_device_access_peer(0, 1) and not cuda.is_tf32_supported() and not cuda.has_magma
    assert cuda.host_memory_stats() == {} and cuda.get_sync_debug_mode() == 0
    cuda.set_sync_debug_mode("default")
    assert len(cuda.default_generators) == cuda.device_count()
    with cuda.device_of(torch.ones(1)):
        pass
    for use in (
        lambda: cuda.set_sync_debug_mode("error"),
        lambda: cuda.utilization(),
        lambda: cuda.max_memory_reserved(),
        lambda: cuda.memory_snapshot(),
        lambda: cuda.graph_pool_handle(),
        lambda: cuda.make_graphed_callables(len, ()),
        cuda.CUDAGraph,
        cuda.MemPool,
        lambda: cuda.ExternalStream(0),
    ):
        with pytest.raises(NotImplementedError, match=r"torch\.cuda\.\w+ is not in rgrad: "):
            use()
    cuda.check_error(0)
    with pytest.raises(cuda.CudaError, match="(2)"):
        cuda.check_error(2)
    assert issubclass(cuda.CudaError, RuntimeError) and cuda.AcceleratorError is torch.AcceleratorError


def test_cuda_types_are_of_tensors_on_a_gpu(monkeypatch):
    kind = torch.cuda.FloatTensor
    assert repr(kind) == "<class 'torch.cuda.FloatTensor'>" and not isinstance(torch.ones(1), kind)
    assert pickle.loads(pickle.dumps(kind)) is kind and not isinstance(torch.FloatStorage(1), torch.cuda.FloatStorage)
    assert kind.dtype == torch.float32 and kind.is_cuda and not torch.FloatTensor.is_cuda
    if torch.cuda.is_available():
        made = kind([1.0, 2.0])
        assert made.is_cuda and isinstance(made, kind) and made.tolist() == [1, 2]
        assert torch.cuda.get_device_capability() == (0, 0)
        monkeypatch.setenv("RGRAD_GPU_MEM_LIMIT", str(2**30))
        free, total = torch.cuda.mem_get_info()
        assert 0 < free <= total == 2**30
    else:
        for use in (torch.cuda.get_device_capability, torch.cuda.mem_get_info):
            with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
                use()


def test_nvtx_ranges_are_those_of_the_profiler():
    nvtx = torch.cuda.nvtx
    with torch.profiler.profile() as profile:
        assert nvtx.range_push("outer") == 0
        with nvtx.range("part {}", 3):
            torch.ones(2) + 1
        number = nvtx.range_start("apart")
        nvtx.mark("here")
        assert nvtx.range_pop() == 0
        nvtx.range_end(number)
    names = {event.key for event in profile.key_averages()}
    assert {"outer", "part 3", "apart", "here"} <= names
    for wrong in (nvtx.range_pop, lambda: nvtx.range_end(number)):
        with pytest.raises(RuntimeError, match="nvtx.range"):
            wrong()


def test_older_names_of_storages_schemes_and_exceptions_are_there():
    assert torch.Storage is torch.FloatStorage and isinstance(torch.ones(1).untyped_storage(), torch.StorageBase)
    assert repr(torch.per_tensor_affine) == "torch.per_tensor_affine" and not torch.has_mkl
    assert pickle.loads(pickle.dumps(torch.per_channel_symmetric)) is torch.per_channel_symmetric
    for refused in (torch.ComplexFloatStorage, torch.QInt8Storage, torch.testing.FileCheck, torch.ScriptFunction):
        with pytest.raises(NotImplementedError, match="is not in rgrad: "):
            refused()
    for error in (torch.AcceleratorError, torch.JITException, torch.FatalError, torch.jit.Error):
        assert issubclass(error, RuntimeError)
    assert torch.wait(torch.fork(max, 2, 3)) == 3
    assert torch.from_dlpack(torch.to_dlpack(torch.ones(2))).tolist() == [1, 1]

    class Owner:
        @torch.classproperty
        def kind(cls):
            return cls.__name__

    assert Owner.kind == Owner().kind == "Owner"


def test_what_compiles_a_module_leaves_it_as_it_is():
    module = torch.nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="eval mode"):
        torch.jit.freeze(module)
    assert torch.jit.freeze(module.eval()) is module and torch.jit.optimize_for_inference(module) is module
    assert torch.jit.isinstance([1], list) and torch.jit.Attribute(3, int) == 3


def test_allclose_is_asserted_with_wider_tolerances_under_its_older_name():
    one = torch.ones(2)
    with pytest.warns(FutureWarning, match="assert_close"):
        torch.testing.assert_allclose(one, (one + 5e-5).double())
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="not close"):
        torch.testing.assert_allclose(one, one + 5e-4)
    with pytest.warns(FutureWarning):
        torch.testing.assert_allclose([math.nan, 1], [math.nan, 1])


def test_handlers_find_the_operation_that_stands_for_cond():
    from rgrad import _higher_order_ops
    from rgrad._higher_order_ops.cond import cond_op

    assert cond_op is torch.cond is _higher_order_ops.cond
