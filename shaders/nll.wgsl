// The negative log likelihood of a class per position, of [outer, classes, inner], and its gradients.
//
// A class is an int64, read as two words. One that is out of range is reported and has weight zero. The default slots
// are the forward pass for float32.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of positions: outer · inner; times the number of classes in a backward pass over all classes.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    classes: u32,
    inner: u32,
    // The ignored class, as two words.
    ignored: u32,
    ignored_high: u32,
    // Offsets of the tensors, in elements.
    first: u32,
    first_class: u32,
    first_weight: u32,
    first_result: u32,
    first_gradient: u32,
    // Stride of the output gradients over positions: 0 if a single one is used for all.
    step: u32,
    // Offset of the weights of the positions.
    first_weights: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@group(0) @binding(2) var<storage, read_write> weights: array<f32>;
@group(0) @binding(3) var<storage, read_write> faults: array<atomic<u32>>;
@group(0) @binding(4) var<storage, read> chosen: array<vec2<u32>>;
@group(0) @binding(5) var<storage, read> x: array<f32>;
@group(0) @binding(6) var<storage, read> g: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn quotient(i: u32, n: u32) -> u32 { return i / n; }
fn m_exp(a: T) -> T { return a; }
// @end

// @slot weight
fn weight_of(c: u32) -> T { return T(1); }
// @end

// Whether the class at a position is valid and not ignored.
fn counts(c: vec2<u32>) -> bool {
    if c.x == params.ignored && c.y == params.ignored_high { return false; }
    if c.y == 0u && c.x < params.classes { return true; }
    // Only the first fault is recorded, until it is reported.
    if atomicMax(&faults[0], 1u) == 0u {
        atomicStore(&faults[1], c.x);
        atomicStore(&faults[2], c.y);
        atomicStore(&faults[3], params.classes);
    }
    return false;
}

// @slot functions
// The loss at a position (0 if ignored) and its weight.
fn loss(at: u32) {
    let c = chosen[params.first_class + at];
    var value = T(0);
    var weight = T(0);
    if counts(c) {
        let outer = quotient(at, params.inner);
        let column = at - outer * params.inner;
        weight = weight_of(c.x);
        value = -weight * x[params.first + (outer * params.classes + c.x) * params.inner + column];
    }
    result[params.first_result + at] = value;
    weights[params.first_weights + at] = weight;
}

// An element of the gradient: of the log-probabilities, or of the logits, which includes the softmax.
fn slope(at: u32, of_logits: bool) {
    let row = quotient(at, params.inner);
    let column = at - row * params.inner;
    let outer = quotient(row, params.classes);
    let position = outer * params.inner + column;
    let c = chosen[params.first_class + position];
    var value = T(0);
    if counts(c) {
        let scale = weight_of(c.x) * g[params.first_gradient + position * params.step];
        let hit = select(T(0), scale, c.x == row - outer * params.classes);
        if of_logits { value = m_exp(x[params.first + at]) * scale; }
        value = value - hit;
    }
    result[params.first_result + at] = value;
}
// @end

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let at = id.x + id.y * groups.x * 64u;
    if at >= params.count { return; }
    // @slot body
    loss(at);
    // @end
}
