//! The drives of a volume by slot: their recorded state, failures on this shard, and the choice of
//! a copy to read.
//!
//! [`Drives`] is the lowest layer of the engine. It uses only a shard's
//! [`Resources`](crate::shard::Resources). It calls no higher layer: it requests actions there by
//! reports, signals, or changes from the controller.

mod balance;
mod changes;
mod drives;
mod faults;
mod health;
mod settled;
mod silent;
mod slots;
mod streams;

pub use drives::Drives;
pub(crate) use drives::User;
pub(crate) use faults::{Places, is_gone};
pub(crate) use health::Health;
pub(crate) use settled::Settled;
pub(crate) use slots::{Members, Replacement, when_quiet};
