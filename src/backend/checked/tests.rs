//! Each kind of violation would pass the CPU's kernels in silence, or end the process; a call that keeps the contract
//! passes the check.

use std::sync::Arc;

use super::*;
use crate::dtype::Element;
use crate::layout::Layout;

fn allocate(bytes: usize) -> Storage {
    Checked.allocate(Device::Cpu, bytes).unwrap()
}

fn layout<const N: usize>(shape: [usize; N]) -> Layout {
    Layout::contiguous(shape.into())
}

fn view<'a>(storage: &'a Storage, layout: &'a Layout, dtype: DType) -> View<'a> {
    View { storage, layout, dtype }
}

fn f32s<'a>(storage: &'a Storage, layout: &'a Layout) -> View<'a> {
    view(storage, layout, DType::F32)
}

/// Memory that holds these elements.
fn filled<T: Element>(values: &[T]) -> Storage {
    Storage::from_slice(values).unwrap()
}

/// The text of a violation.
fn refused<T>(call: Result<T>) -> String {
    match call {
        Ok(_) => String::from("passed"),
        Err(e) => {
            assert_eq!(e.kind(), crate::error::Kind::Assertion, "{e}");
            e.to_string()
        }
    }
}

macro_rules! expect {
    ($text:literal, $call:expr) => {
        let said = refused($call);
        assert!(said.starts_with("rgrad check: ") && said.contains($text), "{said}");
    };
}

#[test]
fn a_correct_call_goes_through_and_its_result_counts_as_written() {
    let (l, sum) = (layout([2, 3]), layout([2]));
    let (x, out) = (allocate(24), allocate(8));
    Checked.fill(f32s(&x, &l), Scalar::Float(1.5)).unwrap();
    assert!(!shadow::is_watched(&x) && shadow::is_watched(&out));
    Checked.reduce(ReduceOp::Sum, f32s(&x, &l), ReduceDims::rows(2, 3), f32s(&out, &sum)).unwrap();
    assert_eq!(out.slice::<f32>(), [4.5, 4.5]);
    assert!(!shadow::is_watched(&out));
    Checked.copy(f32s(&out, &sum), f32s(&out, &sum)).unwrap();
}

#[test]
fn elements_that_nothing_has_written_are_not_read() {
    let (l, out) = (layout([4]), allocate(16));
    let x = allocate(16);
    let d = ReduceDims::rows(1, 4);
    expect!(
        "nothing has written its element 0",
        Checked.softmax(Kind::Softmax, f32s(&x, &l), d, f32s(&out, &l))
    );
    Checked.fill(f32s(&x, &layout([3])), Scalar::Int(1)).unwrap();
    expect!(
        "nothing has written its element 3",
        Checked.softmax(Kind::Softmax, f32s(&x, &l), d, f32s(&out, &l))
    );
    // Every second element of the rest.
    Checked.fill(f32s(&x, &layout([4]).slice(0, 3, 1, 2)), Scalar::Int(1)).unwrap();
    Checked.softmax(Kind::Softmax, f32s(&x, &l), d, f32s(&out, &l)).unwrap();
}

#[test]
fn what_is_copied_from_unwritten_memory_stays_unwritten() {
    let (whole, x, y) = (layout([2, 3]), allocate(24), allocate(48));
    Checked.fill(f32s(&x, &whole.slice(0, 0, 1, 1)), Scalar::Int(1)).unwrap();
    let turned = layout([3, 2]).transpose(0, 1);
    let wide = |l| view(&y, l, DType::F64);
    Checked.copy(f32s(&x, &whole), wide(&turned)).unwrap();
    let first = turned.slice(0, 0, 1, 1);
    assert!(Checked.known(Question::AnyZero, wide(&first)).is_ok());
    expect!("nothing has written its element 3", Checked.known(Question::AnyZero, wide(&turned)));
}

#[test]
fn elements_outside_of_the_memory_are_not_touched() {
    let s = filled(&[0f32; 4]);
    for beyond in [layout([5]), Layout { offset: 1, ..layout([4]) }, layout([2]).slice(0, 1, 2, 4)] {
        expect!("outside of its memory", Checked.fill(f32s(&s, &beyond), Scalar::Int(0)));
    }
    let mut before = layout([2]);
    before.strides[0] = -1;
    expect!("outside of its memory", Checked.fill(f32s(&s, &before), Scalar::Int(0)));
    Checked.fill(f32s(&s, &Layout { offset: 1, ..before }), Scalar::Int(0)).unwrap();
}

#[test]
fn dtypes_and_sizes_follow_from_the_other_arguments() {
    let (x, out) = (filled(&[1f32, 2.0, 3.0, 4.0]), filled(&[0i64; 4]));
    let (four, two) = (layout([4]), layout([2]));
    let d = ReduceDims::rows(2, 2);
    // An int64 read as float32 would be two numbers.
    expect!(
        "should be of float32",
        Checked.reduce(ReduceOp::Sum, f32s(&x, &four), d, view(&out, &two, DType::I64))
    );
    expect!("should have 2 elements", Checked.reduce(ReduceOp::Sum, f32s(&x, &four), d, f32s(&out, &four)));
    expect!("should have the shape [4]", Checked.copy(f32s(&x, &two), f32s(&out, &four)));
    expect!("should be of bytes", Checked.find(f32s(&x, &four)));
}

