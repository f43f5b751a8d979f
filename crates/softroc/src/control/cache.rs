//! `softroc cache`.

use super::Control;
use crate::cli::CacheCommand;
use crate::failure::{Failure, Outcome};
use crate::output;
use controller::{Command, Reply};

impl Control {
    /// `softroc cache`.
    pub fn cache(&self, command: &CacheCommand) -> Outcome {
        match command {
            CacheCommand::List(output) => self.show(&Command::CacheList {}, output.json),
            CacheCommand::Remove { memory, yes, output } => {
                if !yes {
                    self.ask_to_remove(memory)?;
                }
                self.show(&Command::CacheRemove { memory: memory.clone() }, output.json)
            }
        }
    }

    fn ask_to_remove(&self, memory: &str) -> Outcome {
        let Reply::Memories { memories } = self.ask(&Command::CacheList {})? else {
            return Err(Failure::failed("the controller's answer is not a list of memory"));
        };
        // The controller refuses an unlisted memory without a confirmation.
        let Some(listed) = memories.iter().find(|info| info.memory == memory) else {
            return Ok(());
        };
        output::confirm(&format!("Removing {memory}; {}. Continue?", listed.lost()), false)
    }
}
