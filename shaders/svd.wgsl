// Singular value decomposition of column-major matrices with at least as many rows as columns, whose columns are
// rotated until they are orthogonal; see Note [One-sided Jacobi]. An invocation processes a matrix, or one column or
// row of it. Kernels of factor.wgsl.
//
// State kept per matrix: the right vectors; the column norms; whether the sweep rotated anything, whether the
// iteration has converged, and the scale of the matrix; the axes from which left vectors were made; and one number per
// row. The results are left vectors, values, right vectors. The step is the index of a left vector.

fn lengths() -> u32 { return keep + params.n * params.n; }
fn state() -> u32 { return lengths() + params.n; }
fn axes() -> u32 { return state() + 3u; }
fn spare() -> u32 { return axes() + params.left; }

// ---- Column by column

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

// Avoids overflow and underflow of squares.
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

// Sorts columns by descending norm. Very short columns consist of rounding errors and have no meaningful direction.
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
    // The search for axes starts at the first one.
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

// Makes two columns orthogonal; false if they are already.
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
    // The smaller of the two rotation angles.
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

// Rotations in cyclic order, until a whole sweep has rotated nothing.
fn sweep_columns() {
    let n = params.n;
    if kept[state() + 1u] == T(1) { return; }
    let tolerance = T(params.epsilon) * sqrt(T(params.m));
    var p = params.p;
    var q = params.q;
    var any = kept[state()] == T(1);
    var done = false;
    for (var i = 0u; i < params.turns && !done; i++) {
        // Start of a sweep.
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

// ---- Left vectors that do not come from columns, each orthogonal to the previous ones

fn is_given() -> bool {
    let least = longest() * T(params.epsilon) * T(params.m);
    var given = 0u;
    for (var j = 0u; j < params.n; j++) { given += select(0u, 1u, kept[lengths() + j] > least); }
    return step < given;
}

// The squared length of each axis outside the span of the previous vectors.
fn measure_axes() {
    if is_given() { return; }
    var square = T(1);
    for (var j = 0u; j < step; j++) {
        let v = result[b + j * params.m + piece];
        square -= v * v;
    }
    kept[spare() + piece] = square;
}

// Starts with the next axis that is sufficiently outside the span.
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

// The components along the previous vectors.
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
