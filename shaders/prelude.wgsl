// Elementary and special functions for f32: every `m_*` that a rendered formula may call.
//
// WGSL's built-in functions are too inaccurate for training: `log` near 1 is off by thousands of ulp, `tanh`
// overflows, `pow(0, 0)` is 0, `x != x` is false for NaN. So everything here uses only arithmetic, `sqrt`, rounding
// and bit tests. Errors are a few ulp; zeros, infinities and NaN behave as in C99.
//
// Note [A zero that the compiler does not know] WGSL allows compilers to reassociate sums and to assume that
// infinities and NaN do not occur. `runtime_zero` is 0, but is passed as a parameter: an exclusive or with it changes
// nothing, but hides a value from the optimizer. `opaque` uses this to preserve rounding errors that are computed on
// purpose, and `m_inf` and `m_nan` to be no foldable constants.

// @slot types
alias T = f32;
var<private> runtime_zero: u32;
// @end

// ---- Bits ----------------------------------------------------------------------------------------------------------

fn m_inf() -> f32 { return bitcast<f32>(0x7f800000u ^ runtime_zero); }
fn m_nan() -> f32 { return bitcast<f32>(0x7fc00000u ^ runtime_zero); }
fn opaque(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ runtime_zero); }
fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn is_infinite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }
fn is_zero(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0u; }
fn is_negative(x: f32) -> bool { return (bitcast<u32>(x) >> 31u) == 1u; }
fn same_sign(x: f32, y: f32) -> bool { return is_negative(x) == is_negative(y); }
fn copy_sign(x: f32, sign: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(sign) & 0x80000000u));
}

// `y` if `x` is not NaN, else `x`.
fn keep_nan(x: f32, y: f32) -> f32 { return select(y, x, is_nan(x)); }

// Clamps `x`; NaN stays NaN.
fn within(x: f32, low: f32, high: f32) -> f32 {
    let y = select(x, high, x > high);
    return keep_nan(x, select(y, low, y < low));
}

// 2^n for n in -127..=127; n = -127 gives 0.
fn pow2(n: i32) -> f32 { return bitcast<f32>(u32(n + 127) << 23u); }

// x·2^n for |n| <= 252, rounded once even if the result is subnormal.
fn scale(x: f32, n: i32) -> f32 {
    let half = n / 2;
    return opaque(x * pow2(half)) * pow2(n - half);
}

// ---- Arithmetic ----------------------------------------------------------------------------------------------------

fn m_eq(a: f32, b: f32) -> bool {
    let same = bitcast<u32>(a) == bitcast<u32>(b) && !is_nan(a);
    return same || (is_zero(a) && is_zero(b));
}
fn m_abs(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) & 0x7fffffffu); }
fn m_maximum(a: f32, b: f32) -> f32 { return select(a, b, b > a || is_nan(b)); }
fn m_minimum(a: f32, b: f32) -> f32 { return select(a, b, b < a || is_nan(b)); }
fn m_floor(x: f32) -> f32 { return keep_nan(x, floor(x)); }
fn m_ceil(x: f32) -> f32 { return keep_nan(x, ceil(x)); }
fn m_trunc(x: f32) -> f32 { return keep_nan(x, trunc(x)); }
fn m_round(x: f32) -> f32 { return keep_nan(x, round(x)); }
fn m_sqrt(x: f32) -> f32 { return select(sqrt(x), m_nan(), x < 0.0 || is_nan(x)); }

