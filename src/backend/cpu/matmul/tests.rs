//! Compares products with a naive product in float64 and with the `gemm` crate, on each instruction set.

use std::sync::Mutex;

use super::*;
use crate::backend::cpu::microkernel::Half;
use crate::backend::cpu::parallel::with_threads;
use crate::backend::cpu::simd::{Isa, best_isa};

const ISAS: [Isa; 3] = [Isa::Baseline, Isa::Avx2, Isa::Avx512];

/// Reproducible numbers between -1 and 1.
fn random<T: Real>(len: usize, seed: u64) -> Vec<T> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        T::of((x >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    };
    (0..len).map(|_| next()).collect()
}

/// Layouts of a matrix, as they occur in tensors.
#[derive(Clone, Copy, Debug)]
enum Strides {
    Rows,
    Columns,
    PaddedRows,
    PaddedColumns,
    Neither,
    SameRow,
    SameColumn,
}

use Strides::*;
const STRIDES: [Strides; 7] = [Rows, Columns, PaddedRows, PaddedColumns, Neither, SameRow, SameColumn];

impl Strides {
    /// Whether it is that of a dense matrix or its transpose.
    fn is_common(self) -> bool {
        matches!(self, Rows | Columns)
    }
}

struct Matrix<T> {
    data: Vec<T>,
    rs: usize,
    cs: usize,
}

impl<T: Real> Matrix<T> {
    fn new(rows: usize, cols: usize, strides: Strides, seed: u64) -> Self {
        let (rs, cs) = match strides {
            Rows => (cols, 1),
            Columns => (1, rows),
            PaddedRows => (cols + 5, 1),
            PaddedColumns => (1, rows + 3),
            Neither => (2 * cols + 1, 2),
            SameRow => (0, 1),
            SameColumn => (1, 0),
        };
        // Exactly as long as required, so that reading past the end is detected.
        let len = if rows * cols == 0 { 0 } else { (rows - 1) * rs + (cols - 1) * cs + 1 };
        Matrix { data: random(len, seed), rs, cs }
    }

    fn view(&self) -> MatRef<'_, T> {
        MatRef { data: &self.data, rs: self.rs as isize, cs: self.cs as isize }
    }

    fn get(&self, i: usize, j: usize) -> f64 {
        self.data[i * self.rs + j * self.cs].to_f64()
    }
}

fn naive<T: Real>(
    (m, n, k): (usize, usize, usize),
    a: &Matrix<T>,
    b: &Matrix<T>,
    c: &[T],
    ep: &Epilogue<T>,
) -> Vec<f64> {
    let mut out = Vec::with_capacity(m * n);
    for i in 0..m {
        for j in 0..n {
            let product: f64 = (0..k).map(|p| a.get(i, p) * b.get(p, j)).sum();
            let mut v = ep.alpha.to_f64() * product;
            if ep.beta != T::ZERO {
                v += ep.beta.to_f64() * c[i * n + j].to_f64();
            }
            v += match ep.bias {
                Bias::None => 0.0,
                Bias::Row(b) => b[j].to_f64(),
                Bias::Col(b) => b[i].to_f64(),
            };
            out.push(if ep.act == Activation::Relu && v < 0.0 { 0.0 } else { v });
        }
    }
    out
}

#[track_caller]
fn assert_close<T: Real>(actual: &[T], expected: &[f64], k: usize, what: impl Fn() -> String) {
    let eps = if size_of::<T>() == 4 { f32::EPSILON as f64 } else { f64::EPSILON };
    for (at, (x, y)) in actual.iter().zip(expected).enumerate() {
        let tolerance = eps * (8.0 + k as f64) * y.abs().max(1.0);
        assert!((x.to_f64() - y).abs() <= tolerance, "{} at {at}: {x:?}, not {y}", what());
    }
}

/// Compares one product with the naive one on each instruction set.
fn check<T: GemmElem>(
    dims: (usize, usize, usize),
    sa: Strides,
    sb: Strides,
    ep: impl for<'a> Fn(&'a [T], &'a [T]) -> Epilogue<'a, T>,
) {
    let (m, n, k) = dims;
    let (a, b) = (Matrix::<T>::new(m, k, sa, 1), Matrix::new(k, n, sb, 2));
    let (c, row, col) = (random::<T>(m * n, 3), random::<T>(n, 4), random::<T>(m, 5));
    let ep = ep(&row, &col);
    let expected = naive(dims, &a, &b, &c, &ep);
    for isa in ISAS {
        let mut out = c.clone();
        product(T::kernels(isa), m, n, k, a.view().view(), b.view().view(), &mut out, ep.store());
        assert_close(&out, &expected, k, || format!("{isa:?} {dims:?} {sa:?} {sb:?} {ep:?}"));
    }
}

