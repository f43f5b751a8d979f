//! Notifications: events of the controller in, messages for the channels out.
//!
//! Pure values: no clock, no file, no socket. The notifier (`crates/control-api/src/notify`) asks a
//! [`Queue`] for due messages, sends them in the [`form`] of the channel, reports success or
//! failure, and stores the queue's [`Line`]s.
//!
//! ```text
//! event ──► rules (Channel) ──► folding, quiet hours, order (Queue) ──► Message ──► form
//!       ──► socket, file, program
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `channel` | a channel: its destination, and its event filter |
//! | `target` | addresses of channels |
//! | `quiet` | quiet hours: only critical events are sent |
//! | `queue` | pending messages: order, folding of repeats, retries, persistence |
//! | `message` | a message |
//! | `form` | formats: journal, syslog, mail, webhooks, hooks and SNMP |

mod channel;
pub mod form;
mod message;
mod queue;
mod quiet;
mod target;

pub use channel::Channel;
pub use message::{Message, Sender};
pub use queue::{Line, Outcome, Queue, Waiting};
pub use quiet::Quiet;
pub use target::{Mail, SyslogWay, Target};