// Long division of the significands as integers, eight bits at a time, hence exact.
fn m_fmod(x: f32, y: f32) -> f32 {
    if is_nan(x) || is_nan(y) || is_infinite(x) || is_zero(y) { return m_nan(); }
    if m_abs(x) < m_abs(y) { return x; }
    let a = bitcast<u32>(m_abs(x));
    let b = bitcast<u32>(m_abs(y));
    // A subnormal number has the exponent of the smallest normal one, but no leading bit.
    let exponent = select(b >> 23u, 1u, b < 0x00800000u);
    var left = select(a >> 23u, 1u, a < 0x00800000u) - exponent;
    var rest = (a & 0x007fffffu) | select(0x00800000u, 0u, a < 0x00800000u);
    let divisor = (b & 0x007fffffu) | select(0x00800000u, 0u, b < 0x00800000u);
    rest = rest - rest / divisor * divisor;
    while left > 0u {
        let step = select(left, 8u, left > 8u);
        rest = rest << step;
        rest = rest - rest / divisor * divisor;
        left = left - step;
    }
    return copy_sign(scale(f32(rest), i32(exponent) - 150), x);
}
fn m_remainder(x: f32, y: f32) -> f32 {
    let m = m_fmod(x, y);
    return select(m, m + y, !is_zero(m) && !same_sign(m, y));
}
// As Python's floor division: exact where rounding the quotient would cross an integer.
fn m_floor_divide(x: f32, y: f32) -> f32 {
    let m = m_fmod(x, y);
    let exact = (x - m) / y;
    let q = select(exact, exact - 1.0, !is_zero(m) && !same_sign(m, y));
    let low = floor(q);
    let nearest = select(low, low + 1.0, q - low > 0.5);
    let signed = select(nearest, copy_sign(0.0, x / y), is_zero(q));
    return select(keep_nan(m, signed), x / y, is_zero(y));
}
fn m_trunc_divide(x: f32, y: f32) -> f32 { return m_trunc(x / y); }

// ---- Exponentials --------------------------------------------------------------------------------------------------

// e^r - 1 - r for |r| <= ln 2 / 2.
fn exp_tail(r: f32) -> f32 {
    return r * r * ((((EXP_4 * r + EXP_3) * r + EXP_2) * r + EXP_1) * r + 0.5);
}

// e^x·2^k, k in -1..=0, for x between -105 and 91.
fn exp_scaled(x: f32, k: i32) -> f32 {
    let n = round(x * LOG2_E);
    let r = opaque(x - n * LN2_HI) - n * LN2_LO;
    return scale(1.0 + (r + exp_tail(r)), i32(n) + k);
}

// e^(x + lo), almost correctly rounded, for x as above and |lo| < 2^-17: the rounding errors of sums are compensated.
fn exp_of_pair(x: f32, lo: f32) -> f32 {
    let n = round(x * LOG2_E);
    let a = opaque(x - n * LN2_HI);
    let b = lo - n * LN2_LO;
    let r = opaque(a + b);
    let rest = opaque(a - r) + b;
    let s = opaque(1.0 + r);
    let tail = (r - opaque(s - 1.0)) + (rest * s + exp_tail(r));
    return scale(s + tail, i32(n));
}

fn m_exp(x: f32) -> f32 {
    let y = exp_scaled(within(x, -105.0, 89.0), 0);
    return keep_nan(x, select(y, m_inf(), x > EXP_OVERFLOW));
}

fn m_exp2(x: f32) -> f32 {
    let c = within(x, -151.0, 129.0);
    let n = round(c);
    let r = (c - n) * LN2;
    let y = scale(1.0 + (r + exp_tail(r)), i32(n));
    return keep_nan(x, select(y, m_inf(), x >= 128.0));
}

// 2^n·((1 - 2^-n) + e^r - 1), with compensated rounding errors.
fn m_expm1(x: f32) -> f32 {
    let c = within(x, -20.0, 89.0);
    let n = round(c * LOG2_E);
    let a = opaque(c - n * LN2_HI);
    let b = n * LN2_LO;
    let r = opaque(a - b);
    let tail = (opaque(a - r) - b) + exp_tail(r);
    let k = i32(n);
    // From 2^30 on the 1 is below one ulp.
    let one = 1.0 - pow2(-select(k, 30, k > 30));
    let s = opaque(one + r);
    let rest = opaque(one - s) + r;
    let y = copy_sign(scale(s + (rest + tail), k), x);
    return keep_nan(x, select(y, m_inf(), x > EXP_OVERFLOW));
}

fn m_sinh(x: f32) -> f32 {
    let a = m_abs(x);
    let e = m_expm1(within(a, 0.0, 1.0));
    let near = 0.5 * (e + e / (e + 1.0));
    let h = exp_scaled(within(a, 0.0, 91.0), -1);
    let far = select(h - 0.25 / h, m_inf(), a > SINH_OVERFLOW);
    return keep_nan(x, copy_sign(select(far, near, a < 1.0), x));
}

fn m_cosh(x: f32) -> f32 {
    let a = m_abs(x);
    let h = exp_scaled(within(a, 0.0, 91.0), -1);
    return keep_nan(x, select(h + 0.25 / h, m_inf(), a > SINH_OVERFLOW));
}

