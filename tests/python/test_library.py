"""Operations that a program defines: their schemas, their calls, and what may be registered for them."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import List, Optional, Sequence, Tuple, Union  # noqa: UP035 - programs write both forms

import pytest
from test_door import _inside

import rgrad as torch
from rgrad import Tensor
from rgrad._library.check import OpCheckError
from rgrad.library import Library, custom_op, infer_schema, opcheck


def _all(x: Tensor, n: int, f: float = 1e-5, b: bool = True, s: str = "sum") -> Tensor: ...  # type: ignore[empty-body]


def _lists(  # type: ignore[empty-body]
    xs: List[Tensor],  # noqa: UP006
    o: Optional[Tensor],  # noqa: UP045
    *,
    k: Sequence[int],
    d: torch.dtype = torch.float32,
    dev: torch.device | None = None,
) -> Tuple[Tensor, Tensor]: ...  # noqa: UP006


def _writes(x: Tensor, y: Tensor, z: Union[int, float, bool], q: float | None = 2.0) -> None: ...  # noqa: UP007


def _many(x: list[Tensor | None]) -> list[Tensor]: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "written", "schema"),
    [
        (_all, (), '(Tensor x, SymInt n, float f=1e-05, bool b=True, str s="sum") -> Tensor'),
        (
            _lists,
            (),
            "(Tensor[] xs, Tensor? o, *, SymInt[] k, ScalarType d=float32, Device? dev=None) -> (Tensor, Tensor)",
        ),
        (_writes, ("x", "y"), "(Tensor(a0!) x, Tensor(a1!) y, Scalar z, float? q=2.0) -> ()"),
        (_writes, "unknown", "(Tensor(a0!) x, Tensor(a1!) y, Scalar z, float? q=2.0) -> ()"),
        (_many, (), "(Tensor?[] x) -> Tensor[]"),
    ],
)
def test_a_schema_follows_from_the_annotations(function, written, schema):
    # The texts are those of PyTorch 2.15 for these functions.
    assert infer_schema(function, mutates_args=written) == schema


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(x): ...", "Parameter x must have a type annotation"),
        ("def f(x: Tensor): ...", "No return type annotation was provided"),
        ("def f(x: dict) -> Tensor: ...", "Parameter x has unsupported type <class 'dict'>"),
        ("def f(*x: Tensor) -> Tensor: ...", "varargs"),
        ("def f(x: Tensor) -> dict: ...", "Return has unsupported type"),
    ],
)
def test_a_function_whose_annotations_tell_no_schema_is_refused(text, message):
    names = {"Tensor": Tensor}
    exec(text, names)
    with pytest.raises(ValueError, match=message):
        infer_schema(names["f"], mutates_args=())


def _scaled(name: str):
    @custom_op(name, mutates_args=())
    def scaled(xs: list[Tensor], w: Tensor, *, k: float = 2.0) -> Tensor:
        return xs[0] * w * k + xs[1]

    return scaled


def test_gradients_go_by_the_formula_to_tensors_in_lists_too():
    scaled = _scaled("tests::scaled")
    seen = []

    def setup(ctx, inputs, keyword_only_inputs, output):
        ctx.save_for_backward(*inputs[0], inputs[1])
        ctx.k = keyword_only_inputs["k"]
        seen.append(output.requires_grad)

    def backward(ctx, grad):
        a, _, w = ctx.saved_tensors
        seen.append(ctx.needs_input_grad)
        return [grad * w * ctx.k, grad], grad * a * ctx.k

    scaled.register_autograd(backward, setup_context=setup)
    a, b, w = (torch.full((2,), float(i), requires_grad=True) for i in (2, 3, 5))
    result = torch.ops.tests.scaled([a, b], w, k=3.0)
    assert type(result.grad_fn).__name__ == "GeneratedBackwardFor_tests_scaled_defaultBackward"
    result.sum().backward()
    assert [t.grad.tolist() for t in (a, b, w)] == [[15.0, 15.0], [1.0, 1.0], [6.0, 6.0]]
    assert seen[1] == ([True, True], True)
    assert torch.autograd.gradcheck(
        lambda a, b, w: scaled([a, b], w), [t.detach().double().requires_grad_() for t in (a, b, w)]
    )


def test_without_a_formula_backward_says_what_is_missing():
    scaled = _scaled("tests::no_formula")
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Trying to backward through tests.no_formula.default but no autograd"):
        scaled([x, x], x).sum().backward()


def test_an_operation_writes_to_what_its_schema_says():
    @custom_op("tests::increment", mutates_args={"x"})
    def increment(x: Tensor, by: float = 1.0) -> None:
        x.add_(by)

    x = torch.zeros(2)
    before = x._version
    assert increment(x, 2.0) is None and x.tolist() == [2.0, 2.0] and x._version > before
    assert torch.ops.tests.increment.default._schema.is_mutable
    with pytest.raises(ValueError, match="mutates_args"):
        custom_op("tests::other", increment._init_fn, mutates_args=(), schema="(Tensor(a!) x) -> ()")


def test_an_operation_may_not_return_its_argument():
    same = custom_op("tests::same", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="must not also be an input"):
        same(torch.ones(1))


def test_kernels_are_chosen_by_device():
    @custom_op("tests::where", mutates_args=(), device_types="cuda")
    def where(x: Tensor) -> Tensor:
        return x + 1

    with pytest.raises(NotImplementedError, match="'tests::where' with arguments from the 'CPU' backend"):
        where(torch.ones(1))
    where.register_kernel("cpu")(lambda x: x + 2)
    assert where(torch.ones(1)).item() == 3
    with where.set_kernel_enabled("cpu", False), pytest.raises(NotImplementedError):
        where(torch.ones(1))
    assert where(torch.ones(1)).item() == 3


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "missing value for argument 'x'"),
        ((1,), {}, "Expected a value of type 'Tensor' for argument 'x' but instead found type 'int'"),
        ((torch.ones(1), 1, 2), {}, "expected at most 2 argument"),
        ((torch.ones(1),), {"x": torch.ones(1)}, "'x' is specified twice"),
        ((torch.ones(1),), {"z": 1}, "'z' is unknown"),
        ((torch.ones(1), 1.5), {}, "type 'int' for argument 'n'"),
    ],
)
def test_arguments_are_those_of_the_schema(args, kwargs, message):
    op = custom_op("tests::bound", lambda x, n: x * n, mutates_args=(), schema="(Tensor x, int n=3) -> Tensor")
    assert op(torch.ones(1)).item() == 3 and op(n=4, x=torch.ones(1)).item() == 4
    with pytest.raises(RuntimeError, match=message):
        op(*args, **kwargs)


def test_a_library_lives_as_long_as_its_object():
    lib = Library("tests_library", "DEF")
    assert lib.define("twice(Tensor x, int n=2) -> Tensor") == "twice"
    lib.impl("twice", lambda x, n=2: x * n, "CPU")
    x = torch.ones(1, requires_grad=True)
    assert torch.ops.tests_library.twice(x).grad_fn.name() == "MulBackward0"
    with pytest.raises(RuntimeError, match="Only a single"):
        Library("tests_library", "DEF")
    more = Library("tests_library", "FRAGMENT")
    more.define("thrice(Tensor x) -> Tensor")
    more.impl("thrice", lambda x: x * 3, "CompositeImplicitAutograd")
    assert dir(torch.ops.tests_library) == ["thrice", "twice"] and torch.ops.tests_library.thrice(x).item() == 3
    del lib, more
    gc.collect()
    with pytest.raises(AttributeError, match="'_OpNamespace' 'tests_library' object has no attribute 'twice'"):
        torch.ops.tests_library.twice  # noqa: B018
    Library("tests_library", "DEF")


def test_an_implementation_for_autograd_calls_the_operation_below_itself():
    lib = Library("tests_autograd", "DEF")
    lib.define("cube(Tensor x) -> Tensor")
    lib.impl("cube", lambda x: x**3, "CPU")
    calls = []

    def record(x):
        calls.append("autograd")
        return torch.ops.tests_autograd.cube(x)

    lib.impl("cube", record, "Autograd")
    assert torch.ops.tests_autograd.cube(torch.full((1,), 2.0)).item() == 8 and calls == ["autograd"]


def test_functions_at_module_level_register_by_name():
    torch.library.define("tests_functions::plus", "(Tensor x, float y) -> Tensor")
    torch.library.impl("tests_functions::plus", "default")(lambda x, y: x + y)
    assert torch.ops.tests_functions.plus(torch.ones(1), 2.0).item() == 3
    with pytest.raises(RuntimeError, match="Could not find the operator tests_functions::minus"):
        torch.library.register_fake("tests_functions::minus", lambda x: x)


def test_modes_see_the_operation_as_one_call():
    scaled = _scaled("tests::seen")
    names = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(1)
    with Mode():
        scaled([x, x], x)
    assert names[0] == "tests.seen.default"


def test_autocast_casts_what_was_registered():
    op = custom_op("tests::cast", lambda x: x + 0, mutates_args=(), schema="(Tensor x) -> Tensor")
    torch.library.register_autocast(op, "cpu", torch.bfloat16)
    assert op(torch.ones(1)).dtype == torch.float32
    with torch.autocast("cpu"):
        assert op(torch.ones(1)).dtype == torch.bfloat16


def test_opcheck_finds_what_was_registered_wrongly():
    def make(function, fake=lambda x: torch.empty_like(x), schema="(Tensor x) -> Tensor"):
        op = custom_op("tests::checked", function, mutates_args=(), schema=schema)
        if fake is not None:
            op.register_fake(fake)
        op.register_autograd(lambda ctx, g: g * 2)
        return op

    x = torch.randn(3, requires_grad=True)
    assert set(opcheck(make(lambda x: x * 2), (x,)).values()) == {"SUCCESS"}
    wrong = {
        "test_schema": lambda: make(lambda x: x.mul_(2).clone()),
        "test_faketensor": lambda: make(lambda x: x * 2, fake=lambda x: x.new_empty(7)),
        "test_aot_dispatch_dynamic": lambda: make(lambda x: x * torch.rand(3)),
    }
    for name, define in wrong.items():
        op = define()
        with pytest.raises(OpCheckError, match=name):
            opcheck(op, (x,), test_utils=name)
        assert isinstance(opcheck(op, (x,), test_utils=name, raise_exception=False)[name], Exception)
    plain = custom_op("tests::unregistered", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(OpCheckError, match="no formula for gradients"):
        opcheck(plain, (x,), test_utils="test_autograd_registration")


def test_operations_of_programs_are_under_torch_ops_with_the_door_open():
    code = """
