use super::*;
use crate::dtype::DType;

fn tensor(values: &[f64], dtype: DType) -> Tensor {
    Tensor::from_slice(values, [values.len()]).unwrap().dense(dtype).unwrap()
}

fn step() -> Tensor {
    Tensor::scalar(0.0, DType::F32).unwrap()
}

const SGD: Sgd =
    Sgd { lr: 0.5, momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false, maximize: false };
const ADAM: Adam = Adam {
    lr: 0.1,
    beta1: 0.9,
    beta2: 0.99,
    eps: 1e-8,
    weight_decay: 0.0,
    amsgrad: false,
    maximize: false,
    decoupled: false,
};

#[test]
fn sgd_goes_down_the_gradient_and_up_when_it_maximizes() {
    for (maximize, want) in [(false, [0.0, 2.5]), (true, [2.0, 1.5])] {
        let (p, g) = ([tensor(&[1.0, 2.0], DType::F32)], [tensor(&[2.0, -1.0], DType::F32)]);
        sgd(&p, &g, &[], Sgd { maximize, ..SGD }).unwrap();
        assert_eq!(p[0].to_vec::<f64>(), want);
        assert_eq!(p[0].version(), 1);
    }
}

#[test]
fn sgd_makes_the_momentum_that_is_missing_and_keeps_the_one_that_is_there() {
    let p = [tensor(&[1.0], DType::F64), tensor(&[1.0], DType::F64)];
    let g = [tensor(&[2.0], DType::F64), tensor(&[2.0], DType::F64)];
    let held = tensor(&[10.0], DType::F64);
    let s = Sgd { momentum: 0.5, dampening: 0.25, ..SGD };
    let buffers = sgd(&p, &g, &[None, Some(held.clone())], s).unwrap().unwrap();
    assert_eq!(buffers[0].to_vec::<f64>(), [2.0]);
    assert!(buffers[1].same(&held));
    assert_eq!(held.to_vec::<f64>(), [6.5]);
    assert_eq!((p[0].to_vec::<f64>(), p[1].to_vec::<f64>()), (vec![0.0], vec![-2.25]));
    let all: Vec<_> = buffers.into_iter().map(Some).collect();
    assert!(sgd(&p, &g, &all, s).unwrap().is_none());
}

/// Adam's formula, element by element.
fn adam_by_hand(g: f64, p: &mut f64, m: &mut f64, v: &mut f64, t: i32, s: Adam) {
    let g = if s.decoupled { g } else { g + s.weight_decay * *p };
    if s.decoupled {
        *p *= 1.0 - s.lr * s.weight_decay;
    }
    *m += (1.0 - s.beta1) * (g - *m);
    *v = *v * s.beta2 + (1.0 - s.beta2) * g * g;
    let root = v.sqrt() / (1.0 - s.beta2.powi(t)).sqrt();
    *p -= s.lr / (1.0 - s.beta1.powi(t)) * *m / (root + s.eps);
}

#[test]
fn adam_follows_its_formula_for_every_dtype_and_geometry() {
    let n = 3000;
    let values = |k: usize| -> Vec<f64> { (0..n).map(|i| ((i * k) % 17) as f64 / 8.0 - 1.0).collect() };
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        for decoupled in [false, true] {
            let s = Adam { weight_decay: 0.1, decoupled, ..ADAM };
            let row = |v: Vec<f64>| tensor(&v, dtype);
            let table = Tensor::zeros([n, 2], dtype).unwrap();
            let column = table.with_layout(table.layout().select(1, 1));
            copy::copy(row(values(5)).raw(), column.raw()).unwrap();
            let p = [row(values(5)), column];
            let g = [row(values(7)), row(values(7))];
            let zeros = || [row(vec![0.0; n]), row(vec![0.0; n])];
            let (m, v, steps) = (zeros(), zeros(), [step(), step()]);
            let mut expected = values(5);
            let (mut em, mut ev) = (vec![0.0; n], vec![0.0; n]);
            for t in 1..=3 {
                adam(&p, &g, &m, &v, &[], &steps, s).unwrap();
                for (i, g) in values(7).into_iter().enumerate() {
                    adam_by_hand(g, &mut expected[i], &mut em[i], &mut ev[i], t, s);
                }
            }
            let tolerance = match dtype {
                DType::F64 => 1e-12,
                DType::F32 => 1e-5,
                _ => 0.03,
            };
            for p in &p {
                let worst =
                    p.to_vec::<f64>().iter().zip(&expected).fold(0.0, |w: f64, (a, b)| w.max((a - b).abs()));
                assert!(worst < tolerance, "{dtype} {decoupled}: {worst}");
            }
            assert_eq!(steps[1].item().unwrap().to_f64(), 3.0);
        }
    }
}

#[test]
fn a_gradient_in_the_memory_of_its_parameter_is_read_before_it_is_written() {
    let p = [tensor(&[1.0, 2.0], DType::F32)];
    sgd(&p, &p, &[], SGD).unwrap();
    assert_eq!(p[0].to_vec::<f64>(), [0.5, 1.0]);
}

/// Halves the gradients; returns whether any element was not finite.
fn any_infinite(grads: &[Tensor]) -> bool {
    unscale(grads, &tensor(&[0.5], DType::F32)).unwrap().item().unwrap().to_f64() == 1.0
}

#[test]
fn unscaling_divides_and_finds_what_is_not_finite() {
    let g = [tensor(&[8.0, -4.0], DType::F32), tensor(&[2.0], DType::F16)];
    assert!(!any_infinite(&g));
    assert_eq!((g[0].to_vec::<f64>(), g[1].to_vec::<f64>()), (vec![4.0, -2.0], vec![1.0]));
    for bad in [f64::INFINITY, f64::NAN] {
        assert!(any_infinite(&[tensor(&[1.0], DType::F32), tensor(&[1.0, bad], DType::F16)]));
    }
}

#[test]
fn the_total_norm_is_that_of_all_elements_together() {
    let t = [tensor(&[3.0, 0.0], DType::F32), tensor(&[-4.0], DType::F64), tensor(&[], DType::F32)];
    for (p, want) in [(1.0, 7.0), (2.0, 5.0), (3.0, 91f64.cbrt()), (f64::INFINITY, 4.0)] {
        let norm = total_norm(&t, p).unwrap();
        assert_eq!(norm.dtype(), DType::F64);
        assert!((norm.item().unwrap().to_f64() - want).abs() < 1e-12);
    }
    let nan = [tensor(&[1.0, f64::NAN, 3.0], DType::F32)];
    assert!(total_norm(&nan, f64::INFINITY).unwrap().item().unwrap().to_f64().is_nan());
    assert!(total_norm(&t, 0.0).is_err());
}

#[test]
fn state_of_another_shape_is_refused() {
    let (p, g) = ([tensor(&[1.0, 2.0], DType::F32)], [tensor(&[1.0], DType::F32)]);
    assert!(sgd(&p, &g, &[], SGD).is_err());
}
