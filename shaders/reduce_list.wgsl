// The first launch of a reduction over several tensors: every invocation stores its partial result.
//
// Each workgroup processes one tensor. The default slots sum one tensor.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of workgroups.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Offset of the results.
    first_result: u32,
    // A parameter of the reduction.
    p: f32,
    // @slot parts
    // For each tensor: its offset, its number of elements, its first workgroup and its number of workgroups.
    parts: array<vec4<u32>, 1>,
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

// @slot functions
fn start() -> T { return T(0); }
fn prepare(v: T) -> T { return v; }
fn combine(a: T, b: T) -> T { return a + b; }
// @end

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    runtime_zero = params.zero;
    let at = group.x + group.y * groups.x;
    if at >= params.count { return; }
    var part = 0u;
    // @slot part
    // @end
    let own = params.parts[part];
    let step = own.w * 64u;
    var i = (at - own.z) * 64u + thread;
    var total = start();
    switch part {
        // @slot reduce
        case 0u: { for (; i < own.y; i += step) { total = combine(total, prepare(x0[own.x + i])); } }
        // @end
        default: {}
    }
    result[params.first_result + at * 64u + thread] = total;
}
