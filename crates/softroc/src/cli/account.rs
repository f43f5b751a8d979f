//! `softroc account`, and how a controller on another machine is reached.

use super::Output;
use access::Role;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// How a controller on another machine is reached.
#[derive(Args, Debug, Default)]
pub struct Remote {
    /// The controller on another machine, where 'softroc serve --manage' runs, instead of the control socket.
    #[arg(long, global = true, value_name = "https://HOST:PORT", env = "SOFTROC_SERVER")]
    pub server: Option<String>,

    /// The token of a session there, as 'softroc account login' prints it. Others see a command line: the variable is better.
    #[arg(long, global = true, value_name = "TOKEN", env = "SOFTROC_TOKEN", hide_env_values = true)]
    pub token: Option<String>,

    /// The SHA-256 fingerprint of its certificate, as 'softroc serve --manage' prints it.
    #[arg(long, global = true, value_name = "SHA256", env = "SOFTROC_FINGERPRINT")]
    pub fingerprint: Option<String>,

    /// Certificates that vouch for it, instead of its fingerprint.
    #[arg(long, global = true, value_name = "FILE", env = "SOFTROC_CA")]
    pub ca: Option<PathBuf>,
}

/// See [`Command::Account`](super::Command::Account).
#[derive(Subcommand, Debug)]
pub enum AccountCommand {
    /// Add an account. Its password is made and printed once, and has to be changed, unless one is given.
    Add {
        /// The name of the account.
        name: String,
        /// What it may: read-only, operator or administrator.
        #[arg(long, value_name = "ROLE")]
        role: Role,
        /// Read its password from standard input, a line.
        #[arg(long)]
        password_stdin: bool,
        /// The password that is read has to be changed before anything else.
        #[arg(long, requires = "password_stdin")]
        must_change: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// List accounts, their roles, and which are locked.
    List(Output),
    /// Change an account. Sessions of an account that has another password or role end.
    #[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
    Set {
        /// The name of the account.
        name: String,
        /// Give it another role: read-only, operator or administrator.
        #[arg(long, value_name = "ROLE", group = "what")]
        role: Option<Role>,
        /// Give it another name.
        #[arg(long, value_name = "NAME", group = "what")]
        to: Option<String>,
        /// Read another password from standard input, a line.
        #[arg(long, group = "what", conflicts_with = "new_password")]
        password_stdin: bool,
        /// Make another password and print it once; it has to be changed.
        #[arg(long, group = "what")]
        new_password: bool,
        /// Allow its use again.
        #[arg(long, group = "what", conflicts_with = "disable")]
        enable: bool,
        /// Allow its use no more.
        #[arg(long, group = "what")]
        disable: bool,
        /// End the lock that wrong passwords have set.
        #[arg(long, group = "what")]
        unlock: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Remove an account.
    Remove {
        /// The name of the account.
        name: String,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Repair accounts that cannot be read, on the machine itself: with their previous version.
    Repair {
        /// Begin with one administrator instead, 'admin', whose password is made and printed once.
        #[arg(long)]
        anew: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Open a session: reads the password from standard input, a line, and prints the token. It ends when it is not used for half
    /// an hour.
    Login {
        /// The name of the account.
        name: String,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// End the session of the token.
    Logout(Output),
}
