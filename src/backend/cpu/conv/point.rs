//! Kernels of one element, as products of matrices.
//!
//! Note [Convolutions at single points] A kernel of one element without padding, stride or groups multiplies the weight,
//! `[c_out, c_in]`, with each image, `[c_in, positions]`, as it lies in memory: no padded copy is needed, and the tiles of
//! products take the channels of a block of positions from the cache. Images of a single position are the rows of one matrix.

use super::tile::ConvElem;
use crate::backend::conv::ConvShape;
use crate::backend::cpu::matmul::{Bias, Epilogue, MatRef, batched_gemm, gemm};

/// The sizes of the matrices.
pub struct Points {
    images: usize,
    c_in: usize,
    c_out: usize,
    positions: usize,
}

impl Points {
    /// None if it is another convolution.
    pub fn of(s: &ConvShape) -> Option<Points> {
        let is_one = s.taps() == 1 && s.groups == 1 && s.padding == [0; 3] && s.input == s.output;
        is_one.then(|| Points { images: s.n, c_in: s.c_in, c_out: s.c_out, positions: s.output_plane() })
    }

    pub fn forward<T: ConvElem>(&self, x: &[T], w: &[T], bias: Option<&[T]>, out: &mut [T]) {
        let Points { images, c_in, c_out, positions } = *self;
        let w = MatRef::row_major(w, c_in);
        if positions == 1 {
            let ep = Epilogue { bias: bias.map_or(Bias::None, Bias::Row), ..Epilogue::default() };
            return gemm(images, c_out, c_in, MatRef::row_major(x, c_in), w.transposed(), out, ep);
        }
        let ep = Epilogue { bias: bias.map_or(Bias::None, Bias::Col), ..Epilogue::default() };
        let x = MatRef::row_major(x, positions);
        batched_gemm(images, c_out, positions, c_in, w, 0, x, c_in * positions, out, ep);
    }

    pub fn backward_input<T: ConvElem>(&self, grad_out: &[T], w: &[T], grad_x: &mut [T]) {
        let Points { images, c_in, c_out, positions } = *self;
        let w = MatRef::row_major(w, c_in);
        if positions == 1 {
            let g = MatRef::row_major(grad_out, c_out);
            return gemm(images, c_in, c_out, g, w, grad_x, Epilogue::default());
        }
        let g = MatRef::row_major(grad_out, positions);
        let (w, step) = (w.transposed(), c_out * positions);
        batched_gemm(images, c_in, positions, c_out, w, 0, g, step, grad_x, Epilogue::default());
    }

    /// Images are added one after the other.
    pub fn backward_weight<T: ConvElem>(&self, grad_out: &[T], x: &[T], grad_w: &mut [T]) {
        let Points { images, c_in, c_out, positions } = *self;
        if positions == 1 {
            let (g, x) = (MatRef::row_major(grad_out, c_out), MatRef::row_major(x, c_in));
            return gemm(c_out, c_in, images, g.transposed(), x, grad_w, Epilogue::default());
        }
        if images * positions == 0 {
            return grad_w.fill(T::ZERO);
        }
        for image in 0..images {
            let g = MatRef::row_major(&grad_out[image * c_out * positions..], positions);
            let x = MatRef::row_major(&x[image * c_in * positions..], positions);
            let beta = if image == 0 { T::ZERO } else { T::ONE };
            let ep = Epilogue { beta, ..Epilogue::default() };
            gemm(c_out, c_in, positions, g, x.transposed(), grad_w, ep);
        }
    }
}
