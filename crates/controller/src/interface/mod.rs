//! What interfaces say and hear: commands, replies, errors. Values only.

pub(crate) mod command;
pub(crate) mod command_tasks;
pub(crate) mod error;
pub(crate) mod reply;
pub(crate) mod reply_foreign;
pub(crate) mod reply_tasks;
