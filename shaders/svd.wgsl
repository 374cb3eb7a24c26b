// Singular values and vectors of matrices of at least as many rows as columns, stored by columns, which are turned until
// they are orthogonal. See Note [One-sided Jacobi]. An invocation has a matrix, or a column or row of it; launches are many
// because none may loop for long: Note [Who factors a matrix]. As it stands this makes a sweep in float32.

// @slot types
alias T = f32;
// @end

struct Params {
    // Matrices.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // How many invocations share a matrix.
    pieces: u32,
    rows: u32,
    columns: u32,
    // How many left and right vectors are wanted.
    left: u32,
    right: u32,
    // Where the results begin. Those of a matrix are left vectors, values, right vectors.
    first_result: u32,
    // How many rotations a launch makes, and where they begin.
    turns: u32,
    p: u32,
    q: u32,
    // The left vector that a launch is for.
    vector: u32,
    // The least relative size that is no rounding.
    epsilon: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@group(0) @binding(2) var<storage, read_write> w: array<f32>;
// Of each matrix: the right vectors; the lengths of columns; whether the sweep turned anything, whether one did not, and
// what the matrix was divided by; the axes that left vectors were made of; and as many numbers as there are rows.
@group(0) @binding(3) var<storage, read_write> kept: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn m_abs(x: f32) -> f32 { return select(x, -x, x < 0.0); }
fn m_maximum(a: f32, b: f32) -> f32 { return select(b, a, a > b); }
// @end

var<private> piece: u32;
// Where the matrix and its result begin, and the parts of what is kept.
var<private> a: u32;
var<private> b: u32;
var<private> turned: u32;
var<private> lengths: u32;
var<private> state: u32;
var<private> axes: u32;
var<private> parts: u32;

// ---- A column each

fn start_svd() {
    let k = params.columns;
    if piece >= k { return; }
    for (var i = 0u; i < k; i++) { kept[turned + piece * k + i] = select(T(0), T(1), i == piece); }
    var most = T(0);
    for (var i = 0u; i < params.rows; i++) { most = m_maximum(most, m_abs(w[a + piece * params.rows + i])); }
    kept[lengths + piece] = most;
    if piece == 0u { kept[state + 1u] = T(0); }
}

fn longest() -> T {
    var most = T(0);
    for (var j = 0u; j < params.columns; j++) { most = m_maximum(most, kept[lengths + j]); }
    return most;
}

// So that no square overflows or vanishes.
fn divide_columns() {
    if piece >= params.columns { return; }
    let most = longest();
    let scale = select(T(1), most, most > T(0));
    for (var i = 0u; i < params.rows; i++) { w[a + piece * params.rows + i] /= scale; }
    if piece == 0u { kept[state + 2u] = scale; }
}

fn measure() {
    if piece >= params.columns { return; }
    var square = T(0);
    for (var i = 0u; i < params.rows; i++) {
        let v = w[a + piece * params.rows + i];
        square += v * v;
    }
    kept[lengths + piece] = sqrt(square);
}

// Longer columns come first. Much shorter ones are rounding and have no direction.
fn put_in_order() {
    let n = params.rows;
    let k = params.columns;
    if piece >= k { return; }
    let length = kept[lengths + piece];
    var to = 0u;
    for (var j = 0u; j < k; j++) {
        let other = kept[lengths + j];
        to += select(0u, 1u, other > length || (other == length && j < piece));
    }
    // The search for axes begins with the first.
    if to < params.left { kept[axes + to] = T(0); }
    let values = b + params.left * n;
    result[values + to] = length * kept[state + 2u];
    if to < params.right {
        for (var i = 0u; i < k; i++) { result[values + k + to * k + i] = kept[turned + piece * k + i]; }
    }
    if to < params.left && length > longest() * T(params.epsilon) * T(n) {
        for (var i = 0u; i < n; i++) { result[b + to * n + i] = w[a + piece * n + i] / length; }
    }
}

// ---- Rotations

// Makes two columns orthogonal; false where they are.
fn turn(p: u32, q: u32, tolerance: T) -> bool {
    let n = params.rows;
    let k = params.columns;
    var x = T(0);
    var y = T(0);
    var both = T(0);
    for (var i = 0u; i < n; i++) {
        let v = w[a + p * n + i];
        let u = w[a + q * n + i];
        x += v * v;
        y += u * u;
        both += v * u;
    }
    if m_abs(both) <= tolerance * sqrt(x * y) { return false; }
    // The smaller of the two angles.
    let zeta = (y - x) / (T(2) * both);
    // The square may overflow.
    let root = select(sqrt(T(1) + zeta * zeta), m_abs(zeta), m_abs(zeta) > T(1e9));
    let t = select(T(1), T(-1), zeta < T(0)) / (m_abs(zeta) + root);
    let c = T(1) / sqrt(T(1) + t * t);
    let s = c * t;
    for (var i = 0u; i < n; i++) {
        let v = w[a + p * n + i];
        let u = w[a + q * n + i];
        w[a + p * n + i] = c * v - s * u;
        w[a + q * n + i] = s * v + c * u;
    }
    for (var i = 0u; i < k; i++) {
        let v = kept[turned + p * k + i];
        let u = kept[turned + q * k + i];
        kept[turned + p * k + i] = c * v - s * u;
        kept[turned + q * k + i] = s * v + c * u;
    }
    return true;
}

// Rotations one after the other, once and again, until nothing was turned from the first to the last.
fn sweep_columns() {
    let k = params.columns;
    if kept[state + 1u] == T(1) { return; }
    let tolerance = T(params.epsilon) * sqrt(T(params.rows));
    var p = params.p;
    var q = params.q;
    var any = kept[state] == T(1);
    var done = false;
    for (var i = 0u; i < params.turns && !done; i++) {
        // A sweep begins.
        any = any && p + q > 1u;
        any = turn(p, q, tolerance) || any;
        q++;
        if q == k {
            p++;
            q = p + 1u;
        }
        if q == k {
            done = !any;
            p = 0u;
            q = 1u;
        }
    }
    kept[state] = select(T(0), T(1), any);
    kept[state + 1u] = select(T(0), T(1), done);
}

// ---- Left vectors that no column gives, each orthogonal to those before it

fn is_given() -> bool {
    let least = longest() * T(params.epsilon) * T(params.rows);
    var given = 0u;
    for (var j = 0u; j < params.columns; j++) { given += select(0u, 1u, kept[lengths + j] > least); }
    return params.vector < given;
}

// What is left of the square of each axis.
fn measure_axes() {
    if is_given() { return; }
    var square = T(1);
    for (var j = 0u; j < params.vector; j++) {
        let v = result[b + j * params.rows + piece];
        square -= v * v;
    }
    kept[parts + piece] = square;
}

// Begins with the next axis of which enough is left.
fn choose_axis() {
    let n = params.rows;
    if is_given() { return; }
    var axis = 0u;
    if params.vector > 0u { axis = u32(kept[axes + params.vector - 1u]); }
    for (var tries = 0u; tries < n; tries++) {
        axis = select(axis, 0u, axis >= n);
        if kept[parts + axis] * T(n) > T(0.5) { break; }
        axis++;
    }
    result[b + params.vector * n + piece] = select(T(0), T(1), piece == axis);
    if piece == 0u { kept[axes + params.vector] = T(axis + 1u); }
}

// The shares that the vectors before have in it.
fn share() {
    let n = params.rows;
    if piece >= params.vector || is_given() { return; }
    var sum = T(0);
    for (var i = 0u; i < n; i++) { sum += result[b + params.vector * n + i] * result[b + piece * n + i]; }
    kept[parts + piece] = sum;
}

fn subtract_shares() {
    let n = params.rows;
    if is_given() { return; }
    var v = result[b + params.vector * n + piece];
    for (var j = 0u; j < params.vector; j++) { v -= kept[parts + j] * result[b + j * n + piece]; }
    result[b + params.vector * n + piece] = v;
}

fn measure_vector() {
    let n = params.rows;
    if piece > 0u || is_given() { return; }
    var square = T(0);
    for (var i = 0u; i < n; i++) {
        let v = result[b + params.vector * n + i];
        square += v * v;
    }
    kept[parts] = sqrt(square);
}

fn divide_vector() {
    if is_given() { return; }
    result[b + params.vector * params.rows + piece] /= kept[parts];
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let place = id.x + id.y * groups.x * 64u;
    let matrix = place / params.pieces;
    if matrix >= params.count { return; }
    piece = place - matrix * params.pieces;
    let n = params.rows;
    let k = params.columns;
    a = matrix * n * k;
    b = params.first_result + matrix * (params.left * n + k + params.right * k);
    turned = matrix * (k * k + k + 3u + params.left + n);
    lengths = turned + k * k;
    state = lengths + k;
    axes = state + 3u;
    parts = axes + params.left;
    // @slot body
    sweep_columns();
    // @end
}
