//! A measurement from its settings to its rows.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `bench` | a measurement of a target, or of several at once: profile by profile, rung by rung |
//! | `settings` | what to measure and how long, checked against a target before anything starts |
//! | `target` | what is measured: anything that is a drive to the seam |
//! | [`guard`] | keeps a measurement from writing over something that somebody needs |
//! | `precondition` | what a target is written full of before it is measured |
//! | `supervise` | when a point is over, what is seen around it, whether somebody wants it to stop |
//! | `observe` | progress, and rows as they come |
//! | `remaining` | how much time is left, learned from what was measured so far |
//! | `read_back` | the end of a verified run: everything that it wrote is read once more |

pub(crate) mod bench;
pub mod guard;
pub(crate) mod observe;
pub(crate) mod precondition;
pub(crate) mod read_back;
pub(crate) mod remaining;
pub(crate) mod settings;
pub(crate) mod supervise;
pub(crate) mod target;
