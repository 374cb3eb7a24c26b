"""Every mistake gives PyTorch's exception and words, and leaves the library usable."""

import pytest

import rgrad as torch
from rgrad import nn
from rgrad.nn import functional as F


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


def in_place_on_a_leaf():
    leaf(2).add_(1)


def saved_tensor_changed():
    x = leaf(2)
    y = x * 2
    z = (y * y).sum()
    y.zero_()
    z.backward()


def backward_twice():
    x = leaf(2)
    y = (x * x).sum()
    y.backward()
    y.backward()


CASES = [
    (
        lambda: torch.ones(2, 3) + torch.ones(2, 4),
        RuntimeError,
        r"The size of tensor a \(3\) must match the size of tensor b \(4\) at non-singleton dimension 1",
    ),
    (
        lambda: torch.ones(2, 3) @ torch.ones(4, 5),
        RuntimeError,
        r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)",
    ),
    (
        lambda: nn.Linear(3, 2)(torch.ones(4, 5)),
        RuntimeError,
        r"mat1 and mat2 shapes cannot be multiplied \(4x5 and 3x2\)",
    ),
    (
        lambda: torch.ones(2).sum(dim=3),
        IndexError,
        r"Dimension out of range \(expected to be in range of \[-1, 0\], but got 3\)",
    ),
    (lambda: torch.ones(2, 3).view(7), RuntimeError, r"shape '\[7\]' is invalid for input of size 6"),
    (backward_twice, RuntimeError, "Trying to backward through the graph a second time"),
    (
        lambda: (leaf(2) * 2).backward(),
        RuntimeError,
        "grad can be implicitly created only for scalar outputs",
    ),
    (
        lambda: torch.ones(()).backward(),
        RuntimeError,
        "element 0 of tensors does not require grad and does not have a grad_fn",
    ),
    (
        in_place_on_a_leaf,
        RuntimeError,
        "a leaf Variable that requires grad is being used in an in-place operation",
    ),
    (
        saved_tensor_changed,
        RuntimeError,
        "modified by an inplace operation.*is at version 1; expected version 0",
    ),
    (lambda: torch.device("toaster"), RuntimeError, "Expected one of cpu, cuda.*toaster"),
    (lambda: torch.ones(2).to("cuda:9"), RuntimeError, "No GPU is available|invalid device ordinal"),
    (lambda: torch.tensor([1]) // torch.tensor([0]), RuntimeError, "ZeroDivisionError"),
    (lambda: torch.ones(3)[5], IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    (lambda: torch.ones(3)[0, 0], IndexError, "too many indices for tensor of dimension 1"),
    (
        lambda: torch.ones(2, dtype=torch.int64).requires_grad_(),
        RuntimeError,
        "only Tensors of floating point dtype can require gradients",
    ),
    (
        lambda: leaf(2).numpy(),
        RuntimeError,
        r"Can't call numpy\(\) on Tensor that requires grad. Use tensor.detach\(\).numpy\(\) instead.",
    ),
    (lambda: torch.ones(2).item(), RuntimeError, "a Tensor with 2 elements cannot be converted to Scalar"),
    (
        lambda: bool(torch.ones(2)),
        RuntimeError,
        "Boolean value of Tensor with more than one value is ambiguous",
    ),
    (lambda: len(torch.ones(())), TypeError, r"len\(\) of a 0-d tensor"),
    (
        lambda: torch.ones(2, dtype=torch.int64).add_(0.5),
        RuntimeError,
        "result type Float can't be cast to the desired output type Long",
    ),
    (
        lambda: torch.ones(1, 2).expand(3, 2).add_(1),
        RuntimeError,
        "more than one element of the written-to tensor refers to a single memory location",
    ),
    (
        lambda: torch.relu(torch.ones(2), nonsense=1),
        TypeError,
        r"relu\(\) got an unexpected keyword argument 'nonsense'",
    ),
    (
        lambda: torch.sum(torch.ones(2), nonsense=1),
        TypeError,
        r"sum\(\) received an invalid combination of arguments - got \(Tensor, nonsense=int\), but expected one of:\n"
        r" \* \(Tensor input, \*, torch.dtype dtype = None\)\n",
    ),
    (
        lambda: torch.add("a"),
        TypeError,
        r"add\(\) received an invalid combination of arguments - got \(str\), but expected \(Tensor input, "
        r"Tensor other, \*, Number alpha = 1, Tensor out = None\)",
    ),
    (
        lambda: torch.ones(2).masked_fill("a", 1),
        TypeError,
        r" \* \(Tensor mask, Number value\)\n      didn't match because some of the arguments have invalid types: "
        r"\(!str!, !int!\)",
    ),
    (
        lambda: torch.mul(),
        TypeError,
        r'mul\(\) missing 2 required positional argument: "input", "other"',
    ),
    (
        lambda: torch.ones(2).tril(1, 2),
        TypeError,
        r"tril\(\) takes from 0 to 1 positional arguments but 2 were given",
    ),
    (
        lambda: torch.ones(2).expand(0, "a"),
        TypeError,
        r"failed to unpack the object at pos 2 with error \"type must be tuple of ints,but got str\"",
    ),
    (
        lambda: torch.relu("x"),
        TypeError,
        r"relu\(\): argument 'input' \(position 1\) must be Tensor, not str",
    ),
    (lambda: torch.tensor([[1, 2], [3]]), ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
    (
        lambda: nn.Linear(2, 2).load_state_dict({"weight": torch.ones(2, 2), "wieght": torch.ones(2)}),
        RuntimeError,
        r'Missing key\(s\) in state_dict: "bias"(.|\n)*Unexpected key\(s\) in state_dict: "wieght"',
    ),
    (
        lambda: nn.functional.cross_entropy(torch.ones(2, 3), torch.tensor([0, 5])),
        IndexError,
        "Target 5 is out of bounds",
    ),
]


@pytest.mark.parametrize("mistake,kind,words", CASES, ids=range(len(CASES)))
def test_a_mistake_is_told_in_pytorchs_words(mistake, kind, words):
    with pytest.raises(kind, match=words):
        mistake()
    assert (torch.ones(2) + 1).tolist() == [2.0, 2.0]


NUMBER_FOR_SIZE = r"must be tuple of ints, not int"


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.reshape(x, -1),
        lambda x: torch.flip(x, 0),
        lambda x: torch.tile(x, 2),
        lambda x: torch.full(3, 1.0),
        lambda x: torch.zeros(size=3),
        lambda x: torch.randint(5, 3),
        lambda x: x.new_full(3, 1),
        lambda x: x.unflatten(1, 3),
        lambda x: torch.rot90(x, 1, 0),
        lambda x: torch.as_strided(x, 2, 1),
        lambda x: nn.functional.pad(x, 1),
    ],
    ids=range(11),
)
def test_a_number_is_no_size_where_sizes_are_not_given_one_by_one(call):
    x = torch.ones(2, 3)
    with pytest.raises(TypeError, match=NUMBER_FOR_SIZE):
        call(x)
    assert x.reshape(-1).shape == x.view(6).shape == torch.zeros(6).shape
    assert x.sum(1).shape == x.sum((1,)).shape


