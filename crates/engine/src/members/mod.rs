//! The drives of a volume: slot by slot, with what is recorded of them, what fails here, and which of several copies a
//! read goes to.

mod balance;
mod changes;
mod faults;
mod health;
mod slots;

pub(crate) use balance::Streams;
pub(crate) use faults::{Places, Trouble, is_gone};
pub(crate) use health::Health;
pub(crate) use slots::{Members, Replacement, when_quiet};
