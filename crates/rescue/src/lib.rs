//! Finds the arrays of other systems on drives, and presents their volumes to the engine.
//!
//! [`scan`] opens drives without the right to write, reads their metadata and combines them
//! ([`ondisk::foreign`]). [`attachment`] converts a found volume for the engine: its members are
//! *windows* of the drives; missing and stale members are offline. The engine handles degraded
//! reads, copies and unreadable blocks, as for its own arrays.
//!
//! Nothing is ever written. Drives are opened read-only, and windows reject writes. The engine
//! reconstructs unreadable blocks at each read, since it repairs nothing on read-only drives.
//!
//! | module | purpose |
//! | --- | --- |
//! | `scan.rs` | [`scan`]: from drives to volumes |
//! | `attach.rs` | [`attachment`]: from a volume to an attachment of the engine |
//! | `guess/` | [`guess()`]: the layout without metadata; [`places`]: the slots if only the order is lost |
//! | `sections.rs` | volumes in several sections, as one drive |
//! | `backup.rs` | data that an interrupted reshape of Linux md saved in a file |
//! | `computed.rs` | a section with parity, as one drive |

mod attach;
mod backup;
mod computed;
mod guess;
mod scan;
mod sections;

pub use attach::{attachment, guessed_attachment};
pub use backup::with_backup;
pub use guess::{Candidate, Guess, Sureness, guess, places};
pub use scan::{Named, Scan, ScannedDrive, ScannedVolume, assemble, scan};
