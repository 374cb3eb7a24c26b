"""Names that PyTorch keeps to itself and packages use all the same."""

import math
import os

import pytest

import rgrad as torch
from rgrad import _C
from rgrad.autograd.gradcheck import _get_numerical_jacobian, _iter_tensors
from rgrad.nn import init
from rgrad.nn.modules.transformer import _get_activation_fn


@pytest.mark.parametrize(
    ("check", "error"),
    [
        (torch._check, RuntimeError),
        (torch._check_index, IndexError),
        (torch._check_value, ValueError),
        (torch._check_type, TypeError),
        (torch._check_not_implemented, NotImplementedError),
    ],
)
def test_a_check_raises_the_error_of_its_kind_with_the_message(check, error):
    check(True, lambda: pytest.fail("the message is made on failure only"))
    with pytest.raises(error, match="two is too many"):
        check(False, lambda: "two is too many")
    with pytest.raises(error, match="text"):
        check(False, "text")
    with pytest.raises(error, match="Expected cond to be True"):
        check(False)
    with pytest.raises(TypeError, match="cond must be a bool"):
        check(1)
    with pytest.raises(TypeError, match="cond must be a bool, but got a Tensor"):
        check(torch.tensor(True))


def test_a_check_may_be_given_the_type_of_its_error():
    with pytest.raises(KeyError):
        torch._check_with(KeyError, False, "x")
    with pytest.raises(KeyError):
        torch._check_tensor_all_with(KeyError, torch.tensor([True, False]), "x")


def test_a_check_of_a_size_refuses_negative_and_too_large_numbers():
    torch._check_is_size(0)
    torch._check_is_size(3, max=3)
    with pytest.raises(RuntimeError):
        torch._check_is_size(-1)
    with pytest.raises(RuntimeError):
        torch._check_is_size(4, max=3)


def test_a_check_of_all_elements_takes_bool_tensors_only():
    torch._check_tensor_all(torch.tensor([True, True]))
    with pytest.raises(RuntimeError, match="not all"):
        torch._check_tensor_all(torch.tensor([True, False]), lambda: "not all")
    with pytest.raises(TypeError, match="cond must be a tensor"):
        torch._check_tensor_all(True)
    with pytest.raises(TypeError, match="dtype torch.bool"):
        torch._check_tensor_all(torch.tensor([1]))


@pytest.mark.parametrize("dim", [0, -1])
def test_the_derivatives_of_softmax_are_those_that_autograd_finds(dim):
    x = torch.tensor([[0.1, -2.0, 0.7], [1.5, 0.2, 0.3]], requires_grad=True)
    grad = torch.tensor([[1.0, 2.0, -0.5], [0.3, -1.0, 0.0]])
    for function, derivative in (
        (torch.softmax, torch._softmax_backward_data),
        (torch.log_softmax, torch._log_softmax_backward_data),
    ):
        y = function(x, dim)
        (wanted,) = torch.autograd.grad(y, x, grad)
        torch.testing.assert_close(derivative(grad, y.detach(), dim, x.dtype), wanted)
        assert derivative(grad, y.detach(), dim, torch.bfloat16).dtype is torch.bfloat16


def test_a_weight_normed_by_the_function_has_the_given_norms():
    v, g = torch.arange(1.0, 7.0).reshape(2, 3), torch.tensor([[2.0], [5.0]])
    torch.testing.assert_close(torch._weight_norm(v, g).norm(dim=1, keepdim=True), g)
    torch.testing.assert_close(torch._weight_norm(v, g.new_ones(1, 3), 1).norm(dim=0), torch.ones(3))


def test_rows_of_entries_and_beginnings_of_rows_are_converted_both_ways():
    rows, columns = torch.tensor([0, 0, 2, 4]), torch.tensor([1, 3, 0, 2])
    begins = torch._convert_indices_from_coo_to_csr(rows, 6)
    assert begins.tolist() == [0, 2, 2, 3, 3, 4, 4]
    assert torch._convert_indices_from_csr_to_coo(begins, columns).tolist() == [rows.tolist(), columns.tolist()]
    turned = torch._convert_indices_from_csr_to_coo(begins, columns, out_int32=True, transpose=True)
    assert turned.dtype is torch.int32 and turned.tolist() == [columns.tolist(), rows.tolist()]
    assert torch._convert_indices_from_coo_to_csr(rows, 6, out_int32=True).dtype is torch.int32


