//! What is counted, and how sure it is.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `meter` | counting: what completes inside the window, how long it took, how evenly it came |
//! | `estimate` | estimates with their errors: Student's t, means, ratios |
//! | `intervals` | the intervals of a row, from the spread between parts of a run |
//! | `steady` | whether a target does in one round what it did in the last ones |
//! | `surroundings` | what a measurement sees of the machine around it |

pub(crate) mod estimate;
pub(crate) mod intervals;
pub(crate) mod meter;
pub(crate) mod steady;
pub(crate) mod surroundings;
