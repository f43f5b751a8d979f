//! How the lines of a volume lie, and what of one can be destaged by one plan.

use crate::merge::merge;
use std::collections::BTreeSet;
use units::{ByteCount, ByteRange};

/// The most writes that one plan carries out: each is a run of memory, of which a drive's operation has not too many.
const MOST_WRITES: usize = 128;

/// The most writes that a plan of a whole stripe carries out: they are dealt to all its drives.
const MOST_WRITES_OF_WHOLE: usize = 1024;

/// How the stripes of a volume lie, and how much of one can be destaged by one plan.
#[derive(Clone, Copy, Debug)]
pub struct LineShape {
    /// Bytes of data in a stripe.
    pub stripe: ByteCount,
    /// Bytes of a strip.
    pub strip: ByteCount,
    /// How many strips of a stripe are parity. Where there are none, a whole stripe is worth no waiting.
    pub parity_strips: u16,
    /// What is answered is kept in cells of so many bytes, each of which is forgotten as a whole.
    pub cell: ByteCount,
    /// Into how many runs of columns the extents of a plan may cut a strip.
    pub most_runs: usize,
}

impl LineShape {
    /// Whether writes cover the whole stripe.
    pub(crate) fn is_whole(&self, writes: impl Iterator<Item = ByteRange>) -> bool {
        let writes: Vec<ByteRange> = writes.collect();
        let at_most: u64 = writes.iter().map(|range| range.len.0).sum();
        at_most >= self.stripe.0
            && merge(&writes).iter().map(|extent| extent.range.len.0).sum::<u64>() == self.stripe.0
    }

    /// How many of these writes, from the first on, one plan can carry out: one at least.
    pub(crate) fn how_many_fit(&self, writes: &[ByteRange], most: Option<ByteCount>) -> usize {
        let is_one_plan = writes.len() <= MOST_WRITES_OF_WHOLE && self.is_whole(writes.iter().copied());
        if writes.len() < 2 || is_one_plan {
            return writes.len();
        }
        let writes = &writes[..writes.len().min(MOST_WRITES)];
        let (mut cuts, mut data): (BTreeSet<u64>, u64) = (BTreeSet::new(), 0);
        for (index, write) in writes.iter().enumerate() {
            data += write.len.0;
            self.cut(*write, &mut cuts);
            let columns = cuts.last().zip(cuts.first()).map_or(0, |(last, first)| last - first);
            let bytes = data + u64::from(self.parity_strips) * columns;
            let is_too_much = cuts.len() > self.most_runs + 1 || most.is_some_and(|most| bytes > most.0);
            if index > 0 && is_too_much {
                return index;
            }
        }
        writes.len()
    }

    /// Notes where a write cuts the columns of a strip.
    fn cut(&self, write: ByteRange, cuts: &mut BTreeSet<u64>) {
        let (strip, start, end) = (self.strip.0, write.start.0, write.end().0);
        cuts.extend([start % strip, (end - 1) % strip + 1]);
        if start / strip != (end - 1) / strip {
            cuts.extend([0, strip]);
        }
    }
}
