//! Direct requests over several strips: one operation per run of a drive, the same bytes, and the
//! planned path in all other cases.

use crate::common::{self, Bench, Setup, VOLUME, envs, pattern, read, write};
use engine::{Absorb, Attachment, CacheTerms, ReportKind, ShardMessage};
use layout::{CopyIndex, DataIndex, Level};
use platform::IoErrorKind;
use platform_sim::{Sim, SimDrive};
use units::{ByteCount, ByteOffset, StripSize, StripeIndex};

const STRIP: u64 = 4096;

fn setup(level: Level, drives: u16) -> Setup {
    Setup { member: ByteCount::MIB, ..Setup::new(level, drives) }
}

fn all_drives(sim: &Sim, setup: &Setup) -> Vec<SimDrive> {
    (0..setup.drives).map(|drive| common::drive(sim, drive)).collect()
}

/// The reads and writes that the drives got.
fn ios(drives: &[SimDrive]) -> (u64, u64) {
    let stats = drives.iter().map(SimDrive::stats);
    stats.fold((0, 0), |(reads, writes), stats| (reads + stats.reads, writes + stats.writes))
}

/// The number of drive reads and writes for a write, and then for a read, of some strips.
fn cost(setup: Setup, first_strip: u64, strips: u64) -> (u64, u64) {
    let mut sim = setup.sim(11, 0);
    let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup));
    let counted = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let bytes = pattern(first_strip, strips * STRIP);
        let start = ios(&drives);
        write(bench.volume(), first_strip * STRIP, &bytes).await.expect("writable");
        let written = ios(&drives);
        assert!(
            read(bench.volume(), first_strip * STRIP, strips * STRIP).await.expect("readable")
                == bytes
        );
        let read = ios(&drives);
        (read.0 - written.0, written.1 - start.1)
    });
    counted.expect("no stall")
}

/// Each strip was read and written separately: a request over four rows of four drives was sixteen
/// operations.
#[test]
fn what_lies_together_on_a_drive_is_one_operation() {
    assert_eq!(cost(setup(Level::Raid0, 4), 0, 16), (4, 4));
    // From the middle of a row to the middle of another one.
    assert_eq!(cost(setup(Level::Raid0, 4), 2, 13), (4, 4));
    assert_eq!(cost(setup(Level::Raid0, 4), 3, 2), (2, 2));
}

/// Parity separates the strips of a drive, in every fourth row of four drives here.
#[test]
fn parity_between_strips_ends_a_run() {
    let (reads, _) = cost(setup(Level::Raid5, 4), 0, 12);
    assert!((4..=8).contains(&reads), "{reads} reads for twelve strips in four rows");
}

/// The number of drive reads and writes for a number of bytes from the start: for writing them
/// (reads and writes), and for reading them.
fn cost_of_bytes(level: Level, drives: u16, bytes: u64) -> ((u64, u64), u64) {
    let setup = Setup {
        strip: StripSize::KIB_64,
        member: ByteCount(16 << 20),
        ..Setup::new(level, drives)
    };
    let mut sim = setup.sim(11, 0);
    let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup));
    let counted = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        // The cost of the first write to a region does not count here.
        let region_end = setup.geometry().capacity().0 - 512;
        write(bench.volume(), 0, &[1; 512]).await.expect("writable");
        write(bench.volume(), region_end, &[1; 512]).await.expect("writable");
        let pattern = pattern(bytes, bytes);
        let start = ios(&drives);
        write(bench.volume(), 0, &pattern).await.expect("writable");
        let written = ios(&drives);
        assert!(read(bench.volume(), 0, bytes).await.expect("readable") == pattern);
        let read = ios(&drives);
        assert_eq!(bench.volume().check_invariants(), Ok(()));
        ((written.0 - start.0, written.1 - start.1), read.0 - written.0)
    });
    counted.expect("no stall")
}

/// The number of runs that hold the data of these stripes, over all drives.
fn runs_of_data(level: Level, drives: u16, stripes: u64) -> u64 {
    let geometry = Setup {
        member: ByteCount(16 << 20),
        strip: StripSize::KIB_64,
        ..Setup::new(level, drives)
    }
    .geometry();
    let strips = geometry.stripe_bytes().0 / geometry.strip().bytes().0;
    let mut places: Vec<(u16, u64)> = (0..stripes)
        .flat_map(|stripe| (0..strips as u16).map(move |strip| (stripe, strip)))
        .map(|(stripe, strip)| {
            geometry.data_cell(StripeIndex(stripe), DataIndex(strip), CopyIndex(0))
        })
        .map(|cell| (cell.drive.0, cell.offset.0))
        .collect();
    places.sort_unstable();
    let goes_on = |pair: &[(u16, u64)]| {
        pair[0].0 == pair[1].0 && pair[0].1 + geometry.strip().bytes().0 == pair[1].1
    };
    1 + places.windows(2).filter(|pair| !goes_on(pair)).count() as u64
}

