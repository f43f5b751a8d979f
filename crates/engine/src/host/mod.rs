//! Host requests: cut into requests on one stripe each, and reassembled.
//!
//! [`Volume`] is built on [`Recovery`](crate::recovery::Recovery).

mod ahead;
mod as_drive;
mod block_target;
mod direct;
mod exchange;
mod explain;
mod moving;
mod parts;
mod split;
mod state;
mod status;
mod stripe_request;
mod stripe_write;
mod taskless;
mod volume;
mod way;

pub use as_drive::{VolumeDrive, VolumeService};
pub(crate) use exchange::{Exchange, Job, Then};
pub use explain::Explained;
pub(crate) use moving::{Moving, begin_reshape, end_reshape, show_reshaped, take_back_reshape};
pub use state::Volume;
