// Gaussian elimination in square row-major matrices: solutions, determinants, Cholesky factors. Kernels of
// factor.wgsl.
//
// State kept per matrix: the first failed step, counted from 1, or 0; the sign of the permutation; the pivot row.

// The first failed step; none for an empty matrix.
fn failure() -> T {
    if params.n == 0u { return T(0); }
    return kept[keep];
}

// Finds the first row with the largest absolute value in the column of the step.
fn find_pivot() {
    let n = params.n;
    var size = T(0);
    for (var row = step + thread; row < n; row += STEP) { size = m_maximum(size, m_abs(w[a + row * n + step])); }
    size = largest(size);
    // The number of rows from the first such row to the end.
    var left = 0u;
    for (var row = step + thread; row < n && left == 0u; row += STEP) {
        left = select(0u, n - row, m_abs(w[a + row * n + step]) == size);
    }
    left = u32(largest(T(left)));
    // If no row compares equal, the maximum is NaN.
    let best = select(n - left, step, left == 0u);
    if thread == 0u {
        let failed = select(kept[keep], T(0), step == 0u);
        let sign = select(kept[keep + 1u], T(1), step == 0u);
        kept[keep] = select(failed, T(step + 1u), size == T(0) && failed == T(0));
        kept[keep + 1u] = select(sign, -sign, best > step);
        kept[keep + 2u] = T(best);
    }
}

// Swaps the pivot row with the row of the step.
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

// Eliminates the column of the step below the pivot, also in the right-hand side.
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

// Computes `P A = L U`, keeping only U, and L⁻¹ P times the right-hand side in place.
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

// Subtracts the contribution of the step's row of the solution from the remaining right-hand sides.
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

// Solves a triangular system in place, except for the final divisions.
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

// The determinant, its sign, and the logarithm of its absolute value.
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

// Adds the contributions of the step's column and its transpose to the lower triangle that follows.
fn shrink() {
    let n = params.n;
    let square = w[a + step * n + step];
    // NaN is not positive either.
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
