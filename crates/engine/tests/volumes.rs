//! Volumes of every level in virtual time: concurrent random requests, drive failures, several
//! shards; each read is compared with a model in memory.

use crate::common::{Bench, MEMBER, Setup, envs, read, write};
use engine::{ShardIndex, ShardMessage, ShardSeed, Volume, VolumeId, VolumeService};
use layout::Level;
use platform::{Buf, Durability, Env, IoErrorKind, Slice};
use platform_sim::{DriveOptions, Rng, Sim, SimOptions};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex};

fn sim(seed: u64, setup: &Setup) -> Sim {
    setup.sim(seed, 0)
}

/// The volume on each shard.
async fn start(envs: Vec<Env>, setup: Setup) -> Vec<Rc<Volume>> {
    Bench::start(envs, &setup).await.volumes
}

/// Many concurrent writers and readers, each with its own bytes in sectors, strips and stripes
/// shared by all, compared with a model.
async fn exercise(volumes: Vec<Rc<Volume>>, seed: u64, rounds: u64, fail: impl Fn(u64) + 'static) {
    const WORKERS: u64 = 12;
    let capacity = volumes[0].spec().capacity.0;
    let env = volumes[0].shard().env().clone();
    let model = Rc::new(RefCell::new(vec![0u8; capacity as usize]));
    let fail = Rc::new(fail);
    let done = Rc::new(Cell::new(0u64));
    let (finished, mut finishes) = platform::mailbox::mailbox(&env, WORKERS as usize);
    for worker in 0..WORKERS {
        let volume = volumes[worker as usize % volumes.len()].clone();
        let (model, fail, done) = (model.clone(), fail.clone(), done.clone());
        let mut rng = Rng::new(seed, "worker", &worker.to_string());
        // Worker w owns every WORKERS-th grain; grains are no multiple of a sector.
        let grain = 700;
        let finished = finished.clone();
        // Each worker is a task of its volume's shard.
        volumes[worker as usize % volumes.len()].shard().env().spawn("worker", async move {
            for _ in 0..rounds {
                let grains = capacity / (grain * WORKERS);
                let start = (rng.below(grains) * WORKERS + worker) * grain;
                let skip = rng.below(grain / 2);
                let len = 1 + rng.below(grain - skip);
                let at = start + skip;
                if rng.below(3) == 0 {
                    let got = read(&volume, at, len).await.expect("readable");
                    let model = model.borrow();
                    assert!(
                        got == model[at as usize..(at + len) as usize],
                        "read at {at}+{len} differs"
                    );
                } else {
                    let bytes: Vec<u8> =
                        (0..len).map(|i| (rng.next_u64() >> (i % 8)) as u8).collect();
                    write(&volume, at, &bytes).await.expect("writable");
                    model.borrow_mut()[at as usize..(at + len) as usize].copy_from_slice(&bytes);
                }
                done.set(done.get() + 1);
                fail(done.get());
            }
            assert!(finished.send(()).is_ok());
        });
    }
    for _ in 0..WORKERS {
        finishes.receive().await.expect("every worker finishes");
    }
    let mut rng = Rng::new(seed, "large requests", "");
    // Large requests, over many stripes, regions and shards.
    let whole = read(&volumes[0], 0, capacity).await.expect("readable");
    assert!(whole == *model.borrow(), "the whole volume differs from the model");
    let start = rng.below(5000);
    let bytes: Vec<u8> = (0..capacity - start - 777).map(|_| rng.next_u64() as u8).collect();
    write(&volumes[0], start, &bytes).await.expect("writable");
    volumes[0].flush().await.expect("flushed");
    let got = read(&volumes[0], start, bytes.len() as u64).await.expect("readable");
    assert!(got == bytes, "a large write reads back differently");
}

