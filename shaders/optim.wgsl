// A step of an optimizer on corresponding elements of several parameters' tensors: w0 is the parameter, the rest its
// state. A workgroup works on one parameter.
//
// As it stands this is a plain step of gradient descent on one parameter.

// @slot types
alias T = f32;
// @end

struct Params {
    // Workgroups.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Where the tensors begin, in elements, that all parameters share: one that is read and one that is written.
    first_factor: u32,
    first_found: u32,
    // The numbers of the rule, in its order.
    c: array<vec4<f32>, 3>,
    // @slot parts
    // Of each parameter: where its tensors begin (the gradient, then what is written), how many elements they have and
    // the first of its workgroups; in units of what an invocation works on.
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

// What an invocation works on: an element, or four beside one another.
// @slot lanes
alias V = f32;
// @end

var<private> g: V;
var<private> w0: V;
var<private> w1: V;
var<private> w2: V;
var<private> w3: V;
var<private> w4: V;

// The step of an optimizer on what an invocation works on, from its formula.
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
