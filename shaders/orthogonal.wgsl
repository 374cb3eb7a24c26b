// Orthogonal factors: Q and R, of matrices stored by columns, and the eigenvectors of symmetric ones. Kernels of
// factor.wgsl.
//
// Kept of each matrix: the scales of reflections; or vectors, whether the sweep turned anything, and whether one did not.

fn sum_all(v: T) -> T { return sum(sum(v, y * SIDE, 1u), x, SIDE); }

// ---- Reflections

fn hypotenuse(p: T, q: T) -> T {
    let most = m_maximum(m_abs(p), m_abs(q));
    if most == T(0) { return most; }
    return most * sqrt((p / most) * (p / most) + (q / most) * (q / most));
}

// Makes the reflection that clears the column of the step below the diagonal, as LAPACK chooses its sign: a vector that
// begins with 1.
fn make_reflection() {
    let column = a + step * params.m;
    // Scaled, so that no square overflows or vanishes.
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

// Reflects columns of Q or of the matrix by the vector of the step.
fn reflect(of_q: bool, from_column: u32, to_column: u32) {
    let m = params.m;
    let vector = a + step * m;
    let scale = kept[keep + step];
    if scale == T(0) { return; }
    for (var first = from_column + row_0 - y; first < to_column; first += rows_on) {
        let column = select(a, b, of_q) + (first + y) * m;
        // Nobody may leave before the sum.
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

// R, and in the place of Q the identity, which reflections turn into it.
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

// Rotates rows and columns `p` and `q` so that what stands where they meet is zero; false where it is already.
fn turn(p: u32, q: u32) -> bool {
    let n = params.n;
    let apart = w[a + p * n + q];
    let first = w[a + p * n + p];
    let second = w[a + q * n + q];
    let small = T(params.epsilon) / T(n) * m_maximum(m_abs(first), m_abs(second));
    // What is no number ends on the diagonal.
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

// Rotations one after the other through the upper triangle, once and again, until nothing was turned from its beginning
// to its end. A launch makes some of them.
fn sweep() {
    let n = params.n;
    let state = keep + n * n;
    if n < 2u || kept[state + 1u] == T(1) { return; }
    var p = params.p;
    var q = params.q;
    var turned = kept[state] == T(1);
    var done = false;
    for (var i = 0u; i < params.turns && !done; i++) {
        // A sweep begins.
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

// Values ascend, and vectors are rows.
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
        for (var j = column_0; j < n; j += columns_on) { result[b + n + place * n + j] = kept[keep + i * n + j]; }
    }
    if !is_first() { return; }
    var found = n < 2u || kept[keep + n * n + 1u] == T(1);
    for (var i = 0u; i < n; i++) { found = found && !is_nan(w[a + i * n + i]); }
    result[b + n + n * n] = select(T(0), T(1), found);
}
