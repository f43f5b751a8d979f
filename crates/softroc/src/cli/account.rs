//! `softroc account`, and the options that select a remote controller.

use super::Output;
use access::Role;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Options that select a controller on another machine.
#[derive(Args, Debug, Default)]
pub struct Remote {
    /// The address of a remote controller ('softroc serve --manage') to use instead of the control
    /// socket.
    #[arg(long, global = true, value_name = "https://HOST:PORT", env = "SOFTROC_SERVER")]
    pub server: Option<String>,

    /// The session token from 'softroc account login'. Other users can see command lines: prefer
    /// the variable.
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "SOFTROC_TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,

    /// The fingerprint (SHA-256) of the remote certificate, as 'softroc serve --manage' prints it.
    #[arg(long, global = true, value_name = "SHA256", env = "SOFTROC_FINGERPRINT")]
    pub fingerprint: Option<String>,

    /// CA certificates instead of a fingerprint.
    #[arg(long, global = true, value_name = "FILE", env = "SOFTROC_CA")]
    pub ca: Option<PathBuf>,
}

/// See [`Command::Account`](super::Command::Account).
#[derive(Subcommand, Debug)]
pub enum AccountCommand {
    /// Add an account. Without --password-stdin, the password is generated and printed once, and
    /// must be changed at the first login.
    Add {
        /// The name of the account.
        name: String,
        /// The role of the account: read-only, operator or administrator.
        #[arg(long, value_name = "ROLE")]
        role: Role,
        /// Read the password from standard input, one line.
        #[arg(long)]
        password_stdin: bool,
        /// Require a password change at the first login.
        #[arg(long, requires = "password_stdin")]
        must_change: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// List accounts, their roles, and which are locked.
    List(Output),
    /// Change an account. A new password or role ends its sessions.
    #[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
    Set {
        /// The name of the account.
        name: String,
        /// The new role: read-only, operator or administrator.
        #[arg(long, value_name = "ROLE", group = "what")]
        role: Option<Role>,
        /// The new name.
        #[arg(long, value_name = "NAME", group = "what")]
        to: Option<String>,
        /// Read a new password from standard input, one line.
        #[arg(long, group = "what", conflicts_with = "new_password")]
        password_stdin: bool,
        /// Generate a new password and print it once; it must be changed at the next login.
        #[arg(long, group = "what")]
        new_password: bool,
        /// Enable the account.
        #[arg(long, group = "what", conflicts_with = "disable")]
        enable: bool,
        /// Disable the account.
        #[arg(long, group = "what")]
        disable: bool,
        /// Unlock an account that wrong passwords have locked.
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
    /// Restore unreadable accounts from their previous version. Runs only on the controller's own
    /// machine.
    Repair {
        /// Start over with one administrator, 'admin'. Its password is generated and printed once.
        #[arg(long)]
        anew: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Open a session: read the password from standard input, one line, and print a token. The
    /// session ends after half an hour without use.
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