fn run(seed: u64, setup: Setup, rounds: u64, fail_at: Option<u64>) -> (u64, Vec<Rc<Volume>>) {
    let mut sim = sim(seed, &setup);
    let victim = sim.drive(&format!("d{}", seed % u64::from(setup.drives))).expect("a drive");
    let envs = envs(&sim, &setup);
    let volumes = sim
        .run(async move {
            let volumes = start(envs, setup).await;
            let fail = move |done| {
                if Some(done) == fail_at {
                    victim.fail_now();
                }
            };
            exercise(volumes.clone(), seed, rounds, fail).await;
            volumes
        })
        .expect("no stall");
    (sim.hash(), volumes)
}

#[test]
fn concurrent_requests_of_any_bytes_read_what_was_written() {
    for (level, drives) in [
        (Level::Jbod, 1),
        (Level::Raid0, 3),
        (Level::Raid00, 4),
        (Level::Raid1, 2),
        (Level::Raid1, 3),
        (Level::Raid1e, 3),
        (Level::Raid10, 6),
        (Level::Raid4, 3),
        (Level::Raid5, 3),
        (Level::Raid5, 5),
        (Level::Raid5ee, 5),
        (Level::Raid6, 5),
        (Level::Raid50, 6),
        (Level::Raid60, 8),
    ] {
        for seed in 0..2 {
            run(seed, Setup::new(level, drives), 60, None);
        }
    }
}

#[test]
fn a_drive_fails_under_load_and_nobody_notices() {
    for (level, drives) in [
        (Level::Raid1, 2),
        (Level::Raid1, 3),
        (Level::Raid1e, 5),
        (Level::Raid10, 4),
        (Level::Raid5, 3),
        (Level::Raid5, 4),
        (Level::Raid6, 4),
        (Level::Raid60, 8),
    ] {
        for seed in 0..4 {
            let (_, volumes) = run(seed, Setup::new(level, drives), 60, Some(100 + seed * 37));
            let health = volumes[0].recorded_state().in_service();
            assert_eq!(health.count(), DriveCount(drives - 1), "the drive has failed");
        }
    }
}

#[test]
fn shards_serve_one_volume_together() {
    for (level, drives) in [(Level::Raid0, 3), (Level::Raid1, 2), (Level::Raid5, 4)] {
        for seed in 0..4 {
            let fail_at = (level != Level::Raid0).then_some(150);
            run(seed, Setup { shards: 3, ..Setup::new(level, drives) }, 40, fail_at);
        }
    }
}

#[test]
fn an_unsynced_volume_is_served_while_it_is_resynced() {
    for (level, drives) in [(Level::Raid1, 2), (Level::Raid5, 4)] {
        for seed in 0..4 {
            run(seed, Setup { unsynced: true, ..Setup::new(level, drives) }, 60, None);
        }
    }
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let once = |seed| run(seed, Setup { shards: 2, ..Setup::new(Level::Raid5, 4) }, 20, Some(50)).0;
    assert_eq!(once(7), once(7));
    assert_ne!(once(7), once(8));
}

#[test]
fn a_medium_error_is_served_from_redundancy_and_costs_no_drive() {
    for (level, drives) in [(Level::Raid1, 2), (Level::Raid5, 4)] {
        let setup = Setup::new(level, drives);
        let mut sim = sim(3, &setup);
        let drive = sim.drive("d0").expect("a drive");
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let volume = start(envs, setup).await.remove(0);
            let bytes: Vec<u8> = (0..volume.spec().capacity.0).map(|i| (i / 97) as u8).collect();
            write(&volume, 0, &bytes).await.expect("writable");
            drive.make_unreadable(ByteRange::new(ByteOffset(8192), ByteCount(1024)));
            let got = read(&volume, 0, bytes.len() as u64).await.expect("readable");
            assert!(got == bytes);
            assert_eq!(volume.recorded_state().in_service().count(), DriveCount(drives));
        })
        .expect("no stall");
    }
}

