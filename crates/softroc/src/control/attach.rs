//! `softroc attach` and `softroc detach`.

use super::{Control, of_each};
use crate::cli::{Attach, Detach};
use crate::failure::Outcome;
use controller::Command;

impl Control {
    /// `softroc attach`.
    pub fn attach(&self, attach: &Attach) -> Outcome {
        if attach.list {
            return self.show(&Command::DiskList {}, attach.output.json);
        }
        let command = |volume: &String| {
            Ok(Command::VolumeAttach {
                volume: volume.clone(),
                read_only: attach.read_only,
                by: attach.by.into(),
            })
        };
        self.show_each(of_each(&attach.volumes, command)?, attach.output.json)
    }

    /// `softroc detach`.
    pub fn detach(&self, detach: &Detach) -> Outcome {
        let command =
            |disk: &String| Ok(Command::VolumeDetach { volume: disk.clone(), force: detach.force });
        self.show_each(of_each(&detach.disks, command)?, detach.output.json)
    }
}