fn m_tanh(x: f32) -> f32 {
    let a = m_abs(x);
    let z = a * a;
    let p = (((TANH_4 * z + TANH_3) * z + TANH_2) * z + TANH_1) * z + TANH_0;
    let near = a + a * z * p;
    let far = 1.0 - 2.0 / (m_exp(2.0 * within(a, 0.0, 20.0)) + 1.0);
    return keep_nan(x, copy_sign(select(far, near, a < 0.625), x));
}

// ---- Logarithms ----------------------------------------------------------------------------------------------------

// x = 2^k·(1 + f) with 1 + f between √(1/2) and √2, for positive finite x; returns k and f.
fn log_reduce(x: f32) -> vec2<f32> {
    let raw = bitcast<u32>(x);
    // The bits of a subnormal number, read as an integer, are the number times 2^149.
    let denormal = raw < 0x00800000u;
    let bits = select(raw, bitcast<u32>(f32(raw)), denormal);
    let k = bitcast<i32>(bits - 0x3f3504f3u) >> 23u;
    let f = bitcast<f32>(bits - (bitcast<u32>(k) << 23u)) - 1.0;
    return vec2<f32>(f32(select(k, k - 149, denormal)), f);
}

// k·ln 2 + log(1 + f)
fn log_sum(k: f32, f: f32) -> f32 {
    var p = LOG_8;
    p = p * f + LOG_7;
    p = p * f + LOG_6;
    p = p * f + LOG_5;
    p = p * f + LOG_4;
    p = p * f + LOG_3;
    p = p * f + LOG_2;
    p = p * f + LOG_1;
    p = p * f + LOG_0;
    let h = 0.5 * f * f;
    return k * LN2_HI + opaque(f - (h - (f * f * f * p + k * LN2_LO)));
}

// Extends the logarithm of positive finite numbers to all x.
fn log_ends(x: f32, y: f32) -> f32 {
    let finite = select(y, x, is_infinite(x));
    return keep_nan(x, select(select(finite, m_nan(), x < 0.0), -m_inf(), is_zero(x)));
}

fn m_log(x: f32) -> f32 {
    let r = log_reduce(x);
    return log_ends(x, log_sum(r.x, r.y));
}
fn m_log2(x: f32) -> f32 {
    let r = log_reduce(x);
    return log_ends(x, r.x + log_sum(0.0, r.y) * LOG2_E);
}
fn m_log10(x: f32) -> f32 {
    let r = log_reduce(x);
    return log_ends(x, r.x * GPU_LOG10_0 + opaque(r.x * GPU_LOG10_1 + log_sum(0.0, r.y) * GPU_LOG10_2));
}
fn m_log1p(x: f32) -> f32 {
    let u = opaque(1.0 + x);
    // The rounding error of the sum.
    let v = opaque(u - x);
    let lost = (1.0 - v) + (x - opaque(u - v));
    let r = log_reduce(u);
    let k = i32(r.x);
    let y = log_sum(r.x, r.y + lost * pow2(-select(k, 127, k > 127)));
    return select(log_ends(u, y), x, m_abs(x) < 1e-8);
}

fn m_asinh(x: f32) -> f32 {
    let a = m_abs(x);
    let near = m_log1p(a + a * a / (1.0 + sqrt(1.0 + a * a)));
    let far = m_log(a) + LN2;
    return keep_nan(x, copy_sign(select(near, far, a > 1e6), x));
}
fn m_acosh(x: f32) -> f32 {
    let t = x - 1.0;
    let near = m_log1p(t + sqrt(t * (x + 1.0)));
    let far = m_log(x) + LN2;
    return keep_nan(x, select(select(near, far, x > 1e6), m_nan(), x < 1.0));
}
fn m_atanh(x: f32) -> f32 {
    let a = m_abs(x);
    let y = 0.5 * m_log1p(2.0 * a + 2.0 * a * a / (1.0 - a));
    let ends = select(select(y, m_inf(), a >= 1.0), m_nan(), a > 1.0);
    return keep_nan(x, copy_sign(ends, x));
}

// ---- Powers --------------------------------------------------------------------------------------------------------

