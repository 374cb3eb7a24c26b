//! The parameters of a launch, in WGSL's uniform struct layout.

use smallvec::SmallVec;

use crate::dtype::{DType, Element, Scalar};

/// Maximum size of a launch's parameters in bytes.
pub const MAX_PARAMS: usize = 512;

/// The fields of `struct Params`, in order. The first two are `count` and `zero`.
#[derive(Clone, Debug)]
pub struct Params(SmallVec<[u8; 256]>);

impl Params {
    /// Starts with the number of elements (or of other items that the shader counts).
    pub fn new(count: u32) -> Params {
        let mut p = Params(SmallVec::new());
        p.u32(count).u32(0);
        p
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Sets the bytes at `at`.
    pub fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Params {
        self.0.resize(self.0.len().max(at + bytes.len()), 0);
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    pub fn u32(&mut self, v: u32) -> &mut Params {
        self.0.extend_from_slice(&v.to_le_bytes());
        self
    }

    /// Three sizes as a vec4, aligned to 16 bytes.
    pub fn sizes(&mut self, v: [usize; 3]) -> &mut Params {
        self.align(16);
        v.into_iter().for_each(|n| {
            self.u32(n as u32);
        });
        self.u32(0)
    }

    pub fn f32(&mut self, v: f32) -> &mut Params {
        self.0.extend_from_slice(&v.to_le_bytes());
        self
    }

    /// A number in the compute type of the shader: float32, float64, int32 or int64.
    pub fn number(&mut self, v: Scalar, compute: DType) -> &mut Params {
        match compute {
            DType::F32 => self.0.extend_from_slice(&f32::from_scalar(v).to_le_bytes()),
            DType::I32 => self.0.extend_from_slice(&i32::from_scalar(v).to_le_bytes()),
            DType::F64 => {
                self.align(8);
                self.0.extend_from_slice(&f64::from_scalar(v).to_le_bytes());
            }
            _ => {
                self.align(8);
                self.0.extend_from_slice(&i64::from_scalar(v).to_le_bytes());
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_64_bits_stands_at_a_multiple_of_8_bytes() {
        let mut p = Params::new(1);
        p.u32(2).number(Scalar::Int(3), DType::I64).f32(1.0);
        assert_eq!(p.bytes().len(), 28);
        assert_eq!(p.bytes()[16], 3);
    }
}
