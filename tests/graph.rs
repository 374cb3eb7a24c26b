//! The graph and the engine: order, accumulation, hooks, versions, long chains, threads.

use std::sync::{Arc, Mutex};

use rgrad::dtype::DType;
use rgrad::engine::{Options, backward, grad};
use rgrad::graph::{
    ModeGuard, PackedTensor, SavedTensorHooks, TensorHook, pop_saved_tensor_hooks, push_saved_tensor_hooks,
    set_inference_enabled,
};
use rgrad::ops::{arith, reduce, rows};
use rgrad::tensor::{assign, check_inplace};
use rgrad::{Result, Tensor};

fn leaf(v: &[f32]) -> Tensor {
    let t = Tensor::from_slice(v, [v.len()]).unwrap();
    t.set_requires_grad(true).unwrap();
    t
}

fn total(t: &Tensor) -> Tensor {
    reduce::sum_mask(t, u64::MAX, false, None).unwrap()
}

fn run(t: &Tensor) -> Result<()> {
    backward(&[t.clone().into()], &[], None, Options::default())
}

fn values(t: &Tensor) -> Vec<f32> {
    t.to_vec()
}

#[test]
fn gradients_of_a_product_reach_both_factors() {
    let (a, b) = (leaf(&[2.0, 3.0]), leaf(&[5.0, 7.0]));
    run(&total(&arith::mul(&a, &b).unwrap())).unwrap();
    assert_eq!(values(&a.grad().unwrap()), [5.0, 7.0]);
    assert_eq!(values(&b.grad().unwrap()), [2.0, 3.0]);
}

#[test]
fn a_second_backward_adds_to_the_same_gradient_tensor() {
    let a = leaf(&[1.0, 2.0]);
    run(&total(&arith::mul(&a, 3.0).unwrap())).unwrap();
    let first = a.grad().unwrap();
    run(&total(&arith::mul(&a, 4.0).unwrap())).unwrap();
    assert!(first.same(&a.grad().unwrap()));
    assert_eq!(values(&first), [7.0, 7.0]);
}

#[test]
fn a_broadcast_operand_receives_the_sum() {
    let row = leaf(&[1.0, 2.0, 3.0]);
    let m = Tensor::ones([4, 3], DType::F32).unwrap();
    run(&total(&arith::mul(&m, &row).unwrap())).unwrap();
    assert_eq!(values(&row.grad().unwrap()), [4.0, 4.0, 4.0]);
}

#[test]
fn a_freed_graph_says_retain_graph() {
    let a = leaf(&[1.0]);
    let y = total(&arith::mul(&a, &a).unwrap());
    run(&y).unwrap();
    let e = run(&y).unwrap_err().to_string();
    assert!(e.starts_with("Trying to backward through the graph a second time"), "{e}");
}

#[test]
fn a_retained_graph_runs_again() {
    let a = leaf(&[3.0]);
    let y = total(&arith::mul(&a, &a).unwrap());
    backward(&[y.clone().into()], &[], None, Options { retain_graph: true, ..Options::default() }).unwrap();
    run(&y).unwrap();
    assert_eq!(values(&a.grad().unwrap()), [12.0]);
}

#[test]
fn a_saved_tensor_that_was_written_is_refused() {
    let a = leaf(&[1.0, 2.0]);
    let b = arith::mul(&a, 2.0).unwrap();
    let y = total(&arith::mul(&b, &b).unwrap());
    assign(&b, &Tensor::zeros([2], DType::F32).unwrap(), "ZeroBackward0").unwrap();
    let e = run(&y).unwrap_err().to_string();
    assert!(e.contains("modified by an inplace operation"), "{e}");
    assert!(e.contains("is at version 1; expected version 0"), "{e}");
}

#[test]
fn a_leaf_that_wants_a_gradient_is_not_written_in_place() {
    let a = leaf(&[1.0]);
    assert_eq!(
        check_inplace(&a, false).unwrap_err().to_string(),
        "a leaf Variable that requires grad is being used in an in-place operation."
    );
    let _off = ModeGuard::grad(false);
    assert!(check_inplace(&a, false).is_ok());
}

#[test]
fn a_write_through_a_view_changes_the_history_of_its_base() {
    let a = leaf(&[1.0, 2.0, 3.0]);
    let base = arith::mul(&a, 10.0).unwrap();
    let view = rgrad::tensor::as_view(&base, base.layout().slice(0, 0, 2, 1), || Nothing).unwrap();
    let w = leaf(&[7.0, 8.0]);
    assign(&view, &arith::mul(&w, 2.0).unwrap(), "CopyBackwards").unwrap();
    assert_eq!(values(&base), [14.0, 16.0, 30.0]);
    assert_eq!(base.grad_fn().unwrap().name(), "torch::autograd::CopySlices");
    run(&total(&base)).unwrap();
    assert_eq!(values(&a.grad().unwrap()), [0.0, 0.0, 10.0]);
    assert_eq!(values(&w.grad().unwrap()), [2.0, 2.0]);
}

