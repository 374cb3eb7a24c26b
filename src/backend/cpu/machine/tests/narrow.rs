//! Operands and results of narrower types.

use super::*;

#[test]
fn integers_become_numbers_and_booleans_become_one_or_zero() {
    fn check<T: Tested + Real>(dtype: DType, bytes_of: fn(i64) -> Vec<u8>, number: fn(i64) -> f64) {
        let text = "%0 = x0\n%1 = x1\n%2 = x2\n%3 = mul %0 %1\n%4 = sub %3 %2\nreturn %4";
        let formulas = [Formula::parse(text).unwrap()];
        for (rows, n) in [(1, 1), (1, 16), (3, 37), (2, 64)] {
            let narrow = smallvec::smallvec![(0, dtype), (1, DType::Bool)];
            let recipe = Recipe { narrow, ..recipe(&formulas, 3, 0b100) };
            let Some(kernel) = made::<T>(&recipe) else { return };
            let integers: Vec<i64> = (0..(rows * n) as i64).map(|i| i * 0x7359_1d87 - (1 << 31)).collect();
            let bytes: Vec<u8> = integers.iter().flat_map(|i| bytes_of(*i)).collect();
            let truths: Vec<u8> = (0..rows * n).map(|i| (i % 3) as u8).collect();
            let per_row: Vec<T> = (0..rows).map(|r| T::lit(r as f64 + 0.5)).collect();
            let mut out = vec![T::lit(0.0); rows * n];
            let pool = kernel.pool::<T>(&[]).unwrap();
            let ins = [In::Narrow(&bytes), In::Narrow(&truths), In::PerRow(&per_row)];
            assert!(kernel.run(&ins, &mut [Out::Elements(&mut out)], &[], &pool, rows, n));
            let short = [In::Narrow(&bytes[dtype.size()..]), In::Narrow(&truths), In::PerRow(&per_row)];
            assert!(!kernel.run(&short, &mut [Out::Elements(&mut out)], &[], &pool, rows, n));
            for (i, v) in out.iter().enumerate() {
                let truth = f64::from(u8::from(truths[i] != 0));
                let wanted = T::lit(number(integers[i])) * T::lit(truth) - per_row[i / n];
                assert_eq!(v.bits(), wanted.bits(), "{dtype:?} {}", integers[i]);
            }
        }
    }
    fn check_all<T: Tested + Real>() {
        check::<T>(DType::U8, |i| vec![i as u8], |i| f64::from(i as u8));
        check::<T>(DType::I8, |i| vec![i as u8], |i| f64::from(i as i8));
        check::<T>(DType::I16, |i| (i as i16).to_ne_bytes().to_vec(), |i| f64::from(i as i16));
        check::<T>(DType::I32, |i| (i as i32).to_ne_bytes().to_vec(), |i| f64::from(i as i32));
    }
    with_each_isa(|| {
        check_all::<f32>();
        check_all::<f64>();
    });
}

#[test]
fn half_types_are_read_and_stored_as_casts_do() {
    let formulas = [Formula::parse("%0 = x0\n%1 = x1\n%2 = mul %0 %1\nreturn %2").unwrap()];
    with_each_isa(|| {
        for (dtype, (rows, n)) in [DType::F16, DType::BF16]
            .into_iter()
            .flat_map(|d| [(1, 1 << 16), (1, 37), (3, 48)].map(|of| (d, of)))
        {
            let is_bfloat = dtype == DType::BF16;
            let mut recipe = recipe(&formulas, 2, if rows > 1 { 0b10 } else { 0 });
            recipe.steps.push((Work::Round(dtype), smallvec::smallvec![Source::Step(0)]));
            recipe.results[0] = 1;
            recipe.narrow.push((0, dtype));
            recipe.halves.push((0, dtype));
            let Some(kernel) = made::<f32>(&recipe) else { return };
            let wide = |bits: u16| match is_bfloat {
                true => half::bf16::from_bits(bits).to_f32(),
                false => half::f16::from_bits(bits).to_f32(),
            };
            let rounded = |x: f32| match is_bfloat {
                true => half::bf16::from_f32(x).to_bits(),
                false => half::f16::from_f32(x).to_bits(),
            };
            let given: Vec<u16> = (0..rows * n).map(|i| (i * 21845) as u16).collect();
            let factors: Vec<f32> = (0..rows * n).map(|i| 1.0 + (i % 7) as f32 / 8.0).collect();
            let bytes: &[u8] = bytemuck::cast_slice(&given);
            let mut out = vec![0i16; rows * n + 1];
            let pool = kernel.pool::<f32>(&[]).unwrap();
            let factor = if rows > 1 { In::PerRow(&factors[..rows]) } else { In::Elements(&factors[..]) };
            let stored = Out::Halves(&mut out[..rows * n]);
            assert!(kernel.run(&[In::Narrow(bytes), factor], &mut [stored], &[], &pool, rows, n));
            let stored = Out::Halves(&mut out[..rows * n]);
            assert!(!kernel.run(&[In::Narrow(&bytes[2..]), factor], &mut [stored], &[], &pool, rows, n));
            for (i, bits) in given.iter().enumerate() {
                let x = wide(*bits) * factors[if rows > 1 { i / n } else { i }];
                assert_eq!(out[i] as u16, rounded(x), "{bits:#x} in {rows} rows of {n} of {dtype:?}");
            }
            assert_eq!(out[rows * n], 0);
        }
    });
}
