//! The commands of all interfaces, and what they are answered.

pub(crate) mod core;
pub(crate) mod explain;
pub(crate) mod handle;
pub(crate) mod info;
