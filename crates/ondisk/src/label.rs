//! What the label of a member says: the array, its volumes, its members; as TOML text.

use crate::error::{Error, ErrorKind, Result};
use crate::runs::Runs;
use crate::spare::{StandIn, is_enclosure_name};
use crate::tail::{BLOCK, TAIL, Tail, TailPlace};
use crate::uuid::Uuid;
use crate::volume::{MAX_VOLUMES, VolumeLabel};
use serde::{Deserialize, Serialize};
use units::{ByteCount, DriveSet, MAX_DRIVES, SectorSize};

/// How far the life of an array has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It is being made: nobody was told yet that it exists.
    Creating,
    /// It exists.
    Online,
    /// It was deleted; what is left of it means nothing.
    Deleted,
}

/// How a member stands with its array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// It takes part; what it holds is current but for its stale regions.
    Online,
    /// The array goes on without it.
    Failed,
}

/// Why an array goes on without a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// An operation on it failed.
    Error,
    /// It was not found when the array was started.
    Missing,
    /// An operator took it out, for a while.
    Offline,
    /// An operator declared it failed.
    Operator,
    /// It did not answer in time. It is used again by itself when it answers, or fails by policy.
    Suspended,
    /// An operator suspended it. It is used again when an operator resumes it.
    OperatorSuspended,
}

/// A drive that is being filled with what a member holds, to take its place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replacement {
    /// The UUID of the drive.
    pub uuid: Uuid,
    /// How it was named, for people.
    pub name: String,
    /// The drive's size in bytes.
    pub size_bytes: u64,
    /// The length of its blocks in bytes.
    pub block_bytes: u64,
    /// Regions that are not copied yet, besides those that are marked.
    #[serde(default, skip_serializing_if = "Runs::is_empty")]
    pub stale: Runs,
    /// Whether it is to stand in for the drive whose place it takes, until that is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_in: Option<StandIn>,
}

/// A member of the array, as the label records it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The UUID of its drive.
    pub uuid: Uuid,
    /// How that drive was named, for people.
    pub name: String,
    /// Its drive's size in bytes.
    pub size_bytes: u64,
    /// The length of its drive's blocks in bytes.
    pub block_bytes: u64,
    /// How it stands.
    pub state: MemberState,
    /// The generation from which on it stands so.
    pub since: u64,
    /// The generation that its own label had at least when it last went out; 0 of one that never did.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub knew: u64,
    /// Why it failed; `None` of one that is online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The enclosure it sits in, as the operator calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclosure: Option<String>,
    /// Regions in which what it holds is old; of one that is out, besides those that are marked.
    #[serde(default, skip_serializing_if = "Runs::is_empty")]
    pub stale: Runs,
    /// The drive that is to take its place.
    #[serde(default, alias = "shadow", skip_serializing_if = "Option::is_none")]
    pub replacement: Option<Replacement>,
    /// Whether it stands in for a drive that is to be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_in: Option<StandIn>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Member {
    /// A member that takes part from `since` on, on a drive of that size with those blocks.
    pub fn online(
        uuid: Uuid,
        name: impl Into<String>,
        (size, block): (ByteCount, SectorSize),
        since: u64,
    ) -> Member {
        Member {
            uuid,
            name: name.into(),
            size_bytes: size.0,
            block_bytes: block.bytes().0,
            state: MemberState::Online,
            since,
            knew: 0,
            cause: None,
            enclosure: None,
            stale: Runs::default(),
            replacement: None,
            stands_in: None,
        }
    }

    /// Whether it is online.
    pub fn is_online(&self) -> bool {
        self.state == MemberState::Online
    }

    /// Whether it is out because it does not answer, and comes back by itself.
    pub fn is_suspended(&self) -> bool {
        !self.is_online() && self.cause == Some(Cause::Suspended)
    }

    /// Whether it is out because an operator suspended it.
    pub fn is_suspended_by_operator(&self) -> bool {
        !self.is_online() && self.cause == Some(Cause::OperatorSuspended)
    }
}

/// What the operator wishes for the array.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// A drive goes out after so many medium errors that could not be repaired.
    pub medium_error_limit: u32,
    /// A drive that is suspended fails after so many seconds.
    #[serde(default = "suspend_limit_s", skip_serializing_if = "is_usual_suspend_limit")]
    pub suspend_limit_s: u32,
    /// What a spare took over goes back to the drive that replaces the failed one.
    pub copyback: bool,
    /// Where there is no spare, an unused drive may be taken.
    pub emergency_spare: bool,
    /// A drive that reports wear-out or a failure to come is copied to a spare.
    pub drive_guard: bool,
    /// A spare of another kind may be taken: a rotating one for a solid-state one, or the other way round.
    pub mixed_kinds: bool,
    /// The share of time that background tasks take beside hosts.
    pub task_share_percent: u8,
    /// Whether the array starts without drives that are missing.
    #[serde(default, skip_serializing_if = "StartDegraded::is_auto")]
    pub start_degraded: StartDegraded,
    /// When any of it was last changed, in seconds since 1970; 0: never.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub set_unix_s: u64,
}

