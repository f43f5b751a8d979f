//! Talking to the running controller: drive, volume, events, explain of a live volume.

use crate::cli::{Cli, DriveCommand, Events, Explain, VolumeCommand, VolumeCreate};
use crate::failure::{Failure, Outcome};
use crate::{explain, output, render};
use controller::{Command, CreateVolume, Reply};
use std::path::{Path, PathBuf};

mod foreign;
mod tasks;

/// Where the running controller is.
pub struct Control {
    state: PathBuf,
    socket: PathBuf,
}

impl Control {
    /// By the command line.
    pub fn of(cli: &Cli) -> Control {
        Control::new(&cli.state, cli.socket.as_deref())
    }

    /// By its state directory, and its socket where that is elsewhere.
    pub fn new(state: &Path, socket: Option<&Path>) -> Control {
        let socket = socket.map_or_else(|| state.join("control.sock"), Path::to_owned);
        Control { state: state.to_owned(), socket }
    }

    /// The control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks the controller.
    pub fn ask(&self, command: &Command) -> Outcome<Reply> {
        api::client::call(&self.socket, command).map_err(|error| match error.exit_code() {
            2 => Failure::refused(error),
            _ => Failure::failed(error),
        })
    }

    /// The NBD address of a volume of the running controller.
    pub fn volume_address(&self, name: &str) -> Outcome<String> {
        let Reply::Volume { volume, .. } = self.ask(&Command::VolumeShow { volume: name.into() })? else {
            return Err(Failure::failed("the controller's answer is not a volume"));
        };
        let endpoints = self.state.join(crate::serve::ENDPOINTS);
        let listening = std::fs::read_to_string(&endpoints).unwrap_or_default();
        let address = listening.lines().next().ok_or_else(|| {
            Failure::failed(format!("{} does not contain the controller's NBD address", endpoints.display()))
        })?;
        Ok(match address.strip_prefix("unix:") {
            Some(path) => format!("nbd+unix:///{}?socket={path}", volume.name),
            None => format!("nbd://{address}/{}", volume.name),
        })
    }

    /// Asks and shows the answer.
    fn show(&self, command: &Command, json: bool) -> Outcome {
        let reply = self.ask(command)?;
        match json {
            true => output::json(&reply),
            false => output::print(&render::reply(&reply)),
        }
    }

    /// `softroc drive`.
    pub fn drive(&self, command: &DriveCommand) -> Outcome {
        match command {
            DriveCommand::Add { drives, create, output } => {
                for drive in drives {
                    let drive = absolute(drive)?;
                    let size_bytes = create.map(|size| size.0);
                    self.show(&Command::DriveAdd { drive, size_bytes }, output.json)?;
                }
                Ok(())
            }
            DriveCommand::List(output) => self.show(&Command::DriveList {}, output.json),
            DriveCommand::Show { drive, output } => {
                self.show(&Command::DriveShow { drive: named(drive)? }, output.json)
            }
            DriveCommand::Fail { drive, output } => {
                self.show(&Command::DriveFail { drive: named(drive)? }, output.json)
            }
            DriveCommand::Offline { drive, output } => {
                self.show(&Command::DriveOffline { drive: named(drive)? }, output.json)
            }
            DriveCommand::Online { drive, output } => {
                self.show(&Command::DriveOnline { drive: named(drive)? }, output.json)
            }
            DriveCommand::ClearFailed { drive, output } => {
                self.show(&Command::DriveClearFailed { drive: named(drive)? }, output.json)
            }
            DriveCommand::Replace { drive, with, destroy_data, output } => {
                let (drive, with) = (named(drive)?, absolute(with)?);
                let command = Command::DriveReplace { drive, with, destroy_data: *destroy_data };
                self.show(&command, output.json)
            }
            DriveCommand::Forget { drive, output } => {
                self.show(&Command::DriveForget { drive: named(drive)? }, output.json)
            }
        }
    }

