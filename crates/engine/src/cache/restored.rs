//! What was found in a data log after a power cut, as dirty data of the volume that had it.

use crate::cache::{Cache, Waiting, held::Held};
use env::{Durability, Slice};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

impl Cache {
    /// Bytes that were found in an earlier data log are dirty.
    pub(super) fn restore(self: &Rc<Self>, restored: &[(ByteRange, Slice)]) {
        if restored.is_empty() {
            return;
        }
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
