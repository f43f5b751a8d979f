//! Acknowledged durable data is in records on log devices or on the drives, whatever is written,
//! destaged or lost afterwards.

use crate::common::{self, Bench, Setup, VOLUME, envs, open, range, read, write};
use engine::{
    Absorb, Attachment, CacheTerms, DataLogPlace, DataLogTerms, JournalOn, JournalPlace, LogDevice,
    ShardMessage, Volume,
};
use layout::{CopyIndex, Level};
use ondisk::Uuid;
use platform::{Buf, Durability, Env, Slice};
use platform_sim::{DriveOptions, Rng, Sim, SimDrive};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, StripSize};
use write_log::{LogId, Patch, Record, counting, patches, scan};

const SECTOR: u64 = 512;
const ROOM: ByteCount = ByteCount(128 << 10);
const LEN: ByteCount = ByteCount(256 << 10);
const AT: ByteOffset = ByteOffset(1 << 20);
/// The second half of the device; the journal is there.
const JOURNAL_AT: ByteOffset = ByteOffset(2 << 20);
const ID: Uuid = Uuid([7; 16]);

fn setup(shards: u16) -> Setup {
    Setup { shards, member: ByteCount::MIB, ..Setup::new(Level::Raid5, 4) }
}

/// A write-back RAID 5 of four drives, and one or two log devices.
fn sim(setup: &Setup, seed: u64, devices: u16) -> (Sim, Vec<SimDrive>) {
    let mut options = platform_sim::SimOptions::seeded(seed);
    (options.order, options.shards) = (platform_sim::Order::Shuffled, usize::from(setup.shards));
    let mut sim = Sim::new(options);
    for drive in 0..setup.drives + devices {
        let size = if drive < setup.drives { setup.member } else { ByteCount(4 << 20) };
        sim.add_drive(
            &format!("d{drive}"),
            DriveOptions { cache: ByteCount::MIB, ..DriveOptions::sized(size) },
        );
    }
    let drives = (0..setup.drives + devices).map(|drive| common::drive(&sim, drive)).collect();
    (sim, drives)
}

async fn devices(env: &Env, setup: &Setup, count: u16) -> Vec<LogDevice> {
    let mut devices = Vec::new();
    for device in setup.drives..setup.drives + count {
        devices.push(LogDevice { id: Uuid([device as u8; 16]), source: open(env, device).await });
    }
    devices
}

/// Attaches the volume, and replays the given earlier data log.
async fn attach(
    envs: Vec<Env>,
    setup: &Setup,
    log: u16,
    id: u8,
    restored: Vec<(ByteRange, Slice)>,
) -> (Bench, Vec<LogDevice>) {
    attach_with(ROOM, envs, setup, log, id, restored).await
}

/// The same, with a given size of the cache.
async fn attach_with(
    room: ByteCount,
    envs: Vec<Env>,
    setup: &Setup,
    log: u16,
    id: u8,
    restored: Vec<(ByteRange, Slice)>,
) -> (Bench, Vec<LogDevice>) {
    let attachment = setup.attachment(&envs[0]).await;
    let (absorb, data_log) = match restored.is_empty() {
        true => (Absorb::Unflushed, DataLogTerms::None),
        false => (Absorb::NoMore, DataLogTerms::Unfenced),
    };
    let (cache, restored) = (CacheTerms { absorb, ..CacheTerms::none(VOLUME) }, Arc::new(restored));
    let devices = devices(&envs[0], setup, log).await;
    let on = JournalOn::Devices { at: JOURNAL_AT, devices: devices.clone() };
    let journal = Some(JournalPlace { id: Uuid([id; 16]), len: LEN, on });
    (
        Bench::attach_with_cache(
            envs,
            Attachment { cache, data_log, restored, journal, ..attachment },
            room,
        )
        .await,
        devices,
    )
}

