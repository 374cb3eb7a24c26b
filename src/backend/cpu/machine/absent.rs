//! No machine code: other processors interpret their groups.

mod recipe;

use std::sync::Arc;

use crate::formula::Formula;
pub use recipe::{
    Columns, In, LANES, Out, Recipe, SHORT_ROWS, Source, WHOLE_VECTORS, Work, bits_of, type_of,
};

/// There is none.
pub enum Kernel {}

pub struct Pool;

impl Kernel {
    pub fn is_per_row(&self, _: usize) -> bool {
        match *self {}
    }

    pub fn replaces(&self) -> bool {
        match *self {}
    }

    pub fn has_rows(&self) -> bool {
        match *self {}
    }

    pub fn pool<T>(&self, _: &[T]) -> Option<Pool> {
        match *self {}
    }

    pub fn run<T>(&self, _: &[In<T>], _: &mut [Out<T>], _: &[usize], _: &Pool, _: usize, _: usize) -> bool {
        match *self {}
    }
}

pub fn is_enabled() -> bool {
    false
}

pub fn is_compiled<T>(_: &Formula) -> bool {
    false
}

pub fn kernel<T>(_: &Recipe) -> Option<Arc<Kernel>> {
    None
}