def test_a_shape_is_a_tensor_of_integers():
    shape = torch._shape_as_tensor(torch.zeros(2, 0))
    assert shape.tolist() == [2, 0] and shape.dtype is torch.int64
    assert torch._shape_as_tensor(torch.tensor(1.0)).shape == (0,)


def test_truth_of_all_or_any_elements_is_asked_of_bools_only():
    mixed = torch.tensor([True, False])
    assert not torch._is_all_true(mixed).item() and torch._is_any_true(mixed).item()
    with pytest.raises(RuntimeError, match="torch.bool"):
        torch._is_all_true(torch.tensor([1]))
    with pytest.raises(RuntimeError, match="torch.bool"):
        torch._is_any_true(torch.tensor([1]))


def test_segments_are_reduced_under_the_private_name_too():
    assert torch._segment_reduce(torch.arange(6.0), "sum", offsets=torch.tensor([0, 2, 6])).tolist() == [1, 14]


def test_print_options_hold_within_their_context_and_after_an_error():
    x, before = torch.tensor([math.pi]), torch.get_printoptions()
    with torch._tensor_str.printoptions(precision=2):
        assert repr(x) == "tensor([3.14])"
    with pytest.raises(KeyError), torch._tensor_str.printoptions(precision=1, sci_mode=True):
        raise KeyError
    assert torch.get_printoptions() == before


def test_unrecorded_initialization_fills_parameters():
    p = torch.nn.Parameter(torch.zeros(3))
    assert init._no_grad_fill_(p, 2.0).tolist() == [2, 2, 2]
    assert init._no_grad_zero_(p).tolist() == [0, 0, 0]
    assert init._no_grad_uniform_(p, 3.0, 4.0).min().item() >= 3
    assert init._no_grad_normal_(p, 5.0, 0.0).tolist() == [5, 5, 5]
    assert init._no_grad_trunc_normal_(p, 0.0, 1.0, -0.1, 0.1).abs().max().item() <= 0.1


def test_an_activation_is_found_by_its_name():
    assert _get_activation_fn("relu")(torch.tensor(-1.0)).item() == 0
    with pytest.raises(RuntimeError, match="activation should be relu/gelu"):
        _get_activation_fn("tanh")


def test_the_folder_of_caches_is_that_of_the_environment(monkeypatch):
    monkeypatch.setenv("TORCH_HOME", "/somewhere")
    assert torch.hub._get_torch_home() == "/somewhere"
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert torch.hub._get_torch_home() == "/caches/torch"


def test_the_core_answers_what_programs_ask_of_it():
    assert _C._are_functorch_transforms_active() is False  # type: ignore[attr-defined]
    assert _C._get_default_device() == torch.get_default_device().type  # type: ignore[attr-defined]
    assert _C._get_privateuse1_backend_name() == "privateuseone"  # type: ignore[attr-defined]


def test_extensions_in_other_languages_are_refused_when_used():
    from rgrad.utils import cpp_extension

    with pytest.raises(NotImplementedError, match=r"torch\.utils\.cpp_extension\.load"):
        cpp_extension.load(name="x", sources=["x.cpp"])
    assert cpp_extension.CUDA_HOME is None


def test_no_package_orders_contractions():
    assert not torch.backends.opt_einsum.is_available()
    assert torch.backends.opt_einsum.get_opt_einsum() is None


def test_classes_of_graphs_serve_annotations_only():
    assert isinstance(_C.Graph, type) and isinstance(_C.Value, type)  # type: ignore[attr-defined]
    with pytest.raises(NotImplementedError, match=r"torch\._C\.Graph"):
        _C.Graph()  # type: ignore[attr-defined]


