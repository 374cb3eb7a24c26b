//! The order of dimensions in memory: memory formats, and the layout that an elementwise result takes from its
//! operands.

use smallvec::SmallVec;

use super::{Dims, Layout, Strides};
use crate::ensure;
use crate::error::Result;

/// A requested memory format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryFormat {
    /// Row-major.
    Contiguous,
    /// The strides of the source tensor where those are dense.
    Preserve,
    /// Images (NHWC in memory).
    ChannelsLast,
    /// Volumes (NDHWC in memory).
    ChannelsLast3d,
}

/// Dimensions, from the innermost in memory to the outermost.
type Order = SmallVec<[usize; 6]>;

impl MemoryFormat {
    pub const ALL: [MemoryFormat; 4] = [
        MemoryFormat::Contiguous,
        MemoryFormat::Preserve,
        MemoryFormat::ChannelsLast,
        MemoryFormat::ChannelsLast3d,
    ];

    pub fn name(self) -> &'static str {
        match self {
            MemoryFormat::Contiguous => "contiguous_format",
            MemoryFormat::Preserve => "preserve_format",
            MemoryFormat::ChannelsLast => "channels_last",
            MemoryFormat::ChannelsLast3d => "channels_last_3d",
        }
    }

    /// The rank to which this format applies, and its dimensions from the innermost to the outermost.
    fn channels_last(self) -> Option<(usize, &'static [usize])> {
        match self {
            MemoryFormat::ChannelsLast => Some((4, &[1, 3, 2, 0])),
            MemoryFormat::ChannelsLast3d => Some((5, &[1, 4, 3, 2, 0])),
            _ => None,
        }
    }
}

/// The dimensions of an elementwise result from the innermost to the outermost, derived from its operands' strides.
///
/// Note [The order of a result] Of two dimensions the one with the smaller stride becomes the inner one. The first
/// operand whose strides differ decides; an operand that is broadcast along either of the two is skipped, and at equal
/// strides (possible only with a size of 1) the smaller dimension becomes the inner one. If no operand decides, the
/// order stays row-major. This comparison is not transitive, so the sorting algorithm is part of the definition:
/// PyTorch's, an insertion sort that starts at the innermost dimension.
fn common_order(shape: &[usize], operands: &[&[isize]]) -> Order {
    let lies_inside = |a: usize, b: usize| -> Option<bool> {
        for strides in operands {
            let (x, y) = (strides[a].unsigned_abs(), strides[b].unsigned_abs());
            if x == 0 || y == 0 {
                continue;
            }
            if x != y {
                return Some(x < y);
            }
            if shape[a] > shape[b] {
                return Some(false);
            }
        }
        None
    };
    let mut order: Order = (0..shape.len()).rev().collect();
    for i in 1..order.len() {
        let mut at = i;
        for j in (0..i).rev() {
            match lies_inside(order[j], order[at]) {
                Some(false) => {
                    order.swap(j, at);
                    at = j;
                }
                Some(true) => break,
                None => {}
            }
        }
    }
    order
}

/// The strides of a dense tensor with dimensions in `order`.
fn strides_in(shape: &[usize], order: &[usize]) -> Strides {
    let mut strides = Strides::zeros(shape.len());
    let mut step = 1;
    for &d in order {
        strides[d] = step;
        step *= shape[d] as isize;
    }
    strides
}

/// Strides of a new empty tensor are computed as if its sizes of 0 were 1 (except in elementwise results).
fn at_least_one(shape: &[usize]) -> Dims {
    shape.iter().map(|&n| n.max(1)).collect()
}

/// The layout of an elementwise result of `shape`; see Note [The order of a result]. When all operands have the same
/// layout it is kept, unless Python numbers are among the operands (`numbers`), whose shape differs for PyTorch.
pub fn result_layout(shape: &Dims, operands: &[&Layout], numbers: bool) -> Layout {
    let alike = !numbers && operands.iter().all(|l| l.shape == *shape);
    if alike && operands.iter().all(|l| l.is_contiguous()) {
        return Layout::contiguous(shape.clone());
    }
    if alike && operands.iter().all(|l| l.is_in(MemoryFormat::ChannelsLast)) {
        return Layout { strides: strides_in(shape, &[1, 3, 2, 0]), shape: shape.clone(), offset: 0 };
    }
    if alike
        && let [first, rest @ ..] = operands
        && first.is_non_overlapping_and_dense()
        && rest.iter().all(|l| l.strides == first.strides)
    {
        return Layout { shape: shape.clone(), strides: first.strides.clone(), offset: 0 };
    }
    let wide: SmallVec<[Layout; 5]> = operands.iter().filter_map(|l| l.expand(shape)).collect();
    let strides: SmallVec<[&[isize]; 5]> = wide.iter().map(|l| &l.strides[..]).collect();
    let order = common_order(shape, &strides);
    if order.iter().rev().is_sorted() {
        return Layout::contiguous(shape.clone());
    }
    Layout { shape: shape.clone(), strides: strides_in(shape, &order), offset: 0 }
}

