// A product of matrices in batches, a tile of the result an invocation, operands read where they lie.
//
// Rows and columns beyond the edge stand in for the first ones and are not written, so that no load needs a test.
// Invocations go through a strip of some tiles beside one another row by row, then through the next. As it stands this
// is the product of float32 without a bias, one row by four columns.

// @slot types
alias T = f32;
// @end

struct Params {
    // Invocations: batch · segments · strips · rows · strip.
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

fn inside(i: u32, n: u32) -> u32 { return select(0u, i, i < n); }

fn biases(column: u32, segment: u32) -> vec4<T> {
    if segment > 0u { return vec4<T>(); }
    return vec4<T>(bias_of(column), bias_of(inside(column + 1u, params.n)), bias_of(inside(column + 2u, params.n)),
        bias_of(inside(column + 3u, params.n)));
}

// @slot write
fn write(at: u32, row: u32, column: u32, v: vec4<T>) {
    if row >= params.m { return; }
    let to = params.first_result + (at * params.m + row) * params.n + column;
    for (var i = 0u; i < 4u && column + i < params.n; i++) { result[to + i] = v[i]; }
}
// @end

// @slot tile
const ROWS: u32 = 1u;
const COLUMNS: u32 = 4u;

fn multiply(at: u32, segment: u32, row: u32, column: u32, a_start: u32, b_start: u32, k_start: u32, k_end: u32) {
    let pa = a_start + inside(row, params.m) * params.a_row;
    let pb0 = b_start + inside(column, params.n) * params.b_column;
    let pb1 = b_start + inside(column + 1u, params.n) * params.b_column;
    let pb2 = b_start + inside(column + 2u, params.n) * params.b_column;
    let pb3 = b_start + inside(column + 3u, params.n) * params.b_column;
    var c = vec4<T>();
    for (var k = k_start; k < k_end; k++) {
        let kb = k * params.b_row;
        c += a[pa + k * params.a_column] * vec4<T>(b[pb0 + kb], b[pb1 + kb], b[pb2 + kb], b[pb3 + kb]);
    }
    write(at, row, column, c + biases(column, segment));
}
// @end

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let i = id.x + id.y * groups.x * 32u;
    if i >= params.count { return; }
    let row_rest = i / params.strip;
    let strip_rest = row_rest / params.rows;
    let part = strip_rest / params.strips;
    let lane = i - row_rest * params.strip;
    let row = row_rest - strip_rest * params.rows;
    let strip = strip_rest - part * params.strips;
    let batch = part / params.segments;
    let segment = part - batch * params.segments;
    // The parts are written one after another: those of a segment side by side, so that they are summed as they lie.
    let at = segment * (params.count / (params.rows * params.strip * params.strips * params.segments)) + batch;
    let k_start = segment * params.depth;
    let k_end = select(params.k, k_start + params.depth, k_start + params.depth < params.k);
    let a_start = params.first_a + batch * params.a_batch;
    let b_start = params.first_b + batch * params.b_batch;
    multiply(at, segment, row * ROWS, (strip * params.strip + lane) * COLUMNS, a_start, b_start, k_start, k_end);
}
