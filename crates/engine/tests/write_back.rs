//! The write-back cache: reads return the written data, it is destaged when necessary, and no error
//! loses it.

use crate::common::{self, Bench, Setup, VOLUME, envs, range, read, write};
use engine::{Absorb, Attachment, CacheTerms, ShardMessage, Volume, VolumeId, VolumeSpec};
use layout::Level;
use platform::{BlockStatus, Durability, IoErrorKind};
use platform_sim::{Rng, SimDrive};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

const ROOM: ByteCount = ByteCount(64 << 10);
const SECTOR: u64 = 512;

fn strip(setup: &Setup) -> u64 {
    setup.geometry().strip().bytes().0
}

async fn start(envs: Vec<platform::Env>, setup: &Setup, room: ByteCount) -> Bench {
    let attachment = setup.attachment(&envs[0]).await;
    let cache = CacheTerms { absorb: Absorb::Unflushed, ..CacheTerms::none(VOLUME) };
    Bench::attach_with_cache(envs, Attachment { cache, ..attachment }, room).await
}

/// Runs a closure on a write-back volume.
fn run<T: 'static, F: Future<Output = T> + 'static>(
    setup: &Setup,
    seed: u64,
    work: impl FnOnce(Bench, Vec<SimDrive>) -> F + 'static,
) -> T {
    let mut sim = setup.sim(seed, 0);
    let drives: Vec<SimDrive> = (0..setup.drives).map(|drive| common::drive(&sim, drive)).collect();
    let (envs, setup) = (envs(&sim, setup), setup.clone());
    sim.run(async move { work(start(envs, &setup, ROOM).await, drives).await }).expect("no stall")
}

/// Runs a closure as a task of a shard.
async fn on<T: Send + 'static>(
    bench: &Bench,
    shard: usize,
    work: impl Future<Output = T> + 'static,
) -> T {
    let (done, mut result) = platform::mailbox::mailbox(&bench.env, 1);
    bench.shards[shard].env().spawn("host", async move { assert!(done.send(work.await).is_ok()) });
    result.receive().await.expect("it ends")
}

fn dirty(bench: &Bench) -> u64 {
    bench.volumes.iter().map(|volume| volume.cache_counters().dirty.0).sum()
}

fn ios(drives: &[SimDrive]) -> (u64, u64) {
    let stats = drives.iter().map(SimDrive::stats);
    stats.fold((0, 0), |(reads, writes), stats| (reads + stats.reads, writes + stats.writes))
}

fn bytes_of(number: u64, len: u64) -> Vec<u8> {
    (0..len).map(|i| ((i / SECTOR) ^ number.wrapping_mul(37) ^ (number >> 5) | 1) as u8).collect()
}

/// A host that writes sequentially with one outstanding I/O cost 2 reads and 2 writes per strip of
/// RAID 5 before.
#[test]
fn a_stream_with_one_outstanding_write_is_written_in_whole_stripes() {
    for (level, drives, parity) in
        [(Level::Raid5, 5, 1), (Level::Raid6, 6, 2), (Level::Raid60, 12, 2)]
    {
        let setup = Setup { member: ByteCount::MIB, ..Setup::new(level, drives) };
        let (strip, strips) = (strip(&setup), setup.geometry().capacity().0 / strip(&setup));
        let (reads, writes) = run(&setup, 1, move |bench, drives| async move {
            write(bench.volume(), 0, &bytes_of(0, strip)).await.expect("written");
            bench.volume().flush().await.expect("flushed");
            let before = ios(&drives);
            for number in 0..strips {
                write(bench.volume(), number * strip, &bytes_of(number, strip))
                    .await
                    .expect("written");
                assert_eq!(bench.volume().check_invariants(), Ok(()));
            }
            bench.volume().flush().await.expect("flushed");
            let after = ios(&drives);
            drives.iter().take(parity).for_each(SimDrive::fail_now);
            for number in 0..strips {
                let got = read(bench.volume(), number * strip, strip).await.expect("readable");
                assert!(got == bytes_of(number, strip), "{level} strip {number}");
            }
            (after.0 - before.0, after.1 - before.1)
        });
        assert_eq!(reads, 0, "{level}");
        assert_eq!(
            writes,
            strips + strips / 4 * parity as u64,
            "{level}: each strip is written once"
        );
    }
}

