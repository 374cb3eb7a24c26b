//! Interpreters of operations: which calls they receive, in which order, and the state after one fails.

use std::sync::{Arc, Mutex};

use rgrad::dtype::{DType, Scalar};
use rgrad::engine::{Options, backward};
use rgrad::error::Error;
use rgrad::ops::interpreter::{self, Caller, Form, Interpreter, Next, OpCall};
use rgrad::ops::schema::{Out, Value};
use rgrad::ops::{self, arith, cast, index, join, linalg, matmul, nn, norm, reduce, rows, scan, sort, view};
use rgrad::{Result, Tensor};

type Log = Arc<Mutex<Vec<String>>>;

/// Logs the names of calls, then makes them.
struct Noting {
    mark: &'static str,
    log: Log,
}

impl Interpreter for Noting {
    fn call(&self, call: &OpCall, values: &[Value], next: Next) -> Result<Out> {
        let form = match call.form {
            Form::New => "",
            Form::InPlace => "_",
            Form::Into(_) => "(out)",
        };
        self.log.lock().unwrap().push(format!("{}{}{form}", self.mark, call.op.name));
        next.call(call, values)
    }
}

/// Pushes an interpreter on the thread's stack until dropped.
struct Entered(Arc<dyn Interpreter>);

impl Entered {
    fn new(interpreter: impl Interpreter + 'static) -> Entered {
        let interpreter: Arc<dyn Interpreter> = Arc::new(interpreter);
        interpreter::push(interpreter.clone());
        Entered(interpreter)
    }

    fn noting(mark: &'static str, log: &Log) -> Entered {
        Entered::new(Noting { mark, log: log.clone() })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        assert!(interpreter::remove(&self.0), "it was taken off the stack by somebody else");
    }
}

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

fn leaf(v: &[f32]) -> Tensor {
    let t = Tensor::from_slice(v, [v.len()]).unwrap();
    t.set_requires_grad(true).unwrap();
    t
}

/// Calls an operation of the table by name.
fn by_name(name: &str, values: &[Value]) -> Result<Out> {
    let op = ops::all().iter().find(|op| op.name == name).unwrap();
    ops::call(op, &op.overloads[0], values)
}

#[test]
fn an_interpreter_sees_an_operation_once_and_not_what_it_is_made_of() {
    let (log, x) = (Log::default(), Tensor::ones([2, 2], DType::F32).unwrap());
    let _entered = Entered::noting("", &log);
    let out = by_name("matmul", &[Value::Tensor(x.clone()), Value::Tensor(x.clone())]).unwrap();
    assert_eq!(out.tensor().unwrap().to_vec::<f32>(), [2.0; 4]);
    assert_eq!(taken(&log), ["matmul"]);
    by_name("add", &[Value::Tensor(x), Value::Number(1i64.into()), Value::Number(1i64.into())]).unwrap();
    assert_eq!(taken(&log), ["add"]);
}

#[test]
fn calls_by_rust_and_by_backward_functions_are_seen() {
    let (log, x) = (Log::default(), leaf(&[0.5, 1.0]));
    let a = Tensor::ones([2, 2], DType::F32).unwrap();
    a.set_requires_grad(true).unwrap();
    let product = reduce::sum_mask(&matmul::mm(&a, &a).unwrap(), u64::MAX, false, None).unwrap();
    let _entered = Entered::noting("", &log);
    rows::tanh.call(&[(&x).into()], &[]).unwrap();
    matmul::mm(&a, &a).unwrap();
    assert_eq!(taken(&log), ["tanh", "mm"]);
    backward(&[product.into()], &[], None, Options::default()).unwrap();
    let seen = taken(&log);
    assert_eq!(seen.iter().filter(|name| *name == "mm").count(), 2, "{seen:?}");
}

/// What the backward function of `out` calls.
fn seen_in_backward(log: &Log, out: &Tensor) -> Vec<String> {
    let total = reduce::sum_all(out, None).unwrap();
    let _entered = Entered::noting("", log);
    backward(&[total.into()], &[], None, Options::default()).unwrap();
    taken(log)
}