fn plain<'a, T: Real>(_: &'a [T], _: &'a [T]) -> Epilogue<'a, T> {
    Epilogue::default()
}

#[test]
fn products_of_every_tile_shape_agree_with_the_naive_product() {
    for m in 1..=17 {
        for n in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40] {
            for k in [1, 2, 9] {
                check::<f32>((m, n, k), Rows, Rows, plain);
                check::<f64>((m, n, k), Rows, Columns, plain);
            }
        }
    }
}

#[test]
fn operands_may_have_any_strides() {
    for sa in STRIDES {
        for sb in STRIDES {
            for dims in [(3, 5, 70), (70, 6, 64), (9, 65, 33), (40, 150, 20), (300, 100, 10), (90, 1, 100)] {
                check::<f32>(dims, sa, sb, plain);
                check::<f64>(dims, sa, sb, plain);
            }
        }
    }
}

#[test]
fn epilogues_scale_add_and_clamp_in_every_path() {
    // Few rows, few columns, one column, a single tile, several depths, several depth blocks.
    let shapes = [(5, 37, 90), (37, 5, 90), (90, 1, 65), (10, 20, 30), (150, 140, 300), (20, 40, 1500)];
    for dims in shapes {
        for (sa, sb) in [(Rows, Rows), (Rows, Columns), (Columns, Rows)] {
            for (alpha, beta) in [(1.0, 0.0), (1.0, 1.0), (-0.5, 0.0), (2.0, 0.25), (0.0, -1.0)] {
                for relu in [Activation::None, Activation::Relu] {
                    let (alpha, beta, act) = (alpha as f32, beta as f32, relu);
                    check(dims, sa, sb, |_, _| Epilogue { alpha, beta, bias: Bias::None, act });
                    check(dims, sa, sb, |row, _| Epilogue { alpha, beta, bias: Bias::Row(row), act });
                    check(dims, sa, sb, |_, col| Epilogue { alpha, beta, bias: Bias::Col(col), act });
                }
            }
        }
    }
}

#[test]
fn large_products_agree_with_the_gemm_crate() {
    for (m, n, k) in [(300, 2100, 40), (2100, 70, 60), (129, 257, 1100), (64, 512, 784), (512, 784, 64)] {
        for (sa, sb) in [(Rows, Rows), (Rows, Columns), (Columns, Rows), (PaddedColumns, PaddedRows)] {
            let (a, b) = (Matrix::<f32>::new(m, k, sa, 6), Matrix::<f32>::new(k, n, sb, 7));
            let expected = with_gemm_crate((m, n, k), &a, &b);
            for isa in ISAS {
                let mut out = vec![f32::NAN; m * n];
                let ep = Epilogue::default().store();
                product(f32::kernels(isa), m, n, k, a.view().view(), b.view().view(), &mut out, ep);
                assert_close(&out, &expected, k, || format!("{isa:?} {m}x{n}x{k} {sa:?} {sb:?}"));
            }
        }
    }
}

#[allow(unsafe_code)]
fn with_gemm_crate((m, n, k): (usize, usize, usize), a: &Matrix<f32>, b: &Matrix<f32>) -> Vec<f64> {
    let mut out = vec![0f32; m * n];
    // SAFETY: the operands contain all elements that their strides address, and `out` is m x n.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            false,
            a.data.as_ptr(),
            a.cs as isize,
            a.rs as isize,
            b.data.as_ptr(),
            b.cs as isize,
            b.rs as isize,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
    out.into_iter().map(f64::from).collect()
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    for (m, n, k) in [(300, 200, 300), (64, 512, 784), (7, 3000, 300), (3000, 2, 300), (40, 2100, 1100)] {
        for (sa, sb) in [(Rows, Rows), (Rows, Columns), (Columns, Rows)] {
            let (a, b) = (Matrix::<f32>::new(m, k, sa, 8), Matrix::<f32>::new(k, n, sb, 9));
            let run = |threads| {
                with_threads(threads, || {
                    let mut out = vec![0f32; m * n];
                    let ep = Epilogue::default().store();
                    let kernels = f32::kernels(best_isa());
                    product(kernels, m, n, k, a.view().view(), b.view().view(), &mut out, ep);
                    out
                })
            };
            assert!(run(1) == run(3), "{m}x{n}x{k} {sa:?} {sb:?}");
        }
    }
}