// Note [Powers] x^y = e^(y log x), so a relative error of the logarithm is multiplied by y log x, up to 88. Therefore
// the logarithm is a sum of two numbers, accurate to about 2^-34. Such sums are vectors with the large part in `x` and
// the small one in `y`.

fn fast_two_sum(a: f32, b: f32) -> vec2<f32> {
    let s = opaque(a + b);
    return vec2<f32>(s, b - opaque(s - a));
}
// a·b and its rounding error, by products of half significands, since not every device has a fused multiply-add.
fn two_product(a: f32, b: f32) -> vec2<f32> {
    let p = opaque(a * b);
    let ah = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u);
    let bh = bitcast<f32>(bitcast<u32>(b) & 0xfffff000u);
    let al = a - ah;
    let bl = b - bh;
    return vec2<f32>(p, ((opaque(ah * bh - p) + ah * bl) + al * bh) + al * bl);
}

// log x for positive finite x, as a sum of two numbers.
fn log_pair(x: f32) -> vec2<f32> {
    let r = log_reduce(x);
    let f = r.y;
    // log(1 + f) = 2 (s + s³/3 + s⁵/5 + …) with s = f / (2 + f), whose rounding error is `s_lo`.
    let g = opaque(2.0 + f);
    let g_lo = f - opaque(g - 2.0);
    let s = f / g;
    let sg = two_product(s, g);
    let s_lo = (opaque(f - sg.x) - sg.y - s * g_lo) / g;
    let z = two_product(s, s);
    let cube = two_product(z.x, s);
    let third = two_product(cube.x, GPU_LOG_PAIR_0);
    let cube_lo = cube.y + z.y * s + 3.0 * z.x * s_lo;
    let series = z.x * z.x * s * (0.4 + z.x * (GPU_LOG_PAIR_1 + z.x * (GPU_LOG_PAIR_2 + z.x * GPU_LOG_PAIR_3)));
    let lo = third.y + cube.x * GPU_LOG_PAIR_4 + cube_lo * GPU_LOG_PAIR_0 + series + 2.0 * s_lo;
    let a = fast_two_sum(2.0 * s, third.x);
    let b = fast_two_sum(r.x * LN2_HI, a.x);
    let k_zero = is_zero(r.x);
    let hi = select(b.x, a.x, k_zero);
    let rest = select(b.y + a.y + r.x * LN2_LO, a.y, k_zero) + lo;
    return fast_two_sum(hi, rest);
}

fn m_pow(x: f32, y: f32) -> f32 {
    let a = m_abs(x);
    let log = log_pair(a);
    // Larger exponents overflow or underflow for every base except 1.
    let e = within(y, -1e10, 1e10);
    let p = two_product(e, log.x);
    let beyond = m_abs(p.x) > 105.0;
    let hi = within(p.x, -105.0, 91.0);
    let lo = select(p.y + e * log.y, 0.0, beyond);
    let middle = select(exp_of_pair(hi, lo), m_inf(), hi > 88.8);
    let ends = is_zero(x) || is_infinite(x);
    let size = select(middle, select(m_inf(), 0.0, is_zero(x) == (y > 0.0)), ends);
    // From 2^24 on all numbers are even integers.
    let whole = is_zero(y - trunc(y)) || m_abs(y) >= 16777216.0;
    let odd = whole && m_abs(y) < 16777216.0 && (i32(within(y, -16777216.0, 16777216.0)) & 1) == 1;
    let negative = is_negative(x);
    let signed = select(size, -size, negative && odd);
    let real = select(signed, m_nan(), negative && !whole && !ends);
    let number = select(real, m_nan(), is_nan(x) || is_nan(y));
    // 1 to any power, and -1 to an infinite power.
    let one = is_zero(y) || m_eq(x, 1.0) || (m_eq(a, 1.0) && is_infinite(y));
    return select(number, 1.0, one);
}

// ---- Angles --------------------------------------------------------------------------------------------------------

// Note [Reduction of angles] x = q·π/2 + r. Below 4096 the multiple of π/2 is subtracted in four parts, of which the
// first three have so few bits that the products are exact. Above, x is an integer m < 2^24 times a power of two, and
// m is multiplied by those 96 bits of 2/π that matter modulo 4: the upper two bits of the product are q, the others
// give r.

struct Angle { r: f32, q: u32 }