def test_tensors_are_grouped_by_device_and_dtype_with_what_belongs_to_them():
    from rgrad.utils import _foreach_utils as utils

    params = [torch.ones(1), torch.ones(2, dtype=torch.float64), torch.ones(3), torch.ones(4, device="meta")]
    groups = utils._group_tensors_by_device_and_dtype([params, ["a", "b", None, "d"], []], with_indices=True)
    cpu, meta = torch.device("cpu"), torch.device("meta")
    assert {key: (parts[1], places) for key, (parts, places) in groups.items()} == {
        (cpu, torch.float32): (["a", None], [0, 2]),
        (cpu, torch.float64): (["b"], [1]),
        (meta, torch.float32): (["d"], [3]),
    }
    assert all(parts[2] == [] for parts, _ in groups.values())
    assert groups[cpu, torch.float32][0][0][1] is params[2]
    assert utils._group_tensors_by_device_and_dtype([params])[meta, torch.float32][1] == []
    for wrong in ([], [params, params[:2]], [[None]]):
        with pytest.raises(RuntimeError):
            utils._group_tensors_by_device_and_dtype(wrong)
    assert utils._has_foreach_support([*params, None], cpu) and not utils._has_foreach_support([1], cpu)
    assert not utils._has_foreach_support(params, meta)
    assert "cpu" in utils._get_fused_kernels_supported_devices()
    assert "meta" not in utils._get_foreach_kernels_supported_devices()


def test_samples_of_gamma_distributions_have_the_mean_and_gradients_by_the_shape():
    shape = torch.full((4000,), 3.0, requires_grad=True)
    torch.manual_seed(0)
    drawn = torch._standard_gamma(shape)
    assert abs(drawn.mean().item() - 3) < 0.2
    drawn.mean().backward()
    assert shape.grad is not None and abs(shape.grad.sum().item() - 1) < 0.1  # the mean's derivative


def test_a_module_has_other_tensors_within_a_context():
    from rgrad.nn.utils.stateless import _reparametrize_module

    module = torch.nn.Linear(2, 2)
    weight, x = module.weight, torch.ones(1, 2)
    with _reparametrize_module(module, {"weight": torch.eye(2), "bias": torch.zeros(2)}):
        assert module(x).tolist() == [[1, 1]]
    assert module.weight is weight


def test_the_older_name_of_the_download_of_parameters_is_kept():
    from rgrad.utils import model_zoo

    assert model_zoo.load_url is torch.hub.load_state_dict_from_url


def test_the_state_of_overrides_can_be_read_and_restored():
    get, set_ = _C._get_torch_function_state, _C._set_torch_function_state  # type: ignore[attr-defined]
    State = _C._TorchFunctionState  # type: ignore[attr-defined]
    assert get() is State.ENABLED
    with _C.DisableTorchFunctionSubclass():  # type: ignore[attr-defined]
        before = get()
        assert before is State.SUBCLASSES_DISABLED
        set_(State.ALL_DISABLED)
        assert get() is State.ALL_DISABLED
        set_(before)
    assert get() is State.ENABLED
    with pytest.raises(TypeError, match="expected _TorchFunctionState"):
        set_(1)


def test_the_core_says_which_libraries_it_has():
    names = ("has_lapack", "has_mkl", "has_openmp", "has_spectral")
    assert [getattr(_C, n) for n in names] == [getattr(torch, n) for n in names] == [True, False, False, False]


def test_the_core_names_the_instruction_set_that_it_uses():
    names = {"baseline": "DEFAULT", "avx2": "AVX2", "avx512": "AVX512"}
    assert _C._get_cpu_capability() == names[torch.cpu.get_cpu_capability()]  # type: ignore[attr-defined]
    assert torch._utils._is_privateuse1_backend_available() is False


def test_private_modules_are_found_without_an_import_of_their_own():
    assert torch.utils._mode_utils.all_same_mode([1, 1])
    found = torch.utils._import_utils._check_module_exists
    assert found("math") and not found("no_such_package") and not found("no_such_package.part")


