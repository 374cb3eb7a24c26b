//! The direct shaders of a convolution for a given tile.

use crate::backend::conv::Product;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::formula::template::{self, binding, line, stored};

const FRAME: &str = crate::formula::shader_text!("conv.wgsl");

/// For the gradient of an input, the source is the gradient of the output.
const SOURCE_OF_INPUT: &str = "fn size_of_result() -> vec4<u32> { return params.input; }
fn size_of_source() -> vec4<u32> { return params.output; }
fn source(at: vec3<u32>, tap: vec3<u32>) -> Source {
    // The position whose window has this tap here, if there is one.
    let ahead = at + params.padding.xyz - tap * params.dilation.xyz;
    let origin = ahead / params.stride.xyz;
    let there = is_inside(origin, params.output) && all(origin * params.stride.xyz == ahead);
    return Source(select(0u, join(origin, params.output), there), there);
}
";

/// The shader of a product for tiles of `rows` channels by `fours` quads of positions or channels.
pub fn source(which: Product, dtype: DType, bias: bool, rows: usize, fours: usize) -> Result<String> {
    let kind = stored(dtype);
    let mut bindings = binding(1, "read_write", "result", kind);
    bindings += &binding(2, "read", "a", kind);
    bindings += &binding(3, "read", "b", kind);
    let mut bias_of = "fn bias_of(channel: u32) -> T { return T(0); }\n";
    if bias {
        bindings += &binding(4, "read", "bias", kind);
        bias_of = "fn bias_of(channel: u32) -> T { return bias[params.first_bias + channel]; }\n";
    }
    let compute = match which {
        Product::Output | Product::Input => positions(rows, fours),
        Product::Weight => channels(rows, fours),
    };
    let [geometry, source] = geometry(which);
    let slots = [
        ("bindings", &*bindings),
        ("bias", bias_of),
        ("geometry", geometry),
        ("source", source),
        ("compute", &*compute),
    ];
    template::shader(FRAME, dtype, &slots).map_err(Error::NotImplemented)
}

/// The functions that relate positions and taps, and give the source of a product.
pub fn geometry(which: Product) -> [&'static str; 2] {
    let source = if which == Product::Input { SOURCE_OF_INPUT } else { template::content(FRAME, "source") };
    [template::content(FRAME, "geometry"), source]
}

/// The accumulators of a tile of `rows` by `fours` vectors.
fn sums(t: &mut String, rows: usize, fours: usize) {
    each(rows, fours, |r, q| line(t, format!("    var c{r}_{q} = vec4<T>();")));
}

fn each(rows: usize, fours: usize, mut f: impl FnMut(usize, usize)) {
    (0..rows).for_each(|r| (0..fours).for_each(|q| f(r, q)));
}

/// The body for an output or the gradient of an input: channels by positions.
fn positions(rows: usize, fours: usize) -> String {
    let n = 4 * fours;
    let mut t = format!("const ROWS: u32 = {rows}u;\nconst POSITIONS: u32 = {n}u;\n");
    t += "fn compute(i: u32) {
    let plane = volume(size_of_result());
    let blocks = (plane + POSITIONS - 1u) / POSITIONS;
    let row_blocks = (params.rows + ROWS - 1u) / ROWS;
    let rest = i / blocks;
    let position = (i - rest * blocks) * POSITIONS;
    let image_group = rest / row_blocks;
    let row = (rest - image_group * row_blocks) * ROWS;
    let group = image_group - image_group / params.groups * params.groups;
    let of_source = volume(size_of_source());
    let start = params.first_a + image_group * params.depth * of_source;
    let w = params.first_b + group * params.rows * params.depth * volume(params.kernel);
";
    (0..n).for_each(|j| {
        line(&mut t, format!("    let at{j} = split(clipped(position + {j}u, plane), size_of_result());"));
    });
    (0..rows).for_each(|r| {
        line(&mut t, format!("    let w{r} = w + clipped(row + {r}u, params.rows) * params.w_row;"));
    });
    sums(&mut t, rows, fours);
    t += "    for (var t = 0u; t < volume(params.kernel); t++) {
        let tap = split(t, params.kernel);
";
    (0..n).for_each(|j| line(&mut t, format!("        let s{j} = source(at{j}, tap);")));
    for q in 0..fours {
        let there = [0, 1, 2, 3].map(|i| format!("s{}.there", 4 * q + i)).join(", ");
        line(&mut t, format!("        let there{q} = vec4<bool>({there});"));
    }
    t += "        for (var k = 0u; k < params.depth; k++) {
            let p = start + k * of_source;
            let kw = k * params.w_depth + t;
";
    for q in 0..fours {
        let loads = [0, 1, 2, 3].map(|i| format!("a[p + s{}.place]", 4 * q + i)).join(", ");
        line(&mut t, format!("            let v{q} = select(vec4<T>(), vec4<T>({loads}), there{q});"));
    }
    for r in 0..rows {
        line(&mut t, format!("            let f{r} = b[w{r} + kw];"));
        (0..fours).for_each(|q| line(&mut t, format!("            c{r}_{q} += f{r} * v{q};")));
    }
    t += "        }\n    }\n    let to = params.first_result + (image_group * params.rows + row) * plane + position;\n";
    for r in 0..rows {
        line(&mut t, format!("    if row + {r}u < params.rows {{"));
        line(&mut t, format!("        let bias{r} = bias_of(group * params.rows + row + {r}u);"));
        (0..fours).for_each(|q| {
            (0..4).for_each(|i| {
                let (j, part) = (4 * q + i, ["x", "y", "z", "w"][i]);
                let at = format!("to + {r}u * plane + {j}u");
                let value = format!("c{r}_{q}.{part} + bias{r}");
                line(&mut t, format!("        if position + {j}u < plane {{ result[{at}] = {value}; }}"));
            });
        });
        t += "    }\n";
    }
    t + "}\n"
}

