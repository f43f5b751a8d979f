//! `softroc health` and `softroc alarm`.

use super::Control;
use crate::cli::AlarmCommand;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::watch;
use controller::{AlarmSetting, Command, Reply, WellBeing};
use std::process::ExitCode;

impl Control {
    /// `softroc health`: the exit code is the overall health.
    pub fn health(&self, json: bool) -> Outcome<ExitCode> {
        let Reply::Health { health } = self.ask(&Command::Health {})? else {
            return Err(Failure::failed(
                "the controller's answer is not a health report; see its log",
            ));
        };
        match json {
            true => output::json(&health)?,
            false => output::print(&watch::health(&health))?,
        }
        Ok(ExitCode::from(match health.status {
            WellBeing::Ok => 0,
            WellBeing::Warning => 1,
            WellBeing::Critical => 2,
        }))
    }

    /// `softroc alarm`.
    pub fn alarm(&self, command: &AlarmCommand) -> Outcome {
        let (command, output) = match command {
            AlarmCommand::Show(output) => (Command::AlarmShow {}, output),
            AlarmCommand::On(output) => (Command::AlarmSet { to: AlarmSetting::On }, output),
            AlarmCommand::Off(output) => (Command::AlarmSet { to: AlarmSetting::Off }, output),
            AlarmCommand::Silence(output) => {
                (Command::AlarmSet { to: AlarmSetting::Silence }, output)
            }
        };
        self.show(&command, output.json)
    }
}