#[test]
fn the_old_result_is_not_read_without_beta() {
    for dims @ (m, n, k) in [(5, 6, 7), (100, 100, 100), (4, 100, 100), (5, 6, 0)] {
        let (a, b) = (Matrix::<f32>::new(m, k, Rows, 1), Matrix::<f32>::new(k, n, Columns, 2));
        let mut c = vec![f32::NAN; m * n];
        let ep = Epilogue { alpha: 2.0, ..Epilogue::default() };
        gemm(m, n, k, a.view(), b.view(), &mut c, ep);
        assert_close(&c, &naive(dims, &a, &b, &c, &ep), k, || format!("{dims:?}"));
    }
}

#[test]
fn a_product_without_depth_leaves_the_epilogue() {
    let (mut c, row) = (vec![1.0, -2.0, 3.0, -4.0], [0.5, 0.25]);
    let ep = Epilogue { alpha: 1.0, beta: 2.0, bias: Bias::Row(&row), act: Activation::Relu };
    let empty = MatRef { data: &[], rs: 1, cs: 1 };
    gemm(2, 2, 0, empty, empty, &mut c, ep);
    assert_eq!(c, [2.5, 0.0, 6.5, 0.0]);
    batched_gemm(2, 1, 2, 0, empty, 0, empty, 5, &mut c, Epilogue::default());
    assert_eq!(c, [0.0; 4]);
}

#[test]
fn empty_results_are_fine() {
    let (a, b) = (MatRef::row_major(&[1.0f32; 6], 2), MatRef { data: &[][..], rs: 0, cs: 1 });
    gemm(3, 0, 2, a, b, &mut [], Epilogue::default());
    gemm(0, 3, 2, b, a, &mut [], Epilogue::default());
    batched_gemm(0, 3, 3, 2, a, 6, a, 6, &mut [], Epilogue::default());
    gemm_int::<i64>(0, 3, 2, MatRef::row_major(&[], 2), MatRef::row_major(&[0; 6], 3), &mut []);
}

#[test]
fn nan_and_infinity_spread_as_in_the_naive_product() {
    for (m, n, k) in [(6, 40, 80), (40, 6, 80), (50, 50, 50), (200, 200, 300)] {
        for (sa, sb) in [(Rows, Rows), (Rows, Columns)] {
            let (mut a, mut b) = (Matrix::<f32>::new(m, k, sa, 1), Matrix::<f32>::new(k, n, sb, 2));
            let last = k - 1;
            a.data[2 * a.rs] = f32::NAN;
            a.data[3 * a.rs + last * a.cs] = f32::INFINITY;
            b.data[last * b.rs + 4 * b.cs] = 0.0;
            let ep = Epilogue { act: Activation::Relu, ..Epilogue::default() };
            for isa in ISAS {
                let mut c = vec![0f32; m * n];
                let (a, b) = (a.view().view(), b.view().view());
                product(f32::kernels(isa), m, n, k, a, b, &mut c, ep.store());
                for (at, &v) in c.iter().enumerate() {
                    let last_b = b.data[last * b.rs + at % n * b.cs];
                    let expected = match at / n {
                        2 => v.is_nan(),
                        3 if last_b == 0.0 => v.is_nan(),
                        3 => v == if last_b > 0.0 { f32::INFINITY } else { 0.0 },
                        _ => v.is_finite() && v >= 0.0,
                    };
                    assert!(expected, "{isa:?} {m}x{n}x{k}: {v} at {at}");
                }
            }
        }
    }
}

