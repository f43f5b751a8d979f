//! `softroc notify`.

use super::account::secret_line;
use super::{Control, absolute};
use crate::cli::{NotifyCommand, NotifySet};
use crate::failure::{Failure, Outcome};
use crate::{output, render};
use serde_json::{Value, json};

impl Control {
    /// `softroc notify`.
    pub fn notify(&self, command: &NotifyCommand) -> Outcome {
        match command {
            NotifyCommand::List(output) => {
                self.show_channels("GET", "/v1/notifications", None, output.json)
            }
            NotifyCommand::Set(set) => {
                let body = channel(set)?;
                self.show_channels("PUT", &of(&set.name)?, Some(body), set.output.json)
            }
            NotifyCommand::Remove { name, output } => {
                self.show_channels("DELETE", &of(name)?, None, output.json)
            }
            NotifyCommand::Test { name, output } => {
                let path = format!("{}/test", of(name)?);
                self.show_channels("POST", &path, None, output.json)
            }
        }
    }

    fn show_channels(&self, method: &str, path: &str, body: Option<Value>, json: bool) -> Outcome {
        let reply = control_api::client::notifications(self.place(), method, path, body.as_ref())?;
        if json { output::json(&reply) } else { output::print(&render::notify::reply(&reply)) }
    }
}

/// The settings of `notify set`, as JSON.
fn channel(set: &NotifySet) -> Outcome<Value> {
    let mut body = json!({
        "target": set.target,
        "severity": set.severity,
        "codes": set.codes,
        "fold_s": set.fold_s,
        "to": set.to,
    });
    let trust = set.trust.as_ref().map(|file| absolute(&file.to_string_lossy())).transpose()?;
    for (field, value) in
        [("quiet", &set.quiet), ("from", &set.from), ("user", &set.user), ("trust", &trust)]
    {
        if let Some(value) = value {
            body[field] = value.as_str().into();
        }
    }
    if set.secret_stdin {
        body["secret"] = secret_line("secret")?.into();
    }
    Ok(body)
}

/// The URL path of a channel. An invalid name could form another path.
fn of(name: &str) -> Outcome<String> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match !name.is_empty() && name.chars().all(is_letter) {
        true => Ok(format!("/v1/notifications/{name}")),
        false => Err(Failure::usage(format!(
            "'{name}' is not a valid channel name; expected letters a to z, digits and '-'"
        ))),
    }
}
