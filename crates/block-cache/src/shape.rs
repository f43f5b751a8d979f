//! Geometry of cache lines, and the limits of one plan.

use crate::merge::merge;
use std::collections::BTreeSet;
use units::{ByteCount, ByteRange};

/// Most writes per plan: each is a memory segment, and a drive I/O has a limited number.
const MOST_WRITES: usize = 128;

/// Most writes per plan of a full stripe: they are distributed over all drives.
const MOST_WRITES_OF_WHOLE: usize = 1024;

/// Stripe geometry of a volume, and how much of a stripe one plan can destage.
#[derive(Clone, Copy, Debug)]
pub struct LineShape {
    /// Bytes of data in a stripe.
    pub stripe: ByteCount,
    /// Bytes of a strip.
    pub strip: ByteCount,
    /// Number of parity strips per stripe. With 0, the cache does not wait for full stripes.
    pub parity_strips: u16,
    /// Size of a cache block. An acknowledged write is freed in whole cache blocks.
    pub cell: ByteCount,
    /// Most column runs into which the extents of a plan may cut a strip.
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

    /// How many of these writes, in order, fit into one plan: at least one.
    pub(crate) fn how_many_fit(&self, writes: &[ByteRange], most: Option<ByteCount>) -> usize {
        let is_one_plan =
            writes.len() <= MOST_WRITES_OF_WHOLE && self.is_whole(writes.iter().copied());
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
            let is_too_much =
                cuts.len() > self.most_runs + 1 || most.is_some_and(|most| bytes > most.0);
            if index > 0 && is_too_much {
                return index;
            }
        }
        writes.len()
    }

    /// Adds the columns at which a write cuts a strip.
    fn cut(&self, write: ByteRange, cuts: &mut BTreeSet<u64>) {
        let (strip, start, end) = (self.strip.0, write.start.0, write.end().0);
        cuts.extend([start % strip, (end - 1) % strip + 1]);
        if start / strip != (end - 1) / strip {
            cuts.extend([0, strip]);
        }
    }
}
