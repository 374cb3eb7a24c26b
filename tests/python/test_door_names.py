"""Names that packages import: they do what is true of rgrad, and what they can't do they say."""

from __future__ import annotations

import io
import pickle

import pytest
from test_door import _inside, _run

import rgrad as torch


def test_marks_for_a_compiler_leave_functions_and_modules_as_they_are():
    jit = torch.jit
    module = torch.nn.Linear(2, 2)

    def double(x):
        return x + x

    assert jit.script(module) is module and jit.script(double) is double and jit.unused(double) is double
    assert jit.ignore(double) is double and jit.ignore(drop=True)(double) is double and jit.export(double) is double
    assert jit.annotate(int, 3) == 3 and not jit.is_scripting() and not jit.is_tracing()
    assert jit.wait(jit.fork(double, 2)) == jit._wait(jit._fork(double, 2)) == 4
    seen = []
    assert jit.trace(seen.append, (1,)) == seen.append and seen == [1]
    assert not isinstance(module, jit.ScriptModule)
    assert torch.compiler.disable(double)(2) == 4 and torch.compiler.disable(recursive=False)(double) is double
    assert not torch.compiler.is_compiling() and not torch.onnx.is_in_onnx_export()
    with pytest.raises(RuntimeError, match="callable or string"):
        torch.fx.wrap(3)


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.jit.save(torch.nn.Identity(), io.BytesIO()),
        lambda: torch.jit.load("model.pt"),
        lambda: torch.jit.ScriptModule(),
        lambda: torch.onnx.export(torch.nn.Identity(), (), "model.onnx"),
    ],
)
def test_what_is_only_a_name_refuses_its_use(use):
    with pytest.raises(NotImplementedError, match="is not in rgrad: "):
        use()


def test_backends_are_modules_with_settings():
    import rgrad.backends.cudnn as cudnn

    assert cudnn is torch.backends.cudnn and not cudnn.is_available() and cudnn.version() is None
    cudnn.benchmark = True
    with cudnn.flags(enabled=True, deterministic=True):
        assert cudnn.enabled and not cudnn.benchmark
    assert cudnn.benchmark and not cudnn.enabled
    cudnn.benchmark = False
    with torch.backends.mkldnn.flags(enabled=True) as nothing:
        assert torch.backends.mkldnn.enabled and nothing is None
    assert not torch.backends.mkldnn.enabled and torch.backends.mkldnn.deterministic
    for name in ("cuda", "mkl", "mkldnn", "openmp"):
        module = getattr(torch.backends, name)
        assert module.__name__ == f"rgrad.backends.{name}" and not module.is_available()
    torch.backends.cuda.matmul.allow_tf32 = False
    cuda = torch.backends.cuda
    with pytest.warns(FutureWarning, match="sdpa_kernel"), cuda.sdp_kernel(enable_flash=False) as settings:
        assert settings == {} and cuda.math_sdp_enabled() and not cuda.is_flash_attention_available()
    assert isinstance(torch.backends.mps.is_available(), bool)


def test_dtypes_without_tensors_have_their_names_sizes_and_limits():
    assert repr(torch.complex64) == "torch.complex64" and torch.complex64 is torch.cfloat
    assert torch.complex64.itemsize == 8 and torch.complex64.is_complex and not torch.quint8.is_signed
    assert torch.finfo(torch.complex64) == torch.finfo(torch.float32)
    assert pickle.loads(pickle.dumps(torch.complex32)) is torch.complex32
    assert torch.float32 != torch.complex64 and len({torch.qint8, torch.qint32, torch.float32}) == 3
    with pytest.raises(TypeError):
        torch.finfo(torch.qint8)
    for make in (lambda d: torch.zeros(2, dtype=d), lambda d: torch.ones(2).to(d), lambda d: torch.tensor(1, dtype=d)):
        with pytest.raises(TypeError):
            make(torch.complex64)


def test_frozen_batch_norm_is_batch_norm_with_fixed_statistics():
    norm = torch.nn.BatchNorm2d(3).eval()
    with torch.no_grad():
        for value in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
            value.uniform_(0.5, 1.5)
    frozen = torch.vision.ops.FrozenBatchNorm2d(3)
    frozen.load_state_dict(norm.state_dict())
    x = torch.randn(2, 3, 4, 4)
    torch.testing.assert_close(frozen(x), norm(x))
    assert list(frozen.parameters()) == [] and repr(frozen) == "FrozenBatchNorm2d(3, eps=1e-05)"


