//! The locks and scratch words of the graph with several threads, small enough for Miri and Valgrind (`make slow`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rgrad::engine::{Options, backward, grad};
use rgrad::graph::TensorHook;
use rgrad::ops::{arith, reduce};
use rgrad::{Result, Tensor};

const THREADS: usize = 3;
const RUNS: usize = if cfg!(miri) { 2 } else { 100 };
const RETAIN: Options =
    Options { retain_graph: true, create_graph: false, allow_unused: false, materialize: false };

/// A single-element leaf, and the root of a graph with two paths to it: 2x + 2x · 3.
fn shared_graph() -> (Tensor, Tensor) {
    let x = Tensor::from_slice(&[1.0f64], [1]).unwrap();
    x.set_requires_grad(true).unwrap();
    let twice = arith::mul(&x, 2.0).unwrap();
    let y = arith::add(&twice, &arith::mul(&twice, 3.0).unwrap()).unwrap();
    (x, reduce::sum_mask(&y, u64::MAX, false, None).unwrap())
}

fn in_threads(f: impl Fn(usize) + Sync) {
    thread::scope(|s| {
        for i in 0..THREADS {
            let f = &f;
            s.spawn(move || f(i));
        }
    });
}

#[test]
fn runs_over_one_graph_claim_its_nodes_apart() {
    let (x, root) = shared_graph();
    in_threads(|_| {
        for _ in 0..RUNS {
            let g = grad(&[root.clone().into()], &[x.clone().into()], &[], RETAIN).unwrap();
            assert_eq!(g[0].as_ref().unwrap().to_vec::<f64>(), [8.0]);
        }
    });
}

#[test]
fn a_leaf_loses_no_gradient() {
    let (x, root) = shared_graph();
    in_threads(|_| {
        for _ in 0..RUNS {
            backward(&[root.clone().into()], &[], None, RETAIN).unwrap();
        }
    });
    assert_eq!(x.grad().unwrap().to_vec::<f64>(), [8.0 * (THREADS * RUNS) as f64]);
}

struct Counts(AtomicUsize);

impl TensorHook for Counts {
    fn call(&self, _: Option<&Tensor>) -> Result<Option<Tensor>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    }
}

#[test]
fn hooks_come_and_go_while_others_run_the_graph() {
    let (x, root) = shared_graph();
    let node = root.grad_fn().unwrap();
    let run = || {
        let g = grad(&[root.clone().into()], &[x.clone().into()], &[], RETAIN).unwrap();
        assert_eq!(g[0].as_ref().unwrap().to_vec::<f64>(), [8.0]);
    };
    let (stays, passes) = (Arc::new(Counts(AtomicUsize::new(0))), Arc::new(Counts(AtomicUsize::new(0))));
    let seen = |counts: &Counts| counts.0.load(Ordering::Relaxed);
    let kept = node.add_tensor_hook(0, stays.clone());
    in_threads(|i| {
        for _ in 0..RUNS {
            if i == 0 {
                let hook = node.add_tensor_hook(0, passes.clone());
                assert!(node.remove_hook(hook));
                assert!(!node.remove_hook(hook), "a hook was removed twice");
            } else {
                run();
            }
        }
    });
    assert_eq!(seen(&stays), RUNS * (THREADS - 1), "every run calls the hook that stays once");

    // The hook list is intact: the removed hook is not called, a new one is, and removing the first one works.
    let before = seen(&passes);
    run();
    assert_eq!(seen(&passes), before);
    let hook = node.add_tensor_hook(0, passes.clone());
    run();
    assert_eq!(seen(&passes), before + 1);
    assert!(node.remove_hook(hook) && node.remove_hook(kept));
    run();
    assert_eq!((seen(&stays), seen(&passes)), (RUNS * (THREADS - 1) + 2, before + 1));
}

#[test]
fn the_last_of_many_handles_drops_the_graph() {
    for _ in 0..RUNS {
        let (x, root) = shared_graph();
        let left: Vec<Tensor> = (0..THREADS).map(|i| arith::mul(&root, i as f64).unwrap()).collect();
        drop(root);
        thread::scope(|s| {
            for t in left {
                s.spawn(move || drop(t));
            }
        });
        assert!(x.grad().is_none());
    }
}
