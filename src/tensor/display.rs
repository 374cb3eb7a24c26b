//! Printing of tensors.
//!
//! Floating point numbers are printed as `3.` when all of them are integral, in scientific notation when their
//! magnitudes differ widely, else with a fixed number of digits; all padded to one width. A tensor with more elements
//! than a threshold is summarized by the edges of each dimension.

use std::fmt::Write;
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use super::Tensor;
use crate::device::Device;
use crate::dtype::{DType, Scalar};

/// `torch.set_printoptions`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PrintOptions {
    /// Digits after the point.
    pub precision: usize,
    /// Tensors with more elements are summarized.
    pub threshold: f64,
    /// Entries shown at each end of a dimension in a summary.
    pub edgeitems: usize,
    /// Characters per line.
    pub linewidth: usize,
    /// Whether to use scientific notation; None decides by the values.
    pub sci_mode: Option<bool>,
}

impl PrintOptions {
    pub const DEFAULT: PrintOptions =
        PrintOptions { precision: 4, threshold: 1000.0, edgeitems: 3, linewidth: 80, sci_mode: None };
}

static OPTIONS: RwLock<PrintOptions> = RwLock::new(PrintOptions::DEFAULT);

pub fn options() -> PrintOptions {
    *OPTIONS.read().unwrap_or_else(PoisonError::into_inner)
}

pub fn set_options(options: PrintOptions) {
    *OPTIONS.write().unwrap_or_else(PoisonError::into_inner) = options;
}

/// The number format of one tensor.
struct Format {
    precision: usize,
    width: usize,
    style: Style,
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// Integers and bools.
    Plain,
    /// Integral floating point numbers: `3.`
    Whole,
    Fixed,
    Scientific,
}

impl Format {
    /// The format for a tensor in which `values` are shown.
    fn new(dtype: DType, values: &[Scalar], o: &PrintOptions) -> Format {
        if !dtype.is_float() {
            let width = values.iter().map(|v| plain(*v).len()).max().unwrap_or(1).max(1);
            return Format { precision: o.precision, width, style: Style::Plain };
        }
        let numbers: Vec<f64> =
            values.iter().map(|v| v.to_f64()).filter(|v| v.is_finite() && *v != 0.0).collect();
        if numbers.is_empty() {
            return Format { precision: o.precision, width: 1, style: Style::Whole };
        }
        let least = numbers.iter().fold(f64::INFINITY, |m, v| m.min(v.abs()));
        let most = numbers.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        let style = if o.sci_mode.unwrap_or(most / least > 1000.0 || most > 1.0e8 || least < 1.0e-4) {
            Style::Scientific
        } else if numbers.iter().all(|v| v.fract() == 0.0) {
            Style::Whole
        } else {
            Style::Fixed
        };
        let format = Format { precision: o.precision, width: 1, style };
        let width = numbers.iter().map(|&v| format.bare(v).len()).max().unwrap_or(1);
        Format { width, ..format }
    }

    /// A floating point number without padding.
    fn bare(&self, v: f64) -> String {
        if v.is_nan() {
            return "nan".into();
        }
        if v.is_infinite() {
            return if v > 0.0 { "inf" } else { "-inf" }.into();
        }
        match self.style {
            Style::Whole => format!("{v:.0}."),
            Style::Fixed => format!("{v:.*}", self.precision),
            Style::Scientific => scientific(v, self.precision),
            Style::Plain => v.to_string(),
        }
    }

    fn padded(&self, v: Scalar) -> String {
        let text = match v {
            Scalar::Float(f) => self.bare(f),
            _ => plain(v),
        };
        format!("{text:>width$}", width = self.width)
    }
}

/// An integer or a bool in Python's syntax.
fn plain(v: Scalar) -> String {
    match v {
        Scalar::Bool(true) => "True".into(),
        Scalar::Bool(false) => "False".into(),
        Scalar::Int(i) => i.to_string(),
        Scalar::Float(f) => f.to_string(),
        Scalar::Long(u) => u.to_string(),
    }
}

