//! Mutations for the test: derived from a seed, equal on every computer. The engine has its own.

use crate::Target;

/// Numbers from a seed: SplitMix64 (Steele, Lea, Flood 2014).
pub struct Numbers(u64);

impl Numbers {
    /// The numbers of a seed.
    pub fn of(seed: u64) -> Numbers {
        Numbers(seed)
    }

    /// The next.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// One below `limit`, which is at least 1.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.any() % limit.max(1) as u64) as usize
    }
}

/// Boundary values of decoders: zero, all ones, the limits of each width, and powers of two.
fn boundary_value(numbers: &mut Numbers) -> u64 {
    match numbers.below(6) {
        0 => 0,
        1 => u64::MAX >> (8 * numbers.below(8)),
        2 => 1 << numbers.below(64),
        3 => (1_u64 << numbers.below(64)).wrapping_sub(1),
        4 => numbers.below(300) as u64,
        _ => numbers.any(),
    }
}

/// An input derived from those of a corpus, which is not empty.
pub fn input(target: &Target, corpus: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut input = corpus[numbers.below(corpus.len())].clone();
    for _ in 0..=numbers.below(6) {
        change(&mut input, target, corpus, numbers);
    }
    input.truncate(target.longest);
    input
}

fn change(input: &mut Vec<u8>, target: &Target, corpus: &[Vec<u8>], numbers: &mut Numbers) {
    let at = numbers.below(input.len() + 1);
    let with_words = if target.words.is_empty() { 0 } else { 4 };
    match numbers.below(12 + with_words) {
        0..=1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << numbers.below(8);
            }
        }
        2 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = numbers.any() as u8;
            }
        }
        3..=7 => {
            let width = [1, 2, 4, 8][numbers.below(4)];
            let value = boundary_value(numbers);
            let bytes = if numbers.below(2) == 0 {
                value.to_le_bytes()
            } else {
                value.rotate_left(64 - 8 * width as u32).to_be_bytes()
            };
            // Most numbers begin at multiples of their width.
            let at = if numbers.below(4) == 0 { at } else { at / width * width };
            if let Some(place) = input.get_mut(at..at + width) {
                place.copy_from_slice(&bytes[..width]);
            }
        }
        8 => {
            let end = (at + numbers.below(16)).min(input.len());
            input.drain(at..end);
        }
        9 => {
            let len = 1 + numbers.below(12);
            let fill = if numbers.below(2) == 0 { 0 } else { numbers.any() as u8 };
            input.splice(at..at, std::iter::repeat_n(fill, len));
        }
        10 => {
            let from = numbers.below(input.len() + 1);
            let len = numbers.below(64).min(input.len() - from).min(input.len() - at);
            input.copy_within(from..from + len, at);
        }
        11 => {
            let other = &corpus[numbers.below(corpus.len())];
            let from = numbers.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => {
            let word = target.words[numbers.below(target.words.len())];
            let end = if numbers.below(2) == 0 { at } else { (at + word.len()).min(input.len()) };
            input.splice(at..end, word.bytes());
        }
    }
}
