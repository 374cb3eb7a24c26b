// A product kernel for `matmul.wgsl` with tiles in workgroup memory; convolutions replace its load functions.
//
// Half of the threads load a block of four by four elements of A, the other half one of B. In workgroup memory the
// depth is the slow dimension, and elements beyond the depth are zero. A strip has one tile; the depth of a segment is
// a multiple of DEPTH.

// @slot sizes
const FOURS: u32 = 16u;
const DEPTH: u32 = 32u;
// @end

var<workgroup> left: array<vec4<T>, FOURS * DEPTH>;
var<workgroup> right: array<vec4<T>, FOURS * DEPTH>;

// A block of an operand: one vector along the side for each of four depths. Threads are assigned to blocks along the
// direction in which elements are contiguous.
// @slot load
fn a_block(i: u32) -> vec2<u32> { return vec2<u32>(i / (DEPTH / 4u), i & (DEPTH / 4u - 1u)); }
fn b_block(i: u32) -> vec2<u32> { return vec2<u32>(i & (FOURS - 1u), i / FOURS); }
fn load_a(start: u32, side: u32, k: u32) -> mat4x4<T> {
    var v = mat4x4<T>();
    for (var d = 0u; d < 4u && k + d < params.k; d++) {
        for (var i = 0u; i < 4u; i++) {
            v[d][i] = a[start + inside(side + i, params.m) * params.a_row + (k + d) * params.a_column];
        }
    }
    return v;
}
fn load_b(start: u32, side: u32, k: u32) -> mat4x4<T> {
    var v = mat4x4<T>();
    for (var d = 0u; d < 4u && k + d < params.k; d++) {
        for (var i = 0u; i < 4u; i++) {
            v[d][i] = b[start + inside(side + i, params.n) * params.b_column + (k + d) * params.b_row];
        }
    }
    return v;
}
// @end

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    runtime_zero = params.zero;
    // Surplus workgroups repeat the last tile, since no thread may return before a barrier.
    let given = group.x + group.y * groups.x;
    let tile = select(params.count - 1u, given, given < params.count);
    let tile_rest = tile / params.rows;
    let row = (tile - tile_rest * params.rows) * FOURS * 4u;
    let part = tile_rest / params.strips;
    let column = (tile_rest - part * params.strips) * FOURS * 4u;
    let batch = part / params.segments;
    let k_start = (part - batch * params.segments) * params.depth;
    let k_end = select(params.k, k_start + params.depth, k_start + params.depth < params.k);
    let a_start = params.first_a + batch * params.a_batch;
    let b_start = params.first_b + batch * params.b_batch;
    let y = thread / 16u;
    let x = thread & 15u;
    // @slot prepare
    // @end
    // @slot begin
    var c0 = vec4<T>();
    var c1 = vec4<T>();
    var c2 = vec4<T>();
    var c3 = vec4<T>();
    // @end
    for (var k = k_start; k < k_end; k += DEPTH) {
        if thread < 128u {
            let block = a_block(thread);
            let v = load_a(a_start, row + block.x * 4u, k + block.y * 4u);
            let to = block.y * 4u * FOURS + block.x;
            left[to] = v[0];
            left[to + FOURS] = v[1];
            left[to + 2u * FOURS] = v[2];
            left[to + 3u * FOURS] = v[3];
        } else {
            let block = b_block(thread - 128u);
            let v = load_b(b_start, column + block.x * 4u, k + block.y * 4u);
            let to = block.y * 4u * FOURS + block.x;
            right[to] = v[0];
            right[to + FOURS] = v[1];
            right[to + 2u * FOURS] = v[2];
            right[to + 3u * FOURS] = v[3];
        }
        workgroupBarrier();
        for (var d = 0u; d < DEPTH; d++) {
            // @slot multiply
            let l0 = left[d * FOURS + y];
            let r0 = right[d * FOURS + x];
            c0 += l0.x * r0;
            c1 += l0.y * r0;
            c2 += l0.z * r0;
            c3 += l0.w * r0;
            // @end
        }
        workgroupBarrier();
    }
    // @slot end
    let beside = column + x * 4u;
    write(part, row + y * 4u, beside, c0 + biases(beside));
    write(part, row + y * 4u + 1u, beside, c1 + biases(beside));
    write(part, row + y * 4u + 2u, beside, c2 + biases(beside));
    write(part, row + y * 4u + 3u, beside, c3 + biases(beside));
    // @end
}