fn angle_near(x: f32) -> Angle {
    let n = round(x * GPU_ANGLE_NEAR_0);
    let r1 = opaque(x - n * GPU_ANGLE_NEAR_1);
    let r2 = opaque(r1 - n * GPU_ANGLE_NEAR_2);
    let r3 = opaque(r2 - n * GPU_ANGLE_NEAR_3);
    return Angle(r3 - n * GPU_ANGLE_NEAR_4, bitcast<u32>(i32(n)) & 3u);
}

// 32 bits of 2/π; word 0 precedes the binary point.
fn two_over_pi(word: u32) -> u32 {
    switch word {
        case 1u: { return 0xa2f9836eu; }
        case 2u: { return 0x4e441529u; }
        case 3u: { return 0xfc2757d1u; }
        case 4u: { return 0xf534ddc0u; }
        case 5u: { return 0xdb629599u; }
        case 6u: { return 0x3c439041u; }
        case 7u: { return 0xfe5163abu; }
        default: { return 0u; }
    }
}
fn two_over_pi_from(bit: u32) -> u32 {
    let shift = bit & 31u;
    let low = two_over_pi((bit >> 5u) + 1u);
    return (two_over_pi(bit >> 5u) << shift) | ((low >> 1u) >> (31u - shift));
}
// The upper half of a product.
fn mul_high(a: u32, b: u32) -> u32 {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let m1 = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let m2 = (a & 0xffffu) * (b >> 16u) + (m1 & 0xffffu);
    return (a >> 16u) * (b >> 16u) + (m1 >> 16u) + (m2 >> 16u);
}

fn angle_far(x: f32) -> Angle {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    let m = (bits & 0x007fffffu) | 0x00800000u;
    let bit = (bits >> 23u) - 120u;
    let w0 = two_over_pi_from(bit);
    let w1 = two_over_pi_from(bit + 32u);
    let w2 = two_over_pi_from(bit + 64u);
    let mid = m * w1;
    let middle = mid + mul_high(m, w2);
    let high = m * w0 + mul_high(m, w1) + select(0u, 1u, middle < mid);
    let q = high >> 30u;
    var f1 = (high << 2u) | (middle >> 30u);
    var f0 = (middle << 2u) | ((m * w2) >> 30u);
    // A fraction above 1/2 is relative to the next multiple.
    let up = f1 >= 0x80000000u;
    if up {
        f0 = ~f0 + 1u;
        f1 = ~f1 + select(0u, 1u, f0 == 0u);
    }
    let zeros = countLeadingZeros(f1);
    let top = select((f1 << (zeros & 31u)) | ((f0 >> 1u) >> (31u - (zeros & 31u))), f0, zeros == 32u);
    let r = f32(top) * pow2(-32 - i32(zeros)) * HALF_PI;
    let quarter = q + select(0u, 1u, up);
    if is_negative(x) {
        return Angle(select(-r, r, up), (0u - quarter) & 3u);
    }
    return Angle(select(r, -r, up), quarter & 3u);
}
fn angle(x: f32) -> Angle {
    if m_abs(x) < 4096.0 { return angle_near(x); }
    return angle_far(x);
}

// sin r and cos r for |r| <= π/4.
fn sin_near(r: f32) -> f32 {
    let z = r * r;
    return r + r * z * ((SIN_NEAR_0 * z + SIN_NEAR_1) * z + SIN_NEAR_2);
}
fn cos_near(r: f32) -> f32 {
    let z = r * r;
    return 1.0 - (0.5 * z - z * z * ((COS_NEAR_0 * z + COS_NEAR_1) * z + COS_NEAR_2));
}
// sin(r + q·π/2)
fn sin_turned(r: f32, q: u32) -> f32 {
    let y = select(sin_near(r), cos_near(r), (q & 1u) == 1u);
    return select(y, -y, (q & 2u) == 2u);
}
fn is_finite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) < 0x7f800000u; }

fn m_sin(x: f32) -> f32 {
    let a = angle(x);
    return select(select(m_nan(), sin_turned(a.r, a.q), is_finite(x)), x, is_zero(x));
}
fn m_cos(x: f32) -> f32 {
    let a = angle(x);
    return select(m_nan(), sin_turned(a.r, a.q + 1u), is_finite(x));
}
fn m_tan(x: f32) -> f32 {
    let a = angle(x);
    let s = sin_near(a.r);
    let c = cos_near(a.r);
    let y = select(s / c, -c / s, (a.q & 1u) == 1u);
    return select(select(m_nan(), y, is_finite(x)), x, is_zero(x));
}

