//! Counters, and their confidence intervals.
//!
//! | module | contents |
//! | --- | --- |
//! | `meter` | completions inside the window, their latencies, and their distribution over time |
//! | `estimate` | estimates with their standard errors: Student's t, means, ratios |
//! | `intervals` | the intervals of a row, from the spread between parts of a run |
//! | `steady` | whether a target's rounds are alike |
//! | `surroundings` | observations of the machine during a measurement |

pub(crate) mod estimate;
pub(crate) mod intervals;
pub(crate) mod meter;
pub(crate) mod steady;
pub(crate) mod surroundings;