#[test]
fn batches_agree_with_single_products() {
    let (m, n, k) = (20, 30, 25);
    for batch in [1, 2, 7, 50] {
        for (a_shared, b_shared) in [(false, false), (true, false), (false, true), (true, true)] {
            let count = |shared| if shared { 1 } else { batch };
            let a: Vec<f32> = random(count(a_shared) * m * k, 1);
            let b: Vec<f32> = random(count(b_shared) * k * n, 2);
            let (row, col) = (random(n, 3), random(m, 4));
            let stride = |shared, len| if shared { 0 } else { len };
            let (sa, sb) = (stride(a_shared, m * k), stride(b_shared, k * n));
            for bias in [Bias::Row(&row), Bias::Col(&col)] {
                let ep = Epilogue { beta: 0.5, bias, ..Epilogue::default() };
                let mut c: Vec<f32> = random(batch * m * n, 5);
                let mut expected = c.clone();
                for (i, c) in expected.chunks_mut(m * n).enumerate() {
                    let b = MatRef { data: &b[i * sb..], rs: 1, cs: k as isize };
                    gemm(m, n, k, MatRef::row_major(&a[i * sa..], k), b, c, ep);
                }
                let b = MatRef { data: &b[..], rs: 1, cs: k as isize };
                batched_gemm(batch, m, n, k, MatRef::row_major(&a, k), sa, b, sb, &mut c, ep);
                let expected: Vec<_> = expected.into_iter().map(f64::from).collect();
                assert_close(&c, &expected, k, || format!("{batch} {a_shared} {b_shared} {bias:?}"));
            }
        }
    }
}

#[test]
fn few_large_products_of_a_batch_agree_with_the_naive_product() {
    let (m, n, k) = (128, 260, 300);
    let (a, b) = (random::<f64>(3 * m * k, 1), random::<f64>(3 * k * n, 2));
    let mut c = vec![0.0; 3 * m * n];
    let (lhs, rhs) = (MatRef::row_major(&a, k), MatRef::row_major(&b, n));
    batched_gemm(3, m, n, k, lhs, m * k, rhs, k * n, &mut c, Epilogue::default());
    for (i, c) in c.chunks(m * n).enumerate() {
        let a = Matrix { data: a[i * m * k..].to_vec(), rs: k, cs: 1 };
        let b = Matrix { data: b[i * k * n..].to_vec(), rs: n, cs: 1 };
        assert_close(c, &naive((m, n, k), &a, &b, c, &Epilogue::default()), k, || format!("product {i}"));
    }
}

#[test]
fn integer_products_wrap() {
    let (a, b) = ([100i8, 100, -128, 3], [100i8, 1, 1, 2]);
    let mut c = [0; 4];
    gemm_int(2, 2, 2, MatRef::row_major(&a, 2), MatRef::row_major(&b, 2), &mut c);
    assert_eq!(c, [10100i32 as i8, 300i32 as i8, -12797i32 as i8, -122]);
    let big = [i64::MAX, 2];
    let mut c = [0];
    gemm_int(1, 1, 2, MatRef::row_major(&big, 2), MatRef { data: &big, rs: 0, cs: 1 }, &mut c);
    assert_eq!(c, [i64::MAX.wrapping_mul(i64::MAX).wrapping_add(2i64.wrapping_mul(i64::MAX))]);
}

#[test]
fn integer_products_take_any_strides() {
    for sa in STRIDES {
        for sb in STRIDES {
            let (m, n, k) = (40, 50, 60);
            let ints =
                |m: Matrix<f64>| (m.data.iter().map(|v| (v * 9.0) as i32).collect::<Vec<_>>(), m.rs, m.cs);
            let (a, ra, ca) = ints(Matrix::new(m, k, sa, 1));
            let (b, rb, cb) = ints(Matrix::new(k, n, sb, 2));
            let mut c = vec![-1; m * n];
            let lhs = MatRef { data: &a[..], rs: ra as isize, cs: ca as isize };
            let rhs = MatRef { data: &b[..], rs: rb as isize, cs: cb as isize };
            gemm_int(m, n, k, lhs, rhs, &mut c);
            for (at, &v) in c.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let sum: i32 = (0..k).map(|p| a[i * ra + p * ca] * b[p * rb + j * cb]).sum();
                assert_eq!(v, sum, "{sa:?} {sb:?} at {i}, {j}");
            }
        }
    }
}

#[test]
fn packing_writes_the_packed_elements_alone() {
    for isa in ISAS {
        let kernels = f32::kernels(isa);
        for (width, k, stride) in [(1, 5, 1), (5, 20, 5), (6, 20, 6), (6, 9, 16), (16, 9, 16), (19, 9, 40)] {
            for storage in [Rows, Columns] {
                let src = Matrix::<f32>::new(width, k, storage, 3);
                let mut dst = vec![f32::NAN; k * stride + 40];
                let packed = &mut dst[..(k - 1) * stride + width];
                kernels.pack(width, k, src.view().view(), packed, stride);
                for (at, &v) in dst.iter().enumerate() {
                    let (p, i) = (at / stride, at % stride);
                    if p < k && i < width {
                        assert_eq!(v, src.data[i * src.rs + p * src.cs], "{isa:?} {width}x{k} {storage:?}");
                    } else {
                        assert!(v.is_nan(), "{isa:?} {width}x{k} by {stride}, {storage:?}: {v} at {at}");
                    }
                }
            }
        }
    }
}

