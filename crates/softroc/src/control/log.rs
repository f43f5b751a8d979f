//! `softroc log`.

use super::{Control, absolute, named};
use crate::cli::LogCommand;
use crate::failure::{Failure, Outcome};
use crate::output;
use controller::{Command, DiscardLog, Discarded, Reply};

impl Control {
    /// `softroc log`.
    pub fn log(&self, command: &LogCommand) -> Outcome {
        match command {
            LogCommand::Add { drives, destroy_data, yes, output } => {
                let drives = drives.iter().map(|drive| absolute(drive)).collect::<Outcome<_>>()?;
                let add =
                    Command::LogAdd { drives, destroy_data: *destroy_data, same_disk_ok: *yes };
                self.show(&add, output.json)
            }
            LogCommand::List(checked) => self.show_checked(&Command::LogList {}, *checked),
            LogCommand::Remove { drive, output } => {
                self.show(&Command::LogRemove { drive: named(drive)? }, output.json)
            }
            LogCommand::Discard { name, cache, records, yes, output } => {
                let what = match (cache, records) {
                    (true, _) => Some(Discarded::Cache),
                    (false, true) => Some(Discarded::Records),
                    (false, false) => None,
                };
                self.discard(name, what, *yes, output.json)
            }
        }
    }

    fn discard(&self, name: &str, what: Option<Discarded>, yes: bool, json: bool) -> Outcome {
        let order =
            |dry_run| Command::LogDiscard(DiscardLog { volume: name.to_owned(), what, dry_run });
        if !yes {
            let Reply::Volume { notes, .. } = self.ask(&order(true))? else {
                return Err(Failure::failed("the controller's answer is not a volume"));
            };
            let question = format!("Discarding data of '{name}'; {}. Continue?", notes.join("; "));
            output::confirm(&question, false)?;
        }
        self.show(&order(false), json)
    }
}
