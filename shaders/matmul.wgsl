// The template of batched matrix products, for the kernels in `matmul_direct.wgsl` and `matmul_tiled.wgsl`.
//
// Rows and columns beyond the edge are loaded from clamped indices and not written, so that loads need no bounds
// check. The default slots have a float32 result and no bias.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of invocations or workgroups: batch · segments · strips · rows · strip.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    m: u32,
    n: u32,
    k: u32,
    // Rows of tiles, tiles per strip, and number of strips.
    rows: u32,
    strip: u32,
    strips: u32,
    // Number of segments into which the sums are split, and their depth.
    segments: u32,
    depth: u32,
    // Offsets of the tensors, in elements, and strides of batch, row and column.
    first_a: u32,
    a_batch: u32,
    a_row: u32,
    a_column: u32,
    first_b: u32,
    b_batch: u32,
    b_row: u32,
    b_column: u32,
    first_bias: u32,
    bias_column: u32,
    first_result: u32,
    // @slot fields
    // @end
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@group(0) @binding(2) var<storage, read> a: array<f32>;
@group(0) @binding(3) var<storage, read> b: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
// @end

// @slot bias
fn bias_of(column: u32) -> T { return T(0); }
// @end

// @slot geometry
// @end

fn inside(i: u32, n: u32) -> u32 { return select(0u, i, i < n); }

fn biases(column: u32) -> vec4<T> {
    return vec4<T>(bias_of(inside(column, params.n)), bias_of(inside(column + 1u, params.n)),
        bias_of(inside(column + 2u, params.n)), bias_of(inside(column + 3u, params.n)));
}

// @slot write
fn write(part: u32, row: u32, column: u32, v: vec4<T>) {
    if row >= params.m { return; }
    let to = params.first_result + (part * params.m + row) * params.n + column;
    for (var i = 0u; i < 4u && column + i < params.n; i++) { result[to + i] = v[i]; }
}
// @end

// @slot kernels
// @end
