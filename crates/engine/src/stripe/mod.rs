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
mod operation;
mod payload;
mod read_faults;
mod records;
mod stripes;
mod together;
mod trouble;
mod write_faults;

pub(crate) use attempt::{Attempt, Ended, Patience};
pub(crate) use clean::{Changing, CleanUse};
pub use compute::count_as_zeros;
pub(crate) use dirty::{DirtyRegions, Writing, begin_marked_write, begin_write};
pub(crate) use drive_ops::{DriveOp, DriveOps};
pub(crate) use execute::Host;
pub(crate) use flush::Flush;
pub(crate) use initialise::Initialising;
pub(crate) use journal::{ByJournal, Devices, JournalSlot, Kept};
pub use journal::{JournalTerms, ring_len};
pub(crate) use operation::{DriveRequest, DriveRequests, MOST_OPS, Recorded, StripeOp};
pub(crate) use payload::Payload;
pub(crate) use records::{Medium, RecordRing};
pub use stripes::Stripes;
pub(crate) use trouble::{Told, Trouble};
