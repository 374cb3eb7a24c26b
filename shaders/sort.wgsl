// The bitonic sorting network on 256 places of a row, in the memory of a workgroup.
//
// Sorted are places of elements, not elements: rows are padded to a power of two with places that do not exist and go
// last. As it stands this sorts each 256 places, every other ones in reverse.

// @slot types
alias T = f32;
// @end

struct Params {
    // Groups of 256 places in all rows.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Where the elements begin.
    first: u32,
    // Elements of a row, and of a padded one.
    n: u32,
    padded: u32,
    // Places that are merged together.
    block: u32,
    // How far places that are compared lie apart, in the pass over all memory.
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

// Whether element a at a place goes before b at another; of equal ones the first does.
fn goes_before(a: T, place_a: u32, b: T, place_b: u32) -> bool {
    if place_a >= params.n || place_b >= params.n { return place_a < place_b; }
    if less(a, b) { return true; }
    return place_a < place_b && !less(b, a);
}

fn key(row: u32, place: u32) -> T {
    if place >= params.n { return T(0); }
    return load_x(params.first + row * params.n + place);
}

// The lower place of pair `i` of those that lie a distance, which is a power of two, apart.
fn lower(i: u32, distance: u32) -> u32 {
    return ((i & ~(distance - 1u)) << 1u) | (i & (distance - 1u));
}

// Puts the places that an invocation compares in order: upwards or downwards, by which block they are in.
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

// The passes, of which a shader has one.
// @slot functions
// Sorts each 256 places, every other ones in reverse.
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

// Compares places that lie at least 256 apart, in the memory of the device.
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

// The rest of a merge, of places within 256.
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
    // All invocations of a workgroup return, or none.
    if chunk >= params.count { return; }
    let per_row = params.padded / 256u;
    let row = chunk / per_row;
    let base = (chunk - row * per_row) * 256u;
    // @slot pass
    sort_chunk(row, base, i);
    // @end
}
