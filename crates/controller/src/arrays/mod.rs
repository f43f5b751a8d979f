//! Arrays and their volumes.

pub(crate) mod array;
pub(crate) mod bitmap_clearer;
pub(crate) mod draining;
pub(crate) mod extents;
pub(crate) mod failures;
pub(crate) mod journal;
pub(crate) mod members;
pub(crate) mod record;
pub(crate) mod reports;
pub(crate) mod serve;
pub(crate) mod volume;
