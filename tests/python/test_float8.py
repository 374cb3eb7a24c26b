"""The float8 types: every code and rounding by the definition of the formats, copies, files, and what is refused."""

import io
import math
import pickle

import numpy as np
import pytest

import rgrad as torch

# Bits of the mantissa, bias of the exponent, the largest code, and whether the code of -0 is NaN.
FORMATS = {
    "float8_e4m3fn": (3, 7, 0x7E, False),
    "float8_e4m3fnuz": (3, 8, 0x7F, True),
    "float8_e5m2": (2, 15, 0x7B, False),
    "float8_e5m2fnuz": (2, 16, 0x7F, True),
}
NAMES = [*FORMATS, "float8_e8m0fnu"]


def decoded(name, code):
    """The number of a code by the definition of its format."""
    if name == "float8_e8m0fnu":
        return math.nan if code == 0xFF else 2.0 ** (code - 127)
    mantissa, bias, largest, unsigned_zero = FORMATS[name]
    sign, magnitude = -1.0 if code & 0x80 else 1.0, code & 0x7F
    if unsigned_zero and code == 0x80:
        return math.nan
    if magnitude > largest:
        return sign * math.inf if name == "float8_e5m2" and magnitude == largest + 1 else math.nan
    exponent, fraction = magnitude >> mantissa, magnitude & ((1 << mantissa) - 1)
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - mantissa)
    return sign * (1 + fraction / (1 << mantissa)) * 2.0 ** (exponent - bias)


def codes_of(t):
    return t.view(torch.uint8).tolist()


def nearest(name, number):
    """The code that a float32 is rounded to."""
    mantissa, bias, largest, unsigned_zero = FORMATS[name]
    sign = 0x80 if math.copysign(1.0, number) < 0 else 0
    above = {"float8_e4m3fn": largest, "float8_e5m2": largest + 1}.get(name, 0x80)
    if math.isnan(number):
        return 0x80 if unsigned_zero else 0x7F | sign
    number = abs(number)
    if math.isinf(number):
        return above if unsigned_zero else above | sign
    exponent = max(math.frexp(number)[1] - 1, 1 - bias) if number else 1 - bias
    count = round(number / 2.0 ** (exponent - mantissa))  # rounds ties to even
    code = ((exponent + bias - 1) << mantissa) + count
    if code > largest:
        return above if unsigned_zero else above | sign
    return code if unsigned_zero and code == 0 else code | sign


@pytest.mark.parametrize("name", NAMES)
def test_every_code_is_the_number_of_its_definition(name):
    dtype = getattr(torch, name)
    t = torch.arange(256, dtype=torch.uint8).view(dtype)
    expected = [decoded(name, code) for code in range(256)]
    for wide in (torch.float32, torch.float64, torch.bfloat16):
        found = t.to(wide).tolist()
        assert all(a == b or math.isnan(a) and math.isnan(b) for a, b in zip(found, expected, strict=True)), wide
    assert str(t.tolist()) == str(expected)
    numbers = [code for code in range(256) if not math.isnan(expected[code])]
    assert codes_of(torch.tensor([expected[code] for code in numbers], dtype=dtype)) == numbers
    with np.errstate(over="ignore"):
        halves = np.array(expected).astype(np.float16)
    assert np.array_equal(t.half().numpy(), halves, equal_nan=True)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("source", ["float16", "bfloat16"])
def test_every_number_of_16_bits_is_rounded_to_the_nearest_and_ties_to_even(name, source):
    numbers = torch.from_numpy(np.arange(2**16, dtype=np.uint16)).view(getattr(torch, source))
    wide = numbers.float()
    expected = [nearest(name, number) for number in wide.tolist()]
    # The sign of a NaN is not preserved by every conversion.
    is_nan = wide.isnan().tolist()
    for values in (numbers, wide, wide.double()):
        found = codes_of(values.to(getattr(torch, name)))
        pairs = zip(found, expected, is_nan, strict=True)
        assert all(a == b or nan and (a | 0x80) == (b | 0x80) for a, b, nan in pairs)


