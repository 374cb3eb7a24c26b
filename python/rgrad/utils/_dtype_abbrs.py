"""Abbreviations of dtypes, as logs of operations show them."""

from __future__ import annotations

import rgrad

dtype_abbrs: dict[rgrad.dtype, str] = {
    rgrad.bfloat16: "bf16",
    rgrad.float64: "f64",
    rgrad.float32: "f32",
    rgrad.float16: "f16",
    rgrad.float8_e4m3fn: "f8e4m3fn",
    rgrad.float8_e5m2: "f8e5m2",
    rgrad.float8_e4m3fnuz: "f8e4m3fnuz",
    rgrad.float8_e5m2fnuz: "f8e5m2fnuz",
    rgrad.int8: "i8",
    rgrad.int16: "i16",
    rgrad.int32: "i32",
    rgrad.int64: "i64",
    rgrad.bool: "b8",
    rgrad.uint8: "u8",
    rgrad.uint16: "u16",
    rgrad.uint32: "u32",
    rgrad.uint64: "u64",
}