async fn give(bench: &Bench, devices: Vec<LogDevice>, id: Uuid) {
    let place = DataLogPlace { id, at: AT, len: LEN, devices };
    bench
        .tell(|done| ShardMessage::SetDataLog(VOLUME, DataLogTerms::At(place.clone()), done))
        .await;
}

fn records(device: &SimDrive) -> Vec<Record> {
    records_of(device, ID)
}

fn records_of(device: &SimDrive, id: Uuid) -> Vec<Record> {
    scan(&device.peek(AT, LEN).expect("readable"), LogId(id.0))
}

/// The live records.
fn found(devices: &[SimDrive], id: Uuid) -> Vec<(ByteRange, Slice)> {
    let records = devices.iter().flat_map(|device| records_of(device, id));
    let records = counting(records).expect("none is missing");
    let whole = |patch: Patch| (patch.range, Buf::copy_of(&patch.bytes.expect("bytes")).freeze());
    patches(&records).into_iter().map(whole).collect()
}

fn writes(drives: &[SimDrive]) -> u64 {
    drives.iter().map(|drive| drive.stats().writes).sum()
}

fn flushes(drives: &[SimDrive]) -> u64 {
    drives.iter().map(|drive| drive.stats().flushes).sum()
}

async fn write_durably(volume: &Rc<Volume>, at: u64, bytes: &[u8]) {
    let slice = Buf::copy_of(bytes).freeze();
    volume.write(range(at, bytes.len() as u64), slice, Durability::Durable).await.expect("written");
}

/// Runs something on a volume that has a data log on one device.
fn run<T: 'static, F: Future<Output = T> + 'static>(
    shards: u16,
    log: u16,
    work: impl FnOnce(Bench, Vec<SimDrive>) -> F + 'static,
) -> T {
    run_with(ROOM, shards, log, work)
}

/// The same, with a given size of the cache.
fn run_with<T: 'static, F: Future<Output = T> + 'static>(
    room: ByteCount,
    shards: u16,
    log: u16,
    work: impl FnOnce(Bench, Vec<SimDrive>) -> F + 'static,
) -> T {
    let setup = setup(shards);
    let (mut sim, drives) = sim(&setup, u64::from(shards), log);
    let envs = envs(&sim, &setup);
    let run = async move {
        let (bench, devices) = attach_with(room, envs, &setup, log, 9, Vec::new()).await;
        give(&bench, devices, ID).await;
        // The first durability token always has the drives flushed.
        bench.volume().flush().await.expect("flushed");
        work(bench, drives).await
    };
    sim.run(run).expect("no stall")
}

#[test]
fn a_flush_writes_to_the_log_and_asks_nothing_of_the_members() {
    run(2, 2, |bench, drives| async move {
        let (members, before) = (&drives[..4], (writes(&drives[..4]), flushes(&drives[..4])));
        for number in 0..4 {
            write(bench.volume(), number * 20 * SECTOR, &[number as u8 + 1; 512])
                .await
                .expect("written");
        }
        bench.volume().flush().await.expect("flushed");
        assert_eq!((writes(members), flushes(members)), before, "the members are not written");
        assert_eq!(records(&drives[4]), records(&drives[5]));
        let said: usize = records(&drives[4]).iter().map(|record| record.changes.len()).sum();
        assert_eq!(said, 4);
        let then = records(&drives[4]).len();
        bench.volume().flush().await.expect("flushed");
        assert_eq!(records(&drives[4]).len(), then, "all flushed data is in the log");
        write_durably(bench.volume(), 3 * SECTOR, &[9; 512]).await;
        assert_eq!(records(&drives[4]).len(), then + 1);
        assert_eq!(
            (writes(members), flushes(members)),
            before,
            "an FUA write is acknowledged from the log"
        );
        assert_eq!(read(bench.volume(), 3 * SECTOR, SECTOR).await.expect("readable"), [9; 512]);
    });
}

