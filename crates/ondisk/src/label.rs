//! The label of a member: the array, its volumes, its members; as TOML text.

use crate::error::{Error, ErrorKind, Result};
use crate::runs::Runs;
use crate::spare::{StandIn, is_enclosure_name};
use crate::tail::{BLOCK, TAIL, Tail, TailPlace};
use crate::uuid::Uuid;
use crate::volume::{MAX_VOLUMES, VolumeLabel};
use serde::{Deserialize, Serialize};
use units::{ByteCount, DriveSet, MAX_DRIVES, SectorSize};

/// The phase of an array's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Creation is not complete, and not acknowledged yet.
    Creating,
    /// It exists.
    Online,
    /// Deleted; its remains have no meaning.
    Deleted,
}

/// The state of a member in its array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// Online; current except for its stale regions.
    Online,
    /// Not in use by the array.
    Failed,
}

/// The reason why a member is not in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// An operation on it failed.
    Error,
    /// It was missing when the array was started.
    Missing,
    /// An operator took it offline temporarily.
    Offline,
    /// An operator declared it failed.
    Operator,
    /// It did not respond in time. The controller uses it again when it responds, or fails it by
    /// policy.
    Suspended,
    /// An operator suspended it. It is used again when an operator resumes it.
    OperatorSuspended,
}

/// A drive that receives a copy of a member, to take its slot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replacement {
    /// The UUID of the drive.
    pub uuid: Uuid,
    /// The name of the drive, for users.
    pub name: String,
    /// The drive's size in bytes.
    pub size_bytes: u64,
    /// The length of its blocks in bytes.
    pub block_bytes: u64,
    /// Regions that are not copied yet, in addition to the marked ones.
    #[serde(default, skip_serializing_if = "Runs::is_empty")]
    pub stale: Runs,
    /// Set if it becomes an active hot spare for the replaced drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_in: Option<StandIn>,
}

/// A member of the array, as the label records it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The UUID of its drive.
    pub uuid: Uuid,
    /// The name of the drive, for users.
    pub name: String,
    /// Its drive's size in bytes.
    pub size_bytes: u64,
    /// The length of its drive's blocks in bytes.
    pub block_bytes: u64,
    /// Its state.
    pub state: MemberState,
    /// The generation in which this state began.
    pub since: u64,
    /// The least generation of its own label when it last left the array; 0 if it never did.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub knew: u64,
    /// The reason why it is not in use; `None` for an online member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Its enclosure, by the operator's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclosure: Option<String>,
    /// Regions with stale content; for a member that is not online, in addition to the marked ones.
    #[serde(default, skip_serializing_if = "Runs::is_empty")]
    pub stale: Runs,
    /// The drive that will replace it.
    #[serde(default, alias = "shadow", skip_serializing_if = "Option::is_none")]
    pub replacement: Option<Replacement>,
    /// Set if it is an active hot spare.
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
    /// A member that is online since generation `since`, on a drive of that size and block size.
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

    /// Whether it is suspended because it does not respond; it returns by itself.
    pub fn is_suspended(&self) -> bool {
        !self.is_online() && self.cause == Some(Cause::Suspended)
    }

    /// Whether an operator suspended it.
    pub fn is_suspended_by_operator(&self) -> bool {
        !self.is_online() && self.cause == Some(Cause::OperatorSuspended)
    }
}

/// The operator's settings for the array.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// A drive fails after this many medium errors that could not be repaired.
    pub medium_error_limit: u32,
    /// A suspended drive fails after this many seconds.
    #[serde(default = "suspend_limit_s", skip_serializing_if = "is_usual_suspend_limit")]
    pub suspend_limit_s: u32,
    /// The content of an active hot spare is copied back to the drive that replaces the failed one.
    pub copyback: bool,
    /// Where there is no spare, an unused drive may act as one.
    pub emergency_spare: bool,
    /// A drive that reports wear-out or predicts its failure is copied to a spare.
    pub drive_guard: bool,
    /// A spare of another kind may be used: a rotating drive for a solid-state drive, or the
    /// reverse.
    pub mixed_kinds: bool,
    /// The share of time that background tasks may use.
    pub task_share_percent: u8,
    /// Whether the array starts while drives are missing.
    #[serde(default, skip_serializing_if = "StartDegraded::is_auto")]
    pub start_degraded: StartDegraded,
    /// The time of the latest change, in seconds since 1970; 0: never.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub set_unix_s: u64,
}

