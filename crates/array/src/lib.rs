//! An array that exists as long as its process: the engine on drives, without a controller. It has
//! no persistent state: no label, no write-intent map, no record of a failed drive
//! ([`engine::unkept`] replaces the controller).
//!
//! Two callers run it:
//!
//! - `softroc bench array:raid5,drives=8xmem:256M` measures the engine on real drives:
//!   [`ArrayTarget`] parses the text.
//! - `predict` measures the engine on modelled drives in virtual time: [`assemble`] takes the
//!   drives.
//!
//! Invariant: this crate imports neither the real nor the simulated platform, only
//! [`platform::Env`]. A benchmark must not import the simulation, and predictions must use the
//! array that is benchmarked.
//!
//! | module | contents |
//! | --- | --- |
//! | `target` | [`ArrayTarget`]: parses and checks `array:LEVEL,drives=…` |
//! | `assemble` | [`assemble`]: drives, a shape and [`Choices`] become a volume on this shard |

mod assemble;
mod target;

pub use assemble::{Choices, WriteHole, assemble};
pub use target::ArrayTarget;
