//! The client's side of the transmission phase: requests in flight, and the stream of replies.

mod coverage;
mod in_flight;
mod replies;

pub use in_flight::{Cookie, Failure};
pub use replies::{ClientStream, PayloadRun, ReplyEvent};
