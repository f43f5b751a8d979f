//! Models of drives, links and controllers in virtual time, with their catalog.
//!
//! A [`Server`] is part of a simulated world (`platform-sim`): drives with links, behind a
//! controller, behind a host link. Its drives implement [`platform::Drive`] as all drives do, so
//! that the engine for real drives serves them unchanged. The result is a prediction.
//!
//! ```text
//!   StorageBench
//!        │  HostPort        most commands at once, the host's and the controller's processor time,
//!        │                  host link (both ways)
//!   the engine's volume     cache, plans, locks, parity: the product's own code, which reports
//!        │                  its work; that takes time of the processor, the parity unit and cache
//!        │                  memory
//!        │  DrivePort       processor time per drive command, the drive's queue, its link, the
//!        │                  lanes it shares
//!   Rotating | Ssd          actuator, platters, caches | dies, channels, buffer
//! ```
//!
//! # Invariants
//! - Times are whole nanoseconds; no decision depends on a floating-point number. All randomness
//!   comes from the simulation's seed, with one stream per drive.
//! - No content is stored: buffers are data-less, and buffers with bytes read as zeros. If content
//!   matters, a simulated drive stores it and uses the timing of a drive here ([`Server::pace`]).
//! - A resource serves work in order of arrival ([`Resource`]) and records its busy time, so that a
//!   bottleneck has a name.
//! - Every parameter is a number in the catalog, with its unit in its name and with its source.
//!
//! # Where to look
//! | topic | file |
//! | --- | --- |
//! | parameters of drives and controllers | `catalog/keys.rs`; `docs/plan/models.md` |
//! | reading the catalog's files | `catalog/` |
//! | position of a sector, seek time | `rotating/geometry.rs`, `rotating/seek.rs` |
//! | scheduling of the actuator, caches and read-ahead | `rotating/mod.rs`, `rotating/cache.rs` |
//! | dies, channels, write buffer; garbage collection | `ssd/mod.rs`; `ssd/collection.rs` |
//! | links and their usable share | `link.rs` |
//! | the controller | `server.rs`, `drive_port.rs`, `host_port.rs` |
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
    CacheSpec, Catalog, ControllerCache, ControllerSpec, DriveSpec, Error, Result, RotatingSpec,
    Sourced, SsdSpec,
};
pub use device::Prepared;
pub use host_stripe::striped;
pub use link::{DriveLink, HostLink, LinkShares};
pub use resource::Resource;
pub use server::{FastPath, HostSpec, Server, ServerSpec};
