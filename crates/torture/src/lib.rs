//! Deterministic torture.

pub mod oracle;
pub mod stamp;