#[test]
fn products_of_a_shared_left_operand_agree_with_single_products() {
    for (count, m, n, k) in
        [(1, 5, 40, 9), (3, 70, 49, 130), (2, 200, 300, 20), (2, 13, 20, 2100), (4, 3, 5, 0)]
    {
        for strides in [Rows, Columns] {
            let a = Matrix::<f32>::new(m, k, strides, 1);
            let b: Vec<f32> = random(count * k * n, 2);
            let col = random(m, 3);
            let ep = Epilogue { bias: Bias::Col(&col), act: Activation::Relu, ..Epilogue::default() };
            let pack = |part: shared::Part, to: &mut [f32], stride: usize| {
                for (p, to) in part.depth.zip(to.chunks_mut(stride)) {
                    let row = &b[(part.product * k + p) * n..][..n];
                    to[..part.columns.len()].copy_from_slice(&row[part.columns.clone()]);
                }
            };
            let mut c = vec![f32::NAN; count * m * n];
            shared::products([m, n, k], a.view(), &pack, &mut c, ep);
            for (i, c) in c.chunks_exact(m * n).enumerate() {
                let mut expected = vec![0.0; m * n];
                gemm(m, n, k, a.view(), MatRef::row_major(&b[i * k * n..], n), &mut expected, ep);
                assert_eq!(c, expected, "{i} of {count}: {m}x{n}x{k} {strides:?}");
            }
        }
    }
}

