//! Talking to the running controller: drive, volume, events, explain of a live volume.

use crate::cli::{AuditCommand, Checked, Cli, DriveCommand, Events, Explain, VolumeCommand};
use crate::failure::{Failure, Outcome};
use crate::{explain, output, place, render, stats};
use control_api::client::{LocalSocket, Place};
use controller::{Command, Reply, VolumeInfo};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

mod account;
mod attach;
mod cache;
mod config;
mod create;
mod follow;
mod foreign;
mod log;
mod notify;
mod reshape;
mod tasks;
mod watch;
mod well;

/// What of the cost of an order is accepted: all of it, or no more than was told.
type Accepted = (bool, Option<Vec<controller::DriveCost>>);

/// Asks; a controller that hangs is left alone after a while.
///
/// # Errors
/// What was answered, or that nothing was.
pub fn within<T: Send + 'static>(
    patience: Duration,
    place: &Place,
    ask: impl FnOnce(&Place) -> controller::Result<T> + Send + 'static,
) -> Outcome<T> {
    let (sender, receiver) = mpsc::channel();
    let place = place.clone();
    // It may never end; the process does. Nobody may listen any more.
    std::thread::spawn(move || drop(sender.send(ask(&place))));
    match receiver.recv_timeout(patience) {
        Ok(answer) => Ok(answer?),
        Err(_) => {
            Err(Failure::failed(format!("the controller does not answer within {} s", patience.as_secs())))
        }
    }
}

/// Where the running controller is.
pub struct Control {
    state: PathBuf,
    socket: PathBuf,
    place: Place,
}

impl Control {
    /// By the command line.
    pub fn of(cli: &Cli) -> Outcome<Control> {
        let here = Control::new(&place::state(cli), cli.socket.as_deref());
        let Some(server) = &cli.remote.server else { return Ok(here) };
        if cli.socket.is_some() {
            return Err(Failure::usage(
                "--socket is a controller on this machine, and --server another one; give one of them",
            ));
        }
        let place = Place::Server(place::remote(server, &cli.remote)?);
        Ok(Control { place, ..here })
    }

    /// By its state directory, and its socket where that is elsewhere.
    pub fn new(state: &Path, socket: Option<&Path>) -> Control {
        let is_named = socket.is_some();
        let socket = socket.map_or_else(|| state.join("control.sock"), Path::to_owned);
        let place = Place::Socket(LocalSocket { path: socket.clone(), is_named });
        Control { state: state.to_owned(), place, socket }
    }

    /// Where commands go.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The state folder.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks the controller.
    pub fn ask(&self, command: &Command) -> Outcome<Reply> {
        Ok(control_api::client::call(&self.place, command)?)
    }

    /// A volume of the running controller.
    pub fn volume_info(&self, name: &str) -> Outcome<Box<VolumeInfo>> {
        match self.ask(&Command::VolumeShow { volume: name.into() })? {
            Reply::Volume { volume, .. } => Ok(volume),
            _ => Err(Failure::failed("the controller's answer is not a volume")),
        }
    }

    /// The NBD address of a volume of the running controller.
    pub fn volume_address(&self, name: &str) -> Outcome<String> {
        if let Place::Server(server) = &self.place {
            return Err(Failure::refused(format!(
                "where {server:?} serves volumes to hosts is not known here; give the address of the volume, nbd://HOST:PORT/{name}"
            )));
        }
        let volume = self.volume_info(name)?;
        let Reply::Info { info } = self.ask(&Command::Info {})? else {
            return Err(Failure::failed("the controller's answer does not say where it serves volumes"));
        };
        let address = info.nbd.first().ok_or_else(|| {
            Failure::failed(format!("the controller at {} serves no volume over NBD", self.socket.display()))
        })?;
        Ok(match address.strip_prefix("unix:") {
            Some(path) => format!("nbd+unix:///{}?socket={path}", volume.name),
            None => format!("nbd://{address}/{}", volume.name),
        })
    }

