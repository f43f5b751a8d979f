//! The end of a verified run: all written data are read again.

use crate::generator::verify::{Reading, Verifier};
use crate::measurement::bench::Ending;
use platform::{Buf, Io, Member};
use smallvec::smallvec;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{ByteCount, ByteRange};

/// The size of a read.
const PIECE: ByteCount = ByteCount::MIB;
/// The number of outstanding reads.
const OUTSTANDING: usize = 8;

/// The verified data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    /// The total: during the profiles and after them.
    pub checked_bytes: u64,
    /// The share after the profiles, when all written data were read again.
    pub read_back_bytes: u64,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Verified: {} were read and checked, {} of them in the final read of all written data.",
            ByteCount(self.checked_bytes),
            ByteCount(self.read_back_bytes)
        )
    }
}

impl Verified {
    /// The summary for a measurement with this ending.
    pub(crate) fn sentence(&self, ending: &Ending) -> String {
        match ending {
            Ending::Complete => self.to_string(),
            _ => format!(
                "Verification is incomplete: {} were read and are right.",
                ByteCount(self.checked_bytes)
            ),
        }
    }

    /// Reads all data of the run through `member`, and checks them.
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
                        "the final read of '{name}' was stopped after {}",
                        ByteCount(self.read_back_bytes)
                    ));
                    break;
                }
                under_way.push_back((
                    *range,
                    member.read(range.start, smallvec![Buf::unpooled(range.len)]),
                ));
            }
            // Every operation is awaited, even after a failure.
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
                        "the final read of '{name}' ended: a read of {} at byte {} {what}",
                        range.len, range.start.0
                    ));
                }
                Some(_) => {}
            }
        }
    }
}
