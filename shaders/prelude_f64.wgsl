// Arithmetic and functions for f64: the `m_*` that a formula may call when it computes in f64.
//
// WGSL's built-in elementary functions compile to garbage for f64, so these use only arithmetic, `sqrt` and bit tests,
// like the CPU's, with the same polynomials and the same double-double arithmetic where one number has too few digits;
// a double-double is a vector of the large and the small part. See also Note [A zero that the compiler does not know].

// @slot types
alias T = f64;
var<private> runtime_zero: u32;
// @end

// Adding this to |x| < 2^51 rounds x to an integer.
const ROUND: f64 = 6755399441055744.0lf;

fn m_inf() -> f64 { return bitcast<f64>(0x7ff0000000000000lu ^ u64(runtime_zero)); }
fn m_nan() -> f64 { return bitcast<f64>(0x7ff8000000000000lu ^ u64(runtime_zero)); }
fn opaque(x: f64) -> f64 { return bitcast<f64>(bitcast<u64>(x) ^ u64(runtime_zero)); }
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
fn m_maximum(a: f64, b: f64) -> f64 { return select(a, b, b > a || is_nan(b)); }
fn m_minimum(a: f64, b: f64) -> f64 { return select(a, b, b < a || is_nan(b)); }
fn m_floor(x: f64) -> f64 { return keep_nan(x, floor(x)); }
fn m_ceil(x: f64) -> f64 { return keep_nan(x, ceil(x)); }
fn m_trunc(x: f64) -> f64 { return keep_nan(x, trunc(x)); }
fn m_round(x: f64) -> f64 { return keep_nan(x, round(x)); }
fn m_sqrt(x: f64) -> f64 { return select(sqrt(x), m_nan(), x < T(0.0) || is_nan(x)); }

// 2^n for n in -1022..=1023.
fn pow2(n: i32) -> f64 { return bitcast<f64>(u64(n + 1023) << 52u); }