#[test]
fn a_write_is_answered_before_any_drive_is_asked() {
    let setup = Setup::new(Level::Raid5, 4);
    run(&setup, 2, |bench, drives| async move {
        let (before, then) = (ios(&drives), bench.env.now());
        write(bench.volume(), 3 * SECTOR, &bytes_of(1, SECTOR)).await.expect("written");
        assert_eq!((ios(&drives), bench.env.now()), (before, then));
        assert!(
            read(bench.volume(), 3 * SECTOR, SECTOR).await.expect("readable")
                == bytes_of(1, SECTOR)
        );
        assert_eq!(bench.volume().cache_counters().hits, 1);
        // An FUA write is durable when it is acknowledged, and destages the dirty data below it.
        let bytes = platform::Buf::copy_of(&bytes_of(2, 2 * SECTOR)).freeze();
        bench
            .volume()
            .write(range(3 * SECTOR, 2 * SECTOR), bytes, Durability::Durable)
            .await
            .expect("written");
        assert_eq!(dirty(&bench), 0);
    });
}

/// Dirty data of one shard, read by a host of another shard.
#[test]
fn a_host_of_any_shard_reads_what_is_dirty_and_flushes_it() {
    for level in [Level::Raid0, Level::Raid1, Level::Raid5] {
        let setup = Setup { shards: 3, member: ByteCount::MIB, ..Setup::new(level, 4) };
        let capacity = setup.geometry().capacity().0;
        run(&setup, 3, move |bench, drives| async move {
            let places: Vec<u64> = (0..12).map(|i| i * (capacity / 12) / 4096 * 4096).collect();
            for (number, at) in (1..).zip(&places) {
                write(&bench.volumes[0], *at, &bytes_of(number, 4096)).await.expect("written");
            }
            assert!(dirty(&bench) > 0);
            for (number, at) in (1..).zip(&places) {
                for shard in 0..3 {
                    let (volume, at) = (bench.volumes[shard].clone(), *at);
                    let got = on(&bench, shard, async move { read(&volume, at, 4096).await }).await;
                    let got = got.expect("readable");
                    assert!(got == bytes_of(number, 4096), "{level} at {at}");
                }
            }
            let volume = bench.volumes[1].clone();
            on(&bench, 1, async move { volume.flush().await }).await.expect("flushed");
            assert_eq!(dirty(&bench), 0, "{level}");
            for (number, at) in (1..).zip(&places) {
                let has = |drive: &SimDrive| {
                    let all = drive.read_durable(ByteOffset::ZERO, ByteCount::MIB);
                    all.windows(4096).step_by(512).any(|bytes| bytes == bytes_of(number, 4096))
                };
                assert!(drives.iter().any(has), "{level}: flushed data at {at} is durable");
            }
        });
    }
}

/// No host flushes, and writes continue: old dirty data is destaged.
#[test]
fn what_is_dirty_does_not_stay_so_for_ever() {
    let setup = Setup::new(Level::Raid5, 4);
    run(&setup, 4, |bench, _| async move {
        write(bench.volume(), 0, &bytes_of(1, SECTOR)).await.expect("written");
        for number in 0..70 {
            assert!(number > 40 || dirty(&bench) > 0, "no host asked for it yet");
            write(bench.volume(), 9 * SECTOR, &bytes_of(number, SECTOR)).await.expect("written");
            bench.wait(Duration::from_millis(100)).await;
        }
        assert!(dirty(&bench) <= SECTOR, "the first block is destaged: it is older than 5 s");
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(dirty(&bench), 0, "the drives are idle");
    });
}

