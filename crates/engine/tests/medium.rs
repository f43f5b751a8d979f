//! Blocks that a drive cannot read: served from redundancy and rewritten. Without redundancy only
//! they give errors, and they are listed until a host writes them.

use crate::common::{
    Bench, NewDrive, PACE, Setup, drive, envs, open, pattern, range, read, regions, write,
};
use engine::{FaultPolicy, ReportKind, TaskKind, Volume};
use layout::{CopyIndex, DataIndex, Level, ParityIndex};
use platform::IoErrorKind;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet, StripSize, StripeIndex};

const SECOND: Duration = Duration::from_secs(1);

fn healed(kind: &ReportKind) -> bool {
    matches!(kind, ReportKind::MediumError { recovered: true, healed: true, .. })
}

#[test]
fn what_a_drive_cannot_read_is_written_anew_from_redundancy() {
    for (level, drives) in [
        (Level::Raid1, 2),
        (Level::Raid1e, 3),
        (Level::Raid10, 4),
        (Level::Raid5, 4),
        (Level::Raid6, 5),
        (Level::Raid50, 6),
    ] {
        let setup = Setup::new(level, drives);
        let sim = setup.sim(3, 0);
        let (bad, envs) = (drive(&sim, 1), envs(&sim, &setup));
        let mut sim = sim;
        sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let volume = bench.volume();
            let bytes = pattern(1, volume.spec().capacity.0);
            write(volume, 0, &bytes).await.expect("writable");
            // Half a sector in the middle of a strip, and a whole strip.
            bad.make_unreadable(range(8192 + 1024, 512));
            bad.make_unreadable(range(20480, 4096));
            assert!(read(volume, 0, bytes.len() as u64).await.expect("readable") == bytes);
            bench.wait(SECOND).await;
            // Hosts do not read parity, so that its sectors stay unreadable; all others are
            // repaired.
            let parity_there = |offset: u64| {
                let located =
                    setup.geometry().locate(DriveIndex(1), ByteOffset(offset)).expect("inside");
                !matches!(located.role, layout::Role::Data { .. })
            };
            let mut repaired = 0;
            for (at, len) in [(8192 + 1024, 512), (20480, 4096)] {
                let can_be_read = bad.peek(ByteOffset(at), ByteCount(len)).is_some();
                repaired += usize::from(can_be_read);
                let mirrors = setup.geometry().copies() > 1;
                assert!(
                    can_be_read || mirrors || parity_there(at),
                    "{level:?}: {at} was not rewritten"
                );
            }
            assert_eq!(bench.count(healed), repaired, "{level:?}: {:?}", bench.reports.borrow());
            assert_eq!(bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. })), 0);
            assert!(read(volume, 0, bytes.len() as u64).await.expect("readable") == bytes);
        })
        .expect("no stall");
    }
}

/// With RAID 1E a drive has several strips of a stripe, one after the other. Unreadable blocks on
/// both sides of their boundary were repaired as one run of the first strip: the blocks of the
/// second one were not written, failed the read-back, and were excluded although they could be
/// repaired.
#[test]
fn unreadable_blocks_of_two_strips_of_a_drive_are_both_repaired() {
    let setup = Setup::new(Level::Raid1e, 3);
    let strip = setup.geometry().strip().bytes().0;
    let mut sim = setup.sim(3, 0);
    let (bad, envs) = (drive(&sim, 1), envs(&sim, &setup));
    let ran = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let volume = bench.volume();
        let bytes = pattern(1, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        let boundaries = [strip, 3 * strip, 5 * strip];
        boundaries.iter().for_each(|at| bad.make_unreadable(range(at - 512, 1024)));
        bench.begin(TaskKind::Check { repair: true }, PACE).await;
        bench.ended().await;
        bench.wait(SECOND).await;
        for at in boundaries {
            let place = range(at - 512, 1024);
            assert!(!volume.recorded_state().is_excluded(DriveIndex(1), place), "{at} is excluded");
            assert!(bad.peek(place.start, place.len).is_some(), "{at} can be read");
        }
        assert!(read(volume, 0, bytes.len() as u64).await.expect("readable") == bytes);
    });
    ran.expect("no stall");
}

