//! Descriptions of the controller, its drives and its volumes.

use crate::arrays::array::Array;
use crate::arrays::drive_cache::drive_caches;
use crate::arrays::extents::{self, usual_end};
use crate::arrays::reads::InForce;
use crate::arrays::sectors;
use crate::arrays::unbegun::own_members;
use crate::arrays::volume::Volume;
use crate::commands::Commands;
use crate::interface::{
    CacheInfo, ControllerInfo, DriveInfo, DriveState, FailureInfo, Policy, Preset, Progress, Reply,
    Result, Settings, VolumeInfo, VolumeState, modes,
};
use crate::inventory::Drive;
use crate::lifecycle::{foreign_member, refuse_failed};
use crate::tasks::About;
use layout::Level;
use ondisk::{CacheMode, TailPlace, VolumeLabel, WriteMode};
use std::collections::BTreeSet;
use std::rc::Rc;
use units::{ByteCount, StripSize};

impl Commands {
    pub(crate) fn info(&self) -> ControllerInfo {
        let arrays = self.arrays.all();
        let states: Vec<VolumeState> = arrays
            .iter()
            .flat_map(|array| {
                array.known_volumes().into_iter().map(|volume| array.current_state(&volume))
            })
            .collect();
        let count = |state| states.iter().filter(|other| **other == state).count() as u32;
        let (cache_size, cache_reserved) = self.arrays.cache_sizes();
        ControllerInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            serial: self.inventory.serial(),
            provisional_numbers: self.inventory.provisional_numbers(),
            started_unix_s: self.started_unix_s,
            shards: self.arrays.shard_count() as u16,
            levels: Level::ALL.iter().map(|level| level.name().to_owned()).collect(),
            volumes_optimal: count(VolumeState::Optimal),
            volumes_degraded: count(VolumeState::Degraded),
            volumes_offline: count(VolumeState::Offline),
            volumes_missing: count(VolumeState::Missing),
            drives: self.inventory.drives().len() as u32,
            hosts: self.arrays.host_count() as u32,
            ups: self.ups.as_ref().map(|ups| ups.info()),
            alarm: self.events.alarm(),
            cache_bytes: cache_size.0,
            cache_reserved_bytes: cache_reserved.0,
            awaited: self.inventory.awaited().iter().map(|drive| drive.name.clone()).collect(),
            nbd: self.nbd.clone(),
        }
    }

    /// Every drive: members by slot (including missing drives and drives being filled), then the
    /// others by name.
    pub(super) fn drive_infos(&self) -> Vec<DriveInfo> {
        let arrays = self.arrays.all();
        let mut infos: Vec<DriveInfo> = Vec::new();
        for array in &arrays {
            infos.extend(self.member_infos(array));
            let replacements = array.places().into_iter().filter_map(|place| place.replacement);
            infos.extend(replacements.map(|replacement| self.drive_info(&replacement)));
        }
        let places = arrays.iter().flat_map(|array| array.places());
        let placed: BTreeSet<String> = places
            .flat_map(|place| [place.drive, place.replacement])
            .flatten()
            .map(|drive| drive.name.clone())
            .collect();
        // A drive that cannot be opened may be listed at its former position: those are few.
        let is_shown = |drive: &Rc<Drive>| {
            placed.contains(&drive.name)
                || drive.access().is_none() && self.arrays.shown_place(drive).is_some()
        };
        let mut others: Vec<Rc<Drive>> = self.inventory.drives();
        others.retain(|drive| !is_shown(drive));
        others.sort_by(|a, b| a.name.cmp(&b.name));
        infos.extend(others.iter().map(|drive| self.loose_info(drive)));
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
        let is_lacking = state == DriveState::Rebuilding && array.is_running();
        let rebuilt = member.filter(|_| is_lacking).and_then(|member| {
            let how = self.tasks.rebuild_of(&About::of_drive(array.uuid, slot, member.uuid))?;
            Some(format!("{how}; regions left: {}", array.to_rebuild(slot).len()))
        });
        let reason = rebuilt.or(reason);
        let failure =
            member.and_then(|member| label.failed.iter().find(|of| of.uuid == member.uuid));
        let failure = failure.filter(|_| state == DriveState::Failed).map(FailureInfo::of);
        let since = failure.as_ref().map(|failure| units::utc(failure.at_unix_s));
        let reason = match (reason, since) {
            (Some(reason), Some(since)) if !reason.contains(&since) => {
                Some(format!("{reason}; it failed at {since}"))
            }
            (reason, _) => reason,
        };
        let name = self.arrays.member_name(array, slot);
        let of_drive = self.physical_info(name, drive.as_deref());
        self.with_revision(DriveInfo {
            state,
            reason,
            volumes: label.volume.iter().map(|volume| volume.name.clone()).collect(),
            slot: u16::try_from(slot).ok(),
            uuid: member.map(|member| member.uuid.to_string()),
            free_bytes: of_drive.size_bytes.map(|size| {
                let used: u64 = label.volume.iter().map(|volume| volume.member_bytes).sum();
                let end = usual_end([size].into_iter(), label.tail).0;
                end.saturating_sub(label.tail.data_start().0 + used)
            }),
            stale_regions: array.to_rebuild(slot).len(),
            failure,
            suspension: self.arrays.suspension_info(array, slot),
            ..of_drive
        })
    }

    fn drive_info(&self, drive: &Rc<Drive>) -> DriveInfo {
        if let Some((array, slot)) = self.arrays.shown_place(drive) {
            return self.member_info(&array, slot);
        }
        let filling = self
            .arrays
            .all()
            .into_iter()
            .find_map(|array| array.replaced_by(drive).map(|slot| (array, slot)));
        if let Some((array, slot)) = filling {
            let name = self.arrays.member_name(&array, slot);
            let info = self.physical_info(drive.name.clone(), Some(drive));
            return self.with_revision(DriveInfo {
                state: DriveState::Filling,
                reason: Some(format!(
                    "the drive is being filled from drive {name}, to replace that drive"
                )),
                volumes: array.known_volumes().iter().map(|volume| volume.name()).collect(),
                slot: u16::try_from(slot).ok(),
                stale_regions: self.arrays.replacement_stale(&array, slot).len(),
                ..info
            });
        }
        self.loose_info(drive)
    }

    /// A drive that is neither a member of an array nor being filled.
    fn loose_info(&self, drive: &Rc<Drive>) -> DriveInfo {
        let info = self.physical_info(drive.name.clone(), Some(drive));
        // A drive with outstanding writes reports that first: nothing else is possible until then.
        let failure = self.inventory.failure_of(drive).filter(|_| !drive.is_draining());
        let refused = failure.as_ref().map(|failure| refuse_failed(&drive.name, failure));
        let foreign = drive.foreign().filter(|_| !drive.is_draining());
        let member = foreign.as_ref().map(|array| foreign_member(&drive.name, array));
        let problem = refused.or(drive.problem()).or(member);
        let (is_spare, log) = (drive.spare().is_some(), drive.log_label());
        let state = match &problem {
            Some(_) if failure.is_some() => DriveState::Failed,
            _ if drive.first_path().is_some() => DriveState::Refused,
            _ if drive.access().is_none() => DriveState::Missing,
            Some(_) if foreign.is_some() => DriveState::Foreign,
            Some(_) => DriveState::Refused,
            None if is_spare => DriveState::Spare,
            None if log.is_some() => DriveState::Log,
            None => DriveState::Unused,
        };
        let free = info.size_bytes.filter(|_| state == DriveState::Unused);
        self.with_revision(DriveInfo {
            state,
            reason: problem.map(|problem| problem.message),
            failure: failure.as_ref().map(FailureInfo::of),
            free_bytes: free.map(|size| usual_end([size].into_iter(), TailPlace::End).0),
            volumes: log
                .map(|log| log.place.into_iter().map(|place| place.name).collect())
                .unwrap_or_default(),
            ..info
        })
    }

    /// The drive's own description of itself.
    fn physical_info(&self, name: String, drive: Option<&Drive>) -> DriveInfo {
        let access = drive.and_then(Drive::access);
        let info = access.as_ref().map(|access| access.info());
        DriveInfo {
            numbers: self.inventory.numbers_of(drive, &name),
            revision: 0,
            name,
            state: DriveState::Missing,
            reason: None,
            volumes: Vec::new(),
            slot: None,
            free_bytes: None,
            stale_regions: 0,
            uuid: None,
            size_bytes: info.map(|info| info.size.0),
            grown_to_bytes: drive.and_then(Drive::grown_to).map(|size| size.0),
            kind: info.map(|info| info.kind.to_string()),
            identity: info.map(|info| info.identity.0.clone()),
            logical_sector_bytes: info.map(|info| info.logical_sector.bytes().0),
            physical_sector_bytes: info.map(|info| info.physical_sector.bytes().0),
            rotational: info.is_some_and(|info| info.rotational),
            read_only: info.is_some_and(|info| info.read_only),
            foreign_array: drive.and_then(Drive::foreign),
            failure: None,
            medium_errors: drive.map_or(0, |drive| drive.medium_errors()),
            suspensions: drive.map_or(0, |drive| drive.suspensions()),
            suspension: None,
            work: None,
            model: info.and_then(|info| info.hardware.model.clone()),
            serial: info.and_then(|info| info.hardware.serial.clone()),
            firmware: info.and_then(|info| info.hardware.firmware.clone()),
            enclosure: info.and_then(|info| info.hardware.enclosure.clone()),
            bay: info.and_then(|info| info.hardware.slot.clone()),
            health: drive.and_then(|drive| self.inventory.health_of(drive)).map(Box::new),
        }
    }

    pub(super) fn drive_reply(&self, drive: &Rc<Drive>, notes: Vec<String>) -> Reply {
        Reply::Drive { drive: Box::new(self.drive_info(drive)), notes, costs: Vec::new() }
    }

    /// `drive show`: with the drive's I/O counters.
    pub(super) fn show_drive(&self, drive: &str) -> Result<Reply> {
        let drive = self.arrays.find_drive(drive)?;
        let info = DriveInfo {
            work: Some(Box::new(self.work_of_drive(&drive))),
            ..self.drive_info(&drive)
        };
        Ok(Reply::Drive { drive: Box::new(info), notes: Vec::new(), costs: Vec::new() })
    }

    pub(super) fn volume_reply(&self, array: &Array, volume: &Volume, notes: Vec<String>) -> Reply {
        Reply::Volume { volume: Box::new(self.volume_info(array, volume)), notes }
    }

    /// Every volume, by name.
    pub(super) fn volume_infos(&self) -> Vec<VolumeInfo> {
        let arrays = self.arrays.all();
        let of_array = |array: &Rc<Array>| {
            let array = array.clone();
            array.known_volumes().into_iter().map(move |volume| self.volume_info(&array, &volume))
        };
        let mut infos: Vec<VolumeInfo> = arrays.iter().flat_map(of_array).collect();
        infos.sort_by(|a, b| (&a.name, &a.uuid).cmp(&(&b.name, &b.uuid)));
        infos
    }

    /// The cache content of a volume, even if it is not started.
    fn cache_info(&self, volume: &Volume) -> CacheInfo {
        let shown = volume.cache_info();
        let found = match volume.label().kept {
            Some(_) => self.arrays.found_bytes(volume).0,
            None => 0,
        };
        CacheInfo { dirty_bytes: shown.dirty_bytes + found, ..shown }
    }

    /// The policies of a volume, then those of its array.
    fn policies_of(&self, array: &Array, volume: &Volume, since_unix_s: u64) -> Vec<Policy> {
        let mut policies = policies(array, volume, since_unix_s);
        let (name, format) = ("sector".to_owned(), volume.label().sector_format.name().to_owned());
        let (configured, current, reason) = (format.clone(), format, sectors::about(array, volume));
        policies.push(Policy { name, configured, current, reason, since_unix_s });
        policies.push(self.policies.attach_policy(volume.uuid(), since_unix_s));
        policies
    }

    pub(super) fn volume_info(&self, array: &Array, volume: &Volume) -> VolumeInfo {
        let (of_array, label) = (array.label(), volume.label());
        let (state, since_unix_s) = array.state(volume, self.env.unix_time());
        let mut drives = self.member_infos(array);
        drives.truncate(own_members(&of_array).min(array.wanted_members()));
        let left = state.serves().then(|| array.tolerance(volume).more());
        let (may_lose, may_lose_at_most) =
            left.map_or((0, 0), |more| (more.at_least.0, more.at_most.0));
        let parts: Vec<Rc<Volume>> = array.together_with(volume).into_iter().skip(1).collect();
        let dirty = array.marked_of(volume);
        let (cache, sectors) = (self.cache_info(volume), sectors::host_sectors(array, volume));
        self.volume_with_revision(VolumeInfo {
            name: label.name.clone(),
            uuid: volume.uuid().to_string(),
            state,
            reasons: reasons(array, volume, state, &drives)
                .into_iter()
                .chain(cached_alone(volume, cache))
                .collect(),
            since_unix_s,
            level: label.level.name().to_owned(),
            spans: label.spans,
            copies: label.copies,
            strip_bytes: label.strip_bytes,
            arrangement: arrangement(&label),
            sector_bytes: sectors.logical.bytes().0,
            physical_sector_bytes: sectors.physical.bytes().0,
            capacity_bytes: array.usable_bytes(volume),
            data_start_bytes: label.data_start_bytes,
            member_bytes: label.member_bytes,
            array: array.uuid.to_string(),
            array_volumes: array.known_volumes().iter().map(|volume| volume.name()).collect(),
            array_free_bytes: free_bytes(&of_array, &drives),
            may_lose,
            may_lose_at_most,
            reshape: crate::lifecycle::info_on_its_way(array, volume).map(Box::new),
            lost_bytes: lost_bytes(&label, &parts),
            drives,
            resync: progress(array, volume)
                .or_else(|| parts.iter().find_map(|part| progress(array, part))),
            initialisation: initialisation(array, volume),
            dirty_regions: u32::try_from(dirty).unwrap_or(u32::MAX),
            policies: self.policies_of(array, volume, label.created_unix_s),
            cache,
            hosts: self.arrays.host_infos(volume),
            disk: self.attached.of(&volume.uuid().to_string()),
            generation: of_array.generation,
            created_unix_s: label.created_unix_s,
            last_seen_unix_s: array
                .is_missing()
                .then(|| self.inventory.last_seen(array.uuid))
                .flatten(),
            number: self.inventory.volume_number(volume.uuid()),
            group: self.inventory.group_number(array.uuid),
            provisional: self.inventory.has_provisional_numbers(),
            revision: 0,
            array_revision: 0,
        })
    }
}