    /// Asks and shows the answer.
    fn show(&self, command: &Command, json: bool) -> Outcome {
        shown(&self.ask(command)?, json)
    }

    /// The same, and says with the exit code whether all is well, if that is asked.
    fn show_checked(&self, command: &Command, checked: Checked) -> Outcome {
        let reply = self.ask(command)?;
        shown(&reply, checked.output.json)?;
        well::judge(checked.check, &[reply])
    }

    /// Asks for each of several operands and shows the answers. What is refused for one is done for the others. As
    /// JSON they are one object: `{"replies": [...]}`, a reply or an error for each in turn; of one operand, its reply.
    fn show_each(&self, commands: Vec<Command>, json: bool) -> Outcome {
        self.ask_each(commands, json).map(|_| ())
    }

    fn show_each_checked(&self, commands: Vec<Command>, checked: Checked) -> Outcome {
        let replies = self.ask_each(commands, checked.output.json)?;
        well::judge(checked.check, &replies)
    }

    fn ask_each(&self, commands: Vec<Command>, json: bool) -> Outcome<Vec<Reply>> {
        if let [only] = &commands[..] {
            let reply = self.ask(only)?;
            shown(&reply, json)?;
            return Ok(vec![reply]);
        }
        let of = commands.len();
        each(commands.iter().map(|command| self.ask(command)), of, json, render::reply)
    }

    /// Takes drives out one after the other. What each costs is asked first: on a terminal the operator decides, and the order accepts no
    /// more than was said; elsewhere the controller refuses what loses data, unless `--yes` is given.
    fn take_out(
        &self,
        drives: &[String],
        yes: bool,
        json: bool,
        command: impl Fn(String, Accepted, bool) -> Command,
    ) -> Outcome {
        let mut answers = drives.iter().map(|drive| {
            let drive = named(drive)?;
            let mut accepted: Accepted = (yes, None);
            if std::io::stdin().is_terminal() && !yes {
                let answer = self.ask(&command(drive.clone(), (false, None), true))?;
                if let Reply::Drive { notes, costs, .. } = answer {
                    if !notes.is_empty() {
                        output::confirm(&format!("{}. Go on?", notes.join("; ")), false)?;
                    }
                    accepted.1 = Some(costs);
                }
            }
            self.ask(&command(drive, accepted, false))
        });
        match drives {
            [_] => answers.try_for_each(|reply| reply.and_then(|reply| shown(&reply, json))),
            _ => each(answers, drives.len(), json, render::reply).map(|_| ()),
        }
    }