/// A file was truncated below its drive. The missing sectors must not be repaired there: it is
/// another file.
#[test]
fn a_drive_that_is_not_what_it_was_is_out_at_its_first_error() {
    for (level, drives) in [(Level::Raid5, 4), (Level::Raid6, 5)] {
        let setup = Setup::new(level, drives);
        let mut sim = sim(3, &setup);
        let drive = sim.drive("d0").expect("a drive");
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let volume = start(envs, setup).await.remove(0);
            let bytes: Vec<u8> = (0..volume.spec().capacity.0).map(|i| (i / 97) as u8).collect();
            write(&volume, 0, &bytes).await.expect("writable");
            drive.fail_next(1, Some("read"), IoErrorKind::Changed);
            let got = read(&volume, 0, bytes.len() as u64).await.expect("readable");
            assert!(got == bytes);
            assert!(!volume.recorded_state().in_service().contains(DriveIndex(0)), "{level}");
        })
        .expect("no stall");
    }
}

#[test]
fn what_is_lost_is_an_error_and_what_is_not_is_not() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = sim(3, &setup);
    let drives: Vec<_> = (0..2).map(|i| sim.drive(&format!("d{i}")).expect("a drive")).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let volume = start(envs, setup).await.remove(0);
        let geometry = volume.spec().geometry;
        let bytes: Vec<u8> = (0..volume.spec().capacity.0).map(|i| (i / 91) as u8).collect();
        write(&volume, 0, &bytes).await.expect("writable");
        for drive in &drives {
            drive.fail_now();
        }
        for strip in 0..bytes.len() as u64 / 4096 {
            let (stripe, within) = geometry.stripe_of(ByteOffset(strip * 4096));
            let (index, _) = geometry.strip_of(within);
            let drive = geometry.data_cell(stripe, index, layout::CopyIndex(0)).drive;
            let got = read(&volume, strip * 4096, 4096).await;
            if drive < DriveIndex(2) {
                assert_eq!(
                    got.expect_err("two drives of RAID 5 are lost").kind,
                    IoErrorKind::Medium
                );
            } else {
                assert!(
                    got.expect("this drive is present") == bytes[strip as usize * 4096..][..4096]
                );
            }
        }
    })
    .expect("no stall");
}

/// A drive held its operations beyond its time limit. The others had the data, but a part of the
/// read's buffer was still with the drive: the read succeeded without its data, or, for parts of
/// sectors, returned the buffer's old content.
#[test]
fn a_read_across_stripes_survives_a_drive_that_does_not_answer() {
    for (level, drives) in [(Level::Raid1, 2), (Level::Raid5, 4)] {
        for skip in [0, 100] {
            let setup = Setup::new(level, drives);
            let mut sim = sim(3, &setup);
            let drive = sim.drive("d0").expect("a drive");
            let envs = envs(&sim, &setup);
            sim.run(async move {
                let volume = start(envs, setup).await.remove(0);
                let bytes: Vec<u8> =
                    (0..volume.spec().capacity.0).map(|i| (i / 97) as u8).collect();
                write(&volume, 0, &bytes).await.expect("writable");
                drive.hold();
                let got =
                    read(&volume, skip, 100_000).await.expect("the level tolerates the failure");
                assert!(got == bytes[skip as usize..][..100_000]);
                drive.release();
            })
            .expect("no stall");
        }
    }
}