/// The name of the layout of parity or copies.
fn arrangement(label: &VolumeLabel) -> Option<String> {
    let parity = label.parity.map(|parity| parity.name());
    parity.or(label.mirrors.map(|mirrors| mirrors.name())).map(str::to_owned)
}

/// The punctured bytes of a volume and of its `parts` by other layouts.
fn lost_bytes(label: &VolumeLabel, parts: &[Rc<Volume>]) -> u64 {
    let of_parts = parts.iter().flat_map(|part| part.label().punctured);
    let punctured = label.punctured.iter().cloned().chain(of_parts);
    punctured.flat_map(|punctured| punctured.bytes).map(|run: [u64; 2]| run[1] - run[0]).sum()
}

/// Dirty data that cannot be destaged to the drives: a sentence.
fn cached_alone(volume: &Volume, cache: CacheInfo) -> Option<String> {
    let name = volume.name();
    let (dirty, pinned) = (ByteCount(cache.dirty_bytes), ByteCount(cache.pinned_bytes));
    if !volume.is_served() && !dirty.is_zero() {
        return Some(format!(
            "{dirty} of acknowledged writes of '{name}' is only in the cache, and is written to \
            its drives when it is started: do not delete the cache's memory, and do not switch \
            this host off"
        ));
    }
    (volume.is_served() && !pinned.is_zero()).then(|| {
        format!(
            "{pinned} of acknowledged writes of '{name}' cannot be written to its drives now: the \
            cache preserves it and retries; 'softroc volume flush {name}' tries at once and shows \
            the reason"
        )
    })
}

