//! The field GF(2^8) of Q: polynomials over bits modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11D). The
//! element 2 generates all elements but zero. Linux md, DDF and ISA-L's P+Q use the same field.
//!
//! Addition is XOR. All tables are computed at compile time from [`double`].

/// The reduction polynomial.
pub const POLYNOMIAL: u16 = 0x11D;

/// The reduction of a doubled byte with a carry: the polynomial without its top bit.
pub(crate) const REDUCTION: u8 = (POLYNOMIAL & 0xFF) as u8;

/// The element f with 2f = f + [`REDUCTION`]: a third of it.
///
/// `pshufb` returns zero for an index with the high bit set. With a table of R (the reduction), it
/// returns R exactly where a doubling must *not* add it: the shifted byte plus this result is the
/// double plus R. For a sum a + f this gives 2 (a + f) + R = 2a + f: the double of a, again plus f,
/// without the comparison of an exact doubling.
#[cfg(target_arch = "x86_64")]
pub(crate) const FIXED: u8 = {
    let mut third = 0;
    while multiply(3, third) != REDUCTION {
        third += 1;
    }
    third
};

#[cfg(target_arch = "x86_64")]
const _: () = assert!(double(FIXED) == FIXED ^ REDUCTION);

/// The order of 2: `2^255 = 1`, so exponents count modulo 255.
pub const ORDER: usize = 255;

/// Twice `a`.
pub const fn double(a: u8) -> u8 {
    (a << 1) ^ if a & 0x80 == 0 { 0 } else { REDUCTION }
}

/// The product, bit by bit; the tables are computed from it and tested with it.
pub const fn multiply(a: u8, b: u8) -> u8 {
    let (mut a, mut b, mut sum) = (a, b, 0);
    while b != 0 {
        if b & 1 == 1 {
            sum ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    sum
}

/// `2^exponent`, for any exponent.
pub const fn power(exponent: usize) -> u8 {
    POWERS[exponent % ORDER]
}

/// The exponent below 255 of `a`, or `None` for zero, which is no power of 2.
pub const fn logarithm(a: u8) -> Option<u8> {
    if a == 0 { None } else { Some(LOGARITHMS[a as usize]) }
}

/// The multiplicative inverse of `a`, or `None` for zero.
pub const fn inverse(a: u8) -> Option<u8> {
    match logarithm(a) {
        None => None,
        Some(exponent) => Some(power(ORDER - exponent as usize)),
    }
}

static POWERS: [u8; ORDER] = powers();
static LOGARITHMS: [u8; 256] = logarithms();

/// For each constant, its products with the low nibbles 0x00–0x0F, then with the high nibbles
/// 0x00–0xF0. The product with a byte is the XOR of one of each (`pshufb` looks up sixteen at a
/// time).
#[cfg(target_arch = "x86_64")]
pub(crate) static NIBBLES: [Nibbles; 256] = nibbles();

/// For each constant, the 8 × 8 bit matrix that multiplies by it, in the format of `gf2p8affineqb`:
/// the row of output bit 7 in the lowest byte. (`gf2p8mulb` cannot be used: it is fixed to the
/// polynomial 0x11B.)
#[cfg(target_arch = "x86_64")]
pub(crate) static MATRICES: [u64; 256] = matrices();

/// Sixteen products with low nibbles, then sixteen with high nibbles.
#[cfg(target_arch = "x86_64")]
#[repr(C, align(32))]
pub(crate) struct Nibbles(pub [u8; 32]);

const fn powers() -> [u8; ORDER] {
    let mut table = [1; ORDER];
    let mut i = 1;
    while i < ORDER {
        table[i] = double(table[i - 1]);
        i += 1;
    }
    table
}

const fn logarithms() -> [u8; 256] {
    let powers = powers();
    let mut table = [0; 256];
    let mut i = 0;
    while i < ORDER {
        table[powers[i] as usize] = i as u8;
        i += 1;
    }
    table
}

#[cfg(target_arch = "x86_64")]
const fn nibbles() -> [Nibbles; 256] {
    let mut table = [const { Nibbles([0; 32]) }; 256];
    let mut constant = 0;
    while constant < 256 {
        let mut i = 0;
        while i < 16 {
            table[constant].0[i] = multiply(constant as u8, i as u8);
            table[constant].0[16 + i] = multiply(constant as u8, (i as u8) << 4);
            i += 1;
        }
        constant += 1;
    }
    table
}

#[cfg(target_arch = "x86_64")]
const fn matrices() -> [u64; 256] {
    let mut table = [0; 256];
    let mut constant = 0;
    while constant < 256 {
        let mut bit_in = 0;
        while bit_in < 8 {
            let product = multiply(constant as u8, 1 << bit_in);
            let mut bit_out = 0;
            while bit_out < 8 {
                if product >> bit_out & 1 == 1 {
                    table[constant] |= 1 << (8 * (7 - bit_out) + bit_in);
                }
                bit_out += 1;
            }
            bit_in += 1;
        }
        constant += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product by long division of polynomials.
    fn by_long_division(a: u8, b: u8) -> u8 {
        let mut product =
            (0..8).filter(|i| b >> i & 1 == 1).fold(0u16, |sum, i| sum ^ (u16::from(a) << i));
        for bit in (8..15).rev() {
            if product >> bit & 1 == 1 {
                product ^= POLYNOMIAL << (bit - 8);
            }
        }
        product as u8
    }

    #[test]
    fn every_product_is_that_of_long_division() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(multiply(a, b), by_long_division(a, b), "{a} × {b}");
            }
        }
    }

    #[test]
    fn two_generates_every_element_but_zero_and_logarithms_invert_powers() {
        let mut seen = [false; 256];
        for exponent in 0..ORDER {
            let element = power(exponent);
            assert!(
                !std::mem::replace(&mut seen[usize::from(element)], true),
                "2^{exponent} is a duplicate"
            );
            assert_eq!(logarithm(element), Some(exponent as u8));
            assert_eq!(power(exponent + ORDER), element);
        }
        assert!(!seen[0]);
        assert_eq!(logarithm(0), None);
    }

    #[test]
    fn an_element_times_its_inverse_is_one() {
        for a in 1..=255 {
            assert_eq!(multiply(a, inverse(a).unwrap()), 1);
        }
        assert_eq!(inverse(0), None);
    }
}
