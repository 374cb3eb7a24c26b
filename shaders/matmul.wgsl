// The frame of products of matrices in batches, for the kernels of the next two files: `matmul_direct.wgsl` and
// `matmul_tiled.wgsl`.
//
// Rows and columns beyond the edge stand in for the first ones and are not written, so that no load needs a test. As it
// stands the result is float32, and there is no bias.

// @slot types
alias T = f32;
// @end

struct Params {
    // Invocations or workgroups: batch · segments · strips · rows · strip.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    m: u32,
    n: u32,
    k: u32,
    // Rows of tiles, tiles beside one another in a strip, and strips.
    rows: u32,
    strip: u32,
    strips: u32,
    // Into how many parts of what depth the sums are split.
    segments: u32,
    depth: u32,
    // Where the tensors begin, in elements, and the strides of batch, row and column.
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