/// Whether an array starts while drives are missing that could serve it without the present ones.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartDegraded {
    /// After a clean shutdown it starts automatically: the missing drives have all writes. After a
    /// crash the missing drives may have been used alone, and the operator decides.
    #[default]
    Auto,
    /// The operator always decides.
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

/// The content of a label. All members carry the same, except for `drive`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// The array's UUID.
    pub array: Uuid,
    /// The UUID of the drive that carries this label: from its physical disk data, not from the
    /// text.
    #[serde(skip)]
    pub drive: Uuid,
    /// The number of changes of the label, including failed attempts.
    pub generation: u64,
    /// A generation that is durable on every member that was online in it: every member that is
    /// online here has a label at least as new.
    pub confirmed: u64,
    /// The phase of the array.
    pub phase: Phase,
    /// Whether the array was cleanly shut down, with all data on the drives and no region marked.
    pub clean: bool,
    /// Whether it was cleanly shut down with all data on the drives, but unsynced regions are still
    /// marked: they need a resync.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shut_down: bool,
    /// The place of the tail on each of its drives.
    #[serde(default, skip_serializing_if = "TailPlace::is_end")]
    pub tail: TailPlace,
    /// The number of blocks in the table of partially initialised regions, if the array has a
    /// record of initialised stripes ([`InitRecord`](crate::InitRecord)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialisation_blocks: Option<u32>,
    /// The operator's settings.
    pub policy: Policy,
    /// Its volumes.
    pub volume: Vec<VolumeLabel>,
    /// Its members, by slot.
    pub member: Vec<Member>,
    /// Drives that failed in it by a fault of their own, the latest last: unused until an operator
    /// accepts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedDrive>,
    /// Drives that were replaced while present, the latest last, until their label has been
    /// removed: such a drive, found alone later, would pass for the array in its former state. A
    /// start removes the labels that a crash left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<Uuid>,
}

/// The most failed drives in a label; the oldest are removed.
const MOST_FAILED: usize = 8;
/// The most drives whose label is still to be removed; the oldest is dropped first. A drive that
/// does not respond stays listed.
const MOST_LEAVING: usize = 16;

/// A drive that failed by a fault of its own: a write failed, or it did not respond. A missing
/// drive is not listed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedDrive {
    /// Its UUID in the array.
    pub uuid: Uuid,
    /// Its identity independent of its content (a serial number, an inode), where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Its name, for users.
    pub name: String,
    /// The fault, as a part of a sentence.
    pub why: String,
    /// The time, in seconds since 1970.
    pub at_unix_s: u64,
}

impl FailedDrive {
    /// Whether two entries describe the same drive.
    pub fn is_of_the_same(&self, other: &FailedDrive) -> bool {
        self.uuid == other.uuid || self.identity.is_some() && self.identity == other.identity
    }
}

/// The step by which a start without all members raises the generation: once before the remaining
/// members confirm it, and once after. Together this exceeds any label that failed attempts left
/// behind.
pub const GENERATION_STRIDE: u64 = 1 << 20;

/// The most by which the generation exceeds the confirmed one.
pub const MAX_LEAD: u64 = 2 * GENERATION_STRIDE;

fn contradiction(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Contradiction, what)
}

impl Label {
    /// Adds a failed drive.
    pub fn remember_failed(&mut self, failed: FailedDrive) {
        self.failed.retain(|other| other.uuid != failed.uuid);
        self.failed.push(failed);
        let surplus = self.failed.len().saturating_sub(MOST_FAILED);
        self.failed.drain(..surplus);
    }

    /// Adds a replaced drive whose label is still to be removed.
    pub fn remember_leaving(&mut self, drive: Uuid) {
        self.leaving.retain(|other| *other != drive);
        self.leaving.push(drive);
        let surplus = self.leaving.len().saturating_sub(MOST_LEAVING);
        self.leaving.drain(..surplus);
    }

    /// Whether the array was cleanly shut down: no writes were in progress.
    pub fn was_shut_down(&self) -> bool {
        self.clean || self.shut_down
    }

    /// The slot of the drive that carries it, if it is a member or the replacement of one.
    pub fn slot(&self) -> Option<usize> {
        self.slot_of(self.drive).or_else(|| self.replaced_by(self.drive))
    }

    /// The slot of a member by the UUID of its drive.
    pub fn slot_of(&self, drive: Uuid) -> Option<usize> {
        self.member.iter().position(|member| member.uuid == drive)
    }

    /// The slot whose replacement is this drive.
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

    /// Whether two labels describe the array in the same way.
    pub fn agrees_with(&self, other: &Label) -> bool {
        *self == other.for_drive(self.drive)
    }