/// Whether an array starts without drives that are missing, and that could serve it without those that are here.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartDegraded {
    /// After a clean shutdown it starts by itself: what is missing took part in all that was written. After any other end
    /// the missing drives may have gone on alone, and the operator is asked.
    #[default]
    Auto,
    /// The operator is always asked.
    Ask,
}

impl StartDegraded {
    fn is_auto(&self) -> bool {
        *self == StartDegraded::Auto
    }
}

impl std::fmt::Display for StartDegraded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            StartDegraded::Auto => "auto",
            StartDegraded::Ask => "ask",
        })
    }
}

fn suspend_limit_s() -> u32 {
    300
}

fn is_usual_suspend_limit(limit_s: &u32) -> bool {
    *limit_s == suspend_limit_s()
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            medium_error_limit: 100,
            suspend_limit_s: suspend_limit_s(),
            copyback: true,
            emergency_spare: false,
            drive_guard: true,
            mixed_kinds: false,
            task_share_percent: 30,
            start_degraded: StartDegraded::Auto,
            set_unix_s: 0,
        }
    }
}

/// What a label says. All members carry the same, but for `drive`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// The array's UUID.
    pub array: Uuid,
    /// The UUID of the drive that carries this label: its physical disk data say it, not the text.
    #[serde(skip)]
    pub drive: Uuid,
    /// Counts changes of what the label says, and attempts at them.
    pub generation: u64,
    /// A generation that is durable on every member that was online in it: whoever is called online here has a
    /// label at least as new.
    pub confirmed: u64,
    /// How far the array's life has come.
    pub phase: Phase,
    /// Whether the array was cleanly shut down, with everything on the drives and no region marked.
    pub clean: bool,
    /// Whether it was cleanly shut down with everything on the drives, but regions are left marked that were unsynced: they
    /// wait to be resynced.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shut_down: bool,
    /// Where the tail of each of its drives is.
    #[serde(default, skip_serializing_if = "TailPlace::is_end")]
    pub tail: TailPlace,
    /// How many blocks the table of regions that are initialised in part has, if there is a record of initialised stripes
    /// ([`InitRecord`](crate::InitRecord)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialisation_blocks: Option<u32>,
    /// What the operator wishes.
    pub policy: Policy,
    /// Its volumes.
    pub volume: Vec<VolumeLabel>,
    /// Its members, by slot.
    pub member: Vec<Member>,
    /// Drives that failed in it by their own fault, the latest last: nobody uses them until an operator says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedDrive>,
    /// Drives that were replaced while they were here, the latest last, until their label is off: one that still had it, and was found
    /// alone one day, would pass for the array as it was then. A start takes off what a crash left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<Uuid>,
}

/// How many failed drives a label remembers; the oldest are forgotten.
const MOST_FAILED: usize = 8;
/// So many drives are remembered whose label is to be taken off; the oldest goes first. One that does not answer stays among them.
const MOST_LEAVING: usize = 16;

/// A drive that failed by its own fault: it could not write, or did not answer. One that vanished is none.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedDrive {
    /// Its UUID in the array.
    pub uuid: Uuid,
    /// What tells it from others whatever it holds (a serial number, an inode), where something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// How it was called, for people.
    pub name: String,
    /// What happened, to be read within a sentence.
    pub why: String,
    /// When, in seconds since 1970.
    pub at_unix_s: u64,
}

impl FailedDrive {
    /// Whether two failures are of one drive.
    pub fn is_of_the_same(&self, other: &FailedDrive) -> bool {
        self.uuid == other.uuid || self.identity.is_some() && self.identity == other.identity
    }
}

/// How far a start without all members raises the generation, twice, once what is left is confirmed: together further
/// than any label that was left behind by attempts that failed.
pub const GENERATION_STRIDE: u64 = 1 << 20;

/// The generation is never further ahead of what is confirmed.
pub const MAX_LEAD: u64 = 2 * GENERATION_STRIDE;

fn contradiction(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Contradiction, what)
}