/// The longest free extent on the drives of an array.
fn free_bytes(label: &ondisk::Label, drives: &[DriveInfo]) -> u64 {
    let end = usual_end(drives.iter().filter_map(|drive| drive.size_bytes), label.tail);
    let gaps = extents::free_bytes(Some(label), end, StripSize::MIN);
    extents::longest(&gaps).map_or(0, |gap| gap.end - gap.start)
}

fn reasons(
    array: &Array,
    volume: &Volume,
    state: VolumeState,
    drives: &[DriveInfo],
) -> Vec<String> {
    let name = volume.name();
    if !array.is_running() {
        let mut reasons = array.reasons();
        reasons.extend(volume.refusal());
        if reasons.is_empty() {
            reasons.push(format!("'{name}' is not started; run 'softroc volume start {name}'"));
        }
        return reasons;
    }
    let parts = array.together_with(volume);
    let lies_on = |slot: usize| volume.is_on(slot) || parts.iter().any(|part| part.is_on(slot));
    let own = drives.iter().enumerate().filter(|(slot, _)| lies_on(*slot) || array.has_lost());
    let mut reasons: Vec<String> = own.filter_map(|(_, drive)| drive.reason.clone()).collect();
    if !volume.is_served() {
        reasons.extend(volume.refusal());
    }
    for drive in volume.lost().iter().filter_map(|slot| drives.get(slot.as_usize())) {
        reasons.push(format!(
            "'{name}' needs drive {}; when the drive works again, run 'softroc drive online {}'",
            drive.name, drive.name
        ));
    }
    for listed in volume.label().excluded {
        if let Some(drive) = drives.get(usize::from(listed.slot)) {
            let bytes = listed.bytes.iter().map(|run| run[1] - run[0]).sum();
            reasons.push(format!(
                "drive {} lost {} of '{name}' that were written to it; replace it: 'softroc drive \
                replace {} --with DRIVE'",
                drive.name,
                ByteCount(bytes),
                drive.name
            ));
        }
    }
    if volume.is_hidden() {
        reasons.push(format!(
            "'{name}' is being initialised with zeroes; hosts can use it afterwards ('softroc task \
            list' shows the progress)"
        ));
    }
    let stuck = state == VolumeState::Degraded
        && !array.out_of(volume).is_empty()
        && !array.distrusted(volume).is_empty();
    if stuck && volume.has_parity() {
        reasons.push(format!(
            "a drive failed before the resync was complete: in unsynced regions, blocks of that \
            drive give I/O errors; to accept wrong blocks instead, run 'softroc volume start \
            {name} --accept-stale-parity'"
        ));
    }
    reasons
}