struct Nothing;
impl rgrad::graph::Function for Nothing {
    fn name(&self) -> &'static str {
        "Nothing"
    }
    fn backward(&self, _: &rgrad::graph::Cx, grads: rgrad::graph::Grads) -> Result<rgrad::graph::Grads> {
        Ok(grads)
    }
}

struct Record(Arc<Mutex<Vec<&'static str>>>, &'static str, f64);
impl TensorHook for Record {
    fn call(&self, grad: Option<&Tensor>) -> Result<Option<Tensor>> {
        self.0.lock().unwrap().push(self.1);
        grad.map(|g| arith::mul(g, self.2)).transpose()
    }
}

#[test]
fn hooks_run_in_order_and_replace_the_gradient() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let a = leaf(&[1.0]);
    let y = arith::mul(&a, 2.0).unwrap();
    let node = y.grad_fn().unwrap();
    node.add_tensor_hook(0, Arc::new(Record(log.clone(), "first", 3.0)));
    let second = node.add_tensor_hook(0, Arc::new(Record(log.clone(), "second", 5.0)));
    run(&total(&y)).unwrap();
    assert_eq!(*log.lock().unwrap(), ["first", "second"]);
    assert_eq!(values(&a.grad().unwrap()), [30.0]);
    assert!(node.remove_hook(second));
    assert!(!node.remove_hook(second));
}

#[test]
fn a_kept_gradient_is_that_of_the_intermediate() {
    let a = leaf(&[1.0, 1.0]);
    let y = arith::mul(&a, 2.0).unwrap();
    y.grad_fn().unwrap().retain_grad(0, y.meta().unwrap());
    run(&total(&arith::mul(&y, 3.0).unwrap())).unwrap();
    assert_eq!(values(&y.grad().unwrap()), [3.0, 3.0]);
}

#[test]
fn grad_leaves_the_leaves_alone() {
    let a = leaf(&[2.0]);
    let y = total(&arith::mul(&a, &a).unwrap());
    let g = grad(&[y.into()], &[a.clone().into()], &[], Options::default()).unwrap();
    assert_eq!(values(g[0].as_ref().unwrap()), [4.0]);
    assert!(a.grad().is_none());
}

#[test]
fn a_third_derivative_comes_out_of_recorded_derivatives() {
    let x = leaf(&[2.0]);
    let create = Options { create_graph: true, ..Options::default() };
    let y = total(&rows::pow.call(&[(&x).into(), 4.0.into()], &[]).unwrap());
    let d =
        |y: &Tensor| grad(&[y.clone().into()], &[x.clone().into()], &[], create).unwrap().remove(0).unwrap();
    let third = d(&total(&d(&total(&d(&y)))));
    assert_eq!(values(&third), [48.0]);
}

#[test]
fn a_chain_of_a_million_additions_is_built_run_and_dropped() {
    let a = leaf(&[1.0]);
    let mut y = arith::add(&a, 1.0).unwrap();
    for _ in 0..1_000_000 {
        y = arith::add(&y, 1.0).unwrap();
    }
    run(&total(&y)).unwrap();
    assert_eq!(values(&a.grad().unwrap()), [1.0]);
    drop(y);
    // The graph is never run, only dropped.
    let mut z = arith::mul(&a, 1.5).unwrap();
    for _ in 0..200_000 {
        z = rows::sin.call(&[(&z).into()], &[]).unwrap();
    }
    drop(z);
}

