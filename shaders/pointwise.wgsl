// A pointwise formula over tensors.
//
// An invocation computes the elements of one 32-bit word of the result (or one 64-bit element), so that each word of a
// packed type has a single writer. The default slots are the identity on float32.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of elements of the result.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // @slot params
    // Offset of each tensor in its binding, in elements; of the result last.
    first0: u32,
    first: u32,
    // @end
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@group(0) @binding(2) var<storage, read> x0: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
// @end

// @slot op
fn op(a0: T) -> T {
    return a0;
}
// @end

// @slot load
fn load0(i: u32) -> T { return T(x0[i]); }
// @end

// The offset of element `i` of a non-contiguous result.
// @slot place
// @end

// @slot element
fn element(i: u32) -> T {
    return op(load0(params.first0 + i));
}
// @end

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    // The grid uses a second dimension if the first would have too many workgroups.
    let word = id.x + id.y * groups.x * 64u;
    // @slot store
    if word < params.count {
        result[params.first + word] = f32(element(word));
    }
    // @end
}
