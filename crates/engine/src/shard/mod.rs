//! The resources of a shard that the engine's layers share.

mod cell_run;
mod cells;
mod clean;
mod contents;
mod hosts;
mod resources;

pub(crate) use cells::{CellRoom, Room, Stored};
pub(crate) use clean::{Change, CleanRoom, Fill};
pub(crate) use hosts::HostActivity;
pub use resources::Resources;
