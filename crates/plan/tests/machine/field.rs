//! The field in which Q is computed, from its definition: bytes are polynomials modulo x^8 + x^4 +
//! x^3 + x^2 + 1.

/// The product of two elements.
pub fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        product ^= if b & 1 == 1 { a } else { 0 };
        a = a << 1 ^ if a & 0x80 != 0 { 0x1D } else { 0 };
        b >>= 1;
    }
    product
}

/// 2 to a power.
pub fn power(exponent: u8) -> u8 {
    (0..exponent).fold(1, |power, _| multiply(power, 2))
}

/// The inverse of an element that is not zero.
pub fn inverse(element: u8) -> u8 {
    // The order of the field's units is 255: the 254th power.
    (0..254).fold(1, |power, _| multiply(power, element))
}
