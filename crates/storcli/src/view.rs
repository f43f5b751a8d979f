//! The state of the controller, from one moment, with StorCLI's numbers.

use crate::Machine;
use crate::answer::Answer;
use crate::words::{DriveLocation, Numbers};
use controller::{
    Command, DriveInfo, DriveNumbers, DriveState, MetricsInfo, Reply, Scheduled, SpareInfo,
    SpareKind, TaskInfo, TaskKind, VolumeInfo, VolumeState,
};

/// The state of the controller.
pub(crate) struct View {
    pub(crate) metrics: MetricsInfo,
}

/// A drive with its numbers and its drive group.
#[derive(Clone, Copy)]
pub(crate) struct Pd<'a> {
    pub(crate) drive: &'a DriveInfo,
    pub(crate) numbers: DriveNumbers,
    pub(crate) group: Option<u32>,
}

/// A volume with its numbers.
#[derive(Clone, Copy)]
pub(crate) struct Vd<'a> {
    pub(crate) volume: &'a VolumeInfo,
    pub(crate) number: u32,
    pub(crate) group: u32,
}

impl View {
    /// Queries the state.
    pub(crate) fn look(machine: &mut dyn Machine) -> Result<View, Answer> {
        match machine.ask(&Command::Metrics {}) {
            Ok(Reply::Metrics { metrics }) => Ok(View { metrics: *metrics }),
            Ok(_) => Err(Answer::failed("the controller sent an unexpected reply; see its log")),
            // As without a controller: programs detect this state by these words.
            Err(error) if error.kind == controller::ErrorKind::Unavailable => {
                Err(Answer::failed(format!("Controller 0 not found: {}", error.message)))
            }
            Err(error) => Err(Answer::error("-", &error)),
        }
    }

