//! 32 bytes at a time: `vpshufb` multiplies by any constant.

use super::vector::Vector;
use crate::field::{FIXED, NIBBLES, REDUCTION};
use std::arch::x86_64::*;

/// A processor with AVX2.
#[derive(Clone, Copy)]
pub(super) struct Avx2;

// SAFETY of all blocks below: a value of `Avx2` exists only if AVX2 is enabled, and callers pass
// the pointers that the trait requires.
impl Vector for Avx2 {
    type Reg = __m256i;
    type Factor = [__m256i; 2];
    const WIDTH: usize = 32;
    const HORNER: bool = true;
    const APART: u8 = FIXED;

    #[inline(always)]
    fn zero(self) -> __m256i {
        // SAFETY: `self` proves that AVX2 is available.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    fn splat(self, byte: u8) -> __m256i {
        // SAFETY: `self` proves that AVX2 is available.
        unsafe { _mm256_set1_epi8(byte as i8) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> __m256i {
        // SAFETY: the caller guarantees that 32 bytes can be read.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8, value: __m256i) {
        // SAFETY: the caller guarantees that 32 bytes can be written.
        unsafe { _mm256_storeu_si256(to.cast(), value) }
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8, value: __m256i) {
        // SAFETY: the caller guarantees that 32 aligned bytes can be written.
        unsafe { _mm256_stream_si256(to.cast(), value) }
    }
    #[inline(always)]
    fn fence(self) {
        // SAFETY: x86-64 always has SSE.
        unsafe { _mm_sfence() }
    }
    #[inline(always)]
    fn prefetch(self, from: *const u8) {
        // SAFETY: a prefetch may use any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }
    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves that AVX2 is available.
        unsafe { _mm256_xor_si256(a, b) }
    }
    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves that AVX2 is available.
        unsafe { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    fn is_zero(self, a: __m256i) -> bool {
        // SAFETY: `self` proves that AVX2 is available.
        unsafe { _mm256_movemask_epi8(_mm256_cmpeq_epi8(a, _mm256_setzero_si256())) == -1 }
    }
    #[inline(always)]
    fn double(self, a: __m256i) -> __m256i {
        // SAFETY: `self` proves that AVX2 is available.
        unsafe {
            let carried = _mm256_and_si256(
                _mm256_cmpgt_epi8(_mm256_setzero_si256(), a),
                _mm256_set1_epi8(0x1D),
            );
            _mm256_xor_si256(_mm256_add_epi8(a, a), carried)
        }
    }
    #[inline(always)]
    fn double_apart(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves that AVX2 is available.
        let reduced = unsafe {
            _mm256_xor_si256(_mm256_add_epi8(a, a), _mm256_shuffle_epi8(self.splat(REDUCTION), a))
        };
        self.xor(reduced, b)
    }
    #[inline(always)]
    fn factor(self, constant: u8) -> [__m256i; 2] {
        let table = NIBBLES[usize::from(constant)].0.as_ptr();
        // SAFETY: `self` proves that AVX2 is available, and the table has 32 bytes.
        unsafe {
            [
                _mm256_broadcastsi128_si256(_mm_loadu_si128(table.cast())),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(table.add(16).cast())),
            ]
        }
    }
    #[inline(always)]
    fn multiply(self, a: __m256i, [low, high]: [__m256i; 2]) -> __m256i {
        // SAFETY: `self` proves that AVX2 is available.
        unsafe {
            let nibble = _mm256_set1_epi8(0x0F);
            let low = _mm256_shuffle_epi8(low, _mm256_and_si256(a, nibble));
            let high =
                _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi64::<4>(a), nibble));
            _mm256_xor_si256(low, high)
        }
    }
}

super::kernel!(Avx2, columns: 4, of_sums: 4, feature: "avx2");
