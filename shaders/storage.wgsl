// float16 and bfloat16 as bits of a u32 word: exact conversion to f32, rounding to nearest even from f32.
//
// Done by hand, because the result of `pack2x16float` is unspecified for large values, and it may flush subnormals.

fn decode_half(bits: u32) -> f32 {
    let exponent = (bits >> 10u) & 31u;
    let biased = ((bits & 0x7fffu) << 13u) + select(0x38000000u, 0x70000000u, exponent == 31u);
    let denormal = bitcast<u32>(f32(bits & 0x3ffu) * 5.9604645e-8);
    return bitcast<f32>(select(biased, denormal, exponent == 0u) | ((bits & 0x8000u) << 16u));
}

fn encode_half(x: f32) -> u32 {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    let sign = (bitcast<u32>(x) >> 16u) & 0x8000u;
    if bits > 0x7f800000u { return sign | 0x7e00u; }
    // From 65520 on, halfway between the largest number and the next power of two, the result is infinite.
    if bits >= 0x477ff000u { return sign | 0x7c00u; }
    if bits < 0x38800000u { return sign | u32(round(bitcast<f32>(bits) * 16777216.0)); }
    return sign | ((bits - 0x38000000u + 0xfffu + ((bits >> 13u) & 1u)) >> 13u);
}

fn decode_bfloat16(bits: u32) -> f32 { return bitcast<f32>(bits << 16u); }

fn encode_bfloat16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    if (bits & 0x7fffffffu) > 0x7f800000u { return (bits >> 16u) | 0x40u; }
    return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}

// i / n without integer division, which is slow on adapters: an estimate, its remainder, and a final correction.
fn quotient(i: u32, n: u32) -> u32 {
    let inverse = 1.0 / f32(n);
    let near = u32(f32(i) * inverse);
    let nearer = near + u32(i32(floor(f32(i32(i - near * n)) * inverse)));
    let left = i32(i - nearer * n);
    return nearer + select(select(0u, 1u, left >= i32(n)), 0xffffffffu, left < 0);
}
