// Orthogonal factorizations: QR of column-major matrices, and eigenvectors of symmetric ones. Kernels of factor.wgsl.
//
// State kept per matrix: the scales of reflections; or the eigenvectors, whether the current sweep rotated anything,
// and whether the iteration has converged.

fn sum_all(v: T) -> T { return sum(sum(v, y * SIDE, 1u), x, SIDE); }

// ---- Reflections

fn hypotenuse(p: T, q: T) -> T {
    let most = m_maximum(m_abs(p), m_abs(q));
    if most == T(0) { return most; }
    return most * sqrt((p / most) * (p / most) + (q / most) * (q / most));
}

// Computes the Householder reflection that clears the column of the step below the diagonal, with LAPACK's choice of
// sign; the first component of its vector is 1.
fn make_reflection() {
    let column = a + step * params.m;
    // Scaled to avoid overflow and underflow of squares.
    var most = T(0);
    for (var i = step + 1u + thread; i < params.m; i += STEP) { most = m_maximum(most, m_abs(w[column + i])); }
    most = largest(most);
    var squares = T(0);
    for (var i = step + 1u + thread; i < params.m; i += STEP) {
        let part = w[column + i] / most;
        squares += part * part;
    }
    let head = w[column + step];
    squares = sum_all(squares);
    if most == T(0) {
        if thread == 0u { kept[keep + step] = T(0); }
        return;
    }
    let beta = -copy_sign(hypotenuse(head, most * sqrt(squares)), head);
    for (var i = step + 1u + thread; i < params.m; i += STEP) { w[column + i] /= head - beta; }
    if thread == 0u {
        kept[keep + step] = (beta - head) / beta;
        w[column + step] = beta;
    }
}

fn load(of_q: bool, i: u32) -> T {
    if of_q { return result[i]; }
    return w[i];
}

// Applies the reflection of the step to columns of Q or of the matrix.
fn reflect(of_q: bool, from_column: u32, to_column: u32) {
    let m = params.m;
    let vector = a + step * m;
    let scale = kept[keep + step];
    if scale == T(0) { return; }
    for (var first = from_column + row_0 - y; first < to_column; first += rows_on) {
        let column = select(a, b, of_q) + (first + y) * m;
        // No thread may return before the sum.
        let end = select(0u, m, first + y < to_column);
        var along = T(0);
        for (var i = step + x; i < end; i += SIDE) {
            along += load(of_q, column + i) * select(w[vector + i], T(1), i == step);
        }
        along = scale * sum(along, y * SIDE, 1u);
        for (var i = step + x; i < end; i += SIDE) {
            let v = load(of_q, column + i) - along * select(w[vector + i], T(1), i == step);
            if of_q { result[column + i] = v; } else { w[column + i] = v; }
        }
    }
}

fn reflect_rest() { reflect(false, step + 1u, params.n); }
fn reflect_q() { reflect(true, step, params.left); }

// Writes R, and initializes Q with the identity, to which the reflections are then applied.
fn write_r() {
    let m = params.m;
    let r = b + params.left * m;
    for (var j = row_0; j < params.n; j += rows_on) {
        for (var i = x; i < params.right; i += SIDE) {
            var v = T(0);
            if i <= j { v = w[a + j * m + i]; }
            result[r + j * params.right + i] = v;
        }
    }
    for (var j = row_0; j < params.left; j += rows_on) {
        for (var i = x; i < m; i += SIDE) { result[b + j * m + i] = select(T(0), T(1), i == j); }
    }
}

fn qr() {
    let steps = select(params.m, params.n, params.n < params.m);
    for (step = 0u; step < steps; step++) {
        make_reflection();
        sync();
        reflect_rest();
        sync();
    }
    write_r();
    while step > 0u {
        step--;
        sync();
        reflect_q();
    }
}

// ---- Rotations

fn start_eigh() {
    let n = params.n;
    for (var i = row_0; i < n; i += rows_on) {
        for (var j = column_0; j < n; j += columns_on) { kept[keep + i * n + j] = select(T(0), T(1), i == j); }
    }
    if is_first() { kept[keep + n * n + 1u] = T(0); }
}