@pytest.mark.parametrize(
    "call,words",
    [
        (lambda x: x.t(1), r"TensorBase.t\(\) takes no arguments \(1 given\)"),
        (lambda x: x.exp_(1, 2), r"TensorBase.exp_\(\) takes no arguments \(2 given\)"),
        (lambda x: x.exp(a=1), r"TensorBase.exp\(\) takes no keyword arguments"),
        (lambda x: x.exp(out=x), r"TensorBase.exp\(\) takes no keyword arguments"),
        (lambda x: x.sum(keepdim=True), r"sum\(\) received an invalid .* - got \(keepdim=bool, \), but"),
        (lambda x: x.transpose(torch.tensor([0]), 1), r"argument 'dim0' \(position 1\) must be int, not Tensor"),
    ],
    ids=range(6),
)
def test_methods_refuse_what_they_do_not_take(call, words):
    with pytest.raises(TypeError, match=words):
        call(torch.ones(2, 3))


@pytest.mark.parametrize(
    "call,kind,words",
    [
        (lambda i: i.mean(5), NotImplementedError, "could not infer output dtype"),
        (lambda i: i.var(5), NotImplementedError, "only support floating point"),
        (lambda i: i.float() & torch.ones(2, 5), RuntimeError, r"The size of tensor a \(3\) must match"),
        (lambda i: i[0].cross(i, 0), RuntimeError, "must have the same number of dimensions"),
        (lambda i: i.bool().cross(i, 1), NotImplementedError, "\"cross\" not implemented for 'Bool'"),
        (lambda i: torch.tensor([True]).topk(3), RuntimeError, "selected index k out of range"),
        (lambda i: i[:1, :1].logical_and_(torch.ones(2, 3)), RuntimeError, "output with shape"),
        (lambda i: i.to(-2), RuntimeError, "Device index must not be negative"),
        (lambda i: torch.device(-1), RuntimeError, "Device index must not be negative"),
        (lambda i: torch.set_rng_state([1]), TypeError, "expected a torch.ByteTensor, but got list"),
        (lambda i: i.float().float_power_(2), RuntimeError, "the operation's result requires dtype Double"),
    ],
    ids=range(11),
)
def test_of_two_mistakes_that_is_told_which_pytorch_meets_first(call, kind, words):
    with pytest.raises(kind, match=words):
        call(torch.ones(2, 3, dtype=torch.int32))