/// With a signed exponent of at least two digits: `1.5000e-03`.
fn scientific(v: f64, precision: usize) -> String {
    let text = format!("{v:.precision$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

/// The tensor being printed and its format.
struct Printer<'a> {
    t: &'a Tensor,
    o: PrintOptions,
    summarize: bool,
}

impl Printer<'_> {
    /// The shown entries of a dimension of size `n`: all, or both edges.
    fn shown(&self, n: usize) -> (Range<usize>, Option<Range<usize>>) {
        let e = self.o.edgeitems;
        if self.summarize && n > e.saturating_mul(2) { (0..e, Some(n - e..n)) } else { (0..n, None) }
    }

    /// The storage position of entry `i` of dimension `dim`, starting at `at`.
    fn entry(&self, dim: usize, at: isize, i: usize) -> isize {
        at + i as isize * self.t.strides()[dim]
    }

    fn value(&self, at: isize) -> Scalar {
        self.t.scalar_at(at as usize)
    }

    /// Appends the values that are shown.
    fn collect(&self, dim: usize, at: isize, out: &mut Vec<Scalar>) {
        if dim == self.t.rank() {
            out.push(self.value(at));
            return;
        }
        let (head, tail) = self.shown(self.t.shape()[dim]);
        for i in head.chain(tail.unwrap_or(0..0)) {
            self.collect(dim + 1, self.entry(dim, at, i), out);
        }
    }

    fn write(&self, f: &Format, dim: usize, at: isize, indent: usize, out: &mut String) {
        let rank = self.t.rank();
        if dim == rank {
            out.push_str(&f.padded(self.value(at)));
            return;
        }
        let (head, tail) = self.shown(self.t.shape()[dim]);
        let last = dim + 1 == rank;
        let part = |i: usize| {
            let mut text = String::new();
            self.write(f, dim + 1, self.entry(dim, at, i), indent + 1, &mut text);
            text
        };
        let mut parts: Vec<String> = head.map(part).collect();
        if let Some(tail) = tail {
            // Within a row of numbers the dots are padded like a number.
            parts.push(if last && self.o.edgeitems > 0 { " ..." } else { "..." }.into());
            parts.extend(tail.map(part));
        }
        let break_before = |lines: usize| format!(",{}{}", "\n".repeat(lines), " ".repeat(indent + 1));
        out.push('[');
        if last {
            let per_line = (self.o.linewidth.saturating_sub(indent) / (f.width + 2)).max(1);
            let lines: Vec<String> = parts.chunks(per_line).map(|line| line.join(", ")).collect();
            out.push_str(&lines.join(&break_before(1)));
        } else {
            out.push_str(&parts.join(&break_before(rank - dim - 1)));
        }
        out.push(']');
    }
}

/// A number as printed in a 0-d tensor.
pub fn format_value(v: Scalar, dtype: DType) -> String {
    Format::new(dtype, &[v], &options()).padded(v)
}

/// The bracketed elements of a tensor; lines after the first are indented by `indent`.
fn elements(t: &Tensor, indent: usize, o: PrintOptions) -> String {
    let printer = Printer { t, o, summarize: t.numel() as f64 > o.threshold };
    let start = t.layout().offset as isize;
    let mut values = Vec::new();
    printer.collect(0, start, &mut values);
    let format = Format::new(t.dtype(), &values, &o);
    let mut out = String::new();
    printer.write(&format, 0, start, indent, &mut out);
    out
}

