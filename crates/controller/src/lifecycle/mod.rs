//! Volumes are made, found, started, renamed and deleted.

pub(crate) mod assemble;
pub(crate) mod candidates;
pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod repair;
pub(crate) mod returning;
pub(crate) mod scan;
pub(crate) mod shape;
pub(crate) mod unfinished_imports;
