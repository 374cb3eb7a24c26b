//! Products of matrices. Which kernel is faster depends on the adapter: a software one has no workgroup memory to gain
//! from.

use super::device::of;
use super::params::Params;
use super::pipeline::Launch;
use crate::backend::View;
use crate::backend::copy::fill;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::formula::template::{self, binding, stored};

const DIRECT: &str = include_str!("../../../shaders/matmul.wgsl");
const TILED: &str = include_str!("../../../shaders/matmul_tiled.wgsl");

/// Rows and columns of a workgroup's part of the result.
const DIRECT_SIDE: usize = 32;
const TILED_SIDE: usize = 64;

/// `out = a @ b + bias`; see `backend::matmul`.
pub fn product(a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    let r = a.layout.rank();
    let (m, k, n) = (a.layout.shape[r - 2], a.layout.shape[r - 1], b.layout.shape[r - 1]);
    let batch = if r == 3 { a.layout.shape[0] } else { 1 };
    if out.layout.numel() == 0 {
        return Ok(());
    }
    if k == 0 {
        return match bias {
            Some(bias) => super::copy::copy(View { layout: &bias_rows(bias, m), ..bias }, out),
            None => fill(out, Scalar::Int(0)),
        };
    }
    let gpu = of(out)?;
    gpu.expect("matmul", out.dtype)?;
    let tiled = !gpu.caps.is_cpu && m.min(n) >= TILED_SIDE / 2;
    let side = if tiled { TILED_SIDE } else { DIRECT_SIDE };
    let (rows, columns) = (m.div_ceil(side), n.div_ceil(side));
    let count = batch * rows * columns;
    let mut params = Params::new(count as u32);
    for v in [m, n, k, rows, columns] {
        params.u32(v as u32);
    }
    for v in [a, b] {
        let s = &v.layout.strides;
        params.u32(v.layout.offset as u32).u32(if r == 3 { s[0] as u32 } else { 0 });
        params.u32(s[r - 2] as u32).u32(s[r - 1] as u32);
    }
    params.u32(bias.map_or(0, |v| v.layout.offset) as u32);
    params.u32(bias.map_or(0, |v| v.layout.strides[0]) as u32);
    params.u32(out.layout.offset as u32);
    // Threads that are neighbours read what are neighbours in memory.
    let (a_along_k, b_along_k) = (a.layout.strides[r - 1] == 1, b.layout.strides[r - 2] == 1);
    let source = || {
        let kind = stored(out.dtype);
        let mut bindings = binding(1, "read_write", "result", kind);
        bindings += &binding(2, "read", "a", kind);
        bindings += &binding(3, "read", "b", kind);
        let mut bias_of = "fn bias_of(column: u32) -> T { return T(0); }\n";
        if bias.is_some() {
            bindings += &binding(4, "read", "bias", kind);
            bias_of = "fn bias_of(column: u32) -> T { return bias[params.first_bias + column * params.bias_column]; }\n";
        }
        let order = format!("{}{}", place("a_place", a_along_k), place("b_place", b_along_k));
        let slots = [("bindings", &*bindings), ("bias", bias_of), ("order", &*order)];
        template::shader(if tiled { TILED } else { DIRECT }, out.dtype, &slots).map_err(Error::NotImplemented)
    };
    let read = [a, b, bias.unwrap_or(b)];
    gpu.launch(Launch {
        op: "matmul",
        kernel: if tiled { "matmul_tiled" } else { "matmul" },
        variant: &[out.dtype as u8, bias.is_some() as u8, a_along_k as u8, b_along_k as u8],
        source: &source,
        written: &[out],
        read: &read[..2 + bias.is_some() as usize],
        params: &params,
        groups: count,
    })
}

/// Where the elements that a thread loads stand in a tile of 16 by 64, as (depth, side).
fn place(name: &str, along_depth: bool) -> String {
    let place = if along_depth { "i & 15u, i >> 4u" } else { "i >> 6u, i & 63u" };
    format!("fn {name}(i: u32) -> vec2<u32> {{ return vec2<u32>({place}); }}\n")
}

fn bias_rows(bias: View, m: usize) -> crate::layout::Layout {
    let n = bias.layout.shape[0];
    bias.layout.expand(&[m, n]).unwrap_or_default()
}
