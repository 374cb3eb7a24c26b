// Singular values and vectors of matrices of at least as many rows as columns, stored by columns: an invocation has a
// matrix, which it turns until its columns are orthogonal. See Note [One-sided Jacobi]. As it stands this is for float32.

// @slot types
alias T = f32;
// @end

struct Params {
    // Matrices.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    rows: u32,
    columns: u32,
    // How many left and right vectors are wanted.
    left: u32,
    right: u32,
    // Where the matrices and the results begin. The results of a matrix are left vectors, values, right vectors.
    first: u32,
    first_result: u32,
    // The least relative size that is no rounding.
    epsilon: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@group(0) @binding(2) var<storage, read_write> w: array<f32>;
// The right vectors of each matrix, and then the lengths of its columns.
@group(0) @binding(3) var<storage, read_write> turns: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn m_abs(x: f32) -> f32 { return select(x, -x, x < 0.0); }
// @end

fn dot_w(a: u32, b: u32) -> T {
    var sum = T(0);
    for (var i = 0u; i < params.rows; i++) { sum += w[a + i] * w[b + i]; }
    return sum;
}

// Makes two columns orthogonal; false where they are.
fn turn(a: u32, b: u32, v: u32, p: u32, q: u32, tolerance: T) -> bool {
    let x = dot_w(a, a);
    let y = dot_w(b, b);
    let both = dot_w(a, b);
    if m_abs(both) <= tolerance * sqrt(x * y) { return false; }
    // The smaller of the two angles.
    let zeta = (y - x) / (T(2) * both);
    let t = select(T(1), T(-1), zeta < T(0)) / (m_abs(zeta) + sqrt(T(1) + zeta * zeta));
    let c = T(1) / sqrt(T(1) + t * t);
    let s = c * t;
    for (var i = 0u; i < params.rows; i++) {
        let old = w[a + i];
        w[a + i] = c * old - s * w[b + i];
        w[b + i] = s * old + c * w[b + i];
    }
    for (var i = 0u; i < params.columns; i++) {
        let at = v + p * params.columns + i;
        let other = v + q * params.columns + i;
        let old = turns[at];
        turns[at] = c * old - s * turns[other];
        turns[other] = s * old + c * turns[other];
    }
    return true;
}

// Sets left vector `k`, which no column gives, so that it is orthogonal to those before it; returns the next axis to try.
fn complete(left: u32, k: u32, from_axis: u32) -> u32 {
    let n = params.rows;
    let vector = left + k * n;
    var axis = from_axis;
    for (var tries = 0u; tries < n; tries++) {
        for (var i = 0u; i < n; i++) { result[vector + i] = select(T(0), T(1), i == axis - axis / n * n); }
        axis++;
        // The second time removes what rounding left.
        for (var time = 0u; time < 2u; time++) {
            for (var j = 0u; j < k; j++) {
                var share = T(0);
                for (var i = 0u; i < n; i++) { share += result[vector + i] * result[left + j * n + i]; }
                for (var i = 0u; i < n; i++) { result[vector + i] -= share * result[left + j * n + i]; }
            }
        }
        var square = T(0);
        for (var i = 0u; i < n; i++) { square += result[vector + i] * result[vector + i]; }
        if square * T(n) > T(0.5) {
            let length = sqrt(square);
            for (var i = 0u; i < n; i++) { result[vector + i] /= length; }
            break;
        }
    }
    return axis;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let matrix = id.x + id.y * groups.x * 64u;
    if matrix >= params.count { return; }
    let n = params.rows;
    let k = params.columns;
    let start = params.first + matrix * n * k;
    let v = matrix * (k * k + k);
    let lengths = v + k * k;

    // Scaled, so that no square overflows or vanishes.
    var largest = T(0);
    for (var i = 0u; i < n * k; i++) { largest = select(largest, m_abs(w[start + i]), m_abs(w[start + i]) > largest); }
    let scale = select(T(1), largest, largest > T(0));
    for (var i = 0u; i < n * k; i++) { w[start + i] /= scale; }
    for (var i = 0u; i < k * k; i++) { turns[v + i] = select(T(0), T(1), i / (k + 1u) * (k + 1u) == i); }

    let tolerance = T(params.epsilon) * sqrt(T(n));
    // More sweeps than ever were needed, which are about ten.
    for (var sweep = 0u; sweep < 60u; sweep++) {
        var turned = false;
        for (var p = 0u; p + 1u < k; p++) {
            for (var q = p + 1u; q < k; q++) {
                turned = turn(start + p * n, start + q * n, v, p, q, tolerance) || turned;
            }
        }
        if !turned { break; }
    }
    for (var j = 0u; j < k; j++) { turns[lengths + j] = sqrt(dot_w(start + j * n, start + j * n)); }

    let left = params.first_result + matrix * (params.left * n + k + params.right * k);
    let values = left + params.left * n;
    let right = values + k;
    var longest = T(0);
    var axis = 0u;
    for (var to = 0u; to < k; to++) {
        // The longest column that is left; one that is taken is marked as negative.
        var chosen = 0u;
        var length = T(-1);
        for (var j = 0u; j < k; j++) {
            if turns[lengths + j] > length {
                chosen = j;
                length = turns[lengths + j];
            }
        }
        turns[lengths + chosen] = T(-1);
        longest = select(longest, length, to == 0u);
        result[values + to] = length * scale * select(T(0), T(1), largest > T(0));
        if to < params.right {
            for (var i = 0u; i < k; i++) { result[right + to * k + i] = turns[v + chosen * k + i]; }
        }
        if to < params.left {
            // Shorter columns are rounding and have no direction.
            if length > longest * T(params.epsilon) * T(n) {
                for (var i = 0u; i < n; i++) { result[left + to * n + i] = w[start + chosen * n + i] / length; }
            } else {
                axis = complete(left, to, axis);
            }
        }
    }
    for (var to = k; to < params.left; to++) { axis = complete(left, to, axis); }
}