/// Newer unflushed data is destaged while the record of the older data is still live. The newer
/// data is flushed later; a replay would write the older data over it.
#[test]
fn what_is_on_the_drives_and_was_promised_is_not_undone_by_an_older_record() {
    run(1, 1, |bench, drives| async move {
        write(bench.volume(), 0, &[1; 512]).await.expect("written");
        write(bench.volume(), 30 * SECTOR, &[1; 512]).await.expect("written");
        bench.volume().flush().await.expect("flushed");
        write(bench.volume(), 0, &[2; 512]).await.expect("written");
        // The data is destaged because of its age; a later write keeps the record live.
        bench.wait(Duration::from_secs(3)).await;
        write(bench.volume(), 40 * SECTOR, &[3; 512]).await.expect("written");
        bench.wait(Duration::from_secs(4)).await;
        bench.volume().flush().await.expect("flushed");
        let older = found(&drives[4..], ID).into_iter().find(|(range, _)| range.start.0 == 0);
        let older = older.map(|(_, bytes)| bytes.solid().expect("bytes")[0]);
        assert!(older.is_none_or(|byte| byte == 2), "the record holds {older:?}");
    });
}

/// A record waits for space, and newer data of its sectors is destaged meanwhile. The flush of the
/// newer data must wait for the record. It had checked before the record existed and found nothing
/// overtaken; after a power cut the replay wrote older data over flushed data.
#[test]
fn a_record_that_waits_for_room_undoes_nothing_that_is_promised_meanwhile() {
    // Destaged data keeps its log space as long as that flush takes.
    run_with(ByteCount::MIB, 1, 1, |bench, drives| async move {
        // Data on d2, parity on d1; a slow flush of another drive keeps the log from freeing space.
        let at = 2 * 3 * 4096;
        drives[3].stall_next(1, Duration::from_secs(20));
        let begun = bench.env.now();
        let (env, mut waits) = (bench.env.clone(), None);
        for number in 1..=100 {
            let (volume, told) = (bench.volume().clone(), Rc::new(RefCell::new(false)));
            let tell = told.clone();
            env.spawn("host", async move {
                write_durably(&volume, at, &[number; 512]).await;
                *tell.borrow_mut() = true;
            });
            bench.wait(Duration::from_millis(1)).await;
            if !*told.borrow() {
                waits = Some(number);
                break;
            }
        }
        let waits = waits.expect("the log becomes full");
        assert!(waits > 10, "{waits} waits for log space");
        write(bench.volume(), at, &[200; 512]).await.expect("written");
        bench.wait(Duration::from_secs(8)).await;
        let home = ByteOffset(2 * 4096);
        assert_eq!(
            drives[2].peek(home, ByteCount(512)).expect("readable")[0],
            200,
            "the newer data is destaged"
        );
        // So much is dirty by now that a flush destages it instead of waiting to log it.
        for number in 0..17 {
            write(bench.volume(), (40 + number) * 4096, &[7; 4096]).await.expect("written");
        }
        assert!(bench.env.now().since(begun) < Duration::from_secs(19), "the record still waits");
        let (volume, at_once) = (bench.volume().clone(), Rc::new(RefCell::new(None)));
        let told = at_once.clone();
        env.spawn("host", async move {
            volume.flush().await.expect("flushed");
            *told.borrow_mut() = Some(found(&drives[4..], ID));
        });
        while at_once.borrow().is_none() {
            bench.wait(Duration::from_millis(1)).await;
        }
        let older = at_once
            .take()
            .and_then(|found| found.into_iter().find(|(range, _)| range.start.0 == at));
        let older = older.map(|(_, bytes)| bytes.solid().expect("bytes")[0]);
        assert!(
            older.is_none_or(|byte| byte == 200),
            "{waits} waited, and the record holds {older:?}"
        );
    });
}

