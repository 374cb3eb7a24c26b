// The lower or upper triangle of each matrix, up to or from a diagonal, with zeros elsewhere.
//
// The default slots are for 32-bit elements.

// @slot types
alias T = u32;
// @end

struct Params {
    // Number of elements of the result.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Offsets of the tensors: of the result in words, of the other in elements.
    first: u32,
    first_x: u32,
    rows: u32,
    columns: u32,
    // The diagonal, which may be negative.
    diagonal: i32,
    // Whether to keep the lower triangle.
    lower: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<u32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn quotient(i: u32, n: u32) -> u32 { return i / n; }
// @end

// @slot load
fn load_x(i: u32) -> T { return x[i]; }
// @end

fn element(i: u32) -> T {
    let row = quotient(i, params.columns);
    let column = i - row * params.columns;
    // The distance to the right of the diagonal.
    let right = i32(column) - i32(row - quotient(row, params.rows) * params.rows) - params.diagonal;
    let outside = (params.lower == 1u && right > 0) || (params.lower == 0u && right < 0);
    return select(load_x(params.first_x + i), T(0), outside);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let word = id.x + id.y * groups.x * 64u;
    // @slot store
    if word < params.count { result[params.first + word] = element(word); }
    // @end
}
