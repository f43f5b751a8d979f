//! A volume on used drives: unwritten sectors read as zeros, and writes are redundant from the
//! first one on.

use crate::common::{
    Bench, PACE, Setup, drive, envs, pattern, range, read, redundant_shapes, regions, write,
};
use engine::{Attachment, ReportKind, StripeSet, TaskKind, TaskOutcome, VolumeState};
use layout::Level;
use platform::{Buf, Durability, IoErrorKind};
use platform_sim::SimDrive;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet, StripeIndex};

/// Drives that hold anything but zeros.
fn noisy(drives: &[SimDrive], setup: &Setup) {
    for (seed, drive) in (31..).zip(drives) {
        drive.poke(ByteOffset(0), &pattern(seed, setup.member.0));
    }
}

/// A volume of which no stripe is initialised.
async fn new_volume(setup: &Setup, env: &platform::Env) -> Attachment {
    let mut attachment = setup.attachment(env).await;
    attachment.state = attachment.state.with_initialisation(&regions(setup), []);
    attachment
}

/// Reads a whole volume on the shard of the handle.
async fn read_there(
    bench: &Bench,
    volume: &Rc<engine::Volume>,
) -> Result<Vec<u8>, platform::IoError> {
    let (told, of) = (Rc::new(RefCell::new(None)), volume.clone());
    let ended = told.clone();
    volume.shard().env().clone().spawn("read", async move {
        let capacity = of.spec().capacity.0;
        let got = read(&of, 0, capacity).await;
        *ended.borrow_mut() = Some(got);
    });
    while told.borrow().is_none() {
        bench.wait(Duration::from_millis(1)).await;
    }
    told.take().expect("the read has ended")
}

/// Every set of drives whose loss a level survives.
fn survivable(setup: &Setup) -> Vec<Vec<u16>> {
    let geometry = setup.geometry();
    let set = |bits: u32| (0..setup.drives).filter(move |drive| bits >> drive & 1 == 1);
    (0..1 << setup.drives)
        .filter(|bits| geometry.survives_set(&set(*bits).map(DriveIndex).collect::<DriveSet>()))
        .map(|bits| set(bits).collect())
        .collect()
}

/// A RAID 5 on used drives lost a drive in its first hours: a quarter of the flushed data was
/// unreadable, as the resync had not passed it.
#[test]
fn what_was_written_is_redundant_at_once_and_all_else_is_zeros() {
    for setup in redundant_shapes() {
        for lost in survivable(&setup) {
            let mut sim = setup.sim(40, 0);
            let all: Vec<SimDrive> = (0..setup.drives).map(|index| drive(&sim, index)).collect();
            noisy(&all, &setup);
            let (envs, setup) = (envs(&sim, &setup), setup.clone());
            sim.run(async move {
                let attachment = new_volume(&setup, &envs[0]).await;
                let bench = Bench::attach(envs, attachment).await;
                let (volume, why) = (bench.volume(), format!("{} without {lost:?}", setup.level));
                let capacity = volume.spec().capacity.0;
                let mut expected = vec![0; capacity as usize];
                assert!(read(volume, 0, capacity).await.expect("readable") == expected, "{why}");
                let reads: u64 = all.iter().map(|drive| drive.stats().reads).sum();
                assert_eq!(reads, 0, "{why}: unwritten sectors are read from no drive");
                for (at, len) in [
                    (capacity / 2 + 700, 9000),
                    (512, 4096),
                    (capacity / 3, 100),
                    (512 + 4096, 512),
                ] {
                    let bytes = pattern(at, len);
                    write(volume, at, &bytes).await.expect("writable");
                    expected[at as usize..][..len as usize].copy_from_slice(&bytes);
                }
                lost.iter().for_each(|drive| all[usize::from(*drive)].fail_now());
                assert!(read(volume, 0, capacity).await.expect("readable") == expected, "{why}");
                let other = read_there(&bench, &bench.volumes[1]).await;
                assert!(
                    other.expect("readable") == expected,
                    "{why}, by a shard that owns less of it"
                );
                // First writes are redundant without these drives, too.
                let (at, bytes) = (capacity - 6000, pattern(3, 5000));
                write(volume, at, &bytes).await.expect("writable");
                expected[at as usize..][..5000].copy_from_slice(&bytes);
                assert!(read(volume, 0, capacity).await.expect("readable") == expected, "{why}");
            })
            .expect("no stall");
        }
    }
}