    /// The number of online members.
    pub fn online(&self) -> usize {
        self.member.iter().filter(|member| member.is_online()).count()
    }

    /// The slots of the members that are not online.
    pub fn out(&self) -> DriveSet {
        let out = self.member.iter().enumerate().filter(|(_, member)| !member.is_online());
        crate::volume::slots(out.map(|(slot, _)| slot))
    }

    /// The names of its volumes, for sentences.
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

    /// A volume by its UUID, mutable.
    pub fn volume_mut(&mut self, uuid: Uuid) -> Option<&mut VolumeLabel> {
        self.volume.iter_mut().find(|volume| volume.uuid == uuid)
    }

    /// Regions of the write-intent map: up to the end of the last volume.
    pub fn regions(&self) -> u32 {
        self.volume.iter().map(VolumeLabel::end_region).max().unwrap_or(0)
    }

    /// The bytes used on every member, from its first byte on.
    pub fn used_bytes(&self) -> u64 {
        let volumes = self.volume.iter().filter(|volume| !volume.saves());
        volumes.map(VolumeLabel::data_end_bytes).max().unwrap_or(0)
    }

    /// Whether a drive of that size has space for the array.
    pub fn fits(&self, drive_size: ByteCount) -> bool {
        Tail::at(drive_size, self.tail).is_some_and(|tail| tail.data().end().0 >= self.used_bytes())
    }

    /// The least size of a drive for the array.
    pub fn needed_bytes(&self) -> ByteCount {
        let used = ByteCount(self.used_bytes()).align_up(BLOCK);
        match self.tail {
            TailPlace::End => used + TAIL,
            TailPlace::Front => used + BLOCK,
            TailPlace::FrontWithAnchor => used,
        }
    }

    /// Checks the content.
    ///
    /// # Errors
    /// Describes the first invalid field.
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
            return Err(contradiction(format!("invalid label generation {}", self.generation)));
        }
        let Label { generation, confirmed, .. } = *self;
        if confirmed >= generation || generation - confirmed > MAX_LEAD {
            return Err(contradiction(format!(
                "the label has generation {generation} with {confirmed} confirmed, which is invalid"
            )));
        }
        Ok(())
    }

    /// Volumes must not share bytes, regions, a name or a UUID.
    fn check_places(&self) -> Result<()> {
        let distinct = |mut keys: Vec<(u64, u64)>| {
            keys.sort_unstable();
            keys.windows(2).all(|pair| pair[0].1 <= pair[1].0)
        };
        // The part with the new layout of a reshaping volume lies on the volume's own bytes.
        let whole = || self.volume.iter().filter(|volume| !volume.is_part());
        let bytes = whole().map(|volume| (volume.data_start_bytes, volume.data_end_bytes()));
        if !distinct(bytes.collect()) {
            return Err(contradiction("the label has two volumes on the same bytes"));
        }
        if whole().any(|volume| volume.data_start_bytes < self.tail.data_start().0) {
            return Err(contradiction("the label has a volume that overlaps the drives' tails"));
        }
        let regions =
            |volume: &VolumeLabel| (u64::from(volume.first_region), u64::from(volume.end_region()));
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
        if names.windows(2).any(|pair| pair[0] == pair[1])
            || uuids.windows(2).any(|pair| pair[0] == pair[1])
        {
            return Err(contradiction("the label gives two volumes the same name or UUID"));
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
                    "the label has drive {} unchanged since generation {}, which is invalid",
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
                        "the label names a drive of {size} bytes with blocks of {block}, which is \
                         invalid"
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
            return Err(contradiction(format!("the label's drive {} is not a member", self.drive)));
        }
        Ok(())
    }

    fn check_policy(&self) -> Result<()> {
        match self.policy.task_share_percent {
            1..=100 => Ok(()),
            _ => Err(contradiction("the label has a rate of tasks that is not 1 to 100 percent")),
        }
    }

    /// The same with at most `most` runs in each set of regions: more regions count as stale, and
    /// fewer as unwritten.
    pub(crate) fn coarser(&self, most: usize) -> Label {
        let mut label = self.clone();
        for member in &mut label.member {
            member.stale = member.stale.widened(most);
            if let Some(replacement) = &mut member.replacement {
                replacement.stale = replacement.stale.widened(most);
            }
        }
        label
            .volume
            .iter_mut()
            .for_each(|volume| volume.unwritten = volume.unwritten.narrowed(most));
        label
    }
}
