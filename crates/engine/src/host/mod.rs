//! Host requests: cut into requests on one stripe each, and reassembled.
//!
//! [`Volume`] is built on [`Recovery`](crate::recovery::Recovery).

mod ahead;
mod as_drive;
mod block_target;
mod exchange;
mod fast_path;
mod moving;
mod quick_reads;
mod runs;
mod split;
mod status;
mod stripe_request;
mod volume;
mod way;

pub use as_drive::VolumeService;
pub(crate) use exchange::{Exchange, Job, Then};
pub(crate) use moving::{Moving, begin_reshape, end_reshape, show_reshaped, take_back_reshape};
pub use quick_reads::VolumeDrive;
pub(crate) use split::Parent;
pub use volume::Volume;