/// The destage of all full lines began at once: a burst of a gigabyte went to the drives as a
/// whole, and reads waited behind it for more than a second (`predict --controller LSI2208-1G
/// --drives 8xSAS-6G-SSD --level raid10 --profile file-copy`).
#[test]
fn a_burst_of_whole_stripes_waits_in_the_cache_and_not_at_the_drives() {
    for (level, drives, copies) in
        [(Level::Raid0, 4, 1), (Level::Raid10, 4, 2), (Level::Raid5, 5, 1)]
    {
        let setup = Setup { member: ByteCount::MIB, ..Setup::new(level, drives) };
        let stripe = setup.geometry().stripe_bytes().0;
        let mut sim = setup.sim(9, 0);
        let drives: Vec<SimDrive> =
            (0..setup.drives).map(|drive| common::drive(&sim, drive)).collect();
        let envs = envs(&sim, &setup);
        let most = sim.run(async move {
            let bench = start(envs, &setup, ByteCount(4 << 20)).await;
            // Regions are marked before the drives are held up.
            write(bench.volume(), 0, &bytes_of(0, SECTOR)).await.expect("written");
            bench.volume().flush().await.expect("flushed");
            drives.iter().for_each(SimDrive::hold);
            for number in 0..128 {
                write(bench.volume(), number * stripe, &bytes_of(number, stripe))
                    .await
                    .expect("acknowledged from the cache");
            }
            bench.wait(Duration::from_millis(1)).await;
            let most = drives.iter().map(SimDrive::in_flight).max();
            assert_eq!(bench.volume().check_invariants(), Ok(()));
            drives.iter().for_each(SimDrive::release);
            bench.volume().flush().await.expect("flushed");
            assert_eq!(dirty(&bench), 0, "the waiting writes are done");
            most
        });
        let most = most.expect("no stall").expect("there are drives");
        // Eight strips of each drive, and the line that began with the last of them.
        assert!((8..=9 * copies + 1).contains(&most), "{level}: {most} writes wait at a drive");
    }
}

/// A cache of 64 KiB takes a megabyte: new writes wait for the destage.
#[test]
fn no_more_is_dirty_than_there_is_room() {
    let setup = Setup { member: ByteCount::MIB, ..Setup::new(Level::Raid6, 5) };
    run(&setup, 5, |bench, _| async move {
        let volume = bench.volume().clone();
        let (done, count) = (Rc::new(Cell::new(0)), 16);
        for worker in 0..count {
            let (volume, done) = (volume.clone(), done.clone());
            bench.env.spawn("worker", async move {
                let mut rng = Rng::new(5, "worker", &worker.to_string());
                for round in 0..64 {
                    let at = rng.below(500) * 4096;
                    write(&volume, at, &bytes_of(round, 4096)).await.expect("written");
                    assert!(volume.cache_counters().dirty <= ROOM);
                }
                done.set(done.get() + 1);
            });
        }
        while done.get() < count {
            bench.wait(Duration::from_millis(10)).await;
        }
        assert_eq!(bench.volume().check_invariants(), Ok(()));
        assert_eq!(bench.volume().cache_counters().absorbed, 1024);
    });
}

/// Hosts with adjacent sectors of their own, and with parts of sectors; drives fail meanwhile.
struct Hosts {
    volume: Rc<Volume>,
    model: Rc<RefCell<Vec<u8>>>,
    seed: u64,
}

const WORKERS: u64 = 12;
const RUN: u64 = 1500;
const ROUNDS: u64 = 60;
const SIZE: u64 = 4 * WORKERS * RUN;

impl Hosts {
    async fn work(&self, worker: u64, on_round: impl Fn()) {
        let mut rng = Rng::new(self.seed, "worker", &worker.to_string());
        for round in 0..ROUNDS {
            let volume = &self.volume;
            // Runs of bytes rotate among the workers: they share sectors with each other.
            let run = rng.below(4) * WORKERS + worker;
            let (skip, is_aligned) = (rng.below(RUN - 1), rng.below(3) > 0);
            let (mut at, mut len) = (run * RUN + skip, 1 + rng.below(RUN - skip));
            if is_aligned {
                let start = at.next_multiple_of(SECTOR);
                (at, len) = (start, (at + len).saturating_sub(start) / SECTOR * SECTOR);
            }
            if len == 0 {
                continue;
            }
            let bytes = if rng.below(6) == 0 {
                vec![0; len as usize]
            } else {
                bytes_of(worker ^ (round << 8), len)
            };
            let durability =
                if rng.below(8) == 0 { Durability::Durable } else { Durability::Cached };
            let data = match bytes.iter().all(|byte| *byte == 0) {
                true => platform::Slice::zero(ByteCount(len)),
                false => platform::Buf::copy_of(&bytes).freeze(),
            };
            volume.write(range(at, len), data, durability).await.expect("written");
            self.model.borrow_mut()[at as usize..][..len as usize].copy_from_slice(&bytes);
            match rng.below(10) {
                0 => volume.flush().await.expect("flushed"),
                1..4 => {
                    let got = read(volume, at, len).await.expect("readable");
                    assert!(
                        got == bytes,
                        "worker {worker} round {round} at {at}+{len}, seed {}",
                        self.seed
                    );
                }
                _ => {}
            }
            assert_eq!(volume.check_invariants(), Ok(()));
            on_round();
        }
    }
}

