// Softmax and log-softmax along n of [outer, n, inner], forward and backward, by one invocation or one workgroup per
// lane.
//
// The default slots are the forward softmax for float32.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of lanes: outer · inner.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    n: u32,
    inner: u32,
    // Offsets of the tensors, in elements.
    first: u32,
    first_result: u32,
    first_gradient: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> g: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn m_maximum(a: T, b: T) -> T { return select(b, a, a > b); }
fn m_exp(a: T) -> T { return a; }
fn m_log(a: T) -> T { return a; }
// @end

// @slot together
const STEP: u32 = 1u;
fn largest(v: T) -> T { return v; }
fn sum(v: T) -> T { return v; }
// @end

// A shader calls one of these functions for the lane that begins at `start`, from element `begin` on.
// @slot functions
fn top_of(start: u32, begin: u32) -> T {
    var top = x[params.first + start];
    for (var k = begin; k < params.n; k += STEP) {
        let i = start + k * params.inner;
        top = m_maximum(top, x[params.first + i]);
    }
    return largest(top);
}

fn total_of(start: u32, begin: u32, top: T) -> T {
    var total = T(0);
    for (var k = begin; k < params.n; k += STEP) {
        let i = start + k * params.inner;
        total += m_exp(x[params.first + i] - top);
    }
    return sum(total);
}

fn softmax(start: u32, begin: u32) {
    let top = top_of(start, begin);
    let total = total_of(start, begin, top);
    for (var k = begin; k < params.n; k += STEP) {
        let i = start + k * params.inner;
        result[params.first_result + i] = m_exp(x[params.first + i] - top) / total;
    }
}

fn log_softmax(start: u32, begin: u32) {
    let top = top_of(start, begin);
    let rest = m_log(total_of(start, begin, top));
    for (var k = begin; k < params.n; k += STEP) {
        let i = start + k * params.inner;
        result[params.first_result + i] = (x[params.first + i] - top) - rest;
    }
}

// The gradient of the input; `x` is the result.
fn softmax_backward(start: u32, begin: u32) {
    var part = T(0);
    for (var k = begin; k < params.n; k += STEP) {
        let i = start + k * params.inner;
        part += g[params.first_gradient + i] * x[params.first + i];
    }
    let total = sum(part);
    for (var k = begin; k < params.n; k += STEP) {
        let i = start + k * params.inner;
        let gradient = g[params.first_gradient + i];
        result[params.first_result + i] = (gradient - total) * x[params.first + i];
    }
}

fn log_softmax_backward(start: u32, begin: u32) {
    var part = T(0);
    for (var k = begin; k < params.n; k += STEP) {
        let i = start + k * params.inner;
        part += g[params.first_gradient + i];
    }
    let total = sum(part);
    for (var k = begin; k < params.n; k += STEP) {
        let i = start + k * params.inner;
        let gradient = g[params.first_gradient + i];
        result[params.first_result + i] = gradient - m_exp(x[params.first + i]) * total;
    }
}
// @end

@compute @workgroup_size(64)
fn main(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    runtime_zero = params.zero;
    // @slot place
    let lane = id.x + id.y * groups.x * 64u;
    if lane >= params.count { return; }
    let begin = 0u;
    // @end
    let outer = lane / params.inner;
    let start = outer * params.n * params.inner + (lane - outer * params.inner);
    // @slot body
    softmax(start, begin);
    // @end
}