def test_a_numerical_jacobian_has_a_matrix_for_each_input_and_output():
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    fixed = torch.ones(1, dtype=torch.float64)
    [(square, total)] = _get_numerical_jacobian(lambda x, y: (x * x * y, x.sum(), y), [x, fixed], eps=1e-6)
    torch.testing.assert_close(square, torch.tensor([[2.0, 0.0], [0.0, 4.0]], dtype=torch.float64))
    torch.testing.assert_close(total, torch.ones(2, 1, dtype=torch.float64))
    assert list(_iter_tensors([x, (fixed, 3, "no tensor")])) == [x, fixed]
    assert list(_iter_tensors([x, fixed], only_requiring_grad=True)) == [x]


def test_a_function_of_cuda_code_is_refused_when_it_is_called():
    function = torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x) { return x; }")
    with pytest.raises(NotImplementedError, match="no compiler for CUDA"):
        function(torch.ones(1))


def test_transforms_are_disabled_where_there_are_none():
    def double(x):
        with _C._DisableFuncTorch():
            return x * 2

    assert double(torch.ones(2)).tolist() == [2, 2]
    assert torch.func.grad(lambda x: double(x).sum())(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(NotImplementedError, match="_DisableFuncTorch"):
        torch.vmap(double)(torch.ones(2, 3))


def test_a_path_that_cannot_be_written_is_replaced_by_a_new_folder(tmp_path):
    from rgrad import _utils_internal as internal

    file = tmp_path / "log.txt"
    file.write_text("")
    assert internal.get_writable_path(str(file)) == str(file)
    assert internal.get_writable_path(str(tmp_path)) == str(tmp_path)
    made = internal.get_writable_path(str(tmp_path / "none" / "traces"))
    assert os.path.isdir(made) and made.endswith("traces") and not os.path.exists(tmp_path / "none")
    os.rmdir(made)
    assert os.path.isfile(internal.get_file_path("rgrad", "version.py"))
    assert internal.get_file_path_2("a", "b", "c") == os.path.join("a", "b", "c")
    os.symlink(file, tmp_path / "link")
    assert internal.resolve_library_path(str(tmp_path / "link")) == os.path.realpath(file)
    internal.prepare_multiprocessing_environment(str(tmp_path))


@pytest.mark.parametrize("k", [0, 3, 2048])
def test_matrices_of_int8_are_multiplied_without_rounding(k):
    a = torch.full((2, k), -128, dtype=torch.int8)
    b = torch.full((3, k), 127, dtype=torch.int8).t()
    product = torch._int_mm(a, b)
    assert product.dtype == torch.int32 and product.tolist() == [[-128 * 127 * k] * 3] * 2
    out = torch.empty(2, 3, dtype=torch.int32)
    assert torch._int_mm(a, b, out=out) is out and torch.equal(out, product)


def test_products_of_int8_refuse_other_dtypes_and_shapes():
    a = torch.ones(2, 3, dtype=torch.int8)
    with pytest.raises(RuntimeError, match="expected scalar type Char but found Float"):
        torch._int_mm(a.float(), a)
    with pytest.raises(RuntimeError, match=r"self.size\(1\) needs to match mat2.size\(0\) but got 3 and 2"):
        torch._int_mm(a, a)
    with pytest.raises(RuntimeError, match="Expected result dtype to be of type kInt"):
        torch._int_mm(a, a.t(), out=torch.empty(2, 2))
    with pytest.raises(RuntimeError, match=r"Expected result.size\(0\) to be 2 but got 3"):
        torch._int_mm(a, a.t(), out=torch.empty(3, 2, dtype=torch.int32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_weight_of_int8_is_multiplied_with_a_scale_for_each_row(dtype):
    weight = torch.tensor([[1, 2], [-3, 4]], dtype=torch.int8)
    scales = torch.tensor([0.5, 2.0], dtype=dtype)
    result = torch._weight_int8pack_mm(torch.ones(1, 2, dtype=dtype), weight, scales)
    assert result.dtype == dtype and result.tolist() == [[1.5, 2.0]]
    with pytest.raises(RuntimeError, match="expect scales to have the shape"):
        torch._weight_int8pack_mm(torch.ones(1, 2, dtype=dtype), weight, scales[:1])


def test_former_names_of_functional_call_and_disable_are_there():
    layer = torch.nn.Linear(1, 1)
    given = {"weight": torch.full((1, 1), 2.0), "bias": torch.ones(1)}
    assert torch.nn.utils.stateless._functional_call(layer, given, torch.ones(1)).item() == 3.0
    assert torch._disable_dynamo(lambda x: x + 1)(1) == torch._disable_dynamo(recursive=False)(lambda x: x + 1)(1) == 2


def test_the_tensor_classes_are_those_of_the_dtypes():
    assert torch.FloatTensor in torch._tensor_classes and torch.BoolTensor in torch._tensor_classes


def test_the_older_vmap_lets_none_pass():
    from rgrad._vmap import _vmap

    doubled, none, total = _vmap(lambda x: (x * 2, None, x.sum()), allow_none_pass_through=True)(torch.ones(3, 2))
    assert torch.equal(doubled, torch.full((3, 2), 2.0)) and none is None and total.tolist() == [2.0] * 3
    assert _vmap(torch.sum)(torch.ones(3, 2)).tolist() == [2.0] * 3
    assert _vmap(lambda x: None, allow_none_pass_through=True)(torch.ones(3)) is None


def test_jacobians_of_older_programs_come_with_what_was_found_out_about_them():
    from rgrad.autograd.gradcheck import get_analytical_jacobian, get_numerical_jacobian

    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    expected = torch.tensor([[2.0, 0.0], [0.0, 4.0]], dtype=torch.float64)
    with pytest.warns(FutureWarning, match="was part of PyTorch's private API"):
        (numerical,) = get_numerical_jacobian(lambda xs: (xs[0] ** 2, xs[0]), (x,), eps=1e-6)
    torch.testing.assert_close(numerical, expected)
    with pytest.warns(FutureWarning, match="was part of PyTorch's private API"):
        (analytical,), agree, sizes, dtypes = get_analytical_jacobian((x,), x**2)
    assert torch.equal(analytical, expected) and agree and sizes and dtypes
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="Expected grad_out to be 1.0"):
        get_analytical_jacobian((x,), x**2, grad_out=2.0)


def test_what_programs_import_from_inside_the_dispatcher_is_there_and_says_what_it_cannot_do():
    from rgrad._core_names import ShapeEnv, enable_python_dispatcher, no_python_dispatcher
    from rgrad._ops import HigherOrderOperator
    from rgrad.functorch._internal import enable_single_level_autograd_function, exposed_in

    with enable_python_dispatcher(), no_python_dispatcher(), enable_single_level_autograd_function():
        assert (torch.ones(1) + 1).item() == 2
    assert exposed_in("torch.func")(lambda: None).__module__ == "torch.func"
    assert torch._C._functorch.is_batchedtensor(torch.ones(1)) is False
    assert torch._C.DispatchKey is torch.DispatchKey and torch._C.DispatchKeySet is torch.DispatchKeySet
    with pytest.raises(AttributeError, match="has no attribute '_nothing'"):
        torch._C._nothing  # noqa: B018

    class Mine(HigherOrderOperator):
        pass

    for absent in (Mine, ShapeEnv, torch._C._ExcludeDispatchKeyGuard, torch._C.DispatchKeySet):
        with pytest.raises(NotImplementedError, match="is not in rgrad"):
            absent()


def test_modes_are_pushed_and_popped_and_wrapped_tensors_replaced():
    from rgrad.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode, transform_subclass

    class Names(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    names = Names()
    _push_mode(names)
    torch.ones(1).neg()
    assert _pop_mode() is names and names.seen == ["aten.ones.default", "aten.neg.default"]

    class Pair(torch.Tensor):
        @staticmethod
        def __new__(cls, a, b):
            made = torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)
            made.a, made.b = a, b
            return made

        def __tensor_flatten__(self):
            return ["a", "b"], None

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return Pair(inner["a"], inner["b"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise AssertionError

    pair = Pair(torch.ones(2), torch.zeros(2))
    found = transform_subclass(pair, lambda name, t: t + (5 if name == "b" else 1))
    assert found.a.tolist() == [2, 2] and found.b.tolist() == [5, 5]
    with pytest.raises(AssertionError, match="were asked for"):
        transform_subclass(pair, lambda name, t: t, (3,), (1,))
