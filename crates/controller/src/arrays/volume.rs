//! A volume of an array, as the controller stores it.

use crate::arrays::cache::InEffect;
use crate::arrays::on_log::LogPlaced;
use crate::arrays::reads::Reads;
use crate::arrays::sectors::Sectors;
use crate::interface::{CacheInfo, VolumeState};
use crate::inventory::{Drive, IsQuiesced};
use engine::{
    CacheCounters, Change, JournalOn, JournalPlace, LogDevice, RegionIndex, RegionSet, VolumeId,
    VolumeMeter, ring_len,
};
use layout::Geometry;
use ondisk::{KeptLabel, TailPlace, Uuid, VolumeLabel, slots};
use platform::Words;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, DriveSet};
use volume_state::Forced;

/// A volume. Its regions are a run of its array's; region 0 in the shards is the first of them.
pub(crate) struct Volume {
    /// It survives a reshape: the part with the new layout takes it over.
    uuid: Cell<Uuid>,
    /// The layout, which does not change.
    pub(crate) geometry: Geometry,
    /// Its entry in the array's newest label.
    label: RefCell<VolumeLabel>,
    /// Its number in the shards while they serve it.
    served: Cell<Option<VolumeId>>,
    /// Its numbers in the shards before earlier reshapes: hosts that connected then still use
    /// these.
    former: RefCell<Vec<VolumeId>>,
    /// For a part: the end of its stripes with data, once all data is moved to it.
    filled: Cell<u64>,
    /// See [`Volume::is_left_closed`].
    left_closed: Cell<bool>,
    /// See [`Volume::was_taken_back`].
    taken_back: Cell<Option<Uuid>>,
    /// By slot, the number of drive changes sent to the shards since they serve it.
    swaps: RefCell<BTreeMap<usize, u64>>,
    /// By slot, the replacements sent to the shards since they serve it, in that order.
    replacements: RefCell<BTreeMap<usize, Vec<Uuid>>>,
    hidden: Cell<bool>,
    /// Drives with outstanding operations of an earlier attachment.
    draining: RefCell<Vec<(Rc<Drive>, IsQuiesced)>>,
    /// The identity of its journal records, if it has a journal, while the shards serve it.
    pub(super) journal_id: Cell<Option<Uuid>>,
    /// Whether no record carries that yet.
    pub(super) journal_is_fresh: Cell<bool>,
    /// Changes of its block lists by the last replay of its journal, recorded with the journal's
    /// next identity.
    pub(super) replayed: RefCell<Vec<Change>>,
    /// The identity of a journal on a log that an operator has discarded; its next start records
    /// that.
    pub(super) given_up_log: Cell<Option<Uuid>>,
    /// The same of its data log.
    pub(super) given_up_data_log: Cell<Option<Uuid>>,
    /// The same for missing memory of the cache.
    pub(super) given_up_memory: Cell<Option<KeptLabel>>,
    /// The place on a log that its next journal gets.
    pub(super) log_place: RefCell<LogPlaced>,
    /// Whether shards write to the data log that its label names: otherwise that is an earlier one.
    pub(super) has_data_log: Cell<bool>,
    /// Whether its shards hold the content of a data log, and acknowledge nothing from the cache
    /// until it is destaged.
    pub(super) restores: Cell<bool>,
    /// Access to the log devices that its journal is on.
    log_devices: RefCell<Vec<LogDevice>>,
    /// Why the last attempt to start it failed.
    pub(super) refusal: RefCell<Option<String>>,
    pub(super) state: Cell<(VolumeState, u64)>,
    /// Regions whose redundancy is accepted as it is, by an operator since the last start, or by a
    /// replayed journal.
    forced: RefCell<Forced>,
    /// The write mode in effect, and the gauge of its cached data.
    in_effect: RefCell<Option<InEffect>>,
    gauge: RefCell<Option<Words>>,
    /// The cache use of its reads, since it was first attached to the shards.
    reads: RefCell<Option<Reads>>,
    /// The sectors that it advertises, and whether hosts align to them.
    pub(crate) sectors: Sectors,
    /// The counters of the shards, over all attachments.
    meter: RefCell<VolumeMeter>,
}

