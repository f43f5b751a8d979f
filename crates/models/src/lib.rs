//! Drives, links and controllers in virtual time, and the catalog that feeds them.
//!
//! A [`Server`] stands in a simulated world (`platform-sim`): drives, each behind its link, behind a controller,
//! behind a host link. To the code above the seam its drives are drives like any other ([`platform::Drive`]), so
//! that the engine which serves real drives serves these, and cannot tell. What comes out is a prediction.
//!
//! ```text
//!   StorageBench
//!        │  HostPort        most commands at once, the host's and the controller's processor time, host link (both ways)
//!   the engine's volume     cache, plans, locks, parity: the product's own code; it says what it computes and copies
//!        │                  processor, what computes parity, and the cache's memory take their time for that
//!        │  DrivePort       processor time per drive command, the drive's queue, its link, the lanes it shares
//!   Rotating | Ssd          actuator, platters, caches | dies, channels, buffer
//! ```
//!
//! # What holds
//! - Times are whole nanoseconds, and no decision is made by a floating-point number. Everything random comes
//!   from the simulation's seed, in a stream a drive.
//! - Nothing keeps content: buffers are hollow, and a solid one reads as zeroes. Where content matters as well, a simulated drive has it,
//!   and takes the time of a drive here ([`Server::pace`]).
//! - A resource serves in the order in which work reaches it ([`Resource`]) and knows how long it was busy, so
//!   that what limits a run has a name.
//! - Every parameter is a number in the catalog, with its unit in its name and with its source.
//!
//! # Where to look
//! | for | look at |
//! | --- | --- |
//! | what a drive's or a controller's parameters mean | `catalog/keys.rs`; `docs/plan/models.md` |
//! | reading the catalog's files | `catalog/` |
//! | where a sector is, how long a seek takes | `rotating/geometry.rs`, `rotating/seek.rs` |
//! | what the actuator does next, caches and read-ahead | `rotating/mod.rs`, `rotating/cache.rs` |
//! | dies, channels, the write buffer | `ssd/mod.rs`; what garbage collection moves: `ssd/collection.rs` |
//! | links and their practical share | `link.rs` |
//! | the controller between them | `server.rs`, `drive_port.rs`, `host_port.rs` |
//! | several controllers in one host | `Server::beside`; `host_stripe.rs` |

pub mod catalog;
mod device;
mod drive_port;
mod host_port;
mod host_stripe;
mod link;
mod resource;
mod rotating;
mod server;
mod slots;
mod ssd;

pub use catalog::{
    CacheSpec, Catalog, ControllerCache, ControllerSpec, DriveSpec, Error, Result, RotatingSpec, Sourced,
    SsdSpec,
};
pub use device::Prepared;
pub use host_stripe::striped;
pub use link::{DriveLink, HostLink, LinkShares};
pub use resource::Resource;
pub use server::{FastPath, HostSpec, Server, ServerSpec};