fn write_beside_each_other(setup: &Setup, seed: u64) {
    let fails = setup.geometry().survives_set(&common::slots(&[1]));
    let level = setup.level;
    run(setup, seed, move |bench, drives| async move {
        let model = Rc::new(RefCell::new(vec![0; SIZE as usize]));
        // Not written yet: any content is accepted.
        let bytes = read(bench.volume(), 0, SIZE).await.expect("readable");
        model.borrow_mut().copy_from_slice(&bytes);
        let (rounds, done) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        for worker in 0..WORKERS {
            let shard = worker as usize % bench.shards.len();
            let hosts = Hosts { volume: bench.volumes[shard].clone(), model: model.clone(), seed };
            let (rounds, done, victim) = (rounds.clone(), done.clone(), drives[1].clone());
            bench.shards[shard].env().spawn("worker", async move {
                let on_round = || {
                    rounds.set(rounds.get() + 1);
                    if fails && rounds.get() == WORKERS * ROUNDS / 2 {
                        victim.fail_now();
                    }
                };
                hosts.work(worker, on_round).await;
                done.set(done.get() + 1);
            });
        }
        while done.get() < WORKERS {
            bench.wait(Duration::from_millis(1)).await;
        }
        let got = read(bench.volume(), 0, SIZE).await.expect("readable");
        assert!(got == *model.borrow(), "{level} seed {seed}, from the cache");
        bench.volume().flush().await.expect("flushed");
        let got = read(bench.volume(), 0, SIZE).await.expect("readable");
        assert!(got == *model.borrow(), "{level} seed {seed}, from the drives");
        assert_eq!(dirty(&bench), 0);
    });
}

#[test]
fn what_is_read_is_what_was_written() {
    for (level, drives) in [
        (Level::Raid0, 3),
        (Level::Raid1, 2),
        (Level::Raid10, 4),
        (Level::Raid5, 4),
        (Level::Raid5ee, 5),
        (Level::Raid6, 6),
        (Level::Raid60, 8),
    ] {
        for seed in 0..6 {
            let shards = if seed % 2 == 0 { 1 } else { 3 };
            let setup = Setup { shards, member: ByteCount(512 << 10), ..Setup::new(level, drives) };
            write_beside_each_other(&setup, seed);
        }
    }
}

/// The file system below a drive is full for a moment, and the level has no redundancy.
/// Acknowledged data stays in the cache; hosts get an error from the next flush, and writes wait
/// until the drive works again.
#[test]
fn what_cannot_be_written_is_pinned_and_told() {
    let setup = Setup::new(Level::Raid0, 2);
    run(&setup, 7, |bench, drives| async move {
        write(bench.volume(), 0, &bytes_of(1, SECTOR)).await.expect("written");
        drives[0].fail_next(3, Some("write"), IoErrorKind::OutOfSpace);
        let error = bench.volume().flush().await.expect_err("it is not on the drives");
        assert_eq!(error.kind, IoErrorKind::OutOfSpace);
        let counters = bench.volume().cache_counters();
        assert_eq!((counters.pinned, counters.dirty), (ByteCount(SECTOR), ByteCount(SECTOR)));
        assert!(read(bench.volume(), 0, SECTOR).await.expect("readable") == bytes_of(1, SECTOR));
        assert_eq!(bench.volume().check_invariants(), Ok(()));
        let strip = bench.volume().spec().geometry.strip().bytes().0;
        write(bench.volume(), strip, &bytes_of(2, SECTOR))
            .await
            .expect("the other drive takes its part");
        assert_eq!(bench.volume().cache_counters().absorbed, 1, "the host's write waited");
        bench.wait(Duration::from_secs(2)).await;
        assert_eq!(
            bench.volume().cache_counters().pinned,
            ByteCount::ZERO,
            "the destage is retried automatically"
        );
        bench.volume().flush().await.expect("all data is on the drives");
    });
}