impl Volume {
    pub(crate) fn new(label: VolumeLabel, geometry: Geometry, now_unix_s: u64) -> Volume {
        Volume {
            uuid: Cell::new(label.uuid),
            geometry,
            label: RefCell::new(label),
            served: Cell::default(),
            former: RefCell::default(),
            filled: Cell::default(),
            left_closed: Cell::default(),
            taken_back: Cell::default(),
            swaps: RefCell::default(),
            replacements: RefCell::default(),
            hidden: Cell::default(),
            draining: RefCell::default(),
            journal_id: Cell::default(),
            journal_is_fresh: Cell::default(),
            replayed: RefCell::default(),
            given_up_log: Cell::default(),
            given_up_data_log: Cell::default(),
            given_up_memory: Cell::default(),
            log_place: RefCell::default(),
            has_data_log: Cell::default(),
            restores: Cell::default(),
            log_devices: RefCell::default(),
            refusal: RefCell::default(),
            state: Cell::new((VolumeState::Offline, now_unix_s)),
            forced: RefCell::default(),
            in_effect: RefCell::default(),
            reads: RefCell::default(),
            gauge: RefCell::default(),
            sectors: Sectors::default(),
            meter: RefCell::default(),
        }
    }

    /// Its current UUID.
    pub(crate) fn uuid(&self) -> Uuid {
        self.uuid.get()
    }

    /// Makes a part of a reshaping volume that volume, from now on.
    pub(super) fn becomes(&self, uuid: Uuid) {
        self.uuid.set(uuid);
    }

