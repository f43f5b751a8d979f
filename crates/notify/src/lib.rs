//! Notifications: events of the controller in, messages for the channels out.
//!
//! Values only: no clock, no file, no socket. Who has these (`crates/control-api/src/notify`) asks a [`Queue`] what is due, sends it in the
//! [`form`] of its channel, says what came of it, and keeps the [`Line`]s that the queue asks to be kept.
//!
//! ```text
//! event ──► rules (Channel) ──► folding, quiet hours, order (Queue) ──► Message ──► form ──► socket, file, program
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `channel` | a channel: where its messages go, and which events become some |
//! | `target` | the addresses of channels |
//! | `quiet` | hours in which only what is critical is sent |
//! | `queue` | what waits: order, folding of repeats, growing gaps between tries; and how it is kept |
//! | `message` | what is sent |
//! | `form` | how the journal, syslog, mail, webhooks, hooks and SNMP have it |

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
