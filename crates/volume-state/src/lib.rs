//! The state of a volume, as one value.
//!
//! A [`VolumeState`] contains: drives in service, stale regions per drive, unsynced and never
//! written regions, punctured blocks, and the content of the distributed spare. The controller
//! builds it from the label, the write-intent map and reports. It makes each [`Change`] durable and
//! sends it to the shards, which apply it ([`VolumeState::apply`]). `explain` plans with it.
//!
//! An [`Overlay`] holds unrecorded knowledge of a region's owner: a failing drive, rebuilt stripes.
//! It belongs to the shard and ends with the change that records it. Only
//! [`VolumeState::stripe_health`] converts state to a plan's health.
//!
//! The crate is pure: it has no drives, clocks or label formats.

mod change;
mod health;
mod initialisation;
mod punctured;
mod region_set;
mod regions;
mod reshape;
mod tolerance;
mod volume;

pub use change::Change;
pub use health::{Nothing, Overlay};
pub use initialisation::{Initialisation, StripeSet};
pub use punctured::BlockList;
pub use region_set::{RegionIndex, RegionSet};
pub use regions::Regions;
pub use reshape::{Moved, Mover, Reshape, Step, Window};
pub use tolerance::Tolerance;
pub use volume::{Forced, Relocated, SlotState, VolumeState};