/// With `logged-write-back` a host need not flush. Zeros of whole stripes bypass the cache, and
/// were acknowledged when the drives' caches had them. A power cut lost them, and the replay wrote
/// the older record over the rest.
#[test]
fn zeroes_that_are_not_absorbed_are_durable_when_every_write_is_logged() {
    run(1, 1, |bench, drives| async move {
        bench.tell(|done| ShardMessage::SetAbsorb(VOLUME, Absorb::Logged, VOLUME.0, done)).await;
        write(bench.volume(), 0, &[1; 4096]).await.expect("written");
        write(bench.volume(), 80 * SECTOR, &[1; 512]).await.expect("written");
        bench.wait(Duration::from_secs(8)).await;
        let whole = bench.volume().spec().geometry.stripe_bytes();
        bench.volume().write_zeroes(range(0, whole.0), Durability::Cached).await.expect("written");
        drives.iter().for_each(SimDrive::power_cut);
        let of_drive = drives[0].peek(ByteOffset::ZERO, ByteCount(4096)).expect("readable");
        assert!(of_drive.iter().all(|byte| *byte == 0), "the drive lost them");
        let logged = found(&drives[4..], ID).into_iter().find(|(range, _)| range.start.0 == 0);
        assert!(logged.is_none(), "a replay writes {logged:?} over them");
    });
}

/// The ring is short: when it is full, the data of its older records is destaged, and the ring
/// wraps.
#[test]
fn a_full_ring_empties_itself() {
    run(1, 1, |bench, drives| async move {
        for number in 0..400_u64 {
            let at = number * 7 % 96 * 2048;
            write_durably(bench.volume(), at, &[(number % 250) as u8 + 1; 2048]).await;
            assert_eq!(bench.volume().check_invariants(), Ok(()));
        }
        let last = records(&drives[4]).iter().map(|record| record.head.sequence).max();
        assert_eq!(last, Some(400));
    });
}

/// A write is longer than the ring. With `logged-write-back` it became one record, waited for space
/// that cannot exist, and had the drives flushed endlessly. The same happened when its cache line
/// had another write to log.
#[test]
fn a_write_that_is_longer_than_the_ring_is_logged_in_parts() {
    for mode in [Absorb::Logged, Absorb::Unflushed] {
        let setup = Setup { strip: StripSize::KIB_64, ..setup(1) };
        let (mut sim, drives) = sim(&setup, 5, 1);
        sim.stop_at_event(Some(1_000_000));
        let envs = envs(&sim, &setup);
        let geometry = setup.geometry();
        let run = async move {
            let attachment = setup.attachment(&envs[0]).await;
            let devices = devices(&envs[0], &setup, 1).await;
            let cache = CacheTerms { absorb: Absorb::Unflushed, ..CacheTerms::none(VOLUME) };
            let attachment = Attachment { cache, ..attachment };
            let bench = Bench::attach_with_cache(envs, attachment, ByteCount::MIB).await;
            let place = DataLogPlace { id: ID, at: AT, len: ByteCount(64 << 10), devices };
            bench
                .tell(|done| {
                    ShardMessage::SetDataLog(VOLUME, DataLogTerms::At(place.clone()), done)
                })
                .await;
            bench.volume().flush().await.expect("flushed");
            bench.tell(|done| ShardMessage::SetAbsorb(VOLUME, mode, VOLUME.0, done)).await;
            write(bench.volume(), 0, &[9; 128 << 10]).await.expect("written");
            write_durably(bench.volume(), 160 << 10, &[9; 4096]).await;
            drives.iter().for_each(SimDrive::power_cut);
            let found = found(&drives[4..], ID);
            let promised = if mode == Absorb::Logged { 0..128 << 10 } else { 160 << 10..164 << 10 };
            for at in promised.step_by(4096) {
                let logged = found.iter().rev().find(|(range, _)| {
                    range.contains(ByteRange::new(ByteOffset(at), ByteCount(1)))
                });
                let byte = match logged {
                    Some((range, bytes)) => {
                        bytes.solid().expect("bytes")[(at - range.start.0) as usize]
                    }
                    None => {
                        let (stripe, within) = geometry.stripe_of(ByteOffset(at));
                        let (index, rest) = geometry.strip_of(within);
                        let cell = geometry.data_cell(stripe, index, CopyIndex(0));
                        let drive = &drives[cell.drive.as_usize()];
                        drive.peek(cell.offset + rest, ByteCount(1)).expect("readable")[0]
                    }
                };
                assert_eq!(byte, 9, "{mode:?}: flushed data at {at} is lost");
            }
        };
        sim.run(run).expect("no stall");
    }
}

