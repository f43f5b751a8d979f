//! Waiting for what others do.

pub(crate) mod waiting;