/// Two sectors of one RAID 5 stripe were unreadable, on different drives and in different columns.
/// Each sector could be computed from the other drives. A read of both sectors failed, because its
/// plan used neither of the two drives.
#[test]
fn unreadable_sectors_in_different_columns_of_a_stripe_do_not_add_up() {
    let setup = Setup {
        strip: StripSize::KIB_64,
        member: ByteCount(1 << 20),
        ..Setup::new(Level::Raid5, 4)
    };
    let mut sim = setup.sim(5, 0);
    let bad = [drive(&sim, 0), drive(&sim, 1)];
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let volume = bench.volume();
        let bytes = pattern(2, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        bad[0].make_unreadable(range(4096, 512));
        bad[1].make_unreadable(range(40960, 1024));
        assert!(read(volume, 0, bytes.len() as u64).await.expect("nothing is lost") == bytes);
        bench.wait(SECOND).await;
        assert!(bad[0].peek(ByteOffset(4096), ByteCount(512)).is_some(), "written anew");
        assert!(bad[1].peek(ByteOffset(40960), ByteCount(1024)).is_some(), "written anew");
        assert_eq!(volume.counters().lost_blocks, 0);
    })
    .expect("no stall");
}

/// The locations of the data strips of a stripe, and of its parity.
fn cell(setup: &Setup, stripe: u64, index: u16) -> (u16, u64) {
    let cell = setup.geometry().data_cell(StripeIndex(stripe), DataIndex(index), CopyIndex(0));
    (cell.drive.0, cell.offset.0)
}

fn parity(setup: &Setup, stripe: u64) -> (u16, u64) {
    let cell = setup.geometry().parity_cell(StripeIndex(stripe), ParityIndex(0)).expect("parity");
    (cell.drive.0, cell.offset.0)
}

/// Asserts that reads of `lost` sectors give medium errors, and all other sectors have `bytes`.
async fn check_sectors(volume: &Rc<Volume>, bytes: &[u8], lost: impl Fn(u64) -> bool) {
    for at in (0..bytes.len() as u64).step_by(512) {
        let got = read(volume, at, 512).await;
        match lost(at) {
            true => assert_eq!(got.expect_err("lost").kind, IoErrorKind::Medium),
            false => assert!(got.expect("readable") == bytes[at as usize..][..512], "at {at}"),
        }
    }
}

#[test]
fn what_is_lost_is_an_error_for_these_blocks_alone_until_a_host_writes_them() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(7, 0);
    let drives: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let volume = bench.volume();
        let mut bytes = pattern(3, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        // The same column of two strips of stripe 2: sector 1 of D0 and of D1.
        let start = setup.geometry().stripe_start(StripeIndex(2)).0;
        for index in 0..2 {
            let (drive, offset) = cell(&setup, 2, index);
            drives[usize::from(drive)].make_unreadable(range(offset + 512, 512));
        }
        let lost = |at: u64| [start + 512, start + 4096 + 512].contains(&at);
        for _ in 0..2 {
            check_sectors(volume, &bytes, lost).await;
            bench.wait(SECOND).await;
        }
        assert_eq!(
            bench.count(|kind| matches!(kind, ReportKind::PuncturedBlocks { punctured: true, .. })),
            2
        );
        assert_eq!(
            volume.recorded_state().in_service().count().0,
            4,
            "no drive fails because of it"
        );
        // A write of a part of a lost sector fails: the rest of the sector is unknown.
        assert_eq!(
            write(volume, start + 520, &[9; 10]).await.expect_err("lost").kind,
            IoErrorKind::Medium
        );
        // A write of the whole sector repairs it; the other sector stays lost.
        write(volume, start + 512, &[9; 512]).await.expect("writable");
        bytes[start as usize + 512..][..512].fill(9);
        assert!(
            read(volume, start, 4096).await.expect("healed") == bytes[start as usize..][..4096]
        );
        assert_eq!(
            read(volume, start + 4096 + 512, 512).await.expect_err("lost").kind,
            IoErrorKind::Medium
        );
        assert_eq!(
            bench
                .count(|kind| matches!(kind, ReportKind::PuncturedBlocks { punctured: false, .. })),
            1
        );
        // Parity protects the written sector and the rest of the stripe.
        let (third, _) = cell(&setup, 2, 2);
        drives[usize::from(third)].fail_now();
        let got = read(volume, start + 8192, 4096).await.expect("computed from the others");
        assert!(got == bytes[start as usize + 8192..][..4096], "parity does not agree");
    })
    .expect("no stall");
}

