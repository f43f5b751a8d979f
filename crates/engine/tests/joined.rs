//! Writes that wait for the same stripe go to its drives together: fewer I/Os, the same bytes, and
//! an error of one does not affect the others.

use crate::common::{self, Bench, Setup, envs, read};
use engine::Volume;
use layout::Level;
use platform::Durability;
use platform_sim::{Rng, SimDrive};
use std::cell::RefCell;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

/// Runs `work` on the given number of items, `outstanding` at a time, each as a task.
async fn side_by_side<F: Future<Output = ()> + 'static>(
    env: &platform::Env,
    count: u64,
    outstanding: u64,
    work: impl Fn(u64) -> F + 'static,
) {
    let (work, next) = (Rc::new(work), Rc::new(std::cell::Cell::new(0)));
    let (done, mut all_done) = platform::mailbox::mailbox(env, outstanding as usize);
    for _ in 0..outstanding {
        let (work, next, done) = (work.clone(), next.clone(), done.clone());
        env.spawn("worker", async move {
            while next.get() < count {
                let number = next.replace(next.get() + 1);
                work(number).await;
            }
            assert!(done.send(()).is_ok());
        });
    }
    for _ in 0..outstanding {
        all_done.receive().await.expect("every worker ends");
    }
}

fn bytes_of(number: u64, len: u64) -> Vec<u8> {
    (0..len).map(|i| ((i / 512) ^ number.wrapping_mul(37) ^ (number >> 5)) as u8).collect()
}

async fn put(volume: &Rc<Volume>, at: u64, bytes: &[u8]) {
    let range = ByteRange::new(ByteOffset(at), ByteCount::of(bytes));
    let data = platform::Buf::copy_of(bytes).freeze();
    volume.write(range, data, Durability::Cached).await.expect("written");
}

fn all_drives(sim: &platform_sim::Sim, setup: &Setup) -> Vec<SimDrive> {
    (0..setup.drives).map(|drive| common::drive(sim, drive)).collect()
}

fn ios(drives: &[SimDrive]) -> (u64, u64) {
    let stats = drives.iter().map(SimDrive::stats);
    stats.fold((0, 0), |(reads, writes), stats| (reads + stats.reads, writes + stats.writes))
}

/// Writes the volume sequentially, strip by strip; returns the drive reads and writes of each
/// strip.
fn stream(setup: &Setup, outstanding: u64) -> (f64, f64) {
    let mut sim = setup.sim(7, 0);
    let (envs, drives) = (envs(&sim, setup), all_drives(&sim, setup));
    let geometry = setup.geometry();
    let (strip, strips) =
        (geometry.strip().bytes().0, geometry.capacity().0 / geometry.strip().bytes().0);
    let setup = setup.clone();
    let counted = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        // The first write to a region marks it; that cost does not count here.
        put(bench.volume(), 0, &bytes_of(0, strip)).await;
        let before = ios(&drives);
        let volume = bench.volume().clone();
        side_by_side(&bench.env, strips, outstanding, move |number| {
            let volume = volume.clone();
            async move { put(&volume, number * strip, &bytes_of(number, strip)).await }
        })
        .await;
        let after = ios(&drives);
        let parity = setup.geometry().parity_strips();
        drives.iter().take(parity.into()).for_each(SimDrive::fail_now);
        for number in 0..strips {
            let got = read(bench.volume(), number * strip, strip).await.expect("readable");
            assert!(got == bytes_of(number, strip), "{} strip {number}", setup.level);
        }
        assert_eq!(bench.volume().check_invariants(), Ok(()));
        (after.0 - before.0, after.1 - before.1)
    });
    let (reads, writes) = counted.expect("no stall");
    (reads as f64 / strips as f64, writes as f64 / strips as f64)
}