// asin s for |s| <= 1/2.
fn asin_near(s: f32) -> f32 {
    let z = s * s;
    let p = (((GPU_ASIN_NEAR_0 * z + GPU_ASIN_NEAR_1) * z + GPU_ASIN_NEAR_2) * z + GPU_ASIN_NEAR_3) * z + GPU_ASIN_NEAR_4;
    return s + s * z * p;
}
fn m_asin(x: f32) -> f32 {
    let a = m_abs(x);
    let far = HALF_PI - (2.0 * asin_near(sqrt(0.5 * (1.0 - within(a, 0.0, 1.0)))) - HALF_PI_LO);
    let y = copy_sign(select(asin_near(a), far, a > 0.5), x);
    return keep_nan(x, select(y, m_nan(), a > 1.0));
}
fn m_acos(x: f32) -> f32 {
    let a = m_abs(x);
    let half = asin_near(sqrt(0.5 * (1.0 - within(a, 0.0, 1.0))));
    let far = select(2.0 * half, PI - 2.0 * (half - HALF_PI_LO), x < 0.0);
    let near = HALF_PI - (asin_near(x) - HALF_PI_LO);
    return keep_nan(x, select(select(near, far, a > 0.5), m_nan(), a > 1.0));
}

// atan of a non-negative number.
fn atan_positive(a: f32) -> f32 {
    let steep = a > GPU_ATAN_POSITIVE_0;
    let middle = a > GPU_ATAN_POSITIVE_1;
    let t = select(select(a, (a - 1.0) / (a + 1.0), middle), -1.0 / a, steep);
    let base = select(select(0.0, 0.5 * HALF_PI, middle), HALF_PI, steep);
    let lo = select(select(0.0, 0.5 * HALF_PI_LO, middle), HALF_PI_LO, steep);
    let z = t * t;
    let p = ((GPU_ATAN_POSITIVE_2 * z + GPU_ATAN_POSITIVE_3) * z + GPU_ATAN_POSITIVE_4) * z + GPU_ATAN_POSITIVE_5;
    return base + (t + (t * z * p + lo));
}
fn m_atan(x: f32) -> f32 {
    let a = m_abs(x);
    return keep_nan(x, copy_sign(select(atan_positive(a), HALF_PI, a > 1e9), x));
}
fn m_atan2(y: f32, x: f32) -> f32 {
    let ay = m_abs(y);
    let ax = m_abs(x);
    let steep = ay > ax;
    let small = select(ay, ax, steep);
    let large = select(ax, ay, steep);
    let tilt = select(small / large, 1.0, is_infinite(small));
    let q = atan_positive(select(tilt, 0.0, is_zero(large) || is_zero(small)));
    let turned = select(q, HALF_PI - (q - HALF_PI_LO), steep);
    let y_angle = select(turned, PI - (turned - 2.0 * HALF_PI_LO), is_negative(x));
    return select(copy_sign(y_angle, y), m_nan(), is_nan(x) || is_nan(y));
}

// ---- Error functions -----------------------------------------------------------------------------------------------

fn m_erf(x: f32) -> f32 {
    let a = within(m_abs(x), 0.0, 4.0);
    let z = a * a;
    var p = GPU_ERF_0;
    p = p * z + GPU_ERF_1;
    p = p * z + GPU_ERF_2;
    p = p * z + GPU_ERF_3;
    p = p * z + GPU_ERF_4;
    p = p * z + GPU_ERF_5;
    p = p * z + GPU_ERF_6;
    // The logarithm of erfc is nearly a parabola.
    var q = GPU_ERF_7;
    q = q * a + GPU_ERF_8;
    q = q * a + GPU_ERF_9;
    q = q * a + GPU_ERF_10;
    q = q * a + GPU_ERF_11;
    q = q * a + GPU_ERF_12;
    q = q * a + GPU_ERF_13;
    return keep_nan(x, copy_sign(select(1.0 - m_exp(q), a + a * p, a < 1.0), x));
}

