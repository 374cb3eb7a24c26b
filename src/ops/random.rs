//! Generators and random operations.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::schema::Op;

/// A stream of random numbers: a seed, and how many counters have been used.
#[derive(Debug)]
pub struct Generator(Mutex<State>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub seed: u64,
    pub offset: u64,
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator(Mutex::new(State { seed, offset: 0 }))
    }

    pub fn state(&self) -> State {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_state(&self, state: State) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// The state before `counters` of it are used up.
    pub fn take(&self, counters: u64) -> State {
        let mut s = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *s;
        s.offset = s.offset.wrapping_add(counters);
        before
    }
}

/// The generator that operations use when none is given.
pub fn default_generator() -> &'static Arc<Generator> {
    static DEFAULT: LazyLock<Arc<Generator>> = LazyLock::new(|| Arc::new(Generator::new(67_280_421_310_721)));
    &DEFAULT
}

pub static OPS: &[Op] = &[];
