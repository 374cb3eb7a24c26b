//! Compares the kernels with sums over all pairs in float64, on each instruction set.

use super::*;
use crate::backend::cpu::parallel::with_threads;
use crate::backend::cpu::simd::{Isa, best_isa, force_isa};
use crate::layout::{Dims, Layout, Strides};
use crate::storage::Storage;

/// A tensor of reproducible numbers between -1 and 1.
struct Data<T> {
    storage: Storage,
    layout: Layout,
    values: Vec<T>,
}

impl<T: Number> Data<T> {
    fn new(shape: [usize; 4], seed: u64) -> Self {
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            T::of((x >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
        };
        let values: Vec<T> = (0..shape.iter().product()).map(|_| next()).collect();
        Data::of(shape, values)
    }

    fn of(shape: [usize; 4], values: Vec<T>) -> Self {
        Data {
            storage: Storage::from_slice(&values).unwrap(),
            layout: Layout::contiguous(Dims::from(shape)),
            values,
        }
    }

    fn view(&self) -> View<'_> {
        View { storage: &self.storage, layout: &self.layout, dtype: T::DTYPE }
    }

    fn written(&self) -> Vec<T> {
        self.storage.slice::<T>().to_vec()
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    heads: usize,
    group: usize,
    queries: usize,
    keys: usize,
    sizes: [usize; 2],
    causal: bool,
    mask: bool,
}

/// The results and gradients of a case by definition: out, logarithms, and gradients of query, key and value.
fn naive<T: Number>(c: Case, [q, k, v, g]: [&[T]; 4], mask: Option<&[T]>, scale: f64) -> [Vec<f64>; 5] {
    let ([e, w], l, s) = (c.sizes, c.queries, c.keys);
    let f = |x: &[T]| x.iter().map(|x| x.to_f64()).collect::<Vec<_>>();
    let (q, k, v, g) = (f(q), f(k), f(v), f(g));
    let mut out = [
        vec![0.0; c.heads * l * w],
        vec![0.0; c.heads * l],
        vec![0.0; q.len()],
        vec![0.0; k.len()],
        vec![0.0; v.len()],
    ];
    for h in 0..c.heads {
        for i in 0..l {
            let (qi, gi) = (&q[(h * l + i) * e..][..e], &g[(h * l + i) * w..][..w]);
            let kv = h / c.group * s;
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let score = |j: usize| {
                let term = mask.map_or(0.0, |m| m[i * s + j].to_f64());
                if c.causal && j > i {
                    f64::NEG_INFINITY
                } else {
                    dot(qi, &k[(kv + j) * e..][..e]) * scale + term
                }
            };
            let sum: f64 = (0..s).map(|j| score(j).exp()).sum();
            out[1][h * l + i] = sum.ln();
            if sum == 0.0 {
                continue;
            }
            let p: Vec<f64> = (0..s).map(|j| score(j).exp() / sum).collect();
            let slope: Vec<f64> = (0..s).map(|j| dot(gi, &v[(kv + j) * w..][..w])).collect();
            let mean = dot(&p, &slope);
            for j in 0..s {
                let d = p[j] * (slope[j] - mean) * scale;
                for x in 0..w {
                    out[0][(h * l + i) * w + x] += p[j] * v[(kv + j) * w + x];
                    out[4][(kv + j) * w + x] += p[j] * gi[x];
                }
                for x in 0..e {
                    out[2][(h * l + i) * e + x] += d * k[(kv + j) * e + x];
                    out[3][(kv + j) * e + x] += d * qi[x];
                }
            }
        }
    }
    out
}

/// What the kernels compute, with gradients by passes for this many threads.
fn computed<T: Number>(a: &Attention, c: Case, grad: &Data<T>, threads: usize) -> [Vec<T>; 5] {
    let zeros = |shape: [usize; 4]| Data::of(shape, vec![T::NAN; shape.iter().product()]);
    let (shared, [e, w]) = (c.heads / c.group, c.sizes);
    let out = zeros([1, c.heads, c.queries, w]);
    let lse = zeros([1, c.heads, c.queries, 1]);
    assert!(forward::<T>(a, out.view(), lse.view()).unwrap());
    let grads =
        [zeros([1, c.heads, c.queries, e]), zeros([1, shared, c.keys, e]), zeros([1, shared, c.keys, w])];
    with_threads(threads, || {
        let views = [grads[0].view(), grads[1].view(), grads[2].view()];
        assert!(backward::<T>(a, out.view(), lse.view(), grad.view(), views).unwrap());
    });
    let [q, k, v] = grads.map(|g| g.written());
    [out.written(), lse.written(), q, k, v]
}

fn compare<T: Number>(c: Case, tolerance: f64) {
    let ([e, w], shared) = (c.sizes, c.heads / c.group);
    let q = Data::<T>::new([1, c.heads, c.queries, e], 1);
    let (k, v) = (Data::<T>::new([1, shared, c.keys, e], 2), Data::<T>::new([1, shared, c.keys, w], 3));
    let g = Data::<T>::new([1, c.heads, c.queries, w], 4);
    let mut mask = Data::<T>::new([1, 1, c.queries, c.keys], 5);
    // The first query attends to nothing, and others not to all.
    let hidden = |(i, m): (usize, &T)| if i < c.keys || m.to_f64() < -0.5 { -T::INFINITY } else { *m };
    let terms = mask.values.iter().enumerate().map(hidden).collect();
    mask = Data::of([1, 1, c.queries, c.keys], terms);
    let (m, n) = (c.queries, c.keys);
    let layout = Layout {
        shape: Dims::from([1, c.heads, m, n]),
        strides: Strides::from([0, 0, n as isize, 1]),
        offset: 0,
    };
    let scale = 1.7 / (e as f64).sqrt();
    let a = Attention {
        query: q.view(),
        key: k.view(),
        value: v.view(),
        mask: c.mask.then_some(View { storage: &mask.storage, layout: &layout, dtype: T::DTYPE }),
        causal: c.causal,
        scale,
    };
    let expected =
        naive(c, [&q.values, &k.values, &v.values, &g.values], c.mask.then_some(&mask.values), scale);
    let one = computed(&a, c, &g, 1);
    for (name, (x, y)) in ["out", "lse", "query", "key", "value"].iter().zip(one.iter().zip(&expected)) {
        for (i, (x, y)) in x.iter().zip(y).enumerate() {
            let x = x.to_f64();
            assert!(
                x == *y || (x - y).abs() < tolerance * (1.0 + y.abs()),
                "{c:?}: {name}[{i}] is {x}, not {y}"
            );
        }
    }
    let many = computed(&a, c, &g, 7);
    for (x, y) in one.iter().zip(&many) {
        assert!(
            x.iter().zip(y).all(|(x, y)| x.to_f64().to_bits() == y.to_f64().to_bits()),
            "{c:?}: threads matter"
        );
    }
}

#[test]
fn results_and_gradients_are_those_of_the_definition_on_each_instruction_set() {
    let plain =
        Case { heads: 2, group: 1, queries: 40, keys: 50, sizes: [20, 12], causal: false, mask: false };
    let cases = [
        plain,
        Case { queries: 1, keys: 1, sizes: [1, 1], ..plain },
        // Few queries, whose scores are dot products.
        Case { queries: 1, keys: 290, sizes: [64, 64], heads: 4, group: 2, ..plain },
        Case { queries: 4, keys: 33, ..plain },
        Case { queries: 3, keys: 70, sizes: [5, 3], ..plain },
        Case { queries: 150, keys: 300, sizes: [16, 40], ..plain },
        Case { queries: 150, keys: 300, causal: true, ..plain },
        Case { queries: 300, keys: 290, causal: true, heads: 1, ..plain },
        Case { queries: 33, keys: 5, sizes: [3, 70], causal: true, ..plain },
        Case { heads: 4, group: 2, queries: 70, ..plain },
        Case { mask: true, queries: 35, keys: 280, ..plain },
    ];
    for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512] {
        if force_isa(isa) != isa {
            continue;
        }
        for c in cases {
            compare::<f32>(c, 2e-5);
            compare::<f64>(c, 1e-13);
        }
    }
    force_isa(best_isa());
}

