//! The locks and scratch words of the graph under all interleavings of two threads that loom finds with few
//! preemptions.
//!
//! Built with `--cfg loom` (see `make slow`), the types of `graph::sync` use loom's mutex and atomics, and so do the
//! leaves, nodes and saved tensors built on them: the models run the engine itself. Reference counts are those of the
//! standard library, each operation of which loom treats as a single step.
#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::thread;
use rgrad::engine::{Options, backward, grad};
use rgrad::graph::sync::{Guarded, Scratch, change_shared};
use rgrad::graph::{Edge, GradFn, PostAccumulateHook, TensorHook, set_grad_enabled};
use rgrad::ops::arith;
use rgrad::{Result, Tensor};

/// Stack size of a modelled thread, in words: loom's default is too small for the engine.
const STACK: usize = 1 << 16;

const RETAIN: Options =
    Options { retain_graph: true, create_graph: false, allow_unused: false, materialize: false };
const CREATE: Options = Options { create_graph: true, ..RETAIN };

fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::Builder::new().stack_size(STACK).spawn(f).unwrap()
}

/// Runs `f` under all interleavings of the threads that it starts.
fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.max_branches = 100_000;
    let f = Arc::new(f);
    builder.check(move || {
        let f = f.clone();
        spawn(move || f()).join().unwrap();
    });
}

/// Runs two closures concurrently.
fn both<A: Send + 'static, B>(a: impl FnOnce() -> A + Send + 'static, b: impl FnOnce() -> B) -> (A, B) {
    let a = spawn(a);
    let b = b();
    (a.join().unwrap(), b)
}

fn leaf() -> Tensor {
    set_grad_enabled(true);
    let x = Tensor::from_slice(&[1.0f32], [1]).unwrap();
    x.set_requires_grad(true).unwrap();
    x
}

/// A leaf and its double.
fn graph() -> (Tensor, Tensor) {
    let x = leaf();
    let y = arith::mul(&x, 2.0).unwrap();
    (x, y)
}

fn run_backward(y: &Tensor, options: Options) {
    backward(&[y.clone().into()], &[], None, options).unwrap();
}

fn gradient(x: &Tensor, y: &Tensor) -> f32 {
    let found = grad(&[y.clone().into()], &[x.clone().into()], &[], RETAIN).unwrap();
    found[0].as_ref().unwrap().to_vec::<f32>()[0]
}

// ---- the primitives alone

#[test]
fn a_word_of_scratch_belongs_to_one_run_at_a_time() {
    model(|| {
        let (word, holders) =
            (Arc::new(Scratch::default()), Arc::new(loom::sync::atomic::AtomicUsize::new(0)));
        let run = |id: u32| {
            let (word, holders) = (word.clone(), holders.clone());
            move || {
                if !word.claim(id, id + 10) {
                    assert_eq!(word.place(id), None);
                    return false;
                }
                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two runs hold the word");
                assert_eq!(word.place(id), Some(id + 10));
                holders.fetch_sub(1, Ordering::SeqCst);
                word.release(id, id + 10);
                true
            }
        };
        let (one, other) = both(run(1), run(2));
        assert!(one || other);
        assert!(word.claim(3, 0), "the word was not given back");
    });
}

#[test]
fn no_change_of_a_shared_value_is_lost() {
    model(|| {
        let list = Arc::new(Guarded::new(None::<Arc<Vec<u32>>>));
        let add = |n: u32| {
            let list = list.clone();
            move || change_shared(&list, |s| s, |v| v.push(n))
        };
        both(add(1), add(2));
        let mut found = list.with(|s| s.as_ref().unwrap().to_vec());
        found.sort_unstable();
        assert_eq!(found, [1, 2]);
    });
}

// ---- tensors and nodes

#[test]
fn two_threads_that_ask_a_leaf_for_its_edge_are_given_one_accumulator() {
    model(|| {
        let x = leaf();
        let ask = |x: Tensor| move || x.grad_edge().unwrap().unwrap();
        let (a, b) = both(ask(x.clone()), ask(x.clone()));
        assert!(a.node.same(&b.node));
    });
}

