//! The float8 types: floating point numbers of 8 bits in five formats.
//!
//! The names give the bits of exponent and mantissa. `fn` formats are finite: they have NaN but no infinity. `uz`
//! formats have no negative zero; its code is their only NaN. `e8m0fnu` is unsigned: it has powers of two only, and no
//! zero.

use bytemuck::{Pod, Zeroable};

use super::DType;
use super::Element;

/// The layout of a format with sign and mantissa.
#[derive(Clone, Copy)]
struct Format {
    mantissa: u32,
    bias: i32,
    /// The code of the largest finite number.
    largest: u8,
    /// The code of a number above that, whose sign bit is set for negative numbers unless it is the only NaN.
    overflow: u8,
    /// The code of NaN.
    nan: u8,
    /// Whether the code of negative zero is NaN.
    no_negative_zero: bool,
}

const E4M3FN: Format =
    Format { mantissa: 3, bias: 7, largest: 0x7e, overflow: 0x7e, nan: 0x7f, no_negative_zero: false };
const E4M3FNUZ: Format =
    Format { mantissa: 3, bias: 8, largest: 0x7f, overflow: 0x80, nan: 0x80, no_negative_zero: true };
const E5M2: Format =
    Format { mantissa: 2, bias: 15, largest: 0x7b, overflow: 0x7c, nan: 0x7f, no_negative_zero: false };
const E5M2FNUZ: Format =
    Format { mantissa: 2, bias: 16, largest: 0x7f, overflow: 0x80, nan: 0x80, no_negative_zero: true };

/// The format of a dtype; None for `e8m0fnu`.
const fn format(dtype: DType) -> Option<Format> {
    match dtype {
        DType::F8E4M3FN => Some(E4M3FN),
        DType::F8E4M3FNUZ => Some(E4M3FNUZ),
        DType::F8E5M2 => Some(E5M2),
        DType::F8E5M2FNUZ => Some(E5M2FNUZ),
        _ => None,
    }
}

/// 2 to the power of `e`, which is at least -149 and at most 127.
const fn power(e: i32) -> f32 {
    f32::from_bits(if e < -126 { 1 << (e + 149) } else { ((e + 127) as u32) << 23 })
}

const fn decode_code(format: Option<Format>, code: u8) -> f32 {
    let Some(f) = format else {
        return if code == 0xff { f32::NAN } else { power(code as i32 - 127) };
    };
    let (sign, magnitude) = (code & 0x80, code & 0x7f);
    if f.no_negative_zero && code == 0x80 {
        return f32::NAN;
    }
    if magnitude > f.largest {
        // e5m2 has an infinity between the largest number and its NaNs.
        let value = if magnitude == f.overflow { f32::INFINITY } else { f32::NAN };
        return if sign == 0 { value } else { -value };
    }
    let (exponent, fraction) =
        ((magnitude >> f.mantissa) as i32, (magnitude & ((1 << f.mantissa) - 1)) as f32);
    let unit = power((if exponent == 0 { 1 } else { exponent }) - f.bias - f.mantissa as i32);
    let whole = if exponent == 0 { 0.0 } else { (1 << f.mantissa) as f32 };
    let value = (whole + fraction) * unit;
    if sign == 0 { value } else { -value }
}

const fn table(format: Option<Format>) -> [f32; 256] {
    let mut values = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        values[code] = decode_code(format, code as u8);
        code += 1;
    }
    values
}

static TABLES: [[f32; 256]; 5] =
    [table(Some(E4M3FN)), table(Some(E4M3FNUZ)), table(Some(E5M2)), table(Some(E5M2FNUZ)), table(None)];

/// The values of all codes of a float8 dtype.
fn values(dtype: DType) -> &'static [f32; 256] {
    &TABLES[(dtype as usize).saturating_sub(DType::F8E4M3FN as usize).min(4)]
}

/// The largest finite number.
pub(super) fn largest(dtype: DType) -> f64 {
    let code = format(dtype).map_or(0xfe, |f| f.largest);
    values(dtype)[code as usize] as f64
}

/// Decodes elements of a float8 dtype.
pub fn decode(dtype: DType, codes: &[u8], out: &mut [f32]) {
    let values = values(dtype);
    for (o, &code) in out.iter_mut().zip(codes) {
        *o = values[code as usize];
    }
}

/// Encodes numbers in a float8 dtype, rounded to nearest even. Numbers above the largest become infinity or NaN, or the
/// largest in `e4m3fn`, which PyTorch saturates.
pub fn encode(dtype: DType, numbers: &[f32], out: &mut [u8]) {
    match format(dtype) {
        Some(f) => out.iter_mut().zip(numbers).for_each(|(o, &v)| *o = encode_number(f, v)),
        None => out.iter_mut().zip(numbers).for_each(|(o, &v)| *o = encode_power(v)),
    }
}

