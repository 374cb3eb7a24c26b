// The maximum or minimum along n of [outer, n, inner] and its first index. NaN takes precedence over all numbers.
//
// Segments as in reduce.wgsl; the first pass computes indices from positions, later passes carry them along. The
// default slots compute the float32 maximum.

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
    // Offsets of the elements, the values, the indices and the indices of an earlier pass, in elements.
    first: u32,
    first_value: u32,
    first_index: u32,
    first_place: u32,
    // The index along n of the first element.
    from_place: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> values: array<f32>;
// An int64 as two words.
@group(0) @binding(2) var<storage, read_write> indices: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read> x: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn m_eq(a: T, b: T) -> bool { return a == b; }
// @end

// @slot load
fn load(i: u32) -> T { return T(x[i]); }
fn index_of(i: u32, k: u32) -> u32 { return params.from_place + k; }
// @end

// @slot functions
fn beats(a: T, b: T) -> bool { return a > b; }
fn is_unordered(a: T) -> bool { return false; }
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
    let start = outer * params.n * params.inner + column;
    var best = load(params.first + start + segment * params.inner);
    var place = index_of(start + segment * params.inner, segment);
    for (var k = segment + params.segments; k < params.n; k += params.segments) {
        let v = load(params.first + start + k * params.inner);
        let here = index_of(start + k * params.inner, k);
        let number = !is_unordered(best);
        let better = number && (is_unordered(v) || beats(v, best));
        let same = select(is_unordered(v), m_eq(v, best), number);
        if better || (same && here < place) {
            best = v;
            place = here;
        }
    }
    // @slot store
    values[params.first_value + at] = f32(best);
    indices[params.first_index + at] = vec2<u32>(place, 0u);
    // @end
}