/// A host that writes sequentially strip by strip, with 32 I/Os outstanding, cost one RMW per
/// strip: 3 reads and 3 writes with RAID 6. Now almost every stripe is a full-stripe write, without
/// a read.
#[test]
fn a_deep_stream_is_written_in_whole_stripes() {
    for (level, drives, parity) in
        [(Level::Raid5, 5, 1.0), (Level::Raid6, 6, 2.0), (Level::Raid50, 10, 1.0)]
    {
        let setup = Setup { member: ByteCount::MIB, ..Setup::new(level, drives) };
        let (reads, writes) = stream(&setup, 32);
        let data = 4.0;
        let ideal = (data + parity) / data;
        assert!(reads < 0.1, "{level}: {reads} reads per strip");
        assert!(writes < ideal + 0.1, "{level}: {writes} writes for each strip, of {ideal}");
    }
}

/// With one I/O outstanding no writes join and no write waits: each strip costs what its plan says.
#[test]
fn a_stream_with_one_outstanding_write_waits_for_nobody() {
    let setup = Setup { member: ByteCount::MIB, ..Setup::new(Level::Raid5, 6) };
    assert_eq!(stream(&setup, 1), (2.0, 2.0));
}

/// Many hosts write the same few stripes, in sectors next to each other, while drives fail.
#[test]
fn what_is_joined_is_what_was_written() {
    for (level, drives) in [
        (Level::Raid1, 2),
        (Level::Raid10, 4),
        (Level::Raid5, 4),
        (Level::Raid5ee, 5),
        (Level::Raid6, 6),
        (Level::Raid60, 8),
    ] {
        let joined: u64 =
            (0..6).map(|seed| write_beside_each_other(&Setup::new(level, drives), seed)).sum();
        // A mirror of two drives has one strip per stripe: no two of these writes share a column.
        assert!(joined > 0 || level == Level::Raid1, "{level}: no writes were joined");
    }
}

/// The number of writes that went to the drives together with others.
fn write_beside_each_other(setup: &Setup, seed: u64) -> u64 {
    const SECTOR: u64 = 512;
    const WORKERS: u64 = 16;
    const RUN: u64 = 15;
    const ROUNDS: u64 = 60;
    let mut sim = setup.sim(seed, 0);
    let (envs, drives) = (envs(&sim, setup), all_drives(&sim, setup));
    let of_bench = setup.clone();
    let joined = sim.run(async move {
        let setup = of_bench;
        let bench = Bench::start(envs, &setup).await;
        let sectors = 2 * WORKERS * RUN;
        let model = Rc::new(RefCell::new(vec![0u8; (sectors * SECTOR) as usize]));
        let (volume, of_model) = (bench.volume().clone(), model.clone());
        let (victim, count) = (drives[0].clone(), Rc::new(std::cell::Cell::new(0)));
        side_by_side(&bench.env, WORKERS, WORKERS, move |worker| {
            let (volume, model) = (volume.clone(), of_model.clone());
            let (victim, count) = (victim.clone(), count.clone());
            let mut rng = Rng::new(seed, "worker", &worker.to_string());
            async move {
                for round in 0..ROUNDS {
                    // Runs of sectors rotate among the workers: each touches sectors next to those
                    // of others.
                    let run = rng.below(2) * WORKERS + worker;
                    let skip = rng.below(RUN);
                    let (at, len) =
                        ((run * RUN + skip) * SECTOR, (1 + rng.below(RUN - skip)) * SECTOR);
                    let bytes = if rng.below(8) == 0 {
                        vec![0; len as usize]
                    } else {
                        bytes_of(worker ^ (round << 8), len)
                    };
                    put_or_zero(&volume, at, &bytes).await;
                    model.borrow_mut()[at as usize..][..bytes.len()].copy_from_slice(&bytes);
                    assert_eq!(volume.check_invariants(), Ok(()));
                    count.set(count.get() + 1);
                    if count.get() == WORKERS * ROUNDS / 2 {
                        victim.fail_now();
                    }
                }
            }
        })
        .await;
        let got = read(bench.volume(), 0, sectors * SECTOR).await.expect("readable");
        assert!(got == *model.borrow(), "{} seed {seed}", setup.level);
        bench.volume().counters().joined_writes
    });
    joined.expect("no stall")
}