@pytest.mark.parametrize(
    "call,kind,words",
    [
        (lambda f: f.cross_entropy(torch.ones(2, 3), torch.tensor([0, 1]), reduction=None), ValueError, "None is not"),
        (lambda f: f.mse_loss(torch.ones(2), torch.ones(2), reduction="bad"), ValueError, "bad is not a valid value"),
        (lambda f: f.layer_norm(torch.ones(2, 3), 3), TypeError, "must be tuple of ints, not int"),
        (lambda f: f.pixel_shuffle(torch.ones(4, 2, 2), 0), RuntimeError, "positive upscale_factor, but got 0"),
        (lambda f: f.nll_loss(torch.ones(2, 3), torch.tensor(1)), ValueError, r"match target batch_size \(0\)"),
        (lambda f: f.adaptive_avg_pool2d(torch.ones(1, 4, 4), -1), RuntimeError, "but received {-1, -1}"),
    ],
    ids=range(6),
)
def test_functions_of_networks_tell_mistakes(call, kind, words):
    with pytest.raises(kind, match=words):
        call(nn.functional)


def test_nothing_is_divided_by_zero_where_there_is_nothing():
    none = torch.zeros(0, dtype=torch.int64)
    assert (none // 0).shape == (none % 0).shape == none.fmod(torch.tensor(0)).shape == (0,)


def test_an_exception_in_a_hook_comes_out_of_backward_unchanged():
    class Stop(Exception):
        pass

    def stop(grad):
        raise Stop("enough")

    x = leaf(2)
    x.register_hook(stop)
    with pytest.raises(Stop, match="enough"):
        x.sum().backward()
    assert x.grad is None


def test_ctrl_c_stops_a_long_backward():
    import _thread
    import signal
    import threading

    x = leaf(1)
    y = x
    for _ in range(700_000):
        y = y * 1.0
    # A shell starts what runs in the background with interrupts ignored, and Python then leaves them so.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.2, _thread.interrupt_main).start()
        with pytest.raises(KeyboardInterrupt):
            for _ in range(200):
                y.backward(retain_graph=True)
    finally:
        signal.signal(signal.SIGINT, before)


def test_arguments_given_one_by_one_leave_room_for_keywords():
    x = torch.ones(2)
    assert len(torch.meshgrid(x, x, indexing="ij")) == 2
    made = torch.zeros(1, 2, 3, 4, dtype=torch.float64, device="cpu", requires_grad=True, pin_memory=False)
    assert made.shape == (1, 2, 3, 4)


@pytest.mark.parametrize("other", [1, 1.5, torch.ones(1), torch.ones(1, dtype=torch.uint8)])
def test_bools_are_neither_subtracted_nor_subtracted_from(other):
    mask = torch.tensor([True])
    for subtract in (lambda: mask - other, lambda: other - mask, lambda: torch.sub(mask, other)):
        with pytest.raises(NotImplementedError, match="with a bool tensor is not supported"):
            subtract()
    for both in (lambda: mask - True, lambda: mask - mask):
        with pytest.raises(NotImplementedError, match="with two bool tensors is not supported"):
            both()
    with pytest.raises(NotImplementedError, match="The `\\+` operator, on a bool tensor is not supported"):
        _ = +mask


def test_elements_are_not_deleted():
    with pytest.raises(TypeError, match="Tensor does not support deleting items"):
        del torch.ones(3)[0]


def test_a_number_that_fills_integers_is_cut():
    x = torch.tensor([1, 2, 3])
    assert x.masked_fill(x > 1, 1.5).tolist() == [1, 1, 1]


def test_python_numbers_are_made_of_one_element_only():
    for number in (int, float):
        with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
            number(torch.ones(2))


def test_backward_says_which_input_and_how_many():
    x, unused = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="The differentiated Tensor at index 1 appears to not have been used"):
        torch.autograd.grad(x.sum(), [x, unused])
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `backward\(\)` cannot be empty\."):
        x.sum().backward(inputs=[])
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        x.sum().backward(inputs=torch.ones(1))
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        torch.autograd.grad((x * 2, x * 3), [x], (torch.ones(2),))


