//! Requests to the running controller: drive, volume, events, explain of an existing volume.

use crate::cli::{AuditCommand, Checked, Cli, DriveCommand, Events, Explain, VolumeCommand};
use crate::failure::{Failure, Outcome};
use crate::{explain, output, place, render, stats};
use control_api::client::{LocalSocket, Place};
use controller::{Command, Reply, TaskInfo, VolumeInfo};
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

/// The accepted cost of an operation: any cost, or at most the displayed one.
type Accepted = (bool, Option<Vec<controller::DriveCost>>);

/// Calls `ask` with a time limit; a controller that hangs is left alone.
///
/// # Errors
/// The error of the call, or its timeout.
pub fn within<T: Send + 'static>(
    patience: Duration,
    place: &Place,
    ask: impl FnOnce(&Place) -> controller::Result<T> + Send + 'static,
) -> Outcome<T> {
    let (sender, receiver) = mpsc::channel();
    let place = place.clone();
    // The thread may never finish, but the process exits. After a timeout, no receiver is left.
    std::thread::spawn(move || drop(sender.send(ask(&place))));
    match receiver.recv_timeout(patience) {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Failure::failed(format!(
            "the controller does not respond within {} s",
            patience.as_secs()
        ))),
    }
}

/// The address of the running controller.
pub struct Control {
    state: PathBuf,
    socket: PathBuf,
    place: Place,
}

impl Control {
    /// From the command line.
    pub fn of(cli: &Cli) -> Outcome<Control> {
        let here = Control::new(&place::state(cli), cli.socket.as_deref());
        let Some(server) = &cli.remote.server else { return Ok(here) };
        if cli.socket.is_some() {
            return Err(Failure::usage(
                "--socket selects a local controller, and --server a remote one; give one of them",
            ));
        }
        let place = Place::Server(place::remote(server, &cli.remote)?);
        Ok(Control { place, ..here })
    }

    /// From its state folder, and its socket if it is elsewhere.
    pub fn new(state: &Path, socket: Option<&Path>) -> Control {
        let is_named = socket.is_some();
        let socket = socket.map_or_else(|| state.join("control.sock"), Path::to_owned);
        let place = Place::Socket(LocalSocket { path: socket.clone(), is_named });
        Control { state: state.to_owned(), place, socket }
    }

    /// The target of commands.
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

