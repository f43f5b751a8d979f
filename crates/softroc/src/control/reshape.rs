//! `softroc volume expand` and `softroc volume migrate`.

use super::{Control, absolute, named};
use crate::cli::{Reshaping, VolumeCommand, VolumeExpand, VolumeMigrate};
use crate::failure::{Failure, Outcome};
use controller::{Command, ReshapeVolume};

impl Control {
    /// The two reshape commands.
    pub(super) fn grow(&self, command: &VolumeCommand) -> Outcome {
        match command {
            VolumeCommand::Expand(expand) => self.expand(expand),
            VolumeCommand::Migrate(migrate) => self.migrate(migrate),
            _ => Ok(()),
        }
    }

    /// `softroc volume expand`.
    fn expand(&self, expand: &VolumeExpand) -> Outcome {
        let order = ReshapeVolume { volume: expand.name.clone(), ..ReshapeVolume::default() };
        self.reshape(order, &expand.add, &expand.how)
    }

    /// `softroc volume migrate`.
    fn migrate(&self, migrate: &VolumeMigrate) -> Outcome {
        check_migrates(migrate)?;
        let order = ReshapeVolume {
            volume: migrate.name.clone(),
            level: migrate.level.map(|level| level.name().to_owned()),
            remove: migrate.remove.iter().map(|drive| named(drive)).collect::<Outcome<_>>()?,
            strip_bytes: migrate.strip.map(|strip| strip.bytes().0),
            ..ReshapeVolume::default()
        };
        self.reshape(order, &migrate.add, &migrate.how)
    }

    fn reshape(&self, order: ReshapeVolume, add: &[String], how: &Reshaping) -> Outcome {
        let order = ReshapeVolume {
            add: add.iter().map(|drive| absolute(drive)).collect::<Outcome<_>>()?,
            size_bytes: how.size.map(|size| size.0),
            destroy_data: how.destroy_data,
            dry_run: how.dry_run,
            ..order
        };
        self.show(&Command::VolumeReshape(order), how.output.json)
    }
}

/// Refuses a migration without a change of layout; names the command that only adds drives or
/// space.
fn check_migrates(migrate: &VolumeMigrate) -> Outcome {
    if migrate.level.is_some() || migrate.strip.is_some() || !migrate.remove.is_empty() {
        return Ok(());
    }
    let how = &migrate.how;
    let expand = ReshapeVolume {
        volume: migrate.name.clone(),
        add: migrate.add.clone(),
        size_bytes: how.size.map(|size| size.0),
        destroy_data: how.destroy_data,
        dry_run: how.dry_run,
        ..ReshapeVolume::default()
    };
    let what = match migrate.add.is_empty() {
        true => "change only the capacity",
        false => "add drives at the same level",
    };
    Err(Failure::usage(format!(
        "a migration needs --level, --strip or --remove; to {what}, run '{}'",
        expand.command_line()
    )))
}