/// Two writes to an uninitialised stripe: were they concurrent, each would overwrite the other with
/// zeros.
#[test]
fn writes_to_different_columns_of_a_new_stripe_both_stay() {
    for setup in redundant_shapes() {
        let mut sim = setup.sim(41, 0);
        let all: Vec<SimDrive> = (0..setup.drives).map(|index| drive(&sim, index)).collect();
        noisy(&all, &setup);
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let attachment = new_volume(&setup, &envs[0]).await;
            let bench = Bench::attach(envs, attachment).await;
            let volume = bench.volume();
            let ends: Rc<RefCell<Vec<bool>>> = Rc::default();
            for sector in 0..8 {
                let (volume, ends) = (bench.volumes[sector as usize % 2].clone(), ends.clone());
                volume.shard().env().clone().spawn("write", async move {
                    let done = write(&volume, sector * 512, &[sector as u8 + 1; 512]).await;
                    ends.borrow_mut().push(done.is_ok());
                });
            }
            while ends.borrow().len() < 8 {
                bench.wait(Duration::from_millis(1)).await;
            }
            let expected: Vec<u8> = (0..8).flat_map(|sector| [sector + 1; 512]).collect();
            assert!(ends.borrow().iter().all(|done| *done));
            assert!(
                read(volume, 0, 8 * 512).await.expect("readable") == expected,
                "{}",
                setup.level
            );
            all[1].fail_now();
            assert!(
                read(volume, 0, 8 * 512).await.expect("readable") == expected,
                "{}",
                setup.level
            );
        })
        .expect("no stall");
    }
}

/// When a stripe is recorded as initialised, its content is durable: a power cut before the record
/// takes the write back, one after it does not.
#[test]
fn a_stripe_is_recorded_after_its_drives_were_flushed() {
    for setup in redundant_shapes() {
        let mut sim = setup.sim(42, 0);
        let all: Vec<SimDrive> = (0..setup.drives).map(|index| drive(&sim, index)).collect();
        noisy(&all, &setup);
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let attachment = new_volume(&setup, &envs[0]).await;
            let bench = Bench::attach(envs, attachment).await;
            let is_record =
                |kind: &ReportKind| matches!(kind, ReportKind::StripesInitialised { .. });
            let (drives, seen) = (all.clone(), Rc::new(RefCell::new(Vec::new())));
            let noted = seen.clone();
            bench.refuse(move |kind| {
                let flushes: u64 = drives.iter().map(|drive| drive.stats().flushes).sum();
                noted.borrow_mut().extend(is_record(kind).then_some(flushes));
                None
            });
            let written = crate::common::begin(bench.volume(), 1024, 7);
            while seen.borrow().is_empty() {
                assert_eq!(
                    written.get(),
                    None,
                    "{}: acknowledged when the record is written",
                    setup.level
                );
                bench.wait(Duration::from_micros(10)).await;
            }
            assert!(seen.borrow()[0] >= u64::from(setup.drives), "{}", setup.level);
            bench.wait(Duration::from_secs(1)).await;
            assert_eq!(written.get(), Some(true));
        })
        .expect("no stall");
    }
}

/// The background initialisation writes zeros to unwritten stripes, concurrently with hosts; then
/// all redundancy agrees.
#[test]
fn the_background_initialisation_leaves_what_hosts_wrote_and_all_redundancy_agrees() {
    for setup in redundant_shapes() {
        let mut sim = setup.sim(43, 0);
        let all: Vec<SimDrive> = (0..setup.drives).map(|index| drive(&sim, index)).collect();
        noisy(&all, &setup);
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let mut attachment = new_volume(&setup, &envs[0]).await;
            attachment.initialises = true;
            let bench = Bench::attach(envs, attachment).await;
            let volume = bench.volume();
            let capacity = volume.spec().capacity.0;
            let mut expected = vec![0; capacity as usize];
            for (at, len) in
                [(capacity - 7000, 6000), (capacity / 2, 3000), (0, 700), (capacity / 5, 20_000)]
            {
                let bytes = pattern(at, len);
                write(volume, at, &bytes).await.expect("writable");
                expected[at as usize..][..len as usize].copy_from_slice(&bytes);
            }
            while !bench.volumes.iter().all(|volume| volume.recorded_state().is_initialised()) {
                bench.wait(Duration::from_millis(1)).await;
            }
            assert!(
                read(volume, 0, capacity).await.expect("readable") == expected,
                "{}",
                setup.level
            );
            bench.begin(TaskKind::Check { repair: false }, PACE).await;
            assert_eq!(bench.ended().await, vec![TaskOutcome::Done; 2], "{}", setup.level);
            let mismatches = bench.count(|kind| matches!(kind, ReportKind::Mismatch { .. }));
            assert_eq!(mismatches, 0, "{}", setup.level);
            all[2].fail_now();
            assert!(
                read(volume, 0, capacity).await.expect("readable") == expected,
                "{}",
                setup.level
            );
        })
        .expect("no stall");
    }
}