async fn put_or_zero(volume: &Rc<Volume>, at: u64, bytes: &[u8]) {
    if bytes.iter().all(|byte| *byte == 0) {
        let range = ByteRange::new(ByteOffset(at), ByteCount::of(bytes));
        volume.write_zeroes(range, Durability::Cached).await.expect("the stripe can be written");
    } else {
        put(volume, at, bytes).await;
    }
}

/// The file system below a drive has no space temporarily. Writes that went together are retried
/// one by one: a write to another drive must not get the error, nor a write after space is
/// available again.
#[test]
fn an_error_is_only_of_those_whom_it_concerns() {
    for times in [1, 2] {
        let setup = Setup::new(Level::Raid6, 6);
        let mut sim = setup.sim(3, 0);
        let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup));
        let of_bench = setup.clone();
        let outcome = sim.run(async move {
            let setup = of_bench;
            let bench = Bench::start(envs, &setup).await;
            let strip = setup.geometry().strip().bytes().0;
            put(bench.volume(), 0, &bytes_of(9, strip)).await;
            let (drive, _) = common::data(&setup, 0, 1);
            drives[usize::from(drive)].fail_next(
                times,
                Some("write"),
                platform::IoErrorKind::OutOfSpace,
            );
            let (volume, results) = (bench.volume().clone(), Rc::new(RefCell::new(Vec::new())));
            let noted = results.clone();
            side_by_side(&bench.env, 3, 3, move |number| {
                let (volume, noted) = (volume.clone(), noted.clone());
                async move {
                    let range = ByteRange::new(ByteOffset(number * strip), ByteCount(strip));
                    let data = platform::Buf::copy_of(&bytes_of(number, strip)).freeze();
                    let result = volume.write(range, data, Durability::Cached).await;
                    noted.borrow_mut().push((number, result.is_ok()));
                }
            })
            .await;
            let (mut results, mut right) = (results.take(), Vec::new());
            results.sort_unstable();
            for (number, _) in results.iter().filter(|(_, is_done)| *is_done) {
                let got = read(bench.volume(), number * strip, strip).await.expect("readable");
                right.push(got == bytes_of(*number, strip));
            }
            assert!(right.iter().all(|right| *right), "{right:?}");
            results
        });
        // Strips 1 and 2 wait for strip 0; the first attempt writes them together.
        assert_eq!(outcome.expect("no stall"), [(0, true), (1, times == 1), (2, true)]);
    }
}

/// Of three writes that go to the drives together one is an FUA write. When it is acknowledged, its
/// bytes are on media, though no host has flushed.
#[test]
fn a_durable_write_stays_durable_in_company() {
    let setup = Setup::new(Level::Raid5, 5);
    let mut sim = setup.sim(5, 0);
    let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup));
    let of_bench = setup.clone();
    let joined = sim.run(async move {
        let setup = of_bench;
        let bench = Bench::start(envs, &setup).await;
        let strip = setup.geometry().strip().bytes().0;
        put(bench.volume(), 0, &bytes_of(9, strip)).await;
        let volume = bench.volume().clone();
        side_by_side(&bench.env, 4, 4, move |number| {
            let volume = volume.clone();
            async move {
                let range = ByteRange::new(ByteOffset(number * strip), ByteCount(strip));
                let data = platform::Buf::copy_of(&bytes_of(number, strip)).freeze();
                let durability = if number == 2 { Durability::Durable } else { Durability::Cached };
                volume.write(range, data, durability).await.expect("the stripe can be written");
            }
        })
        .await;
        let (drive, at) = common::data(&setup, 0, 2);
        let durable = drives[usize::from(drive)].read_durable(ByteOffset(at), ByteCount(strip));
        assert!(durable == bytes_of(2, strip), "the data is only in a cache");
        bench.volume().counters().joined_writes
    });
    assert!(joined.expect("no stall") >= 2, "the FUA write was not joined");
}
