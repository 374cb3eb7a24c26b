//! The producers of groups: Note [Epilogues].

use crate::backend::conv::Product;
use crate::backend::cpu::conv::{self, ConvElem};
use crate::backend::cpu::matmul::{Batch, MatRef, ProductsByRows};
use crate::backend::cpu::pieces::{Destination, Take};
use crate::backend::group::Producer;
use crate::backend::{View, elements};
use crate::dtype::{DType, Element};

/// Whether a product or a convolution is computed in pieces.
pub fn has_pieces(producer: &Producer, dtype: DType) -> bool {
    match dtype {
        DType::F32 => has_pieces_of::<f32>(producer),
        DType::F64 => has_pieces_of::<f64>(producer),
        _ => false,
    }
}

fn has_pieces_of<T: ConvElem + Element>(producer: &Producer) -> bool {
    match producer {
        Producer::Matmul { a, b, .. } => products::<T>(a, b).is_some(),
        Producer::Convolution { which, shape, .. } => conv::has_pieces::<T>(*which, shape),
    }
}

/// Computes a product or a convolution and passes its elements to `take`; false, and nothing done, if it is not computed in pieces.
pub fn produce<T: ConvElem + Element>(producer: &Producer, take: Take<T>) -> bool {
    match *producer {
        Producer::Matmul { a, b, bias } => {
            let Some(products) = products(&a, &b) else { return false };
            products.run(bias.map(elements), take);
        }
        Producer::Convolution { which, shape, a, b, bias } if conv::has_pieces::<T>(which, shape) => {
            let channels = if which == Product::Input { shape.c_in } else { shape.c_out };
            let out = Destination::Pieces(shape.n * channels * shape.plane_of(which), take);
            match which {
                Product::Input => conv::backward_input_to(shape, elements(a), elements(b), out),
                _ => conv::forward_to(shape, elements(a), elements(b), bias.map(elements), out),
            }
        }
        Producer::Convolution { .. } => return false,
    }
    true
}

fn products<'a, T: ConvElem + Element>(a: &View<'a>, b: &View<'a>) -> Option<ProductsByRows<'a, T>> {
    let r = a.layout.rank();
    let (m, k, n) = (a.layout.shape[r - 2], a.layout.shape[r - 1], b.layout.shape[r - 1]);
    let (count, steps) = match r {
        3 => (a.layout.shape[0], [a, b].map(|v| v.layout.strides[0] as usize)),
        _ => (1, [0, 0]),
    };
    ProductsByRows::of(Batch { count, m, n, k }, MatRef::of(a), MatRef::of(b), steps)
}
