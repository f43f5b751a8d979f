//! The resources of a shard that the engine's layers share.

mod cell_run;
mod cells;
mod clean;
mod contents;
pub(crate) mod cycle;
mod hosts;
mod levels;
mod meter;
mod resources;

pub(crate) use cells::{CellRoom, Room, Stored};
pub(crate) use clean::{Change, CleanRoom, Fill};
pub(crate) use hosts::HostActivity;
pub(crate) use levels::FULL_LEVEL;
pub(crate) use meter::HostMeter;
pub use resources::Resources;
