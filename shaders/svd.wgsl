// Singular values and vectors of matrices of at least as many rows as columns, stored by columns, which are turned until
// they are orthogonal. See Note [One-sided Jacobi]. An invocation has a matrix, or a column or row of it, by itself. Kernels
// of factor.wgsl.
//
// Kept of each matrix: the right vectors; the lengths of columns; whether the sweep turned anything, whether one did not,
// and what the matrix was divided by; the axes that left vectors were made of; and as many numbers as there are rows. The
// results are left vectors, values, right vectors. The step is the left vector that a launch is for.

fn lengths() -> u32 { return keep + params.n * params.n; }
fn state() -> u32 { return lengths() + params.n; }
fn axes() -> u32 { return state() + 3u; }
fn spare() -> u32 { return axes() + params.left; }

// ---- A column each

fn start_svd() {
    let n = params.n;
    if piece >= n { return; }
    for (var i = 0u; i < n; i++) { kept[keep + piece * n + i] = select(T(0), T(1), i == piece); }
    var most = T(0);
    for (var i = 0u; i < params.m; i++) { most = m_maximum(most, m_abs(w[a + piece * params.m + i])); }
    kept[lengths() + piece] = most;
    if piece == 0u { kept[state() + 1u] = T(0); }
}

fn longest() -> T {
    var most = T(0);
    for (var j = 0u; j < params.n; j++) { most = m_maximum(most, kept[lengths() + j]); }
    return most;
}

// So that no square overflows or vanishes.
fn divide_columns() {
    if piece >= params.n { return; }
    let most = longest();
    let scale = select(T(1), most, most > T(0));
    for (var i = 0u; i < params.m; i++) { w[a + piece * params.m + i] /= scale; }
    if piece == 0u { kept[state() + 2u] = scale; }
}

fn measure() {
    if piece >= params.n { return; }
    var square = T(0);
    for (var i = 0u; i < params.m; i++) {
        let v = w[a + piece * params.m + i];
        square += v * v;
    }
    kept[lengths() + piece] = sqrt(square);
}

// Longer columns come first. Much shorter ones are rounding and have no direction.
fn put_in_order() {
    let m = params.m;
    let n = params.n;
    if piece >= n { return; }
    let length = kept[lengths() + piece];
    var to = 0u;
    for (var j = 0u; j < n; j++) {
        let other = kept[lengths() + j];
        to += select(0u, 1u, other > length || (other == length && j < piece));
    }
    // The search for axes begins with the first.
    if to < params.left { kept[axes() + to] = T(0); }
    let values = b + params.left * m;
    result[values + to] = length * kept[state() + 2u];
    if to < params.right {
        for (var i = 0u; i < n; i++) { result[values + n + to * n + i] = kept[keep + piece * n + i]; }
    }
    if to < params.left && length > longest() * T(params.epsilon) * T(m) {
        for (var i = 0u; i < m; i++) { result[b + to * m + i] = w[a + piece * m + i] / length; }
    }
}

// ---- Rotations

// Makes two columns orthogonal; false where they are.
fn turn(p: u32, q: u32, tolerance: T) -> bool {
    let m = params.m;
    let n = params.n;
    var x = T(0);
    var y = T(0);
    var both = T(0);
    for (var i = 0u; i < m; i++) {
        let v = w[a + p * m + i];
        let u = w[a + q * m + i];
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
    for (var i = 0u; i < m; i++) {
        let v = w[a + p * m + i];
        let u = w[a + q * m + i];
        w[a + p * m + i] = c * v - s * u;
        w[a + q * m + i] = s * v + c * u;
    }
    for (var i = 0u; i < n; i++) {
        let v = kept[keep + p * n + i];
        let u = kept[keep + q * n + i];
        kept[keep + p * n + i] = c * v - s * u;
        kept[keep + q * n + i] = s * v + c * u;
    }
    return true;
}

// Rotations one after the other, once and again, until nothing was turned from the first to the last.
fn sweep_columns() {
    let n = params.n;
    if kept[state() + 1u] == T(1) { return; }
    let tolerance = T(params.epsilon) * sqrt(T(params.m));
    var p = params.p;
    var q = params.q;
    var any = kept[state()] == T(1);
    var done = false;
    for (var i = 0u; i < params.turns && !done; i++) {
        // A sweep begins.
        any = any && p + q > 1u;
        any = turn(p, q, tolerance) || any;
        q++;
        if q == n {
            p++;
            q = p + 1u;
        }
        if q == n {
            done = !any;
            p = 0u;
            q = 1u;
        }
    }
    kept[state()] = select(T(0), T(1), any);
    kept[state() + 1u] = select(T(0), T(1), done);
}

// ---- Left vectors that no column gives, each orthogonal to those before it

fn is_given() -> bool {
    let least = longest() * T(params.epsilon) * T(params.m);
    var given = 0u;
    for (var j = 0u; j < params.n; j++) { given += select(0u, 1u, kept[lengths() + j] > least); }
    return step < given;
}

// What is left of the square of each axis.
fn measure_axes() {
    if is_given() { return; }
    var square = T(1);
    for (var j = 0u; j < step; j++) {
        let v = result[b + j * params.m + piece];
        square -= v * v;
    }
    kept[spare() + piece] = square;
}

// Begins with the next axis of which enough is left.
fn choose_axis() {
    let m = params.m;
    if is_given() { return; }
    var axis = 0u;
    if step > 0u { axis = u32(kept[axes() + step - 1u]); }
    for (var tries = 0u; tries < m; tries++) {
        axis = select(axis, 0u, axis >= m);
        if kept[spare() + axis] * T(m) > T(0.5) { break; }
        axis++;
    }
    result[b + step * m + piece] = select(T(0), T(1), piece == axis);
    if piece == 0u { kept[axes() + step] = T(axis + 1u); }
}

// The shares that the vectors before have in it.
fn share() {
    let m = params.m;
    if piece >= step || is_given() { return; }
    var along = T(0);
    for (var i = 0u; i < m; i++) { along += result[b + step * m + i] * result[b + piece * m + i]; }
    kept[spare() + piece] = along;
}

fn subtract_shares() {
    let m = params.m;
    if is_given() { return; }
    var v = result[b + step * m + piece];
    for (var j = 0u; j < step; j++) { v -= kept[spare() + j] * result[b + j * m + piece]; }
    result[b + step * m + piece] = v;
}

fn measure_vector() {
    let m = params.m;
    if piece > 0u || is_given() { return; }
    var square = T(0);
    for (var i = 0u; i < m; i++) {
        let v = result[b + step * m + i];
        square += v * v;
    }
    kept[spare()] = sqrt(square);
}

fn divide_vector() {
    if is_given() { return; }
    result[b + step * params.m + piece] /= kept[spare()];
}
