//! 64 bytes at a time: with AVX-512 alone (`vpshufb` multiplies, Q by Horner's rule), and with
//! GFNI, whose affine instruction multiplies by any constant, so that each strip gets its own
//! weight.

use super::vector::Vector;
use crate::field::{FIXED, MATRICES, NIBBLES, REDUCTION};
use std::arch::x86_64::*;

/// A processor with AVX-512 F and BW.
#[derive(Clone, Copy)]
pub(super) struct Avx512;

/// A processor with AVX-512 F and BW, and GFNI.
#[derive(Clone, Copy)]
pub(super) struct Gfni;

/// The common part of both: all but the multiplications.
macro_rules! common {
    () => {
        type Reg = __m512i;
        const WIDTH: usize = 64;
        const XOR3: bool = true;

        #[inline(always)]
        fn zero(self) -> __m512i {
            // SAFETY: `self` proves that AVX-512 F is available.
            unsafe { _mm512_setzero_si512() }
        }
        #[inline(always)]
        fn splat(self, byte: u8) -> __m512i {
            // SAFETY: `self` proves that AVX-512 F is available.
            unsafe { _mm512_set1_epi8(byte as i8) }
        }
        #[inline(always)]
        unsafe fn load(self, from: *const u8) -> __m512i {
            // SAFETY: the caller guarantees that 64 bytes can be read.
            unsafe { _mm512_loadu_si512(from.cast()) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut u8, value: __m512i) {
            // SAFETY: the caller guarantees that 64 bytes can be written.
            unsafe { _mm512_storeu_si512(to.cast(), value) }
        }
        #[inline(always)]
        unsafe fn stream(self, to: *mut u8, value: __m512i) {
            // SAFETY: the caller guarantees that 64 aligned bytes can be written.
            unsafe { _mm512_stream_si512(to.cast(), value) }
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
        fn xor(self, a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: `self` proves that AVX-512 F is available.
            unsafe { _mm512_xor_si512(a, b) }
        }
        #[inline(always)]
        fn xor3(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
            // SAFETY: `self` proves that AVX-512 F is available. 0x96 is the truth table of a ^ b ^
            // c.
            unsafe { _mm512_ternarylogic_epi64::<0x96>(a, b, c) }
        }
        #[inline(always)]
        fn or(self, a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: `self` proves that AVX-512 F is available.
            unsafe { _mm512_or_si512(a, b) }
        }
        #[inline(always)]
        fn is_zero(self, a: __m512i) -> bool {
            // SAFETY: `self` proves that AVX-512 F is available.
            unsafe { _mm512_test_epi64_mask(a, a) == 0 }
        }
        #[inline(always)]
        unsafe fn load_part(self, from: *const u8, count: usize) -> __m512i {
            // SAFETY: `self` proves that AVX-512 BW is available; masked bytes are not accessed.
            unsafe { _mm512_maskz_loadu_epi8(first(count), from.cast()) }
        }
        #[inline(always)]
        unsafe fn store_part(self, to: *mut u8, count: usize, value: __m512i) {
            // SAFETY: `self` proves that AVX-512 BW is available; masked bytes are not accessed.
            unsafe { _mm512_mask_storeu_epi8(to.cast(), first(count), value) }
        }
    };
}

/// The mask of the first `count` bytes, fewer than 64.
#[inline(always)]
fn first(count: usize) -> __mmask64 {
    (1 << count) - 1
}

impl Vector for Avx512 {
    common!();
    type Factor = [__m512i; 2];
    const HORNER: bool = true;
    const APART: u8 = FIXED;

    #[inline(always)]
    fn double(self, a: __m512i) -> __m512i {
        // SAFETY: `self` proves that AVX-512 BW is available.
        unsafe {
            let carried = _mm512_maskz_mov_epi8(_mm512_movepi8_mask(a), _mm512_set1_epi8(0x1D));
            _mm512_xor_si512(_mm512_add_epi8(a, a), carried)
        }
    }
    #[inline(always)]
    fn double_apart(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves that AVX-512 BW is available.
        unsafe {
            self.xor3(_mm512_add_epi8(a, a), _mm512_shuffle_epi8(self.splat(REDUCTION), a), b)
        }
    }
    #[inline(always)]
    fn factor(self, constant: u8) -> [__m512i; 2] {
        let table = NIBBLES[usize::from(constant)].0.as_ptr();
        // SAFETY: `self` proves that AVX-512 F is available, and the table has 32 bytes.
        unsafe {
            [
                _mm512_broadcast_i32x4(_mm_loadu_si128(table.cast())),
                _mm512_broadcast_i32x4(_mm_loadu_si128(table.add(16).cast())),
            ]
        }
    }
    #[inline(always)]
    fn multiply(self, a: __m512i, [low, high]: [__m512i; 2]) -> __m512i {
        // SAFETY: `self` proves that AVX-512 BW is available.
        unsafe {
            let nibble = _mm512_set1_epi8(0x0F);
            let low = _mm512_shuffle_epi8(low, _mm512_and_si512(a, nibble));
            let high =
                _mm512_shuffle_epi8(high, _mm512_and_si512(_mm512_srli_epi64::<4>(a), nibble));
            _mm512_xor_si512(low, high)
        }
    }
}

impl Vector for Gfni {
    common!();
    type Factor = __m512i;
    const HORNER: bool = false;

    #[inline(always)]
    fn double(self, a: __m512i) -> __m512i {
        self.multiply(a, self.factor(2))
    }
    #[inline(always)]
    fn factor(self, constant: u8) -> __m512i {
        // SAFETY: `self` proves that AVX-512 F is available.
        unsafe { _mm512_set1_epi64(MATRICES[usize::from(constant)] as i64) }
    }
    #[inline(always)]
    fn multiply(self, a: __m512i, factor: __m512i) -> __m512i {
        // SAFETY: `self` proves that GFNI and AVX-512 F are available.
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(a, factor) }
    }
}

/// The kernel without GFNI.
pub(super) mod plain {
    use super::Avx512;
    super::super::kernel!(Avx512, columns: 4, of_sums: 4, feature: "avx512f,avx512bw");
}

/// The kernel with GFNI.
pub(super) mod gfni {
    use super::Gfni;
    super::super::kernel!(Gfni, columns: 4, of_sums: 4, feature: "avx512f,avx512bw,gfni");
}
