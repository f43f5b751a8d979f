//! `softroc notify`.

use super::Output;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// See [`Command::Notify`](super::Command::Notify).
#[derive(Subcommand, Debug)]
pub enum NotifyCommand {
    /// List channels: their targets, which events they send, and the length of their queues.
    List(Output),
    /// Create or replace a channel. Its queue stays.
    Set(Box<NotifySet>),
    /// Remove a channel and its queue.
    Remove {
        /// The name of the channel.
        name: String,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Send a test message to a channel at once, bypassing its rules and queue, and report whether
    /// it arrived.
    Test {
        /// The name of the channel.
        name: String,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
}

/// See [`NotifyCommand::Set`].
#[derive(Args, Debug)]
pub struct NotifySet {
    /// The name of the channel: letters a to z, digits and '-'.
    pub name: String,

    /// The target of messages: journal, syslog:/dev/log, syslog+udp://HOST:PORT (or tcp, tls),
    /// smtp://HOST:PORT (or smtps), https://HOST/…, snmp://HOST:PORT (an inform; snmp+trap for a
    /// trap), hook:/PROGRAM or hook:/FOLDER.
    #[arg(value_name = "TARGET")]
    pub target: String,

    /// The lowest severity to send: info, warning, critical or fatal.
    #[arg(
        long,
        value_name = "SEVERITY",
        default_value = "warning",
        value_parser = ["info", "warning", "critical", "fatal"],
    )]
    pub severity: String,

    /// Send only events with these codes, such as drive.failed, or drive.* for all drive events.
    /// May be given several times.
    #[arg(long = "code", value_name = "CODE", value_delimiter = ',')]
    pub codes: Vec<String>,

    /// Quiet hours (UTC), such as 22:00-07:00: only critical and fatal events are sent; the others
    /// follow at their end.
    #[arg(long, value_name = "HH:MM-HH:MM")]
    pub quiet: Option<String>,

    /// Fold repeated events for this time after a message: events with the same code and subject;
    /// 0: send each.
    #[arg(long = "fold", value_name = "SECONDS", default_value_t = 60)]
    pub fold_s: u64,

    /// The recipients of the mail. May be given several times.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub to: Vec<String>,

    /// The sender of the mail.
    #[arg(long, value_name = "ADDRESS")]
    pub from: Option<String>,

    /// The user name at the mail server.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// Read a secret from standard input, one line: the password of --user, the signing key of
    /// webhooks, or the SNMP community. A channel with an unchanged target keeps its secret.
    #[arg(long)]
    pub secret_stdin: bool,

    /// CA certificates that verify the target [default: those of this machine].
    #[arg(long, value_name = "FILE")]
    pub trust: Option<PathBuf>,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}
