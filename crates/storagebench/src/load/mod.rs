//! What is asked of a target: load profiles and their catalog, how many requests at a time, on which part.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `profile` | load profiles: what requests look like, where they go, when they come; their inline form |
//! | `catalog` | the catalog of load profiles: what is built in, and what users add |
//! | `ladder` | at how many requests in flight a target is measured |
//! | `area` | which part of a target is measured |

pub(crate) mod area;
pub(crate) mod catalog;
pub(crate) mod ladder;
pub(crate) mod profile;