/// Until the records of an earlier start are invalidated, no flush may be acknowledged that their
/// replay would undo.
#[test]
fn nothing_is_promised_before_older_records_count_no_more() {
    let setup = setup(2);
    let (mut sim, drives) = sim(&setup, 3, 1);
    let envs = envs(&sim, &setup);
    let bytes = Buf::copy_of(&[5; 1024]).freeze();
    let restored = vec![(range(4096, 1024), bytes)];
    let run = async move {
        let (bench, _) = attach(envs, &setup, 1, 9, restored).await;
        assert_eq!(
            read(bench.volume(), 4096, 1024).await.expect("readable"),
            [5; 1024],
            "the data is there at once"
        );
        let flushed = Rc::new(RefCell::new(None));
        let (volume, told) = (bench.volume().clone(), flushed.clone());
        bench.env.spawn("host", async move { *told.borrow_mut() = Some(volume.flush().await) });
        let durable = begin_durably(bench.volume());
        bench.wait(Duration::from_secs(60)).await;
        assert!(flushed.borrow().is_none() && durable.borrow().is_none(), "the flushes wait");
        bench.tell(|done| ShardMessage::Drain(VOLUME, done)).await;
        assert!(writes(&drives[..4]) > 0);
        bench.tell(|done| ShardMessage::SetDataLog(VOLUME, DataLogTerms::None, done)).await;
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(*flushed.borrow(), Some(Ok(())));
        assert_eq!(*durable.borrow(), Some(Ok(())));
        // A volume detaches even while flushes wait.
        bench.tell(|done| ShardMessage::SetDataLog(VOLUME, DataLogTerms::Unfenced, done)).await;
        let waits = begin_durably(bench.volume());
        bench.wait(Duration::from_secs(1)).await;
        assert!(waits.borrow().is_none());
        bench.tell(|done| ShardMessage::Detach(VOLUME, Vec::new(), done)).await;
        assert!(matches!(*waits.borrow(), Some(Err(_))), "the flush was not acknowledged");
    };
    sim.run(run).expect("no stall");
}

/// A host's write was acknowledged from the drives, over bytes with live records of an earlier
/// process. That process was killed, and the next one replayed the older records over the write.
#[test]
fn no_write_is_answered_that_older_records_would_be_laid_over() {
    let setup = setup(2);
    let (mut sim, _) = sim(&setup, 4, 1);
    let envs = envs(&sim, &setup);
    let restored = vec![(range(4096, 1024), Buf::copy_of(&[5; 1024]).freeze())];
    let run = async move {
        let (bench, _) = attach(envs, &setup, 1, 9, restored).await;
        let beside = common::begin(bench.volume(), 8192, 7);
        let over = common::begin(bench.volume(), 4096 + 512, 7);
        let trimmed = Rc::new(RefCell::new(None));
        let (volume, told) = (bench.volume().clone(), trimmed.clone());
        let whole = setup.geometry().stripe_bytes();
        bench.env.spawn("host", async move {
            *told.borrow_mut() = Some(volume.trim(range(0, whole.0)).await)
        });
        bench.tell(|done| ShardMessage::Drain(VOLUME, done)).await;
        bench.wait(Duration::from_secs(60)).await;
        assert_eq!(beside.get(), Some(true), "no record covers these bytes");
        assert!(over.get().is_none() && trimmed.borrow().is_none(), "a replay would undo it");
        bench.tell(|done| ShardMessage::SetDataLog(VOLUME, DataLogTerms::None, done)).await;
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!((over.get(), *trimmed.borrow()), (Some(true), Some(Ok(()))));
    };
    sim.run(run).expect("no stall");
}