/// The body for the gradient of a weight or a partial sum of it: output channels by input channels at one tap.
fn channels(rows: usize, fours: usize) -> String {
    let n = 4 * fours;
    let mut t = format!("const ROWS: u32 = {rows}u;\nconst COLUMNS: u32 = {n}u;\n");
    t += "fn compute(i: u32) {
    let taps = volume(params.kernel);
    let row_blocks = (params.rows + ROWS - 1u) / ROWS;
    let column_blocks = (params.depth + COLUMNS - 1u) / COLUMNS;
    let by_tap = i / taps;
    let t = i - by_tap * taps;
    let by_column = by_tap / column_blocks;
    let column = (by_tap - by_column * column_blocks) * COLUMNS;
    let by_row = by_column / row_blocks;
    let row = (by_column - by_row * row_blocks) * ROWS;
    let segment = by_row / params.groups;
    let group = by_row - segment * params.groups;
    let tap = split(t, params.kernel);
    let input = volume(params.input);
    let output = volume(params.output);
    let pieces = (params.output.z + params.piece - 1u) / params.piece;
    let lines = params.output.x * params.output.y;
    let all = params.n * lines * pieces;
    let end = select(all, (segment + 1u) * params.share, (segment + 1u) * params.share < all);
";
    (0..rows).for_each(|r| {
        line(&mut t, format!("    let y{r} = clipped(row + {r}u, params.rows) * output;"));
    });
    (0..n).for_each(|j| {
        line(&mut t, format!("    let x{j} = clipped(column + {j}u, params.depth) * input;"));
    });
    sums(&mut t, rows, fours);
    t += "    for (var at = segment * params.share; at < end; at++) {
        let at_line = at / pieces;
        let begin = (at - at_line * pieces) * params.piece;
        let stop = select(params.output.z, begin + params.piece, begin + params.piece < params.output.z);
        let image = at_line / lines;
        let in_image = at_line - image * lines;
        let d = in_image / params.output.y;
        let first = met(vec3<u32>(d, in_image - d * params.output.y, 0u), tap);
        if first.x >= params.input.x || first.y >= params.input.y { continue; }
        let image_group = image * params.groups + group;
        let of_y = params.first_a + image_group * params.rows * output + in_image * params.output.z;
        let beside = params.first_b + image_group * params.depth * input
            + (first.x * params.input.y + first.y) * params.input.z;
        for (var o = begin; o < stop; o++) {
            let z = first.z + o * params.stride.z;
            if z >= params.input.z { continue; }
            let p = beside + z;
";
    for q in 0..fours {
        let loads = [0, 1, 2, 3].map(|i| format!("b[p + x{}]", 4 * q + i)).join(", ");
        line(&mut t, format!("            let v{q} = vec4<T>({loads});"));
    }
    for r in 0..rows {
        line(&mut t, format!("            let f{r} = a[of_y + o + y{r}];"));
        (0..fours).for_each(|q| line(&mut t, format!("            c{r}_{q} += f{r} * v{q};")));
    }
    t += "        }
    }
    let size = params.groups * params.rows * params.depth * taps;
    let to = params.first_result + segment * size + ((group * params.rows + row) * params.depth + column) * taps + t;
";
    for r in 0..rows {
        line(&mut t, format!("    if row + {r}u < params.rows {{"));
        (0..fours).for_each(|q| {
            (0..4).for_each(|i| {
                let (j, part) = (4 * q + i, ["x", "y", "z", "w"][i]);
                let at = format!("to + ({r}u * params.depth + {j}u) * taps");
                line(
                    &mut t,
                    format!("        if column + {j}u < params.depth {{ result[{at}] = c{r}_{q}.{part}; }}"),
                );
            });
        });
        t += "    }\n";
    }
    t + "}\n"
}
