// A product kernel for `matmul.wgsl` with one tile per invocation; operands are loaded directly.
//
// Invocations proceed through a strip of adjacent tiles row by row, then through the next strip. The default tile has
// one row and four columns.

// If a sum is split, only the first segment adds the bias.
fn biases_of(column: u32, segment: u32) -> vec4<T> {
    if segment > 0u { return vec4<T>(); }
    return biases(column);
}

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
    write(at, row, column, c + biases_of(column, segment));
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
    // Results of one segment are contiguous, so that the reduction can sum the segments directly.
    let at = segment * (params.count / (params.rows * params.strip * params.strips * params.segments)) + batch;
    let k_start = segment * params.depth;
    let k_end = select(params.k, k_start + params.depth, k_start + params.depth < params.k);
    let a_start = params.first_a + batch * params.a_batch;
    let b_start = params.first_b + batch * params.b_batch;
    multiply(at, segment, row * ROWS, (strip * params.strip + lane) * COLUMNS, a_start, b_start, k_start, k_end);
}
