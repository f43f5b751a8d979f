//! The sequential streams of reads of a volume, and the runs of each on a drive: see
//! [`balance`](crate::members::balance).

use crate::attachment::StreamSharing;
use layout::CopyIndex;
use std::cell::RefCell;

/// The number of tracked streams.
const STREAMS: usize = 16;
/// The shortest run of a stream on one drive, and the least a drive must have queued when its run
/// ends: reading this takes longer than a seek.
pub(super) const LEAST_RUN_BYTES: u64 = 1 << 20;
/// The longest run: beyond it, seeks hardly matter.
const MOST_RUN_BYTES: u64 = 4 << 20;

/// The end of a read, where the next one of the stream is expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stream {
    /// Byte of the volume.
    pub(super) end: u64,
    pub(super) copy: CopyIndex,
    /// The rest of the run, in bytes of the volume.
    pub(super) left: u64,
}

/// The latest streams of a volume.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) sharing: StreamSharing,
    /// In order of use, the latest last.
    latest: RefCell<Vec<Stream>>,
}

impl Streams {
    pub(super) fn new(sharing: StreamSharing) -> Streams {
        Streams { sharing, latest: RefCell::new(Vec::with_capacity(STREAMS)) }
    }

    /// Removes and returns the stream that continues at `start`.
    pub(super) fn take(&self, start: u64) -> Option<Stream> {
        let mut latest = self.latest.borrow_mut();
        let at = latest.iter().rposition(|stream| stream.end == start)?;
        Some(latest.remove(at))
    }

    pub(super) fn put(&self, stream: Stream) {
        let mut latest = self.latest.borrow_mut();
        if latest.len() == STREAMS {
            latest.remove(0);
        }
        latest.push(stream);
    }
}

/// The length of a stream's next run on a drive with this much queued; `None`: the run continues.
pub(super) fn next_run(waiting_bytes: u64) -> Option<u64> {
    (waiting_bytes >= LEAST_RUN_BYTES)
        .then_some((waiting_bytes / 2).clamp(LEAST_RUN_BYTES, MOST_RUN_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_only_when_its_drive_has_enough_to_do() {
        assert_eq!(next_run(LEAST_RUN_BYTES - 1), None);
        assert_eq!(next_run(LEAST_RUN_BYTES), Some(LEAST_RUN_BYTES));
        assert_eq!(next_run(6 << 20), Some(3 << 20));
        assert_eq!(next_run(1 << 30), Some(MOST_RUN_BYTES));
    }

    #[test]
    fn streams_are_told_apart_by_where_they_go_on_and_the_oldest_is_forgotten() {
        let streams = Streams::new(StreamSharing::Runs);
        let stream = |end| Stream { end, copy: CopyIndex(1), left: 0 };
        (0..=STREAMS as u64).for_each(|end| streams.put(stream(end)));
        assert_eq!(streams.take(0), None);
        assert_eq!(streams.take(5), Some(stream(5)));
        assert_eq!(streams.take(5), None);
    }
}
