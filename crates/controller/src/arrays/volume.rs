//! A volume of an array, as the controller keeps it.

use crate::arrays::cache::InEffect;
use crate::arrays::on_log::LogPlaced;
use crate::arrays::reads::Reads;
use crate::arrays::sectors::Sectors;
use crate::interface::{CacheInfo, VolumeState};
use crate::inventory::{Drive, IsQuiesced};
use engine::{
    CacheCounters, Change, JournalOn, JournalPlace, LogDevice, RegionIndex, RegionSet, VolumeId, VolumeMeter,
    ring_len,
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

/// A volume. Its regions are a run of its array's; what shards call its region 0 is the first of them.
pub(crate) struct Volume {
    /// It stays over a move to another layout: the part by that layout takes it over.
    uuid: Cell<Uuid>,
    /// The layout, which does not change.
    pub(crate) geometry: Geometry,
    /// What the array's newest label says of it.
    label: RefCell<VolumeLabel>,
    /// What the shards call it while they serve it.
    served: Cell<Option<VolumeId>>,
    /// What the shards called it by the layouts that it came from: hosts that were connected then are still.
    former: RefCell<Vec<VolumeId>>,
    /// A part: up to which of its stripes there is anything, once all is moved to it.
    filled: Cell<u64>,
    /// See [`Volume::is_left_closed`].
    left_closed: Cell<bool>,
    /// See [`Volume::was_taken_back`].
    taken_back: Cell<Option<Uuid>>,
    /// By slot, how often the shards were told of another drive since they serve it.
    swaps: RefCell<BTreeMap<usize, u64>>,
    /// By slot, the drives that the shards were told to fill for it since they serve it, in that order.
    replacements: RefCell<BTreeMap<usize, Vec<Uuid>>>,
    hidden: Cell<bool>,
    /// Drives that have not returned all that they were asked when the shards served it before.
    draining: RefCell<Vec<(Rc<Drive>, IsQuiesced)>>,
    /// What its records carry, if it has a journal, while the shards serve it.
    pub(super) journal_id: Cell<Option<Uuid>>,
    /// Whether no record carries that yet.
    pub(super) journal_is_fresh: Cell<bool>,
    /// What the last replay of its journal changed in its lists of blocks, recorded with the journal's next identity.
    pub(super) replayed: RefCell<Vec<Change>>,
    /// The identity of a journal on a log that an operator has given up, which its next start records.
    pub(super) given_up_log: Cell<Option<Uuid>>,
    /// The same of its data log.
    pub(super) given_up_data_log: Cell<Option<Uuid>>,
    /// The same of memory of the cache that is not here.
    pub(super) given_up_memory: Cell<Option<KeptLabel>>,
    /// The place on a log that its next journal gets.
    pub(super) log_place: RefCell<LogPlaced>,
    /// Whether shards write to the data log that its label names: otherwise that is one of before.
    pub(super) has_data_log: Cell<bool>,
    /// Whether its shards have what was found in a data log, and answer nothing from the cache until it is on the drives.
    pub(super) restores: Cell<bool>,
    /// The ways to the log devices that its journal is on.
    log_devices: RefCell<Vec<LogDevice>>,
    /// Why the last attempt to start it failed.
    pub(super) refusal: RefCell<Option<String>>,
    pub(super) state: Cell<(VolumeState, u64)>,
    /// Regions whose redundancy is taken as it is: an operator said so since the last start, or the journal tells.
    forced: RefCell<Forced>,
    /// When its hosts are told that writes are done, and where the shards show what the cache has of it.
    in_effect: RefCell<Option<InEffect>>,
    gauge: RefCell<Option<Words>>,
    /// How its reads use the cache, since it was first given to the shards.
    reads: RefCell<Option<Reads>>,
    /// What hosts are told of its sectors, and whether they heed it.
    pub(crate) sectors: Sectors,
    /// What shards count of it, over all times that they serve it.
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

    /// What it is known by.
    pub(crate) fn uuid(&self) -> Uuid {
        self.uuid.get()
    }

    /// It was a part of a volume on its way, and is that volume from now on.
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

    /// Regions whose redundancy is taken as it is.
    pub(crate) fn forced(&self) -> Forced {
        self.forced.borrow().clone()
    }

    pub(super) fn set_forced(&self, forced: Forced) {
        *self.forced.borrow_mut() = forced;
    }

    /// These of its regions are not forced any more.
    pub(super) fn forget_forced(&self, regions: &RegionSet) {
        self.forced.borrow_mut().forget(regions);
    }

    /// Its regions, of the array's.
    pub(crate) fn regions(&self) -> Range<u32> {
        let label = self.label.borrow();
        label.first_region..label.end_region()
    }

    /// What the array calls one of its regions.
    pub(crate) fn array_region(&self, region: RegionIndex) -> u32 {
        self.label.borrow().first_region.saturating_add(region.0)
    }

    /// Those of the array's regions that are its own, as the shards call them.
    pub(crate) fn own_regions(&self, regions: &RegionSet) -> RegionSet {
        let own = self.regions();
        let clip = |region: u32| region.clamp(own.start, own.end) - own.start;
        RegionSet::from_runs(regions.runs().iter().map(|[first, end]| [clip(*first), clip(*end)]))
    }

    /// Its regions, as the array calls them.
    pub(super) fn array_regions(&self, regions: &RegionSet) -> RegionSet {
        let own = self.regions();
        let shift = |region: u32| region.saturating_add(own.start).min(own.end);
        RegionSet::from_runs(regions.runs().iter().map(|[first, end]| [shift(*first), shift(*end)]))
    }

    /// All its regions, as the array calls them.
    pub(crate) fn all_regions(&self) -> RegionSet {
        let own = self.regions();
        RegionSet::from_runs([[own.start, own.end]])
    }

    /// Members that it could not do without when they went out, and that are out still: nothing was written to it
    /// since.
    pub(crate) fn lost(&self) -> DriveSet {
        slots(self.label.borrow().lost.iter().map(|slot| usize::from(*slot)))
    }

    /// Whether hosts do not get to see it while it is served.
    pub(crate) fn is_hidden(&self) -> bool {
        self.hidden.get()
    }

    pub(super) fn hide(&self, hidden: bool) {
        self.hidden.set(hidden);
    }

    pub(crate) fn is_redundant(&self) -> bool {
        self.geometry.level().is_redundant()
    }

    /// Whether it is recorded which of its stripes are initialised.
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

    /// Hosts of the other one are its own from now on, and those of the layouts that this one came from.
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

    /// Whether a window of it is closed with which nobody goes on: hosts cannot write there.
    pub(crate) fn is_left_closed(&self) -> bool {
        self.left_closed.get()
    }

    pub(super) fn set_left_closed(&self, is_left: bool) {
        self.left_closed.set(is_left);
    }

    /// Whether the way that was to end at that volume was taken back by the last start: it had begun, and could not go on.
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

    /// It is taken from the shards: `is_quiesced` will be set when they have back all that they asked of the drive for it.
    pub(super) fn note_draining(&self, drive: &Rc<Drive>, is_quiesced: &IsQuiesced) {
        self.draining.borrow_mut().push((drive.clone(), is_quiesced.clone()));
    }

    /// Whether a drive has outstanding operations when the shards served the volume before.
    pub(crate) fn is_draining(&self, drive: &Rc<Drive>) -> bool {
        let mut draining = self.draining.borrow_mut();
        draining.retain(|(_, is_quiesced)| !is_quiesced.get());
        draining.iter().any(|(other, _)| Rc::ptr_eq(other, drive))
    }

    /// The shards are told that another drive, or none, has a slot.
    pub(crate) fn note_swap(&self, slot: usize) {
        *self.swaps.borrow_mut().entry(slot).or_default() += 1;
    }

    /// How often they were told so since they serve it: what they say of a slot's drive is about the latest one only if
    /// they have seen as many.
    pub(super) fn swaps(&self, slot: usize) -> u64 {
        self.swaps.borrow().get(&slot).copied().unwrap_or_default()
    }

    /// The shards are told to fill a drive for a slot.
    pub(super) fn note_replacement(&self, slot: usize, drive: Uuid) {
        self.replacements.borrow_mut().entry(slot).or_default().push(drive);
    }

    /// Which drive shards mean by the replacement of that number.
    pub(super) fn replacement(&self, slot: usize, number: u64) -> Option<Uuid> {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        self.replacements.borrow().get(&slot)?.get(at).copied()
    }

    /// Those of its array's members that it lies on.
    pub(super) fn own_drives(&self, members: &DriveSet) -> DriveSet {
        members.intersection(&DriveSet::first(self.geometry.drives()))
    }

    /// Whether it lies on a member of its array.
    pub(crate) fn is_on(&self, slot: usize) -> bool {
        slot < self.geometry.drives().as_usize()
    }

    /// Whether it is on its way to another layout.
    pub(crate) fn is_on_its_way(&self) -> bool {
        self.label.borrow().reshape.as_ref().is_some_and(|reshape| reshape.begun)
    }

    /// Whether it comes to other drives when others of its array have, and has not begun.
    pub(crate) fn follows(&self) -> bool {
        let label = self.label.borrow();
        label.follows.is_some() && label.reshape.is_none()
    }

    /// Whether it goes on, as to redundancy, without these of its members.
    pub(super) fn survives(&self, out: &DriveSet) -> bool {
        self.geometry.survives_set(&self.own_drives(&self.label.borrow().does_without(out)))
    }

    /// What shards count of it.
    pub(crate) fn meter(&self) -> VolumeMeter {
        self.meter.borrow().clone()
    }

    /// What is counted of it is counted with another one: to hosts the two are one volume.
    pub(super) fn counts_with(&self, other: &Volume) {
        *self.meter.borrow_mut() = other.meter();
    }

    /// What the cache shows of it.
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

    /// What the cache had of it was given up.
    pub(super) fn forget_gauge(&self) {
        self.gauge.take();
    }

    /// When its hosts are told that writes are done, as it is; none while it was never served.
    pub(crate) fn mode_in_effect(&self) -> Option<InEffect> {
        self.in_effect.borrow().clone()
    }

    /// Whether a log device has what hosts are told is durable.
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

    /// Whether its journal tells all that may have been interrupted. Whole stripes that a data log has are in no journal: it does not
    /// when that log is given up.
    pub(crate) fn is_covered(&self) -> bool {
        let label = self.label();
        let given_up = self.given_up_data_log.get();
        let lacks_data_log = label.data_log.is_some_and(|log| given_up == Some(log.id));
        label.journal.is_some_and(|journal| journal.tells_all) && !lacks_data_log
    }

    /// Whether what its journal is to be called from now on is durable, and no record is called so yet.
    pub(super) fn has_fresh_journal(&self) -> bool {
        let recorded = self.label().journal.and_then(|journal| journal.id);
        self.journal_is_fresh.get() && recorded.is_some() && recorded == self.journal_id.get()
    }

    /// Where its journal is for so many shards, if it has one that is enough for them; `tail`: where that of its drives is.
    pub(super) fn journal_place(&self, shards: usize, tail: TailPlace) -> Option<JournalPlace> {
        self.journal_place_as(self.journal_id.get()?, shards, tail)
    }

    /// The same for a journal of that identity.
    pub(super) fn journal_place_as(&self, id: Uuid, shards: usize, tail: TailPlace) -> Option<JournalPlace> {
        let journal = self.label().journal?;
        let place = match journal.log {
            None => {
                let on = JournalOn::Members { at: ByteCount(journal.start_bytes), tail };
                JournalPlace { id, len: ByteCount(journal.len_bytes), on }
            }
            Some(log) => {
                let devices = self.log_devices.borrow();
                let devices = devices.iter().filter(|device| log.devices.contains(&device.id)).cloned();
                let (at, devices) = (ByteOffset(log.start_bytes), devices.collect());
                JournalPlace { id, len: ByteCount(log.len_bytes), on: JournalOn::Devices { at, devices } }
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

    /// The ways to those of these log devices that it knows.
    pub(super) fn log_devices_of(&self, devices: &[Uuid]) -> Vec<LogDevice> {
        let known = self.log_devices.borrow();
        known.iter().filter(|device| devices.contains(&device.id)).cloned().collect()
    }

    /// From now on its journal is on these log devices, if its label says so.
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
        let geometry =
            Shape::new(level, DriveCount(drives)).geometry(StripSize::KIB_64, ByteCount::MIB * 64).unwrap();
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
        assert_eq!(volume.own_regions(&RegionSet::from_runs([[0, 10], [15, 20]])), RegionSet::EMPTY);
        assert_eq!(volume.all_regions().runs(), [[10, 15]]);
    }
}
