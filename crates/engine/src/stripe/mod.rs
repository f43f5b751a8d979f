//! One request on one stripe: lock, mark, plan, execute, compute, log, commit, flush.
//!
//! [`Stripes`] uses [`Drives`](crate::members::Drives). It performs requests and reports results;
//! [`recovery`](crate::recovery) decides how to handle unreadable bytes.

mod attempt;
mod beside;
mod clean;
mod compute;
mod copies;
mod dirty;
mod drive_ops;
mod excluded;
mod execute;
mod first_write;
mod flush;
mod gates;
mod initialise;
mod journal;
mod memory;
mod operation;
mod payload;
mod read_faults;
mod records;
mod stripes;
mod together;
mod trouble;
mod write_faults;
mod writing;

pub(crate) use attempt::{Attempt, Ended, Patience};
pub(crate) use clean::Changing;
pub use compute::count_as_zeros;
pub(crate) use drive_ops::{DriveOp, DriveOps};
pub(crate) use journal::{ByJournal, Devices, Kept};
pub use journal::{JournalTerms, ring_len};
pub(crate) use memory::Host;
pub(crate) use operation::{DriveRequest, DriveRequests, MOST_OPS, Recorded, StripeOp};
pub(crate) use payload::Payload;
pub(crate) use records::{Medium, RecordRing};
pub use stripes::Stripes;
pub(crate) use trouble::{Told, Trouble};
pub(crate) use writing::{Writing, begin_marked_write, begin_write};