#[test]
fn a_history_is_read_with_its_own_output_while_it_is_replaced() {
    model(|| {
        let x = leaf();
        let node = |factor: f64| -> GradFn { arith::mul(&x, factor).unwrap().grad_fn().unwrap() };
        let nodes = [node(1.0), node(2.0)];
        let t = Tensor::from_slice(&[0.0f32], [1]).unwrap();
        let set = |i: usize| {
            let (t, node) = (t.clone(), nodes[i].clone());
            move || t.meta_or_new().set_history(node, i + 1)
        };
        let read = {
            let (t, nodes) = (t.clone(), nodes.clone());
            let second = set(1);
            move || {
                let seen = t.meta_or_new().history();
                second();
                assert!(seen.is_none_or(|(node, output)| node.same(&nodes[0]) && output == 1));
            }
        };
        both(set(0), read);
        let (node, output) = t.meta().unwrap().history().unwrap();
        assert!(node.same(&nodes[output - 1]) && t.requires_grad());
    });
}

#[test]
fn a_history_that_is_set_and_cleared_leaves_tensor_and_flag_agreed() {
    model(|| {
        let (_x, y) = graph();
        let t = Tensor::from_slice(&[0.0f32], [1]).unwrap();
        let set = {
            let (t, node) = (t.clone(), y.grad_fn().unwrap());
            move || t.meta_or_new().set_history(node, 0)
        };
        let clear = {
            let t = t.clone();
            move || t.meta_or_new().clear_history()
        };
        both(set, clear);
        let meta = t.meta().unwrap();
        assert_eq!(meta.is_recorded(), meta.grad_fn().is_some());
        let edge: Option<Edge> = t.grad_edge().unwrap();
        assert_eq!(edge.is_some(), meta.is_recorded());
    });
}

// ---- graph tasks

#[test]
fn two_runs_over_one_graph_claim_its_nodes_apart() {
    model(|| {
        let (x, y) = graph();
        let run = |x: Tensor, y: Tensor| move || gradient(&x, &y);
        assert_eq!(both(run(x.clone(), y.clone()), run(x, y)), (2.0, 2.0));
    });
}

fn accumulates(first: Options, second: Options) {
    model(move || {
        let (x, y) = graph();
        let run = |options: Options| {
            let y = y.clone();
            move || run_backward(&y, options)
        };
        both(run(first), run(second));
        assert_eq!(x.grad().unwrap().to_vec::<f32>(), [4.0]);
        // With a history the gradient would form a reference cycle.
        x.set_grad(None);
    });
}

#[test]
fn two_runs_add_both_gradients_to_a_leaf() {
    accumulates(RETAIN, RETAIN);
}

#[test]
fn two_runs_add_both_gradients_with_their_histories() {
    accumulates(CREATE, CREATE);
}

#[test]
fn a_gradient_in_place_and_one_with_history_meet_in_a_leaf() {
    accumulates(RETAIN, CREATE);
}

struct Counts(AtomicUsize);

impl TensorHook for Counts {
    fn call(&self, _: Option<&Tensor>) -> Result<Option<Tensor>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    }
}

impl PostAccumulateHook for Counts {
    fn call(&self, _: &Tensor) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_hook_that_is_removed_while_its_node_runs_is_called_once_or_not() {
    model(|| {
        let (x, y) = graph();
        let (node, counts) = (y.grad_fn().unwrap(), Arc::new(Counts(AtomicUsize::new(0))));
        let handle = node.add_tensor_hook(0, counts.clone());
        let (found, removed) = both(move || gradient(&x, &y), move || node.remove_hook(handle));
        assert!(found == 2.0 && removed);
        assert!(counts.0.load(Ordering::Relaxed) <= 1);
        assert_eq!(Arc::strong_count(&counts), 1, "nobody holds a hook that was removed");
    });
}

#[test]
fn hooks_of_a_leaf_come_and_go_while_it_accumulates() {
    model(|| {
        let (x, y) = graph();
        let counts = Arc::new(Counts(AtomicUsize::new(0)));
        let meta = x.meta_or_new().clone();
        meta.add_post_hook(counts.clone());
        let change = {
            let (meta, counts) = (meta.clone(), counts.clone());
            move || {
                let handle = meta.add_hook(counts);
                assert!(meta.remove_hook(handle));
            }
        };
        both(move || run_backward(&y, RETAIN), change);
        // The remaining hook was called, the other one possibly.
        assert!((1..=2).contains(&counts.0.load(Ordering::Relaxed)));
        assert_eq!(Arc::strong_count(&counts), 2);
    });
}