/// The drives of one volume hang, and its hosts ask for more cache, memory and tasks than there
/// are. The other volume's requests had to wait.
#[test]
fn a_volume_does_not_wait_for_the_drives_of_another() {
    const OTHER: VolumeId = VolumeId(2);
    let setup = Setup::new(Level::Raid5, 3);
    let mut sim = setup.sim(11, 4);
    let (envs, hung) = (envs(&sim, &setup), [4, 5, 6].map(|drive| common::drive(&sim, drive)));
    sim.run(async move {
        let mut other = setup.attachment(&envs[0]).await;
        for (nth, source) in other.sources.iter_mut().enumerate() {
            *source = Some(common::open(&envs[0], 4 + nth as u16).await);
        }
        other.spec = VolumeSpec { id: OTHER, name: "other".into(), ..(*other.spec).clone() }.into();
        other.cache = CacheTerms { absorb: Absorb::Unflushed, ..CacheTerms::none(OTHER) };
        let bench = start(envs, &setup, ROOM).await;
        bench.tell(|done| ShardMessage::Attach(Box::new(other.clone()), done)).await;
        let other = bench.shards[0].volume(OTHER).expect("attached");
        hung.iter().for_each(SimDrive::hold);
        let ask = |number: u64| {
            let (hung, env) = (other.clone(), bench.env.clone());
            let at = number * 4096 % (hung.spec().capacity.0 / 2);
            // Some are parts of sectors, some are acknowledged from the cache, and some go to the
            // drives at once.
            env.spawn("host", async move {
                match number % 4 {
                    0 => write(&hung, at + 100, &bytes_of(number, 1000)).await,
                    1 => read(&hung, at + 100, 1000).await.map(drop),
                    2 => hung.trim(ByteRange::new(ByteOffset(at), ByteCount(4096))).await,
                    _ => write(&hung, at, &bytes_of(number, 4096)).await,
                }
            })
        };
        let hosts: Vec<_> = (0..4 * ROOM.0 / 4096).map(ask).collect();
        bench.wait(Duration::from_millis(100)).await;
        assert!(hosts.iter().any(|host| !host.is_finished()), "there is not space for all");
        let then = bench.env.now();
        let volume = bench.volume();
        for number in 0..2 * ROOM.0 / 4096 {
            let at = number * 4096 % (volume.spec().capacity.0 / 2);
            write(volume, at, &bytes_of(number, 4096))
                .await
                .expect("the other volume's drives respond");
            write(volume, at + 8292, &bytes_of(number, 1000))
                .await
                .expect("the other volume's drives respond");
            read(volume, at + 100, 1000).await.expect("the other volume's drives respond");
        }
        volume.flush().await.expect("the other volume's drives respond");
        let took = bench.env.now().since(then);
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert!(volume.cache_counters().absorbed > 0, "the volume has a share of the cache");
        hung.iter().for_each(SimDrive::release);
        for host in hosts {
            host.await.expect("the first volume's drives respond again");
        }
        other.flush().await.expect("all data is on the drives");
    })
    .expect("no stall");
}

/// Hosts of one volume hold all available payload memory, and ask for more. A host of the other
/// volume had to wait behind them.
#[test]
fn a_volume_has_memory_for_payloads_that_no_other_takes() {
    const OTHER: VolumeId = VolumeId(2);
    let setup = Setup::new(Level::Raid0, 2);
    let mut sim = setup.sim(12, 2);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let mut other = setup.attachment(&envs[0]).await;
        other.sources =
            vec![Some(common::open(&envs[0], 2).await), Some(common::open(&envs[0], 3).await)];
        other.spec = VolumeSpec { id: OTHER, name: "other".into(), ..(*other.spec).clone() }.into();
        let bench = start(envs, &setup, ROOM).await;
        bench.tell(|done| ShardMessage::Attach(Box::new(other.clone()), done)).await;
        let other = bench.shards[0].volume(OTHER).expect("attached");
        let held = Rc::new(RefCell::new(Vec::new()));
        let ask = |_| {
            let (other, held) = (other.clone(), held.clone());
            bench.env.spawn("host", async move {
                let taken = other.shard().reserve_payload(ByteCount::MIB).await;
                held.borrow_mut().push(taken);
            })
        };
        let hosts: Vec<_> = (0..4096).map(ask).collect();
        bench.wait(Duration::from_millis(1)).await;
        assert!(hosts.iter().any(|host| !host.is_finished()), "there is not enough for all");
        drop(bench.volume().shard().reserve_payload(ByteCount::MIB).await);
        while hosts.iter().any(|host| !host.is_finished()) {
            held.take();
            bench.wait(Duration::from_millis(1)).await;
        }
        held.take();
    })
    .expect("no stall");
}