/// Python's `repr`; `class` is the name before the parenthesis: `tensor([1., 2.])`. The elements are followed by what
/// they do not show: a dtype other than `default`, int64 and bool; the device; the history.
pub fn repr(t: &Tensor, class: &str, default: DType) -> String {
    let o = options();
    let indent = class.len() + 1;
    let (empty, meta) = (t.numel() == 0, t.device() == Device::Meta);
    let body = match t.on_device(Device::Cpu) {
        _ if meta => "...".into(),
        _ if empty => "[]".into(),
        Ok(host) => match host.item() {
            Ok(v) if t.rank() == 0 => format_value(v, t.dtype()),
            _ => elements(&host, indent, o),
        },
        // The device's error message takes the place of the elements.
        Err(e) => format!("<{e}>"),
    };
    let mut suffixes = Vec::new();
    if t.device() != Device::default() {
        suffixes.push(format!("device='{}'", t.device()));
    }
    if meta || (empty && t.rank() != 1) || (!empty && o.edgeitems == 0) {
        suffixes.push(format!("size={}", tuple(t.shape())));
    }
    // An int64 or bool tensor is recognized by its elements, which an empty tensor lacks.
    let told = t.dtype() == default || (!empty && !meta && matches!(t.dtype(), DType::I64 | DType::Bool));
    if !told {
        suffixes.push(format!("dtype={}", t.dtype()));
    }
    let history = t.history();
    if history.is_err() {
        suffixes.push("grad_fn=<Invalid>".into());
    } else if let Ok(Some(f)) = history {
        let name = f.name();
        suffixes.push(format!("grad_fn=<{}>", name.rsplit("::").next().unwrap_or(&name)));
    } else if t.requires_grad() {
        suffixes.push("requires_grad=True".into());
    }
    let mut out = format!("{class}({body}");
    // The line length includes the comma or parenthesis that follows.
    let mut length = match out.rfind('\n') {
        Some(at) => out.len() - at + 1,
        None => out.len() + 2,
    };
    for s in suffixes {
        if length + s.len() + 2 > o.linewidth {
            let _ = write!(out, ",\n{}{s}", " ".repeat(indent));
            length = indent + s.len();
        } else {
            let _ = write!(out, ", {s}");
            length += s.len() + 2;
        }
    }
    out.push(')');
    out
}

/// A shape as a Python tuple.
fn tuple(shape: &[usize]) -> String {
    match shape {
        [n] => format!("({n},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Element;

    fn shown<T: Element>(values: &[T], shape: &[usize]) -> String {
        repr(&Tensor::from_slice(values, shape).unwrap(), "tensor", DType::F32)
    }

    #[test]
    fn integers_among_floats_end_in_a_point() {
        assert_eq!(shown(&[1.0f32, -20.0, f32::NAN], &[3]), "tensor([  1., -20.,  nan])");
        assert_eq!(shown(&[0.0f32, f32::INFINITY], &[2]), "tensor([0., inf])");
    }

    #[test]
    fn numbers_far_apart_are_scientific() {
        assert_eq!(shown(&[1e-5f64, 1.0], &[2]), "tensor([1.0000e-05, 1.0000e+00], dtype=torch.float64)");
        assert_eq!(shown(&[0.5f32, 1.25], &[2]), "tensor([0.5000, 1.2500])");
    }

    #[test]
    fn rows_are_aligned_and_matrices_are_set_apart() {
        assert_eq!(
            shown(&[1i64, 20, 3, 4, 5, 6, 7, 8], &[2, 2, 2]),
            "tensor([[[ 1, 20],\n         [ 3,  4]],\n\n        [[ 5,  6],\n         [ 7,  8]]])"
        );
    }

    #[test]
    fn empty_tensors_tell_their_size_and_dtype() {
        assert_eq!(shown::<f32>(&[], &[0]), "tensor([])");
        assert_eq!(shown::<i64>(&[], &[0, 3]), "tensor([], size=(0, 3), dtype=torch.int64)");
    }

    #[test]
    fn large_tensors_show_their_edges() {
        let values: Vec<i64> = (0..1001).collect();
        assert_eq!(shown(&values, &[1001]), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
    }

    #[test]
    fn scalars_and_bools_print_as_in_python() {
        assert_eq!(shown(&[2.5f32], &[]), "tensor(2.5000)");
        assert_eq!(shown(&[crate::dtype::Bool8(1), crate::dtype::Bool8(0)], &[2]), "tensor([ True, False])");
    }

    #[test]
    fn a_suffix_that_does_not_fit_goes_to_a_line_of_its_own() {
        let t = Tensor::full([9], 0.25, DType::F32).unwrap();
        t.set_requires_grad(true).unwrap();
        let text = repr(&t, "tensor", DType::F32);
        assert!(text.ends_with("0.2500],\n       requires_grad=True)"), "{text}");
    }
}
