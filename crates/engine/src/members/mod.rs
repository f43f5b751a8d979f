//! The drives of a volume: slot by slot, with what is recorded of them, what fails here, and which of several copies a
//! read goes to.
//!
//! [`Drives`] is the lowest of the engine's rooms. It sees a shard's [`Resources`](crate::shard::Resources), and nobody
//! above: what has to happen there is asked for by a report, a signal, or a change that the controller sends.

mod balance;
mod changes;
mod drives;
mod faults;
mod health;
mod settled;
mod silent;
mod slots;

pub(crate) use balance::Streams;
pub use drives::Drives;
pub(crate) use drives::User;
pub(crate) use faults::{Places, is_gone};
pub(crate) use health::Health;
pub(crate) use settled::Settled;
pub(crate) use slots::{Members, Replacement, when_quiet};
