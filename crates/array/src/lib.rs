//! An array that lives as long as its process: the engine on drives, without a controller. Nothing of it is kept: no
//! label, no bitmap, no record of a failed drive ([`engine::unkept`] stands in for the controller).
//!
//! Two callers want the same array and run it in different worlds:
//!
//! - `softroc bench array:raid5,drives=8xmem:256M` measures the engine on real drives: [`ArrayTarget`] reads such a text
//!   and makes the array.
//! - `predict` measures the engine on modelled drives in virtual time: [`assemble`] takes the drives as they are.
//!
//! Why this is a room of its own: a benchmark of real drives must not import the simulated world, which `predict` does,
//! and an array that predictions rest on must be the one that is benchmarked. So this room may import no world at all: it
//! sees one through [`platform::Env`], as the engine does.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `target` | [`ArrayTarget`]: the text `array:LEVEL,drives=…`, read and checked |
//! | `assemble` | [`assemble`]: drives and a shape become a volume on this thread's shard, with the [`Choices`] that its shape does not say |

mod assemble;
mod target;

pub use assemble::{Choices, WriteHole, assemble};
pub use target::ArrayTarget;