impl Label {
    /// Remembers that a drive failed.
    pub fn remember_failed(&mut self, failed: FailedDrive) {
        self.failed.retain(|other| other.uuid != failed.uuid);
        self.failed.push(failed);
        let surplus = self.failed.len().saturating_sub(MOST_FAILED);
        self.failed.drain(..surplus);
    }

    /// Remembers that a drive was replaced, and has a label that is to be taken off.
    pub fn remember_leaving(&mut self, drive: Uuid) {
        self.leaving.retain(|other| *other != drive);
        self.leaving.push(drive);
        let surplus = self.leaving.len().saturating_sub(MOST_LEAVING);
        self.leaving.drain(..surplus);
    }

    /// Whether the array was cleanly shut down: nothing was being written when it ended.
    pub fn was_shut_down(&self) -> bool {
        self.clean || self.shut_down
    }

    /// The slot of the drive that carries it, if it is a member or the replacement of one.
    pub fn slot(&self) -> Option<usize> {
        self.slot_of(self.drive).or_else(|| self.replaced_by(self.drive))
    }

    /// The slot of a member's drive.
    pub fn slot_of(&self, drive: Uuid) -> Option<usize> {
        self.member.iter().position(|member| member.uuid == drive)
    }

    /// The slot that a drive is the replacement of.
    pub fn replaced_by(&self, drive: Uuid) -> Option<usize> {
        let is_it = |member: &Member| {
            member.replacement.as_ref().is_some_and(|replacement| replacement.uuid == drive)
        };
        self.member.iter().position(is_it)
    }

    /// The same label for another drive.
    #[must_use]
    pub fn for_drive(&self, drive: Uuid) -> Label {
        Label { drive, ..self.clone() }
    }

    /// Whether two labels say the same of their array.
    pub fn agrees_with(&self, other: &Label) -> bool {
        *self == other.for_drive(self.drive)
    }

    /// How many members are online.
    pub fn online(&self) -> usize {
        self.member.iter().filter(|member| member.is_online()).count()
    }

    /// The slots of the members that are out.
    pub fn out(&self) -> DriveSet {
        let out = self.member.iter().enumerate().filter(|(_, member)| !member.is_online());
        crate::volume::slots(out.map(|(slot, _)| slot))
    }

    /// Its volumes' names, for sentences.
    pub fn names(&self) -> String {
        let whole = self.volume.iter().filter(|volume| !volume.is_part());
        let names: Vec<String> = whole.map(|volume| format!("'{}'", volume.name)).collect();
        match names.len() {
            0..=3 => names.join(", "),
            more => format!("{}, {} and {} more volumes", names[0], names[1], more - 2),
        }
    }

    /// A volume by its UUID.
    pub fn volume_of(&self, uuid: Uuid) -> Option<&VolumeLabel> {
        self.volume.iter().find(|volume| volume.uuid == uuid)
    }

    /// A volume by its UUID, to be changed.
    pub fn volume_mut(&mut self, uuid: Uuid) -> Option<&mut VolumeLabel> {
        self.volume.iter_mut().find(|volume| volume.uuid == uuid)
    }

    /// Regions of the write-intent map: up to the end of the last volume.
    pub fn regions(&self) -> u32 {
        self.volume.iter().map(VolumeLabel::end_region).max().unwrap_or(0)
    }

    /// Bytes used of every member, from its first byte on.
    pub fn used_bytes(&self) -> u64 {
        let volumes = self.volume.iter().filter(|volume| !volume.saves());
        volumes.map(VolumeLabel::data_end_bytes).max().unwrap_or(0)
    }

    /// Whether a drive of that size has room for all of it.
    pub fn fits(&self, drive_size: ByteCount) -> bool {
        Tail::at(drive_size, self.tail).is_some_and(|tail| tail.data().end().0 >= self.used_bytes())
    }

    /// The size that a drive needs to have room for all of it.
    pub fn needed_bytes(&self) -> ByteCount {
        let used = ByteCount(self.used_bytes()).align_up(BLOCK);
        match self.tail {
            TailPlace::End => used + TAIL,
            TailPlace::Front => used + BLOCK,
            TailPlace::FrontWithAnchor => used,
        }
    }

