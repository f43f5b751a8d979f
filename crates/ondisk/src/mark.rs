//! The mark in the last 4 KiB of a drive, by which anybody sees that it is one of ours.

use crate::tail::{BLOCK, Tail};

/// How the last 4 KiB of a drive begin that carries a label.
pub const MARK: [u8; 16] = *b"SoftROC member\0\0";

/// The last 4 KiB of a drive with that tail: the mark and where the label lies.
pub fn mark(tail: &Tail) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK.as_usize()];
    bytes[..16].copy_from_slice(&MARK);
    bytes[16..24].copy_from_slice(&tail.start().0.to_le_bytes());
    bytes
}
