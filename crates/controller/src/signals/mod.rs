//! The room of signals: waiting for what others do, and telling them that there is something to do.
//!
//! **Owns** the count of changes that somebody should look at, and whether the controller is shutting down
//! ([`Attention`]).
//!
//! **Invariants.** A change is counted before anybody is woken, so that whoever looks at the count first and then
//! waits misses none. Once the controller is shutting down it stays so.
//!
//! **Who may call it**: every room. It knows none of them: this is how a lower room reaches one above it.

mod attention;
mod waiting;

pub(crate) use attention::Attention;
pub(crate) use waiting::{wait_on_both, wait_or};