/// A drive takes 1 MiB at a time. The least possible number of operations: each contiguous run of a
/// drive, in pieces of that size. Before, a mirror took a strip at a time: 16 reads and 32 writes
/// for 1 MiB; a write of sixteen full stripes of RAID 5 on four drives took 64.
#[test]
fn a_large_request_asks_its_drives_for_no_more_than_there_must_be() {
    const MIB: u64 = 1 << 20;
    let stripe = |data: u64| data * (64 << 10);
    // Level, drives, bytes; writes, reads. Parity separates data: a read run ends there.
    let table = [
        (Level::Raid0, 8, MIB, 8, 8),
        (Level::Raid0, 8, 4 * MIB, 8, 8),
        // Each copy serves half of the read.
        (Level::Raid1, 2, MIB, 2, 2),
        (Level::Raid1, 2, 4 * MIB, 8, 4),
        (Level::Raid1, 3, 3 * MIB, 9, 3),
        (Level::Raid10, 4, MIB, 4, 4),
        (Level::Raid10, 4, 4 * MIB, 8, 4),
        (Level::Raid10, 8, 4 * MIB, 8, 8),
        (Level::Raid5, 4, 16 * stripe(3), 4, runs_of_data(Level::Raid5, 4, 16)),
        (Level::Raid5, 4, 32 * stripe(3), 8, runs_of_data(Level::Raid5, 4, 32)),
        (Level::Raid6, 6, 16 * stripe(4), 6, runs_of_data(Level::Raid6, 6, 16)),
        (Level::Raid4, 4, 16 * stripe(3), 4, 3),
    ];
    for (level, drives, bytes, writes, reads) in table {
        let (written, read) = cost_of_bytes(level, drives, bytes);
        assert_eq!((written, read), ((0, writes), reads), "{level} of {drives}, {bytes} bytes");
    }
}

#[test]
fn no_run_is_longer_than_drives_take() {
    let large = Setup { member: ByteCount(4 << 20), ..Setup::new(Level::Raid0, 2) };
    assert_eq!(cost(large, 0, (6 << 20) / STRIP), (6, 6), "3 MiB of each of two drives");
}

#[test]
fn volumes_of_several_shards_read_back_what_was_written_over_all_of_them() {
    for level in [Level::Raid0, Level::Raid5, Level::Raid10] {
        let setup = Setup { shards: 2, ..setup(level, 4) };
        let mut sim = setup.sim(5, 0);
        let envs = envs(&sim, &setup);
        let ran = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let bytes = pattern(9, setup.geometry().capacity().0);
            write(bench.volume(), 0, &bytes).await.expect("writable");
            assert!(
                read(&bench.volumes[0], 0, bytes.len() as u64).await.expect("readable") == bytes
            );
            assert_eq!(bench.volume().check_invariants(), Ok(()));
        });
        ran.expect("no stall");
    }
}

/// One drive cannot read a sector in the middle of its run: redundancy gives that sector, and the
/// rest is served as well.
#[test]
fn a_run_that_fails_goes_the_long_way() {
    let setup = setup(Level::Raid5, 4);
    let mut sim = setup.sim(3, 0);
    let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup));
    let ran = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let bytes = pattern(4, 16 * STRIP);
        write(bench.volume(), 0, &bytes).await.expect("writable");
        let (drive, offset) = common::data(&setup, 2, 1);
        drives[usize::from(drive)].make_unreadable(common::range(offset, 512));
        assert!(read(bench.volume(), 0, 16 * STRIP).await.expect("readable") == bytes);
    });
    ran.expect("no stall");
}

/// Without redundancy a failed drive write is an error, and so is a missing drive.
#[test]
fn a_write_over_several_strips_fails_with_its_drive() {
    let setup = setup(Level::Raid0, 4);
    let mut sim = setup.sim(3, 0);
    let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup));
    let ran = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let bytes = pattern(4, 16 * STRIP);
        drives[2].fail_now();
        let error = write(bench.volume(), 0, &bytes).await.expect_err("a drive is gone");
        assert_eq!(error.kind, IoErrorKind::Gone);
        assert_eq!(
            drives[1].read_true(ByteOffset(0), ByteCount(STRIP)),
            bytes[STRIP as usize..2 * STRIP as usize]
        );
    });
    ran.expect("no stall");
}

