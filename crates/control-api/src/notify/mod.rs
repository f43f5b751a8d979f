//! Notifications: the sending half. What is sent, when, and in which form is said by the crate `notify`; here are the files, the
//! sockets, the clock, and the tasks that wait.
//!
//! Events are followed as those who subscribed by Redfish follow them ([`crate::events`]), and webhooks are delivered as their events
//! are ([`crate::deliver`]). What differs is the queue: a subscription gives up after a few tries, as Redfish says; a channel keeps
//! what it was told on disk and tries for a day.

pub(crate) mod office;
mod post;
mod routes;
mod send;

pub(crate) use office::{Office, run};
pub use post::ChannelInfo;
pub(crate) use post::Kept;
pub use routes::NotifyReply;
pub(crate) use routes::router;
