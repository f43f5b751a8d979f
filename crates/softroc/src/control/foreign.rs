//! `softroc foreign`.

use super::{Control, named};
use crate::cli::foreign::ForeignCommand;
use crate::failure::{Failure, Outcome};
use crate::output;
use controller::{Command, ForeignDrive, ForeignVolume, Reply};

impl Control {
    /// `softroc foreign`.
    pub fn foreign(&self, command: &ForeignCommand) -> Outcome {
        match command {
            ForeignCommand::List(output) => self.show(&Command::ForeignList {}, output.json),
            ForeignCommand::Import { volume, name, yes, output } => {
                if !yes {
                    self.ask_to_import(volume)?;
                }
                let command = Command::ForeignImport { volume: volume.clone(), name: name.clone() };
                self.show(&command, output.json)
            }
            ForeignCommand::Clear { drives, yes, output } => {
                let drives =
                    drives.iter().map(|drive| named(drive)).collect::<Outcome<Vec<String>>>()?;
                if !yes {
                    self.ask_to_clear(&drives)?;
                }
                self.show(&Command::ForeignClear { drives }, output.json)
            }
        }
    }

    fn listed(&self) -> Outcome<(Vec<ForeignVolume>, Vec<ForeignDrive>)> {
        match self.ask(&Command::ForeignList {})? {
            Reply::Foreign { volumes, drives } => Ok((volumes, drives)),
            _ => Err(Failure::failed("the controller's answer is not a list of foreign volumes")),
        }
    }

    /// Names the drives and asks for confirmation. Refusals come without a question.
    fn ask_to_import(&self, named: &str) -> Outcome {
        let (volumes, _) = self.listed()?;
        let is_it = |volume: &&ForeignVolume| {
            let own = volume.name.rsplit_once(':').map_or(&volume.name[..], |(_, own)| own);
            [&volume.identity[..], &volume.name[..], own].contains(&named)
        };
        let importable = |volume: &&ForeignVolume| volume.obstacle.is_none();
        let Some(volume) = volumes.iter().filter(is_it).find(importable) else { return Ok(()) };
        let drives: Vec<&str> =
            volume.members.iter().filter_map(|member| member.drive.as_deref()).collect();
        let with = match volume.together_with.is_empty() {
            true => String::new(),
            false => format!(" ({} comes with it)", volume.together_with.join(", ")),
        };
        let question = format!(
            "After the import, the system that created '{named}'{with} no longer recognises its \
             drives: {}. The data stays. Import it?",
            drives.join(" ")
        );
        output::confirm(&question, false)
    }

    /// Names the drives and asks for confirmation. Drives that cannot be cleared are refused
    /// without a question.
    fn ask_to_clear(&self, drives: &[String]) -> Outcome {
        let (_, known) = self.listed()?;
        let told: Vec<String> = known
            .iter()
            .filter(|known| known.clearable && drives.contains(&known.name))
            .map(|known| format!("{} ({})", known.name, known.holds.join("; ")))
            .collect();
        if told.is_empty() {
            return Ok(());
        }
        let question = format!(
            "No system will recognise the contents of these drives afterwards: {}. Clear them?",
            told.join(", ")
        );
        output::confirm(&question, false)
    }
}
