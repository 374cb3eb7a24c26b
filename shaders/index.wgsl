// Elements named by indices along one dimension: read (gather) or written (scatter).
//
// An index is an int64, read as two words; one that is out of range is reported, and element 0 stands in for what it
// names. Tensors are seen as words: what is moved is not computed with. As it stands this reads a row of words.

// @slot types
alias T = f32;
// @end

struct Params {
    // Indices.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // The size of the dimension, and how far its elements lie apart.
    size: u32,
    along: u32,
    // What is reported of an index out of range.
    fault: u32,
    // Where the tensors begin, in elements.
    first_index: u32,
    first_from: u32,
    first_to: u32,
    // A number to write.
    number: vec2<u32>,
    // @slot params
    n0: u32,
    index_0: u32,
    from_0: u32,
    to_0: u32,
    // @end
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> to: array<u32>;
@group(0) @binding(2) var<storage, read_write> faults: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read> indices: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> from: array<u32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
// @end

fn checked(i: vec2<u32>) -> u32 {
    if i.y == 0u && i.x < params.size { return i.x; }
    if atomicMax(&faults[0], params.fault) == 0u {
        atomicStore(&faults[1], i.x);
        atomicStore(&faults[2], i.y);
        atomicStore(&faults[3], params.size);
    }
    return 0u;
}

// @slot functions
fn element(i: u32) {
    let place = checked(indices[params.first_index + i * params.index_0]);
    to[params.first_to + i * params.to_0] = from[params.first_from + place * params.along];
}
// @end

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let i = id.x + id.y * groups.x * 64u;
    if i >= params.count { return; }
    element(i);
}
