//! The operations on one register of bytes that a kernel needs.

/// A value of an implementing type guarantees that this processor supports the operations. It is
/// created only in functions that enable the same features.
pub(super) trait Vector: Copy {
    /// One register.
    type Reg: Copy;
    /// A constant in the format for multiplications.
    type Factor: Copy;
    /// Bytes in a register.
    const WIDTH: usize;
    /// Whether Q is summed by Horner's rule, because multiplying each term by its weight is slower.
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
    /// Writes a register with a streaming store, if the processor has one. [`Vector::fence`] must
    /// follow before the bytes are used.
    ///
    /// # Safety
    /// `WIDTH` bytes can be written at `to`, which is a multiple of `WIDTH`.
    unsafe fn stream(self, to: *mut u8, value: Self::Reg) {
        // SAFETY: the caller guarantees more than `store` requires.
        unsafe { self.store(to, value) }
    }
    /// Orders streamed writes before all later accesses.
    fn fence(self) {}
    /// Prefetches the cache line at `from`, which may be any address.
    fn prefetch(self, _from: *const u8) {}
    /// a + b
    fn xor(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;
    /// Whether [`Vector::xor3`] is one instruction.
    const XOR3: bool = false;
    /// a + b + c
    fn xor3(self, a: Self::Reg, b: Self::Reg, c: Self::Reg) -> Self::Reg {
        self.xor(self.xor(a, b), c)
    }
    /// Bitwise OR.
    fn or(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;
    /// Whether all bits are zero.
    fn is_zero(self, a: Self::Reg) -> bool;
    /// Each byte times 2.
    fn double(self, a: Self::Reg) -> Self::Reg;
    /// An offset of sums from their values that makes doubling cheaper:
    /// [`FIXED`](crate::field::FIXED), or zero. Additions and [`Vector::double_apart`] keep the
    /// offset.
    const APART: u8 = 0;
    /// 2a + b, where a and the result have the offset [`Vector::APART`].
    #[inline(always)]
    fn double_apart(self, a: Self::Reg, b: Self::Reg) -> Self::Reg {
        self.xor(self.double(a), b)
    }
    /// A register with all bytes equal to `byte`.
    fn splat(self, byte: u8) -> Self::Reg;
    /// Prepares a multiplication by `constant`.
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
        // SAFETY: no register is wider than `whole`, and the caller guarantees that `count` bytes
        // can be read.
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
        // SAFETY: no register is wider than `whole`, and the caller guarantees that `count` bytes
        // can be written.
        unsafe {
            self.store(whole.as_mut_ptr(), value);
            std::ptr::copy_nonoverlapping(whole.as_ptr(), to, count);
        }
    }
}
