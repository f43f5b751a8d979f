//! Reads the arrays of other systems: finds them on drives, and shows their volumes to the engine.
//!
//! [`scan`] opens drives without the right to write, reads their metadata and puts together what they say
//! ([`ondisk::foreign`]). [`attachment`] makes of a volume that was found what the engine serves: its members are
//! *windows* of the drives, and those that are missing or stale are out. Degraded reads, several copies, blocks that
//! a drive cannot read: all that is the engine, as for arrays of its own.
//!
//! Nothing is ever written. A drive is opened for reading alone; a window passes no write on; what a drive cannot read
//! the engine computes anew whenever it is read, since it repairs nothing on drives that are read-only.
//!
//! | where | what |
//! | --- | --- |
//! | `scan.rs` | [`scan`]: from drives to volumes |
//! | `attach.rs` | [`attachment`]: from a volume to what the engine serves |
//! | `guess/` | [`guess()`]: how an array was laid out whose metadata are gone; [`places`]: which drive has which slot where they say all but that |
//! | `sections.rs` | volumes that lie on their drives in several pieces, as one drive |
//! | `backup.rs` | what an interrupted reshape of Linux md has in a file |
//! | `computed.rs` | a piece with parity, as one drive |

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
