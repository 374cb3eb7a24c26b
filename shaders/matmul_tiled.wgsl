// A product of matrices in batches, tile by tile through workgroup memory: 64 by 64 elements a workgroup, 16 deep.
//
// Beyond the edges the tiles hold zeros. As it stands this is the product of float32 without a bias.

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

const SIDE: u32 = 64u;
const DEPTH: u32 = 16u;

// Both with the depth as their slow dimension, so that a thread reads neighbours.
var<workgroup> left: array<T, 1024>;
var<workgroup> right: array<T, 1024>;

// Where a thread's `i`-th element stands in a tile of A and of B, as (depth, side): neighbours load neighbours.
// @slot order
fn a_place(i: u32) -> vec2<u32> { return vec2<u32>(i & 15u, i >> 4u); }
fn b_place(i: u32) -> vec2<u32> { return vec2<u32>(i >> 6u, i & 63u); }
// @end

fn write(at: u32, row: u32, column: u32, v: T) {
    if row < params.m && column < params.n {
        result[params.first_result + (at * params.m + row) * params.n + column] = v + bias_of(column);
    }
}

@compute @workgroup_size(16, 16)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) place: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    runtime_zero = params.zero;
    // A group beyond the last does the last again: nobody may leave before a barrier.
    let given = group.x + group.y * groups.x;
    let tile = select(params.count - 1u, given, given < params.count);
    let tiles = params.rows * params.columns;
    let batch = tile / tiles;
    let in_batch = tile - batch * tiles;
    let tile_row = in_batch / params.columns;
    let row = tile_row * SIDE;
    let column = (in_batch - tile_row * params.columns) * SIDE;
    let a_start = params.first_a + batch * params.a_batch;
    let b_start = params.first_b + batch * params.b_batch;
    var c0 = vec4<T>();
    var c1 = vec4<T>();
    var c2 = vec4<T>();
    var c3 = vec4<T>();
    for (var depth = 0u; depth < params.k; depth += DEPTH) {
        for (var i = 0u; i < 4u; i++) {
            let p = a_place(thread + i * 256u);
            let q = b_place(thread + i * 256u);
            var va = T(0);
            var vb = T(0);
            if depth + p.x < params.k && row + p.y < params.m {
                va = a[a_start + (row + p.y) * params.a_row + (depth + p.x) * params.a_column];
            }
            if depth + q.x < params.k && column + q.y < params.n {
                vb = b[b_start + (depth + q.x) * params.b_row + (column + q.y) * params.b_column];
            }
            left[p.x * SIDE + p.y] = va;
            right[q.x * SIDE + q.y] = vb;
        }
        workgroupBarrier();
        for (var d = 0u; d < DEPTH; d++) {
            let l = d * SIDE + place.y * 4u;
            let r = d * SIDE + place.x * 4u;
            let beside = vec4<T>(right[r], right[r + 1u], right[r + 2u], right[r + 3u]);
            c0 += left[l] * beside;
            c1 += left[l + 1u] * beside;
            c2 += left[l + 2u] * beside;
            c3 += left[l + 3u] * beside;
        }
        workgroupBarrier();
    }
    let r = row + place.y * 4u;
    let c = column + place.x * 4u;
    for (var i = 0u; i < 4u; i++) {
        write(batch, r, c + i, c0[i]);
        write(batch, r + 1u, c + i, c1[i]);
        write(batch, r + 2u, c + i, c2[i]);
        write(batch, r + 3u, c + i, c3[i]);
    }
}
