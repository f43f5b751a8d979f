//! `softroc account`.

use super::Control;
use crate::cli::AccountCommand;
use crate::failure::{Failure, Outcome};
use crate::{output, render};
use control_api::AccessReply;
use serde_json::{Map, Value, json};
use std::io::{BufRead, IsTerminal};

impl Control {
    /// `softroc account`.
    pub fn account(&self, command: &AccountCommand) -> Outcome {
        match command {
            AccountCommand::Add { name, role, password_stdin, must_change, output } => {
                let mut body =
                    json!({ "name": name, "role": role.name(), "must_change": must_change });
                if *password_stdin {
                    body["password"] = password()?.into();
                }
                self.show_access("POST", "/v1/accounts", Some(body), output.json)
            }
            AccountCommand::List(output) => {
                self.show_access("GET", "/v1/accounts", None, output.json)
            }
            AccountCommand::Set { name, output, .. } => {
                let body = changes(command)?;
                self.show_access("PATCH", &of(name)?, Some(body), output.json)
            }
            AccountCommand::Remove { name, output } => {
                self.show_access("DELETE", &of(name)?, None, output.json)
            }
            AccountCommand::Repair { anew, output } => {
                let body = json!({ "anew": anew });
                self.show_access("POST", "/v1/accounts-repair", Some(body), output.json)
            }
            AccountCommand::Login { name, output } => {
                let body = json!({ "account": name, "password": password()? });
                self.show_access("POST", "/v1/session", Some(body), output.json)
            }
            AccountCommand::Logout(output) => {
                self.show_access("DELETE", "/v1/session", None, output.json)
            }
        }
    }

    fn show_access(&self, method: &str, path: &str, body: Option<Value>, json: bool) -> Outcome {
        let reply: AccessReply =
            control_api::client::access(self.place(), method, path, body.as_ref())?;
        if json {
            return output::json(&reply);
        }
        if let AccessReply::Session { account, .. } = &reply
            && account.must_change
        {
            let name = &account.name;
            output::say(&format!(
                "softroc: the password of '{name}' must be changed; run 'softroc account set \
                 {name} --password-stdin' with this token"
            ));
        }
        output::print(&render::access::reply(&reply))
    }
}

/// The changes of `account set`, as JSON.
fn changes(command: &AccountCommand) -> Outcome<Value> {
    let mut body = Map::new();
    let AccountCommand::Set {
        role, to, password_stdin, new_password, enable, disable, unlock, ..
    } = command
    else {
        return Ok(body.into());
    };
    if let Some(role) = role {
        body.insert("role".into(), role.name().into());
    }
    if let Some(to) = to {
        body.insert("name".into(), to.as_str().into());
    }
    if *password_stdin {
        body.insert("password".into(), password()?.into());
    }
    if *enable || *disable {
        body.insert("enabled".into(), (*enable).into());
    }
    for (is_asked, field) in [(*new_password, "new_password"), (*unlock, "unlock")] {
        if is_asked {
            body.insert(field.into(), true.into());
        }
    }
    Ok(body.into())
}

/// The URL path of an account. An invalid name could form another path.
fn of(name: &str) -> Outcome<String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !name.is_empty() && !name.starts_with('.') && name.chars().all(is_letter) {
        true => Ok(format!("/v1/accounts/{name}")),
        false => Err(Failure::not_found(format!(
            "there is no account '{name}'; see 'softroc account list'"
        ))),
    }
}

fn password() -> Outcome<String> {
    secret_line("password")
}

/// Reads a secret from standard input, one line; `what` names it in messages.
pub(super) fn secret_line(what: &str) -> Outcome<String> {
    let input = std::io::stdin();
    if input.is_terminal() {
        eprint!("The {what} (visible while you type): ");
    }
    let mut line = String::new();
    input.lock().read_line(&mut line).map_err(|error| {
        Failure::refused(format!("cannot read the {what} from standard input: {error}"))
    })?;
    let line = line.trim_end_matches(['\n', '\r']);
    if line.is_empty() {
        return Err(Failure::usage(format!(
            "standard input is empty; give the {what} as one line, as in 'echo … | softroc …'"
        )));
    }
    Ok(line.to_owned())
}
