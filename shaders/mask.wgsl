// The positions at which a mask is true, in ascending order.
//
// Three passes: count the true elements per block of the mask, scan the counts in one invocation, and write the
// positions of each block from its start on. The default slots are the counting pass.

struct Params {
    // Number of blocks.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    first_mask: u32,
    // Number of elements of the mask, and per block.
    n: u32,
    block: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// The number of true elements before each block; the last entry is the total.
@group(0) @binding(1) var<storage, read_write> starts: array<u32>;
// @slot bindings
@group(0) @binding(2) var<storage, read_write> positions: array<u32>;
@group(0) @binding(3) var<storage, read> mask: array<u32>;
// @end

fn is_true(i: u32) -> bool {
    let at = params.first_mask + i;
    return extractBits(mask[at >> 2u], (at & 3u) * 8u, 8u) > 0u;
}

// The passes, of which each shader contains one.
// @slot functions
fn count(at: u32) {
    if at >= params.count { return; }
    var found = 0u;
    for (var i = at * params.block; i < (at + 1u) * params.block && i < params.n; i++) {
        found += select(0u, 1u, is_true(i));
    }
    starts[at] = found;
}

fn sum(at: u32) {
    if at > 0u { return; }
    var total = 0u;
    for (var k = 0u; k < params.count; k++) {
        let found = starts[k];
        starts[k] = total;
        total += found;
    }
    starts[params.count] = total;
}

fn write(at: u32) {
    if at >= params.count { return; }
    var next = starts[at];
    for (var i = at * params.block; i < (at + 1u) * params.block && i < params.n; i++) {
        if is_true(i) {
            positions[next] = i;
            next++;
        }
    }
}
// @end

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let at = id.x + id.y * groups.x * 64u;
    // @slot pass
    count(at);
    // @end
}