type Told = Rc<RefCell<Option<Result<(), platform::IoError>>>>;

fn begin_durably(volume: &Rc<Volume>) -> Told {
    let (volume, told) = (volume.clone(), Told::default());
    let tell = told.clone();
    let env = volume.shard().env().clone();
    env.spawn("host", async move {
        let slice = Buf::copy_of(&[6; 512]).freeze();
        *tell.borrow_mut() = Some(volume.write(range(0, 512), slice, Durability::Durable).await);
    });
    told
}

/// Logged data is still in the cache: it is destaged, and the drives acknowledge flushes from then
/// on.
#[test]
fn when_its_last_device_fails_the_drives_answer() {
    run(2, 1, |bench, drives| async move {
        write(bench.volume(), 0, &[1; 512]).await.expect("written");
        bench.volume().flush().await.expect("flushed");
        bench.is_deaf.set(true);
        drives[4].fail_now();
        write(bench.volume(), 8192, &[2; 512]).await.expect("written");
        let volume = bench.volume().clone();
        let flushed = Told::default();
        let told = flushed.clone();
        bench.env.spawn("host", async move { *told.borrow_mut() = Some(volume.flush().await) });
        bench.wait(Duration::from_secs(1)).await;
        assert!(flushed.borrow().is_none(), "the failure of the device is not recorded");
        // The controller's actions, in this order.
        let lost = Uuid([9; 16]);
        let (done, _answers) = platform::mailbox::mailbox(&bench.env, 8);
        for sender in &bench.senders {
            assert!(
                sender
                    .send(ShardMessage::SetDataLog(VOLUME, DataLogTerms::None, done.clone()))
                    .is_ok()
            );
            assert!(
                sender.send(ShardMessage::LoseJournal(VOLUME, lost, None, done.clone())).is_ok()
            );
        }
        bench.is_deaf.set(false);
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(*flushed.borrow(), Some(Ok(())));
        assert_eq!(bench.volume().cache_counters().dirty, ByteCount::ZERO, "all is destaged");
        bench.volume().flush().await.expect("flushed by the drives");
    });
}

/// A log device failed, and its data is still dirty. It is in no record of the next log before it
/// is written there.
#[test]
fn what_a_lost_log_had_is_promised_by_the_next_one_only_when_that_has_it() {
    let setup = setup(1);
    let (mut sim, drives) = sim(&setup, 5, 1);
    let envs = envs(&sim, &setup);
    let next = Uuid([6; 16]);
    let run = async move {
        let (bench, devices) = attach(envs, &setup, 1, 9, Vec::new()).await;
        give(&bench, devices.clone(), ID).await;
        write(bench.volume(), 0, &[1; 512]).await.expect("written");
        bench.volume().flush().await.expect("flushed");
        drives[..4].iter().for_each(|member| member.stall_next(8, Duration::from_secs(2)));
        bench.tell(|done| ShardMessage::SetDataLog(VOLUME, DataLogTerms::None, done)).await;
        give(&bench, devices, next).await;
        assert!(
            bench.volume().cache_counters().dirty > ByteCount::ZERO,
            "the data is being destaged"
        );
        bench.volume().flush().await.expect("flushed");
        let has_it = found(&drives[4..], next).iter().any(|(range, _)| range.start.0 == 0);
        assert!(has_it || bench.volume().cache_counters().dirty.is_zero(), "the data is lost");
    };
    sim.run(run).expect("no stall");
}

/// The allowed contents of a sector: the last flushed content, or anything written since.
type Oracle = Vec<Vec<u8>>;