def test_names_that_are_used_seldom_are_loaded_at_their_first_use():
    code = "import sys, rgrad; print({'rgrad.jit', 'rgrad.fx', 'rgrad._absent_dtypes'} & sys.modules.keys())"
    assert _run("-c", code).stdout == "set()\n"


def test_a_file_can_be_a_storage(tmp_path):
    file = tmp_path / "bytes"
    file.write_bytes(bytes(range(8)))
    storage = torch.UntypedStorage.from_file(str(file), False, 8)
    assert storage.nbytes() == 8 and list(storage) == list(range(8))
    storage[0] = 9
    assert file.read_bytes()[0] == 0
    shared = torch.UntypedStorage.from_file(str(file), shared=True, nbytes=4)
    shared[1] = 7
    assert shared.nbytes() == 4 and file.read_bytes()[:2] == b"\x00\x07"
    assert shared.filename == str(file) and storage.filename is None
    assert torch.from_file(str(file), True, 4, dtype=torch.uint8).untyped_storage().filename == str(file)
    assert torch.zeros(2).untyped_storage().filename is None
    with pytest.raises(RuntimeError, match="is smaller"):
        torch.UntypedStorage.from_file(str(file), False, 9)
    with pytest.raises(FileNotFoundError):
        torch.UntypedStorage.from_file(str(tmp_path / "none"), False, 1)


def test_sync_batch_norm_is_batch_norm_of_any_rank_in_one_process():
    sync, norm = torch.nn.SyncBatchNorm(3), torch.nn.BatchNorm2d(3)
    x = torch.randn(2, 3, 4, 4)
    assert torch.equal(sync(x), norm(x)) and torch.equal(sync.running_var, norm.running_var)
    assert sync(torch.randn(4, 3)).shape == (4, 3) and isinstance(sync, torch.nn.modules.batchnorm._BatchNorm)
    with pytest.raises(ValueError, match="expected at least 2D input"):
        sync(torch.randn(3))
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 1), norm.eval())
    converted = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert converted is model and type(model[1]) is torch.nn.SyncBatchNorm and not model[1].training
    assert model[1].weight is norm.weight and torch.equal(model[1].running_mean, norm.running_mean)


def test_a_type_of_tensors_may_be_part_of_an_annotation():
    import typing

    assert typing.get_args(torch.LongTensor | None) == (torch.LongTensor, type(None))
    assert typing.get_args(None | torch.FloatTensor) == (type(None), torch.FloatTensor)


def test_filters_that_only_pillow_has_are_refused_for_tensors():
    image = pytest.importorskip("PIL.Image")
    from rgrad.vision.transforms import InterpolationMode, Resize

    for mode in ("BOX", "HAMMING", "LANCZOS"):
        resize = Resize((2, 3), InterpolationMode[mode])
        assert resize(image.new("L", (8, 8))).size == (3, 2)
        with pytest.raises(ValueError, match="unsupported with Tensor input"):
            resize(torch.ones(1, 8, 8))


def test_the_values_of_a_dictionary_come_with_the_steps_to_them():
    from rgrad.utils._pytree import MappingKey, _dict_flatten_with_keys

    assert _dict_flatten_with_keys({"a": 1}) == ([(MappingKey("a"), 1)], ["a"])
    assert str(MappingKey("a")) == "['a']" and MappingKey("a").get({"a": 1}) == 1


def test_parameters_are_downloaded_once_and_their_hash_is_checked(tmp_path):
    import hashlib

    remote, folder = tmp_path / "remote.pt", tmp_path / "cache"
    torch.save({"weight": torch.ones(2)}, remote)
    digest = hashlib.sha256(remote.read_bytes()).hexdigest()
    named = tmp_path / f"net-{digest[:8]}.pt"
    wrong = tmp_path / "net-00000000.pt"
    for path in (named, wrong):
        path.write_bytes(remote.read_bytes())
    load = torch.hub.load_state_dict_from_url
    assert load(named.as_uri(), str(folder), check_hash=True)["weight"].tolist() == [1.0, 1.0]
    named.unlink()
    assert load(named.as_uri(), str(folder), check_hash=True)["weight"].tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="invalid hash value"):
        load(wrong.as_uri(), str(folder), check_hash=True)
    assert [path.name for path in folder.iterdir()] == [named.name]
    with pytest.raises(NotImplementedError):
        torch.hub.load("somebody/repository", "model")