/// Only some stripes are initialised: tasks skip the others, whose redundancy never agreed.
#[test]
fn tasks_pass_over_what_is_not_initialised() {
    for setup in redundant_shapes() {
        let mut sim = setup.sim(44, 1);
        let all: Vec<SimDrive> = (0..=setup.drives).map(|index| drive(&sim, index)).collect();
        noisy(&all, &setup);
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let attachment = new_volume(&setup, &envs[0]).await;
            let bench = Bench::attach(envs, attachment).await;
            let volume = bench.volume();
            let capacity = volume.spec().capacity.0;
            let mut expected = vec![0; capacity as usize];
            for (at, len) in [(capacity / 2, 3000), (capacity / 5, 9000)] {
                let bytes = pattern(at, len);
                write(volume, at, &bytes).await.expect("writable");
                expected[at as usize..][..len as usize].copy_from_slice(&bytes);
            }
            bench.begin(TaskKind::Check { repair: true }, PACE).await;
            assert_eq!(bench.ended().await, vec![TaskOutcome::Done; 2], "{}", setup.level);
            assert_eq!(
                bench.count(|kind| matches!(kind, ReportKind::Mismatch { .. })),
                0,
                "{}",
                setup.level
            );
            bench.reports.borrow_mut().clear();
            // A used drive replaces one.
            let new = crate::common::open(&bench.env, setup.drives).await;
            let change = crate::common::NewDrive {
                slot: DriveIndex(1),
                source: Some(new),
                stale: regions(&setup),
                in_service: DriveSet::first(setup.geometry().drives()),
            };
            bench.tell(|done| change.message(done)).await;
            bench.begin(TaskKind::Rebuild { slot: DriveIndex(1) }, PACE).await;
            assert_eq!(bench.ended().await, vec![TaskOutcome::Done; 2], "{}", setup.level);
            all[0].fail_now();
            assert!(
                read(volume, 0, capacity).await.expect("readable") == expected,
                "{}",
                setup.level
            );
        })
        .expect("no stall");
    }
}

/// The record has no space for a partly initialised region: the rest of the region is initialised
/// before the write there is acknowledged.
#[test]
fn without_room_for_a_part_all_of_a_region_is_initialised() {
    for setup in redundant_shapes() {
        let setup = Setup { shards: 1, ..setup };
        let mut sim = setup.sim(45, 0);
        let all: Vec<SimDrive> = (0..setup.drives).map(|index| drive(&sim, index)).collect();
        noisy(&all, &setup);
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let attachment = new_volume(&setup, &envs[0]).await;
            let bench = Bench::attach(envs, attachment).await;
            bench.refuse(|kind| {
                let is_part =
                    matches!(kind, ReportKind::StripesInitialised { completes: false, .. });
                is_part.then_some(IoErrorKind::NotSupported)
            });
            let volume = bench.volume();
            let capacity = volume.spec().capacity.0;
            let mut expected = vec![0; capacity as usize];
            let ends: Rc<RefCell<Vec<bool>>> = Rc::default();
            let writes =
                [(capacity / 2, 3000_u64), (capacity / 5, 9000), (0, 512), (capacity - 512, 512)];
            for (at, len) in writes {
                let bytes = pattern(at, len);
                expected[at as usize..][..len as usize].copy_from_slice(&bytes);
                let (volume, ends) = (volume.clone(), ends.clone());
                bench.env.spawn("write", async move {
                    let done = write(&volume, at, &bytes).await;
                    ends.borrow_mut().push(done.is_ok());
                });
            }
            while ends.borrow().len() < writes.len() {
                bench.wait(Duration::from_millis(1)).await;
            }
            assert!(ends.borrow().iter().all(|done| *done), "{}", setup.level);
            assert!(volume.recorded_state().is_initialised(), "{}", setup.level);
            all[1].fail_now();
            assert!(
                read(volume, 0, capacity).await.expect("readable") == expected,
                "{}",
                setup.level
            );
        })
        .expect("no stall");
    }
}

/// The record of a region failed on some drives and may be durable on others, and a start trusts
/// it. The region's redundancy is not used any more, whether its stripes were recorded one by one
/// or, for want of space, all together.
#[test]
fn a_region_whose_record_failed_is_resynced() {
    for setup in redundant_shapes() {
        for has_room in [true, false] {
            let setup = Setup { shards: 1, ..setup.clone() };
            let mut sim = setup.sim(48, 0);
            let envs = envs(&sim, &setup);
            sim.run(async move {
                let attachment = new_volume(&setup, &envs[0]).await;
                let bench = Bench::attach(envs, attachment).await;
                bench.refuse(move |kind| match kind {
                    ReportKind::StripesInitialised { completes: false, .. } if !has_room => {
                        Some(IoErrorKind::NotSupported)
                    }
                    ReportKind::StripesInitialised { .. } => Some(IoErrorKind::Gone),
                    _ => None,
                });
                let why = format!("{}, room: {has_room}", setup.level);
                assert!(write(bench.volume(), 0, &[1; 512]).await.is_err(), "{why}");
                let resynced = bench.count(|kind| matches!(kind, ReportKind::Unsynced(_)));
                assert!(resynced > 0, "{why}");
                assert!(read(bench.volume(), 0, 512).await.expect("readable") == [0; 512], "{why}");
            })
            .expect("no stall");
        }
    }
}