fn initialisation(array: &Array, volume: &Volume) -> Option<Progress> {
    let (done, regions) = array.initialised_of(volume)?;
    let percent = u64::from(done) * 100 / u64::from(regions.max(1));
    let percent = u8::try_from(percent).unwrap_or(99);
    (done < regions).then_some(Progress { regions_left: regions - done, regions, percent })
}

fn progress(array: &Array, volume: &Volume) -> Option<Progress> {
    let own = volume.regions();
    let regions = own.end - own.start;
    let left = array.unsynced_of(volume);
    (left > 0).then(|| {
        let done = u64::from(regions.saturating_sub(left)) * 100 / u64::from(regions.max(1));
        Progress { regions_left: left, regions, percent: u8::try_from(done).unwrap_or(99) }
    })
}

/// When writes are acknowledged to hosts.
fn write_mode(volume: &Volume, since_unix_s: u64) -> Policy {
    let configured = volume.label().write_mode;
    let now = volume.mode_in_effect();
    let lacks_log = configured == WriteMode::LoggedWriteBack && !volume.has_data_log();
    let current = match now.as_ref().map_or(configured, |now| now.mode) {
        WriteMode::LoggedWriteBack if lacks_log => WriteMode::WriteThrough,
        mode => mode,
    };
    Policy {
        name: "write-mode".to_owned(),
        configured: configured.name().to_owned(),
        current: current.name().to_owned(),
        reason: match now.as_ref().and_then(|now| now.why.as_ref()) {
            None if lacks_log => format!("{}: {}", modes::meaning(current), without_log(volume)),
            Some(why) => format!("{}: {why}", modes::meaning(current)),
            None => modes::meaning(current).to_owned(),
        },
        since_unix_s: now.map_or(since_unix_s, |now| now.since_unix_s),
    }
}

