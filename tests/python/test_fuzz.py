"""Arguments at random, of the types that the signatures name: any error is fine that is not a panic."""

import random
import warnings
import zlib

import pytest

import rgrad

OPS = rgrad._C._op_table()
DTYPES = [getattr(rgrad, d) for d in ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64")]
SHAPES = [
    (),
    (0,),
    (1,),
    (3,),
    (2, 3),
    (3, 3),
    (0, 3),
    (2, 0, 3),
    (1, 2, 3),
    (2, 3, 4),
    (1, 2, 4, 4),
    (1, 1, 2, 2, 2, 1, 2),
]
INTS = [-(2**63), -7, -2, -1, 0, 1, 2, 3, 5, 2**31]
FLOATS = [float("nan"), float("inf"), -1.5, -0.0, 0.0, 0.5, 2.0, 1e30]
TEXTS = ["mean", "sum", "none", "reflect", "amax", "bilinear", "", "same", "nuc", "ij,jk->ik"]


def _tensor(r):
    shape, dtype = r.choice(SHAPES), r.choice(DTYPES)
    t = rgrad.zeros(shape, dtype=dtype) if r.random() < 0.3 else (rgrad.rand(shape) * 4 - 1).to(dtype)
    if t.dim() > 1 and r.random() < 0.3:
        t = t.transpose(0, 1)
    return t.requires_grad_() if t.is_floating_point() and r.random() < 0.3 else t


def _value(r, kind):
    kind = kind.strip()
    if kind.endswith("?"):
        return None if r.random() < 0.4 else _value(r, kind[:-1])
    few = range(r.randrange(4))
    match kind:
        case "Tensor":
            return _tensor(r)
        case "Tensor[]" | "Tensor*" | "Tensor?[]":
            return [_tensor(r) for _ in few]
        case "Operand" | "Number":
            return r.choice([_tensor(r), r.choice(INTS), r.choice(FLOATS), True])
        case "int":
            return r.choice(INTS)
        case "int[]" | "size":
            # Shapes of billions of elements would only test how much memory there is.
            return [r.choice(INTS[1:-1]) for _ in few]
        case "float":
            return r.choice(FLOATS)
        case "float[]":
            return [r.choice(FLOATS) for _ in few]
        case "bool":
            return r.random() < 0.5
        case "dtype":
            return r.choice(DTYPES)
        case "str":
            return r.choice(TEXTS)
        case "device":
            return "cpu"
    return None


def _parameters(signature):
    """Names, types and whether they have a default; brackets keep their commas."""
    depth, part, parts = 0, "", []
    for c in signature.split("->")[0]:
        depth += (c in "[(") - (c in "])")
        if c == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part += c
    for p in [*parts, part]:
        if ":" in p:
            name, rest = p.split(":", 1)
            kind, _, default = rest.partition("=")
            yield name.strip(), kind.strip(), bool(default)


def _function(op):
    name = op["name"]
    places = [("function", rgrad), ("nn", rgrad.nn.functional), ("special", rgrad.special), ("linalg", rgrad.linalg)]
    for surface, place in places:
        if op[surface] and hasattr(place, name):
            return getattr(place, name)
    return getattr(rgrad.Tensor, name, None)


# Their arguments are sizes of what they make: at random they only ask for memory.
MAKERS = {
    "randperm",
    "arange",
    "eye",
    "linspace",
    "logspace",
    "range",
    "tril_indices",
    "triu_indices",
    "bincount",
    "one_hot",
    "repeat_interleave",
    "vander",
    "combinations",
    "hann_window",
    "hamming_window",
    "blackman_window",
    "bartlett_window",
    "kaiser_window",
}


@pytest.mark.parametrize("op", [op for op in OPS if op["name"] not in MAKERS], ids=lambda op: op["name"])
def test_no_argument_makes_an_operation_panic(op):
    f = _function(op)
    if f is None or not callable(f):
        pytest.skip("an attribute")
    r = random.Random(zlib.crc32(op["name"].encode()))
    rgrad.manual_seed(0)
    for signature in op["signatures"]:
        parameters = list(_parameters(signature))
        for _ in range(25):
            kwargs = {n: _value(r, k) for n, k, default in parameters if not default or r.random() < 0.5}
            args = [kwargs.pop(n) for n in [p[0] for p in parameters[:1]] if n in kwargs]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    out = f(*args, **kwargs)
                    if isinstance(out, rgrad.Tensor) and out.requires_grad:
                        out.sum().backward()
            except Exception as e:
                assert "panicked" not in str(e), f"{op['name']}({args}, {kwargs})"
