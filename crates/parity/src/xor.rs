//! XOR of plain slices, for callers without pieces, exponents or errors.

use crate::kernels::{Kernel, Start, chosen};
use crate::sources::{Term, Terms};

/// `dst ^= src`, byte by byte.
///
/// # Panics
/// When the two differ in length.
pub fn xor_into(dst: &mut [u8], src: &[u8]) {
    chosen().xor_into(dst, src);
}

/// `dst` = the XOR of all `sources`, byte by byte; zeroes without sources. The previous content of
/// `dst` is ignored.
///
/// # Panics
/// When a source differs from `dst` in length.
pub fn xor_many(dst: &mut [u8], sources: &[&[u8]]) {
    chosen().xor_many(dst, sources);
}

/// Whether all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    chosen().is_zero(bytes)
}

impl Kernel {
    /// As [`crate::xor_into`], with this kernel.
    pub fn xor_into(&self, dst: &mut [u8], src: &[u8]) {
        assert_eq!(src.len(), dst.len(), "XOR of slices of different lengths");
        self.sum(dst, Start::Kept, &[Term::new(src, 0)]);
    }

    /// As [`crate::xor_many`], with this kernel.
    pub fn xor_many(&self, dst: &mut [u8], sources: &[&[u8]]) {
        for source in sources {
            assert_eq!(source.len(), dst.len(), "XOR of slices of different lengths");
        }
        let mut start = Start::Zero;
        for some in sources.chunks(256) {
            let mut terms = Terms::new();
            for source in some {
                terms.push(Term::new(source, 0));
            }
            self.sum(dst, start, terms.as_mut_slice());
            start = Start::Kept;
        }
        if sources.is_empty() {
            dst.fill(0);
        }
    }
}