/// Compares products of a half type with the naive product of its elements.
fn check_halves<H: Half>(round: fn(f32) -> H, widen: fn(H) -> f32, digits: f64) {
    let bits = |x: &[f32]| x.iter().map(|&v| round(v)).collect::<Vec<H>>();
    let rounded = |rows, cols, strides, seed| {
        let mut x = Matrix::<f32>::new(rows, cols, strides, seed);
        x.data.iter_mut().for_each(|v| *v = widen(round(*v)));
        x
    };
    let sizes = [
        (1, 1, 1),
        (3, 40, 2),
        (15, 33, 7),
        (28, 64, 33),
        (2, 70, 300),
        (40, 5, 258),
        (300, 4, 5),
        (1, 50, 9),
    ];
    let large = [(30, N_BLOCK + 50, 2), (20, 40, 2 * K_BLOCK + 3), (1100, 3, 6)];
    for (m, n, k) in sizes.into_iter().chain(large) {
        let all = STRIDES.into_iter().flat_map(|sa| STRIDES.map(|sb| (sa, sb)));
        for (sa, sb) in all.filter(|(sa, sb)| m * n * k < 20_000 || sa.is_common() && sb.is_common()) {
            let (a, b) = (rounded(m, k, sa, 1), rounded(k, n, sb, 2));
            let bias = bits(&random::<f32>(n, 3));
            let row: Vec<f32> = bias.iter().map(|&v| widen(v)).collect();
            for with_bias in [false, true] {
                let bias_row = if with_bias { Bias::Row(&row[..]) } else { Bias::None };
                let expected =
                    naive((m, n, k), &a, &b, &[], &Epilogue { bias: bias_row, ..Default::default() });
                let (x, y) = (bits(&a.data), bits(&b.data));
                let x = MatRef { data: &x, rs: a.rs as isize, cs: a.cs as isize };
                let y = MatRef { data: &y, rs: b.rs as isize, cs: b.cs as isize };
                for isa in ISAS {
                    let mut c = vec![round(f32::NAN); m * n];
                    let (bias, sizes) = (with_bias.then_some(&bias[..]), pairs::Sizes { m, n, k });
                    pairs::batched_gemm(isa, 1, sizes, (x, 0), (y, 0), bias, &mut c);
                    for (i, (&c, v)) in c.iter().zip(&expected).enumerate() {
                        let error = (f64::from(widen(c)) - v).abs();
                        let most = v.abs() / digits + 1e-6 * k as f64;
                        assert!(
                            error <= most,
                            "{m}x{n}x{k} {sa:?} {sb:?} {isa:?} at {i}: {}, not {v}",
                            widen(c)
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn products_of_half_types_are_rounded_once() {
    check_halves(half::bf16::from_f32, half::bf16::to_f32, 256.0);
    check_halves(half::f16::from_f32, half::f16::to_f32, 2048.0);
}

#[test]
fn batches_of_products_of_half_types_are_those_of_their_parts() {
    use half::bf16;
    let (batch, m, n, k) = (5, 17, 40, 66);
    let part =
        |len: usize, seed| random::<f32>(len, seed).iter().map(|&v| bf16::from_f32(v)).collect::<Vec<_>>();
    let (a, b) = (part(batch * m * k, 1), part(batch * k * n, 2));
    for isa in ISAS {
        for step in [0, k * n] {
            let product = |batch: usize, first: usize, c: &mut [bf16]| {
                let (a, b) = (&a[first * m * k..], &b[first * step..]);
                let (a, b) = ((MatRef::row_major(a, k), m * k), (MatRef::row_major(b, n), step));
                pairs::batched_gemm(isa, batch, pairs::Sizes { m, n, k }, a, b, None, c);
            };
            let mut all = vec![bf16::ZERO; batch * m * n];
            product(batch, 0, &mut all);
            for (i, all) in all.chunks(m * n).enumerate() {
                let mut one = vec![bf16::ZERO; m * n];
                product(1, i, &mut one);
                assert!(*all == one, "{isa:?}, part {i}");
            }
        }
    }
}

fn has_the_bits_by_rows<T: GemmElem>(batch: Batch, sa: Strides, sb: Strides, shared: bool) -> bool {
    let Batch { count, m, n, k } = batch;
    let (a, b) = (Matrix::<T>::new(m * count, k, sa, 1), Matrix::<T>::new(k, n * count, sb, 2));
    let steps = [m * a.rs, if shared { 0 } else { n * b.cs }];
    let bias = random::<T>(n, 3);
    let Some(products) = ProductsByRows::of(batch, a.view(), b.view(), steps) else { return false };
    let found = Mutex::new(vec![T::of(f64::NAN); count * m * n]);
    products.run(Some(&bias), &|first, piece| {
        assert!(first % n == 0 && piece.len() % n == 0, "a piece has whole rows");
        found.lock().unwrap()[first..first + piece.len()].copy_from_slice(piece);
    });
    let mut c = vec![T::ZERO; count * m * n];
    let ep = Epilogue { bias: Bias::Row(&bias), ..Epilogue::default() };
    batched_gemm(count, m, n, k, a.view(), steps[0], b.view(), steps[1], &mut c, ep);
    let bits = |v: &T| v.to_f64().to_bits();
    assert!(found.into_inner().unwrap().iter().map(bits).eq(c.iter().map(bits)), "{count} {m} {n} {k}");
    true
}

#[test]
fn rows_that_are_used_as_they_are_computed_have_the_bits_of_the_whole_product() {
    let batch = |count, m, n, k| Batch { count, m, n, k };
    for threads in [1, 3] {
        with_threads(threads, || {
            for strides in [Rows, Columns, PaddedRows] {
                for (batch, shared) in [
                    (batch(1, 300, 200, 70), false),
                    (batch(1, 517, 33, 1100), false),
                    (batch(1, 260, 1500, 5), false),
                    (batch(3, 256, 64, 40), false),
                    (batch(1, 2050, 64, 33), false),
                    (batch(4, 100, 48, 40), true),
                    (batch(33, 50, 20, 17), false),
                ] {
                    assert!(has_the_bits_by_rows::<f32>(batch, Rows, strides, shared), "{batch:?}");
                    assert!(has_the_bits_by_rows::<f64>(batch, Rows, strides, shared), "{batch:?}");
                }
            }
            assert!(has_the_bits_by_rows::<f32>(batch(1, 400, 90, 1300), Columns, Rows, false));
        });
    }
    let others = [(1, 40, 300, 50), (1, 300, 3000, 50), (1, 300, 1, 500), (1, 300, 4, 500), (2, 0, 4, 4)];
    for (count, m, n, k) in others {
        assert!(!has_the_bits_by_rows::<f32>(batch(count, m, n, k), Rows, Columns, false), "{m} {n} {k}");
    }
}
