//! The shader of the tiled product kernel, which stages tiles in workgroup memory.

use super::{Load, Shape};
use crate::dtype::DType;
use crate::error::Result;
use crate::formula::template::line;

const KERNEL: &str = crate::formula::shader_text!("matmul_tiled.wgsl");

/// A multiple of the depth of every tile.
pub const DEPTH: usize = 32;

/// The shader for tiles of `side` rows and columns, 64 or 128; each thread computes 4 × 4 or 8 × 8 elements.
pub(super) fn source(s: &Shape, bias: bool, side: usize) -> Result<String> {
    let (bindings, bias_of) = super::declarations(s, bias);
    let load = block("a", s.a, "a_row", "a_column", "m") + &block("b", s.b, "b_column", "b_row", "n");
    let slots = [("bindings", &*bindings), ("bias", bias_of), ("write", super::write(s))];
    render(s.dtype, side, &[("load", &*load)], &slots)
}

/// The shader for tiles of a given side, with the other slots of the kernel and of the template as given.
pub fn render(dtype: DType, side: usize, kernel: &[(&str, &str)], frame: &[(&str, &str)]) -> Result<String> {
    // The threads load 256 blocks of 4 × 4 elements at a time.
    let (fours, depth) = (side / 4, 2048 / side);
    let sizes = format!("const FOURS: u32 = {fours}u;\nconst DEPTH: u32 = {depth}u;\n");
    let (begin, multiply, end) = threads(side / 64);
    let mut slots = vec![("sizes", &*sizes), ("begin", &*begin), ("multiply", &*multiply), ("end", &*end)];
    slots.extend_from_slice(kernel);
    super::rendered(KERNEL, dtype, &slots, frame)
}

/// The coordinates of the block that a thread loads, with consecutive blocks along the depth or along the side.
pub fn block_of(along_depth: bool) -> &'static str {
    if along_depth { "i / (DEPTH / 4u), i & (DEPTH / 4u - 1u)" } else { "i & (FOURS - 1u), i / FOURS" }
}

/// The functions that compute a thread's block of an operand and load it: four vectors along the side.
fn block(name: &str, load: Load, side: &str, depth: &str, limit: &str) -> String {
    let place = block_of(load == Load::Depth);
    let mut t = format!("fn {name}_block(i: u32) -> vec2<u32> {{ return vec2<u32>({place}); }}\n");
    line(&mut t, format!("fn load_{name}(start: u32, side: u32, k: u32) -> mat4x4<T> {{"));
    let row = |i: usize| format!("start + inside(side + {i}u, params.{limit}) * params.{side}");
    match load {
        Load::Depth => {
            line(&mut t, "    if k >= params.k { return mat4x4<T>(); }");
            let rows = [0, 1, 2, 3].map(|i| format!("{name}[({} + k) >> 2u]", row(i)));
            line(&mut t, format!("    return transpose(mat4x4<T>({}));", rows.join(",\n        ")));
        }
        Load::Side => {
            line(&mut t, "    var v = mat4x4<T>();");
            line(&mut t, format!("    let first = {};", row(0)));
            for d in 0..4 {
                let at = format!("(first + (k + {d}u) * params.{depth}) >> 2u");
                line(&mut t, format!("    if k + {d}u < params.k {{ v[{d}] = {name}[{at}]; }}"));
            }
            line(&mut t, "    return v;");
        }
        Load::Single => {
            line(&mut t, "    var v = mat4x4<T>();");
            (0..4).for_each(|i| line(&mut t, format!("    let p{i} = {};", row(i))));
            for d in 0..4 {
                line(&mut t, format!("    let d{d} = (k + {d}u) * params.{depth};"));
                let elements = [0, 1, 2, 3].map(|i| format!("{name}[p{i} + d{d}]"));
                let elements = elements.join(", ");
                line(&mut t, format!("    if k + {d}u < params.k {{ v[{d}] = vec4<T>({elements}); }}"));
            }
            line(&mut t, "    return v;");
        }
    }
    t + "}\n"
}

/// The code of a thread for its part of a tile: `n` by `n` squares of 4 × 4 elements, 64 apart.
fn threads(n: usize) -> (String, String, String) {
    let (mut begin, mut multiply, mut end) = (String::new(), String::new(), String::new());
    let component = |i: usize| ["x", "y", "z", "w"][i % 4];
    for p in 0..n {
        line(&mut multiply, format!("            let l{p} = left[d * FOURS + y + {}u];", 16 * p));
        line(&mut multiply, format!("            let r{p} = right[d * FOURS + x + {}u];", 16 * p));
        line(&mut end, format!("    let beside{p} = column + (x + {}u) * 4u;", 16 * p));
        line(&mut end, format!("    let bias{p} = biases(beside{p});"));
    }
    for r in 0..4 * n {
        for q in 0..n {
            line(&mut begin, format!("    var c{r}_{q} = vec4<T>();"));
            line(&mut multiply, format!("            c{r}_{q} += l{}.{} * r{q};", r / 4, component(r)));
            let row = format!("row + (y + {}u) * 4u + {}u", r / 4 * 16, r % 4);
            line(&mut end, format!("    write(part, {row}, beside{q}, c{r}_{q} + bias{q});"));
        }
    }
    (begin, multiply, end)
}