fn encode_number(f: Format, v: f32) -> u8 {
    let (bits, magnitude) = (v.to_bits(), v.abs());
    let sign = (bits >> 24) as u8 & 0x80;
    let signed = |code: u8| match f.no_negative_zero && (code == 0 || code == 0x80) {
        true => code,
        false => code | sign,
    };
    if v.is_nan() {
        return signed(f.nan);
    }
    // The exponent of the last bit of the mantissa, which in subnormal numbers is that of the smallest normal ones.
    let exponent = ((magnitude.to_bits() >> 23) as i32 - 127).clamp(1 - f.bias, 127);
    let unit = exponent - f.mantissa as i32;
    // Both factors are powers of two, so only the conversion to an integer rounds.
    let count = if magnitude.is_infinite() {
        return signed(f.overflow);
    } else {
        (magnitude * power(-unit)).round_ties_even() as u32
    };
    // A mantissa that was rounded up carries into the exponent.
    let code = (((exponent + f.bias - 1) as u32) << f.mantissa) + count;
    signed(if code > f.largest as u32 { f.overflow } else { code as u8 })
}

/// `e8m0fnu` has no sign: that of a number is dropped.
fn encode_power(v: f32) -> u8 {
    let bits = v.to_bits() & 0x7fff_ffff;
    let (exponent, fraction) = ((bits >> 23) as u8, bits & 0x7f_ffff);
    if exponent == 0xff {
        return 0xff;
    }
    let half = 0x40_0000;
    // Subnormal numbers lie between the codes 0 and 1, which are 2⁻¹²⁷ and 2⁻¹²⁶.
    let up = if exponent == 0 { fraction > half } else { fraction >= half };
    exponent + up as u8
}

macro_rules! float8 {
    ($($(#[$m:meta])* $name:ident $dtype:ident;)*) => { $(
        $(#[$m])*
        #[derive(Clone, Copy, Debug, Pod, Zeroable, Default)]
        #[repr(transparent)]
        pub struct $name(pub u8);

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.to_f64() == other.to_f64()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                self.to_f64().partial_cmp(&other.to_f64())
            }
        }

        impl Element for $name {
            const DTYPE: DType = DType::$dtype;
            fn to_f64(self) -> f64 {
                values(DType::$dtype)[self.0 as usize] as f64
            }
            fn from_f64(v: f64) -> Self {
                let mut out = [0];
                encode(DType::$dtype, &[v as f32], &mut out);
                $name(out[0])
            }
            fn to_i64(self) -> i64 {
                self.to_f64() as i64
            }
            fn from_i64(v: i64) -> Self {
                Self::from_f64(v as f32 as f64)
            }
        }
    )* };
}
float8! {
    /// Four bits of exponent, three of mantissa; largest 448, no infinity.
    Float8E4M3FN F8E4M3FN;
    /// As [`Float8E4M3FN`] with half the values and no negative zero.
    Float8E4M3FNUZ F8E4M3FNUZ;
    /// Five bits of exponent, two of mantissa, as the upper half of float16.
    Float8E5M2 F8E5M2;
    /// As [`Float8E5M2`] with half the values, and neither infinity nor negative zero.
    Float8E5M2FNUZ F8E5M2FNUZ;
    /// Powers of two from 2⁻¹²⁷ to 2¹²⁷.
    Float8E8M0FNU F8E8M0FNU;
}

#[cfg(test)]
mod tests {
    use super::*;

    const DTYPES: [DType; 5] =
        [DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F8E8M0FNU];

    fn code(dtype: DType, v: f32) -> u8 {
        let mut out = [0];
        encode(dtype, &[v], &mut out);
        out[0]
    }

    #[test]
    fn every_number_of_a_format_is_its_own_rounding() {
        for d in DTYPES {
            for (c, v) in values(d).iter().enumerate().filter(|(_, v)| !v.is_nan()) {
                assert_eq!(code(d, *v), c as u8, "{d} {v}");
            }
        }
    }

    #[test]
    fn numbers_round_to_the_nearest_and_ties_to_an_even_code() {
        for d in DTYPES.into_iter().filter(|d| *d != DType::F8E8M0FNU) {
            let mut finite: Vec<f32> = values(d).iter().copied().filter(|v| v.is_finite()).collect();
            finite.sort_by(f32::total_cmp);
            finite.dedup();
            for pair in finite.windows(2) {
                let middle = pair[0] / 2.0 + pair[1] / 2.0;
                let rounded = |v: f32| values(d)[code(d, v) as usize];
                assert_eq!(
                    (rounded(middle.next_down()), rounded(middle.next_up())),
                    (pair[0], pair[1]),
                    "{d}"
                );
                let even = if code(d, pair[0]).is_multiple_of(2) { pair[0] } else { pair[1] };
                assert_eq!(rounded(middle), even, "{d} {middle}");
            }
        }
    }

    #[test]
    fn e5m2_is_the_upper_half_of_float16() {
        for c in 0..=255u8 {
            let expected = half::f16::from_bits((c as u16) << 8).to_f32();
            let found = values(DType::F8E5M2)[c as usize];
            assert!(found == expected || found.is_nan() && expected.is_nan());
        }
    }
}
