//! What the rooms of the engine have of the shard that they run on.

mod hosts;
mod resources;

pub(crate) use hosts::HostActivity;
pub use resources::Resources;
