//! Memory that begins at a cache line.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};

/// A cache line of memory.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Line([u8; 64]);

/// Elements of which the first is at the start of a cache line. A vector of AVX-512 that begins elsewhere is read and written as
/// two lines.
pub struct Aligned<T> {
    lines: Vec<Line>,
    of: PhantomData<T>,
}

impl<T> Default for Aligned<T> {
    fn default() -> Self {
        Aligned { lines: Vec::new(), of: PhantomData }
    }
}

impl<T: Pod> Aligned<T> {
    /// Has at least `len` elements from now on. New ones are zero.
    pub fn grow(&mut self, len: usize) {
        let lines = (len * size_of::<T>()).div_ceil(size_of::<Line>());
        if self.lines.len() < lines {
            self.lines.resize(lines, Line::zeroed());
        }
    }
}

impl<T: Pod> Deref for Aligned<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        cast_slice(&self.lines)
    }
}

impl<T: Pod> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        cast_slice_mut(&mut self.lines)
    }
}
