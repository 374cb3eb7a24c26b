// Normalization of contiguous lanes of n elements, forward and backward, by one invocation or one workgroup per lane.
// A lane contains channels of several elements; the lanes of a sample contain its channels in order.
//
// The default slots are the forward pass for float32, without weight and bias.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of lanes.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    n: u32,
    // Elements per channel, lanes per sample.
    inner: u32,
    groups: u32,
    // Offsets of the tensors, in elements.
    first: u32,
    first_result: u32,
    first_gradient: u32,
    first_mean: u32,
    first_rstd: u32,
    first_weight: u32,
    first_bias: u32,
    eps: T,
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@group(0) @binding(2) var<storage, read_write> means: array<f32>;
@group(0) @binding(3) var<storage, read_write> rstds: array<f32>;
@group(0) @binding(4) var<storage, read> x: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn m_sqrt(a: T) -> T { return a; }
fn quotient(i: u32, n: u32) -> u32 { return i / n; }
// @end

// @slot together
const STEP: u32 = 1u;
fn sum(v: T) -> T { return v; }
// @end

// The channel of element k of a lane whose first channel is `origin`.
// @slot channel
fn channel(origin: u32, k: u32) -> u32 { return origin + quotient(k, params.inner); }
// @end

// The formulas of normalization.
// @slot formulas
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
    let start = lane * params.n;
    let origin = (lane - quotient(lane, params.groups) * params.groups) * quotient(params.n, params.inner);
    // @slot body
    var total = T(0);
    for (var k = begin; k < params.n; k += STEP) { total += x[params.first + start + k]; }
    let mean = sum(total) / T(params.n);
    var square = T(0);
    for (var k = begin; k < params.n; k += STEP) {
        let centred = x[params.first + start + k] - mean;
        square += centred * centred;
    }
    let rstd = T(1) / m_sqrt(sum(square) / T(params.n) + params.eps);
    if begin == 0u {
        means[params.first_mean + lane] = mean;
        rstds[params.first_rstd + lane] = rstd;
    }
    for (var k = begin; k < params.n; k += STEP) {
        result[params.first_result + start + k] = (x[params.first + start + k] - mean) * rstd;
    }
    // @end
}
