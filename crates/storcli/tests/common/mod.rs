//! Recorded data of a controller: its replies to `metrics`, `events-list` and `foreign-list` (as
//! printed by `softroc --json` and the control socket): a degraded RAID 6, a RAID 10 of two spans,
//! spares, and a task. The foreign data is from other drives.

use controller::{
    Command, CreateVolume, Error, ErrorKind, LayoutInfo, Reply, ReshapeInfo, ReshapeVolume,
    VolumeInfo,
};
use storcli::{Machine, Output, Program, Surroundings};

fn kept(text: &str) -> Reply {
    serde_json::from_str(text).expect("a controller wrote it")
}

/// The recorded data, its variations, and the received commands.
#[derive(Default)]
pub struct Picture {
    pub asked: Vec<Command>,
    pub refuses: Option<ErrorKind>,
    /// The offline drive is suspended instead.
    pub suspended: bool,
    pub written: Vec<(String, String)>,
    /// No drive is foreign.
    pub nothing_foreign: bool,
    /// No volume was created yet.
    pub no_volumes: bool,
    /// Number of deleted volumes, whose numbers are not reused.
    pub deleted: u32,
    /// Number of volumes that have space.
    pub room_for: Option<u32>,
    /// Remaining differences after the restore of a configuration.
    pub left: Vec<String>,
}

/// The recorded metrics.
fn metrics() -> controller::MetricsInfo {
    match kept(include_str!("../picture/metrics.json")) {
        Reply::Metrics { metrics } => *metrics,
        other => panic!("{other:?}"),
    }
}

/// The volume with that UUID.
fn volume(uuid: &str) -> VolumeInfo {
    let mut volumes = metrics().volumes.into_iter().map(|volume| volume.volume);
    volumes.find(|volume| volume.uuid == uuid).expect("it is in the picture")
}

/// By how much each volume can grow.
pub const ROOM: u64 = 64 << 20;

/// The reply to a reshape: the requested size, or all space.
fn reshaped(order: &ReshapeVolume) -> Reply {
    let of = volume(&order.volume);
    let from = LayoutInfo {
        level: of.level.clone(),
        drives: 4,
        strip_bytes: of.strip_bytes,
        capacity_bytes: of.capacity_bytes,
        may_lose: of.may_lose,
    };
    let to = LayoutInfo {
        level: order.level.clone().unwrap_or(of.level),
        capacity_bytes: order.size_bytes.unwrap_or(of.capacity_bytes + ROOM),
        ..from.clone()
    };
    let reshape = ReshapeInfo {
        volume: of.name,
        from,
        to,
        may_lose: 0,
        saved_at_a_time_bytes: 0,
        at_a_time_bytes: 0,
        estimated_s: None,
        moved_bytes: 0,
        total_bytes: 0,
        down: false,
        removes: Vec::new(),
        waits: false,
        along: Vec::new(),
    };
    Reply::Reshape { reshape: Box::new(reshape), notes: Vec::new() }
}

impl Picture {
    fn metrics(&self) -> Reply {
        let mut metrics = metrics();
        if self.suspended {
            let all = metrics.drives.iter_mut().map(|drive| &mut drive.drive);
            let members =
                metrics.volumes.iter_mut().flat_map(|volume| volume.volume.drives.iter_mut());
            for drive in
                all.chain(members).filter(|drive| drive.state == controller::DriveState::Offline)
            {
                drive.state = controller::DriveState::Suspended;
            }
        }
        if self.no_volumes {
            metrics.volumes.clear();
            metrics.schedules.retain(|schedule| schedule.volume.is_none());
        }
        Reply::Metrics { metrics: Box::new(metrics) }
    }

    /// The reply to the last creation.
    fn created(&self, create: &CreateVolume) -> controller::Result<Reply> {
        let asked =
            self.asked.iter().filter(|asked| matches!(asked, Command::VolumeCreate(_))).count();
        let created = u32::try_from(asked).unwrap() - 1;
        if self.room_for.is_some_and(|room| created >= room) {
            return Err(Error::new(ErrorKind::OutOfSpace, "there is no room"));
        }
        let before = if self.no_volumes { 0 } else { 2 };
        let mut of = metrics().volumes.swap_remove(0).volume;
        of.name.clone_from(&create.name);
        of.number = Some(before + self.deleted + created);
        Ok(Reply::Volume { volume: Box::new(of), notes: Vec::new() })
    }
}

impl Machine for Picture {
    fn ask(&mut self, command: &Command) -> controller::Result<Reply> {
        match (command, self.refuses) {
            (Command::Metrics {}, _) => Ok(self.metrics()),
            (Command::EventsList { .. }, _) => Ok(kept(include_str!("../picture/events.json"))),
            (Command::ForeignList {}, _) if self.nothing_foreign => {
                Ok(Reply::Foreign { volumes: Vec::new(), drives: Vec::new() })
            }
            (Command::ForeignList {}, _) => Ok(kept(include_str!("../picture/foreign.json"))),
            (Command::VolumeReshape(order), None) if order.dry_run => Ok(reshaped(order)),
            (other, None) => {
                self.asked.push(other.clone());
                match other {
                    Command::VolumeReshape(order) => Ok(reshaped(order)),
                    Command::VolumeCreate(create) => self.created(create),
                    _ => Ok(Reply::Done { notes: Vec::new() }),
                }
            }
            (_, Some(kind)) => Err(Error::new(kind, "the controller says no")),
        }
    }

    fn read(&mut self, path: &str) -> Result<String, String> {
        let file = self.written.iter().find(|(name, _)| name == path);
        file.map(|(_, text)| text.clone()).ok_or_else(|| format!("there is no {path}"))
    }

    fn write(&mut self, path: &str, text: &str) -> Result<(), String> {
        self.written.push((path.to_owned(), text.to_owned()));
        Ok(())
    }

    fn configuration(&mut self) -> controller::Result<String> {
        match self.refuses {
            None => Ok("format = \"softroc-configuration\"\n".to_owned()),
            Some(kind) => Err(Error::new(kind, "the controller says no")),
        }
    }

    fn restore(&mut self, file: &str) -> controller::Result<Vec<String>> {
        match file.starts_with("format") {
            true => Ok(self.left.clone()),
            false => Err(Error::new(ErrorKind::Invalid, "that is no saved configuration")),
        }
    }
}

pub fn around(program: Program) -> Surroundings {
    Surroundings {
        program,
        host_name: "host".into(),
        operating_system: "Linux 6.1.0".into(),
        now_unix_s: 1_795_388_462,
        temperature_c: Some(45),
        memory_bytes: 2 << 30,
        memory_errors: (0, 0),
    }
}

impl Picture {
    pub fn run(&mut self, line: &str) -> Output {
        self.run_as(Program::StorCli, line)
    }

    pub fn run_as(&mut self, program: Program, line: &str) -> Output {
        self.run_words(program, line.split_whitespace())
    }

    /// Words as split by a shell: they may contain blanks.
    pub fn run_words<'a>(
        &mut self,
        program: Program,
        words: impl IntoIterator<Item = &'a str>,
    ) -> Output {
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        storcli::run(&words, &around(program), self)
    }
}