// e^(-x²) / (1 + 2x) times a polynomial in (x - 4)/(x + 4), which maps all x >= 1/2 to a short interval.
fn m_erfc(x: f32) -> f32 {
    let a = within(m_abs(x), 0.0, 10.5);
    let z = a * a;
    let near = a * ((((GPU_ERFC_0 * z + GPU_ERFC_1) * z + GPU_ERFC_2) * z + GPU_ERFC_3) * z + GPU_ERFC_4);
    let b = within(a, 0.5, 10.5);
    let t = (b - 4.0) / (b + 4.0);
    var p = GPU_ERFC_5;
    p = p * t + GPU_ERFC_6;
    p = p * t + GPU_ERFC_7;
    p = p * t + GPU_ERFC_8;
    p = p * t + GPU_ERFC_9;
    p = p * t + GPU_ERFC_10;
    p = p * t + GPU_ERFC_11;
    p = p * t + GPU_ERFC_12;
    p = p * t + GPU_ERFC_13;
    p = p * t + GPU_ERFC_14;
    // The square of the upper half of x is exact.
    let hi = bitcast<f32>(bitcast<u32>(b) & 0xfffff000u);
    let power = within(-hi * hi, -105.0, 0.0);
    let far = exp_scaled(power, 0) * (m_exp((hi - b) * (hi + b)) * p / (1.0 + 2.0 * b));
    let y = select(far, 1.0 - near, a < 0.5);
    return keep_nan(x, select(y, 2.0 - y, x < 0.0 && a >= 0.5) + select(0.0, 2.0 * near, x < 0.0 && a < 0.5));
}

// At -|x| it is 2^y with a polynomial y, with the same operations as on the CPU, since small results are sensitive to
// rounding.
fn m_normal_cdf(x: f32) -> f32 {
    let a = within(m_abs(x), 0.0, 10.0);
    let z = a * a;
    let y = ((-1.0 + NORMAL_EXPONENT_0 * a) + z * (NORMAL_EXPONENT_1 + NORMAL_EXPONENT_2 * a))
        + (z * z) * ((NORMAL_EXPONENT_3 + NORMAL_EXPONENT_4 * a) + z * ((NORMAL_EXPONENT_5 + NORMAL_EXPONENT_6 * a) + NORMAL_EXPONENT_7 * z));
    let n = round(y);
    let r = y - n;
    let p = (1.0 + LN2 * r)
        + (r * r) * ((NORMAL_EXP2_0 + NORMAL_EXP2_1 * r) + (r * r) * (NORMAL_EXP2_2 + NORMAL_EXP2_3 * r));
    let below = select(scale(p, i32(n)), 0.0, m_abs(x) > 10.0);
    return keep_nan(x, select(below, 1.0 - below, x > 0.0));
}

// x times a polynomial in w = -log(1 - x²), or in √w near ±1, where a Newton step by erfc follows: the derivative
// there is proportional to exp(y²), which magnifies errors of y.
fn m_erfinv(x: f32) -> f32 {
    let a = m_abs(x);
    let w = -m_log((1.0 - within(a, 0.0, 1.0)) * (1.0 + a));
    var p = GPU_ERFINV_0;
    p = p * w + GPU_ERFINV_1;
    p = p * w + GPU_ERFINV_2;
    p = p * w + GPU_ERFINV_3;
    p = p * w + GPU_ERFINV_4;
    p = p * w + GPU_ERFINV_5;
    p = p * w + GPU_ERFINV_6;
    p = p * w + GPU_ERFINV_7;
    p = p * w + GPU_ERFINV_8;
    p = p * w + GPU_ERFINV_9;
    let s = sqrt(within(w, 0.0, 20.0)) - 3.0;
    var q = GPU_ERFINV_10;
    q = q * s + GPU_ERFINV_11;
    q = q * s + GPU_ERFINV_12;
    q = q * s + GPU_ERFINV_13;
    q = q * s + GPU_ERFINV_14;
    q = q * s + GPU_ERFINV_15;
    q = q * s + GPU_ERFINV_16;
    q = q * s + GPU_ERFINV_17;
    q = q * s + GPU_ERFINV_18;
    q = q * s + GPU_ERFINV_19;
    let first = x * select(q, p, w < 5.0);
    let b = m_abs(first);
    let step = (m_erfc(b) - (1.0 - within(a, 0.0, 1.0))) * (GPU_ERFINV_9 * m_exp(b * b));
    let y = select(first, copy_sign(b + step, x), a > 0.9);
    let ends = select(select(y, copy_sign(m_inf(), x), a >= 1.0), m_nan(), a > 1.0);
    return keep_nan(x, ends);
}

