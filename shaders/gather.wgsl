// Gathers elements by a list of offsets: element [b, i, a] is at the offset of b in the dimensions before the indexed
// ones, plus offset i, plus the offset of a in the dimensions after.
//
// The default slots move 32-bit elements with contiguous other dimensions.

// @slot types
alias T = u32;
// @end

struct Params {
    // Number of elements of the result.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Offsets of the tensors: of the result in words, of the others in elements.
    first: u32,
    first_x: u32,
    first_offsets: u32,
    // Number of offsets, and of elements in the dimensions after.
    n: u32,
    width: u32,
    // Number of elements in the binding; see `backend/gpu/window.rs`.
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

// The offset of a position in the dimensions before, and in those after.
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