/// A sequence of writes, durable writes, trims and flushes, with pauses in which old data is
/// destaged.
async fn story(bench: Bench, rng: Rc<RefCell<Rng>>, oracle: Rc<RefCell<Oracle>>, steps: u64) {
    for number in 0..steps {
        let draw = |bound| rng.borrow_mut().below(bound);
        let sectors = oracle.borrow().len() as u64;
        let (at, len) = (draw(sectors), 1 + draw(if draw(4) == 0 { 48 } else { 6 }));
        let len = len.min(sectors - at);
        let volume = bench.volume();
        let byte = (number % 255) as u8 + 1;
        let covers = |oracle: &mut Oracle, only: bool| {
            for allowed in &mut oracle[at as usize..(at + len) as usize] {
                if only {
                    allowed.clear();
                }
                allowed.push(byte);
            }
        };
        match draw(10) {
            0..=5 => {
                covers(&mut oracle.borrow_mut(), false);
                write(volume, at * SECTOR, &vec![byte; (len * SECTOR) as usize])
                    .await
                    .expect("written");
            }
            6 | 7 => {
                covers(&mut oracle.borrow_mut(), false);
                write_durably(volume, at * SECTOR, &vec![byte; (len * SECTOR) as usize]).await;
                covers(&mut oracle.borrow_mut(), true);
            }
            8 => {
                volume.flush().await.expect("flushed");
                for allowed in &mut *oracle.borrow_mut() {
                    let last = *allowed.last().expect("one at least");
                    *allowed = vec![last];
                }
            }
            _ => bench.wait(Duration::from_millis(draw(4000))).await,
        }
        assert_eq!(volume.check_invariants(), Ok(()));
    }
}

fn id_of(life: u8) -> Uuid {
    Uuid([100 + life; 16])
}

/// Runs that end by a power cut: each reads every sector and writes more. Records of the run before
/// are found, destaged and invalidated as the controller does it.
fn lives(seed: u64) {
    let setup = setup(1 + (seed % 2) as u16);
    let log = 1 + (seed / 2 % 2) as u16;
    let (mut sim, drives) = sim(&setup, seed, log);
    let rng = Rc::new(RefCell::new(Rng::new(seed, "data log", "")));
    let sectors = setup.geometry().capacity().0 / SECTOR / 64;
    let oracle = Rc::new(RefCell::new(vec![vec![0]; sectors as usize]));
    for life in 0..4_u8 {
        let (envs, again, of_life) = (envs(&sim, &setup), setup.clone(), oracle.clone());
        let restored = if life == 0 { Vec::new() } else { found(&drives[4..], id_of(life - 1)) };
        let rng = rng.clone();
        let run = async move {
            // The controller replays a journal of the run before; here no stripe in it has lost a
            // drive.
            let (bench, devices) = attach(envs, &again, log, 20 + life, restored).await;
            for sector in 0..sectors as usize {
                let got =
                    read(bench.volume(), sector as u64 * SECTOR, SECTOR).await.expect("readable");
                let allowed = of_life.borrow()[sector].clone();
                let is_one = allowed.contains(&got[0]) && got.iter().all(|byte| *byte == got[0]);
                assert!(
                    is_one,
                    "seed {seed}, life {life}: sector {sector} is {}, not {allowed:?}",
                    got[0]
                );
            }
            bench.tell(|done| ShardMessage::Drain(VOLUME, done)).await;
            bench.tell(|done| ShardMessage::SetDataLog(VOLUME, DataLogTerms::None, done)).await;
            bench
                .tell(|done| ShardMessage::SetAbsorb(VOLUME, Absorb::Unflushed, VOLUME.0, done))
                .await;
            give(&bench, devices, id_of(life)).await;
            for sector in 0..sectors as usize {
                let got =
                    read(bench.volume(), sector as u64 * SECTOR, SECTOR).await.expect("readable");
                of_life.borrow_mut()[sector] = vec![got[0]];
            }
            bench.volume().flush().await.expect("flushed");
            let steps = 20 + rng.borrow_mut().below(120);
            story(bench, rng, of_life, steps).await;
        };
        sim.run(run).expect("no stall");
        sim.power_cut();
        sim.restart_process();
    }
}

#[test]
fn what_was_promised_survives_a_power_cut_whatever_was_destaged_since() {
    let seeds: u64 =
        std::env::var("DATA_LOG_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(40);
    (0..seeds).for_each(lives);
}