// Rotates rows and columns `p` and `q` so that the element at (p, q) becomes zero; false if it is already.
fn turn(p: u32, q: u32) -> bool {
    let n = params.n;
    let apart = w[a + p * n + q];
    let first = w[a + p * n + p];
    let second = w[a + q * n + q];
    let small = T(params.epsilon) / T(n) * m_maximum(m_abs(first), m_abs(second));
    // NaN spreads to the diagonal.
    if apart == T(0) || m_abs(apart) <= small { return false; }
    sync();
    let zeta = (second - first) / (T(2) * apart);
    let t = copy_sign(T(1), zeta) / (m_abs(zeta) + sqrt(T(1) + zeta * zeta));
    let c = T(1) / sqrt(T(1) + t * t);
    let s = c * t;
    for (var j = thread; j < n; j += STEP) {
        let v = kept[keep + p * n + j];
        let u = kept[keep + q * n + j];
        kept[keep + p * n + j] = c * v - s * u;
        kept[keep + q * n + j] = s * v + c * u;
        if j == p || j == q { continue; }
        let above = w[a + p * n + j];
        let below = w[a + q * n + j];
        w[a + p * n + j] = c * above - s * below;
        w[a + q * n + j] = s * above + c * below;
        w[a + j * n + p] = c * above - s * below;
        w[a + j * n + q] = s * above + c * below;
    }
    if thread == 0u {
        w[a + p * n + p] = first - t * apart;
        w[a + q * n + q] = second + t * apart;
        w[a + p * n + q] = T(0);
        w[a + q * n + p] = T(0);
    }
    sync();
    return true;
}

// Rotations in cyclic order through the upper triangle, until a whole sweep has rotated nothing. Each launch performs
// some of them.
fn sweep() {
    let n = params.n;
    let state = keep + n * n;
    if n < 2u || kept[state + 1u] == T(1) { return; }
    var p = params.p;
    var q = params.q;
    var turned = kept[state] == T(1);
    var done = false;
    for (var i = 0u; i < params.turns && !done; i++) {
        // Start of a sweep.
        turned = turned && p + q > 1u;
        turned = turn(p, q) || turned;
        q++;
        if q == n {
            p++;
            q = p + 1u;
        }
        if q == n {
            done = !turned;
            p = 0u;
            q = 1u;
        }
    }
    sync();
    if thread == 0u {
        kept[state] = select(T(0), T(1), turned);
        kept[state + 1u] = select(T(0), T(1), done);
    }
}

// What makes the first component of a vector positive that is at least two fifths of the largest, as on the CPU.
fn sign_of(vector: u32) -> T {
    var most = T(0);
    for (var j = 0u; j < params.n; j++) { most = m_maximum(most, m_abs(kept[vector + j])); }
    for (var j = 0u; j < params.n; j++) {
        let component = kept[vector + j];
        if T(5) * m_abs(component) >= T(2) * most { return select(T(1), T(-1), component < T(0)); }
    }
    return T(1);
}

// Eigenvalues are in ascending order, and eigenvectors are rows.
fn end_eigh() {
    let n = params.n;
    for (var i = row_0; i < n; i += rows_on) {
        let value = w[a + i * n + i];
        var place = 0u;
        for (var j = 0u; j < n; j++) {
            let other = w[a + j * n + j];
            place += select(0u, 1u, other < value || (other == value && j < i));
        }
        result[b + place] = value;
        let sign = sign_of(keep + i * n);
        for (var j = column_0; j < n; j += columns_on) { result[b + n + place * n + j] = sign * kept[keep + i * n + j]; }
    }
    if !is_first() { return; }
    var found = n < 2u || kept[keep + n * n + 1u] == T(1);
    for (var i = 0u; i < n; i++) { found = found && !is_nan(w[a + i * n + i]); }
    result[b + n + n * n] = select(T(0), T(1), found);
}
