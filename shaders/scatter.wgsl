// Combines values with elements selected by a list of offsets; gather.wgsl describes the selection.
//
// Several values may be combined with one element. Atomic words use a compare-and-swap loop; 64-bit elements are
// combined by one invocation for all offsets. The default slots store 32-bit elements.

// @slot types
alias T = u32;
// @end

struct Params {
    // Number of values, or of elements in the dimensions before and after.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Offsets of the tensors, in elements.
    first: u32,
    first_values: u32,
    first_offsets: u32,
    // Number of offsets, and of elements in the dimensions after.
    n: u32,
    width: u32,
    // Stride of the values: 0 if a single one is used for all.
    step: u32,
    // Number of elements in the binding; see `backend/gpu/window.rs`.
    limit: u32,
    // The range of offsets for an invocation that processes all of them.
    begin: u32,
    end: u32,
    // @slot params
    // @end
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read> values: array<u32>;
// @end
@group(0) @binding(3) var<storage, read> offsets: array<u32>;

var<private> runtime_zero: u32;
// @slot prelude
fn quotient(i: u32, n: u32) -> u32 { return i / n; }
// @end

// @slot load
fn load_values(i: u32) -> T { return values[i]; }
// @end

// The offset of a position in the dimensions before, and in those after.
// @slot places
fn before(i: u32) -> u32 { return i; }
fn after(i: u32) -> u32 { return i; }
// @end

// @slot write
fn write(i: u32, value: T) { atomicStore(&result[i], value); }
// @end

// @slot functions
// One value per invocation.
fn combine_value(at: u32) {
    let row = quotient(at, params.width);
    let block = quotient(row, params.n);
    let pick = offsets[params.first_offsets + row - block * params.n];
    let i = params.first + pick + before(block) + after(at - row * params.width);
    if i < params.limit { write(i, load_values(params.first_values + at * params.step)); }
}

// All values that may target the same element, in one invocation.
fn combine_values(at: u32) {
    let block = quotient(at, params.width);
    let column = at - block * params.width;
    let base = params.first + before(block) + after(column);
    for (var k = params.begin; k < params.end; k++) {
        let value = ((block * params.n + k) * params.width + column) * params.step;
        let i = base + offsets[params.first_offsets + k];
        if i < params.limit { write(i, load_values(params.first_values + value)); }
    }
}
// @end

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let at = id.x + id.y * groups.x * 64u;
    if at >= params.count { return; }
    // @slot body
    combine_value(at);
    // @end
}