    /// `softroc drive`.
    pub fn drive(&self, command: &DriveCommand) -> Outcome {
        match command {
            DriveCommand::Add { drives, create, output } => {
                let size_bytes = create.map(|size| size.0);
                let add = |drive: &String| Ok(Command::DriveAdd { drive: absolute(drive)?, size_bytes });
                self.show_each(of_each(drives, add)?, output.json)
            }
            DriveCommand::List(checked) => self.show_checked(&Command::DriveList {}, *checked),
            DriveCommand::Show { drives, checked } => {
                let show = |drive: &String| Ok(Command::DriveShow { drive: named(drive)? });
                self.show_each_checked(of_each(drives, show)?, *checked)
            }
            DriveCommand::Stats { drives, stats } => stats::drives(self, drives, stats),
            DriveCommand::Fail { drives, yes, output } => {
                self.take_out(drives, *yes, output.json, |drive, accepted, dry_run| {
                    let (accept_data_loss, accepted) = accepted;
                    Command::DriveFail { drive, accept_data_loss, accepted, dry_run }
                })
            }
            DriveCommand::Offline { drives, yes, output } => {
                self.take_out(drives, *yes, output.json, |drive, accepted, dry_run| {
                    let (accept_data_loss, accepted) = accepted;
                    Command::DriveOffline { drive, accept_data_loss, accepted, dry_run }
                })
            }
            DriveCommand::Suspend { drives, yes, output } => {
                // A yes accepts no loss of data: none is accepted.
                self.take_out(drives, *yes, output.json, |drive, (_, accepted), dry_run| {
                    Command::DriveSuspend { drive, accepted, dry_run }
                })
            }
            DriveCommand::Resume { drives, output } => {
                let resume = |drive: &String| Ok(Command::DriveResume { drive: named(drive)? });
                self.show_each(of_each(drives, resume)?, output.json)
            }
            DriveCommand::Online { drives, output } => {
                let online = |drive: &String| Ok(Command::DriveOnline { drive: named(drive)? });
                self.show_each(of_each(drives, online)?, output.json)
            }
            DriveCommand::ClearFailed { drive, output } => {
                self.show(&Command::DriveClearFailed { drive: named(drive)? }, output.json)
            }
            DriveCommand::Replace { drive, with, destroy_data, output } => {
                let (drive, with) = (named(drive)?, absolute(with)?);
                let command = Command::DriveReplace { drive, with, destroy_data: *destroy_data };
                self.show(&command, output.json)
            }
            DriveCommand::Rescan { drives, was, output } => {
                let was_bytes = was.map(|size| size.0);
                let rescan = |drive: &String| Ok(Command::DriveRescan { drive: named(drive)?, was_bytes });
                self.show_each(of_each(drives, rescan)?, output.json)
            }
            DriveCommand::Locate { drives, off, output } => {
                let locate = |drive: &String| Ok(Command::DriveLocate { drive: named(drive)?, on: !off });
                self.show_each(of_each(drives, locate)?, output.json)
            }
            DriveCommand::Forget { drives, output } => {
                let forget = |drive: &String| Ok(Command::DriveForget { drive: named(drive)? });
                self.show_each(of_each(drives, forget)?, output.json)
            }
        }
    }

    /// `softroc volume`.
    pub fn volume(&self, command: &VolumeCommand) -> Outcome {
        match command {
            VolumeCommand::Create(create) => self.create(create),
            VolumeCommand::List(checked) => self.show_checked(&Command::VolumeList {}, *checked),
            VolumeCommand::Show { names, checked } => {
                let show = |name: &String| Ok(Command::VolumeShow { volume: name.clone() });
                self.show_each_checked(of_each(names, show)?, *checked)
            }
            VolumeCommand::Stats { names, stats } => stats::volumes(self, names, stats),
            VolumeCommand::Rename { name, to, output } => {
                self.show(&Command::VolumeSet { volume: name.clone(), name: to.clone() }, output.json)
            }
            VolumeCommand::Expand(_) | VolumeCommand::Migrate(_) => self.grow(command),
            VolumeCommand::Set(set) => self.set_policy(set),
            VolumeCommand::Start { names, accept_stale_parity, degraded, yes, output } => {
                if *accept_stale_parity {
                    let question = format!(
                        "Blocks of the missing drive of {} may read wrongly where a write was interrupted. Start {} anyway?",
                        quoted(names),
                        it_or_them(names)
                    );
                    output::confirm(&question, *yes)?;
                }
                let start = |name: &String| {
                    Ok(Command::VolumeStart {
                        volume: name.clone(),
                        accept_stale_parity: *accept_stale_parity,
                        degraded: *degraded,
                    })
                };
                self.show_each(of_each(names, start)?, output.json)
            }
            VolumeCommand::Flush { names, output } => {
                let flush = |name: &String| Ok(Command::VolumeFlush { volume: name.clone() });
                self.show_each(of_each(names, flush)?, output.json)
            }
            VolumeCommand::Forget { names, yes, output } => {
                for name in names {
                    self.ask(&Command::VolumeShow { volume: name.clone() })?;
                }
                let (what, it) = (quoted(names), it_or_them(names));
                let question =
                    format!("The drives of the volume {what} will not be looked for any more. Forget {it}?");
                output::confirm(&question, *yes)?;
                let forget = |name: &String| Ok(Command::VolumeForget { volume: name.clone() });
                self.show_each(of_each(names, forget)?, output.json)
            }
            VolumeCommand::Delete { names, disconnect_hosts, yes, output } => {
                // First whether there are such volumes: nobody should be asked about one that is not.
                for name in names {
                    self.ask(&Command::VolumeShow { volume: name.clone() })?;
                }
                let (what, it) = (quoted(names), it_or_them(names));
                output::confirm(&format!("All data of the volume {what} will be lost. Delete {it}?"), *yes)?;
                let delete = |name: &String| {
                    let (volume, disconnect_hosts) = (name.clone(), *disconnect_hosts);
                    Ok(Command::VolumeDelete { volume, disconnect_hosts })
                };
                self.show_each(of_each(names, delete)?, output.json)
            }
        }
    }