/// A drive failed its part of a first write, and that could not be recorded. A stripe recorded as
/// initialised would be read from that drive after the next start.
#[test]
fn a_stripe_is_recorded_after_the_failure_of_a_drive_that_skipped_it() {
    for setup in redundant_shapes() {
        let mut sim = setup.sim(49, 0);
        let all: Vec<SimDrive> = (0..setup.drives).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let attachment = new_volume(&setup, &envs[0]).await;
            let bench = Bench::attach(envs, attachment).await;
            bench.refuse(|kind| {
                matches!(kind, ReportKind::DriveFailed { .. }).then_some(IoErrorKind::OutOfSpace)
            });
            // The drive fails writes only. The first flush waits for the same record: without
            // either the stripe would be recorded.
            for operation in ["write", "write-zeroes"] {
                all[0].fail_next(1000, Some(operation), IoErrorKind::Gone);
            }
            assert!(write(bench.volume(), 0, &[1; 512]).await.is_err(), "{}", setup.level);
            let recorded =
                bench.count(|kind| matches!(kind, ReportKind::StripesInitialised { .. }));
            assert_eq!(recorded, 0, "{}", setup.level);
        })
        .expect("no stall");
    }
}

/// The last record of a run determines the next one: recorded stripes are read from the drives, all
/// others are zeros, whatever an interrupted write left on the drives.
#[test]
fn a_start_goes_by_the_record() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(46, 0);
    let all: Vec<SimDrive> = (0..setup.drives).map(|index| drive(&sim, index)).collect();
    noisy(&all, &setup);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let attachment = new_volume(&setup, &envs[0]).await;
        let bench = Bench::attach(envs, attachment.clone()).await;
        let volume = bench.volume();
        let stripe = setup.geometry().stripe_bytes().0;
        for at in [3 * stripe + 700, 5 * stripe] {
            write(volume, at, &pattern(at, 900)).await.expect("writable");
        }
        let state = volume.recorded_state();
        let known: BTreeSet<u64> = (0..setup.geometry().stripes().0)
            .filter(|stripe| state.is_stripe_initialised(volume.layout(), StripeIndex(*stripe)))
            .collect();
        assert_eq!(known, BTreeSet::from([3, 5]));
        let only = |stripes: &[u64]| -> VolumeState {
            let some: StripeSet = stripes.iter().copied().collect();
            let state = VolumeState::optimal(volume.layout());
            state.with_initialisation(&regions(&setup), [(engine::RegionIndex(0), some)])
        };
        for (recorded, expected) in [(only(&[3, 5]), 900), (only(&[5]), 0)] {
            let mut attachment = attachment.clone();
            attachment.state = recorded;
            let bench = Bench::attach(vec![bench.env.clone()], attachment).await;
            let got = read(bench.volume(), 3 * stripe + 700, 900).await.expect("readable");
            let same =
                got.iter().zip(pattern(3 * stripe + 700, 900)).filter(|(a, b)| *a == b).count();
            assert!(if expected > 0 { same == 900 } else { got.iter().all(|byte| *byte == 0) });
        }
    })
    .expect("no stall");
}

/// Zeros that a host writes to uninitialised stripes are there already; trims there do nothing.
#[test]
fn zeros_and_trims_of_what_no_host_wrote_ask_no_drive() {
    let setup = Setup::new(Level::Raid6, 5);
    let mut sim = setup.sim(47, 0);
    let all: Vec<SimDrive> = (0..setup.drives).map(|index| drive(&sim, index)).collect();
    noisy(&all, &setup);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let attachment = new_volume(&setup, &envs[0]).await;
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        let capacity = volume.spec().capacity;
        volume.write_zeroes(range(0, capacity.0), Durability::Durable).await.expect("zeros");
        volume.trim(range(0, capacity.0)).await.expect("trimmed");
        let (result, buf) =
            volume.read(range(0, capacity.0), Buf::unpooled(ByteCount(capacity.0))).await;
        result.expect("readable");
        assert!(buf.expect("the buffer comes back").bytes().iter().all(|byte| *byte == 0));
        assert!(all.iter().all(|drive| drive.stats().reads == 0 && drive.stats().writes == 0));
    })
    .expect("no stall");
}
