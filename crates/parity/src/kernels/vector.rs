//! What a kernel needs of a processor: a few operations on one register of bytes.

/// A value of an implementing type is a promise that this processor has what the operations need; it is made
/// only in functions that enable the same features.
pub(super) trait Vector: Copy {
    /// One register.
    type Reg: Copy;
    /// A constant, as multiplications take it.
    type Factor: Copy;
    /// Bytes in a register.
    const WIDTH: usize;
    /// Whether Q is summed by doubling from the highest exponent down (Horner), because multiplying each
    /// summand with its own weight is dearer.
    const HORNER: bool;

    /// All bits zero.
    fn zero(self) -> Self::Reg;
    /// Reads a register.
    ///
    /// # Safety
    /// `WIDTH` bytes can be read at `from`, which may be unaligned.
    unsafe fn load(self, from: *const u8) -> Self::Reg;
    /// Writes a register.
    ///
    /// # Safety
    /// `WIDTH` bytes can be written at `to`, which may be unaligned.
    unsafe fn store(self, to: *mut u8, value: Self::Reg);
    /// Writes a register past the caches, where the processor can. [`Vector::fence`] has to follow before
    /// anyone relies on the bytes.
    ///
    /// # Safety
    /// `WIDTH` bytes can be written at `to`, which is a multiple of `WIDTH`.
    unsafe fn stream(self, to: *mut u8, value: Self::Reg) {
        // SAFETY: the caller's promise is that of `store`, and more.
        unsafe { self.store(to, value) }
    }
    /// Orders streamed writes before all that follows.
    fn fence(self) {}
    /// Brings the cache line at `from`, which may be anywhere, nearer.
    fn prefetch(self, _from: *const u8) {}
    /// a + b
    fn xor(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;
    /// Whether [`Vector::xor3`] is one instruction.
    const XOR3: bool = false;
    /// a + b + c
    fn xor3(self, a: Self::Reg, b: Self::Reg, c: Self::Reg) -> Self::Reg {
        self.xor(self.xor(a, b), c)
    }
    /// The bits set in either.
    fn or(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;
    /// Whether all bits are zero.
    fn is_zero(self, a: Self::Reg) -> bool;
    /// Each byte times 2.
    fn double(self, a: Self::Reg) -> Self::Reg;
    /// By how much sums may differ from their values so that doubling them is cheaper, if it is anything but zero:
    /// [`FIXED`](crate::field::FIXED). Additions leave the difference as it is, and so does [`Vector::double_apart`].
    const APART: u8 = 0;
    /// Twice a, plus b, where a and the result are [`Vector::APART`] from their values.
    #[inline(always)]
    fn double_apart(self, a: Self::Reg, b: Self::Reg) -> Self::Reg {
        self.xor(self.double(a), b)
    }
    /// All bytes the same.
    fn splat(self, byte: u8) -> Self::Reg;
    /// Makes ready to multiply by `constant`.
    fn factor(self, constant: u8) -> Self::Factor;
    /// Each byte times the constant.
    fn multiply(self, a: Self::Reg, factor: Self::Factor) -> Self::Reg;

    /// Reads the first `count` bytes of a register; the others are zero.
    ///
    /// # Safety
    /// `count`, at most `WIDTH`, bytes can be read at `from`.
    #[inline(always)]
    unsafe fn load_part(self, from: *const u8, count: usize) -> Self::Reg {
        let mut whole = [0u8; 64];
        // SAFETY: no register is wider than `whole`, and the caller says that `count` bytes can be read.
        unsafe {
            std::ptr::copy_nonoverlapping(from, whole.as_mut_ptr(), count);
            self.load(whole.as_ptr())
        }
    }

    /// Writes the first `count` bytes of a register.
    ///
    /// # Safety
    /// `count`, at most `WIDTH`, bytes can be written at `to`.
    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, count: usize, value: Self::Reg) {
        let mut whole = [0u8; 64];
        // SAFETY: no register is wider than `whole`, and the caller says that `count` bytes can be written.
        unsafe {
            self.store(whole.as_mut_ptr(), value);
            std::ptr::copy_nonoverlapping(whole.as_ptr(), to, count);
        }
    }
}
