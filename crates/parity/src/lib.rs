//! Parity over byte slices: exclusive or, in one pass over memory.
//!
//! ```
//! let (d0, d1) = ([0b1010u8; 100], [0b0110u8; 100]);
//! let mut p = [0u8; 100];
//! parity::xor_many(&mut p, &[&d0, &d1]);
//! assert_eq!(p, [0b1100; 100]);
//! parity::xor_into(&mut p, &d1); // and back to the other
//! assert_eq!(p, d0);
//! assert!(!parity::is_zero(&p));
//! ```
//!
//! Any length and alignment is taken. The loops are plain and safe, written so that the compiler makes
//! vector instructions of them: chunks of a fixed size, without bounds checks inside. Up to four sources
//! are taken in one pass over the destination, since memory, not arithmetic, is the bound.

/// Bytes per step of the loops: eight 64-bit words, a cache line.
const CHUNK: usize = 64;

/// `dst ^= src`, byte by byte.
///
/// # Panics
/// When the two differ in length.
pub fn xor_into(dst: &mut [u8], src: &[u8]) {
    fold(dst, [src]);
}

/// `dst` = the XOR of all `sources`, byte by byte; zeroes where there is none. What `dst` held before does
/// not matter.
///
/// # Panics
/// When a source differs from `dst` in length.
pub fn xor_many(dst: &mut [u8], sources: &[&[u8]]) {
    let rest = match *sources {
        [] => {
            dst.fill(0);
            return;
        }
        [a] => {
            dst.copy_from_slice(a);
            return;
        }
        [a, b] => {
            set(dst, [a, b]);
            return;
        }
        [a, b, c] => {
            set(dst, [a, b, c]);
            return;
        }
        [a, b, c, d, ref rest @ ..] => {
            set(dst, [a, b, c, d]);
            rest
        }
    };
    let (fours, last) = rest.as_chunks::<4>();
    for &four in fours {
        fold(dst, four);
    }
    match *last {
        [a] => fold(dst, [a]),
        [a, b] => fold(dst, [a, b]),
        [a, b, c] => fold(dst, [a, b, c]),
        _ => {}
    }
}

/// Whether every byte is zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (chunks, tail) = bytes.as_chunks::<CHUNK>();
    chunks.iter().all(|chunk| chunk.iter().fold(0, |any, byte| any | byte) == 0)
        && tail.iter().all(|byte| *byte == 0)
}

/// `dst` = the XOR of `sources`, in one pass.
fn set<const N: usize>(dst: &mut [u8], sources: [&[u8]; N]) {
    pass(dst, sources, |_| 0);
}

/// `dst ^=` the XOR of `sources`, in one pass.
fn fold<const N: usize>(dst: &mut [u8], sources: [&[u8]; N]) {
    pass(dst, sources, |old| old);
}

/// One pass over memory: each byte of `dst` becomes `start` of what it was, XORed with the sources' bytes.
#[inline(always)]
fn pass<const N: usize>(dst: &mut [u8], sources: [&[u8]; N], start: impl Fn(u8) -> u8) {
    let length = dst.len();
    for source in sources {
        assert_eq!(source.len(), length, "XOR of slices of different lengths");
    }
    let (dst_chunks, dst_tail) = dst.as_chunks_mut::<CHUNK>();
    let split = sources.map(|source| source.as_chunks::<CHUNK>());
    for (i, dst_chunk) in dst_chunks.iter_mut().enumerate() {
        let mut sum: [u8; CHUNK] = dst_chunk.map(&start);
        for (chunks, _) in split {
            for (byte, source) in sum.iter_mut().zip(&chunks[i]) {
                *byte ^= source;
            }
        }
        *dst_chunk = sum;
    }
    for (i, byte) in dst_tail.iter_mut().enumerate() {
        *byte = split.iter().fold(start(*byte), |sum, (_, tail)| sum ^ tail[i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Deterministic bytes that differ from source to source.
    fn bytes(seed: usize, length: usize) -> Vec<u8> {
        let mut state = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (0..length)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            })
            .collect()
    }

    fn byte_at_a_time(length: usize, sources: &[&[u8]]) -> Vec<u8> {
        (0..length).map(|i| sources.iter().fold(0, |sum, source| sum ^ source[i])).collect()
    }

    #[test]
    fn xor_agrees_with_byte_at_a_time_for_every_length_alignment_and_number_of_sources() {
        for length in (0..200).chain([4096, 4099]) {
            for count in 0..13 {
                let misaligned = count % 9;
                let stored: Vec<Vec<u8>> = (0..count).map(|seed| bytes(seed, length + misaligned)).collect();
                let sources: Vec<&[u8]> = stored.iter().map(|bytes| &bytes[misaligned..]).collect();
                let mut dst = bytes(99, length + 3);
                xor_many(&mut dst[3..], &sources);
                assert_eq!(dst[3..], byte_at_a_time(length, &sources), "{count} sources of {length}");
                assert_eq!(dst[..3], bytes(99, 3), "nothing before the destination changes");
            }
        }
    }

    proptest! {
        #[test]
        fn xor_into_twice_is_nothing(dst in prop::collection::vec(any::<u8>(), 0..300), seed in 0usize..100) {
            let src = bytes(seed, dst.len());
            let mut twice = dst.clone();
            xor_into(&mut twice, &src);
            prop_assert_eq!(&twice, &byte_at_a_time(dst.len(), &[&dst, &src]));
            xor_into(&mut twice, &src);
            prop_assert_eq!(twice, dst);
        }
    }

    #[test]
    fn one_bit_anywhere_is_not_zero() {
        for length in 0..200 {
            let mut buffer = vec![0; length];
            assert!(is_zero(&buffer));
            for i in 0..length {
                buffer[i] = 1 << (i % 8);
                assert!(!is_zero(&buffer), "bit in byte {i} of {length}");
                buffer[i] = 0;
            }
        }
    }

    #[test]
    #[should_panic(expected = "different lengths")]
    fn a_source_of_another_length_is_a_mistake_of_the_caller() {
        xor_many(&mut [0; 8], &[&[0; 8], &[0; 7]]);
    }
}
