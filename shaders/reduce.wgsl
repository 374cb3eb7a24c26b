// A reduction of [outer, n, inner] over n.
//
// An invocation reduces every `segments`-th element, so that adjacent invocations read adjacent elements; the results
// of several segments are reduced again. The default slots are a float32 sum.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of results: outer · segments · inner.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    n: u32,
    inner: u32,
    segments: u32,
    // Offsets of the elements, the results and the operand of `about`, in elements.
    first: u32,
    first_result: u32,
    first_about: u32,
    // A parameter of the reduction.
    p: f32,
    // @slot params
    // @end
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
// @end

// @slot load
// The element at a position, which is `k` along n in the row `outer`.
fn load(i: u32, outer: u32, k: u32) -> T { return T(x[i]); }
fn about(i: u32) -> T { return T(0); }
// @end

// @slot functions
fn prepare(v: T, about: T) -> T { return v; }
fn combine(a: T, b: T) -> T { return a + b; }
fn finish(a: T, about: T) -> T { return a; }
// @end

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let at = id.x + id.y * groups.x * 64u;
    if at >= params.count { return; }
    let row = at / params.inner;
    let column = at - row * params.inner;
    let outer = row / params.segments;
    let segment = row - outer * params.segments;
    let center = about(params.first_about + outer * params.inner + column);
    let start = params.first + outer * params.n * params.inner + column;
    // @slot start
    var total = T(0);
    // @end
    // @slot loop
    for (var k = segment; k < params.n; k += params.segments) {
        total = combine(total, prepare(load(start + k * params.inner, outer, k), center));
    }
    // @end
    // @slot store
    result[params.first_result + at] = f32(finish(total, center));
    // @end
}
