"""What is written from the operation table is current, and nothing public is outside it."""

import importlib.util
from pathlib import Path

import rgrad
from rgrad import _methods

ROOT = Path(__file__).resolve().parents[2]

# Public names of Tensor that are no operations: what a tensor is, autograd, conversions.
NOT_OPERATIONS = {
    "apply_", "as_subclass", "backward", "data", "data_ptr", "detach", "detach_", "device", "dim", "dtype",
    "element_size", "get_device", "grad_dtype",
    "grad", "grad_fn", "is_complex", "is_contiguous", "is_cpu", "is_cuda", "is_floating_point", "is_inference",
    "is_leaf", "is_meta", "is_mps", "is_nested", "is_pinned", "is_quantized", "is_shared", "is_signed", "is_sparse",
    "item", "itemsize", "layout", "map_", "map2_", "pinverse",
    "names", "nbytes", "ndim", "ndimension", "nelement", "new", "new_tensor", "numel", "numpy",
    "output_nr", "real", "register_hook",
    "register_post_accumulate_grad_hook", "requires_grad", "requires_grad_", "retain_grad", "retains_grad",
    "shape", "share_memory_", "size", "storage", "storage_offset", "storage_type", "stride", "tolist",
    "untyped_storage",
}  # fmt: skip


def _generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_files_are_current():
    stale = [str(p) for p, text in _generator().outputs().items() if not p.exists() or p.read_text() != text]
    assert not stale, f"run `make gen`: {stale}"


def test_every_public_method_of_tensor_is_in_the_table():
    known = set()
    for op in rgrad._C._op_table():
        for name in (op["name"], *op["aliases"]):
            known |= {name, name + "_"}
    public = {n for n in dir(rgrad.Tensor) if not n.startswith("_")}
    assert public - known - NOT_OPERATIONS - _methods.names() == set()


def test_every_operation_is_documented():
    bare = [op["name"] for op in rgrad._C._op_table() if not op["doc"].strip().endswith(".")]
    assert bare == []