#[test]
fn threads_that_share_a_leaf_lose_no_update() {
    let a = leaf(&[1.0, 1.0]);
    let shared = arith::mul(&a, 2.0).unwrap();
    std::thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                for _ in 0..50 {
                    let y = total(&arith::mul(&shared, 3.0).unwrap());
                    backward(&[y.into()], &[], None, Options { retain_graph: true, ..Options::default() })
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(values(&a.grad().unwrap()), [2400.0, 2400.0]);
}

#[test]
fn tensors_may_cross_threads() {
    fn crosses<T: Send + Sync>() {}
    crosses::<Tensor>();
}

#[test]
fn grad_mode_belongs_to_a_thread() {
    let _off = ModeGuard::grad(false);
    std::thread::spawn(|| assert!(rgrad::graph::grad_enabled())).join().unwrap();
    assert!(!rgrad::graph::grad_enabled());
}

#[test]
fn sixteen_threads_over_a_shared_graph_add_up_exactly() {
    let a = leaf(&[1.0, 2.0, 3.0]);
    let shared = rows::sin.call(&[(&arith::mul(&a, 2.0).unwrap()).into()], &[]).unwrap();
    let root = total(&shared);
    let retain = Options { retain_graph: true, ..Options::default() };
    let once = grad(&[root.clone().into()], &[a.clone().into()], &[], retain).unwrap().remove(0).unwrap();
    std::thread::scope(|s| {
        for _ in 0..16 {
            s.spawn(|| {
                for _ in 0..200 {
                    backward(&[root.clone().into()], &[], None, retain).unwrap();
                }
            });
        }
    });
    // All addends are equal, so the order does not matter.
    let expected: Vec<f32> = values(&once).iter().map(|&g| (0..3200).fold(0.0, |sum, _| sum + g)).collect();
    assert_eq!(values(&a.grad().unwrap()), expected);
}

/// A hook that runs another backward.
struct Nested(Arc<Mutex<usize>>);
impl TensorHook for Nested {
    fn call(&self, _: Option<&Tensor>) -> Result<Option<Tensor>> {
        let left = {
            let mut left = self.0.lock().unwrap();
            *left -= 1;
            *left
        };
        if left == 0 {
            return Err(rgrad::Error::Value("the bottom".into()));
        }
        nest(&self.0).map(|()| None)
    }
}

fn nest(left: &Arc<Mutex<usize>>) -> Result<()> {
    let _on = ModeGuard::grad(true);
    let y = arith::mul(&leaf(&[1.0]), 2.0)?;
    y.grad_fn().unwrap().add_tensor_hook(0, Arc::new(Nested(left.clone())));
    run(&total(&y))
}

#[test]
fn backward_nests_ten_thousand_deep_and_an_error_comes_back_up() {
    let e = nest(&Arc::new(Mutex::new(10_000))).unwrap_err();
    assert_eq!(e.to_string(), "the bottom");
}

/// Packs saved tensors as their negated elements.
struct Negate;
impl SavedTensorHooks for Negate {
    fn pack(&self, t: &Tensor) -> Result<Box<dyn PackedTensor>> {
        Ok(Box::new(Negated(t.to_vec())))
    }
}

struct Negated(Vec<f32>);
impl PackedTensor for Negated {
    fn unpack(&self) -> Result<Tensor> {
        let v: Vec<f32> = self.0.iter().map(|x| -x).collect();
        Tensor::from_slice(&v, [v.len()])
    }
}

#[test]
fn what_is_saved_passes_through_hooks_and_keeps_its_history() {
    let a = leaf(&[2.0, 3.0]);
    push_saved_tensor_hooks(Arc::new(Negate)).unwrap();
    let y = arith::mul(&a, &a).unwrap();
    pop_saved_tensor_hooks();
    let create = Options { create_graph: true, ..Options::default() };
    let g = grad(&[total(&y).into()], &[a.clone().into()], &[], create).unwrap().remove(0).unwrap();
    assert_eq!(values(&g), [-4.0, -6.0]);
    run(&total(&g)).unwrap();
    assert_eq!(values(&a.grad().unwrap()), [2.0, 2.0]);
}

struct Refuse;
impl SavedTensorHooks for Refuse {
    fn pack(&self, _: &Tensor) -> Result<Box<dyn PackedTensor>> {
        Err(rgrad::Error::Value("not kept".into()))
    }
}

#[test]
fn the_error_of_a_pack_hook_is_that_of_the_operation() {
    let a = leaf(&[2.0]);
    push_saved_tensor_hooks(Arc::new(Refuse)).unwrap();
    let y = arith::mul(&a, &a);
    pop_saved_tensor_hooks();
    assert_eq!(y.unwrap_err().to_string(), "not kept");
    assert!(arith::mul(&a, &a).is_ok());
}

#[test]
fn a_gradient_takes_the_strides_of_a_dense_leaf() {
    let w = Tensor::ones([2, 3], DType::F32).unwrap();
    let w = w.with_layout(w.layout().transpose(0, 1));
    w.set_requires_grad(true).unwrap();
    run(&total(&arith::mul(&w, 2.0).unwrap())).unwrap();
    assert_eq!(w.grad().unwrap().strides(), w.strides());
}

#[test]
fn an_inference_tensor_is_neither_saved_nor_written_outside() {
    set_inference_enabled(true);
    let t = Tensor::ones([1], DType::F32).unwrap();
    set_inference_enabled(false);
    let a = leaf(&[2.0]);
    assert!(arith::add(&a, &t).unwrap().requires_grad());
    assert!(arith::mul(&a, &t).unwrap_err().to_string().starts_with("Inference tensors cannot be saved"));
    assert!(
        check_inplace(&t, false).unwrap_err().to_string().starts_with("Inplace update to inference tensor")
    );
}
