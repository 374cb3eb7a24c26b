// A bitonic sorting network on chunks of 256 positions of a row, in workgroup memory.
//
// Positions are sorted instead of elements: rows are padded to a power of two with positions beyond the end, which are
// sorted last. The default slots sort each chunk, every other one in reverse.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of chunks in all rows.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Offset of the elements.
    first: u32,
    // Elements per row, and per padded row.
    n: u32,
    padded: u32,
    // Number of positions that are merged together.
    block: u32,
    // Distance of the compared positions, in the pass on device memory.
    distance: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> order: array<u32>;
// @slot bindings
@group(0) @binding(2) var<storage, read> x: array<f32>;
// @end

var<private> runtime_zero: u32;
var<workgroup> keys: array<T, 256>;
var<workgroup> places: array<u32, 256>;
// @slot prelude
// @end

// @slot load
fn load_x(i: u32) -> T { return T(x[i]); }
// @end

// @slot less
fn less(a: T, b: T) -> bool { return a < b; }
// @end

// Whether element a precedes element b; of equal elements the one at the lower position does.
fn goes_before(a: T, place_a: u32, b: T, place_b: u32) -> bool {
    if place_a >= params.n || place_b >= params.n { return place_a < place_b; }
    if less(a, b) { return true; }
    return place_a < place_b && !less(b, a);
}

fn key(row: u32, place: u32) -> T {
    if place >= params.n { return T(0); }
    return load_x(params.first + row * params.n + place);
}

// The lower position of pair `i` at a distance that is a power of two.
fn lower(i: u32, distance: u32) -> u32 {
    return ((i & ~(distance - 1u)) << 1u) | (i & (distance - 1u));
}

// Orders the two positions of an invocation, ascending or descending depending on the block.
fn compare(i: u32, base: u32, block: u32, distance: u32) {
    let a = lower(i, distance);
    let b = a + distance;
    let upwards = ((base + a) & block) == 0u;
    if goes_before(keys[b], places[b], keys[a], places[a]) == upwards {
        let held = places[a];
        let held_key = keys[a];
        places[a] = places[b];
        keys[a] = keys[b];
        places[b] = held;
        keys[b] = held_key;
    }
    workgroupBarrier();
}

// The passes, of which each shader contains one.
// @slot functions
// Sorts each chunk, every other one in reverse.
fn sort_chunk(row: u32, base: u32, i: u32) {
    for (var e = i; e < 256u; e += 128u) {
        places[e] = base + e;
        keys[e] = key(row, base + e);
    }
    workgroupBarrier();
    for (var block = 2u; block <= 256u; block <<= 1u) {
        for (var distance = block >> 1u; distance > 0u; distance >>= 1u) {
            compare(i, base, block, distance);
        }
    }
    for (var e = i; e < 256u; e += 128u) { order[row * params.padded + base + e] = places[e]; }
}

// Compares positions at a distance of 256 or more, in device memory.
fn compare_apart(row: u32, base: u32, i: u32) {
    let a = lower(base / 2u + i, params.distance);
    let b = a + params.distance;
    let at = row * params.padded;
    let place_a = order[at + a];
    let place_b = order[at + b];
    if goes_before(key(row, place_b), place_b, key(row, place_a), place_a) == ((a & params.block) == 0u) {
        order[at + a] = place_b;
        order[at + b] = place_a;
    }
}

// The rest of a merge, within chunks.
fn merge_chunk(row: u32, base: u32, i: u32) {
    for (var e = i; e < 256u; e += 128u) {
        places[e] = order[row * params.padded + base + e];
        keys[e] = key(row, places[e]);
    }
    workgroupBarrier();
    for (var distance = 128u; distance > 0u; distance >>= 1u) { compare(i, base, params.block, distance); }
    for (var e = i; e < 256u; e += 128u) { order[row * params.padded + base + e] = places[e]; }
}
// @end

@compute @workgroup_size(128)
fn main(
    @builtin(local_invocation_index) i: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>
) {
    runtime_zero = params.zero;
    let chunk = group.x + group.y * groups.x;
    // All invocations of a workgroup return together.
    if chunk >= params.count { return; }
    let per_row = params.padded / 256u;
    let row = chunk / per_row;
    let base = (chunk - row * per_row) * 256u;
    // @slot pass
    sort_chunk(row, base, i);
    // @end
}
