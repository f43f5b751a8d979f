//! `softroc notify`.

use super::Output;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// See [`Command::Notify`](super::Command::Notify).
#[derive(Subcommand, Debug)]
pub enum NotifyCommand {
    /// List channels: where their messages go, which events become some, and how many wait.
    List(Output),
    /// Set a channel: make it, or replace what it was. What waits for it stays.
    Set(Box<NotifySet>),
    /// Remove a channel, and what waits for it.
    Remove {
        /// The name of the channel.
        name: String,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Send a message to a channel at once, past its rules and its queue, and say whether it arrived.
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

    /// Where messages go: journal, syslog:/dev/log, syslog+udp://HOST:PORT (or tcp, tls), smtp://HOST:PORT (or smtps),
    /// https://HOST/…, snmp://HOST:PORT (an inform; snmp+trap for a trap), hook:/PROGRAM or hook:/FOLDER.
    #[arg(value_name = "TARGET")]
    pub target: String,

    /// Only events that matter at least so much: info, warning, critical or fatal.
    #[arg(long, value_name = "SEVERITY", default_value = "warning", value_parser = ["info", "warning", "critical", "fatal"])]
    pub severity: String,

    /// Only events of these codes, such as drive.failed, or drive.* for all of drives. May be given several times.
    #[arg(long = "code", value_name = "CODE", value_delimiter = ',')]
    pub codes: Vec<String>,

    /// Hours (UTC) in which only critical and fatal events are sent; the others follow when they end. Such as 22:00-07:00.
    #[arg(long, value_name = "HH:MM-HH:MM")]
    pub quiet: Option<String>,

    /// For so many seconds after a message, others of the same code and subject become one; 0: each is sent.
    #[arg(long = "fold", value_name = "SECONDS", default_value_t = 60)]
    pub fold_s: u64,

    /// Who gets the mail. May be given several times.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub to: Vec<String>,

    /// From whom the mail is.
    #[arg(long, value_name = "ADDRESS")]
    pub from: Option<String>,

    /// As whom to sign in at the mail server.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// Read what is secret from standard input, a line: the password of --user, the key that webhooks are signed with, or the
    /// community of SNMP. A channel that goes on to the same target keeps the one that it has.
    #[arg(long)]
    pub secret_stdin: bool,

    /// Certificates that vouch for the other side [default: those that this machine trusts].
    #[arg(long, value_name = "FILE")]
    pub trust: Option<PathBuf>,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}
