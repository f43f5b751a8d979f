//! What the rooms of the engine have of the shard that they run on.

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
