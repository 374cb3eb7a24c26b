//! Kernels of one element, as products of matrices.
//!
//! Note [Convolutions at single points] A kernel of one element without padding, stride or groups multiplies the weight,
//! `[c_out, c_in]`, with each image, `[c_in, positions]`, as it lies in memory: no padded copy is needed, and the tiles of
//! products take the channels of a block of positions from the cache. Images of a single position are the rows of one matrix.

use super::tile::ConvElem;
use crate::backend::conv::ConvShape;
use crate::backend::cpu::matmul::shared::{Part, products};
use crate::backend::cpu::matmul::{Bias, Epilogue, MatRef, batched_gemm, gemm};
use crate::backend::cpu::microkernel::View;
use crate::backend::cpu::simd;

/// Positions of all images from which on packing the weight pays; it is faster read in place otherwise.
const SHARED_POSITIONS: usize = 256;
/// The same for a single image.
const SHARED_POSITIONS_OF_ONE: usize = 2048;

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
        self.multiply(c_out, c_in, w, x, out, ep);
    }

    /// The product of `w`, which is m x k, with each image of `k` channels.
    fn multiply<T: ConvElem>(
        &self,
        m: usize,
        k: usize,
        w: MatRef<T>,
        images: &[T],
        out: &mut [T],
        ep: Epilogue<T>,
    ) {
        let (count, n) = (self.images, self.positions);
        let least = if count == 1 { SHARED_POSITIONS_OF_ONE } else { SHARED_POSITIONS };
        if count * n < least {
            let images = MatRef::row_major(images, n);
            return batched_gemm(count, m, n, k, w, 0, images, k * n, out, ep);
        }
        let kernels = T::kernels(simd::isa());
        let pack = |part: Part, to: &mut [T], stride: usize| {
            let image = View { data: &images[part.product * k * n..], rs: 1, cs: n };
            let from = image.from(part.columns.start, part.depth.start);
            kernels.pack(part.columns.len(), part.depth.len(), from, to, stride);
        };
        products([m, n, k], w, &pack, out, ep);
    }

    pub fn backward_input<T: ConvElem>(&self, grad_out: &[T], w: &[T], grad_x: &mut [T]) {
        let Points { images, c_in, c_out, positions } = *self;
        let w = MatRef::row_major(w, c_in);
        if positions == 1 {
            let g = MatRef::row_major(grad_out, c_out);
            return gemm(images, c_in, c_out, g, w, grad_x, Epilogue::default());
        }
        self.multiply(c_in, c_out, w.transposed(), grad_out, grad_x, Epilogue::default());
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
