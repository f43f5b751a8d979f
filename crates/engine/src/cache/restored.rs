//! Data found in a data log after a power cut, restored as dirty data of its volume.
//!
//! # Invariants
//! - While the records may be replayed, no write to their bytes is acknowledged: the next process
//!   would restore the records over it.

use crate::cache::Cache;
use crate::cache::held::{Held, Waiting};
use platform::{Durability, IoError, Slice};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

impl Cache {
    /// Adds the bytes found in an earlier data log as dirty data.
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

    /// Waits until no replay overrides these bytes, which a host has written or trimmed, with
    /// restored data.
    ///
    /// # Errors
    /// When the volume is detached before.
    pub(crate) async fn outlasts_restored(&self, range: ByteRange) -> Result<(), IoError> {
        let may_be_replayed = self.is_unfenced()
            && self.restored.borrow().iter().any(|restored| restored.overlaps(range));
        if may_be_replayed { self.fenced().await } else { Ok(()) }
    }

    /// The stripes of a range of the volume: the range in each stripe, and its offset in the input.
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
