//! What a journal adds to a plan, as `explain` tells it. Who keeps records decides which and how long; here are the words for it.

use crate::Plan;
use crate::text::{counted, exact};
use serde::Serialize;
use std::fmt;
use units::{ByteCount, ByteRange, StripeIndex};

/// A journal, to be asked what it makes of plans.
pub trait Journal {
    /// Cuts a write to a stripe into parts, each of which is planned and recorded by itself.
    fn parts(&self, stripe: StripeIndex, within: ByteRange) -> Vec<ByteRange>;

    /// What the record of a plan comes to.
    fn record(&self, plan: &Plan) -> Recorded;
}

/// What the record of a plan comes to. Its writes are durable before the first write of the plan.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Recorded {
    /// How many drives it is written to; 0: there is none.
    pub writes: u32,
    /// How long it is.
    pub record_bytes: u64,
    /// How much is written of it in all.
    pub bytes_written: u64,
    /// All drives are flushed after so many bytes of records at the latest.
    pub flush_after_bytes: u64,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub none_because: Option<&'static str>,
}

impl Recorded {
    /// A record of that length on so many drives.
    pub fn new(drives: u32, record: ByteCount, flush_after: ByteCount) -> Recorded {
        Recorded {
            writes: drives,
            record_bytes: record.0,
            bytes_written: record.0 * u64::from(drives),
            flush_after_bytes: flush_after.0,
            none_because: None,
        }
    }

    /// None, and why.
    pub fn nothing(why: &'static str) -> Recorded {
        Recorded { none_because: Some(why), ..Recorded::default() }
    }

    /// With what another one takes.
    pub(crate) fn add(&mut self, other: &Recorded) {
        self.writes += other.writes;
        self.record_bytes += other.record_bytes;
        self.bytes_written += other.bytes_written;
        self.flush_after_bytes = self.flush_after_bytes.max(other.flush_after_bytes);
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = self.none_because {
            return write!(f, "no record; {why}");
        }
        write!(
            f,
            "before that, {} of a record of {} ({}); a flush of all drives after {} of records at the latest",
            counted(self.writes, "durable write"),
            exact(self.record_bytes),
            exact(self.bytes_written),
            exact(self.flush_after_bytes)
        )
    }
}
