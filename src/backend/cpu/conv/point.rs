//! Kernels of one element, as products of matrices.
//!
//! Note [Convolutions at single points] A kernel of one element without padding, stride or groups multiplies the weight,
//! `[c_out, c_in]`, with each image, `[c_in, positions]`, as it lies in memory: no padded copy is needed, and the tiles of
//! products take the channels of a block of positions from the cache. Images of a single position are the rows of one matrix.

use super::tile::ConvElem;
use crate::backend::conv::ConvShape;
use crate::backend::cpu::matmul::shared::{Part, panels_of_piece, products, products_by_rows};
use crate::backend::cpu::matmul::{Batch, Bias, Epilogue, MatRef, ProductsByRows, batched_gemm, gemm};
use crate::backend::cpu::microkernel::View;
use crate::backend::cpu::pieces::Destination;
use crate::backend::cpu::simd;

/// Positions of all images from which on packing the weight pays; it is faster read in place otherwise.
const SHARED_POSITIONS: usize = 256;
/// The same for a single image.
const SHARED_POSITIONS_OF_ONE: usize = 2048;

/// The product of matrices whose rows are images.
fn rows<T: ConvElem>(
    [m, n, k]: [usize; 3],
    a: MatRef<T>,
    b: MatRef<T>,
    bias: Option<&[T]>,
    out: Destination<T>,
) {
    let by_rows = || ProductsByRows::of(Batch { count: 1, m, n, k }, a, b, [0, 0]);
    match out {
        Destination::Pieces(_, take) if let Some(products) = by_rows() => products.run(bias, take),
        out => out.whole(|out| {
            let ep = Epilogue { bias: bias.map_or(Bias::None, Bias::Row), ..Epilogue::default() };
            gemm(m, n, k, a, b, out, ep);
        }),
    }
}

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

    /// See [`super::forward_to`].
    pub fn forward<T: ConvElem>(&self, x: &[T], w: &[T], bias: Option<&[T]>, out: Destination<T>) {
        let Points { images, c_in, c_out, positions } = *self;
        let w = MatRef::row_major(w, c_in);
        if positions == 1 {
            let x = MatRef::row_major(x, c_in);
            return rows([images, c_out, c_in], x, w.transposed(), bias, out);
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
        out: Destination<T>,
        ep: Epilogue<T>,
    ) {
        let (count, n) = (self.images, self.positions);
        if !self.shares_weight() {
            let images = MatRef::row_major(images, n);
            return out.whole(|out| batched_gemm(count, m, n, k, w, 0, images, k * n, out, ep));
        }
        let kernels = T::kernels(simd::isa());
        let pack = |part: Part, to: &mut [T], stride: usize| {
            let image = View { data: &images[part.product * k * n..], rs: 1, cs: n };
            let from = image.from(part.columns.start, part.depth.start);
            kernels.pack(part.columns.len(), part.depth.len(), from, to, stride);
        };
        match (out, panels_of_piece::<T>(count, [m, n, k])) {
            (Destination::Pieces(_, take), Some(panels)) => {
                products_by_rows(count, [m, n, k], w, &pack, ep, panels, take);
            }
            (out, _) => out.whole(|out| products([m, n, k], w, &pack, out, ep)),
        }
    }

    /// Whether packing the weight pays.
    fn shares_weight(&self) -> bool {
        let least = if self.images == 1 { SHARED_POSITIONS_OF_ONE } else { SHARED_POSITIONS };
        self.images * self.positions >= least
    }

    /// Whether an output, or else the gradient of an input, is computed in pieces.
    pub fn has_pieces<T: ConvElem>(&self, is_forward: bool) -> bool {
        let (m, k) = if is_forward { (self.c_out, self.c_in) } else { (self.c_in, self.c_out) };
        if self.positions == 1 {
            let batch = Batch { count: 1, m: self.images, n: m, k };
            let b =
                if is_forward { MatRef::row_major(&[], k).transposed() } else { MatRef::row_major(&[], m) };
            return ProductsByRows::<T>::of(batch, MatRef::row_major(&[], k), b, [0, 0]).is_some();
        }
        self.shares_weight() && panels_of_piece::<T>(self.images, [m, self.positions, k]).is_some()
    }

    /// See [`super::backward_input_to`].
    pub fn backward_input<T: ConvElem>(&self, grad_out: &[T], w: &[T], grad_x: Destination<T>) {
        let Points { images, c_in, c_out, positions } = *self;
        let w = MatRef::row_major(w, c_in);
        if positions == 1 {
            return rows([images, c_in, c_out], MatRef::row_major(grad_out, c_out), w, None, grad_x);
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
