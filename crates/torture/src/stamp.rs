//! The content of sectors, which identifies its write.
//!
//! A sector consists of 32-byte cells with equal information: a magic number, the sector's address,
//! the write's generation, and the cell's number under a mask derived from both. So misdirected,
//! stale and torn sectors are recognised.

use platform::sync::split_mix;
use std::fmt;

/// The bytes per cell.
pub const CELL: usize = 32;

const MAGIC: u64 = u64::from_le_bytes(*b"torture!");

/// The number of a write: unique, and higher for later writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Generation(pub u64);

/// The number of a sector of the volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Sector(pub u64);

fn mask(sector: Sector, generation: Generation) -> u64 {
    split_mix(sector.0.rotate_left(32) ^ generation.0).1
}

/// Fills `target`, a whole sector, with the stamp of `generation`.
pub fn fill(target: &mut [u8], sector: Sector, generation: Generation) {
    let mask = mask(sector, generation);
    for (number, cell) in target.chunks_exact_mut(CELL).enumerate() {
        let words = [MAGIC, sector.0, generation.0, mask ^ number as u64];
        for (place, word) in cell.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// The recognised content of some bytes of a sector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Recognised {
    /// Only zeroes.
    Zeroes,
    /// The stamp of one write.
    Stamp(Sector, Generation),
    /// Runs of cells of different writes, or zeroes (`None`), each with its number of cells.
    Mixture(Vec<(Option<(Sector, Generation)>, usize)>),
    /// Unknown bytes.
    Unknown,
}

fn word(cell: &[u8], index: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&cell[index * 8..][..8]);
    u64::from_le_bytes(word)
}

/// Recognises whole cells; the first is cell `first` of its sector.
pub fn recognise(bytes: &[u8], first: usize) -> Recognised {
    if bytes.iter().all(|byte| *byte == 0) {
        return Recognised::Zeroes;
    }
    let mut runs: Vec<(Option<(Sector, Generation)>, usize)> = Vec::new();
    for (number, cell) in bytes.chunks_exact(CELL).enumerate() {
        let (sector, generation) = (Sector(word(cell, 1)), Generation(word(cell, 2)));
        let stamped = word(cell, 0) == MAGIC
            && word(cell, 3) == mask(sector, generation) ^ (first + number) as u64;
        let who = if stamped {
            Some((sector, generation))
        } else if cell.iter().all(|byte| *byte == 0) {
            None
        } else {
            return Recognised::Unknown;
        };
        match runs.last_mut() {
            Some((last, count)) if *last == who => *count += 1,
            _ => runs.push((who, 1)),
        }
    }
    match runs.as_slice() {
        [(Some((sector, generation)), _)] => Recognised::Stamp(*sector, *generation),
        [] => Recognised::Unknown,
        _ => Recognised::Mixture(runs),
    }
}

impl fmt::Display for Recognised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recognised::Zeroes => f.write_str("zeroes"),
            Recognised::Stamp(sector, generation) => {
                write!(f, "write {} to sector {}", generation.0, sector.0)
            }
            Recognised::Unknown => f.write_str("unknown bytes"),
            Recognised::Mixture(runs) => {
                f.write_str("a mixture:")?;
                for (index, (who, cells)) in runs.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    match who {
                        Some((sector, generation)) => write!(
                            f,
                            "{comma} {cells} cells of write {} to sector {}",
                            generation.0, sector.0
                        )?,
                        None => write!(f, "{comma} {cells} cells of zeroes")?,
                    }
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(sector: u64, generation: u64) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        fill(&mut bytes, Sector(sector), Generation(generation));
        bytes
    }

    #[test]
    fn a_sector_tells_whose_it_is() {
        assert_eq!(recognise(&stamped(7, 9), 0), Recognised::Stamp(Sector(7), Generation(9)));
        assert_eq!(
            recognise(&stamped(7, 9)[64..96], 2),
            Recognised::Stamp(Sector(7), Generation(9))
        );
        assert_eq!(recognise(&[0; 512], 0), Recognised::Zeroes);
    }

    #[test]
    fn a_torn_sector_and_a_shifted_one_give_themselves_away() {
        let mut torn = stamped(7, 9);
        torn[256..].copy_from_slice(&stamped(7, 8)[256..]);
        assert_eq!(
            recognise(&torn, 0).to_string(),
            "a mixture: 8 cells of write 9 to sector 7, 8 cells of write 8 to sector 7"
        );
        let mut shifted = stamped(7, 9);
        shifted.rotate_left(CELL);
        assert_eq!(recognise(&shifted, 0), Recognised::Unknown);
        let mut flipped = stamped(7, 9);
        flipped[300] ^= 1;
        assert_eq!(recognise(&flipped, 0), Recognised::Unknown);
    }
}