/// A drive failed during the resync. Writes to resynced stripes went on without parity, as the
/// region was not synced yet. Then the resync ended, the region counted as synced, and the failed
/// drive's blocks were computed from parity that had missed those writes.
#[test]
fn a_resync_does_not_vouch_for_writes_that_parity_missed_meanwhile() {
    let setup = Setup { unsynced: true, ..Setup::new(Level::Raid5, 3) };
    let mut sim = sim(1, &setup);
    let drives: Vec<_> = (0..3).map(|i| sim.drive(&format!("d{i}")).expect("a drive")).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let env = envs[0].clone();
        let geometry = setup.geometry();
        let volume = start(envs, setup).await.remove(0);
        let last = units::StripeIndex(geometry.stripes().0 - 1);
        // Three stripes before, parity and data are on the same drives as in the last one.
        let early = units::StripeIndex(last.0 - 3);
        let parity = geometry.parity_cell(last, layout::ParityIndex(0)).expect("RAID 5").drive;
        let data =
            |index| geometry.data_cell(early, layout::DataIndex(index), layout::CopyIndex(0)).drive;
        while volume.counters().resynced_stripes < last.0 {
            env.sleep(std::time::Duration::from_micros(20)).await;
        }
        // The last stripe has been read and its parity is being written; then a drive fails.
        drives[parity.as_usize()].hold();
        env.sleep(std::time::Duration::from_millis(5)).await;
        drives[data(1).as_usize()].fail_now();
        let start = geometry.stripe_start(early).0;
        let (writing, waits) = (volume.clone(), env.clone());
        let write = env.spawn("write", async move { write(&writing, start, &[1; 4096]).await });
        waits.sleep(std::time::Duration::from_secs(40)).await;
        drives[parity.as_usize()].release();
        write.await.expect("its drive is present");
        env.sleep(std::time::Duration::from_secs(30)).await;
        let got = read(&volume, start, 4096).await.expect("its drive is present");
        assert!(got == [1; 4096]);
        // Never written: zeros, or an error.
        if let Ok(got) = read(&volume, start + 4096, 4096).await {
            assert!(got == [0; 4096], "computed from parity that missed a write");
        }
    })
    .expect("no stall");
}

/// A drive of a RAID 0 failed with writes in its cache. The flush that found the failure returned
/// an error. The next one skipped the drive and succeeded, for writes that were not durable.
#[test]
fn every_flush_fails_once_a_drive_is_lost() {
    let setup = Setup::new(Level::Raid0, 3);
    let mut sim = sim(3, &setup);
    let drive = sim.drive("d1").expect("a drive");
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let volume = start(envs, setup).await.remove(0);
        write(&volume, 0, &[1; 50_000]).await.expect("writable");
        drive.fail_now();
        for _ in 0..3 {
            assert_eq!(volume.flush().await.expect_err("a drive is lost").kind, IoErrorKind::Gone);
        }
    })
    .expect("no stall");
}

#[test]
fn past_the_end_is_refused() {
    let setup = Setup::new(Level::Raid5, 3);
    let mut sim = sim(1, &setup);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let volume = start(envs, setup).await.remove(0);
        let capacity = volume.spec().capacity.0;
        for (start, len) in [(capacity, 1), (capacity - 1, 2), (u64::MAX, 1), (0, capacity + 1)] {
            let range = ByteRange::new(ByteOffset(start), ByteCount(len));
            let result = volume.write(range, Slice::zero(ByteCount(len)), Durability::Cached).await;
            assert_eq!(result.expect_err("past the end").kind, IoErrorKind::Invalid);
        }
        assert!(read(&volume, capacity - 1, 1).await.is_ok());
        assert!(read(&volume, capacity, 0).await.is_ok());
    })
    .expect("no stall");
}

#[test]
fn zeroes_and_trims_go_through_plans() {
    for (level, drives) in [(Level::Raid0, 3), (Level::Raid1, 2), (Level::Raid5, 4)] {
        let setup = Setup::new(level, drives);
        let mut sim = sim(5, &setup);
        let victim = sim.drive("d1").expect("a drive");
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let volume = start(envs, setup).await.remove(0);
            let capacity = volume.spec().capacity.0;
            write(&volume, 0, &vec![0xAB; capacity as usize]).await.expect("writable");
            let zeroed = ByteRange::new(ByteOffset(3000), ByteCount(30_000));
            volume.write_zeroes(zeroed, Durability::Durable).await.expect("zeroed");
            volume
                .trim(ByteRange::new(ByteOffset(100_000), ByteCount(60_000)))
                .await
                .expect("trimmed");
            if level != Level::Raid0 {
                victim.fail_now();
            }
            let got = read(&volume, 0, 100_000).await.expect("readable");
            for (i, byte) in got.iter().enumerate() {
                let expected = if (3000..33_000).contains(&i) { 0 } else { 0xAB };
                assert_eq!(*byte, expected, "{level:?} byte {i}");
            }
            assert!(read(&volume, 100_000, 60_000).await.is_ok());
            let after = read(&volume, 160_000, 1000).await.expect("readable");
            assert!(
                after.iter().all(|byte| *byte == 0xAB),
                "{level:?}: the trim discarded more than its range"
            );
        })
        .expect("no stall");
    }
}