#[test]
fn what_backward_functions_call_is_seen_in_every_family() {
    let log = Log::default();
    let (x, y) = (leaf(&[0.5, 1.0, 2.0]), leaf(&[1.0, 3.0, 5.0]));
    let matrix = || view::reshape_to(&x, &[1, 3].into()).unwrap();
    let at = Tensor::from_slice(&[2i64, 0], [2]).unwrap();
    let mask = rows::gt.call(&[(&x).into(), 0.75.into()], &[]).unwrap();
    let cases: Vec<(&str, Tensor, &str)> = vec![
        ("sum", reduce::sum_all(&x, None).unwrap(), "expand"),
        ("mean", reduce::mean_mask(&matrix(), 2, false, None).unwrap(), "expand"),
        ("view", matrix(), "reshape"),
        ("expand", view::expand_to(&x, &[4, 3].into()).unwrap(), "sum"),
        ("transpose", view::transpose(&matrix(), 0, 1).unwrap(), "permute"),
        ("unbind", view::split::unbind(&x, 0).unwrap().remove(0), "stack"),
        ("flip", view::copies::flip(&x, &[0]).unwrap(), "flip"),
        ("cat", join::cat(&[x.clone(), y.clone()], 0).unwrap(), "narrow"),
        ("stack", join::stack(&[x.clone(), y.clone()], 0).unwrap(), "select"),
        ("gather", index::gather(&x, 0, &at).unwrap(), "scatter_add"),
        ("index_add", index::index_add(&x, 0, &at, &leaf(&[1.0, 2.0]), 1i64.into()).unwrap(), "index_select"),
        ("masked_fill", index::masked_fill(&x, &mask, 0.0.into()).unwrap(), "masked_fill"),
        ("sort", sort::sort(&x, 0, false, "SortBackward0").unwrap().remove(0), "scatter_add"),
        ("cumprod", scan::cumprod(&x, 0, None).unwrap(), "cumsum"),
        ("tril", linalg::triangle(&matrix(), 0, true).unwrap(), "tril"),
        ("to", cast::to_dtype(&x, DType::F64).unwrap(), "to"),
        ("pad", nn::pad_constant(&x, &[1, 1], 0i64.into()).unwrap(), "constant_pad_nd"),
    ];
    for (name, out, called) in cases {
        let seen = seen_in_backward(&log, &out);
        assert!(seen.iter().any(|s| s == called), "the backward of {name} does not call {called}: {seen:?}");
    }
}

/// Notes the names of what the core calls, and leaves alone what the program does.
struct Inside(Log);

impl Interpreter for Inside {
    fn concerns(&self, call: &OpCall) -> bool {
        call.caller == Caller::Core
    }

    fn call(&self, call: &OpCall, values: &[Value], next: Next) -> Result<Out> {
        self.0.lock().unwrap().push(call.op.name.into());
        next.call(call, values)
    }
}

#[test]
fn what_operations_are_made_of_is_seen_where_they_are_let_pass() {
    let (log, x) = (Log::default(), Tensor::ones([2, 2], DType::F32).unwrap());
    let _entered = Entered::new(Inside(log.clone()));
    let both = || Value::Tensors(vec![x.clone(), x.clone()]);
    by_name("vstack", &[both()]).unwrap();
    assert_eq!(taken(&log), ["atleast_2d", "atleast_2d", "cat"]);
    by_name("block_diag", &[both()]).unwrap();
    by_name("scaled_dot_product_attention", &{
        let mut values = vec![Value::Tensor(x.clone()); 3];
        values.extend([
            Value::None,
            Value::Number(0.0.into()),
            Value::Number(Scalar::Bool(true)),
            Value::None,
        ]);
        values.push(Value::Number(Scalar::Bool(false)));
        values
    })
    .unwrap();
    let seen = taken(&log);
    for name in ["tril", "softmax", "transpose"] {
        assert!(seen.iter().any(|s| s == name), "{name} is not among {seen:?}");
    }
}