def test_graphs_of_a_gpu_are_refused():
    with torch.cuda.StreamContext(torch.cuda.Stream()) as entered:
        assert entered is None
    with pytest.raises(NotImplementedError, match="not recorded"):
        torch.cuda.CUDAGraph()
    with pytest.raises(NotImplementedError, match="not recorded"):
        torch.cuda.graph(None)
    assert torch.cuda.is_current_stream_capturing() is False


def test_the_kernel_of_attention_may_be_chosen():
    from rgrad.nn.attention import SDPBackend, sdpa_kernel

    q = torch.randn(1, 1, 3, 4)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]), sdpa_kernel(SDPBackend.MATH):
        assert torch.nn.functional.scaled_dot_product_attention(q, q, q).shape == q.shape
    with pytest.raises(AssertionError, match="SDPBackend"), sdpa_kernel("math"):
        pass


def test_a_device_that_rgrad_does_not_have_says_so():
    xpu = torch.xpu
    assert not xpu.is_available() and xpu.device_count() == 0 and not xpu.is_bf16_supported()
    assert xpu.memory_allocated() == 0 and xpu.empty_cache() is None and xpu.manual_seed_all(0) is None
    for use in (xpu.current_device, xpu.synchronize, lambda: xpu.set_device(0), lambda: xpu.device(0)):
        with pytest.raises(AssertionError, match="not compiled with XPU enabled"):
            use()
    with xpu.device(None), pytest.raises(NotImplementedError, match="there is no XPU"):
        xpu.Stream()


def test_types_for_annotations():
    from rgrad import types

    assert isinstance(torch.device("cpu"), types.Device) and isinstance(3, types.Number)
    assert isinstance(torch.ones(1).untyped_storage(), types.Storage)
    assert torch.SymInt is types.SymInt and not isinstance(3, torch.SymInt) and types.py_sym_types[0] is torch.SymInt
    assert types.Size is torch.Size and types.Tensor is torch.Tensor


def test_checks_of_values_raise():
    torch._assert(True, "fine")
    torch._assert_async(torch.ones(1))
    with pytest.raises(AssertionError, match="no"):
        torch._assert(torch.tensor(False), "no")
    with pytest.raises(RuntimeError, match="single nonzero value, but got zero"):
        torch._assert_async(torch.tensor(0.0))
    with pytest.raises(RuntimeError, match="mine"):
        torch._assert_async(torch.tensor(False), "mine")
    traced = torch.fx.symbolic_trace(lambda x: torch._assert(x.sum() > 0, "empty") or x)
    with pytest.raises(AssertionError, match="empty"):
        traced(torch.zeros(1))


@pytest.mark.parametrize("setting", ["overwrite", "swap"])
def test_modules_are_converted_as_the_program_asks(setting):
    future = torch.__future__
    switch = getattr(future, f"set_{setting}_module_params_on_conversion")
    read = getattr(future, f"get_{setting}_module_params_on_conversion")
    module = torch.nn.Linear(2, 2)
    weight, alias = module.weight, module.weight.data
    assert not read()
    switch(True)
    try:
        module.double()
        assert read() and module.weight.dtype == torch.float64 and isinstance(module.weight, torch.nn.Parameter)
        assert (module.weight is weight) == (setting == "swap") and alias.dtype == torch.float32
        state = {name: torch.full_like(t, 3.0) for name, t in module.state_dict().items()}
        module.load_state_dict(state)
        assert module.weight.unique().tolist() == [3.0] and module.weight.requires_grad
    finally:
        switch(False)
    kept = module.weight
    module.float()
    assert module.weight is kept


@pytest.mark.parametrize("setting", ["overwrite", "swap"])
def test_gradients_are_converted_like_their_parameters(setting):
    switch = getattr(torch.__future__, f"set_{setting}_module_params_on_conversion")
    module = torch.nn.Linear(2, 2, bias=False)
    module.weight.grad = grad = torch.ones(2, 2)
    number = grad._cdata
    switch(True)
    try:
        module.float()
        assert module.weight.grad is grad and grad._cdata == number
        module.double()
    finally:
        switch(False)
    found = module.weight.grad
    assert found.dtype == torch.float64 and found.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert (found is grad) == (setting == "swap") and found._cdata != number


def test_parameters_of_the_meta_device_are_replaced_by_those_with_memory():
    with torch.device("meta"):
        module = torch.nn.Linear(2, 2)
    before = module.weight
    module.to_empty(device="cpu")
    assert module.weight is not before and before.is_meta and module.weight.device.type == "cpu"
    assert isinstance(module.weight, torch.nn.Parameter) and module.weight.requires_grad
    with pytest.raises(NotImplementedError, match=r"Please use torch.nn.Module.to_empty\(\) instead"):
        module.to("meta").to("cpu")


