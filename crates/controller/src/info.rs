//! What the controller says of itself, its drives and its volumes.

use crate::array::Array;
use crate::core::Core;
use crate::inventory::Drive;
use crate::{ControllerInfo, DriveInfo, DriveState, Policy, Progress, Reply, VolumeInfo, VolumeState};
use layout::Level;
use std::rc::Rc;

impl Core {
    pub(crate) fn info(&self) -> ControllerInfo {
        let arrays = self.arrays();
        let count = |state| arrays.iter().filter(|array| array.current_state() == state).count() as u32;
        ControllerInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix_s: self.started_unix_s,
            shards: self.shards.len() as u16,
            levels: Level::ALL.iter().map(|level| level.name().to_owned()).collect(),
            volumes_optimal: count(VolumeState::Optimal),
            volumes_degraded: count(VolumeState::Degraded),
            volumes_offline: count(VolumeState::Offline),
            drives: self.drives.borrow().len() as u32,
        }
    }

    /// Every drive: those of volumes by slot, missing ones too, then the others by name.
    pub(crate) fn drive_infos(&self) -> Vec<DriveInfo> {
        let arrays = self.arrays();
        let mut infos: Vec<DriveInfo> = Vec::new();
        for array in &arrays {
            infos.extend(self.member_infos(array));
        }
        let mut others: Vec<Rc<Drive>> = self.drives.borrow().clone();
        others.retain(|drive| self.shown_place(drive).is_none());
        others.sort_by(|a, b| a.name.cmp(&b.name));
        infos.extend(others.iter().map(|drive| self.drive_info(drive)));
        infos
    }

    fn member_infos(&self, array: &Array) -> Vec<DriveInfo> {
        (0..array.places().len()).map(|slot| self.member_info(array, slot)).collect()
    }

    fn member_info(&self, array: &Array, slot: usize) -> DriveInfo {
        let label = array.label();
        let member = label.member.get(slot);
        let drive = array.drive(slot);
        let (state, reason) = array.drive_state(slot);
        let name = self.member_name(array, slot);
        DriveInfo {
            state,
            reason,
            volume: Some(array.name()),
            slot: u16::try_from(slot).ok(),
            uuid: member.map(|member| member.uuid.to_string()),
            ..physical_info(name, drive.as_deref())
        }
    }

    /// The place of a drive; of one that cannot be opened, the place that was left by a drive of its name.
    fn shown_place(&self, drive: &Drive) -> Option<(Rc<Array>, usize)> {
        let left_by = |array: Rc<Array>| {
            let names = array.label().member;
            let slot = names.iter().position(|member| member.name == drive.name)?;
            array.drive(slot).is_none().then_some((array, slot))
        };
        self.place_of(drive).or_else(|| match drive.access() {
            None => self.arrays().into_iter().find_map(left_by),
            Some(_) => None,
        })
    }

    pub(crate) fn drive_info(&self, drive: &Rc<Drive>) -> DriveInfo {
        if let Some((array, slot)) = self.shown_place(drive) {
            return self.member_info(&array, slot);
        }
        let problem = drive.problem();
        let state = match (&problem, drive.access()) {
            (_, None) => DriveState::Missing,
            (Some(_), Some(_)) => DriveState::Refused,
            (None, Some(_)) => DriveState::Unused,
        };
        DriveInfo {
            state,
            reason: problem.map(|problem| problem.message),
            ..physical_info(drive.name.clone(), Some(drive))
        }
    }

    pub(crate) fn volume_reply(&self, array: &Array, notes: Vec<String>) -> Reply {
        Reply::Volume { volume: Box::new(self.volume_info(array)), notes }
    }

    pub(crate) fn volume_info(&self, array: &Array) -> VolumeInfo {
        let label = array.label();
        let volume = &label.volume;
        let (state, since_unix_s) = array.state(self.env.unix_time());
        let drives = self.member_infos(array);
        let out = array.geometry.drives().as_usize() - array.in_use().len();
        let may_lose = if state == VolumeState::Offline { 0 } else { array.survives().saturating_sub(out) };
        VolumeInfo {
            name: volume.name.clone(),
            uuid: array.uuid.to_string(),
            state,
            reasons: reasons(array, state, &drives),
            since_unix_s,
            level: volume.level.name().to_owned(),
            spans: volume.spans,
            strip_bytes: volume.strip_bytes,
            rotation: volume.rotation.map(|rotation| rotation.name().to_owned()),
            sector_bytes: volume.sector_bytes,
            capacity_bytes: volume.capacity_bytes,
            member_bytes: volume.member_bytes,
            may_lose: u16::try_from(may_lose).unwrap_or(u16::MAX),
            drives,
            resync: progress(array),
            dirty_lanes: array.map.borrow().marked(),
            policies: policies(array, volume.created_unix_s),
            generation: label.generation,
            created_unix_s: volume.created_unix_s,
        }
    }
}