/// A write had its cache block, and waited for the rest of the sector from the drives. The volume
/// became write-through, and the write was then acknowledged from the cache: its dirty block was
/// not looked up any more, and reads returned the old data.
#[test]
fn a_write_that_began_before_is_not_absorbed_by_a_volume_that_is_write_through() {
    let setup = Setup::new(Level::Raid1, 2);
    run(&setup, 12, |bench, drives| async move {
        let bytes = bytes_of(9, 2000);
        drives.iter().for_each(SimDrive::hold);
        let (volume, written) = (bench.volume().clone(), bytes.clone());
        let host = bench.env.spawn("host", async move { write(&volume, 100, &written).await });
        bench.wait(Duration::from_millis(1)).await;
        for absorb in [Absorb::NoMore, Absorb::Nothing] {
            bench.tell(|done| ShardMessage::SetAbsorb(VOLUME, absorb, VOLUME.0, done)).await;
        }
        drives.iter().for_each(SimDrive::release);
        host.await.expect("written");
        assert_eq!(dirty(&bench), 0, "acknowledged when the drives have it");
        assert!(read(bench.volume(), SECTOR, SECTOR).await.expect("readable") == bytes[412..924]);
    });
}

/// A trim of a full stripe must not be followed by a destage of older data.
#[test]
fn a_trim_is_not_undone_by_what_was_dirty() {
    for level in [Level::Raid0, Level::Raid5] {
        let setup = Setup::new(level, 4);
        let stripe = setup.geometry().stripe_bytes().0;
        run(&setup, 8, move |bench, _| async move {
            write(bench.volume(), 0, &bytes_of(1, SECTOR)).await.expect("written");
            bench.volume().trim(range(0, stripe)).await.expect("given up");
            write(bench.volume(), SECTOR, &bytes_of(2, SECTOR)).await.expect("written");
            bench.volume().flush().await.expect("flushed");
            let got = read(bench.volume(), 0, 2 * SECTOR).await.expect("readable");
            assert!(got[..512].iter().all(|byte| *byte == 0), "{level}");
            assert!(got[512..] == bytes_of(2, SECTOR), "{level}");
        });
    }
}

/// A client that copies an image asks for block status, and skips holes.
#[test]
fn what_is_dirty_counts_as_data() {
    let setup = Setup { shards: 2, ..Setup::new(Level::Raid0, 4) };
    run(&setup, 9, |bench, _| async move {
        let strip = strip_of(&bench);
        bench.volume().trim(range(0, 4 * strip)).await.expect("given up");
        let extents = bench.volume().status(range(0, 4 * strip)).await.expect("known");
        assert!(
            extents.iter().all(|extent| extent.status != BlockStatus::Data),
            "all is unallocated"
        );
        for number in 0..4 {
            write(&bench.volumes[0], number * strip, &bytes_of(number, SECTOR))
                .await
                .expect("written");
        }
        for number in 0..4 {
            let volume = bench.volumes[1].clone();
            let extents =
                on(&bench, 1, async move { volume.status(range(number * strip, SECTOR)).await })
                    .await;
            let extents = extents.expect("known");
            assert!(
                extents.iter().all(|extent| extent.status == BlockStatus::Data),
                "strip {number}"
            );
        }
    });
}

fn strip_of(bench: &Bench) -> u64 {
    bench.volume().spec().geometry.strip().bytes().0
}

/// A detach destages all dirty data of the volume.
#[test]
fn a_volume_that_is_detached_has_all_on_its_drives() {
    let setup = Setup::new(Level::Raid10, 4);
    run(&setup, 10, |bench, drives| async move {
        write(bench.volume(), 0, &bytes_of(5, 4096)).await.expect("written");
        assert!(dirty(&bench) > 0);
        bench.tell(|done| ShardMessage::Detach(VOLUME, Vec::new(), done)).await;
        let has = |drive: &SimDrive| {
            drive.read_true(ByteOffset::ZERO, ByteCount(4096)) == bytes_of(5, 4096)
        };
        assert_eq!(
            drives.iter().filter(|drive| has(drive)).count(),
            2,
            "on both halves of its mirror"
        );
    });
}