def test_gradients_and_flags_of_the_wrong_kind_are_refused():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"attempting to assign a gradient of size '\[2\]' to a tensor of size '\[3\]'"
    ):
        x.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        x.requires_grad = 1
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got int"):
        x.data = 1
    with pytest.raises(ValueError, match="batch_norm eps must be positive during training, but got 0"):
        torch.nn.functional.batch_norm(torch.ones(4, 2), None, None, training=True, eps=0)
    with pytest.raises(TypeError, match=r"zeros\(\): argument 'layout' .*must be torch.layout, not str"):
        torch.zeros(3, layout="sparse")


def test_what_is_no_root_input_or_gradient_is_named():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="all inputs have to be Tensors or GradientEdges, but got str"):
        torch.autograd.grad(x.sum(), "a")
    with pytest.raises(TypeError, match="gradients can be either Tensors or None, but got str"):
        torch.autograd.grad(x.sum(), x, "a")


def test_a_keyword_has_no_position_and_a_methods_object_none_either():
    x = torch.ones(2)
    with pytest.raises(TypeError, match=r"^add\(\): argument 'alpha' must be Number, not str$"):
        torch.add(x, x, alpha="a")
    with pytest.raises(TypeError, match=r"^is_set_to\(\): argument 'tensor' \(position 1\) must be Tensor, not int$"):
        x.is_set_to(1)
    with pytest.raises(TypeError, match=r"^view\(\) received an invalid combination of arguments - got \(str\)"):
        x.view("a")


def test_a_strange_element_of_a_sequence_is_named():
    with pytest.raises(TypeError, match="^expected Tensor as element 1 in argument 0, but got int$"):
        torch.cat([torch.ones(1), 1])
    with pytest.raises(TypeError, match="failed to unpack the object at pos 2 with error \"type must be tuple of ints"):
        torch.zeros((2, 2.0))


def test_an_operand_that_is_none_is_told_without_the_module_of_tensor():
    with pytest.raises(TypeError, match=r"^unsupported operand type\(s\) for \+: 'Tensor' and 'str'$"):
        torch.ones(1) + "a"
    with pytest.raises(TypeError, match="^'<' not supported between instances of 'Tensor' and 'NoneType'$"):
        torch.ones(1) < None  # noqa: B015