// Long division of the significands as integers, eleven bits at a time, hence exact.
fn m_fmod(x: f64, y: f64) -> f64 {
    if is_nan(x) || is_nan(y) || is_infinite(x) || is_zero(y) { return m_nan(); }
    if m_abs(x) < m_abs(y) { return x; }
    let least = 0x0010000000000000lu;
    let a = magnitude(x);
    let b = magnitude(y);
    // A subnormal number has the exponent of the smallest normal one, but no leading bit.
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
// As Python's floor division: exact where rounding the quotient would cross an integer.
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

// ---- Sums of two numbers -------------------------------------------------------------------------------------------

fn fast_two_sum(a: f64, b: f64) -> vec2<f64> {
    let s = opaque(a + b);
    return vec2<f64>(s, b - opaque(s - a));
}
fn two_sum(a: f64, b: f64) -> vec2<f64> {
    let s = opaque(a + b);
    let t = opaque(s - a);
    return vec2<f64>(s, opaque(a - opaque(s - t)) + opaque(b - t));
}
// The upper 26 bits of the significand.
fn upper(a: f64) -> f64 { return bitcast<f64>(bitcast<u64>(a) & 0xfffffffff8000000lu); }
fn two_product(a: f64, b: f64) -> vec2<f64> {
    let p = opaque(a * b);
    let ah = upper(a);
    let bh = upper(b);
    let al = a - ah;
    let bl = b - bh;
    return vec2<f64>(p, ((opaque(ah * bh - p) + ah * bl) + al * bh) + al * bl);
}
fn pair_sum(a: vec2<f64>, b: vec2<f64>) -> vec2<f64> {
    let s = two_sum(a.x, b.x);
    return fast_two_sum(s.x, s.y + (a.y + b.y));
}
fn pair_product(a: vec2<f64>, b: vec2<f64>) -> vec2<f64> {
    let p = two_product(a.x, b.x);
    return fast_two_sum(p.x, p.y + (a.x * b.y + a.y * b.x));
}
fn pair_quotient(a: vec2<f64>, b: vec2<f64>) -> vec2<f64> {
    let q = opaque(a.x / b.x);
    let p = two_product(q, b.x);
    let rest = (opaque(a.x - p.x) - p.y) + (a.y - q * b.y);
    return fast_two_sum(q, rest / b.x);
}
fn pair_root(a: vec2<f64>) -> vec2<f64> {
    let q = sqrt(a.x);
    let p = two_product(q, q);
    let rest = (opaque(a.x - p.x) - p.y) + a.y;
    // The square root of zero has no correction term, which would be 0/0.
    return fast_two_sum(q, select(0.0lf, rest / (q + q), q > 0.0lf));
}

// Clamps `x`; NaN stays NaN.
fn within(x: f64, low: f64, high: f64) -> f64 {
    let y = select(x, high, x > high);
    return keep_nan(x, select(y, low, y < low));
}
// Rounds |x| < 2^51 to an integer.
fn nearest_integer(x: f64) -> f64 { return opaque(x + ROUND) - ROUND; }
// x·2^n for |n| <= 2044, rounded once even if the result is subnormal.
fn scale(x: f64, n: i32) -> f64 {
    let half = n / 2;
    return opaque(x * pow2(half)) * pow2(n - half);
}
fn at_most(n: i32, bound: i32) -> i32 { return select(n, bound, n > bound); }

// ---- Exponentials --------------------------------------------------------------------------------------------------

// x + low = n·ln 2 + r with |r| <= ln 2 / 2, and e^r = 1 + r + tail.
struct Reduced { n: i32, r: f64, tail: f64 }
fn exp_reduce(x: f64, low: f64) -> Reduced {
    let n = nearest_integer(x * LOG2_E);
    let a = opaque(x - n * LN2_HI);
    let b = n * LN2_LO - low;
    let r = opaque(a - b);
    let rest = opaque(a - r) - b;
    var q = ((EXP_10 * r + EXP_9) * r + EXP_8) * r + EXP_7;
    q = ((q * r + EXP_6) * r + EXP_5) * r + EXP_4;
    q = ((q * r + EXP_3) * r + EXP_2) * r + EXP_1;
    q = q * r + 0.5lf;
    return Reduced(i32(n), r, (rest + r * rest) + r * r * q);
}
// e^(x + low) as a double-double, to be multiplied by 2^n.
struct Parts { e: vec2<f64>, n: i32 }
fn exp_parts(x: f64, low: f64) -> Parts {
    let d = exp_reduce(x, low);
    let s = fast_two_sum(1.0lf, d.r);
    return Parts(fast_two_sum(s.x, s.y + d.tail), d.n);
}
// e^x - 1 likewise, for x >= -40.
fn expm1_parts(x: f64) -> Parts {
    let d = exp_reduce(x, 0.0lf);
    // From 2^60 on the 1 is below one ulp, so its exact value does not matter.
    let s = two_sum(1.0lf - pow2(-at_most(d.n, 60)), d.r);
    return Parts(fast_two_sum(s.x, s.y + d.tail), d.n);
}
fn exp_of(x: f64, low: f64) -> f64 {
    let d = exp_reduce(x, low);
    return scale(1.0lf + (d.r + d.tail), d.n);
}

fn m_exp(x: f64) -> f64 { return keep_nan(x, exp_of(within(x, -748.0lf, 712.0lf), 0.0lf)); }
fn m_exp2(x: f64) -> f64 {
    let c = within(x, -1080.0lf, 1026.0lf);
    let n = nearest_integer(c);
    let f = c - n;
    let r = two_product(f, LN2);
    let d = exp_reduce(r.x, r.y + f * LN2_REST);
    return keep_nan(x, scale(1.0lf + (d.r + d.tail), i32(n)));
}
fn m_expm1(x: f64) -> f64 {
    let p = expm1_parts(within(x, -40.0lf, 712.0lf));
    return keep_nan(x, copy_sign(scale(p.e.x + p.e.y, p.n), x));
}
fn m_sinh(x: f64) -> f64 {
    let p = expm1_parts(within(m_abs(x), 0.0lf, 712.0lf));
    let s = p.e * pow2(at_most(p.n, 60));
    let t = pair_sum(s, pair_quotient(s, pair_sum(vec2<f64>(1.0lf, 0.0lf), s)));
    let y = select(scale(p.e.x + p.e.y, p.n - 1), 0.5lf * (t.x + t.y), p.n < 58);
    return keep_nan(x, copy_sign(y, x));
}
fn m_cosh(x: f64) -> f64 {
    let p = exp_parts(within(m_abs(x), 0.0lf, 712.0lf), 0.0lf);
    let s = p.e * pow2(at_most(p.n, 60));
    let t = pair_sum(s, pair_quotient(vec2<f64>(1.0lf, 0.0lf), s));
    return keep_nan(x, select(scale(p.e.x + p.e.y, p.n - 1), 0.5lf * (t.x + t.y), p.n < 58));
}
fn m_tanh(x: f64) -> f64 {
    // tanh x = E / (E + 2) with E = e^2x - 1.
    let p = expm1_parts(within(2.0lf * m_abs(x), 0.0lf, 44.0lf));
    let e = p.e * pow2(p.n);
    let t = pair_quotient(e, pair_sum(vec2<f64>(2.0lf, 0.0lf), e));
    return keep_nan(x, copy_sign(select(t.x + t.y, m_abs(x), m_abs(x) < 7.450580596923828e-9lf), x));
}

// ---- Logarithms ----------------------------------------------------------------------------------------------------

// x = 2^k·m with m between √(1/2) and √2, for positive finite x; returns k and m.
fn log_reduce(x: f64) -> vec2<f64> {
    let denormal = x < 2.2250738585072014e-308lf;
    let bits = bitcast<u64>(select(x, x * 18014398509481984.0lf, denormal));
    let e = (bits + 0x3ff0000000000000lu - 0x3fe6a09e667f3bcdlu) >> 52u;
    let m = bitcast<f64>(bits - ((e - 1023lu) << 52u));
    let k = f64(i32(e) - 1023);
    return vec2<f64>(select(k, k - 54.0lf, denormal), m);
}
// Extends the logarithm of positive finite numbers to all x.
fn log_ends(x: f64, y: f64) -> f64 {
    let finite = select(y, x, is_infinite(x));
    return keep_nan(x, select(select(finite, m_nan(), x < 0.0lf), -m_inf(), is_zero(x)));
}
// log(1 + f) = f - h + rest with h = f²/2: h and rest.
fn log_terms(f: f64) -> vec2<f64> {
    let s = f / (2.0lf + f);
    let z = s * s;
    let h = 0.5lf * f * f;
    var p = ((LOG_6 * z + LOG_5) * z + LOG_4) * z + LOG_3;
    p = ((p * z + LOG_2) * z + LOG_1) * z + LOG_0;
    return vec2<f64>(h, s * (h + z * p));
}
// k·ln 2 + log(1 + f)
fn log_sum(k: f64, f: f64) -> f64 {
    let t = log_terms(f);
    return k * LN2_HI - opaque(opaque(t.x - (t.y + k * LN2_LO)) - f);
}
fn m_log(x: f64) -> f64 {
    let r = log_reduce(x);
    return log_ends(x, log_sum(r.x, r.y - 1.0lf));
}
fn m_log1p(x: f64) -> f64 {
    let s = two_sum(1.0lf, x);
    let r = log_reduce(s.x);
    let y = log_ends(s.x, log_sum(r.x, (r.y - 1.0lf) + s.y * pow2(-at_most(i32(r.x), 1022))));
    return select(y, x, m_abs(x) < 1e-17lf);
}
// k·of_2 + log(1 + f)·per_e: the logarithm to base b, where per_e is 1/ln b and of_2 the logarithm of 2 to base b.
fn log_to_base(x: f64, of_2: vec2<f64>, per_e: vec2<f64>) -> f64 {
    let r = log_reduce(x);
    let f = r.y - 1.0lf;
    let t = log_terms(f);
    // Split the logarithm in two; the first part is short enough for exact products.
    let hi = upper(opaque(f - t.x));
    let lo = (opaque(f - hi) - t.x) + t.y;
    let c = upper(per_e.x);
    let k = upper(of_2.x);
    let s = two_sum(r.x * k, hi * c);
    let tail = lo * per_e.x + hi * ((per_e.x - c) + per_e.y) + r.x * ((of_2.x - k) + of_2.y);
    return log_ends(x, s.x + (s.y + tail));
}
fn m_log2(x: f64) -> f64 {
    return log_to_base(x, vec2<f64>(1.0lf, 0.0lf), vec2<f64>(LOG2_E, LOG2_E_REST));
}
fn m_log10(x: f64) -> f64 {
    let of_2 = vec2<f64>(LOG10_2, LOG10_2_REST);
    return log_to_base(x, of_2, vec2<f64>(LOG10_E, LOG10_E_REST));
}

// The logarithm of x + low > 0 as a double-double, with relative error about 2^-66.
fn log_pair(x: f64, low: f64) -> vec2<f64> {
    let r = log_reduce(x);
    let k = i32(r.x);
    let f = two_sum(r.y - 1.0lf, low * pow2(-select(at_most(k, 1022), -1022, k < -1022)));
    let s = pair_quotient(f, pair_sum(fast_two_sum(2.0lf, f.x), vec2<f64>(f.y, 0.0lf)));
    let z = pair_product(s, s);
    var p = ((LOG_PAIR_6 * z.x + LOG_PAIR_5) * z.x + LOG_PAIR_4) * z.x + LOG_PAIR_3;
    p = ((p * z.x + LOG_PAIR_2) * z.x + LOG_PAIR_1) * z.x + LOG_PAIR_0;
    // log = 2s + s·z·(2/3 + z·p)
    let t = fast_two_sum(TWO_THIRDS, z.x * p);
    let series = pair_product(s, pair_product(z, vec2<f64>(t.x, t.y + TWO_THIRDS_REST)));
    return pair_sum(vec2<f64>(r.x * LN2_HI, r.x * LN2_LO), pair_sum(s * 2.0lf, series));
}
// log(b + sqrt(b² + c)) for b up to 2^28; beyond, log 2a.
fn log_of_root(a: f64, c: f64) -> f64 {
    let b = within(a, 0.0lf, 268435456.0lf);
    let root = pair_root(pair_sum(two_product(b, b), vec2<f64>(c, 0.0lf)));
    let y = pair_sum(root, vec2<f64>(b, 0.0lf));
    let large = a > 268435456.0lf;
    let l = log_pair(select(y.x, a, large), select(y.y, 0.0lf, large));
    let shifted = pair_sum(l, vec2<f64>(LN2, LN2_REST));
    return select(select(l.x + l.y, shifted.x + shifted.y, large), a, is_infinite(a));
}
fn m_asinh(x: f64) -> f64 {
    let a = m_abs(x);
    return keep_nan(x, copy_sign(select(log_of_root(a, 1.0lf), a, a < 7.450580596923828e-9lf), x));
}
fn m_acosh(x: f64) -> f64 {
    return keep_nan(x, select(log_of_root(within(x, 1.0lf, x), -1.0lf), m_nan(), x < 1.0lf));
}
fn m_atanh(x: f64) -> f64 {
    let a = m_abs(x);
    let b = within(a, 0.0lf, BELOW_ONE);
    let q = pair_quotient(two_sum(1.0lf, b), two_sum(1.0lf, -b));
    let l = log_pair(q.x, q.y);
    let y = select(0.5lf * (l.x + l.y), a, a < 7.450580596923828e-9lf);
    let ends = select(select(y, m_inf(), a >= 1.0lf), m_nan(), a > 1.0lf);
    return keep_nan(x, copy_sign(ends, x));
}

// x|^y for finite non-zero x, then the special cases of C99.
fn m_pow(x: f64, y: f64) -> f64 {
    if is_zero(y) || m_eq(x, 1.0lf) { return 1.0lf; }
    if is_nan(x) || is_nan(y) { return m_nan(); }
    let a = m_abs(x);
    let integer = m_eq(y, trunc(y)) || is_infinite(y);
    let odd = integer && m_abs(y) < 9007199254740992.0lf && !is_zero(0.5lf * y - trunc(0.5lf * y));
    let negative = is_negative(x);
    let sign = select(1.0lf, -1.0lf, negative && odd);
    if is_zero(a) || is_infinite(a) {
        return sign * select(m_inf(), 0.0lf, is_zero(a) == (y > 0.0lf));
    }
    if negative && !integer { return m_nan(); }
    let l = log_pair(a, 0.0lf);
    // Larger exponents overflow or underflow for every base except 1.
    let e = within(y, -3.6893488147419103e19lf, 3.6893488147419103e19lf);
    let p = two_product(e, l.x);
    let ends = p.x > 712.0lf || p.x < -748.0lf;
    return sign * exp_of(within(p.x, -748.0lf, 712.0lf), select(p.y + e * l.y, 0.0lf, ends));
}

// ---- Angles --------------------------------------------------------------------------------------------------------

// An angle minus the nearest multiple of π/2, as a double-double, and that multiple.
struct Angle { r: vec2<f64>, q: u32 }

// For |x| < 2^20: π/2 in parts of 33 bits, whose products with the multiple are exact.
fn angle_near(x: f64) -> Angle {
    let n = nearest_integer(x * FRAC_2_PI);
    let s = two_sum(opaque(x - n * ANGLE_NEAR_0), -n * ANGLE_NEAR_1);
    let r = fast_two_sum(s.x, s.y - n * ANGLE_NEAR_2);
    return Angle(fast_two_sum(r.x, r.y - n * ANGLE_NEAR_3), bitcast<u32>(i32(n)));
}

// Two zero words, then 2/π.
var<private> TWO_OVER_PI: array<u32, 40> = array<u32, 40>(
    0x00000000u, 0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u,
    0xfe5163abu, 0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu,
    0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu,
    0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du,
    0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u, 0xfc7b6babu,
);

// For any x: the leading bits of 2/π, whose products with x are multiples of 4, do not matter; the next 192 give x·2/π
// modulo 4 (Payne and Hanek), computed in 32-bit words, lowest first.
fn angle_far(x: f64) -> Angle {
    let bits = magnitude(x);
    let m = (bits & 0xffffffffffffflu) | 0x10000000000000lu;
    let from_bit = u32(bits >> 52u) - 1075u - 2u + 64u;
    let word = from_bit >> 5u;
    let shift = from_bit & 31u;
    var product = array<u32, 6>(0u, 0u, 0u, 0u, 0u, 0u);
    var carry_low = 0lu;
    var carry_high = 0lu;
    for (var i = 0u; i < 6u; i++) {
        let at = word + 5u - i;
        let w = (TWO_OVER_PI[at] << shift) | ((TWO_OVER_PI[at + 1u] >> 1u) >> (31u - shift));
        let low = (m & 0xfffffffflu) * u64(w) + carry_low;
        let high = (m >> 32u) * u64(w) + carry_high;
        product[i] = u32(low & 0xfffffffflu);
        // The carry to the next word: the upper half of the first product, and all of the second.
        carry_low = (low >> 32u) + (high & 0xfffffffflu);
        carry_high = high >> 32u;
    }
    let top = (u64(product[5]) << 32u) | u64(product[4]);
    let middle = (u64(product[3]) << 32u) | u64(product[2]);
    let bottom = (u64(product[1]) << 32u) | u64(product[0]);
    // As a signed number the fraction is between -1/2 and 1/2, relative to the nearest quadrant.
    let f1 = bitcast<i64>((top << 2u) | (middle >> 62u));
    let f0 = (middle << 2u) | (bottom >> 62u);
    let large = f64(f1 >> 11u) * 1.1102230246251565e-16lf;
    let rest = f64(f1 & 0x7ffli) * 5.421010862427522e-20lf + f64(f0 >> 11u) * 6.018531076210112e-36lf;
    let r = pair_product(fast_two_sum(large, rest), vec2<f64>(HALF_PI, HALF_PI_REST));
    let q = u32(top >> 62u) + select(0u, 1u, f1 < 0li);
    if is_negative(x) { return Angle(-r, 0u - q); }
    return Angle(r, q);
}
fn angle(x: f64) -> Angle {
    if m_abs(x) < 1048576.0lf { return angle_near(x); }
    if is_nan(x) || is_infinite(x) { return Angle(vec2<f64>(m_nan(), 0.0lf), 0u); }
    return angle_far(x);
}

// The sine and the cosine of |r| <= π/4 as double-doubles.
fn sin_parts(r: vec2<f64>) -> vec2<f64> {
    let z = r.x * r.x;
    var p = ((SIN_5 * z + SIN_4) * z + SIN_3) * z + SIN_2;
    p = (p * z + SIN_1) * z + SIN_0;
    return vec2<f64>(r.x, r.x * z * p + r.y * (1.0lf - 0.5lf * z));
}
fn cos_parts(r: vec2<f64>) -> vec2<f64> {
    let z = r.x * r.x;
    var p = ((COS_5 * z + COS_4) * z + COS_3) * z + COS_2;
    p = (p * z + COS_1) * z + COS_0;
    let h = 0.5lf * z;
    let c = opaque(1.0lf - h);
    return vec2<f64>(c, (opaque(1.0lf - c) - h) + (z * z * p - r.x * r.y));
}
// sin(r + q·π/2)
fn sin_turned(r: vec2<f64>, q: u32) -> f64 {
    let s = sin_parts(r);
    let c = cos_parts(r);
    let y = select(s.x + s.y, c.x + c.y, (q & 1u) == 1u);
    return select(y, -y, (q & 2u) == 2u);
}
fn m_sin(x: f64) -> f64 {
    let a = angle(x);
    return select(sin_turned(a.r, a.q), x, is_zero(x));
}
fn m_cos(x: f64) -> f64 {
    let a = angle(x);
    return sin_turned(a.r, a.q + 1u);
}
fn m_tan(x: f64) -> f64 {
    let a = angle(x);
    let sp = sin_parts(a.r);
    let cp = cos_parts(a.r);
    let s = fast_two_sum(sp.x, sp.y);
    let c = fast_two_sum(cp.x, cp.y);
    // tan(r + π/2) = -cos r / sin r
    let odd = (a.q & 1u) == 1u;
    let t = pair_quotient(select(s, -c, odd), select(c, s, odd));
    return select(t.x + t.y, x, m_abs(x) < 1e-150lf);
}

// The angle of the point (x, y) in the first quadrant; not both coordinates may be zero or infinite. Rotates by π/4 or
// π/2 if the angle is larger than π/8 or 3π/8.
fn angle_of(y: f64, x: f64) -> f64 {
    let steep = y > x * TAN_3_PI_8;
    let middle = y > x * TAN_PI_8 && !steep;
    let num = select(select(y, y - x, middle), -x, steep);
    let den = select(select(x, x + y, middle), y, steep);
    let base = select(select(0.0lf, 0.5lf * HALF_PI, middle), HALF_PI, steep);
    let rest = select(select(0.0lf, 0.5lf * HALF_PI_REST, middle), HALF_PI_REST, steep);
    let q = num / den;
    let z = q * q;
    var p = ((ATAN_11 * z + ATAN_10) * z + ATAN_9) * z + ATAN_8;
    p = ((p * z + ATAN_7) * z + ATAN_6) * z + ATAN_5;
    p = ((p * z + ATAN_4) * z + ATAN_3) * z + ATAN_2;
    p = (p * z + ATAN_1) * z + ATAN_0;
    return base + (q + (q * z * p + rest));
}
fn m_atan(x: f64) -> f64 {
    let a = m_abs(x);
    return keep_nan(x, copy_sign(select(angle_of(a, 1.0lf), HALF_PI, is_infinite(a)), x));
}
fn m_atan2(y: f64, x: f64) -> f64 {
    let ay = m_abs(y);
    let ax = m_abs(x);
    let largest = select(ax, ay, ay > ax);
    // Scale to avoid overflow of the sum and underflow of the quotient.
    let s = select(select(1.0lf, 1e100lf, largest < 1e-200lf), 1e-100lf, largest > 1e300lf);
    let infinite = is_infinite(ay) && is_infinite(ax);
    let alone = is_infinite(ay) && !infinite;
    let across = select(select(ax * s, 1.0lf, infinite || is_zero(largest)), 0.0lf, alone);
    let v = angle_of(select(ay * s, 1.0lf, infinite || alone), across);
    let turned = select(v, PI - (v - PI_REST), is_negative(x));
    return select(copy_sign(turned, y), m_nan(), is_nan(x) || is_nan(y));
}

// For a = |x|: a if a <= 1/2, else √((1 - a)/2), as argument and rounding error, and the tail of its arcsine.
fn arc(a: f64) -> vec3<f64> {
    let far = a > 0.5lf;
    let z = select(a * a, (1.0lf - within(a, 0.0lf, 1.0lf)) * 0.5lf, far);
    let root = pair_root(vec2<f64>(z, 0.0lf));
    let s = select(a, root.x, far);
    var p = ((ASIN_12 * z + ASIN_11) * z + ASIN_10) * z + ASIN_9;
    p = ((p * z + ASIN_8) * z + ASIN_7) * z + ASIN_6;
    p = ((p * z + ASIN_5) * z + ASIN_4) * z + ASIN_3;
    p = ((p * z + ASIN_2) * z + ASIN_1) * z + ASIN_0;
    return vec3<f64>(s, select(0.0lf, root.y, far), s * z * p);
}
fn m_asin(x: f64) -> f64 {
    let a = m_abs(x);
    let s = arc(a);
    let far = HALF_PI - (2.0lf * s.x - (HALF_PI_REST - 2.0lf * (s.y + s.z)));
    let y = copy_sign(select(s.x + s.z, far, a > 0.5lf), x);
    return keep_nan(x, select(y, m_nan(), a > 1.0lf));
}
fn m_acos(x: f64) -> f64 {
    let a = m_abs(x);
    let s = arc(a);
    let negative = x < 0.0lf;
    let near = select((HALF_PI_REST - s.z) - s.x, s.x + (HALF_PI_REST + s.z), negative);
    let half = s.x + (s.y + s.z);
    let far = select(2.0lf * half, PI - (2.0lf * half - PI_REST), negative);
    return keep_nan(x, select(select(HALF_PI + near, far, a > 0.5lf), m_nan(), a > 1.0lf));
}

// ---- Error functions -----------------------------------------------------------------------------------------------

// (erf x - x) / x from x², for |x| <= 1/2.
fn erf_tail(z: f64) -> f64 {
    var p = ((ERF_NEAR_10 * z + ERF_NEAR_9) * z + ERF_NEAR_8) * z + ERF_NEAR_7;
    p = ((p * z + ERF_NEAR_6) * z + ERF_NEAR_5) * z + ERF_NEAR_4;
    p = ((p * z + ERF_NEAR_3) * z + ERF_NEAR_2) * z + ERF_NEAR_1;
    p = p * z + ERF_NEAR_0;
    return p;
}
// erfc for x >= 0.46: e^(-x²) / (1 + 2x) times a polynomial in (x - 4)/(x + 4), which maps all x to a short interval.
fn erfc_far(c: f64) -> f64 {
    let x = within(c, 0.46lf, 28.0lf);
    let t = (x - 4.0lf) / (x + 4.0lf);
    var p = ((ERFC_FAR_21 * t + ERFC_FAR_20) * t + ERFC_FAR_19) * t + ERFC_FAR_18;
    p = ((p * t + ERFC_FAR_17) * t + ERFC_FAR_16) * t + ERFC_FAR_15;
    p = ((p * t + ERFC_FAR_14) * t + ERFC_FAR_13) * t + ERFC_FAR_12;
    p = ((p * t + ERFC_FAR_11) * t + ERFC_FAR_10) * t + ERFC_FAR_9;
    p = ((p * t + ERFC_FAR_8) * t + ERFC_FAR_7) * t + ERFC_FAR_6;
    p = ((p * t + ERFC_FAR_5) * t + ERFC_FAR_4) * t + ERFC_FAR_3;
    p = ((p * t + ERFC_FAR_2) * t + ERFC_FAR_1) * t + ERFC_FAR_0;
    let q = pair_quotient(fast_two_sum(ERFC_FAR_FIRST, t * p), two_sum(2.0lf * x, 1.0lf));
    let s = two_product(x, x);
    let d = exp_parts(-s.x, -s.y);
    return scale(d.e.x * q.x + (d.e.x * q.y + d.e.y * q.x), d.n);
}
fn m_erf(x: f64) -> f64 {
    let a = m_abs(x);
    return keep_nan(x, copy_sign(select(1.0lf - erfc_far(a), a + a * erf_tail(a * a), a < 0.5lf), x));
}
fn m_erfc(x: f64) -> f64 {
    let far = erfc_far(m_abs(x));
    let near = 1.0lf - (x + x * erf_tail(x * x));
    return keep_nan(x, select(select(far, 2.0lf - far, x < 0.0lf), near, m_abs(x) < 0.5lf));
}
fn m_normal_cdf(x: f64) -> f64 { return 0.5lf * (1.0lf + m_erf(x * ROOT_HALF)); }

// One step of Halley's method for erf y = a.
fn erfinv_step(a: f64, y: f64) -> f64 {
    // Uses the smaller of erf and erfc, so that the difference is exact.
    let near = (y + y * erf_tail(y * y)) - a;
    let far = (1.0lf - a) - erfc_far(y);
    let d = select(far, near, a < 0.5lf) * HALF_ROOT_PI * m_exp(y * y);
    return y - d / (1.0lf + y * d);
}
fn m_erfinv(x: f64) -> f64 {
    let a = m_abs(x);
    let inside = within(a, 0.0lf, BELOW_ONE);
    // Winitzki's approximation, accurate to two digits.
    let w = m_log((1.0lf - inside) * (1.0lf + inside));
    let b = ERFINV_0 + 0.5lf * w;
    let first = sqrt(m_maximum(sqrt(b * b - w * ERFINV_1) - b, 0.0lf));
    let y = erfinv_step(inside, erfinv_step(inside, erfinv_step(inside, first)));
    let small = select(y, a * HALF_ROOT_PI, a < 1e-8lf);
    let ends = select(select(small, m_inf(), a >= 1.0lf), m_nan(), a > 1.0lf);
    return keep_nan(x, copy_sign(ends, x));
}

// ---- The gamma function --------------------------------------------------------------------------------------------

// sin πx and cos πx.
fn sin_cos_pi(x: f64) -> vec2<f64> {
    // Reduce modulo 2 exactly, then relative to the nearest zero of the sine, for full relative accuracy there.
    let r = x - 2.0lf * round(x * 0.5lf);
    let fold = m_abs(r) > 0.5lf;
    let d = select(r, copy_sign(1.0lf, r) - r, fold);
    let c = m_cos(PI * d);
    return vec2<f64>(m_sin(PI * d), select(c, -c, fold));
}
// log Γ(2 + d) / d for |d| <= 1/2.
fn lgamma_near_two(d: f64) -> f64 {
    var p = ((LGAMMA_NEAR_TWO_19 * d + LGAMMA_NEAR_TWO_18) * d + LGAMMA_NEAR_TWO_17) * d + LGAMMA_NEAR_TWO_16;
    p = ((p * d + LGAMMA_NEAR_TWO_15) * d + LGAMMA_NEAR_TWO_14) * d + LGAMMA_NEAR_TWO_13;
    p = ((p * d + LGAMMA_NEAR_TWO_12) * d + LGAMMA_NEAR_TWO_11) * d + LGAMMA_NEAR_TWO_10;
    p = ((p * d + LGAMMA_NEAR_TWO_9) * d + LGAMMA_NEAR_TWO_8) * d + LGAMMA_NEAR_TWO_7;
    p = ((p * d + LGAMMA_NEAR_TWO_6) * d + LGAMMA_NEAR_TWO_5) * d + LGAMMA_NEAR_TWO_4;
    p = ((p * d + LGAMMA_NEAR_TWO_3) * d + LGAMMA_NEAR_TWO_2) * d + LGAMMA_NEAR_TWO_1;
    p = p * d + LGAMMA_NEAR_TWO_0;
    return p;
}
// log Γ(x) for positive finite x.
fn lgamma_positive(x: f64) -> f64 {
    if x < 0.5lf { return lgamma_near_two(x) * x - m_log(x) - m_log1p(x); }
    // Chosen so that the argument of the logarithm is near 1 where log Γ has a zero.
    if x < 1.5lf { return lgamma_near_two(x - 1.0lf) * (x - 1.0lf) - m_log1p(x - 1.0lf); }
    if x < 8.5lf {
        var t = x;
        var product = 1.0lf;
        while t > 2.5lf {
            t = t - 1.0lf;
            product = product * t;
        }
        return lgamma_near_two(t - 2.0lf) * (t - 2.0lf) + m_log(product);
    }
    // Stirling's series.
    let z = 1.0lf / (x * x);
    var p = ((STIRLING_7 * z + STIRLING_6) * z + STIRLING_5) * z + STIRLING_4;
    p = ((p * z + STIRLING_3) * z + STIRLING_2) * z + STIRLING_1;
    p = p * z + STIRLING_0;
    return (x - 0.5lf) * (m_log(x) - 1.0lf) + (HALF_LOG_TAU + p / x);
}
fn m_lgamma(x: f64) -> f64 {
    if is_nan(x) { return x; }
    if is_infinite(x) || (x <= 0.0lf && is_zero(x - trunc(x))) { return m_inf(); }
    if x > 0.0lf { return lgamma_positive(x); }
    if x > -1e-17lf { return -m_log(-x); }
    // Γ(x)·Γ(1 - x) = π / sin πx
    return m_log(PI / m_abs(sin_cos_pi(x).x)) - lgamma_positive(1.0lf - x);
}
fn digamma_positive(x: f64) -> f64 {
    var t = x;
    var sum = 0.0lf;
    while t < 10.0lf {
        sum = sum + 1.0lf / t;
        t = t + 1.0lf;
    }
    let z = 1.0lf / (t * t);
    var p = ((DIGAMMA_7 * z + DIGAMMA_0) * z + DIGAMMA_5) * z + DIGAMMA_4;
    p = ((p * z + DIGAMMA_3) * z + DIGAMMA_2) * z + DIGAMMA_1;
    p = p * z + DIGAMMA_0;
    return (m_log(t) - 0.5lf / t - z * p) - sum;
}
// digamma; NaN at the poles, but infinite at zero as in PyTorch.
fn m_digamma(x: f64) -> f64 {
    if is_nan(x) { return x; }
    if is_infinite(x) { return select(x, m_nan(), x < 0.0lf); }
    if is_zero(x) { return copy_sign(m_inf(), -x); }
    if x > 0.0lf { return digamma_positive(x); }
    if is_zero(x - trunc(x)) { return m_nan(); }
    let s = sin_cos_pi(x);
    return digamma_positive(1.0lf - x) - PI * s.y / s.x;
}