    /// Looks whether everything it says can be.
    ///
    /// # Errors
    /// Says what cannot.
    pub fn check(&self) -> Result<()> {
        if self.member.is_empty() || self.member.len() > MAX_DRIVES {
            return Err(contradiction(format!("the label names {} members", self.member.len())));
        }
        if self.volume.is_empty() || self.volume.len() > MAX_VOLUMES {
            return Err(contradiction(format!("the label names {} volumes", self.volume.len())));
        }
        self.volume.iter().try_for_each(|volume| volume.check(self.member.len()))?;
        self.check_places()?;
        self.check_reshapes()?;
        self.check_members()?;
        self.check_policy()?;
        if self.generation == 0 || self.generation >= u64::MAX / 2 {
            return Err(contradiction(format!("the label's generation {} cannot be", self.generation)));
        }
        let Label { generation, confirmed, .. } = *self;
        if confirmed >= generation || generation - confirmed > MAX_LEAD {
            return Err(contradiction(format!(
                "the label has generation {generation} and calls {confirmed} confirmed, which cannot be"
            )));
        }
        Ok(())
    }

    /// No two volumes share bytes, regions, a name or a UUID.
    fn check_places(&self) -> Result<()> {
        let distinct = |mut keys: Vec<(u64, u64)>| {
            keys.sort_unstable();
            keys.windows(2).all(|pair| pair[0].1 <= pair[1].0)
        };
        // What lies by the new layout of a volume on its way lies where the volume lies.
        let whole = || self.volume.iter().filter(|volume| !volume.is_part());
        let bytes = whole().map(|volume| (volume.data_start_bytes, volume.data_end_bytes()));
        if !distinct(bytes.collect()) {
            return Err(contradiction("the label lets two volumes lie on the same bytes"));
        }
        if whole().any(|volume| volume.data_start_bytes < self.tail.data_start().0) {
            return Err(contradiction("the label lets a volume lie where its drives have their tails"));
        }
        let regions = |volume: &VolumeLabel| (u64::from(volume.first_region), u64::from(volume.end_region()));
        if !distinct(self.volume.iter().map(regions).collect()) {
            return Err(contradiction("the label gives two volumes the same regions"));
        }
        if !distinct(self.volume.iter().flat_map(VolumeLabel::in_journals).collect()) {
            return Err(contradiction("the label gives two volumes the same journal"));
        }
        let mut names: Vec<&str> = self.volume.iter().map(|volume| volume.name.as_str()).collect();
        names.sort_unstable();
        let mut uuids: Vec<Uuid> = self.volume.iter().map(|volume| volume.uuid).collect();
        uuids.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) || uuids.windows(2).any(|pair| pair[0] == pair[1])
        {
            return Err(contradiction("the label names two volumes alike"));
        }
        Ok(())
    }

    fn check_members(&self) -> Result<()> {
        let mut uuids: Vec<Uuid> = Vec::new();
        for member in &self.member {
            uuids.push(member.uuid);
            member.stale.check("stale")?;
            if let Some(replacement) = &member.replacement {
                uuids.push(replacement.uuid);
                replacement.stale.check("stale")?;
            }
            if member.since > self.generation || member.knew >= member.since {
                return Err(contradiction(format!(
                    "the label says that drive {} is as it is since generation {}, which cannot be",
                    member.uuid, member.since
                )));
            }
            let replacement = member
                .replacement
                .as_ref()
                .map(|replacement| (replacement.size_bytes, replacement.block_bytes));
            for (size, block) in
                [Some((member.size_bytes, member.block_bytes)), replacement].into_iter().flatten()
            {
                if SectorSize::from_bytes(block)
                    .is_none_or(|block| !ByteCount(size).is_aligned(block.bytes()))
                {
                    return Err(contradiction(format!(
                        "the label names a drive of {size} bytes with blocks of {block}, which cannot be"
                    )));
                }
            }
            if member.enclosure.as_ref().is_some_and(|name| !is_enclosure_name(name)) {
                return Err(contradiction("the label names an enclosure with no name"));
            }
        }
        uuids.sort_unstable();
        if uuids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(contradiction("the label names one drive as two members"));
        }
        if self.slot().is_none() {
            return Err(contradiction(format!("the label says that its drive {} is no member", self.drive)));
        }
        Ok(())
    }

    fn check_policy(&self) -> Result<()> {
        match self.policy.task_share_percent {
            1..=100 => Ok(()),
            _ => Err(contradiction("the label names a share that is not 1 to 100 percent")),
        }
    }

    /// The same with at most `most` runs in each set of regions: more is called stale, and less unwritten, than is.
    pub(crate) fn coarser(&self, most: usize) -> Label {
        let mut label = self.clone();
        for member in &mut label.member {
            member.stale = member.stale.widened(most);
            if let Some(replacement) = &mut member.replacement {
                replacement.stale = replacement.stale.widened(most);
            }
        }
        label.volume.iter_mut().for_each(|volume| volume.unwritten = volume.unwritten.narrowed(most));
        label
    }
}
