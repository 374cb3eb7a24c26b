// Operations on sorted rows, one element of the result at a time.
//
// The default slots gather the elements of rows by their sorted positions.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of elements of the result.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Offsets of the tensors: of the result in words, of the others in elements.
    first: u32,
    first_x: u32,
    first_order: u32,
    first_values: u32,
    // Elements per row, per row of positions, and per row of the result.
    n: u32,
    padded: u32,
    width: u32,
    // The first sorted position in a row of the result; for a search, whether it goes past equal elements.
    start: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> order: array<i32>;
@group(0) @binding(4) var<storage, read> values: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn quotient(i: u32, n: u32) -> u32 { return i / n; }
// @end

// @slot load
fn load_x(i: u32) -> T { return x[i]; }
fn load_values(i: u32) -> T { return values[i]; }
// @end

// @slot less
fn less(a: T, b: T) -> bool { return a < b; }
// @end

// @slot functions
// The original position of the element at index `i` of the sorted rows.
fn place_of(i: u32) -> i32 {
    let row = quotient(i, params.width);
    let at = row * params.padded + params.start + (i - row * params.width);
    return i32(order[params.first_order + at]);
}

fn value_of(i: u32) -> T {
    let row = quotient(i, params.width);
    return load_x(params.first_x + row * params.n + u32(place_of(i)));
}

// The first position in a row whose element is not less than value `i`, or, to go past equal elements, is greater.
fn search(i: u32) -> u32 {
    let wanted = load_values(params.first_values + i);
    let row = params.first_x + quotient(i, params.width) * params.n * params.padded;
    var low = 0u;
    var high = params.n;
    while low < high {
        let middle = (low + high) / 2u;
        let found = load_x(row + middle);
        if less(found, wanted) || (params.start == 1u && !less(wanted, found)) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low;
}
// @end

// @slot element
fn element(i: u32) -> T { return value_of(i); }
// @end

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let word = id.x + id.y * groups.x * 64u;
    // @slot store
    if word < params.count { result[params.first + word] = element(word); }
    // @end
}