#[test]
fn a_slice_is_taken_of_dense_and_aligned_memory_alone() {
    let (x, out) = (filled(&[1f32, 2.0, 3.0, 4.0]), filled(&[0f32; 4]));
    let l = layout([2, 2]);
    let (d, turned) = (ReduceDims::rows(2, 2), l.transpose(0, 1));
    expect!("should be dense", Checked.softmax(Kind::Softmax, f32s(&x, &turned), d, f32s(&out, &l)));
    let owner = Arc::new([0u64; 4]);
    let start = (owner.as_ptr() as *mut u8).wrapping_add(1);
    #[allow(unsafe_code)]
    // SAFETY: the array is kept by the owner, and only read.
    let odd = unsafe { Storage::borrowed(start, 24, true, Box::new(owner)) }.unwrap();
    expect!("should be aligned", Checked.softmax(Kind::Softmax, f32s(&odd, &l), d, f32s(&out, &l)));
    expect!("its memory is read-only", Checked.fill(f32s(&odd, &l), Scalar::Int(0)));
}

#[test]
fn outputs_lie_apart_from_inputs_or_are_the_very_same_elements() {
    let s = filled(&[1f32, 2.0, 3.0, 4.0]);
    let whole = layout([4]);
    let (even, odd) = (whole.slice(0, 0, 2, 2), whole.slice(0, 1, 2, 2));
    let (low, middle) = (whole.slice(0, 0, 2, 1), whole.slice(0, 1, 2, 1));
    Checked.copy(f32s(&s, &even), f32s(&s, &odd)).unwrap();
    assert_eq!(s.slice::<f32>(), [1.0, 1.0, 3.0, 3.0]);
    expect!("shares elements with operand 0", Checked.copy(f32s(&s, &low), f32s(&s, &middle)));
    let backwards = Layout { strides: [-1].into(), offset: 1, ..low.clone() };
    expect!("shares elements", Checked.copy(f32s(&s, &backwards), f32s(&s, &low)));
    let d = ReduceDims::rows(1, 2);
    // A slice that is read while another of it is written.
    expect!("shares elements", Checked.softmax(Kind::Softmax, f32s(&s, &low), d, f32s(&s, &low)));
}

#[test]
fn two_outputs_share_no_element() {
    let (x, out) = (filled(&[1f32, 2.0]), filled(&[0f32; 3]));
    let (l, next) = (layout([2]), Layout { offset: 1, ..layout([2]) });
    let d = ReduceDims::new(1, 1, 2);
    expect!("shares elements", Checked.moments(f32s(&x, &l), d, f32s(&out, &l), f32s(&out, &next)));
    let one_element = Layout { strides: [0].into(), ..l.clone() };
    expect!("two indices name one element", Checked.copy(f32s(&x, &l), f32s(&out, &one_element)));
    Checked.fill(f32s(&out, &one_element), Scalar::Int(0)).unwrap();
    Checked.accumulate(f32s(&x, &l), f32s(&out, &one_element)).unwrap();
    assert_eq!(out.slice::<f32>()[0], 3.0);
}

#[test]
fn what_is_updated_is_read() {
    let (g, p) = (filled(&[1f32; 4]), allocate(16));
    let l = layout([4]);
    expect!("nothing has written", Checked.accumulate(f32s(&g, &l), f32s(&p, &l)));
    expect!("nothing has written", Checked.scale(&[f32s(&p, &l)], f32s(&g, &layout([])), None));
    Checked.fill(f32s(&p, &l), Scalar::Int(1)).unwrap();
    Checked.accumulate(f32s(&g, &l), f32s(&p, &l)).unwrap();
    assert_eq!(p.slice::<f32>(), [2.0; 4]);
}

#[test]
fn memory_that_was_lent_or_came_from_outside_counts_as_written() {
    let l = layout([4]);
    let ours = allocate(16);
    let read = |s: &Storage| Checked.known(Question::AnyZero, f32s(s, &l));
    expect!("nothing has written", read(&ours));
    lent(&ours);
    read(&ours).unwrap();
    read(&Storage::new(16).unwrap()).unwrap();
}

#[test]
fn a_storage_does_not_inherit_what_another_at_its_address_was() {
    let l = layout([4]);
    for _ in 0..300 {
        let dead = allocate(16);
        drop(dead);
        // The allocator hands the same block out again.
        let alive = Storage::new(16).unwrap();
        Checked.known(Question::AnyZero, f32s(&alive, &l)).unwrap();
    }
    assert!(shadow::entries() < 300, "entries of storages that are gone stay");
}

#[test]
fn a_call_that_fails_writes_nothing() {
    let (x, out) = (filled(&[1f32, 2.0]), allocate(8));
    let (l, index) = (layout([2]), filled(&[0i64, 7]));
    let index = view(&index, &l, DType::I64);
    let rule = crate::backend::index::BoundsPolicy::Along(0);
    let pick = Pick { index, size: 2, stride: 1, rule };
    assert!(Checked.gather_along(f32s(&x, &l), 0, pick, f32s(&out, &l)).is_err());
    assert!(shadow::is_watched(&out));
}