// ---- The gamma function --------------------------------------------------------------------------------------------

// sin πx and cos πx.
fn sin_cos_pi(x: f32) -> vec2<f32> {
    // Reduce modulo 2 exactly, then relative to the nearest zero of the sine, for full relative accuracy there.
    let r = x - 2.0 * round(x * 0.5);
    let fold = m_abs(r) > 0.5;
    let d = select(r, copy_sign(1.0, r) - r, fold);
    let c = m_cos(PI * d);
    return vec2<f32>(m_sin(PI * d), select(c, -c, fold));
}

// log Γ(2 + d) / d for |d| <= 1/2.
fn lgamma_near_two(d: f32) -> f32 {
    var p = GPU_LGAMMA_NEAR_TWO_0;
    p = p * d + GPU_LGAMMA_NEAR_TWO_1;
    p = p * d + GPU_LGAMMA_NEAR_TWO_2;
    p = p * d + GPU_LGAMMA_NEAR_TWO_3;
    p = p * d + GPU_LGAMMA_NEAR_TWO_4;
    p = p * d + GPU_LGAMMA_NEAR_TWO_5;
    p = p * d + GPU_LGAMMA_NEAR_TWO_6;
    p = p * d + GPU_LGAMMA_NEAR_TWO_7;
    p = p * d + GPU_LGAMMA_NEAR_TWO_8;
    return p * d + GPU_LGAMMA_NEAR_TWO_9;
}

// log Γ(x) for positive finite x.
fn lgamma_positive(x: f32) -> f32 {
    if x < 0.5 { return lgamma_near_two(x) * x - m_log(x) - m_log1p(x); }
    // Chosen so that the argument of the logarithm is near 1 where log Γ has a zero.
    if x < 1.5 { return lgamma_near_two(x - 1.0) * (x - 1.0) - m_log1p(x - 1.0); }
    if x < 8.5 {
        var t = x;
        var product = 1.0;
        while t > 2.5 {
            t = t - 1.0;
            product = product * t;
        }
        return lgamma_near_two(t - 2.0) * (t - 2.0) + m_log(product);
    }
    // Stirling's series.
    let z = 1.0 / x;
    let series = z * (GPU_LGAMMA_POSITIVE_0 - z * z * (GPU_LGAMMA_POSITIVE_1 - z * z * GPU_LGAMMA_POSITIVE_2));
    return (x - 0.5) * (m_log(x) - 1.0) + (GPU_LGAMMA_POSITIVE_3 + series);
}

fn m_lgamma(x: f32) -> f32 {
    if is_nan(x) { return x; }
    if is_infinite(x) || (x <= 0.0 && is_zero(x - trunc(x))) { return m_inf(); }
    if x > 0.0 { return lgamma_positive(x); }
    if x > -1e-8 { return -m_log(-x); }
    // Γ(x)·Γ(1 - x) = π / sin πx
    return m_log(PI / m_abs(sin_cos_pi(x).x)) - lgamma_positive(1.0 - x);
}

fn digamma_positive(x: f32) -> f32 {
    var t = x;
    var sum = 0.0;
    while t < 6.0 {
        sum = sum + 1.0 / t;
        t = t + 1.0;
    }
    let z = 1.0 / (t * t);
    let series = z * (GPU_LGAMMA_POSITIVE_0 - z * (GPU_DIGAMMA_POSITIVE_0 - z * (GPU_DIGAMMA_POSITIVE_1 - z * GPU_DIGAMMA_POSITIVE_2)));
    return (m_log(t) - 0.5 / t - series) - sum;
}

// digamma; NaN at the poles, but infinite at zero as in PyTorch.
fn m_digamma(x: f32) -> f32 {
    if is_nan(x) { return x; }
    if is_infinite(x) { return select(x, m_nan(), x < 0.0); }
    if is_zero(x) { return copy_sign(m_inf(), -x); }
    if x > 0.0 { return digamma_positive(x); }
    if is_zero(x - trunc(x)) { return m_nan(); }
    let s = sin_cos_pi(x);
    return digamma_positive(1.0 - x) - PI * s.y / s.x;
}
