//! `softroc log`.

use super::{Control, absolute, named};
use crate::cli::LogCommand;
use crate::failure::Outcome;
use crate::output;
use controller::Command;
use units::ByteCount;

impl Control {
    /// `softroc log`.
    pub fn log(&self, command: &LogCommand) -> Outcome {
        match command {
            LogCommand::Add { drives, destroy_data, yes, output } => {
                let drives = drives.iter().map(|drive| absolute(drive)).collect::<Outcome<_>>()?;
                let add = Command::LogAdd { drives, destroy_data: *destroy_data, same_disk_ok: *yes };
                self.show(&add, output.json)
            }
            LogCommand::List(checked) => self.show_checked(&Command::LogList {}, *checked),
            LogCommand::Remove { drive, output } => {
                self.show(&Command::LogRemove { drive: named(drive)? }, output.json)
            }
            LogCommand::Discard { name, yes, output } => self.discard(name, *yes, output.json),
        }
    }

    fn discard(&self, name: &str, yes: bool, json: bool) -> Outcome {
        let volume = self.volume_info(name)?;
        let given_up = match ByteCount(volume.cache.dirty_bytes) {
            ByteCount::ZERO => "What the cache, or a log device that is missing, has or had".to_owned(),
            dirty => dirty.to_string(),
        };
        let question = format!(
            "{given_up} of '{}' that hosts were told is written will be lost. Give it up?",
            volume.name
        );
        output::confirm(&question, yes)?;
        self.show(&Command::LogDiscard { volume: name.to_owned() }, json)
    }
}
