//! What is wanted against what there is.

pub(crate) mod choose;
pub(crate) mod due;
pub(crate) mod reconciler;
pub(crate) mod spares;