/// Why no log device stores the flushed data of a volume.
fn without_log(volume: &Volume) -> &'static str {
    match volume.has_parity() {
        true if volume.is_served() => {
            "there is no log device for it; 'softroc log add' creates one"
        }
        true => "it is not started",
        false => "levels without parity do not use a log device",
    }
}

/// The FastPath policy: the requests that use FastPath, and why others do not.
fn fast_path(array: &Array, volume: &Volume, since_unix_s: u64) -> Policy {
    let writes_back =
        volume.mode_in_effect().is_some_and(|now| now.mode != WriteMode::WriteThrough);
    let is_offline = !volume.is_served() || array.current_state(volume) == VolumeState::Offline;
    let is_well =
        array.current_state(volume) == VolumeState::Optimal && array.unsynced_of(volume) == 0;
    let is_kept = volume.reads().is_some_and(|reads| reads.kept.value == CacheMode::Cached);
    let may_write = !writes_back && !volume.has_parity() && is_well;
    let (current, reason) = match () {
        () if is_offline => ("none", "the volume is offline"),
        () if is_kept => (
            if may_write { "writes" } else { "none" },
            "no FastPath for reads: they use the read cache (--cache-mode direct allows it)",
        ),
        () if writes_back => (
            "reads",
            "no FastPath for writes: they go through the cache (--write-mode write-through allows \
            it)",
        ),
        () if volume.has_parity() => ("reads", "no FastPath for writes: they also write parity"),
        () if !is_well => (
            "reads",
            "no FastPath for writes: a drive is out of service or being rebuilt, or a resync is \
            not complete",
        ),
        () if volume.geometry.copies() > 1 => (
            "reads and writes",
            "requests within one strip go directly from the host's shard to the drives; writes go \
            through the stripe's owner shard",
        ),
        () => (
            "reads and writes",
            "requests within one strip go directly from the host's shard to the drives",
        ),
    };
    let text = |text: &str| text.to_owned();
    Policy {
        name: text("fast-path"),
        configured: text(current),
        current: text(current),
        reason: text(reason),
        since_unix_s,
    }
}