/// On busy mirrors, contiguous strips are one operation as well; each of two drives serves half of
/// the read.
#[test]
fn a_large_read_of_busy_mirrors_is_a_run_for_each_drive() {
    let setup = setup(Level::Raid10, 4);
    let mut sim = setup.sim(12, 0);
    let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup));
    let ran = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let bytes = pattern(7, 64 * STRIP);
        write(bench.volume(), 0, &bytes).await.expect("writable");
        // An operation in progress on every drive, so that none is idle.
        drives.iter().for_each(SimDrive::hold);
        let others: Vec<_> = (0..16)
            .map(|strip| {
                let volume = bench.volume().clone();
                bench.env.spawn("other", async move { read(&volume, strip * STRIP, STRIP).await })
            })
            .collect();
        bench.wait(std::time::Duration::from_millis(1)).await;
        let (before, fast) = (ios(&drives).0 as usize, bench.volume().counters().fast_path);
        let under_way: usize = drives.iter().map(SimDrive::in_flight).sum();
        let volume = bench.volume().clone();
        let large = bench.env.spawn("large", async move { read(&volume, 0, 64 * STRIP).await });
        bench.wait(std::time::Duration::from_millis(1)).await;
        let asked = drives.iter().map(SimDrive::in_flight).sum::<usize>() - under_way;
        drives.iter().for_each(SimDrive::release);
        assert!(large.await.expect("readable") == bytes);
        for other in others {
            other.await.expect("readable");
        }
        assert!(asked <= 16, "{asked} operations for 64 strips, {before} before");
        assert!(bench.volume().counters().fast_path > fast);
    });
    ran.expect("no stall");
}

/// A small mirror write makes no plan. If one copy fails, the write succeeds on the other, and the
/// drive fails. If all copies fail, the write is an error, and its region is unsynced, as the
/// copies may differ.
#[test]
fn a_write_that_a_copy_does_not_take_is_planned_and_one_that_none_takes_is_in_doubt() {
    let is_in_doubt = |kind: &ReportKind| matches!(kind, ReportKind::Unsynced(_));
    let is_out = |kind: &ReportKind| matches!(kind, ReportKind::DriveFailed { .. });
    for (failing, expected) in [(vec![1], Ok(())), (vec![0, 1], Err(IoErrorKind::Gone))] {
        let setup = setup(Level::Raid1, 2);
        let mut sim = setup.sim(13, 0);
        let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup));
        let expects_error = expected.is_err();
        let ran = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            write(bench.volume(), 0, &pattern(1, 2 * STRIP)).await.expect("writable");
            failing.iter().for_each(|drive: &usize| drives[*drive].fail_now());
            let wrote = write(bench.volume(), STRIP, &pattern(2, 512)).await;
            assert_eq!(wrote.map_err(|error| error.kind), expected);
            if !expects_error {
                assert!(
                    read(bench.volume(), STRIP, 512).await.expect("readable") == pattern(2, 512)
                );
            }
            assert!(bench.count(is_out) >= 1);
            assert_eq!(bench.count(is_in_doubt) > 0, expects_error);
            assert_eq!(bench.volume().check_invariants(), Ok(()));
        });
        ran.expect("no stall");
    }
}

/// With write-back every large read went strip by strip, although nothing was dirty. Now that is
/// only so while bytes of it are dirty.
#[test]
fn a_large_read_with_write_back_is_one_operation_for_each_drive_unless_bytes_are_dirty() {
    let setup = setup(Level::Raid0, 4);
    let mut sim = setup.sim(11, 0);
    let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup));
    let ran = sim.run(async move {
        let attachment = setup.attachment(&envs[0]).await;
        let cache = CacheTerms { absorb: Absorb::Unflushed, ..CacheTerms::none(VOLUME) };
        let attachment = Attachment { cache, ..attachment };
        let bench = Bench::attach_with_cache(envs, attachment, ByteCount::MIB).await;
        let mut bytes = pattern(3, 16 * STRIP);
        write(bench.volume(), 0, &bytes).await.expect("writable");
        bench.tell(|done| ShardMessage::Drain(VOLUME, done)).await;
        let start = ios(&drives);
        assert!(read(bench.volume(), 0, 16 * STRIP).await.expect("readable") == bytes);
        assert_eq!(ios(&drives).0 - start.0, 4, "nothing is dirty");
        let newer = pattern(4, 512);
        write(bench.volume(), 7 * STRIP, &newer).await.expect("writable");
        bytes[7 * STRIP as usize..][..512].copy_from_slice(&newer);
        assert!(bench.volume().cache_counters().dirty > ByteCount::ZERO, "it waits in the cache");
        assert!(read(bench.volume(), 0, 16 * STRIP).await.expect("readable") == bytes);
        assert_eq!(bench.volume().check_invariants(), Ok(()));
    });
    ran.expect("no stall");
}
