// A product of matrices in batches, four rows by four columns an invocation, operands read where they lie.
//
// Rows and columns beyond the edge repeat the last one and are not written, so that no load needs a test. As it stands
// this is the product of float32 without a bias.

// @slot types
alias T = f32;
// @end

struct Params {
    // Workgroups: batch · tiles of rows · tiles of columns.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    m: u32,
    n: u32,
    k: u32,
    // Tiles of rows and of columns.
    rows: u32,
    columns: u32,
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

fn nearest(i: u32, n: u32) -> u32 { return select(n - 1u, i, i < n); }

fn write(at: u32, row: u32, column: u32, v: T) {
    if row < params.m && column < params.n {
        result[params.first_result + (at * params.m + row) * params.n + column] = v + bias_of(column);
    }
}

@compute @workgroup_size(8, 8)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) place: vec3<u32>,
) {
    runtime_zero = params.zero;
    let tile = group.x + group.y * groups.x;
    if tile >= params.count { return; }
    let tiles = params.rows * params.columns;
    let batch = tile / tiles;
    let in_batch = tile - batch * tiles;
    let tile_row = in_batch / params.columns;
    let row = (tile_row * 8u + place.y) * 4u;
    let column = ((in_batch - tile_row * params.columns) * 8u + place.x) * 4u;
    let a_start = params.first_a + batch * params.a_batch;
    let b_start = params.first_b + batch * params.b_batch;
    var a0 = a_start + nearest(row, params.m) * params.a_row;
    var a1 = a_start + nearest(row + 1u, params.m) * params.a_row;
    var a2 = a_start + nearest(row + 2u, params.m) * params.a_row;
    var a3 = a_start + nearest(row + 3u, params.m) * params.a_row;
    var b0 = b_start + nearest(column, params.n) * params.b_column;
    var b1 = b_start + nearest(column + 1u, params.n) * params.b_column;
    var b2 = b_start + nearest(column + 2u, params.n) * params.b_column;
    var b3 = b_start + nearest(column + 3u, params.n) * params.b_column;
    var c0 = vec4<T>();
    var c1 = vec4<T>();
    var c2 = vec4<T>();
    var c3 = vec4<T>();
    for (var k = 0u; k < params.k; k++) {
        let bk = k * params.b_row;
        let ak = k * params.a_column;
        let right = vec4<T>(b[b0 + bk], b[b1 + bk], b[b2 + bk], b[b3 + bk]);
        c0 += a[a0 + ak] * right;
        c1 += a[a1 + ak] * right;
        c2 += a[a2 + ak] * right;
        c3 += a[a3 + ak] * right;
    }
    write(batch, row, column, c0.x);
    write(batch, row, column + 1u, c0.y);
    write(batch, row, column + 2u, c0.z);
    write(batch, row, column + 3u, c0.w);
    write(batch, row + 1u, column, c1.x);
    write(batch, row + 1u, column + 1u, c1.y);
    write(batch, row + 1u, column + 2u, c1.z);
    write(batch, row + 1u, column + 3u, c1.w);
    write(batch, row + 2u, column, c2.x);
    write(batch, row + 2u, column + 1u, c2.y);
    write(batch, row + 2u, column + 2u, c2.z);
    write(batch, row + 2u, column + 3u, c2.w);
    write(batch, row + 3u, column, c3.x);
    write(batch, row + 3u, column + 1u, c3.y);
    write(batch, row + 3u, column + 2u, c3.z);
    write(batch, row + 3u, column + 3u, c3.w);
}
