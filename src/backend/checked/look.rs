//! What is looked at around a call: the memory of every operand, and what the operands share.

use std::fmt;

use super::shadow;
use crate::backend::View;
use crate::backend::index::Found;
use crate::backend::norm::Made;
use crate::backend::softmax::TotalWeight;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, collapse};
use crate::storage::Storage;

/// What a kernel does with the elements of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Reads,
    /// Reads them, but passes on what it has read: see [`shadow::carry`].
    Copies,
    /// Writes each, whatever it was.
    Writes,
    /// Writes some of them, which data decide, whatever they were. All count as written then.
    Overwrites,
    /// Reads and writes them, or some of them.
    Updates,
}

/// Which memory of its outputs an operand may lie in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sharing {
    None,
    /// It may be an output: the same elements in the same order.
    Same,
    Any,
}

#[derive(Clone, Copy, Debug)]
enum Size<'a> {
    Any,
    Elements(usize),
    Shape(&'a Dims),
}

/// An operand of a call, and the family's contract about it.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    view: View<'a>,
    role: Role,
    sharing: Sharing,
    dense: bool,
    ascending: bool,
    overlapping: bool,
    dtype: Option<DType>,
    byte: bool,
    size: Size<'a>,
}

const fn seen(view: View<'_>, role: Role, dense: bool) -> Seen<'_> {
    Seen {
        view,
        role,
        sharing: Sharing::None,
        dense,
        ascending: false,
        overlapping: false,
        dtype: None,
        byte: false,
        size: Size::Any,
    }
}

/// Read, as one slice.
pub(super) fn dense(v: View<'_>) -> Seen<'_> {
    seen(v, Role::Reads, true)
}

/// Read, of any layout.
pub(super) fn strided(v: View<'_>) -> Seen<'_> {
    seen(v, Role::Reads, false)
}

/// Read, of any layout, and what is unwritten stays so where it comes to lie.
pub(super) fn copied(v: View<'_>) -> Seen<'_> {
    seen(v, Role::Copies, false)
}

/// Written all over, as one slice.
pub(super) fn result(v: View<'_>) -> Seen<'_> {
    seen(v, Role::Writes, true)
}

/// Written all over, of any layout.
pub(super) fn strided_result(v: View<'_>) -> Seen<'_> {
    seen(v, Role::Writes, false)
}

/// Written in part, of any layout.
pub(super) fn overwritten(v: View<'_>) -> Seen<'_> {
    seen(v, Role::Overwrites, false)
}

/// Read and written, as one slice.
pub(super) fn updated(v: View<'_>) -> Seen<'_> {
    seen(v, Role::Updates, true)
}

/// Read and written, of any layout.
pub(super) fn strided_update(v: View<'_>) -> Seen<'_> {
    seen(v, Role::Updates, false)
}

impl<'a> Seen<'a> {
    /// Of this dtype.
    pub(super) fn of(self, dtype: DType) -> Self {
        Seen { dtype: Some(dtype), ..self }
    }

    /// Of bytes, be they numbers or truth values.
    pub(super) fn of_bytes(self) -> Self {
        Seen { byte: true, ..self }
    }

    /// Of so many elements.
    pub(super) fn count(self, n: usize) -> Self {
        Seen { size: Size::Elements(n), ..self }
    }

    /// Of the shape of another.
    pub(super) fn shaped(self, other: View<'a>) -> Self {
        self.sized(&other.layout.shape)
    }

    /// Of this shape.
    pub(super) fn sized(self, shape: &'a Dims) -> Self {
        Seen { size: Size::Shape(shape), ..self }
    }

    /// This may be an output: the same elements in the same order.
    pub(super) fn or_output(self) -> Self {
        Seen { sharing: Sharing::Same, ..self }
    }

    /// This may share any element with an output, which the family then takes care of.
    pub(super) fn anywhere(self) -> Self {
        Seen { sharing: Sharing::Any, ..self }
    }

    /// Without negative strides.
    pub(super) fn ascending(self) -> Self {
        Seen { ascending: true, ..self }
    }

    /// Several indices may name one element that is written.
    pub(super) fn may_overlap_itself(self) -> Self {
        Seen { overlapping: true, ..self }
    }

    fn is_written(&self) -> bool {
        matches!(self.role, Role::Writes | Role::Overwrites | Role::Updates)
    }

    fn is_read(&self) -> bool {
        matches!(self.role, Role::Reads | Role::Updates)
    }

    /// What is wrong with this operand by itself.
    fn fault(&self) -> Option<String> {
        let (v, l) = (&self.view, self.view.layout);
        if v.device() != Device::Cpu {
            return Some(format!("lies on {}", v.device()));
        }
        let wrong_size = match self.size {
            Size::Any => None,
            Size::Elements(n) => (n != l.numel()).then(|| format!("should have {n} elements")),
            Size::Shape(shape) => (*shape != l.shape).then(|| format!("should have the shape {shape}")),
        };
        if wrong_size.is_some() {
            return wrong_size;
        }
        if let Some(dtype) = self.dtype
            && dtype != v.dtype
        {
            return Some(format!("should be of {}", dtype.name()));
        }
        if self.byte && v.dtype.size() != 1 {
            return Some("should be of bytes".into());
        }
        if self.is_written() && v.storage.is_readonly() {
            return Some("is written, and its memory is read-only".into());
        }
        if l.numel() == 0 {
            return None;
        }
        let inside =
            |(lo, hi): (isize, isize)| lo >= 0 && (hi as usize) < v.storage.host_len() / v.dtype.size();
        if !l.extent().is_some_and(inside) {
            return Some("has elements outside of its memory".into());
        }
        if self.dense && !l.is_contiguous() {
            return Some("should be dense".into());
        }
        if self.dense && !v.is_aligned() {
            return Some("should be aligned".into());
        }
        if self.ascending && l.strides.iter().any(|&s| s < 0) {
            return Some("has a negative stride".into());
        }
        if self.is_written() && !self.overlapping && l.may_overlap_itself() && overlaps_itself(v) {
            return Some("is written, and two indices name one element".into());
        }
        if self.is_read()
            && let Some(at) = shadow::first_unwritten(v)
        {
            return Some(format!("is read, and nothing has written its element {at}"));
        }
        None
    }
}

impl<'a> IntoIterator for Seen<'a> {
    type Item = Seen<'a>;
    type IntoIter = std::iter::Once<Seen<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self)
    }
}

/// As messages describe an operand.
impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (v, l) = (&self.view, self.view.layout);
        write!(
            f,
            "{}, shape {}, strides {}, offset {}, {} bytes of memory",
            v.dtype.name(),
            l.shape,
            l.strides,
            l.offset,
            v.storage.len()
        )
    }
}

/// What a call tells of what it wrote.
pub(super) trait Outcome {
    /// Whether outputs are written.
    fn wrote(&self) -> bool {
        true
    }
}

impl Outcome for bool {
    fn wrote(&self) -> bool {
        *self
    }
}

impl Outcome for Made {
    fn wrote(&self) -> bool {
        *self == Made::All
    }
}

impl Outcome for () {}
impl Outcome for DType {}
impl Outcome for Found {}
impl Outcome for Storage {}
impl Outcome for TotalWeight {}
impl<T> Outcome for Option<T> {}

/// Looks at the operands of a call, makes it, and notes what it wrote.
///
/// # Errors
/// `AssertionError` where an operand is not what the family demands.
pub(super) fn look<R: Outcome>(
    family: &'static str,
    operands: &[Seen],
    call: impl FnOnce() -> Result<R>,
) -> Result<R> {
    before(family, operands)?;
    let done = call()?;
    if done.wrote() {
        after(operands);
    }
    Ok(done)
}

fn before(family: &'static str, operands: &[Seen]) -> Result<()> {
    for (k, s) in operands.iter().enumerate() {
        if let Some(what) = s.fault() {
            return Err(violation(family, k, s, &what));
        }
    }
    for (k, w) in operands.iter().enumerate().filter(|(_, w)| w.is_written()) {
        for (other, s) in operands.iter().enumerate().filter(|(i, s)| *i != k && (!s.is_written() || *i > k))
        {
            let allowed = match s.sharing {
                Sharing::None => false,
                Sharing::Same => same_elements(&w.view, &s.view),
                Sharing::Any => true,
            };
            if !allowed && share_elements(&w.view, &s.view) {
                let what = format!("is written, and shares elements with operand {other} ({s})");
                return Err(violation(family, k, w, &what));
            }
        }
    }
    Ok(())
}

fn after(operands: &[Seen]) {
    for w in operands.iter().filter(|w| w.is_written()) {
        shadow::mark(&w.view);
        for s in operands.iter().filter(|s| s.role == Role::Copies) {
            shadow::carry(&s.view, &w.view);
        }
    }
}

#[cold]
fn violation(family: &'static str, k: usize, s: &Seen, what: &str) -> Error {
    Error::Assertion(format!("rgrad check: {family}: operand {k} ({s}) {what}"))
}

/// Whether two views show the same elements in the same order.
fn same_elements(a: &View, b: &View) -> bool {
    let steps = |v: &View| collapse(&v.layout.shape, [&v.layout.strides]);
    let start = |v: &View| v.storage.address() + v.layout.offset * v.dtype.size();
    start(a) == start(b) && a.dtype.size() == b.dtype.size() && steps(a) == steps(b)
}

/// Whether some byte belongs to elements of both.
fn share_elements(a: &View, b: &View) -> bool {
    if !a.overlaps(b) {
        return false;
    }
    // Addresses, as one buffer can be the memory of several storages.
    let start = |v: &View| v.storage.address();
    let (from, other) = (start(a), start(b));
    let mut taken = vec![false; a.storage.host_len()];
    shadow::runs(a, |bytes| taken[bytes].fill(true));
    let mut shared = false;
    shadow::runs(b, |bytes| {
        shared |=
            bytes.clone().any(|i| (other + i).checked_sub(from).is_some_and(|i| taken.get(i) == Some(&true)));
    });
    shared
}

fn overlaps_itself(v: &View) -> bool {
    let mut taken = vec![false; v.storage.host_len()];
    let mut twice = false;
    shadow::runs(v, |bytes| {
        let run = &mut taken[bytes];
        twice |= run.contains(&true);
        run.fill(true);
    });
    twice
}