import torch
@torch.library.custom_op("door::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2
print(torch.ops.door.double(torch.ones(1)).item(), torch.ops.door.double.default, hasattr(torch.ops.door, "other"))
"""
    assert _inside(code) == "2.0 door.double.default False"


def test_own_operations_are_called_by_their_names_and_forms():
    aten, x = torch.ops.aten, torch.tensor([[3.0, 1.0], [2.0, 4.0]])
    assert aten.add.Tensor(x, x, alpha=2).tolist() == [[9.0, 3.0], [6.0, 12.0]]
    assert aten.sort.stable(x, dim=1, stable=True)[0].tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert aten.linalg_det(x).item() == pytest.approx(10.0) and aten.relu.default(-x).sum() == 0
    assert aten._to_copy.default(x, dtype=torch.int64, layout=None).dtype == torch.int64
    assert aten.slice.Tensor(x, -1, 1).tolist() == [[1.0], [4.0]] and aten.rsub.Scalar(x, 1, 2)[0, 0] == -5
    assert aten.index.Tensor(x, [None, torch.tensor([1])]).tolist() == [[1.0], [4.0]]
    with pytest.raises(NotImplementedError, match="no sparse tensors"):
        aten._sparse_addmm.default(x, x, x)
    assert aten.alias(x).data_ptr() == x.data_ptr() and aten.transpose.int(x, 0, 1)[0, 1] == 2


def test_copies_and_pickles_of_own_operations_are_the_operations():
    aten = torch.ops.aten
    for operation in (aten.clone, aten.clone.default):
        assert copy.copy(operation) is operation and copy.deepcopy([operation])[0] is operation
        assert pickle.loads(pickle.dumps(operation)) is operation


def test_own_operations_are_keys_of_tables_and_name_themselves():
    aten = torch.ops.aten
    assert aten.clone.default is aten.clone.default and aten.clone.default is not aten.clone.out
    assert aten.clone.default.overloadpacket is aten.clone and aten.clone.default.namespace == "aten"
    assert copy.deepcopy([aten.clone, aten.clone.default]) == [aten.clone, aten.clone.default]
    assert repr(aten.clone) == "<OpOverloadPacket(op='aten.clone')>" and aten.add.Tensor.name() == "aten::add.Tensor"
    assert repr(aten.clone.default) == "<OpOverload(op='aten.clone', overload='default')>"
    assert str(aten.clone) == "aten.clone" and str(aten.add.Tensor) == "aten.add.Tensor"
    assert aten.add.Tensor.__name__ == "add.Tensor" and aten.add._qualified_op_name == "aten::add"
    assert aten.clone.default.name() == "aten::clone" and aten.clone.default.__name__ == "clone.default"
    for lookup in (lambda: aten.no_such_operation, lambda: aten.clone._hidden, lambda: torch.ops.other.clone):
        with pytest.raises(AttributeError, match="has no"):
            lookup()


def test_a_library_defines_and_implements_by_decorators():
    library = torch.library.Library("decorated", "DEF")

    @torch.library.define(library, "twice(Tensor x) -> Tensor")
    def twice(x):
        return x * 2

    library.define("thrice(Tensor x) -> Tensor")

    @torch.library.impl(library, "thrice", "CPU")
    def thrice(x):
        return x * 3

    x = torch.ones(2)
    assert torch.ops.decorated.twice(x).tolist() == [2, 2] and torch.ops.decorated.thrice(x).tolist() == [3, 3]
    with pytest.raises(TypeError, match="required to be a callable"):
        library.impl("twice", [], "CPU")
    with pytest.raises(ValueError, match="reserved namespace"):
        torch.library.Library("prim", "DEF")
    library._destroy()


def test_operations_of_a_block_are_gone_after_it():
    with torch.library._scoped_library("of_one_block", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: 2 * x, "CompositeImplicitAutograd")
        assert torch.ops.of_one_block.twice(torch.ones(1)) == 2
    with pytest.raises(AttributeError, match="no attribute 'twice'"):
        torch.ops.of_one_block.twice(torch.ones(1))


def test_an_operation_of_the_library_is_overridden_for_a_device_until_its_library_goes():
    x, calls = torch.tensor([1.0, 2.0], requires_grad=True), []

    def own(*args, **kwargs):
        calls.append(args)
        return torch.sum(*args, **kwargs) + 1  # The operation itself: the override is off in it.

    with torch.library._scoped_library("aten", "IMPL", dispatch_key="CPU") as library:
        with pytest.raises(RuntimeError, match="inconsistent with the dispatch key"):
            library.impl("sum", own, "Meta")
        library.impl("aten::sum", own)
        with pytest.raises(RuntimeError, match="already a kernel registered from python"):
            library.impl(torch.ops.aten.sum.default, own)
        y = x.sum()
        assert y.item() == 4 and len(calls) == 1
        y.backward()
        assert x.grad.tolist() == [1, 1]
        with pytest.raises(NotImplementedError, match="AutogradCPU"):
            torch.library.Library("aten", "IMPL").impl("neg", own, "AutogradCPU")
    assert x.sum().item() == 3 and len(calls) == 1


def test_implementations_are_of_operations_of_the_namespace():
    with torch.library._scoped_library("tests_of_a_namespace", "FRAGMENT") as library:
        library.define("neg(Tensor x) -> Tensor")
        with pytest.raises(RuntimeError, match="operator name does not match namespace"):
            library.impl(torch.ops.aten.neg.default, lambda x: x, "CPU")


def test_autocast_leaves_an_operation_with_a_fallthrough_as_it_is():
    a = torch.ones(2, 2)
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("mm", torch.library.fallthrough_kernel, "AutocastCPU")
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.mm(a, a).dtype == torch.float32
            assert torch.matmul(a, a).dtype == torch.bfloat16
        with pytest.raises(NotImplementedError, match="only a fallthrough_kernel"):
            library.impl("add", torch.add, "AutocastCPU")
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.mm(a, a).dtype == torch.bfloat16