/// The preset that matches a volume's settings, and the state of the drives' write caches.
fn preset_and_drives(array: &Array, volume: &Volume, since_unix_s: u64) -> Vec<Policy> {
    let label = volume.label();
    let (read_mode, write_mode) = (label.read_mode, label.write_mode);
    let (cache_mode, drive_cache) = (label.cache_mode, label.drive_cache);
    let preset = Preset::of(Settings { read_mode, write_mode, cache_mode, drive_cache });
    let (name, meaning) = match preset {
        Some(preset) => (preset.name(), preset.meaning()),
        None => (
            "none",
            "the settings below match no preset; 'softroc volume set --preset' sets them together",
        ),
    };
    let drives = drive_caches(array, volume);
    let policy = |name: &str, configured: &str, current: &str, reason: String| {
        let (configured, current) = (configured.to_owned(), current.to_owned());
        Policy { name: name.to_owned(), configured, current, reason, since_unix_s }
    };
    vec![
        policy("preset", name, name, meaning.to_owned()),
        policy("drive-cache", label.drive_cache.name(), drives.current, drives.reason),
    ]
}

/// How reads use the cache.
fn reads(volume: &Volume, since_unix_s: u64) -> Vec<Policy> {
    let (label, now) = (volume.label(), volume.reads());
    let (ahead, kept) = now.map(|now| (now.ahead, now.kept)).unzip();
    let ahead = ahead.unwrap_or(InForce { value: label.read_mode, why: None, since_unix_s });
    let kept = kept.unwrap_or(InForce { value: label.cache_mode, why: None, since_unix_s });
    let policy =
        |name: &str, configured: &str, current: &str, meaning: &str, why: Option<String>, since| {
            Policy {
                name: name.to_owned(),
                configured: configured.to_owned(),
                current: current.to_owned(),
                reason: why.map_or(meaning.to_owned(), |why| format!("{meaning}: {why}")),
                since_unix_s: since,
            }
        };
    let meaning = (modes::of_reads(ahead.value), modes::of_kept(kept.value));
    vec![
        policy(
            "read-mode",
            label.read_mode.name(),
            ahead.value.name(),
            meaning.0,
            ahead.why,
            ahead.since_unix_s,
        ),
        policy(
            "cache-mode",
            label.cache_mode.name(),
            kept.value.name(),
            meaning.1,
            kept.why,
            kept.since_unix_s,
        ),
    ]
}

