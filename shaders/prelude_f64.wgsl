// Arithmetic of f64: the `m_*` that a rendered formula may call where it computes in f64.
//
// No device has elementary functions of f64, and WGSL's compile to garbage: what is not here, f64 does not have.

// @slot types
alias T = f64;
var<private> runtime_zero: u32;
// @end

fn m_inf() -> f64 { return bitcast<f64>(0x7ff0000000000000lu ^ u64(runtime_zero)); }
fn m_nan() -> f64 { return bitcast<f64>(0x7ff8000000000000lu ^ u64(runtime_zero)); }
fn magnitude(x: f64) -> u64 { return bitcast<u64>(x) & 0x7ffffffffffffffflu; }
fn is_nan(x: f64) -> bool { return magnitude(x) > 0x7ff0000000000000lu; }
fn is_infinite(x: f64) -> bool { return magnitude(x) == 0x7ff0000000000000lu; }
fn is_negative(x: f64) -> bool { return (bitcast<u64>(x) >> 63u) == 1lu; }
fn is_zero(x: f64) -> bool { return magnitude(x) == 0lu; }
fn same_sign(x: f64, y: f64) -> bool { return is_negative(x) == is_negative(y); }
fn copy_sign(x: f64, sign: f64) -> f64 {
    return bitcast<f64>(magnitude(x) | (bitcast<u64>(sign) & 0x8000000000000000lu));
}
fn keep_nan(x: f64, y: f64) -> f64 { return select(y, x, is_nan(x)); }

fn m_eq(a: f64, b: f64) -> bool {
    let same = bitcast<u64>(a) == bitcast<u64>(b) && !is_nan(a);
    return same || (is_zero(a) && is_zero(b));
}
fn m_abs(x: f64) -> f64 { return bitcast<f64>(magnitude(x)); }
fn m_maximum(a: f64, b: f64) -> f64 { return select(b, a, a > b || is_nan(a)); }
fn m_minimum(a: f64, b: f64) -> f64 { return select(b, a, a < b || is_nan(a)); }
fn m_floor(x: f64) -> f64 { return keep_nan(x, floor(x)); }
fn m_ceil(x: f64) -> f64 { return keep_nan(x, ceil(x)); }
fn m_trunc(x: f64) -> f64 { return keep_nan(x, trunc(x)); }
fn m_round(x: f64) -> f64 { return keep_nan(x, round(x)); }
fn m_sqrt(x: f64) -> f64 { return select(sqrt(x), m_nan(), x < T(0.0) || is_nan(x)); }

// 2^n for n in -1022..=1023.
fn pow2(n: i32) -> f64 { return bitcast<f64>(u64(n + 1023) << 52u); }

// Long division of the significands as integers, eleven bits at a time, so that nothing is rounded.
fn m_fmod(x: f64, y: f64) -> f64 {
    if is_nan(x) || is_nan(y) || is_infinite(x) || is_zero(y) { return m_nan(); }
    if m_abs(x) < m_abs(y) { return x; }
    let least = 0x0010000000000000lu;
    let a = magnitude(x);
    let b = magnitude(y);
    // A denormal number has the exponent of the least normal one, but no leading bit.
    let exponent = select(u32(b >> 52u), 1u, b < least);
    var left = select(u32(a >> 52u), 1u, a < least) - exponent;
    var rest = (a & (least - 1lu)) | select(least, 0lu, a < least);
    let divisor = (b & (least - 1lu)) | select(least, 0lu, b < least);
    rest = rest - rest / divisor * divisor;
    while left > 0u {
        let step = select(left, 11u, left > 11u);
        rest = rest << step;
        rest = rest - rest / divisor * divisor;
        left = left - step;
    }
    let n = i32(exponent) - 1075;
    return copy_sign(f64(rest) * pow2(n / 2) * pow2(n - n / 2), x);
}
fn m_remainder(x: f64, y: f64) -> f64 {
    let m = m_fmod(x, y);
    return select(m, m + y, !is_zero(m) && !same_sign(m, y));
}
// Python's rule: exact even where the rounded quotient would cross an integer.
fn m_floor_divide(x: f64, y: f64) -> f64 {
    let m = m_fmod(x, y);
    let exact = (x - m) / y;
    let q = select(exact, exact - T(1.0), !is_zero(m) && !same_sign(m, y));
    let low = floor(q);
    let nearest = select(low, low + T(1.0), q - low > T(0.5));
    let signed = select(nearest, copy_sign(T(0.0), x / y), is_zero(q));
    return select(keep_nan(m, signed), x / y, is_zero(y));
}
fn m_trunc_divide(x: f64, y: f64) -> f64 { return m_trunc(x / y); }