def test_reports_of_the_machine_and_the_build():
    from rgrad.utils import collect_env

    report = collect_env.get_pretty_env_info()
    assert report.startswith("rgrad ") and "python version" in report and collect_env.get_env_info().num_threads
    assert torch.__config__.show().startswith("rgrad ") and "threads" in torch.__config__.parallel_info()


def test_deterministic_settings_are_remembered():
    from rgrad.utils import deterministic

    assert deterministic.fill_uninitialized_memory is True
    deterministic.fill_uninitialized_memory = False
    assert torch.utils.deterministic.fill_uninitialized_memory is False
    deterministic.fill_uninitialized_memory = True
    with pytest.raises(RuntimeError, match="expected a bool"):
        deterministic.fill_uninitialized_memory = 1


def test_wrapper_subclasses_are_told_by_their_methods():
    dispatch = torch.utils._python_dispatch

    class Wraps(torch.Tensor):
        def __tensor_flatten__(self): ...

        def __tensor_unflatten__(self, *args): ...

    assert dispatch.is_traceable_wrapper_subclass(torch.ones(1).as_subclass(Wraps))
    assert not dispatch.is_traceable_wrapper_subclass(torch.ones(1)) and not dispatch.is_in_torch_dispatch_mode()
    assert dispatch._get_current_dispatch_mode() is None


def test_pictures_are_written_and_read(tmp_path):
    from rgrad.vision import io as pictures

    x = torch.arange(3 * 4 * 5, dtype=torch.uint8).reshape(3, 4, 5)
    pictures.write_png(x, tmp_path / "x.png")
    assert torch.equal(pictures.read_image(tmp_path / "x.png"), x)
    assert pictures.decode_image(pictures.encode_png(x), "GRAY").shape == (1, 4, 5)
    pictures.write_jpeg(x, tmp_path / "x.jpg", quality=95)
    assert pictures.read_image(tmp_path / "x.jpg", pictures.ImageReadMode.RGB).shape == (3, 4, 5)
    assert torch.equal(pictures.read_file(tmp_path / "x.png"), pictures.encode_png(x))
    with pytest.raises(RuntimeError, match="uint8"):
        pictures.encode_png(x.float())


def test_streams_and_events_of_the_cpu_and_of_a_gpu():
    stream = torch.Stream("cpu")
    assert stream.query() and stream == torch.Stream(device="cpu") and stream.device_index == -1
    assert repr(stream) == "torch.Stream device_type=cpu, device_index=-1, stream_id=0"
    with stream as entered, pytest.raises(RuntimeError, match="cpu backend doesn't support events"):
        entered.record_event()
    with pytest.raises(ValueError, match="must be recorded"):
        torch.Event("cpu").elapsed_time(torch.Event("cpu"))
    if torch.gpu.is_available():
        start, end = torch.Event(enable_timing=True), torch.Event(enable_timing=True)
        start.record()
        (torch.ones(8, 8, device="gpu") @ torch.ones(8, 8, device="gpu")).sum()
        torch.Stream().record_event(end)
        assert end.query() and start.elapsed_time(end) > 0


def test_values_are_shared_out_and_joined():
    from rgrad.nn.parallel import gather, scatter, scatter_kwargs

    x = torch.arange(6.0).reshape(3, 2)
    parts = scatter({"x": [x, 1]}, ["cpu", "cpu"])
    assert [p["x"][0].shape[0] for p in parts] == [2, 1] and parts[1]["x"][1] == 1
    assert torch.equal(gather([p["x"][0] for p in parts], "cpu"), x)
    joined = gather([(t.sum(), {"a": t}) for t in x.split(1)], "cpu")
    assert joined[0].tolist() == [1.0, 5.0, 9.0] and torch.equal(joined[1]["a"], x)
    args, named = scatter_kwargs((x,), {}, ["cpu", "cpu"])
    assert len(args) == 2 and named == ({}, {})


def test_private_modules_and_functions_are_reached_without_an_import():
    program = "import torch; print(torch._dynamo.is_compiling(), torch._utils.__name__, torch._C._get_tracing_state())"
    assert _inside(program).split() == ["False", "rgrad._utils", "None"]
    assert torch.Future is torch.futures.Future