    /// Why the last attempt to start it failed.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.refusal.borrow().clone()
    }

    pub(crate) fn set_refusal(&self, why: Option<String>) {
        *self.refusal.borrow_mut() = why;
    }

    pub(crate) fn name(&self) -> String {
        self.label.borrow().name.clone()
    }

    pub(crate) fn label(&self) -> VolumeLabel {
        self.label.borrow().clone()
    }

    pub(crate) fn set_label(&self, label: VolumeLabel) {
        *self.label.borrow_mut() = label;
    }

    /// Regions whose redundancy is accepted as it is.
    pub(crate) fn forced(&self) -> Forced {
        self.forced.borrow().clone()
    }

    pub(super) fn set_forced(&self, forced: Forced) {
        *self.forced.borrow_mut() = forced;
    }

    /// These regions are not accepted any more.
    pub(super) fn forget_forced(&self, regions: &RegionSet) {
        self.forced.borrow_mut().forget(regions);
    }

    /// Its regions, numbered as in the array.
    pub(crate) fn regions(&self) -> Range<u32> {
        let label = self.label.borrow();
        label.first_region..label.end_region()
    }

    /// The array's number of one of its regions.
    pub(crate) fn array_region(&self, region: RegionIndex) -> u32 {
        self.label.borrow().first_region.saturating_add(region.0)
    }

    /// Those of the array's regions that are its own, numbered as in the shards.
    pub(crate) fn own_regions(&self, regions: &RegionSet) -> RegionSet {
        let own = self.regions();
        let clip = |region: u32| region.clamp(own.start, own.end) - own.start;
        RegionSet::from_runs(regions.runs().iter().map(|[first, end]| [clip(*first), clip(*end)]))
    }

    /// Its regions, numbered as in the array.
    pub(super) fn array_regions(&self, regions: &RegionSet) -> RegionSet {
        let own = self.regions();
        let shift = |region: u32| region.saturating_add(own.start).min(own.end);
        RegionSet::from_runs(regions.runs().iter().map(|[first, end]| [shift(*first), shift(*end)]))
    }

    /// All its regions, numbered as in the array.
    pub(crate) fn all_regions(&self) -> RegionSet {
        let own = self.regions();
        RegionSet::from_runs([[own.start, own.end]])
    }

    /// Members that it needed when they went out, and that are still out: nothing was written to it
    /// since.
    pub(crate) fn lost(&self) -> DriveSet {
        slots(self.label.borrow().lost.iter().map(|slot| usize::from(*slot)))
    }

    /// Whether it is hidden from hosts while it is served.
    pub(crate) fn is_hidden(&self) -> bool {
        self.hidden.get()
    }

    pub(super) fn hide(&self, hidden: bool) {
        self.hidden.set(hidden);
    }

    pub(crate) fn is_redundant(&self) -> bool {
        self.geometry.level().is_redundant()
    }

    /// Whether its label records the initialised stripes.
    pub(crate) fn is_initialised_by_stripe(&self) -> bool {
        self.label().initialised_by_bytes.is_some()
    }

    pub(crate) fn has_parity(&self) -> bool {
        self.geometry.parity_strips() > 0
    }

    pub(crate) fn id(&self) -> Option<VolumeId> {
        self.served.get()
    }

    pub(crate) fn is_served(&self) -> bool {
        self.served.get().is_some()
    }

    /// See the field.
    pub(super) fn former(&self) -> Vec<VolumeId> {
        self.former.borrow().clone()
    }

    /// Takes over the hosts of another volume, and of its earlier layouts.
    pub(super) fn takes_over(&self, from: &Volume) {
        self.former.borrow_mut().extend(from.former().into_iter().chain(from.id()));
    }

    /// See the field.
    pub(super) fn filled(&self) -> u64 {
        self.filled.get()
    }

    pub(super) fn set_filled(&self, stripes: u64) {
        self.filled.set(stripes);
    }

    /// Whether one of its windows is closed and abandoned: hosts cannot write there.
    pub(crate) fn is_left_closed(&self) -> bool {
        self.left_closed.get()
    }

    pub(super) fn set_left_closed(&self, is_left: bool) {
        self.left_closed.set(is_left);
    }

    /// Whether the last start rolled back the reshape to that volume: it had begun, and could not
    /// continue.
    pub(crate) fn was_taken_back(&self, to: Option<Uuid>) -> bool {
        to.is_some() && self.taken_back.get() == to
    }

    pub(super) fn set_taken_back(&self, to: Option<Uuid>) {
        self.taken_back.set(to);
    }

    pub(super) fn set_served(&self, id: Option<VolumeId>) {
        self.served.set(id);
        self.swaps.take();
        self.replacements.take();
    }

    /// A drive leaves the shards: they set `is_quiesced` when all its operations for the volume
    /// have returned.
    pub(super) fn note_draining(&self, drive: &Rc<Drive>, is_quiesced: &IsQuiesced) {
        self.draining.borrow_mut().push((drive.clone(), is_quiesced.clone()));
    }

    /// Whether a drive has outstanding operations of an earlier attachment of the volume.
    pub(crate) fn is_draining(&self, drive: &Rc<Drive>) -> bool {
        let mut draining = self.draining.borrow_mut();
        draining.retain(|(_, is_quiesced)| !is_quiesced.get());
        draining.iter().any(|(other, _)| Rc::ptr_eq(other, drive))
    }

    /// Counts a message to the shards that a slot has another drive, or none.
    pub(crate) fn note_swap(&self, slot: usize) {
        *self.swaps.borrow_mut().entry(slot).or_default() += 1;
    }

    /// The number of these messages since they serve it: a report of a shard concerns the latest
    /// drive of a slot only if the shard has seen as many.
    pub(super) fn swaps(&self, slot: usize) -> u64 {
        self.swaps.borrow().get(&slot).copied().unwrap_or_default()
    }

    /// Records that the shards fill a drive for a slot.
    pub(super) fn note_replacement(&self, slot: usize, drive: Uuid) {
        self.replacements.borrow_mut().entry(slot).or_default().push(drive);
    }

    /// The drive that is the replacement of that number in the shards.
    pub(super) fn replacement(&self, slot: usize, number: u64) -> Option<Uuid> {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        self.replacements.borrow().get(&slot)?.get(at).copied()
    }

    /// Those of its array's members that it uses.
    pub(super) fn own_drives(&self, members: &DriveSet) -> DriveSet {
        members.intersection(&DriveSet::first(self.geometry.drives()))
    }

    /// Whether it uses a member of its array.
    pub(crate) fn is_on(&self, slot: usize) -> bool {
        slot < self.geometry.drives().as_usize()
    }

    /// Whether it is being reshaped.
    pub(crate) fn is_on_its_way(&self) -> bool {
        self.label.borrow().reshape.as_ref().is_some_and(|reshape| reshape.begun)
    }

    /// Whether it is queued for a reshape.
    pub(crate) fn follows(&self) -> bool {
        let label = self.label.borrow();
        label.follows.is_some() && label.reshape.is_none()
    }

    /// Whether its redundancy allows service without these members.
    pub(super) fn survives(&self, out: &DriveSet) -> bool {
        self.geometry.survives_set(&self.own_drives(&self.label.borrow().does_without(out)))
    }

    /// Its counters in the shards.
    pub(crate) fn meter(&self) -> VolumeMeter {
        self.meter.borrow().clone()
    }

    /// Shares the counters of another volume: to hosts the two are one volume.
    pub(super) fn counts_with(&self, other: &Volume) {
        *self.meter.borrow_mut() = other.meter();
    }

    /// The state of its cached data.
    pub(crate) fn cache_info(&self) -> CacheInfo {
        let shown = self.gauge.borrow().as_ref().map(CacheCounters::shown).unwrap_or_default();
        CacheInfo {
            dirty_bytes: shown.dirty.0,
            pinned_bytes: shown.pinned.0,
            absorbed: shown.absorbed,
            hits: shown.hits,
            destages: shown.destages,
            flushes_to_log: self.has_data_log.get(),
            clean_bytes: shown.clean.0,
            ahead_used_bytes: shown.ahead_used.0,
            ahead_wasted_bytes: shown.ahead_wasted.0,
        }
    }

    pub(super) fn gauge(&self, shards: usize) -> Words {
        let gauge = CacheCounters::gauge(shards);
        *self.gauge.borrow_mut() = Some(gauge.clone());
        gauge
    }

    /// Its cached data was discarded.
    pub(super) fn forget_gauge(&self) {
        self.gauge.take();
    }

    /// The write mode in effect; none before it is first served.
    pub(crate) fn mode_in_effect(&self) -> Option<InEffect> {
        self.in_effect.borrow().clone()
    }

    /// Whether a log device makes acknowledged flushes durable.
    pub(crate) fn has_data_log(&self) -> bool {
        self.has_data_log.get()
    }

    pub(crate) fn reads(&self) -> Option<Reads> {
        self.reads.borrow().clone()
    }

    pub(super) fn set_reads(&self, reads: Reads) {
        *self.reads.borrow_mut() = Some(reads);
    }

    pub(super) fn set_mode_in_effect(&self, now: InEffect) {
        *self.in_effect.borrow_mut() = Some(now);
    }

    /// Whether its journal covers all interrupted writes. Full stripes in a data log are in no
    /// journal: it does not when that log is discarded.
    pub(crate) fn is_covered(&self) -> bool {
        let label = self.label();
        let given_up = self.given_up_data_log.get();
        let lacks_data_log = label.data_log.is_some_and(|log| given_up == Some(log.id));
        label.journal.is_some_and(|journal| journal.tells_all) && !lacks_data_log
    }

    /// Whether the next identity of its journal is durable, and no record carries it yet.
    pub(super) fn has_fresh_journal(&self) -> bool {
        let recorded = self.label().journal.and_then(|journal| journal.id);
        self.journal_is_fresh.get() && recorded.is_some() && recorded == self.journal_id.get()
    }

    /// The place of its journal, if it has one that is large enough for these shards; `tail`: the
    /// place of its drives' tail.
    pub(super) fn journal_place(&self, shards: usize, tail: TailPlace) -> Option<JournalPlace> {
        self.journal_place_as(self.journal_id.get()?, shards, tail)
    }

    /// The same for a journal of that identity.
    pub(super) fn journal_place_as(
        &self,
        id: Uuid,
        shards: usize,
        tail: TailPlace,
    ) -> Option<JournalPlace> {
        let journal = self.label().journal?;
        let place = match journal.log {
            None => {
                let on = JournalOn::Members { at: ByteCount(journal.start_bytes), tail };
                JournalPlace { id, len: ByteCount(journal.len_bytes), on }
            }
            Some(log) => {
                let devices = self.log_devices.borrow();
                let devices =
                    devices.iter().filter(|device| log.devices.contains(&device.id)).cloned();
                let (at, devices) = (ByteOffset(log.start_bytes), devices.collect());
                JournalPlace {
                    id,
                    len: ByteCount(log.len_bytes),
                    on: JournalOn::Devices { at, devices },
                }
            }
        };
        ring_len(place.len, shards as u16).is_some().then_some(place)
    }

    /// Whether its label says that its journal is on any of these log devices.
    pub(super) fn is_on_log(&self, devices: &[Uuid]) -> bool {
        let label = self.label();
        let journal = label.journal.and_then(|journal| journal.log).map(|on| on.devices);
        let mut named = journal.into_iter().chain(label.data_log.map(|log| log.devices)).flatten();
        named.any(|device| devices.contains(&device))
    }

    /// Access to those of these log devices that it knows.
    pub(super) fn log_devices_of(&self, devices: &[Uuid]) -> Vec<LogDevice> {
        let known = self.log_devices.borrow();
        known.iter().filter(|device| devices.contains(&device.id)).cloned().collect()
    }

    /// Sets the log devices of its journal, if its label names them.
    pub(super) fn set_log_devices(&self, devices: Vec<LogDevice>) {
        *self.log_devices.borrow_mut() = devices;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::{Level, Shape};
    use ondisk::{Init, Runs, WriteHole};
    use units::{ByteCount, DriveCount, StripSize};

    fn volume(level: Level, drives: u16) -> Volume {
        let geometry = Shape::new(level, DriveCount(drives))
            .geometry(StripSize::KIB_64, ByteCount::MIB * 64)
            .unwrap();
        let label = VolumeLabel {
            uuid: Uuid([1; 16]),
            name: "v".into(),
            level,
            parity: None,
            mirrors: None,
            spans: geometry.spans(),
            copies: geometry.copies(),
            strip_bytes: 65536,
            data_start_bytes: 0,
            member_bytes: geometry.member_size().0,
            first_region: 10,
            regions: 5,
            sector_bytes: 512,
            capacity_bytes: geometry.capacity().0,
            write_hole: WriteHole::Resync,
            init: Init::Zeroed,
            created_unix_s: 0,
            lost: Vec::new(),
            unwritten: Runs::default(),
            initialised_by_bytes: None,
            journal: None,
            relocated: None,
            write_mode: ondisk::WriteMode::default(),
            read_mode: ondisk::ReadMode::default(),
            cache_mode: ondisk::CacheMode::default(),
            drive_cache: ondisk::DriveCache::default(),
            sector_format: ondisk::SectorFormat::default(),
            kept: None,
            data_log: None,
            punctured: Vec::new(),
            excluded: Vec::new(),
            members: None,
            reshape: None,
            follows: None,
            part: None,
        };
        Volume::new(label, geometry, 0)
    }

    #[test]
    fn regions_are_counted_from_the_volumes_first() {
        let volume = volume(Level::Raid0, 2);
        assert_eq!(volume.array_region(RegionIndex(3)), 13);
        let all = RegionSet::from_runs([[0, 11], [13, 99]]);
        let own = volume.own_regions(&all);
        assert_eq!(own.runs(), [[0, 1], [3, 5]]);
        assert_eq!(volume.array_regions(&own).runs(), [[10, 11], [13, 15]]);
        assert_eq!(
            volume.own_regions(&RegionSet::from_runs([[0, 10], [15, 20]])),
            RegionSet::EMPTY
        );
        assert_eq!(volume.all_regions().runs(), [[10, 15]]);
    }
}