#[test]
fn a_volume_can_be_a_drive() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = sim(2, &setup);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let volume = start(envs, setup).await.remove(0);
        let drive = VolumeService::new(volume.clone()).as_drive();
        let member = platform::Member::new(volume.shard().env(), Rc::new(drive));
        let slices =
            [Buf::copy_of(&[1; 5000]).freeze(), Slice::zero(ByteCount(3000))].into_iter().collect();
        assert_eq!(
            member.write(ByteOffset(512), slices, Durability::Durable).await.result,
            Ok(8000)
        );
        let buffers =
            [Buf::unpooled(ByteCount(6000)), Buf::unpooled(ByteCount(2000))].into_iter().collect();
        let outcome = member.read(ByteOffset(512), buffers).await;
        assert_eq!(outcome.result, Ok(8000));
        let mut expected = vec![1u8; 5000];
        expected.resize(8000, 0);
        let got: Vec<u8> = outcome.buffers.iter().flat_map(|buf| buf.bytes().to_vec()).collect();
        assert!(got == expected);
        assert!(member.flush().await.result.is_ok());
    })
    .expect("no stall");
}

/// A write of a part of a sector reads the sector first. On RAID 0 a concurrent, acknowledged write
/// of the whole sector was lost outside that part, because only partial writes took the lock.
#[test]
fn a_write_of_part_of_a_sector_does_not_undo_one_of_the_whole() {
    for (level, drives) in [(Level::Raid0, 2), (Level::Raid1, 2), (Level::Raid5, 3)] {
        for seed in 0..400 {
            let setup = Setup::new(level, drives);
            let mut sim = sim(seed, &setup);
            let envs = envs(&sim, &setup);
            sim.run(async move {
                let env = envs[0].clone();
                let volume = start(envs, setup).await.remove(0);
                let (one, other) = (volume.clone(), volume.clone());
                let whole = env.spawn("whole", async move { write(&one, 4096, &[1; 512]).await });
                let part =
                    env.spawn("part", async move { write(&other, 4096 + 200, &[2; 100]).await });
                whole.await.expect("writable");
                part.await.expect("writable");
                let got = read(&volume, 4096, 512).await.expect("readable");
                assert!(
                    got[..200].iter().chain(&got[300..]).all(|byte| *byte == 1),
                    "{level:?}, seed {seed}"
                );
            })
            .expect("no stall");
        }
    }
}

/// A task of its own reported idle regions, and a write to the region could overtake it: the
/// controller received "mark" before "idle", and unmarked a region that was being written.
#[test]
fn a_write_that_marks_a_region_again_comes_after_the_news_that_it_was_quiet() {
    for seed in 0..60u64 {
        let setup = Setup::new(Level::Raid1, 2);
        let mut sim = sim(seed, &setup);
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let env = envs[0].clone();
            let (volume, marked) = start_noting_marks(&env, &setup).await;
            // The cleaner runs every 5 s; this host writes every 5 s too, as a journal's commit
            // does.
            for round in 2..7u64 {
                env.sleep_until(platform::Instant { ns: 5_000_000_000 * round }).await;
                write(&volume, 0, &[2; 4096]).await.expect("writable");
                env.sleep(std::time::Duration::from_millis(100)).await;
                assert!(marked.get(), "seed {seed}: a region that was just written is not marked");
            }
        })
        .expect("no stall");
    }
}