#[test]
fn powers_of_two_are_accurate_and_vanish_below_the_normal_numbers() {
    for i in -12600..800 {
        let x = i as f32 / 100.0;
        let exact = f64::from(x).exp2();
        assert!((f64::from(x.power_of_two()) / exact - 1.0).abs() < 3e-7, "{x}");
    }
    assert_eq!(
        (0f32.power_of_two(), f32::NEG_INFINITY.power_of_two(), (-3e38f32).power_of_two()),
        (1.0, 0.0, 0.0)
    );
    assert!(f32::NAN.power_of_two().is_nan());
}

#[test]
fn rows_that_are_too_wide_or_not_contiguous_are_left_to_others() {
    let (wide, narrow) = (Data::<f32>::new([1, 1, 2, WIDEST + 1], 1), Data::<f32>::new([1, 1, 2, 4], 1));
    let a = |d: &Data<f32>| {
        Problem::<f32>::new(&Attention {
            query: d.view(),
            key: d.view(),
            value: d.view(),
            mask: None,
            causal: false,
            scale: 1.0,
        })
        .is_some()
    };
    let turned = Data {
        layout: Layout { strides: Strides::from([8, 8, 1, 2]), ..narrow.layout.clone() },
        ..Data::new([1, 1, 2, 4], 1)
    };
    assert!(a(&narrow) && !a(&wide) && !a(&turned));
}
