//! The metadata that identify a drive to other systems.

use super::glimpse::{Glimpse, RangeState};
use super::{imsm, md};
use crate::ddf::{self, Effort, HEADER_SIGNATURE, Look, Step};
use crate::tail::{Tail, TailPlace};
use units::{ByteCount, ByteOffset, ByteRange};

/// The blocks that other systems need to detect the drive as a member: superblocks of Linux md,
/// anchors of IMSM and of DDF, DDF's headers. They are in the order of removal. Call this until the
/// probe buffer wants nothing more.
pub fn metadata(glimpse: &Glimpse) -> Vec<ByteRange> {
    let mut ranges = ddf_anchors(glimpse);
    if let Look::Found(drive) = ddf::look(glimpse, Effort::Own) {
        ranges.extend(ddf::clear(&drive).into_iter().filter_map(|step| match step {
            Step::Write { at, bytes } => Some(ByteRange::new(at, ByteCount::of(&bytes))),
            Step::Flush => None,
        }));
    }
    ranges.extend(md::places(glimpse));
    ranges.extend(imsm::places(glimpse));
    let mut once: Vec<ByteRange> = Vec::new();
    for range in ranges {
        if !once.contains(&range) {
            once.push(range);
        }
    }
    once
}

/// Whether a tail in front may be valid: its drive carries an array of Linux md that does not use
/// this space. Call this until the probe buffer wants nothing more.
pub fn leaves_room(glimpse: &Glimpse, tail: &Tail) -> bool {
    let Some(unused) = md::unused_in_front(glimpse) else { return false };
    let is_free = |range: &ByteRange| unused.iter().any(|unused| unused.contains(*range));
    let [anchor, ..] = tail.marks();
    is_free(&tail.range()) && (tail.place() != TailPlace::FrontWithAnchor || is_free(&anchor))
}

/// Anchors at the standard's places and Adaptec's, valid or not.
fn ddf_anchors(glimpse: &Glimpse) -> Vec<ByteRange> {
    let begins = [HEADER_SIGNATURE.to_be_bytes(), HEADER_SIGNATURE.to_le_bytes()];
    let size = glimpse.size().0;
    let places =
        [(512, 512), (512 * 257, 512), (4096, 4096)].into_iter().filter_map(|(back, len)| {
            let start = size.checked_sub(back)?;
            (start % len == 0).then_some(ByteRange::new(ByteOffset(start), ByteCount(len)))
        });
    let is_one = |range: &ByteRange| match glimpse.get(*range) {
        RangeState::Read(block) => begins.iter().any(|begin| block.starts_with(begin)),
        RangeState::Unreadable | RangeState::NotYet => false,
    };
    places.filter(is_one).collect()
}
