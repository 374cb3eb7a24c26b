// Converts indices to offsets in a tensor, one per index.
//
// An index is an int64, read as two words. One that is out of range is reported and replaced by 0. The default slots
// are for one-dimensional indices, which may not be negative.

struct Params {
    // Number of indices.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    first: u32,
    first_index: u32,
    // Size and stride of the indexed dimension.
    size: u32,
    stride: u32,
    // Whether negative indices count from the end.
    wraps: u32,
    // Whether to add to the offsets of other dimensions.
    adds: u32,
    // The fault word to report.
    fault: u32,
    // The tensor's storage offset.
    base: u32,
    // @slot params
    // @end
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
@group(0) @binding(2) var<storage, read_write> faults: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read> index: array<vec2<u32>>;

// @slot prelude
// @end

// Whether no fault was found before: only the first is recorded, until it is reported.
fn is_first() -> bool {
    var first = false;
    loop {
        let tried = atomicCompareExchangeWeak(&faults[0], 0u, params.fault);
        first = tried.exchanged;
        if first || tried.old_value > 0u { break; }
    }
    return first;
}

fn position(i: vec2<u32>) -> u32 {
    if i.y == 0u && i.x < params.size { return i.x; }
    if params.wraps == 1u && i.y == 0xffffffffu && i.x >= 0u - params.size { return i.x + params.size; }
    if params.count > 0u && is_first() {
        atomicStore(&faults[1], i.x);
        atomicStore(&faults[2], i.y);
        atomicStore(&faults[3], params.size);
    }
    return 0u;
}

// The additional offset that depends on the position in the index tensor.
// @slot place
fn place(i: u32) -> u32 { return i; }
// @end

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let at = id.x + id.y * groups.x * 64u;
    if at >= params.count { return; }
    let offset = params.base + position(index[params.first_index + at]) * params.stride + place(at);
    if params.adds == 1u {
        result[params.first + at] += offset;
    } else {
        result[params.first + at] = offset;
    }
}
