// A scan along n of [outer, n, inner].
//
// A lane is split into segments, each scanned by one invocation. With several segments, the first pass computes the
// total of each, the second scans the totals, and the last scans each segment starting from the result of the
// preceding ones. The default slots are the last pass of a float32 cumulative sum with one segment.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of segments in all lanes; in the second pass, of lanes.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    n: u32,
    inner: u32,
    // Segments per lane, and elements per segment.
    segments: u32,
    length: u32,
    // Whether to scan from the end.
    reverse: u32,
    // Offsets of the tensors, in elements.
    first: u32,
    first_result: u32,
    first_places: u32,
}

// The current value, and the position of its element.
struct State { value: T, place: u32 }

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> totals: array<f32>;
@group(0) @binding(2) var<storage, read_write> places: array<u32>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;
@group(0) @binding(4) var<storage, read> x: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn m_maximum(a: f32, b: f32) -> f32 { return select(b, a, a > b); }
fn m_minimum(a: f32, b: f32) -> f32 { return select(b, a, a < b); }
fn m_exp(x: f32) -> f32 { return x; }
fn m_log1p(x: f32) -> f32 { return x; }
fn is_infinite(x: f32) -> bool { return false; }
// @end

// The initial state, and the update.
// @slot join
fn start() -> State { return State(T(0), 0u); }
fn join(a: State, b: State) -> State { return State(a.value + b.value, b.place); }
// @end

// @slot load
fn load_x(i: u32) -> T { return T(x[i]); }
// @end

// The position of element k in scan order.
fn place(k: u32) -> u32 { return select(k, params.n - 1u - k, params.reverse == 1u); }

// @slot store
fn store(i: u32, state: State) { result[params.first_result + i] = f32(state.value); }
// @end

// @slot functions
fn log_sum_exp(a: T, b: T) -> T {
    let top = m_maximum(a, b);
    let low = m_minimum(a, b);
    if is_infinite(top) || is_infinite(low) { return top; }
    return top + m_log1p(m_exp(low - top));
}

// The total of a segment.
fn total(at: u32, lane: u32, segment: u32) {
    var state = start();
    for (var k = segment * params.length; k < (segment + 1u) * params.length && k < params.n; k++) {
        state = join(state, State(load_x(params.first + lane + place(k) * params.inner), place(k)));
    }
    totals[at] = state.value;
    places[at] = state.place;
}

// The exclusive scan of a lane's segment totals.
fn carry(at: u32, row: u32) {
    var state = start();
    let first = row * params.segments * params.inner + (at - row * params.inner);
    for (var k = 0u; k < params.segments; k++) {
        let i = first + k * params.inner;
        let next = State(totals[i], places[i]);
        totals[i] = state.value;
        places[i] = state.place;
        state = join(state, next);
    }
}

// The scan of a segment, starting from `before`.
fn results(lane: u32, segment: u32, before: State) {
    var state = before;
    for (var k = segment * params.length; k < (segment + 1u) * params.length && k < params.n; k++) {
        let i = lane + place(k) * params.inner;
        state = join(state, State(load_x(params.first + i), place(k)));
        store(i, state);
    }
}
// @end

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let at = id.x + id.y * groups.x * 64u;
    if at >= params.count { return; }
    // Adjacent invocations process adjacent columns.
    let row = at / params.inner;
    let outer = row / params.segments;
    let segment = row - outer * params.segments;
    let lane = outer * params.n * params.inner + (at - row * params.inner);
    // @slot pass
    results(lane, segment, start());
    // @end
}
