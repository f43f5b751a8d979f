//! The journal's share of a plan, as shown by `explain`. The implementor of [`Journal`] decides on
//! records.

use crate::Plan;
use crate::text::{counted, exact};
use serde::Serialize;
use std::fmt;
use units::{ByteCount, ByteRange, StripeIndex};

/// A journal that estimates its records for plans.
pub trait Journal {
    /// Splits a write to a stripe into parts with their own plan and record.
    fn parts(&self, stripe: StripeIndex, within: ByteRange) -> Vec<ByteRange>;

    /// The record of a plan.
    fn record(&self, plan: &Plan) -> Recorded;
}

/// A journal record. It is durable before the first write of the plan.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Recorded {
    /// Number of drives it is written to; 0: no record.
    pub writes: u32,
    /// Its length.
    pub record_bytes: u64,
    /// Bytes written in total.
    pub bytes_written: u64,
    /// All drives are flushed after at most this many bytes of records.
    pub flush_after_bytes: u64,
    /// Why there is no record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub none_because: Option<&'static str>,
}

impl Recorded {
    /// A record of this length on this number of drives.
    pub fn new(drives: u32, record: ByteCount, flush_after: ByteCount) -> Recorded {
        Recorded {
            writes: drives,
            record_bytes: record.0,
            bytes_written: record.0 * u64::from(drives),
            flush_after_bytes: flush_after.0,
            none_because: None,
        }
    }

    /// No record, with the reason.
    pub fn nothing(why: &'static str) -> Recorded {
        Recorded { none_because: Some(why), ..Recorded::default() }
    }

    /// Adds another record.
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
            "first, {} of a record of {} ({}); \
             all drives are flushed every {} of records at the latest",
            counted(self.writes, "durable write"),
            exact(self.record_bytes),
            exact(self.bytes_written),
            exact(self.flush_after_bytes)
        )
    }
}