def test_powers_of_two_are_rounded_half_up_and_lose_their_sign():
    t = torch.tensor([3.0, 1.5, 1.49, 0.75, -4.0, math.inf, math.nan, 0.0, 2.0**-127, 2.0**-128])
    assert codes_of(t.to(torch.float8_e8m0fnu)) == [129, 128, 127, 127, 129, 255, 255, 0, 0, 0]


@pytest.mark.parametrize("name", FORMATS)
def test_integers_are_cast_through_float32(name):
    dtype = getattr(torch, name)
    for kind in (torch.uint8, torch.int16, torch.int64, torch.uint16, torch.uint64):
        t = torch.tensor([0, 1, 3, 17, 100, 127], dtype=kind)
        assert codes_of(t.to(dtype)) == [nearest(name, float(n)) for n in t.tolist()]
        rounded = [decoded(name, nearest(name, float(n))) for n in t.tolist()]
        assert t.to(dtype).to(kind).tolist() == rounded
    assert torch.tensor([True, False]).to(dtype).tolist() == [1.0, 0.0]
    assert torch.tensor([0.0, 2.0, math.nan], dtype=dtype).bool().tolist() == [False, True, True]


@pytest.mark.parametrize("name", NAMES)
def test_elements_are_copied_viewed_and_indexed_as_bytes(name):
    dtype = getattr(torch, name)
    codes = torch.arange(256, dtype=torch.uint8).view(16, 16)
    t, i = codes.view(dtype), torch.tensor([3, 0])
    for moved, expected in (
        (t.t().contiguous(), codes.t().contiguous()),
        (t[i], codes[i]),
        (t[1:3, ::2].clone(), codes[1:3, ::2].clone()),
        (t.flip(0), codes.flip(0)),
        (torch.cat([t, t]), torch.cat([codes, codes])),
        (torch.stack([t, t], 1), torch.stack([codes, codes], 1)),
        (t.index_select(1, i), codes.index_select(1, i)),
        (t.gather(0, i[None]), codes.gather(0, i[None])),
        (t[codes > 250], codes[codes > 250]),
        (t.roll(3), codes.roll(3)),
    ):
        assert moved.dtype is dtype and moved.view(torch.uint8).equal(expected)
    written = torch.zeros(4, dtype=dtype)
    written[1:3] = 2.0
    written[torch.tensor([0])] = torch.ones(1, dtype=dtype)
    assert written.tolist()[:3] == [1.0, 2.0, 2.0] and torch.zeros(2, dtype=dtype).element_size() == 1
    assert torch.where(torch.tensor([True, False]), written[:2], written[2:]).tolist()[0] == 1.0
    assert torch.from_dlpack(t).view(torch.uint8).equal(codes)
    assert torch.frombuffer(bytearray([64] * 3), dtype=dtype).tolist() == [decoded(name, 64)] * 3
    with pytest.raises(TypeError, match="Got unsupported ScalarType Float8"):
        t.numpy()


@pytest.mark.parametrize("name", FORMATS)
def test_limits_follow_from_the_codes(name):
    dtype = getattr(torch, name)
    mantissa, bias, largest, _ = FORMATS[name]
    limits = torch.finfo(dtype)
    assert limits.max == -limits.min == decoded(name, largest) and limits.bits == 8
    assert limits.tiny == limits.smallest_normal == 2.0 ** (1 - bias) and limits.eps == 2.0**-mantissa
    assert dtype.is_floating_point and dtype.is_signed and dtype.itemsize == 1 and dtype.to_real() is dtype
    with pytest.raises(TypeError):
        torch.iinfo(dtype)
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.full((2,), 2 * limits.max, dtype=dtype)


