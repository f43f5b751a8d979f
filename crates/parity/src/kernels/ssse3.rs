//! 16 bytes at a time, for x86-64 without AVX2: `pshufb` multiplies by any constant.

use super::vector::Vector;
use crate::field::{FIXED, NIBBLES, REDUCTION};
use std::arch::x86_64::*;

/// A processor with SSSE3.
#[derive(Clone, Copy)]
pub(super) struct Ssse3;

// SAFETY of all blocks below: a value of `Ssse3` exists only if SSSE3 is enabled, and callers pass
// the pointers that the trait requires.
impl Vector for Ssse3 {
    type Reg = __m128i;
    type Factor = [__m128i; 2];
    const WIDTH: usize = 16;
    const HORNER: bool = true;
    const APART: u8 = FIXED;

    #[inline(always)]
    fn zero(self) -> __m128i {
        // SAFETY: x86-64 always has SSE2.
        unsafe { _mm_setzero_si128() }
    }
    #[inline(always)]
    fn splat(self, byte: u8) -> __m128i {
        // SAFETY: x86-64 always has SSE2.
        unsafe { _mm_set1_epi8(byte as i8) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> __m128i {
        // SAFETY: the caller guarantees that 16 bytes can be read.
        unsafe { _mm_loadu_si128(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8, value: __m128i) {
        // SAFETY: the caller guarantees that 16 bytes can be written.
        unsafe { _mm_storeu_si128(to.cast(), value) }
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8, value: __m128i) {
        // SAFETY: the caller guarantees that 16 aligned bytes can be written.
        unsafe { _mm_stream_si128(to.cast(), value) }
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
    fn xor(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: x86-64 always has SSE2.
        unsafe { _mm_xor_si128(a, b) }
    }
    #[inline(always)]
    fn or(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: x86-64 always has SSE2.
        unsafe { _mm_or_si128(a, b) }
    }
    #[inline(always)]
    fn is_zero(self, a: __m128i) -> bool {
        // SAFETY: x86-64 always has SSE2.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(a, _mm_setzero_si128())) == 0xFFFF }
    }
    #[inline(always)]
    fn double(self, a: __m128i) -> __m128i {
        // SAFETY: x86-64 always has SSE2.
        unsafe {
            let carried =
                _mm_and_si128(_mm_cmplt_epi8(a, _mm_setzero_si128()), _mm_set1_epi8(0x1D));
            _mm_xor_si128(_mm_add_epi8(a, a), carried)
        }
    }
    #[inline(always)]
    fn double_apart(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: `self` proves that SSSE3 is available.
        let reduced = unsafe {
            _mm_xor_si128(_mm_add_epi8(a, a), _mm_shuffle_epi8(self.splat(REDUCTION), a))
        };
        self.xor(reduced, b)
    }
    #[inline(always)]
    fn factor(self, constant: u8) -> [__m128i; 2] {
        let table = NIBBLES[usize::from(constant)].0.as_ptr();
        // SAFETY: the table has 32 bytes.
        unsafe { [_mm_loadu_si128(table.cast()), _mm_loadu_si128(table.add(16).cast())] }
    }
    #[inline(always)]
    fn multiply(self, a: __m128i, [low, high]: [__m128i; 2]) -> __m128i {
        // SAFETY: `self` proves that SSSE3 is available.
        unsafe {
            let nibble = _mm_set1_epi8(0x0F);
            let low = _mm_shuffle_epi8(low, _mm_and_si128(a, nibble));
            let high = _mm_shuffle_epi8(high, _mm_and_si128(_mm_srli_epi64::<4>(a), nibble));
            _mm_xor_si128(low, high)
        }
    }
}

super::kernel!(Ssse3, columns: 4, of_sums: 8, feature: "ssse3");
