// A step of an optimizer on corresponding elements of a parameter's tensors: w0 is the parameter, the rest its state.
//
// The rules follow `src/optim.rs`. As it stands this is a plain step of gradient descent.

// @slot types
alias T = f32;
// @end

struct Params {
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Where the tensors begin, in elements: the gradient, then what is written.
    first_g: u32,
    first0: u32,
    first1: u32,
    first2: u32,
    first3: u32,
    first4: u32,
    // The numbers of the rule, in its order.
    c: array<vec4<f32>, 3>,
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> x0: array<f32>;
@group(0) @binding(2) var<storage, read> gradient: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn m_sqrt(a: T) -> T { return a; }
// @end

var<private> g: T;
var<private> w0: T;
var<private> w1: T;
var<private> w2: T;
var<private> w3: T;
var<private> w4: T;

// The gradient as every rule takes it: c[0] = (sign, weight decay, …).
fn prepared() -> T {
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
fn adam_step(second: T) {
    w0 = w0 * params.c[0].z - params.c[1].w * w1 / (m_sqrt(second) * params.c[2].x + params.c[0].w);
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

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let i = id.x + id.y * groups.x * 64u;
    if i >= params.count { return; }
    // @slot step
    g = gradient[params.first_g + i];
    w0 = x0[params.first0 + i];
    sgd();
    x0[params.first0 + i] = w0;
    // @end
}
