//! Eight bytes at a time, in 64-bit words, for all processors. The compiler turns groups of words
//! into the vector instructions that the target always has (SSE2, NEON).

use super::vector::Vector;

/// Words in a register: two of SSE2's or NEON's.
const WORDS: usize = 4;
const LOW_7_BITS: u64 = 0x7F7F_7F7F_7F7F_7F7F;
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// 64-bit arithmetic.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Vector for Portable {
    type Reg = [u64; WORDS];
    type Factor = u8;
    const WIDTH: usize = 8 * WORDS;
    const HORNER: bool = true;

    #[inline(always)]
    fn zero(self) -> Self::Reg {
        [0; WORDS]
    }
    #[inline(always)]
    fn splat(self, byte: u8) -> Self::Reg {
        [LOW_BITS * u64::from(byte); WORDS]
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> Self::Reg {
        // SAFETY: the caller guarantees that these bytes can be read; the type has no invalid
        // values.
        unsafe { from.cast::<Self::Reg>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8, value: Self::Reg) {
        // SAFETY: the caller guarantees that these bytes can be written.
        unsafe { to.cast::<Self::Reg>().write_unaligned(value) }
    }
    #[inline(always)]
    fn xor(self, a: Self::Reg, b: Self::Reg) -> Self::Reg {
        std::array::from_fn(|i| a[i] ^ b[i])
    }
    #[inline(always)]
    fn or(self, a: Self::Reg, b: Self::Reg) -> Self::Reg {
        std::array::from_fn(|i| a[i] | b[i])
    }
    #[inline(always)]
    fn is_zero(self, a: Self::Reg) -> bool {
        a == [0; WORDS]
    }
    #[inline(always)]
    fn double(self, a: Self::Reg) -> Self::Reg {
        a.map(|word| {
            // 0x1D for each byte with a carry: first 0xFF (0x100 - 1, the borrow stays in the
            // byte), then masked.
            let high = word >> 7 & LOW_BITS;
            let carried = (high << 8).wrapping_sub(high) & (LOW_BITS * 0x1D);
            ((word & LOW_7_BITS) << 1) ^ carried
        })
    }
    #[inline(always)]
    fn factor(self, constant: u8) -> u8 {
        constant
    }
    #[inline(always)]
    fn multiply(self, a: Self::Reg, factor: u8) -> Self::Reg {
        let (mut bits, mut power, mut product) = (factor, a, [0; WORDS]);
        while bits != 0 {
            if bits & 1 == 1 {
                product = self.xor(product, power);
            }
            bits >>= 1;
            if bits != 0 {
                power = self.double(power);
            }
        }
        product
    }
}

super::kernel!(Portable, columns: 2, of_sums: 2);
