//! Revisions: a number for each drive, volume and array that rises when its description changes.
//! Counters, progress, drive health and connected hosts do not count as changes.
//!
//! A caller can tell by the revision whether an object changed since it was read.

use super::Commands;
use crate::interface::{DriveInfo, VolumeInfo};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// The published revisions.
#[derive(Default)]
pub(super) struct Revisions {
    /// The newest revision of all.
    newest: Cell<u64>,
    /// Per object: a digest of its description, and its revision.
    of: RefCell<BTreeMap<String, (u64, u64)>>,
}

impl Revisions {
    /// Starts above `first`.
    pub(super) fn begin(&self, first: u64) {
        self.newest.set(first);
    }

    /// The revision of an object with this description.
    fn of(&self, what: String, said: impl Hash) -> u64 {
        // The digest stays in this process, so any hash that is stable at runtime will do.
        let mut hasher = DefaultHasher::new();
        said.hash(&mut hasher);
        let digest = hasher.finish();
        let mut of = self.of.borrow_mut();
        if let Some((_, revision)) = of.get(&what).filter(|(before, _)| *before == digest) {
            return *revision;
        }
        self.newest.set(self.newest.get() + 1);
        of.insert(what, (digest, self.newest.get()));
        self.newest.get()
    }

    /// Forgets removed objects: an object that returns gets a higher revision.
    fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.of.borrow_mut().retain(|what, _| is_there(what));
    }
}

impl Commands {
    /// A drive with its revision.
    pub(super) fn with_revision(&self, drive: DriveInfo) -> DriveInfo {
        let uuid = drive.uuid.as_deref().unwrap_or_default();
        let what = format!("drive {} {uuid}", drive.name);
        DriveInfo { revision: self.revisions.of(what, said_of_drive(&drive)), ..drive }
    }

    /// A volume with its revision, and that of its array.
    pub(super) fn volume_with_revision(&self, volume: VolumeInfo) -> VolumeInfo {
        let of_array = (
            (volume.generation, &volume.array_volumes, volume.array_free_bytes, volume.group),
            volume.drives.iter().map(|drive| drive.revision).collect::<Vec<u64>>(),
        );
        let array_revision = self.revisions.of(format!("array {}", volume.array), of_array);
        let revision =
            self.revisions.of(format!("volume {}", volume.uuid), said_of_volume(&volume));
        VolumeInfo { revision, array_revision, ..volume }
    }

    /// Records the state of all objects. A change gets a new revision even if it is reverted before
    /// the next query.
    pub(super) fn note_revisions(&self) {
        let (drives, volumes) = (self.drive_infos(), self.volume_infos());
        let mut there: Vec<String> = volumes
            .iter()
            .flat_map(|volume| {
                [format!("volume {}", volume.uuid), format!("array {}", volume.array)]
            })
            .collect();
        there.extend(drives.iter().map(|drive| {
            format!("drive {} {}", drive.name, drive.uuid.as_deref().unwrap_or_default())
        }));
        there.sort_unstable();
        self.revisions.retain(|what| there.binary_search_by(|one| one.as_str().cmp(what)).is_ok());
    }
}

/// The fields that count as a change of a drive. All fields are listed, so that a new field is
/// considered.
fn said_of_drive(drive: &DriveInfo) -> impl Hash + use<> {
    let DriveInfo {
        name,
        state,
        reason,
        volumes,
        slot,
        free_bytes,
        stale_regions: _,
        uuid,
        size_bytes,
        grown_to_bytes,
        kind,
        identity,
        logical_sector_bytes,
        physical_sector_bytes,
        rotational,
        read_only,
        foreign_array,
        failure,
        medium_errors: _,
        suspensions: _,
        suspension: _,
        work: _,
        model,
        serial,
        firmware,
        enclosure,
        bay,
        health,
        numbers,
        revision: _,
    } = drive.clone();
    let warning = health.and_then(|health| health.warning);
    let what = (name, uuid, kind, identity, model, serial, firmware, enclosure, bay);
    let sizes = (
        size_bytes,
        grown_to_bytes,
        logical_sector_bytes,
        physical_sector_bytes,
        rotational,
        read_only,
    );
    let standing = (state, reason, failure, foreign_array);
    (what, sizes, (standing, volumes, slot, free_bytes, warning, numbers))
}

/// The fields that count as a change of a volume.
fn said_of_volume(volume: &VolumeInfo) -> impl Hash + use<> {
    let policies: Vec<(String, String, String)> = volume
        .policies
        .iter()
        .map(|policy| (policy.name.clone(), policy.configured.clone(), policy.current.clone()))
        .collect();
    let drives: Vec<_> =
        volume.drives.iter().map(|drive| (drive.name.clone(), drive.state)).collect();
    let shape = (
        volume.level.clone(),
        volume.spans,
        volume.copies,
        volume.strip_bytes,
        volume.arrangement.clone(),
    );
    let sectors = (volume.sector_bytes, volume.physical_sector_bytes);
    let place = (sectors, volume.capacity_bytes, volume.data_start_bytes, volume.member_bytes);
    let standing = (
        volume.state,
        volume.may_lose,
        volume.may_lose_at_most,
        volume.lost_bytes,
        volume.resync.is_some(),
    );
    let names = (
        volume.name.clone(),
        volume.number,
        volume.group,
        volume.generation,
        volume.array_volumes.clone(),
    );
    (names, shape, place, standing, policies, drives)
}
