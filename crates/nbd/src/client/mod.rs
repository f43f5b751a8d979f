//! The client's transmission phase: outstanding requests, and the stream of replies.

mod coverage;
mod in_flight;
mod replies;

pub use in_flight::{Cookie, Failure};
pub use replies::{ClientStream, PayloadRun, ReplyEvent};
