//! What hosts ask: requests as they come in, cut into requests on one stripe each, and put together again.

mod as_drive;
mod fast_path;
mod intake;
mod stripe_request;

pub use as_drive::{VolumeDrive, VolumeService};
pub(crate) use intake::Parent;