#[test]
fn a_second_derivative_of_a_norm_is_made_of_what_is_seen() {
    let (log, x) = (Log::default(), leaf(&[0.5, 1.0, 2.0, 4.0]));
    let matrix = view::reshape_to(&x, &[2, 2].into()).unwrap();
    let out = norm::layer_norm(&matrix, &[2], None, None, 1e-5).unwrap();
    let out = arith::mul(&out, &out).unwrap();
    let total = reduce::sum_all(&out, None).unwrap();
    let _entered = Entered::noting("", &log);
    let options = Options { create_graph: true, ..Options::default() };
    backward(&[total.into()], &[], None, options).unwrap();
    let seen = taken(&log);
    assert!(seen.iter().any(|s| s == "mean" || s == "sum"), "{seen:?}");
    // The gradient's history holds the leaf.
    x.set_grad(None);
}

#[test]
fn the_innermost_interpreter_is_asked_first_and_then_those_below() {
    let (log, x) = (Log::default(), leaf(&[0.5]));
    let _outer = Entered::noting("outer ", &log);
    let _inner = Entered::noting("inner ", &log);
    rows::exp.call(&[(&x).into()], &[]).unwrap();
    assert_eq!(taken(&log), ["inner exp", "outer exp"]);
}

#[test]
fn forms_in_place_and_with_a_result_are_seen_as_such() {
    let (log, x) = (Log::default(), Tensor::ones([2], DType::F32).unwrap());
    let _entered = Entered::noting("", &log);
    let op = ops::all().iter().find(|op| op.name == "exp").unwrap();
    let values = [Value::Tensor(x.clone())];
    ops::call_inplace(op, &op.overloads[0], &values).unwrap();
    let out = Tensor::ones([2], DType::F32).unwrap();
    let stored = ops::call_out(op, &op.overloads[0], &values, std::slice::from_ref(&out)).unwrap();
    assert!(matches!(stored, Out::List(stored) if stored[0].same(&out)));
    assert_eq!(taken(&log), ["exp_", "exp(out)"]);
}

/// Makes calls of one operation fail.
struct Failing {
    panics: bool,
}

impl Interpreter for Failing {
    fn concerns(&self, call: &OpCall) -> bool {
        call.op.name == "exp"
    }

    fn call(&self, _: &OpCall, _: &[Value], _: Next) -> Result<Out> {
        assert!(!self.panics, "as asked for");
        Err(Error::Runtime("refused".into()))
    }
}

#[test]
fn an_error_and_a_panic_leave_the_stack_as_it_was() {
    let (log, x) = (Log::default(), leaf(&[0.5]));
    let _outer = Entered::noting("", &log);
    for panics in [false, true] {
        let _inner = Entered::new(Failing { panics });
        for _ in 0..2 {
            let run = std::panic::AssertUnwindSafe(|| rows::exp.call(&[(&x).into()], &[]));
            match std::panic::catch_unwind(run) {
                Ok(out) => assert!(out.is_err() && !panics),
                Err(_) => assert!(panics),
            }
        }
        // Other operations are unaffected and still reach the outer interpreter.
        rows::log.call(&[(&x).into()], &[]).unwrap();
        assert_eq!(taken(&log), ["log"]);
    }
    rows::exp.call(&[(&x).into()], &[]).unwrap();
    assert_eq!(taken(&log), ["exp"]);
}

#[test]
fn another_thread_has_interpreters_of_its_own() {
    let (log, x) = (Log::default(), Tensor::ones([2], DType::F32).unwrap());
    let _entered = Entered::noting("", &log);
    std::thread::scope(|s| {
        s.spawn(|| arith::mul(&x, 2.0).unwrap()).join().unwrap();
    });
    assert!(taken(&log).is_empty());
    arith::mul(&x, 2.0).unwrap();
    assert_eq!(taken(&log), ["mul"]);
}

/// Distinguishes calls by the core from calls by the program.
struct Callers(Arc<Mutex<Vec<Caller>>>);

impl Interpreter for Callers {
    fn call(&self, call: &OpCall, values: &[Value], next: Next) -> Result<Out> {
        self.0.lock().unwrap().push(call.caller);
        next.call(call, values)
    }
}

#[test]
fn an_interpreter_is_told_who_calls() {
    let (callers, x) = (Arc::default(), leaf(&[0.5]));
    let _entered = Entered::new(Callers(Arc::clone(&callers)));
    by_name("exp", &[Value::Tensor(x.clone())]).unwrap();
    rows::exp.call(&[(&x).into()], &[]).unwrap();
    assert_eq!(*callers.lock().unwrap(), [Caller::Program, Caller::Core]);
}
