// Integer arithmetic: the `m_*` that a formula may call when it computes in i32 or i64.
//
// Sums and products wrap. Division by zero gives 0; the caller has rejected zero divisors before.

// @slot types
alias T = i32;
const WIDTH: T = 32;
// @end

fn m_eq(a: T, b: T) -> bool { return a == b; }
fn m_abs(x: T) -> T { return select(x, -x, x < 0); }
fn m_maximum(a: T, b: T) -> T { return select(b, a, a > b); }
fn m_minimum(a: T, b: T) -> T { return select(b, a, a < b); }

fn m_trunc_divide(a: T, b: T) -> T {
    if b == 0 { return 0; }
    // The smallest integer has no negation; dividing it by -1 wraps to itself.
    if b == -1 { return -a; }
    return a / b;
}
fn m_fmod(a: T, b: T) -> T { return a - m_trunc_divide(a, b) * select(b, a, b == 0); }
fn m_remainder(a: T, b: T) -> T {
    if b == 0 { return 0; }
    let r = m_fmod(a, b);
    return select(r, r + b, r != 0 && (r < 0) != (b < 0));
}
fn m_floor_divide(a: T, b: T) -> T {
    if b == 0 { return 0; }
    let q = m_trunc_divide(a, b);
    let r = a - q * b;
    return select(q, q - 1, r != 0 && (r < 0) != (b < 0));
}

// The device masks shift counts; here a count that is negative or too large, which has bits above the mask, shifts out
// all bits. (Comparing with WIDTH gives wrong results on llvmpipe of Mesa 22.3 for counts widened from 32 bits.)
fn moves_all_out(b: T) -> bool { return (b & ~(WIDTH - 1)) != 0; }
fn m_bitwise_left_shift(a: T, b: T) -> T {
    return select(a << u32(b & (WIDTH - 1)), 0, moves_all_out(b));
}
fn m_bitwise_right_shift(a: T, b: T) -> T {
    return select(a >> u32(b & (WIDTH - 1)), select(T(0), T(-1), a < 0), moves_all_out(b));
}

// By repeated squaring; for negative exponents only the powers of 1 and -1 are non-zero.
fn m_pow(a: T, b: T) -> T {
    if b < 0 {
        if a == 1 { return 1; }
        return select(0, 1 - 2 * (b & 1), a == -1);
    }
    var power: T = 1;
    var base = a;
    var exponent = b;
    while exponent > 0 {
        if (exponent & 1) == 1 { power = power * base; }
        base = base * base;
        exponent = exponent >> 1u;
    }
    return power;
}

fn m_gcd(a: T, b: T) -> T {
    var x = m_abs(a);
    var y = m_abs(b);
    while y != 0 {
        let rest = m_fmod(x, y);
        x = y;
        y = rest;
    }
    return x;
}
