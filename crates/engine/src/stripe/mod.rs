//! One request on one stripe: mark, plan, execute, compute, log, commit; and what makes it durable.

mod attempt;
mod compute;
mod dirty;
mod execute;
mod first_write;
mod flush;
mod journal;

pub(crate) use attempt::{Attempt, Ended, Patience};
pub(crate) use dirty::{DirtyRegions, begin_write};
pub(crate) use execute::Host;
pub(crate) use flush::Flush;
pub(crate) use journal::Journal;
pub use journal::{JournalPlace, ring_len};
