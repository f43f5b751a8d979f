//! Notifications between modules.
//!
//! **Owns** the count of changes for the reconciler, and the shutdown flag ([`Attention`]).
//!
//! **Invariants.** A change is counted before a task is woken, so a task that reads the count
//! before it waits misses no change. The shutdown flag is never reset.
//!
//! **Callers**: every module. It depends on none of them: a lower module reaches an upper one this
//! way.

mod attention;
mod waiting;

pub(crate) use attention::Attention;
pub(crate) use waiting::{wait_on_both, wait_or};
