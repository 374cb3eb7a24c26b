// Elements that a list of offsets picks, dense: element [b, i, a] lies where b points in the dimensions before the
// picked ones, moved by offset i, moved by where a points in those after.
//
// As it stands this moves 32-bit elements, the other dimensions being contiguous.

// @slot types
alias T = u32;
// @end

struct Params {
    // Elements of the result.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Where the tensors begin: the result in words, the others in elements.
    first: u32,
    first_x: u32,
    first_offsets: u32,
    // Offsets, and elements of the dimensions after.
    n: u32,
    width: u32,
    // Elements that the binding shows; see `backend/gpu/window.rs`.
    limit: u32,
    // @slot params
    // @end
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<u32>;
@group(0) @binding(3) var<storage, read> offsets: array<i32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn quotient(i: u32, n: u32) -> u32 { return i / n; }
// @end

// @slot load
fn load_x(i: u32) -> T { return x[i]; }
// @end

// Where a position lies in the dimensions before, and in those after.
// @slot places
fn before(i: u32) -> u32 { return i; }
fn after(i: u32) -> u32 { return i; }
// @end

fn element(i: u32) -> T {
    let row = quotient(i, params.width);
    let block = quotient(row, params.n);
    let pick = u32(offsets[params.first_offsets + row - block * params.n]);
    let at = params.first_x + pick + before(block) + after(i - row * params.width);
    // @slot outside
    // @end
    return load_x(at);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let word = id.x + id.y * groups.x * 64u;
    // @slot store
    if word < params.count { result[params.first + word] = element(word); }
    // @end
}