/// The write-hole policy of a redundant volume.
fn write_hole(volume: &Volume, since_unix_s: u64) -> Policy {
    let label = volume.label();
    let keeps = label.write_hole == ondisk::WriteHole::Journal;
    let on_log = label.journal.as_ref().is_some_and(|journal| journal.log.is_some());
    let (current, reason) = if keeps && volume.is_covered() && on_log {
        (
            "journal",
            "writes go to a journal on the log first and are finished from it after a crash; \
            the volume starts by itself, even if it is degraded; 'softroc log list' shows the \
            log",
        )
    } else if keeps && volume.is_covered() {
        (
            "journal",
            "writes go to a journal on the drives first and are finished from it after a \
            crash; the volume starts by itself, even if it is degraded",
        )
    } else if keeps && label.journal.is_none() {
        (
            "resync",
            "the array has no space for another journal: after a crash, marked regions are \
            resynced; if the volume is degraded as well, an operator must start it",
        )
    } else if keeps {
        (
            "resync",
            "the journal is used when the resync, which runs automatically, is complete; or it \
            is too small for this number of shards",
        )
    } else if volume.has_parity() {
        (
            "resync",
            "after a crash, marked regions are resynced; if the volume is degraded as well, an \
            operator must start it",
        )
    } else {
        (
            "resync",
            "after a crash, marked regions are resynced; until then they are read from one copy",
        )
    };
    let configured = if keeps { "journal" } else { "resync" };
    Policy {
        name: "write-hole".to_owned(),
        configured: configured.to_owned(),
        current: current.to_owned(),
        reason: reason.to_owned(),
        since_unix_s,
    }
}

/// Policies that are effective as configured, with their meaning.
fn policies(array: &Array, volume: &Volume, since_unix_s: u64) -> Vec<Policy> {
    let mut policies = reads(volume, since_unix_s);
    policies.insert(1, write_mode(volume, since_unix_s));
    for (place, policy) in [0, 4].into_iter().zip(preset_and_drives(array, volume, since_unix_s)) {
        policies.insert(place, policy);
    }
    if array.current_state(volume) == VolumeState::Offline {
        let offline = "; hosts cannot use it while the volume is offline";
        policies.iter_mut().for_each(|policy| policy.reason.push_str(offline));
    }
    policies.push(fast_path(array, volume, since_unix_s));
    if volume.is_redundant() {
        policies.push(write_hole(volume, since_unix_s));
    }
    policies.extend(crate::policy::policies(array, since_unix_s));
    policies
}
