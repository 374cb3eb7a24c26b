// A step of an optimizer on corresponding elements of several parameters' tensors: w0 is the parameter, the rest its
// state. A workgroup works on one parameter.
//
// The rules follow `src/optim.rs`. As it stands this is a plain step of gradient descent on one parameter.

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

// @slot shared
// @end

// The gradient as every rule takes it: c[0] = (sign, weight decay, …).
fn prepared() -> V {
    let signed = g * params.c[0].x;
    return select(signed + params.c[0].y * w0, signed, params.c[0].y == 0.0);
}

// c[0].z: learning rate.
fn sgd() { w0 = w0 - params.c[0].z * prepared(); }

// c[0].z: learning rate; c[1] = (momentum, 1 - dampening, whether the momentum starts, whether Nesterov's).
fn sgd_momentum() {
    let d = prepared();
    w1 = select(w1 * params.c[1].x + params.c[1].y * d, d, params.c[1].z > 0.5);
    let ahead = select(w1, d + params.c[1].x * w1, params.c[1].w > 0.5);
    w0 = w0 - params.c[0].z * ahead;
}

// c[0].z: what decoupled decay leaves, w: epsilon; c[1] = (beta2, 1 - beta1, 1 - beta2, step size); c[2].x: one over
// the root of the second bias correction.
fn adam_moments() {
    let d = prepared();
    w1 = w1 + params.c[1].y * (d - w1);
    w2 = w2 * params.c[1].x + params.c[1].z * d * d;
}
fn adam_step(second: V) {
    w0 = w0 * params.c[0].z - params.c[1].w * w1 / (sqrt(second) * params.c[2].x + params.c[0].w);
}
fn adam() {
    adam_moments();
    adam_step(w2);
}
fn adam_max() {
    adam_moments();
    // A NaN stays: it is not below anything.
    w3 = select(w2, w3, w2 < w3);
    adam_step(w3);
}

// c[0].z: learning rate, w: epsilon; c[1] = (alpha, 1 - alpha, momentum).
fn rmsprop_square(d: V) { w1 = w1 * params.c[1].x + params.c[1].y * d * d; }
fn rmsprop_centered_size(d: V, average: V) -> V { return d / (sqrt(w1 - average * average) + params.c[0].w); }
fn rmsprop() {
    let d = prepared();
    rmsprop_square(d);
    w0 = w0 - params.c[0].z * (d / (sqrt(w1) + params.c[0].w));
}
fn rmsprop_centered() {
    let d = prepared();
    rmsprop_square(d);
    w2 = w2 + params.c[1].y * (d - w2);
    w0 = w0 - params.c[0].z * rmsprop_centered_size(d, w2);
}
fn rmsprop_momentum() {
    let d = prepared();
    rmsprop_square(d);
    w2 = w2 * params.c[1].z + d / (sqrt(w1) + params.c[0].w);
    w0 = w0 - params.c[0].z * w2;
}
fn rmsprop_both() {
    let d = prepared();
    rmsprop_square(d);
    w2 = w2 + params.c[1].y * (d - w2);
    w3 = w3 * params.c[1].z + rmsprop_centered_size(d, w2);
    w0 = w0 - params.c[0].z * w3;
}

// c[0].z: step size, w: epsilon.
fn adagrad() {
    let d = prepared();
    w1 = w1 + d * d;
    w0 = w0 - params.c[0].z * d / (sqrt(w1) + params.c[0].w);
}

// c[0].z: learning rate, w: epsilon; c[1] = (rho, 1 - rho).
fn adadelta() {
    let d = prepared();
    w1 = w1 * params.c[1].x + params.c[1].y * d * d;
    let step = sqrt(w2 + params.c[0].w) / sqrt(w1 + params.c[0].w) * d;
    w2 = w2 * params.c[1].x + params.c[1].y * step * step;
    w0 = w0 - params.c[0].z * step;
}

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
    sgd();
    x0_0[params.parts[0].y + i] = w0;
    // @end
}