/// One shard with the volume; the test's controller only keeps the mark of its one region.
async fn start_noting_marks(env: &Env, setup: &Setup) -> (Rc<Volume>, Rc<Cell<bool>>) {
    let (reports, mut receiver) =
        platform::mailbox::mailbox::<engine::Report>(env, engine::REPORTS_OPEN);
    let seed = ShardSeed::new(env, 1);
    let sender = seed.sender();
    let shard = seed.start(ShardIndex(0), 1, reports);
    assert!(sender.send(ShardMessage::Peers(vec![sender.clone()])).is_ok());
    let (done, mut answers) = platform::mailbox::mailbox(env, 1);
    let attachment = setup.attachment(env).await;
    assert!(sender.send(ShardMessage::Attach(Box::new(attachment), done)).is_ok());
    answers.receive().await.expect("an answer").expect("attached");
    let marked = Rc::new(Cell::new(false));
    let noted = marked.clone();
    env.spawn("keeper", async move {
        while let Some(report) = receiver.receive().await {
            match &report.kind {
                engine::ReportKind::MarkDirty(_) => noted.set(true),
                engine::ReportKind::Quiet(_) => noted.set(false),
                _ => {}
            }
            let answer = ShardMessage::ReportDone { report: report.number, result: Ok(()) };
            assert!(sender.send(answer).is_ok());
        }
    });
    (shard.volume(VolumeId(1)).expect("attached"), marked)
}

/// Reads of parts of sectors held memory while they waited for runners, and runners held writes of
/// parts of sectors that waited for that memory: a deadlock.
#[test]
fn reads_and_writes_of_parts_of_sectors_do_not_wait_for_one_another_for_ever() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut options = SimOptions::seeded(1);
    options.memory = ByteCount(2 << 20);
    let mut sim = Sim::new(options);
    for drive in 0..4 {
        sim.add_drive(&format!("d{drive}"), DriveOptions::sized(MEMBER));
    }
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let env = envs[0].clone();
        let volume = start(envs, setup).await.remove(0);
        let stripe = volume.spec().geometry.stripe_bytes().0;
        let mut tasks = Vec::new();
        for i in 0..400u64 {
            let volume = volume.clone();
            let at = stripe * (1 + i % 15) - 700;
            tasks.push(
                env.spawn("write", async move { write(&volume, at, &[7; 1400]).await.map(drop) }),
            );
        }
        for i in 0..64u64 {
            let volume = volume.clone();
            tasks.push(
                env.spawn(
                    "read",
                    async move { read(&volume, 100 + i, stripe * 3).await.map(drop) },
                ),
            );
        }
        for task in tasks {
            task.await.expect("served");
        }
    })
    .expect("no stall");
}

/// A late FastPath write was repeated as a planned write. The first one landed much later, over a
/// second write that had been acknowledged in between.
#[test]
fn a_write_that_takes_too_long_never_lands_over_a_later_one() {
    let setup = Setup::new(Level::Raid0, 2);
    let mut sim = sim(3, &setup);
    let drive = sim.drive("d0").expect("a drive");
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let env = envs[0].clone();
        let volume = start(envs, setup).await.remove(0);
        drive.stall_next(1, std::time::Duration::from_secs(40));
        let begun = env.now();
        write(&volume, 0, &[1; 4096])
            .await
            .expect("only this drive has the data: the write waits for it");
        assert!(env.now() - begun >= std::time::Duration::from_secs(40));
        let second = write(&volume, 0, &[2; 4096]).await;
        env.sleep(std::time::Duration::from_secs(20)).await;
        if second.is_ok() {
            assert!(
                read(&volume, 0, 4096).await.expect("readable") == [2; 4096],
                "overwritten by a late write"
            );
        }
    })
    .expect("no stall");
}