    /// Volumes by group and number.
    pub(crate) fn volumes(&self) -> Vec<Vd<'_>> {
        let numbered = |metrics: &'_ controller::VolumeMetrics| -> Option<(u32, u32)> {
            Some((metrics.volume.group?, metrics.volume.number?))
        };
        let mut volumes: Vec<Vd<'_>> = self
            .metrics
            .volumes
            .iter()
            .filter_map(|metrics| {
                let (group, number) = numbered(metrics)?;
                Some(Vd { volume: &metrics.volume, number, group })
            })
            .collect();
        volumes.sort_by_key(|volume| (volume.group, volume.number));
        volumes
    }

    /// The volumes with these numbers.
    pub(crate) fn volumes_of(&self, numbers: &Numbers) -> Vec<Vd<'_>> {
        self.volumes().into_iter().filter(|volume| numbers.has(volume.number)).collect()
    }

    /// The volumes of each group, in order.
    pub(crate) fn groups(&self) -> Vec<Vec<Vd<'_>>> {
        let mut groups: Vec<Vec<Vd<'_>>> = Vec::new();
        for volume in self.volumes() {
            match groups.last_mut().filter(|group| group[0].group == volume.group) {
                Some(group) => group.push(volume),
                None => groups.push(vec![volume]),
            }
        }
        groups
    }

    /// Drives by enclosure and slot; a present drive hides a missing one at its location.
    pub(crate) fn drives(&self) -> Vec<Pd<'_>> {
        let mut drives: Vec<Pd<'_>> = self
            .metrics
            .drives
            .iter()
            .filter_map(|metrics| self.numbered(&metrics.drive))
            .collect();
        let place = |pd: &Pd<'_>| (pd.numbers.enclosure, pd.numbers.slot);
        drives.sort_by_key(|pd| (place(pd), pd.drive.size_bytes.is_none()));
        drives.dedup_by(|later, first| {
            place(later) == place(first) && later.drive.size_bytes.is_none()
        });
        drives
    }

    /// A drive with its numbers.
    pub(crate) fn numbered<'a>(&self, drive: &'a DriveInfo) -> Option<Pd<'a>> {
        let group = drive.slot.is_some().then(|| self.group_of(drive)).flatten();
        Some(Pd { drive, numbers: drive.numbers?, group })
    }

    fn group_of(&self, drive: &DriveInfo) -> Option<u32> {
        let name = drive.volumes.first()?;
        let of_name = |volume: &&controller::VolumeMetrics| volume.volume.name == *name;
        let mut volumes =
            self.metrics.volumes.iter().filter(of_name).map(|metrics| &metrics.volume);
        let has_it =
            |volume: &&VolumeInfo| volume.drives.iter().any(|member| member.name == drive.name);
        volumes.clone().find(has_it).or_else(|| volumes.next())?.group
    }

    /// The drives at these locations.
    pub(crate) fn drives_of(&self, enclosures: Option<&Numbers>, slots: &Numbers) -> Vec<Pd<'_>> {
        let is_meant = |pd: &Pd<'_>| {
            enclosures.is_none_or(|enclosures| enclosures.has(pd.numbers.enclosure))
                && slots.has(pd.numbers.slot)
        };
        self.drives().into_iter().filter(is_meant).collect()
    }

    /// The drive at a location; without an enclosure, the slot must be unique.
    pub(crate) fn at(&self, (enclosure, slot): DriveLocation) -> Result<Pd<'_>, String> {
        let mut there = self.drives();
        there.retain(|pd| {
            pd.numbers.slot == slot && enclosure.is_none_or(|number| pd.numbers.enclosure == number)
        });
        let place =
            enclosure.map_or_else(|| format!("{slot}"), |enclosure| format!("{enclosure}:{slot}"));
        match there[..] {
            [one] => Ok(one),
            [] => Err(format!("there is no drive {place}")),
            _ => Err(format!(
                "several enclosures have a slot {place}; name the enclosure, as in 252:{slot}"
            )),
        }
    }

    /// The enclosure numbers.
    pub(crate) fn enclosures(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.drives().iter().map(|pd| pd.numbers.enclosure).collect();
        numbers.dedup();
        numbers
    }

    /// The spare entry of a drive.
    pub(crate) fn spare(&self, drive: &DriveInfo) -> Option<&SpareInfo> {
        self.metrics.spares.iter().find(|spare| spare.drive == drive.name)
    }

    /// The state of a drive in StorCLI's terms.
    pub(crate) fn drive_state(&self, drive: &DriveInfo) -> &'static str {
        match drive.state {
            DriveState::Online | DriveState::Log => "Onln",
            DriveState::Unused | DriveState::Foreign => "UGood",
            DriveState::Failed if drive.slot.is_some() => "Failed",
            DriveState::Failed => "UBad",
            DriveState::Offline | DriveState::Stale | DriveState::Suspended => "Offln",
            DriveState::Missing => "Missing",
            DriveState::Rebuilding => "Rbld",
            DriveState::Filling => "Cpybck",
            DriveState::Spare => match self.spare(drive).map(|spare| spare.kind) {
                Some(SpareKind::Dedicated) => "DHS",
                _ => "GHS",
            },
            DriveState::Refused => "UBad",
        }
    }

    /// The active task of these kinds that `is_meant` selects.
    pub(crate) fn task(
        &self,
        kinds: &[TaskKind],
        is_meant: impl Fn(&TaskInfo) -> bool,
    ) -> Option<&TaskInfo> {
        let is_it = |task: &&TaskInfo| {
            kinds.contains(&task.kind) && !task.state.is_over() && is_meant(task)
        };
        self.metrics.tasks.iter().find(is_it)
    }

    /// The active task of these kinds for a volume.
    pub(crate) fn volume_task(&self, kinds: &[TaskKind], volume: &VolumeInfo) -> Option<&TaskInfo> {
        self.task(kinds, |task| task.volume.as_deref() == Some(volume.name.as_str()))
    }

    /// The active task of these kinds for a drive.
    pub(crate) fn drive_task(&self, kinds: &[TaskKind], drive: &DriveInfo) -> Option<&TaskInfo> {
        self.task(kinds, |task| task.drive.as_deref() == Some(drive.name.as_str()))
    }

    /// Whether a volume has a check schedule.
    pub(crate) fn is_checked(&self, volume: &VolumeInfo) -> bool {
        self.metrics.schedules.iter().any(|schedule| {
            schedule.what == Scheduled::Check
                && schedule.on
                && schedule.volume.as_deref() == Some(&volume.name)
        })
    }
}

/// The level of a volume, ending in a digit, as tools expect.
pub(crate) fn level(volume: &VolumeInfo) -> String {
    match volume.level.as_str() {
        "raid1e" => "RAID1".to_owned(),
        "raid5ee" => "RAID5".to_owned(),
        // One drive.
        "jbod" => "RAID0".to_owned(),
        other => other.to_ascii_uppercase(),
    }
}

/// The state of a volume in StorCLI's terms.
pub(crate) fn volume_state(volume: &VolumeInfo) -> &'static str {
    match volume.state {
        VolumeState::Optimal => "Optl",
        VolumeState::Degraded if volume.may_lose > 0 => "Pdgd",
        VolumeState::Degraded => "Dgrd",
        VolumeState::Offline | VolumeState::Missing => "OfLn",
    }
}

/// The configured and the effective value of a volume's policy.
pub(crate) fn policy<'a>(volume: &'a VolumeInfo, name: &str) -> Option<(&'a str, &'a str)> {
    let policy = volume.policies.iter().find(|policy| policy.name == name)?;
    Some((&policy.configured, &policy.current))
}