    /// Sends a command to the controller.
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
                "the NBD address of {server:?} is unknown; give the address of the volume, \
                 nbd://HOST:PORT/{name}"
            )));
        }
        let volume = self.volume_info(name)?;
        let Reply::Info { info } = self.ask(&Command::Info {})? else {
            return Err(Failure::failed("the controller's answer has no NBD address"));
        };
        let address = info.nbd.first().ok_or_else(|| {
            Failure::failed(format!(
                "the controller at {} serves no volume over NBD",
                self.socket.display()
            ))
        })?;
        Ok(match address.strip_prefix("unix:") {
            Some(path) => format!("nbd+unix:///{}?socket={path}", volume.name),
            None => format!("nbd://{address}/{}", volume.name),
        })
    }

    /// Sends a command and shows the reply.
    fn show(&self, command: &Command, json: bool) -> Outcome {
        shown(&self.ask(command)?, json)
    }

    /// The same, with an exit code for problems if requested.
    fn show_checked(&self, command: &Command, checked: Checked) -> Outcome {
        let reply = self.ask(command)?;
        shown(&reply, checked.output.json)?;
        well::judge(checked.check, &[reply])
    }

    /// Sends a command for each operand and shows the replies. An error for one operand does not
    /// stop the others. As JSON they are one object, `{"replies": [...]}`, with a reply or an error
    /// for each; for one operand, only its reply.
    fn show_each(&self, commands: Vec<Command>, json: bool) -> Outcome {
        self.ask_each(commands, json, render::reply).map(|_| ())
    }

    /// Shows several operands in the view for people who look at them: in short, or `all` there is.
    fn look_at_each(&self, commands: Vec<Command>, checked: Checked, all: bool) -> Outcome {
        let json = checked.output.json;
        let tasks = match json || all {
            true => Vec::new(),
            false => self.tasks()?,
        };
        let text = |reply: &Reply| render::shown(reply, &tasks, all);
        let replies = self.ask_each(commands, json, text)?;
        well::judge(checked.check, &replies)
    }

    fn tasks(&self) -> Outcome<Vec<TaskInfo>> {
        match self.ask(&Command::TaskList {})? {
            Reply::Tasks { tasks } => Ok(tasks),
            _ => Err(Failure::failed("the controller's answer is not a list of tasks")),
        }
    }

    fn ask_each(
        &self,
        commands: Vec<Command>,
        json: bool,
        text: impl Fn(&Reply) -> String,
    ) -> Outcome<Vec<Reply>> {
        if let [only] = &commands[..] {
            let reply = self.ask(only)?;
            match json {
                true => output::json(&reply)?,
                false => output::print(&text(&reply))?,
            }
            return Ok(vec![reply]);
        }
        let of = commands.len();
        each(commands.iter().map(|command| self.ask(command)), of, json, text)
    }

    /// Takes drives offline one after the other. On a terminal, the operator first confirms the
    /// cost, and the command accepts no higher one. Elsewhere the controller refuses data loss
    /// unless `--yes` is given.
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
            [_] => answers.try_for_each(|reply| {
                let reply = reply?;
                if json { output::json(&reply) } else { output::print(&render::taken_out(&reply)) }
            }),
            _ => each(answers, drives.len(), json, render::taken_out).map(|_| ()),
        }
    }

    fn rescan(&self, drives: &[String], was_bytes: Option<u64>, json: bool) -> Outcome {
        let rescan = |drive: &String| Ok(Command::DriveRescan { drive: named(drive)?, was_bytes });
        self.show_each(of_each(drives, rescan)?, json)
    }

    /// `softroc drive`.
    pub fn drive(&self, command: &DriveCommand) -> Outcome {
        match command {
            DriveCommand::Add { drives, create, output } => {
                let size_bytes = create.map(|size| size.0);
                let add =
                    |drive: &String| Ok(Command::DriveAdd { drive: absolute(drive)?, size_bytes });
                self.show_each(of_each(drives, add)?, output.json)
            }
            DriveCommand::List(checked) => self.show_checked(&Command::DriveList {}, *checked),
            DriveCommand::Show { drives, checked } => {
                let show = |drive: &String| Ok(Command::DriveShow { drive: named(drive)? });
                self.look_at_each(of_each(drives, show)?, *checked, true)
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
                // `--yes` does not accept data loss here.
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
                self.rescan(drives, was.map(|size| size.0), output.json)
            }
            DriveCommand::Locate { drives, off, output } => {
                let locate =
                    |drive: &String| Ok(Command::DriveLocate { drive: named(drive)?, on: !off });
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
            VolumeCommand::Show { names, all, checked } => {
                let show = |name: &String| Ok(Command::VolumeShow { volume: name.clone() });
                self.look_at_each(of_each(names, show)?, *checked, *all)
            }
            VolumeCommand::Stats { names, stats } => stats::volumes(self, names, stats),
            VolumeCommand::Rename { name, to, output } => self
                .show(&Command::VolumeSet { volume: name.clone(), name: to.clone() }, output.json),
            VolumeCommand::Expand(_) | VolumeCommand::Migrate(_) => self.grow(command),
            VolumeCommand::Set(set) => self.set_policy(set),
            VolumeCommand::Start { names, accept_stale_parity, degraded, yes, output } => {
                if *accept_stale_parity {
                    let question = format!(
                        "Blocks of the missing drive of {} may be wrong where a write was \
                         interrupted. Start {} anyway?",
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
                self.check_volumes_exist(names)?;
                let (what, it) = (quoted(names), it_or_them(names));
                let question = format!(
                    "The controller stops searching for the drives of the volume {what}. Forget \
                     {it}?"
                );
                output::confirm(&question, *yes)?;
                let forget = |name: &String| Ok(Command::VolumeForget { volume: name.clone() });
                self.show_each(of_each(names, forget)?, output.json)
            }
            VolumeCommand::Delete { names, disconnect_hosts, yes, output } => {
                self.delete(names, *disconnect_hosts, *yes, output.json)
            }
        }
    }

    fn delete(&self, names: &[String], disconnect_hosts: bool, yes: bool, json: bool) -> Outcome {
        self.check_volumes_exist(names)?;
        let (what, it) = (quoted(names), it_or_them(names));
        let question = format!("All data of the volume {what} will be lost. Delete {it}?");
        output::confirm(&question, yes)?;
        let delete =
            |name: &String| Ok(Command::VolumeDelete { volume: name.clone(), disconnect_hosts });
        self.show_each(of_each(names, delete)?, json)
    }

    /// Fails before a confirmation where a volume does not exist.
    fn check_volumes_exist(&self, names: &[String]) -> Outcome {
        names
            .iter()
            .try_for_each(|name| self.ask(&Command::VolumeShow { volume: name.clone() }).map(drop))
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
                return Err(Failure::usage("'cache' explains the whole volume; omit the range"));
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

/// Shows a reply.
fn shown(reply: &Reply, json: bool) -> Outcome {
    match json {
        true => output::json(reply),
        false => output::print(&render::reply(reply)),
    }
}

/// Shows the replies for several operands, at once or as one JSON object, and returns the
/// successful ones. Failures are summarised in one failure with the kind of the first.
fn each<T: Serialize>(
    answers: impl Iterator<Item = Outcome<T>>,
    of: usize,
    json: bool,
    text: impl Fn(&T) -> String,
) -> Outcome<Vec<T>> {
    let (mut done, mut failures, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    for answer in answers {
        match (&answer, json) {
            (Ok(answer), true) => {
                shown.push(serde_json::to_value(answer).map_err(Failure::failed)?)
            }
            (Err(failure), true) => shown.push(failure.as_json()),
            (Ok(answer), false) => {
                let text = text(answer);
                // Texts of several lines are set apart.
                let gap = if done.is_empty() || !text.contains('\n') { "" } else { "\n" };
                output::print(&format!("{gap}{text}"))?;
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

/// Quoted names within a sentence: `'a', 'b'`.
fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

fn it_or_them(names: &[String]) -> &'static str {
    if names.len() == 1 { "it" } else { "them" }
}

/// The controller may run in another folder: paths are sent as absolute ones.
pub fn absolute(drive: &str) -> Outcome<String> {
    let is_path =
        !["mem:", "null:", "nbd:", "nbd+unix:"].iter().any(|kind| drive.starts_with(kind));
    if !is_path || drive.starts_with('/') {
        return Ok(drive.to_owned());
    }
    let path = std::path::absolute(drive)
        .map_err(|error| Failure::refused(format!("'{drive}' is not a valid path: {error}")))?;
    path.into_os_string().into_string().map_err(|path| {
        Failure::refused(format!("the path {} is not text; rename it", path.to_string_lossy()))
    })
}

/// A drive that the controller knows: VOLUME:SLOT unchanged, a path as an absolute one.
pub fn named(drive: &str) -> Outcome<String> {
    let is_slot = drive.rsplit_once(':').is_some_and(|(_, slot)| slot.parse::<u16>().is_ok());
    if is_slot { Ok(drive.to_owned()) } else { absolute(drive) }
}
