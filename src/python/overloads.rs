//! PyTorch's overloads as listed in error messages, where they differ from the table's signatures.
//!
//! The table merges overloads that differ only in whether a number may replace a tensor or a dimension may be omitted.
//! This list is used only for messages.

/// Operations and the overloads listed for them.
static OVERLOADS: &[(&[&str], &[&str])] = &[
    (
        &["add", "sub", "subtract"],
        &["input: Tensor, other: Operand, *, alpha: Number = 1, out: Tensor = None"],
    ),
    (
        &["div", "divide"],
        &[
            "input: Tensor, other: Operand, *, out: Tensor = None",
            "input: Tensor, other: Operand, *, rounding_mode: str?, out: Tensor = None",
            "input: Tensor, other: Number, *, rounding_mode: str?",
        ],
    ),
    (
        &["floor_divide"],
        &["input: Tensor, other: Tensor, *, out: Tensor = None", "input: Tensor, other: Number"],
    ),
    (
        &["eq", "ne", "lt", "le", "gt", "ge", "not_equal", "less", "less_equal", "greater", "greater_equal"],
        &[
            "input: Tensor, other: Tensor, *, out: Tensor = None",
            "input: Tensor, other: Number, *, out: Tensor = None",
        ],
    ),
    (
        &["bitwise_and", "bitwise_or", "bitwise_xor"],
        &[
            "input: Tensor, other: Tensor, *, out: Tensor = None",
            "self: Number, other: Tensor",
            "input: Tensor, other: Number, *, out: Tensor = None",
        ],
    ),
    (
        &["pow"],
        &[
            "input: Tensor, exponent: Tensor, *, out: Tensor = None",
            "self: Number, exponent: Tensor, *, out: Tensor = None",
            "input: Tensor, exponent: Number, *, out: Tensor = None",
        ],
    ),
    (
        &["clamp", "clip"],
        &[
            "input: Tensor, min: Tensor = None, max: Tensor = None, *, out: Tensor = None",
            "input: Tensor, min: Number = None, max: Number = None, *, out: Tensor = None",
        ],
    ),
    (
        &["sum"],
        &[
            "input: Tensor, *, dtype: dtype = None",
            "input: Tensor, dim: int[]?, keepdim: bool = False, *, dtype: dtype = None, out: Tensor = None",
        ],
    ),
    (
        &["mean"],
        &[
            "input: Tensor, *, dtype: dtype = None, out: Tensor = None",
            "input: Tensor, dim: int[]?, keepdim: bool = False, *, dtype: dtype = None, out: Tensor = None",
        ],
    ),
    (
        &["prod"],
        &[
            "input: Tensor, *, dtype: dtype = None",
            "input: Tensor, dim: int, keepdim: bool = False, *, dtype: dtype = None, out: Tensor = None",
        ],
    ),
    (
        &["var", "std"],
        &[
            "input: Tensor, dim: int[]?, unbiased: bool = True, keepdim: bool = False, *, out: Tensor = None",
            "input: Tensor, dim: int[]? = None, *, correction: Number? = None, keepdim: bool = False, out: Tensor = None",
            "input: Tensor, unbiased: bool = True",
        ],
    ),
    (
        &["max", "min"],
        &[
            "input: Tensor, *, out: Tensor = None",
            "input: Tensor, other: Tensor, *, out: Tensor = None",
            "input: Tensor, dim: int, keepdim: bool = False, *, out: Tensor[] = None",
        ],
    ),
    (
        &["all", "any"],
        &[
            "input: Tensor, *, out: Tensor = None",
            "input: Tensor, dim: int[]? = None, keepdim: bool = False, *, out: Tensor = None",
            "input: Tensor, dim: int, keepdim: bool = False, *, out: Tensor = None",
        ],
    ),
    (
        &["mm", "bmm"],
        &[
            "input: Tensor, mat2: Tensor, *, out: Tensor = None",
            "input: Tensor, mat2: Tensor, out_dtype: dtype, *, out: Tensor = None",
        ],
    ),
    (
        &["addmm"],
        &[
            "input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor = None",
            "input: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: dtype, *, beta: Number = 1, alpha: Number = 1, out: Tensor = None",
        ],
    ),
    (
        &["scatter"],
        &[
            "input: Tensor, dim: int, index: Tensor, src: Tensor, *, out: Tensor = None",
            "input: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str, out: Tensor = None",
            "input: Tensor, dim: int, index: Tensor, value: Number, *, out: Tensor = None",
            "input: Tensor, dim: int, index: Tensor, value: Number, *, reduce: str, out: Tensor = None",
        ],
    ),
    (
        &["masked_fill"],
        &["input: Tensor, mask: Tensor, value: Tensor", "input: Tensor, mask: Tensor, value: Number"],
    ),
    (
        &["index_fill"],
        &[
            "input: Tensor, dim: int, index: Tensor, value: Tensor",
            "input: Tensor, dim: int, index: Tensor, value: Number",
        ],
    ),
    (&["fill"], &["input: Tensor, value: Tensor", "input: Tensor, value: Number"]),
    (&["copy"], &["input: Tensor, other: Tensor, non_blocking: bool = False"]),
    (
        &["sort"],
        &[
            "input: Tensor, *, stable: bool?, dim: int = -1, descending: bool = False, out: Tensor[] = None",
            "input: Tensor, dim: int = -1, descending: bool = False, *, out: Tensor[] = None",
        ],
    ),
    (
        &["argsort"],
        &[
            "input: Tensor, *, stable: bool, dim: int = -1, descending: bool = False, out: Tensor = None",
            "input: Tensor, dim: int = -1, descending: bool = False",
        ],
    ),
    (
        &["split"],
        &["input: Tensor, split_size: int, dim: int = 0", "input: Tensor, split_size: int[], dim: int = 0"],
    ),
    (
        &["narrow"],
        &[
            "input: Tensor, dim: int, start: Tensor, length: int",
            "input: Tensor, dim: int, start: int, length: int",
        ],
    ),
    (
        &["where"],
        &[
            "condition: Tensor",
            "condition: Tensor, input: Tensor, other: Tensor, *, out: Tensor = None",
            "condition: Tensor, self: Number, other: Tensor",
            "condition: Tensor, input: Tensor, other: Number",
            "condition: Tensor, self: Number, other: Number",
        ],
    ),
    (
        &["Tensor.where"],
        &[
            "input: Tensor, condition: Tensor, other: Tensor",
            "input: Tensor, condition: Tensor, other: Number",
        ],
    ),
    (
        &["conv1d", "conv2d", "conv3d"],
        &[
            "input: Tensor, weight: Tensor, bias: Tensor? = None, stride: int[] = 1, padding: int[] = 0, dilation: int[] = 1, groups: int = 1",
            "input: Tensor, weight: Tensor, bias: Tensor? = None, stride: int[] = 1, padding: str = \"valid\", dilation: int[] = 1, groups: int = 1",
        ],
    ),
    (&["view"], &["input: Tensor, dtype: dtype", "input: Tensor, size: size"]),
    (
        &["to"],
        &[
            "input: Tensor, device: device = None, dtype: dtype = None, non_blocking: bool = False, copy: bool = False, *, memory_format: memory_format = None",
            "input: Tensor, dtype: dtype, non_blocking: bool = False, copy: bool = False, *, memory_format: memory_format = None",
            "input: Tensor, tensor: Tensor, non_blocking: bool = False, copy: bool = False, *, memory_format: memory_format = None",
        ],
    ),
    (
        &["arange"],
        &[
            "end: Number, *, out: Tensor = None, dtype: dtype = None, layout: layout = None, device: device = None, pin_memory: bool = False, requires_grad: bool = False",
            "start: Number, end: Number, *, dtype: dtype = None, layout: layout = None, device: device = None, pin_memory: bool = False, requires_grad: bool = False",
            "start: Number, end: Number, step: Number = 1, *, out: Tensor = None, dtype: dtype = None, layout: layout = None, device: device = None, pin_memory: bool = False, requires_grad: bool = False",
        ],
    ),
    (
        &["eye"],
        &[
            "n: int, *, out: Tensor = None, dtype: dtype = None, layout: layout = None, device: device = None, pin_memory: bool = False, requires_grad: bool = False",
            "n: int, m: int, *, out: Tensor = None, dtype: dtype = None, layout: layout = None, device: device = None, pin_memory: bool = False, requires_grad: bool = False",
        ],
    ),
];

/// The overloads to list for an operation, if they differ from the table. A method may have its own overloads.
pub fn shown(name: &str, method: bool) -> Option<&'static [&'static str]> {
    let stem = if method { name.trim_end_matches('_') } else { name };
    let find =
        |wanted: &str| OVERLOADS.iter().find(|(names, _)| names.contains(&wanted)).map(|(_, all)| *all);
    if method && let Some(own) = find(&format!("Tensor.{stem}")) {
        return Some(own);
    }
    find(stem)
}
