//! `softroc config`.

use super::Control;
use crate::cli::{ConfigCommand, ConfigRestore};
use crate::failure::{Failure, Outcome};
use crate::{output, render};
use config::{Difference, Document};
use control_api::ConfigReply;
use serde_json::{Value, json};
use std::io::Read;
use std::path::Path;
use units::counted;

impl Control {
    /// `softroc config`.
    pub fn config(&self, command: &ConfigCommand) -> Outcome {
        match command {
            ConfigCommand::Save { output, json } => self.save_config(output, *json),
            ConfigCommand::Restore(order) => self.restore_config(order),
        }
    }

    fn save_config(&self, file: &Path, json: bool) -> Outcome {
        let reply = control_api::client::configuration(self.place(), None)?;
        if json {
            return output::json(&reply);
        }
        let ConfigReply::Configuration { document } = reply else { return Err(unexpected()) };
        output::write_file(file, &document.written()?)
    }

    fn restore_config(&self, order: &ConfigRestore) -> Outcome {
        let document = Document::read(&content(&order.file)?)?;
        let body = |dry_run: bool| -> Outcome<Value> {
            let document = serde_json::to_value(&document).map_err(Failure::failed)?;
            Ok(json!({ "document": document, "dry_run": dry_run, "create": order.create }))
        };
        if order.dry_run {
            return self.compared(&body(true)?, order.output.json).map(|_| ());
        }
        if !order.yes {
            let reply = control_api::client::configuration(self.place(), Some(&body(true)?))?;
            let ConfigReply::Differences { differences, .. } = &reply else {
                return Err(unexpected());
            };
            let changes = differences.iter().filter(|one| one.stays.is_none()).count();
            if changes > 0 {
                output::say(&render::config::reply(&reply));
                output::confirm(&format!("Set {}?", counted(changes, "difference")), false)?;
            }
        }
        let differences = self.compared(&body(false)?, order.output.json)?;
        let failed = differences.iter().filter(|one| one.failure.is_some()).count();
        match failed {
            0 => Ok(()),
            _ => Err(Failure::failed(format!(
                "{} could not be set; the others are set; correct the listed ones, then restore \
                 again",
                counted(failed, "difference")
            ))),
        }
    }

    /// Shows the differences and asks for confirmation.
    fn compared(&self, body: &Value, json: bool) -> Outcome<Vec<Difference>> {
        let reply = control_api::client::configuration(self.place(), Some(body))?;
        match json {
            true => output::json(&reply)?,
            false => output::print(&render::config::reply(&reply))?,
        }
        match reply {
            ConfigReply::Differences { differences, .. } => Ok(differences),
            ConfigReply::Configuration { .. } => Err(unexpected()),
        }
    }
}

fn unexpected() -> Failure {
    Failure::failed("unexpected answer of the controller; see its log")
}

/// The content of a file, or of standard input.
fn content(file: &Path) -> Outcome<String> {
    let mut text = String::new();
    let read = match file == Path::new("-") {
        true => std::io::stdin().lock().read_to_string(&mut text).map(|_| ()),
        false => std::fs::read_to_string(file).map(|content| text = content),
    };
    let name = file.display();
    match read {
        Ok(()) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Failure::not_found(
            format!("there is no file {name}; 'softroc config save' writes one"),
        )),
        Err(error) => Err(Failure::refused(format!("cannot read {name}: {error}"))),
    }
}