def test_functions_are_found_under_the_name_by_which_modules_of_pytorch_call_them():
    program = "import torch; from torch import _VF; x = torch.tensor([1.0, -3.0])"
    assert (
        _inside(program + "; print(_VF.relu(x).tolist(), torch._VF._add_relu(x, 1).tolist())")
        == "[1.0, 0.0] [2.0, 0.0]"
    )
    x = torch.tensor([1.0, -3.0])
    assert torch._VF._add_relu_(x, torch.ones(2), alpha=2) is x and x.tolist() == [3.0, 0.0]
    with pytest.raises(AttributeError, match="nothing"):
        torch._VF.nothing  # noqa: B018


def test_overlap_within_a_tensor_is_told_by_its_strides():
    overlap = torch._debug_has_internal_overlap
    x = torch.ones(3, 4)
    assert [overlap(t) for t in (x, x.t(), x[:, :0], torch.ones(1, 3))] == [0, 0, 0, 0]
    assert [overlap(t) for t in (torch.ones(3).expand(2, 3), torch.ones(()).expand(4))] == [1, 1]
    assert [overlap(t) for t in (x[::2], x.flatten().as_strided((2, 3), (1, 1)))] == [2, 2]


def test_names_of_tensors_of_one_dtype_are_no_base_classes():
    with pytest.raises(TypeError, match="type 'torch.FloatTensor' is not an acceptable base type"):

        class Floats(torch.FloatTensor):
            pass


def test_scaling_of_gradients_is_asked_for_where_packages_ask():
    program = "import torch.cuda.amp.common as c, torch; print(c is torch.cuda.amp.common"
    assert _inside(program + ", c.amp_definitely_not_available() != torch.cuda.is_available())") == "True True"


def test_a_lazy_module_is_not_compiled_before_its_shapes_are_known():
    model = torch.nn.Sequential(torch.nn.LazyLinear(2))
    with pytest.raises(RuntimeError, match=r"LazyLinear' has uninitialized parameters weight, bias. Did you forget"):
        torch.jit.script(model)
    model(torch.ones(1, 3))
    assert torch.jit.script(model) is model


def test_print_options_and_values_are_reached_as_programs_reach_them():
    from rgrad._tensor_str import PRINT_OPTS, _tensor_str

    before = torch.get_printoptions()
    try:
        PRINT_OPTS.precision = 2
        assert PRINT_OPTS.precision == 2 and torch.get_printoptions()["precision"] == 2
        assert _tensor_str(torch.tensor([[0.125, 1.0], [2.0, 3.0]], dtype=torch.float64), 2) == (
            "[[0.12, 1.00],\n   [2.00, 3.00]]"
        )
    finally:
        PRINT_OPTS.precision = before["precision"]
    assert _tensor_str(torch.tensor(3, dtype=torch.int32), 0) == "3" and _tensor_str(torch.empty(0), 0) == "[]"
    for use in (lambda: PRINT_OPTS.width, lambda: setattr(PRINT_OPTS, "width", 3)):
        with pytest.raises(AttributeError, match="no print option 'width'"):
            use()


def test_the_base_of_instance_norms_is_where_packages_import_it():
    program = "from torch.nn.modules.instancenorm import _InstanceNorm; import torch; print(_InstanceNorm.__module__)"
    assert _inside(program + "; print(issubclass(torch.nn.InstanceNorm2d, _InstanceNorm))").split() == [
        "torch.nn.modules.instancenorm",
        "True",
    ]


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"size": [2, 4]}, r"sizes mismatch! Expected: \[2, 4\], Got: \[2, 3\]"),
        ({"stride": (1, 2)}, r"strides mismatch! Expected: \[1, 2\], Got: \[3, 1\]"),
        ({"dtype": torch.float64}, "dtype mismatch! Expected: Double, Got: float"),
        ({"device": "meta"}, "device mismatch! Expected: meta, Got: cpu"),
    ],
)
def test_what_a_tensor_is_can_be_asserted(expected, words):
    x = torch.ones(2, 3)
    torch._assert_tensor_metadata(x)
    torch._assert_tensor_metadata(x, [2, 3], [3, 1], torch.float32, device="cpu", layout=torch.strided)
    with pytest.raises(RuntimeError, match=words):
        torch._assert_tensor_metadata(x, **expected)
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        torch._assert_tensor_metadata(3, **expected)


def test_the_package_is_an_attribute_of_its_modules():
    code = "import torch.autograd, torch.nn.functional as F; print(torch.autograd.torch is F.torch is torch)"
    assert _inside(code) == "True"