    /// `softroc volume`.
    pub fn volume(&self, command: &VolumeCommand) -> Outcome {
        match command {
            VolumeCommand::Create(create) => self.show(&creation(create)?, create.output.json),
            VolumeCommand::List(output) => self.show(&Command::VolumeList {}, output.json),
            VolumeCommand::Show { name, output } => {
                self.show(&Command::VolumeShow { volume: name.clone() }, output.json)
            }
            VolumeCommand::Rename { name, to, output } => {
                let command = Command::VolumeSet { volume: name.clone(), name: to.clone() };
                self.show(&command, output.json)
            }
            VolumeCommand::Set(set) => self.set_policy(set),
            VolumeCommand::Start { name, accept_stale_parity, degraded, yes, output } => {
                if *accept_stale_parity {
                    let question = format!(
                        "Blocks of the missing drive of '{name}' may read wrongly where a write was interrupted. Start it anyway?"
                    );
                    output::confirm(&question, *yes)?;
                }
                let command = Command::VolumeStart {
                    volume: name.clone(),
                    accept_stale_parity: *accept_stale_parity,
                    degraded: *degraded,
                };
                self.show(&command, output.json)
            }
            VolumeCommand::Delete { name, yes, output } => {
                // First whether there is such a volume: nobody should be asked about one that is not.
                self.ask(&Command::VolumeShow { volume: name.clone() })?;
                output::confirm(&format!("All data of the volume '{name}' will be lost. Delete it?"), *yes)?;
                self.show(&Command::VolumeDelete { volume: name.clone() }, output.json)
            }
        }
    }

    /// `softroc events`.
    pub fn events(&self, events: &Events) -> Outcome {
        self.show(&Command::EventsList { last: Some(events.last) }, events.output.json)
    }

    /// `softroc explain --volume`.
    pub fn explain(&self, explain: &Explain) -> Outcome {
        let range = explain::parse_range(&explain.range)?;
        let command = Command::Explain(controller::Explain {
            volume: explain.volume.clone(),
            failed: explain.failed.clone(),
            operation: plan::RequestKind::from(explain.operation).name().into(),
            offset_bytes: range.start.0,
            size_bytes: range.len.0,
            ..controller::Explain::default()
        });
        self.show(&command, explain.output.json)
    }
}

fn creation(create: &VolumeCreate) -> Outcome<Command> {
    Ok(Command::VolumeCreate(CreateVolume {
        name: create.name.clone(),
        level: create.level.to_string(),
        drives: create.drives.iter().map(|drive| absolute(drive)).collect::<Outcome<_>>()?,
        array: create.array.clone(),
        spans: create.spans,
        copies: create.copies,
        strip_bytes: create.strip.map(|strip| strip.bytes().0),
        arrangement: create.arrangement.clone(),
        size_bytes: create.size.map(|size| size.0),
        write_hole: create.write_hole.map(Into::into),
        destroy_data: create.destroy_data,
    }))
}

/// The controller may run in another directory: paths are sent absolute.
pub fn absolute(drive: &str) -> Outcome<String> {
    let is_path = !["mem:", "null:", "nbd:", "nbd+unix:"].iter().any(|kind| drive.starts_with(kind));
    if !is_path || drive.starts_with('/') {
        return Ok(drive.to_owned());
    }
    let path = std::path::absolute(drive)
        .map_err(|error| Failure::refused(format!("'{drive}' is not a path: {error}")))?;
    path.into_os_string().into_string().map_err(|path| {
        Failure::refused(format!("the path {} is not text; rename it", path.to_string_lossy()))
    })
}

/// A drive that the controller knows: VOLUME:SLOT as it is, a path absolute.
fn named(drive: &str) -> Outcome<String> {
    let is_slot = drive.rsplit_once(':').is_some_and(|(_, slot)| slot.parse::<u16>().is_ok());
    if is_slot { Ok(drive.to_owned()) } else { absolute(drive) }
}
