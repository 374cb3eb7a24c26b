// Elimination in square matrices stored by rows, which are used up: solutions, determinants, Cholesky's triangle. As it
// stands this solves in float32.
//
// Note [Who factors a matrix]
// An invocation has a matrix, or a workgroup of SIDE by SIDE threads, which meet in `sync`. Either does all of it in one
// launch; or each step is a few launches, in which many share the rows and columns of a matrix. Whoever branches together
// has read the same, which nobody writes before the next `sync`.
//
// No launch may loop for long: devices are taken for hung after a second or two, and llvmpipe leaves all loops of an
// invocation, with no word of it, once they were gone through 65,535 times in all.

// @slot types
alias T = f32;
// @end

struct Params {
    // Matrices.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Where the matrices and their results begin; how many elements lie from one to the next, and of what is kept.
    first: u32,
    first_result: u32,
    size: u32,
    each: u32,
    keeps: u32,
    // How many share the rows of a matrix, and how many the columns; and the step of a launch that does one.
    down: u32,
    across: u32,
    step: u32,
    // Rows of a matrix, and columns of the right side, which stands where the result will.
    n: u32,
    k: u32,
    // Of a triangle: whether it is the upper one, and whether its diagonal is taken for ones.
    upper: u32,
    unit: u32,
    // Whether a zero pivot is taken for a tiny one.
    lenient: u32,
    epsilon: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@group(0) @binding(2) var<storage, read_write> w: array<f32>;
// Of each matrix: the first step that failed, counted from 1, or 0; the sign of the permutation; the row of the pivot.
@group(0) @binding(3) var<storage, read_write> kept: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn m_abs(x: f32) -> f32 { return select(x, -x, x < 0.0); }
fn m_maximum(a: f32, b: f32) -> f32 { return select(b, a, a > b); }
fn m_log(x: f32) -> f32 { return x; }
// @end

// @slot together
const SIDE: u32 = 1u;
const GROUP: u32 = 64u;
fn sync() {}
fn sum(v: T, from_thread: u32, stride: u32) -> T { return v; }
fn largest_of(v: T, from_thread: u32, stride: u32) -> T { return v; }
// @end

const STEP: u32 = SIDE * SIDE;

// Which of the matrix's threads this is, and its place in their square.
var<private> thread: u32;
var<private> x: u32;
var<private> y: u32;
// The first row and column that are this thread's, and how many come before its next.
var<private> row_0: u32;
var<private> column_0: u32;
var<private> rows_on: u32;
var<private> columns_on: u32;
// Where the matrix, its result and what is kept of it begin.
var<private> a: u32;
var<private> b: u32;
var<private> keep: u32;
var<private> step: u32;

fn largest(v: T) -> T { return largest_of(largest_of(v, y * SIDE, 1u), x, SIDE); }

// The first step that failed; a matrix without rows has none.
fn failure() -> T {
    if params.n == 0u { return T(0); }
    return kept[keep];
}

// Looks for the row whose element in the column of the step is largest, the first of such.
fn find_pivot() {
    let n = params.n;
    var size = T(0);
    for (var row = step + thread; row < n; row += STEP) { size = m_maximum(size, m_abs(w[a + row * n + step])); }
    size = largest(size);
    // The rows from the first such one on.
    var left = 0u;
    for (var row = step + thread; row < n && left == 0u; row += STEP) {
        left = select(0u, n - row, m_abs(w[a + row * n + step]) == size);
    }
    left = u32(largest(T(left)));
    // Where there are none, it is no number.
    let best = select(n - left, step, left == 0u);
    if thread == 0u {
        let failed = select(kept[keep], T(0), step == 0u);
        let sign = select(kept[keep + 1u], T(1), step == 0u);
        kept[keep] = select(failed, T(step + 1u), size == T(0) && failed == T(0));
        kept[keep + 1u] = select(sign, -sign, best > step);
        kept[keep + 2u] = T(best);
    }
}

// Brings it to where the step is.
fn swap_rows() {
    let n = params.n;
    let k = params.k;
    let best = u32(kept[keep + 2u]);
    if best == step || y > 0u { return; }
    for (var c = column_0; c < n; c += columns_on) {
        let held = w[a + step * n + c];
        w[a + step * n + c] = w[a + best * n + c];
        w[a + best * n + c] = held;
    }
    for (var c = column_0; c < k; c += columns_on) {
        let held = result[b + step * k + c];
        result[b + step * k + c] = result[b + best * k + c];
        result[b + best * k + c] = held;
    }
}

// Subtracts the row of the step from those below so that zeros would come below the pivot; the right side's as well.
fn clear_below() {
    let n = params.n;
    let k = params.k;
    let pivot = w[a + step * n + step];
    if pivot == T(0) { return; }
    for (var row = step + 1u + row_0; row < n; row += rows_on) {
        let factor = w[a + row * n + step] / pivot;
        for (var c = step + 1u + column_0; c < n; c += columns_on) { w[a + row * n + c] -= factor * w[a + step * n + c]; }
        for (var c = column_0; c < k; c += columns_on) { result[b + row * k + c] -= factor * result[b + step * k + c]; }
    }
}

// `P A = L U`, of which U stays, and the inverse of L times P times the right side in its place.
fn eliminate() {
    for (step = 0u; step < params.n; step++) {
        find_pivot();
        sync();
        swap_rows();
        sync();
        clear_below();
        sync();
    }
}

fn divisor(i: u32) -> T {
    let pivot = w[a + i * params.n + i];
    return select(select(pivot, T(params.epsilon), params.lenient == 1u && pivot == T(0)), T(1), params.unit == 1u);
}

// Subtracts what is known of the solution in the row of the step from the right sides that wait for it.
fn subtract_known() {
    let n = params.n;
    let k = params.k;
    let upper = params.upper == 1u;
    let i = select(step, n - 1u - step, upper);
    let pivot = divisor(i);
    for (var row = select(i + 1u, 0u, upper) + row_0; row < select(n, i, upper); row += rows_on) {
        let factor = w[a + row * n + i];
        for (var c = column_0; c < k; c += columns_on) { result[b + row * k + c] -= factor * (result[b + i * k + c] / pivot); }
    }
}

fn divide() {
    let k = params.k;
    for (var row = row_0; row < params.n; row += rows_on) {
        let pivot = divisor(row);
        for (var c = column_0; c < k; c += columns_on) { result[b + row * k + c] /= pivot; }
    }
}

fn is_first() -> bool { return row_0 + column_0 == 0u; }

// Solves for the right side in its place, by a triangle, but for the divisions.
fn substitute() {
    for (step = 0u; step < params.n; step++) {
        subtract_known();
        sync();
    }
}

fn solve_end() {
    divide();
    if is_first() { result[b + params.n * params.k] = failure(); }
}

fn solve() {
    eliminate();
    substitute();
    solve_end();
}

fn triangular_end() {
    divide();
    if is_first() { result[b + params.n * params.k] = T(0); }
}

fn triangular() {
    substitute();
    triangular_end();
}

// The determinant, its sign, and the logarithm of its size.
fn determinant_end() {
    if thread > 0u { return; }
    var product = T(1);
    if params.n > 0u { product = kept[keep + 1u]; }
    var sign = product;
    var logarithm = T(0);
    for (var i = 0u; i < params.n; i++) {
        let pivot = w[a + i * params.n + i];
        product *= pivot;
        sign *= select(T(0), T(1), pivot > T(0)) - select(T(0), T(1), pivot < T(0));
        logarithm += m_log(m_abs(pivot));
    }
    result[b] = product;
    result[b + 1u] = sign;
    result[b + 2u] = logarithm;
}

fn determinant() {
    eliminate();
    determinant_end();
}

// Takes what the column of the step, and its transpose, contribute from the lower triangle that follows.
fn shrink() {
    let n = params.n;
    let square = w[a + step * n + step];
    // What is no number is not positive either.
    let positive = square > T(0);
    if is_first() {
        let failed = select(kept[keep], T(0), step == 0u);
        kept[keep] = select(failed, T(step + 1u), !positive && failed == T(0));
    }
    if !positive { return; }
    for (var row = step + 1u + row_0; row < n; row += rows_on) {
        let factor = w[a + row * n + step] / square;
        for (var c = step + 1u + column_0; c <= row; c += columns_on) { w[a + row * n + c] -= factor * w[a + c * n + step]; }
    }
}

fn cholesky_end() {
    let n = params.n;
    for (var row = row_0; row < n; row += rows_on) {
        for (var c = column_0; c < n; c += columns_on) {
            let root = sqrt(w[a + c * n + c]);
            let below = select(T(0), w[a + row * n + c] / root, c < row);
            result[b + row * n + c] = select(below, root, c == row);
        }
    }
    if is_first() { result[b + n * n] = failure(); }
}

fn cholesky() {
    for (step = 0u; step < params.n; step++) {
        shrink();
        sync();
    }
    cholesky_end();
}

@compute @workgroup_size(GROUP)
fn main(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    runtime_zero = params.zero;
    let together = SIDE > 1u;
    let place = select(id.x + id.y * groups.x * GROUP, group.x + group.y * groups.x, together);
    let pieces = params.down * params.across;
    let matrix = place / pieces;
    // All threads of a matrix return, or none.
    if matrix >= params.count { return; }
    let piece = place - matrix * pieces;
    thread = select(0u, local, together);
    x = thread & (SIDE - 1u);
    y = thread / SIDE;
    row_0 = piece / params.across * SIDE + y;
    column_0 = (piece - piece / params.across * params.across) * SIDE + x;
    rows_on = SIDE * params.down;
    columns_on = SIDE * params.across;
    a = params.first + matrix * params.size;
    b = params.first_result + matrix * params.each;
    keep = matrix * params.keeps;
    step = params.step;
    // @slot body
    solve();
    // @end
}
