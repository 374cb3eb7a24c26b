// Weighted sums of elements along one axis: [outer, m, inner] from [outer, n, inner]. A list of elements and weights
// for each result defines the map; the adjoint uses a list of targets for each element instead, with the same code.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of elements of the result.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Offsets of the tensors.
    first: u32,
    first_x: u32,
    first_starts: u32,
    first_places: u32,
    first_weights: u32,
    n: u32,
    m: u32,
    inner: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> starts: array<i32>;
@group(0) @binding(4) var<storage, read> places: array<i32>;
@group(0) @binding(5) var<storage, read> weights: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn quotient(i: u32, n: u32) -> u32 { return i / n; }
// @end

// @slot load
fn load_x(i: u32) -> T { return x[i]; }
fn load_weights(i: u32) -> T { return weights[i]; }
// @end

fn element(i: u32) -> T {
    let row = quotient(i, params.inner);
    let outer = quotient(row, params.m);
    let to = row - outer * params.m;
    let start = params.first_x + outer * params.n * params.inner + (i - row * params.inner);
    var sum = T(0);
    for (var k = u32(starts[to]); k < u32(starts[to + 1u]); k++) {
        sum += load_x(start + u32(places[k]) * params.inner) * load_weights(k);
    }
    return sum;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let word = id.x + id.y * groups.x * 64u;
    // @slot store
    if word < params.count { result[params.first + word] = element(word); }
    // @end
}