/// The controller removes a failed drive from the shards, so that it may return and be rebuilt. The
/// shards dropped the list of its slot, and computed the lost blocks as zeros, from blocks that
/// were given up (`torture --seed 2012771`).
#[test]
fn what_is_lost_stays_so_whoever_has_the_slot() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(7, 1);
    let drives: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let volume = bench.volume();
        write(volume, 0, &pattern(3, volume.spec().capacity.0)).await.expect("writable");
        let start = setup.geometry().stripe_start(StripeIndex(2)).0;
        for index in 0..2 {
            let (drive, offset) = cell(&setup, 2, index);
            drives[usize::from(drive)].make_unreadable(range(offset + 512, 512));
        }
        let is_lost = async |when: &str| {
            let got = read(volume, start + 512, 512).await;
            assert_eq!(got.expect_err(when).kind, IoErrorKind::Medium, "{when}");
        };
        is_lost("two of a column cannot be read").await;
        bench.wait(SECOND).await;
        // A write of one sector of the column punctures the other one: zeros replace its data, and
        // the new parity is calculated with these zeros.
        write(volume, start + 4096 + 512, &[9; 512]).await.expect("writable");
        is_lost("the other one is written").await;
        let slot = DriveIndex(cell(&setup, 2, 0).0);
        let all = DriveSet::first(setup.geometry().drives());
        let new = open(&bench.env, 4).await;
        for (source, current) in [(None, all.without(slot)), (Some(new), all)] {
            let change = NewDrive { slot, source, stale: regions(&setup), in_service: current };
            bench.tell(|done| change.message(done)).await;
            is_lost("the slot has no drive that knows").await;
        }
        bench.begin(TaskKind::Rebuild { slot }, PACE).await;
        while bench.outcomes().is_empty() {
            bench.wait(SECOND).await;
        }
        is_lost("the new drive is filled").await;
    })
    .expect("no stall");
}

/// A read-modify-write succeeds although the old data or the old parity has an unreadable sector.
#[test]
fn a_write_over_what_cannot_be_read_succeeds_and_parity_follows() {
    for unreadable_parity in [false, true] {
        let setup = Setup::new(Level::Raid5, 5);
        let mut sim = setup.sim(7, 0);
        let drives: Vec<_> = (0..5).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let volume = bench.volume();
            let mut bytes = pattern(4, volume.spec().capacity.0);
            write(volume, 0, &bytes).await.expect("writable");
            let place = if unreadable_parity { parity(&setup, 1) } else { cell(&setup, 1, 1) };
            drives[usize::from(place.0)].make_unreadable(range(place.1 + 1024, 512));
            let at = setup.geometry().stripe_start(StripeIndex(1)).0 + 4096;
            write(volume, at, &[7; 4096]).await.expect("writable");
            bytes[at as usize..][..4096].fill(7);
            bench.wait(SECOND).await;
            let (other, _) = cell(&setup, 1, 2);
            drives[usize::from(other)].fail_now();
            assert!(read(volume, 0, bytes.len() as u64).await.expect("readable") == bytes);
        })
        .expect("no stall");
    }
}

/// Degraded, with one more unreadable sector: its content is lost, and so is the missing drive's
/// block in the same column. A write to the sector must succeed, and must list no other block as
/// lost.
#[test]
fn a_degraded_stripe_with_an_unreadable_sector_can_be_written() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(7, 0);
    let drives: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let volume = bench.volume();
        let mut bytes = pattern(5, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        let start = setup.geometry().stripe_start(StripeIndex(0)).0 as usize;
        let (gone, _) = cell(&setup, 0, 2);
        drives[usize::from(gone)].fail_now();
        let (bad, offset) = cell(&setup, 0, 0);
        drives[usize::from(bad)].make_unreadable(range(offset, 512));
        write(volume, start as u64, &[8; 512]).await.expect("writable");
        bytes[start..start + 512].fill(8);
        assert!(
            read(volume, start as u64, 8192).await.expect("readable") == bytes[start..start + 8192]
        );
        let beside = read(volume, start as u64 + 8192, 512).await;
        assert_eq!(beside.expect_err("lost with the missing drive").kind, IoErrorKind::Medium);
        let rest = read(volume, start as u64 + 8192 + 512, 3584).await.expect("computed");
        assert!(rest == bytes[start + 8704..][..3584]);
    })
    .expect("no stall");
}