/// What the drive says of itself.
fn physical_info(name: String, drive: Option<&Drive>) -> DriveInfo {
    let access = drive.and_then(Drive::access);
    let info = access.as_ref().map(|access| access.info());
    DriveInfo {
        name,
        state: DriveState::Missing,
        reason: None,
        volume: None,
        slot: None,
        uuid: None,
        size_bytes: info.map(|info| info.size.0),
        kind: info.map(|info| info.kind.to_string()),
        identity: info.map(|info| info.identity.0.clone()),
        logical_sector_bytes: info.map(|info| info.logical_sector.bytes().0),
        physical_sector_bytes: info.map(|info| info.physical_sector.bytes().0),
        rotational: info.is_some_and(|info| info.rotational),
        read_only: info.is_some_and(|info| info.read_only),
        medium_errors: drive.map_or(0, |drive| drive.medium_errors.get()),
    }
}

fn reasons(array: &Array, state: VolumeState, drives: &[DriveInfo]) -> Vec<String> {
    if !array.is_running() {
        let mut reasons = array.reasons.borrow().clone();
        reasons.extend(array.refusal.borrow().clone());
        if reasons.is_empty() {
            reasons.push(format!("'{0}' is not started; say volume start {0}", array.name()));
        }
        return reasons;
    }
    let mut reasons: Vec<String> = drives.iter().filter_map(|drive| drive.reason.clone()).collect();
    let stuck = state == VolumeState::Degraded && !array.unsynced.borrow().is_empty();
    if stuck && array.geometry.parity_strips() > 0 {
        reasons.push(format!(
            "a drive went out before the resync was complete: where it was not, blocks of that drive cannot be told and give I/O errors; if they may read wrongly instead, say volume start {} --accept-stale-parity",
            array.name()
        ));
    }
    reasons
}

fn progress(array: &Array) -> Option<Progress> {
    let left = u32::try_from(array.unsynced.borrow().len()).unwrap_or(u32::MAX);
    let lanes = array.map.borrow().lanes();
    (left > 0).then(|| {
        let done = u64::from(lanes.saturating_sub(left)) * 100 / u64::from(lanes.max(1));
        Progress { lanes_left: left, lanes, percent: u8::try_from(done).unwrap_or(99) }
    })
}

/// What there is of policies now: each is as configured, and says what it means.
fn policies(array: &Array, since_unix_s: u64) -> Vec<Policy> {
    let policy = |name: &str, value: &str, reason: &str| Policy {
        name: name.to_owned(),
        configured: value.to_owned(),
        current: value.to_owned(),
        reason: reason.to_owned(),
        since_unix_s,
    };
    let mut policies = vec![policy(
        "cache",
        "none",
        "write-through: a write is acknowledged when the drives have it, and survives a power cut once it is flushed",
    )];
    if array.is_redundant() {
        let reason = if array.geometry.parity_strips() > 0 {
            "after a crash, lanes that were being written are resynced; a volume that is degraded as well is not started without an operator"
        } else {
            "after a crash, lanes that were being written are resynced; until then one mirror speaks for all"
        };
        policies.push(policy("write-hole", "resync", reason));
    }
    policies
}
