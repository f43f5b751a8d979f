//! What is known of a volume, as one value.
//!
//! A [`VolumeState`] says which drives are in service, in which regions each of them is stale, where redundancy may not
//! agree with data, what was never written, which blocks are punctured and what lies in the distributed spare. A
//! [`Change`] is everything that can happen to it. The controller makes a change durable and sends the same change to
//! the shards, which apply it with [`VolumeState::apply`]. The controller makes this value from the label, the map and
//! what was reported; shards are attached with it, `explain` plans by it, and torture compares the two.
//!
//! What only the owner of a region knows meanwhile (a drive that fails and is not recorded yet, stripes of a region that
//! are current already) is an [`Overlay`] over the state. It is small, it is the shard's own, and it ends with the
//! change that records it.
//!
//! [`VolumeState::stripe_health`] is the only place where the state of a volume becomes the health that a plan is made
//! for.
//!
//! | module | holds |
//! | --- | --- |
//! | `region_set` | [`RegionIndex`], [`RegionSet`]: sets of regions as runs |
//! | `regions` | [`Regions`]: how stripes lie, and into which regions they fall |
//! | `initialisation` | [`Initialisation`], [`StripeSet`]: which stripes hold what hosts wrote |
//! | `punctured` | [`BlockList`]: blocks whose content is lost |
//! | `volume` | [`VolumeState`], [`SlotState`]: the value, and the questions that it answers |
//! | `change` | [`Change`], [`VolumeState::apply`] |
//! | `health` | [`VolumeState::stripe_health`], [`Overlay`] |
//! | `tolerance` | [`VolumeState::tolerance`], [`Tolerance`]: which further failures cost no data |
//! | `reshape` | [`Reshape`], [`Mover`]: from one layout to another, window by window, while hosts work |
//!
//! The crate is pure: values in, values out. It knows no drive, no clock and no label format.

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
