//! The load on a target: load profiles and their catalog, numbers of outstanding I/Os, areas.
//!
//! | module | contents |
//! | --- | --- |
//! | `profile` | load profiles: requests, offsets, timing; their inline form |
//! | `catalog` | the catalog of load profiles, built in and added by users |
//! | `ladder` | the numbers of outstanding I/Os |
//! | `area` | the measured part of a target |

pub(crate) mod area;
pub(crate) mod catalog;
pub(crate) mod ladder;
pub(crate) mod profile;