/// In an unsynced region one sector of the mirror in use was unreadable, and the whole request was
/// read from the other mirror, which differed elsewhere.
#[test]
fn a_mirror_speaks_for_all_but_the_sectors_it_cannot_read() {
    let setup = Setup { unsynced: true, ..Setup::new(Level::Raid1, 2) };
    let mut sim = setup.sim(9, 0);
    let (speaks, other) = (drive(&sim, 0), drive(&sim, 1));
    let envs = envs(&sim, &setup);
    let len = 64 << 10;
    speaks.poke(ByteOffset::ZERO, &vec![1; len]);
    other.poke(ByteOffset::ZERO, &vec![2; len]);
    speaks.make_unreadable(range(8192, 512));
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let volume = bench.volume();
        let mut expected = vec![1; len];
        expected[8192..8704].fill(2);
        assert!(read(volume, 0, len as u64).await.expect("readable") == expected);
        // The resync uses the same mirror, and the content stays.
        bench.wait(Duration::from_secs(60)).await;
        assert!(read(volume, 0, len as u64).await.expect("readable") == expected);
        assert_eq!(other.read_true(ByteOffset::ZERO, ByteCount(len as u64)), expected);
        assert_eq!(speaks.read_true(ByteOffset::ZERO, ByteCount(len as u64)), expected);
    })
    .expect("no stall");
}

/// A region could not be resynced because of one sector: it stayed unsynced.
#[test]
fn a_resync_gives_up_what_is_lost_and_nothing_else() {
    let setup = Setup { unsynced: true, ..Setup::new(Level::Raid5, 4) };
    let mut sim = setup.sim(9, 0);
    let drives: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    let (bad, offset) = cell(&setup, 5, 1);
    for index in 0..4u8 {
        drives[usize::from(index)].poke(ByteOffset::ZERO, &vec![index + 1; 256 << 10]);
    }
    drives[usize::from(bad)].make_unreadable(range(offset + 1536, 1024));
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let volume = bench.volume();
        bench.wait(Duration::from_secs(30)).await;
        assert_eq!(
            bench.count(|kind| matches!(kind, ReportKind::Synced(_))),
            1,
            "the region is synced"
        );
        let start = setup.geometry().stripe_start(StripeIndex(5)).0 + 4096;
        for at in (0..4096).step_by(512) {
            let got = read(volume, start + at, 512).await;
            assert_eq!(got.is_err(), (1536..2560).contains(&at), "at {at}");
        }
        // Parity agrees: every other block survives the loss of its drive.
        let (third, _) = cell(&setup, 5, 2);
        drives[usize::from(third)].fail_now();
        let got = read(volume, start + 4096, 4096).await.expect("computed");
        assert!(got.iter().all(|byte| *byte == third as u8 + 1));
    })
    .expect("no stall");
}

/// A drive that takes writes and cannot read them back fails after a number of such errors, not
/// before.
#[test]
fn a_drive_that_cannot_be_repaired_goes_out_by_the_policy() {
    let policy = FaultPolicy { unrepaired_limit: 3, ..FaultPolicy::default() };
    let setup = Setup { policy, ..Setup::new(Level::Raid5, 4) };
    let mut sim = setup.sim(11, 0);
    let bad = drive(&sim, 0);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let volume = bench.volume();
        let bytes = pattern(6, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("writable");
        let failed = |kind: &ReportKind| matches!(kind, ReportKind::DriveFailed { .. });
        for stripe in 0..12u64 {
            let (drive, offset) = cell(&setup, stripe, 0);
            if drive != 0 || bench.count(failed) > 0 {
                continue;
            }
            bad.make_unreadable(range(offset, 512));
            bad.refuse_writes(range(offset, 512));
            let at = setup.geometry().stripe_start(StripeIndex(stripe)).0;
            assert!(
                read(volume, at, 4096).await.expect("readable") == bytes[at as usize..][..4096]
            );
            bench.wait(SECOND).await;
        }
        assert_eq!(bench.count(failed), 1);
        assert!(read(volume, 0, bytes.len() as u64).await.expect("readable") == bytes);
    })
    .expect("no stall");
}
