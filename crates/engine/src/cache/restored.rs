//! What was found in a data log after a power cut, as dirty data of the volume that had it.
//!
//! # Invariants
//! - As long as the records may be replayed, no host is told that bytes of theirs are written: a process that is killed is followed by
//!   one that lays the records over what the drives hold once more.

use crate::cache::{Cache, Waiting, held::Held};
use platform::{Durability, IoError, Slice};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

impl Cache {
    /// Bytes that were found in an earlier data log are dirty.
    pub(super) fn restore(self: &Rc<Self>, restored: &[(ByteRange, Slice)]) {
        if restored.is_empty() {
            return;
        }
        self.restored.borrow_mut().extend(restored.iter().map(|(range, _)| *range));
        let waiting = Waiting::new(Durability::Cached);
        for (range, bytes) in restored {
            for (stripe, within, at) in self.parts_of_stripes(*range) {
                if self.is_mine(stripe) {
                    let held = Held::given(bytes.cut(at, within.len), waiting.clone());
                    self.admit_found(stripe, within, held);
                }
            }
        }
        self.note_dirty();
    }

    /// A host has written or trimmed these bytes. Done when no replay lays over them what an earlier process had promised of them.
    ///
    /// # Errors
    /// When the volume goes away before.
    pub(crate) async fn outlasts_restored(&self, range: ByteRange) -> Result<(), IoError> {
        let may_be_replayed =
            self.is_unfenced() && self.restored.borrow().iter().any(|restored| restored.overlaps(range));
        if may_be_replayed { self.fenced().await } else { Ok(()) }
    }

    /// The stripes of a run of the volume's bytes: which bytes of each, and from where on in the run.
    fn parts_of_stripes(&self, range: ByteRange) -> Vec<(StripeIndex, ByteRange, ByteCount)> {
        let (mut parts, mut at) = (Vec::new(), range.start);
        while at < range.end() {
            let (stripe, within) = self.geometry().stripe_of(at);
            let len = (self.geometry().stripe_bytes() - within).min(range.end() - at);
            parts.push((stripe, ByteRange::new(ByteOffset(within.0), len), at - range.start));
            at += len;
        }
        parts
    }
}
