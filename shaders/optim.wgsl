// An optimizer step on corresponding elements of the tensors of several parameters: w0 is the parameter, the others
// are its state. Each workgroup processes one parameter.
//
// The default slots are a plain gradient descent step on one parameter.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of workgroups.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Offsets, in elements, of the tensors shared by all parameters: one that is read and one that is written.
    first_factor: u32,
    first_found: u32,
    // The numbers of the rule, in order.
    c: array<vec4<f32>, 3>,
    // @slot parts
    // For each parameter: the offsets of its tensors (the gradient, then the written tensors), the number of elements
    // and the first workgroup; in units of an invocation's elements.
    parts: array<vec4<u32>, 2>,
    // @end
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> x0_0: array<f32>;
@group(0) @binding(2) var<storage, read> g0: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
// @end

// The elements of an invocation: one, or a quad.
// @slot lanes
alias V = f32;
// @end

var<private> g: V;
var<private> w0: V;
var<private> w1: V;
var<private> w2: V;
var<private> w3: V;
var<private> w4: V;

// The optimizer step on an invocation's elements, from its formula.
// @slot update
fn update() { w0 = w0 - params.c[0].z * g; }
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
    // @slot step
    let i = at * 64u + thread;
    if i >= params.parts[1].z { return; }
    w0 = x0_0[params.parts[0].y + i];
    g = g0[params.parts[0].x + i];
    update();
    x0_0[params.parts[0].y + i] = w0;
    // @end
}