def test_a_spread_without_degrees_of_freedom_warns():
    with pytest.warns(UserWarning, match=r"std\(\): degrees of freedom is <= 0"):
        assert torch.ones(1).std().isnan()


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: F.batch_norm(torch.ones(1, 2, 1), None, None, training=True),
            ValueError,
            r"Expected more than 1 value per channel when training, got input size torch.Size\(\[1, 2, 1\]\)",
        ),
        (
            lambda: F.group_norm(torch.ones(1, 4), 4),
            ValueError,
            r"Expected more than 1 value per channel when training, got input size \[1, 4\]",
        ),
        (
            lambda: nn.LayerNorm(3)(torch.ones(2, 3).double()),
            RuntimeError,
            r"mixed dtype \(CPU\): all inputs must share same datatype\.",
        ),
        (
            lambda: F.layer_norm(torch.ones(2, 3), (3,), torch.ones(3).half()),
            RuntimeError,
            r"mixed dtype \(CPU\): expect parameter to have scalar type of Float",
        ),
        (
            lambda: F.linear(torch.ones(2, 3), torch.ones(2, 3), torch.ones(2).double()),
            RuntimeError,
            "self and mat2 must have the same dtype, but got Double and Float",
        ),
        (
            lambda: F.linear(torch.ones(2, 3).double(), torch.ones(2, 3), torch.ones(2)),
            RuntimeError,
            "mat1 and mat2 must have the same dtype, but got Double and Float",
        ),
        (
            lambda: torch.bmm(torch.ones(1, 2, 3), torch.ones(1, 3, 2).double()),
            RuntimeError,
            "expected scalar type Float but found Double",
        ),
        (
            lambda: nn.Conv1d(2, 4, 3)(torch.ones(1, 2, 6, dtype=torch.int64)),
            RuntimeError,
            r"Input type \(long int\) and bias type \(float\) should be the same",
        ),
        (
            lambda: nn.AdaptiveMaxPool2d(2)(torch.ones(2, 0, 4, 4)),
            RuntimeError,
            r"input has sizes \[2, 0, 4, 4\] with dimension 1 being empty",
        ),
        (
            lambda: F.kl_div(torch.ones(2), torch.ones(2, dtype=torch.int64), reduction="sum"),
            RuntimeError,
            "kl_div: Integral inputs not supported.",
        ),
        (
            lambda: nn.CosineEmbeddingLoss()(torch.ones(2, 3), torch.ones(2, 3), torch.tensor(1)),
            RuntimeError,
            r"0D target tensor expects 1D input tensors, but found inputs with sizes \[2, 3\] and \[2, 3\]\.",
        ),
        (
            lambda: nn.TripletMarginLoss()(torch.ones(2, 3), torch.ones(3), torch.ones(2, 3)),
            RuntimeError,
            "but got: anchor 2D, positive 1D, and negative 2D inputs",
        ),
        (lambda: nn.MultiMarginLoss()(torch.ones(2, 3), torch.tensor([0, 3])), RuntimeError, "target out of range"),
        (
            lambda: nn.MultiLabelMarginLoss()(torch.ones(1, 3), torch.tensor([[0, 3, -1]])),
            RuntimeError,
            "argument #2 'target' is out of range",
        ),
        (
            lambda: nn.EmbeddingBag(5, 3)(torch.tensor([0, 1, 5]), torch.tensor([0])),
            RuntimeError,
            r"Index 2 of input takes value 5 which is not in the valid range \[0, 5\)",
        ),
        (
            lambda: nn.EmbeddingBag(5, 3)(torch.tensor([0, 1]), torch.tensor([0, 4])),
            RuntimeError,
            r"offsets\[-1\] can not be greater than input's length 2 but got offsets\[-1\] of 4",
        ),
        (
            lambda: nn.PixelUnshuffle(2)(torch.ones(1, 1, 3, 4)),
            RuntimeError,
            r"pixel_unshuffle expects height to be divisible by downscale_factor, but input.size\(-2\)=3",
        ),
        (
            lambda: F.group_norm(torch.ones(2, 0, 3), 2),
            RuntimeError,
            "Expected number of channels to be greater than 0, got 0",
        ),
        (lambda: F.group_norm(torch.ones(2, 2, 0), 2), RuntimeError, "Expected HxW to be greater than 0, got 0"),
        (
            lambda: F.rms_norm(torch.ones(2, 4), (4,), torch.ones(3)),
            RuntimeError,
            r"Expected weight to be of same shape as normalized_shape, but got weight of shape \[3\] and "
            r"normalized_shape = \[4\]",
        ),
        (
            lambda: F.nll_loss(torch.ones(2, 3, 4, 5), torch.zeros(2, 4, dtype=torch.int64)),
            RuntimeError,
            r"only batches of spatial targets supported \(3D tensors\) but got targets of dimension: 2",
        ),
        (
            lambda: F.nll_loss(torch.ones(2, 3, 4, 5), torch.zeros(2, 4, 4, dtype=torch.int64)),
            RuntimeError,
            r"size mismatch \(got input: \[2, 3, 4, 5\] , target: \[2, 4, 4\]",
        ),
        (lambda: F.rrelu(torch.ones(2), 0.3, 0.1), RuntimeError, "Lower bound should be less than or equal to the"),
        (
            lambda: F.max_unpool2d(torch.ones(4, 4), torch.zeros(4, 4, dtype=torch.int64), 3, 2),
            RuntimeError,
            "Input to max_unpooling2d should be a 3d or 4d Tensor, but got a tensor with 2 dimensions",
        ),
        (
            lambda: F.max_unpool3d(torch.ones(1, 2, 2, 2), torch.zeros(1, 2, 2, 2, dtype=torch.int64), 3, 0),
            RuntimeError,
            r"strides should be greater than zero, but got stride: \[0, 0, 0\]",
        ),
        (
            lambda: F.linear_cross_entropy(torch.ones(3), torch.ones(2, 4, 3), torch.ones(2, 4)),
            RuntimeError,
            r"requires batched input, \(N, 3\), got unbatched input with shape \(3,\)",
        ),
    ],
)
def test_layers_and_losses_tell_mistakes(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_losses_warn_of_targets_that_broadcast(loss):
    with pytest.warns(UserWarning, match=r"Using a target size \(torch.Size\(\[3\]\)\) that is different to the input"):
        loss(torch.ones(2, 3), torch.ones(3))
    loss(torch.ones(3), torch.ones(3))


def test_a_mean_of_divergences_warns_that_it_is_no_divergence():
    with pytest.warns(UserWarning, match="'batchmean' divides only by the batch size"):
        F.kl_div(torch.ones(2), torch.ones(2), reduction="mean")
    F.kl_div(torch.ones(2), torch.ones(2), reduction="batchmean")


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_a_number_has_no_dimension_to_roll_or_to_compare_slices_of(dim):
    number = torch.tensor(3.0)
    for call in (
        lambda: number.roll(1, dim),
        lambda: torch.unique(number, dim=dim),
        lambda: torch.unique_consecutive(number, dim=dim),
    ):
        with pytest.raises(IndexError, match=f"Dimension specified as {dim} but tensor has no dimensions"):
            call()
    assert number.roll(1).equal(number)


def test_where_nothing_is_rolled_no_dimension_is_looked_at():
    assert torch.empty(0, 3).roll(1, 7).shape == (0, 3)
    with pytest.raises(RuntimeError, match="shifts: 2, dims:1"):
        torch.empty(0, 3).roll((1, 2), (7,))


def test_two_empty_dimensions_are_too_many_for_unique():
    with pytest.raises(RuntimeError, match="Number of zero sized dimensions is more than one"):
        torch.unique(torch.empty(0, 0), dim=0)


def test_nothing_is_selected_from_an_empty_dimension():
    with pytest.raises(RuntimeError, match="self indexing axis dim should be positive"):
        torch.empty(2, 0).index_select(1, torch.tensor([0]))
    assert torch.empty(2, 0).index_select(1, torch.tensor([], dtype=torch.int64)).shape == (2, 0)


@pytest.mark.parametrize("call", [torch.add, torch.sub, torch.rsub])
def test_a_factor_of_integers_is_no_float_not_even_one(call):
    integers = torch.tensor([4, 5])
    for other in (integers, 2):
        with pytest.raises(RuntimeError, match="argument alpha must not be a floating point number"):
            call(integers, other, alpha=1.0)
    assert call(integers, integers.float(), alpha=1.5).dtype == torch.float32