    /// `softroc events`.
    pub fn events(&self, events: &Events) -> Outcome {
        match events.follow {
            true => follow::events(self, events.last, events.output.json),
            false => {
                let (last, about) = (Some(events.last), events.about.clone());
                self.show(&Command::EventsList { last, about }, events.output.json)
            }
        }
    }

    /// `softroc audit`.
    pub fn audit(&self, AuditCommand::List(list): &AuditCommand) -> Outcome {
        self.show(&Command::AuditList { last: Some(list.last) }, list.output.json)
    }

    /// `softroc explain --volume`.
    pub fn explain(&self, explain: &Explain) -> Outcome {
        let (operation, range) = match explain.operation.request() {
            Some(kind) => (kind.name(), explain::range_of(explain)?),
            None if explain.range.is_some() => {
                return Err(Failure::usage(
                    "what the cache has is explained of a whole volume; leave the range out",
                ));
            }
            None => ("cache", units::ByteRange::default()),
        };
        let command = Command::Explain(controller::Explain {
            volume: explain.volume.clone(),
            failed: explain.failed.clone(),
            operation: operation.into(),
            offset_bytes: range.start.0,
            size_bytes: range.len.0,
            ..controller::Explain::default()
        });
        self.show(&command, explain.output.json)
    }
}

/// Shows an answer.
fn shown(reply: &Reply, json: bool) -> Outcome {
    match json {
        true => output::json(reply),
        false => output::print(&render::reply(reply)),
    }
}

/// Shows the answers for several operands, as they come or as one JSON object, and gives those that are none of them an
/// error. How many were not done is a failure of the first one's kind.
fn each<T: Serialize>(
    answers: impl Iterator<Item = Outcome<T>>,
    of: usize,
    json: bool,
    text: impl Fn(&T) -> String,
) -> Outcome<Vec<T>> {
    let (mut done, mut failures, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    for answer in answers {
        match (&answer, json) {
            (Ok(answer), true) => shown.push(serde_json::to_value(answer).map_err(Failure::failed)?),
            (Err(failure), true) => shown.push(failure.as_json()),
            (Ok(answer), false) => {
                let gap = if done.is_empty() { "" } else { "\n" };
                output::print(&format!("{gap}{}", text(answer)))?;
            }
            (Err(failure), false) => output::say(&format!("softroc: {failure}")),
        }
        match answer {
            Ok(answer) => done.push(answer),
            Err(failure) => failures.push(failure),
        }
    }
    if json {
        output::json(&serde_json::json!({ "replies": shown }))?;
    }
    match failures.first() {
        Some(first) => Err(first.of_several(failures.len(), of)),
        None => Ok(done),
    }
}

/// The commands for several operands.
fn of_each<T>(operands: &[T], command: impl Fn(&T) -> Outcome<Command>) -> Outcome<Vec<Command>> {
    operands.iter().map(command).collect()
}

/// Names within a sentence: `'a', 'b'`.
fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

fn it_or_them(names: &[String]) -> &'static str {
    if names.len() == 1 { "it" } else { "them" }
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
pub fn named(drive: &str) -> Outcome<String> {
    let is_slot = drive.rsplit_once(':').is_some_and(|(_, slot)| slot.parse::<u16>().is_ok());
    if is_slot { Ok(drive.to_owned()) } else { absolute(drive) }
}
