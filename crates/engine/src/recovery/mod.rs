//! What to do when bytes cannot be had: other copies, redundancy, less at a time; and what becomes of blocks that nothing
//! gives back.

mod forced;
mod reading;
mod repair;

pub(crate) use forced::Settled;
pub(crate) use repair::Mend;
