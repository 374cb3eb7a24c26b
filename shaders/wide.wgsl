// Arithmetic of 64-bit integers as two words, low word first, for adapters without int64.
//
// Shaders are written with i64; `backend/gpu/lower_int64.rs` replaces its arithmetic by calls of these functions.

fn wide_from_i32(x: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u)); }
fn wide_from_u32(x: u32) -> vec2<u32> { return vec2<u32>(x, 0u); }
fn wide_from_bool(x: bool) -> vec2<u32> { return vec2<u32>(select(0u, 1u, x), 0u); }
fn wide_to_bool(x: vec2<u32>) -> bool { return (x.x | x.y) > 0u; }

fn wide_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}
fn wide_subtract(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}
fn wide_negate(a: vec2<u32>) -> vec2<u32> { return wide_subtract(vec2<u32>(0u, 0u), a); }

fn wide_multiply(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    // Half words, whose products fit in a word.
    let a0 = a.x & 0xffffu;
    let a1 = a.x >> 16u;
    let b0 = b.x & 0xffffu;
    let b1 = b.x >> 16u;
    let first = a1 * b0 + ((a0 * b0) >> 16u);
    let second = a0 * b1 + (first & 0xffffu);
    return vec2<u32>(a.x * b.x, a1 * b1 + (first >> 16u) + (second >> 16u) + a.x * b.y + a.y * b.x);
}

fn wide_equal(a: vec2<u32>, b: vec2<u32>) -> bool { return a.x == b.x && a.y == b.y; }
fn wide_is_negative(a: vec2<u32>) -> bool { return (a.y >> 31u) == 1u; }
fn wide_less(a: vec2<u32>, b: vec2<u32>) -> bool {
    let high_a = bitcast<i32>(a.y);
    let high_b = bitcast<i32>(b.y);
    return high_a < high_b || (a.y == b.y && a.x < b.x);
}

// The count is below 64, since callers mask it. Count 0 is special: there are no bits to take from the other word.
fn wide_shift_left(a: vec2<u32>, count: u32) -> vec2<u32> {
    if count == 0u { return a; }
    if count >= 32u { return vec2<u32>(0u, a.x << (count - 32u)); }
    return vec2<u32>(a.x << count, (a.y << count) | (a.x >> (32u - count)));
}
fn wide_shift_right(a: vec2<u32>, count: u32) -> vec2<u32> {
    if count == 0u { return a; }
    let high = bitcast<i32>(a.y);
    if count >= 32u { return vec2<u32>(bitcast<u32>(high >> (count - 32u)), bitcast<u32>(high >> 31u)); }
    return vec2<u32>((a.x >> count) | (a.y << (32u - count)), bitcast<u32>(high >> count));
}

// The absolute value as an unsigned number.
fn wide_magnitude(a: vec2<u32>) -> vec2<u32> {
    if wide_is_negative(a) { return wide_negate(a); }
    return a;
}
fn wide_with_sign(a: vec2<u32>, negative: bool) -> vec2<u32> {
    if negative { return wide_negate(a); }
    return a;
}

// The quotient of unsigned numbers; bit by bit unless both fit in words.
fn wide_quotient(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    if a.y == 0u && b.y == 0u && b.x > 0u { return vec2<u32>(a.x / b.x, 0u); }
    var quotient = vec2<u32>(0u, 0u);
    var rest = vec2<u32>(0u, 0u);
    for (var bit = 63i; bit >= 0i; bit--) {
        let word = select(a.x, a.y, bit >= 32i);
        let next = (word >> (u32(bit) & 31u)) & 1u;
        // A bit shifted out of the remainder means that it exceeds every divisor.
        let carry = (rest.y >> 31u) == 1u;
        rest = vec2<u32>((rest.x << 1u) | next, (rest.y << 1u) | (rest.x >> 31u));
        let fits = carry || rest.y > b.y || (rest.y == b.y && rest.x >= b.x);
        if fits {
            rest = wide_subtract(rest, b);
            let found = 1u << (u32(bit) & 31u);
            quotient |= select(vec2<u32>(found, 0u), vec2<u32>(0u, found), bit >= 32i);
        }
    }
    return quotient;
}
fn wide_divide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let quotient = wide_quotient(wide_magnitude(a), wide_magnitude(b));
    return wide_with_sign(quotient, ((a.y ^ b.y) >> 31u) == 1u);
}
fn wide_modulo(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return wide_subtract(a, wide_multiply(wide_divide(a, b), b));
}

// Rounded once: the 32 leading bits, of which the last is a sticky bit for the remaining ones, exceed float32
// precision.
fn wide_to_f32(a: vec2<u32>) -> f32 {
    let size = wide_magnitude(a);
    let zeros = countLeadingZeros(size.y);
    var leading = size.x;
    var scale = 1.0;
    if zeros < 32u {
        let moved = wide_shift_left(size, zeros);
        leading = moved.y | select(0u, 1u, moved.x > 0u);
        scale = bitcast<f32>((127u + 32u - zeros) << 23u);
    }
    let value = f32(leading) * scale;
    return select(value, -value, wide_is_negative(a));
}

// Truncates toward zero, within the range of int64.
fn wide_from_f32(x: f32) -> vec2<u32> {
    let bits = bitcast<u32>(x);
    let exponent = i32((bits >> 23u) & 0xffu) - 150i;
    let mantissa = vec2<u32>((bits & 0x7fffffu) | 0x800000u, 0u);
    var size = vec2<u32>(0u, 0u);
    if exponent >= 0i {
        size = wide_shift_left(mantissa, u32(exponent) & 63u);
    } else if exponent > -24i {
        size = vec2<u32>(mantissa.x >> u32(-exponent), 0u);
    }
    return wide_with_sign(size, (bits >> 31u) == 1u);
}