impl Layout {
    /// Whether the elements are dense in `format`; `Preserve` is answered as row-major.
    pub fn is_in(&self, format: MemoryFormat) -> bool {
        let Some((rank, order)) = format.channels_last() else { return self.is_contiguous() };
        let mut step = 1;
        self.rank() == rank
            && order.iter().all(|&d| {
                let fits = self.shape[d] == 1 || self.strides[d] == step;
                step *= self.shape[d] as isize;
                fits
            })
    }

    /// The layout of a new tensor of this one's shape.
    ///
    /// # Errors
    /// `RuntimeError` when the format is for another rank.
    pub fn in_format(&self, format: MemoryFormat) -> Result<Layout> {
        let strides = match format.channels_last() {
            Some((rank, order)) => {
                let name = format.name();
                ensure!(self.rank() == rank, Runtime, "required rank {rank} tensor to use {name} format");
                strides_in(&at_least_one(&self.shape), order)
            }
            None if format == MemoryFormat::Contiguous => self.shape.contiguous_strides(),
            None if self.is_non_overlapping_and_dense() => self.strides.clone(),
            None => strides_in(&at_least_one(&self.shape), &common_order(&self.shape, &[&self.strides])),
        };
        Ok(Layout { shape: self.shape.clone(), strides, offset: 0 })
    }

    /// The format that the strides suggest, by PyTorch's heuristic: gaps are allowed, and when sizes of 1 make it
    /// ambiguous the answer is row-major.
    pub fn suggested_format(&self) -> MemoryFormat {
        let looks_like = |format: MemoryFormat| {
            let Some((rank, order)) = format.channels_last() else { return false };
            if self.rank() != rank || self.strides[1] == 0 {
                return false;
            }
            let mut least = 0;
            order.iter().all(|&d| {
                let (n, stride) = (self.shape[d], self.strides[d]);
                let fits = n > 0 && stride >= least && !(d == 0 && least == self.strides[1]);
                least = stride.wrapping_mul(n.max(1) as isize);
                fits
            })
        };
        [MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d]
            .into_iter()
            .find(|&f| looks_like(f))
            .unwrap_or(MemoryFormat::Contiguous)
    }

    /// The dimensions from the outermost in memory to the innermost; None when they are in row-major order.
    pub fn memory_order(&self) -> Option<SmallVec<[usize; 6]>> {
        let key = |&d: &usize| std::cmp::Reverse(self.strides[d].unsigned_abs());
        let mut order: Order = (0..self.rank()).filter(|&d| self.shape[d] != 1).collect();
        if order.is_sorted_by_key(key) {
            return None;
        }
        order.sort_by_key(key);
        order.extend((0..self.rank()).filter(|&d| self.shape[d] == 1));
        Some(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout<const N: usize>(shape: [usize; N], strides: [isize; N]) -> Layout {
        Layout { shape: shape.into(), strides: strides.into(), offset: 0 }
    }

    #[test]
    fn channels_last_is_recognized_and_made() {
        let rows = Layout::contiguous([2, 3, 4, 5].into());
        let last = rows.in_format(MemoryFormat::ChannelsLast).unwrap();
        assert_eq!(last.strides[..], [60, 1, 15, 3]);
        assert!(last.is_in(MemoryFormat::ChannelsLast) && !rows.is_in(MemoryFormat::ChannelsLast));
        assert_eq!(last.suggested_format(), MemoryFormat::ChannelsLast);
        assert_eq!(rows.suggested_format(), MemoryFormat::Contiguous);
        assert!(Layout::contiguous([3].into()).in_format(MemoryFormat::ChannelsLast).is_err());
    }

    #[test]
    fn preserving_keeps_dense_strides_and_closes_holes() {
        let kept = |l: Layout| l.in_format(MemoryFormat::Preserve).unwrap().strides;
        assert_eq!(kept(layout([3, 2], [1, 3]))[..], [1, 3]);
        assert_eq!(kept(layout([5, 2], [1, 10]))[..], [1, 5]);
        assert_eq!(kept(layout([4, 3], [1, 0]))[..], [3, 1]);
    }

    #[test]
    fn the_first_operand_that_tells_two_dimensions_apart_decides_their_order() {
        let shape = Dims::from([3, 2]);
        let (rows, columns, row) = (layout([3, 2], [2, 1]), layout([3, 2], [1, 3]), layout([2], [1]));
        let strides = |operands: &[&Layout]| result_layout(&shape, operands, false).strides;
        assert_eq!(strides(&[&columns, &columns])[..], [1, 3]);
        assert_eq!(strides(&[&columns, &rows])[..], [1, 3]);
        assert_eq!(strides(&[&rows, &columns])[..], [2, 1]);
        assert_eq!(strides(&[&row, &columns])[..], [1, 3]);
    }

    #[test]
    fn the_order_in_memory_is_that_of_the_strides() {
        assert_eq!(layout([2, 3], [3, 1]).memory_order(), None);
        assert_eq!(layout([2, 1, 3], [1, 9, 2]).memory_order().unwrap()[..], [2, 0, 1]);
    }
}
