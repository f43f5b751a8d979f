//! Notifications: files, sockets, clock and tasks. The crate `notify` decides what is sent, when,
//! and in which format.
//!
//! Events are followed like those of Redfish subscriptions ([`crate::events`]), and webhooks are
//! delivered like these ([`crate::deliver`]). The queue differs: a subscription gives up after a
//! few attempts, as Redfish requires; a channel keeps its messages on disk and retries for a day.

pub(crate) mod office;
mod post;
mod routes;
mod send;

pub(crate) use office::{Notifier, run};
pub use post::ChannelInfo;
pub(crate) use post::StoredChannel;
pub use routes::NotifyReply;
pub(crate) use routes::router;
