//! The end of a verified run: everything that it wrote is read once more.

use crate::generator::verify::{Reading, Verifier};
use crate::measurement::bench::Ending;
use platform::{Buf, Io, Member};
use smallvec::smallvec;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{ByteCount, ByteRange};

/// Pieces of what is read back.
const PIECE: ByteCount = ByteCount::MIB;
/// How many of them are read at a time.
const OUTSTANDING: usize = 8;

/// What was read and found to be what was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    /// In all: while the profiles ran, and after them.
    pub checked_bytes: u64,
    /// After the profiles, when everything that was written was read once more.
    pub read_back_bytes: u64,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Verified: {} were read and checked, {} of them at the end, when what was written was read once more.",
            ByteCount(self.checked_bytes),
            ByteCount(self.read_back_bytes)
        )
    }
}

impl Verified {
    /// What was verified by a measurement that ended like this.
    pub(crate) fn sentence(&self, ending: &Ending) -> String {
        match ending {
            Ending::Complete => self.to_string(),
            _ => format!(
                "Not all that was written is verified: {} were read and found to be right until then.",
                ByteCount(self.checked_bytes)
            ),
        }
    }

    /// Reads everything that the run wrote through `member` and checks it.
    pub(crate) async fn read_back(
        &mut self,
        name: &str,
        member: &Member,
        verifier: &Verifier,
        cancel: &AtomicBool,
    ) -> Ending {
        let ranges = verifier.written_ranges(PIECE);
        let mut under_way: VecDeque<(ByteRange, Io)> = VecDeque::new();
        let mut left = ranges.iter();
        let mut ending = Ending::Complete;
        loop {
            while under_way.len() < OUTSTANDING
                && ending == Ending::Complete
                && let Some(range) = left.next()
            {
                if cancel.load(Ordering::Relaxed) {
                    ending = Ending::Cancelled(format!(
                        "reading back what was written to '{name}' was stopped after {}",
                        ByteCount(self.read_back_bytes)
                    ));
                    break;
                }
                under_way.push_back((*range, member.read(range.start, smallvec![Buf::unpooled(range.len)])));
            }
            // Every operation is awaited, also those behind a failure.
            let Some((range, io)) = under_way.pop_front() else { return ending };
            let outcome = io.await;
            let wrong = match outcome.result {
                Ok(moved) if moved == range.len.0 => {
                    let mut reading = Reading::default();
                    verifier.read(range, &mut reading);
                    let bytes = outcome.buffers.first().map_or(&[][..], Buf::bytes);
                    verifier
                        .check(range, &reading, bytes)
                        .err()
                        .map(|mismatch| format!("gave wrong data: {mismatch}"))
                }
                Ok(moved) => Some(format!("moved only {moved} bytes")),
                Err(error) => Some(format!("failed: {error}")),
            };
            match wrong {
                None => self.read_back_bytes += range.len.0,
                Some(what) if ending == Ending::Complete => {
                    ending = Ending::Failed(format!(
                        "reading back what was written to '{name}' ended: a read of {} at byte {} {what}",
                        range.len, range.start.0
                    ));
                }
                Some(_) => {}
            }
        }
    }
}