def test_tensors_are_printed_as_numbers():
    t = torch.tensor([1.5, 448.0, math.nan], dtype=torch.float8_e4m3fn)
    assert repr(t) == "tensor([  1.5000, 448.0000,      nan], dtype=torch.float8_e4m3fn)"
    assert repr(torch.ones(2, dtype=torch.float8_e5m2)) == "tensor([1., 1.], dtype=torch.float8_e5m2)"
    assert t.type() == "torch.Float8_e4m3fnTensor" and t[0].item() == 1.5 and float(t[0]) == 1.5


@pytest.mark.parametrize("name", FORMATS)
def test_arithmetic_is_refused_and_equality_is_not(name):
    dtype, shown = getattr(torch, name), name.replace("float", "Float")
    x = torch.tensor([1.0, 2.0, 3.0], dtype=dtype)
    for kernel, call in (
        ("add_stub", lambda: x + x),
        ("add_stub", lambda: x - 1),
        ("div_cpu", lambda: x / x),
        ("neg_cpu", lambda: -x),
        ("lt_cpu", lambda: x < x),
        ("sum_cpu", lambda: x.sum()),
        ("prod_out_cpu", lambda: x.prod()),
        ("max_all", lambda: x.max()),
        ("cumsum_out_cpu", lambda: x.cumsum(0)),
        ("sorting_kernel_method_name", lambda: x.sort()),
        ("check_uniform_bounds", lambda: torch.rand(2, dtype=dtype)),
        ("normal_kernel_cpu", lambda: x.clone().normal_()),
        ("pow", lambda: x**2),
    ):
        with pytest.raises(NotImplementedError, match=f"\"{kernel}\" not implemented for '{shown}'"):
            call()
    assert (x == x).all() and (x == 2).tolist() == [False, True, False] and x.equal(x.clone())
    assert x.isfinite().all() and x.abs().equal(x) and (x * x).tolist()[:2] == [1.0, 4.0]
    assert torch.tensor([math.nan], dtype=dtype).isnan().all()
    with pytest.raises(RuntimeError, match=f"Float8 Types is not supported, attempted to promote {shown} and"):
        torch.promote_types(dtype, torch.float32)
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types"):
        torch.cat([x, x.float()])
    assert torch.promote_types(dtype, dtype) is torch.result_type(x, 1.5) is dtype
    with pytest.raises(TypeError, match=f"couldn't find storage object {shown}Storage"):
        torch.set_default_dtype(dtype)


def test_gradients_are_cast_to_the_dtype_of_the_leaf():
    w = torch.nn.Parameter(torch.ones(3, dtype=torch.float8_e5m2))
    (w.float() * torch.tensor([1.0, 2.0, 3.3])).sum().backward()
    assert w.grad.dtype is torch.float8_e5m2 and w.grad.tolist() == [1.0, 2.0, 3.5]


@pytest.mark.parametrize("name", NAMES)
def test_files_and_pickles_keep_every_code(name, tmp_path):
    from rgrad import safetensors

    codes = torch.arange(256, dtype=torch.uint8)
    t = codes.view(getattr(torch, name))
    file = io.BytesIO()
    torch.save([t, t[8:], torch.nn.Parameter(t.clone())], file)
    file.seek(0)
    loaded = torch.load(file)
    assert [x.dtype for x in loaded] == [t.dtype] * 3 and loaded[0].view(torch.uint8).equal(codes)
    assert loaded[1].data_ptr() == loaded[0].data_ptr() + 8 and isinstance(loaded[2], torch.nn.Parameter)
    assert pickle.loads(pickle.dumps(t)).view(torch.uint8).equal(codes)
    safetensors.save_file({"t": t}, tmp_path / "t.safetensors")
    again = safetensors.load_file(tmp_path / "t.safetensors")["t"]
    assert again.dtype is t.dtype and again.view(torch.uint8).equal(codes)


def test_meta_tensors_have_dtypes():
    x = torch.empty(2, 3, dtype=torch.float8_e4m3fn, device="meta")
    assert x.float().dtype is torch.float32 and x.t().contiguous().dtype is x.dtype and (x == x).dtype is torch.bool
