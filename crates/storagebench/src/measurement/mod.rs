//! A measurement from its settings to its rows.
//!
//! | module | contents |
//! | --- | --- |
//! | `bench` | a measurement of one or several targets: all profiles and queue depths |
//! | `settings` | the settings, checked against a target before the start |
//! | `target` | the measured target: any drive of the platform |
//! | [`guard`] | protection of existing data |
//! | `precondition` | writes before the measurement |
//! | `supervise` | the end of a point, observations of the machine, cancellation |
//! | `observe` | progress and new rows |
//! | `remaining` | an estimate of the remaining time |
//! | `read_back` | the end of a verified run: all written data are read again |

pub(crate) mod bench;
pub mod guard;
pub(crate) mod observe;
pub(crate) mod precondition;
pub(crate) mod read_back;
pub(crate) mod remaining;
pub(crate) mod settings;
pub(crate) mod supervise;
pub(crate) mod target;
