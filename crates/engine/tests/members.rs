//! Drives that are replaced, rebuilt and made current while the volume is online.

use crate::common::{
    self, Bench, NewDrive, PACE, Setup, VOLUME, begin, data, drive, envs, open, parity, pattern,
    read, regions, slots, write,
};
use engine::{
    Attachment, Change, RegionSet, ReportKind, Seat, ShardMessage, TaskKind, TaskOutcome,
};
use layout::Level;
use platform::Durability;
use platform_sim::{DriveOptions, Sim, SimOptions, Unwritten};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet};

const SECOND: Duration = Duration::from_secs(1);

fn change(
    slot: u16,
    source: Option<std::sync::Arc<dyn platform::DriveSource>>,
    health: DriveSet,
) -> NewDrive {
    // Small volumes have one region.
    let stale = RegionSet::first(1);
    NewDrive { slot: DriveIndex(slot), source, stale, in_service: health }
}

#[test]
fn a_drive_is_replaced_under_load_and_nobody_notices() {
    for (level, drives) in
        [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)]
    {
        for seed in 0..2 {
            let setup = Setup { shards: 2, ..Setup::new(level, drives) };
            let mut sim = setup.sim(seed, 1);
            let (old, new) = (drive(&sim, 1), drive(&sim, drives));
            let envs = envs(&sim, &setup);
            sim.run(async move {
                let bench = Bench::start(envs, &setup).await;
                let capacity = bench.volume().spec().capacity.0;
                let stop = Rc::new(Cell::new(false));
                let (finished, mut finishes) = platform::mailbox::mailbox(&bench.env, 4);
                for worker in 0..4u64 {
                    let (volume, stop) = (bench.volumes[worker as usize % 2].clone(), stop.clone());
                    let (start, len) = (capacity / 4 * worker, capacity / 4);
                    let finished = finished.clone();
                    // Each writer is a task of its volume's shard.
                    volume.shard().env().clone().spawn("writer", async move {
                        let mut round = 0;
                        while !stop.get() {
                            round += 1;
                            let bytes = pattern(round, len);
                            write(&volume, start, &bytes).await.expect("writable");
                            let got = read(&volume, start, len).await.expect("readable");
                            assert!(got == bytes, "round {round} of writer {worker} differs");
                        }
                        assert!(finished.send((worker, round)).is_ok());
                    });
                }
                bench.wait(SECOND / 100).await;
                let source = open(&bench.env, setup.drives).await;
                let swap = |done| {
                    let change = change(1, Some(source.clone()), bench.health);
                    change.message(done)
                };
                bench.tell(swap).await;
                let (before, writes) = (old.snapshot(), old.stats().writes);
                bench.wait(SECOND / 50).await;
                assert_eq!(old.stats().writes, writes, "a removed drive gets no writes");
                drop(before);
                stop.set(true);
                let mut rounds = [0; 4];
                for _ in 0..4 {
                    let (worker, round): (u64, u64) =
                        finishes.receive().await.expect("every worker ends");
                    rounds[worker as usize] = round;
                }
                let expected: Vec<u8> =
                    rounds.iter().flat_map(|round| pattern(*round, capacity / 4)).collect();
                assert_eq!(new.stats().reads, 0, "stale blocks are not read");
                let len = expected.len() as u64;
                assert!(read(bench.volume(), 0, len).await.expect("readable") == expected);
            })
            .expect("no stall");
        }
    }
}

/// Rule (d): a drive that did not respond may still hold the operation after its time limit.
#[test]
fn a_swap_is_answered_when_the_old_drive_has_returned_everything() {
    let setup = Setup::new(Level::Raid1, 2);
    let mut sim = setup.sim(3, 1);
    let old = drive(&sim, 1);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Rc::new(Bench::start(envs, &setup).await);
        write(bench.volume(), 0, &[1; 4096]).await.expect("writable");
        old.hold();
        // The drive has failed, and still holds the write.
        write(bench.volume(), 0, &[2; 4096]).await.expect("the other mirror takes the write");
        assert_eq!(bench.volume().recorded_state().in_service(), slots(&[0]));
        let (asked, answered) = (bench.clone(), Rc::new(Cell::new(false)));
        let told = answered.clone();
        let swap = bench.env.spawn("swap", async move {
            let health = asked.volume().recorded_state().in_service();
            asked.tell(|done| change(1, None, health).message(done)).await;
            told.set(true);
        });
        bench.wait(SECOND * 100).await;
        assert!(!answered.get(), "a late write may still land");
        old.release();
        swap.await;
    })
    .expect("no stall");
}

/// Writes without redundancy may overlap, and the drive determines their order. While a replacement
/// was being filled, both writes went to both drives, and the last one differed. After the
/// replacement had taken the slot, a host read overwritten data.
#[test]
fn writes_that_overlap_end_alike_on_a_drive_and_its_replacement() {
    let setup = Setup::new(Level::Raid0, 2);
    let mut sim = setup.sim(3, 1);
    let (home, at) = data(&setup, 0, 0);
    let (old, new) = (drive(&sim, home), drive(&sim, 2));
    let envs = envs(&sim, &setup);
    let slow = old.clone();
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let source = open(&bench.env, setup.drives).await;
        let began = Change::ReplacementBegan { slot: DriveIndex(home), left: RegionSet::EMPTY };
        bench
            .tell(|done| {
                ShardMessage::Apply(VOLUME, began.clone(), Some(source.clone()), Some(done))
            })
            .await;
        slow.stall_next(1, SECOND / 5);
        let first = common::begin(bench.volume(), 0, 1);
        bench.wait(SECOND / 1000).await;
        let second = common::begin(bench.volume(), 0, 2);
        bench.wait(SECOND).await;
        assert_eq!((first.get(), second.get()), (Some(true), Some(true)));
    })
    .expect("no stall");
    let holds = |drive: &platform_sim::SimDrive| {
        drive.peek(ByteOffset(at), ByteCount(512)).expect("readable")
    };
    assert!(
        holds(&old) == holds(&new),
        "{} on the drive, {} on its replacement",
        holds(&old)[0],
        holds(&new)[0]
    );
}

/// Writes the whole volume during a rebuild; returns its content.
async fn fill(bench: &Bench, slot: u16, spare: u16) -> Vec<u8> {
    let source = open(&bench.env, spare).await;
    let set = |done| {
        ShardMessage::Apply(
            VOLUME,
            Change::ReplacementBegan { slot: DriveIndex(slot), left: RegionSet::EMPTY },
            Some(source.clone()),
            Some(done),
        )
    };
    bench.tell(set).await;
    let capacity = bench.volume().spec().capacity.0;
    let mut bytes = pattern(9, capacity);
    write(bench.volume(), 0, &bytes).await.expect("writable");
    // Parts of sectors, zeros.
    write(bench.volume(), 5000, &[3; 777]).await.expect("writable");
    bytes[5000..5777].fill(3);
    let zeroes = common::range(20_000, 9000);
    bench.volume().write_zeroes(zeroes, Durability::Cached).await.expect("writable");
    bytes[20_000..29_000].fill(0);
    bench.volume().flush().await.expect("flushed");
    bytes
}

#[test]
fn a_drive_that_is_filled_gets_every_write_and_takes_the_slot() {
    for (level, drives) in [
        (Level::Jbod, 1),
        (Level::Raid0, 3),
        (Level::Raid1, 2),
        (Level::Raid5, 4),
        (Level::Raid6, 4),
    ] {
        let setup = Setup::new(level, drives);
        let mut sim = setup.sim(3, 1);
        let (old, new) = (drive(&sim, 0), drive(&sim, drives));
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let bytes = fill(&bench, 0, setup.drives).await;
            let size = setup.geometry().member_size();
            let holds = |drive: &platform_sim::SimDrive| drive.read_durable(ByteOffset::ZERO, size);
            assert!(holds(&old) == holds(&new), "{level:?}: the drives differ, or are not flushed");
            assert_eq!(new.stats().reads, 0, "the new drive is not in use yet");
            bench
                .tell(|done| {
                    ShardMessage::Apply(
                        VOLUME,
                        Change::Promoted { slot: DriveIndex(0), stale: RegionSet::EMPTY },
                        None,
                        Some(done),
                    )
                })
                .await;
            old.fail_now();
            let len = bytes.len() as u64;
            assert!(read(bench.volume(), 0, len).await.expect("readable") == bytes);
            write(bench.volume(), 0, &bytes[..50_000]).await.expect("writable");
            assert_eq!(bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. })), 0);
        })
        .expect("no stall");
    }
}

#[test]
fn a_drive_that_fails_while_it_is_filled_fails_no_host() {
    let setup = Setup::new(Level::Raid0, 3);
    let mut sim = setup.sim(3, 1);
    let new = drive(&sim, 3);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let mut bytes = fill(&bench, 0, 3).await;
        new.fail_now();
        write(bench.volume(), 0, &[5; 40_000]).await.expect("the slot's drive takes the write");
        bytes[..40_000].fill(5);
        bench.volume().flush().await.expect("the slot's drives are flushed");
        assert_eq!(bench.count(|kind| matches!(kind, ReportKind::ReplacementFailed { .. })), 1);
        assert_eq!(bench.count(|kind| matches!(kind, ReportKind::DriveFailed { .. })), 0);
        assert!(read(bench.volume(), 0, bytes.len() as u64).await.expect("readable") == bytes);
        // The shards have dropped the drive at the controller's request: there is nothing to
        // promote.
        let promote = |done| {
            ShardMessage::Apply(
                VOLUME,
                Change::Promoted { slot: DriveIndex(0), stale: RegionSet::EMPTY },
                None,
                Some(done),
            )
        };
        assert!(bench.ask(promote).await.is_err());
    })
    .expect("no stall");
}

/// A drive in a rebuild was dropped with a write in progress, and sometimes another drive was
/// rebuilt instead. When the write failed at last, it was reported for the drive then being
/// rebuilt, or for the drive in the slot.
#[test]
fn a_write_to_a_drive_that_is_filled_no_more_is_charged_to_no_other() {
    for is_another_filled in [false, true] {
        let setup = Setup::new(Level::Raid0, 3);
        let mut sim = setup.sim(3, 2);
        let new = drive(&sim, 3);
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            fill(&bench, 0, 3).await;
            new.hold();
            let written = begin(bench.volume(), 0, 5);
            bench.wait(SECOND).await;
            assert_eq!(written.get(), None, "the drive being rebuilt holds the write");
            let slot = DriveIndex(0);
            let ended = ShardMessage::Apply(VOLUME, Change::ReplacementEnded { slot }, None, None);
            assert!(bench.senders[0].send(ended).is_ok());
            if is_another_filled {
                let next = open(&bench.env, 4).await;
                let began = Change::ReplacementBegan { slot, left: RegionSet::EMPTY };
                let message = |done| {
                    ShardMessage::Apply(VOLUME, began.clone(), Some(next.clone()), Some(done))
                };
                bench.tell(message).await;
            }
            bench.wait(60 * SECOND).await;
            assert_eq!(written.get(), Some(true));
            assert_eq!(bench.count(|kind| matches!(kind, ReportKind::ReplacementFailed { .. })), 0);
            assert_eq!(read(bench.volume(), 0, 512).await.expect("readable"), [5; 512]);
        })
        .expect("no stall");
    }
}

/// A drive failed on a shard, and a write was planned without its slot. Before the failure was
/// recorded, the replacement took the slot, without that write. The failure must be counted against
/// both drives, or the stale block is read.
#[test]
fn a_drive_that_takes_a_slot_which_writes_passed_over_lacks_them() {
    let setup = Setup::new(Level::Raid1, 2);
    let mut sim = setup.sim(5, 1);
    let old = drive(&sim, 0);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        fill(&bench, 0, 2).await;
        bench.is_deaf.set(true);
        old.vanish();
        let asked_of_all = begin(bench.volume(), 0, 5);
        bench.wait(SECOND).await;
        let planned_without = begin(bench.volume(), 8192, 6);
        bench.wait(SECOND).await;
        let promoted = Change::Promoted { slot: DriveIndex(0), stale: RegionSet::EMPTY };
        bench.tell(|done| ShardMessage::Apply(VOLUME, promoted.clone(), None, Some(done))).await;
        assert_eq!(
            (asked_of_all.get(), planned_without.get()),
            (None, None),
            "no failure is recorded"
        );
        bench.is_deaf.set(false);
        bench.wait(SECOND).await;
        assert_eq!((asked_of_all.get(), planned_without.get()), (Some(true), Some(true)));
        let failed = |kind: &ReportKind| match kind {
            ReportKind::DriveFailed { swaps, .. } => Some(*swaps),
            _ => None,
        };
        let failed: Vec<u64> = bench.reports.borrow().iter().filter_map(failed).collect();
        assert_eq!(failed, [0, 1], "the old drive, and the new one that lacks a write");
        for _ in 0..4 {
            assert_eq!(read(bench.volume(), 8192, 512).await.expect("readable"), [6; 512]);
        }
    })
    .expect("no stall");
}

#[test]
fn a_stale_drive_is_neither_read_nor_written_until_it_is_current() {
    for (level, drives) in [(Level::Raid1, 2), (Level::Raid5, 4)] {
        let setup = Setup::new(level, drives);
        let mut sim = setup.sim(3, 0);
        let back = drive(&sim, 1);
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let attachment = setup.attachment(&envs[0]).await;
            let state = attachment.state.clone().with_stale(DriveIndex(1), &RegionSet::first(1));
            let bench = Bench::attach(envs, Attachment { state, ..attachment }).await;
            let capacity = bench.volume().spec().capacity.0;
            let bytes = pattern(1, capacity);
            write(bench.volume(), 0, &bytes).await.expect("writable");
            assert!(read(bench.volume(), 0, capacity).await.expect("readable") == bytes);
            for at in (0..capacity).step_by(4096) {
                let got = read(bench.volume(), at, 512).await.expect("readable");
                assert!(got == bytes[at as usize..][..512]);
            }
            assert_eq!((back.stats().reads, back.stats().writes), (0, 0), "{level:?}");
            assert!(
                bench.volume().counters().fast_path > 0,
                "current blocks are read from their drive"
            );
            for sender in &bench.senders {
                let regions = RegionSet::first(1);
                assert!(
                    sender
                        .send(ShardMessage::Apply(
                            VOLUME,
                            Change::Current { slot: DriveIndex(1), regions },
                            None,
                            None
                        ))
                        .is_ok()
                );
            }
            bench.wait(SECOND).await;
            write(bench.volume(), 0, &bytes).await.expect("writable");
            assert!(back.stats().writes > 0, "the drive is current now");
        })
        .expect("no stall");
    }
}

/// A drive's strips were in the distributed spare, and were copied back to its replacement while
/// yet another drive was being rebuilt for the slot. They went to that drive only: when it was
/// dropped, the strips were lost.
#[test]
fn what_comes_back_from_the_distributed_spare_reaches_the_drive_and_its_successor() {
    let setup = Setup::new(Level::Raid5ee, 5);
    let mut sim = setup.sim(19, 2);
    let victim = drive(&sim, 1);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let (volume, slot) = (bench.volume().clone(), DriveIndex(1));
        let bytes = pattern(1, volume.spec().capacity.0);
        write(&volume, 0, &bytes).await.expect("writable");
        victim.fail_now();
        assert!(read(&volume, 0, bytes.len() as u64).await.expect("redundant") == bytes);
        bench.begin(TaskKind::Relocate { slot }, PACE).await;
        bench.ended().await;
        let moved = |to_spare| Change::Moved { slot, regions: regions(&setup), to_spare };
        bench.tell(|done| ShardMessage::Apply(VOLUME, moved(true), None, Some(done))).await;
        let all = slots(&[0, 1, 2, 3, 4]);
        let change = NewDrive {
            slot,
            source: Some(open(&bench.env, 5).await),
            stale: RegionSet::EMPTY,
            in_service: all,
        };
        bench.tell(|done| change.message(done)).await;
        let successor = open(&bench.env, 6).await;
        bench
            .tell(|done| {
                ShardMessage::Apply(
                    VOLUME,
                    Change::ReplacementBegan { slot, left: RegionSet::EMPTY },
                    Some(successor.clone()),
                    Some(done),
                )
            })
            .await;
        bench.begin(TaskKind::Restore { slot }, PACE).await;
        while bench.outcomes().len() < 2 {
            bench.wait(SECOND).await;
        }
        assert_eq!(bench.outcomes(), [TaskOutcome::Done; 2]);
        bench.tell(|done| ShardMessage::Apply(VOLUME, moved(false), None, Some(done))).await;
        assert!(read(&volume, 0, bytes.len() as u64).await.expect("readable") == bytes);
        bench
            .tell(|done| {
                ShardMessage::Apply(
                    VOLUME,
                    Change::Promoted { slot, stale: RegionSet::EMPTY },
                    None,
                    Some(done),
                )
            })
            .await;
        assert!(read(&volume, 0, bytes.len() as u64).await.expect("readable") == bytes);
    })
    .expect("no stall");
}

/// A planned write waited for memory; meanwhile a blank drive took a slot. The plan read that drive
/// as if it held the old drive's content: parity, and the blocks computed for the new drive, were
/// wrong from then on.
#[test]
fn a_plan_that_waits_for_memory_is_not_about_a_drive_that_takes_a_slot_meanwhile() {
    let setup = Setup::new(Level::Raid5, 4);
    let options = SimOptions { memory: ByteCount(512 << 10), ..SimOptions::seeded(1) };
    let mut sim = Sim::new(options);
    for number in 0..5 {
        sim.add_drive(
            &format!("d{number}"),
            DriveOptions { unwritten: Unwritten::Noise, ..DriveOptions::sized(setup.member) },
        );
    }
    let (held, envs) = (drive(&sim, 0), envs(&sim, &setup));
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let strip = setup.strip.bytes().0;
        let bytes = pattern(3, bench.volume().spec().capacity.0);
        for (index, part) in bytes.chunks(16 << 10).enumerate() {
            write(bench.volume(), (index as u64) * (16 << 10), part).await.expect("writable");
        }
        let strips = |stripe: u64| (0..3u16).map(move |index| (stripe, index));
        let drives =
            |(stripe, index): (u64, u16)| [data(&setup, stripe, index).0, parity(&setup, stripe).0];
        let at = move |(stripe, index): (u64, u16)| (stripe * 3 + u64::from(index)) * strip;
        let all: Vec<(u64, u16)> = (0..setup.geometry().stripes().0).flat_map(strips).collect();
        let last =
            all.iter().copied().find(|place| drives(*place) == [1, 2]).expect("parity rotates");
        // All memory is taken by writes that wait for a drive, in other stripes.
        held.hold();
        for place in
            all.iter().copied().filter(|place| drives(*place).contains(&0) && place.0 != last.0)
        {
            let volume = bench.volume().clone();
            bench.env.spawn("waits", async move {
                write(&volume, at(place), &vec![8; strip as usize]).await.expect("writable");
            });
        }
        bench.wait(SECOND / 100).await;
        let volume = bench.volume().clone();
        let written = bench.env.spawn("the last one", async move {
            let bytes = vec![9; strip as usize];
            write(&volume, at(last), &bytes).await
        });
        bench.wait(SECOND / 100).await;
        let source = open(&bench.env, 4).await;
        let health = bench.health;
        bench
            .tell(|done| {
                let change = change(1, Some(source.clone()), health);
                change.message(done)
            })
            .await;
        held.release();
        written.await.expect("writable");
        let got = read(bench.volume(), at(last), strip).await.expect("readable");
        assert!(got.iter().all(|byte| *byte == 9), "{} instead of 9", got[0]);
    })
    .expect("no stall");
}

/// The same for a read that is computed. The new drive's content at that offset is noise.
#[test]
fn a_read_that_waits_for_memory_is_not_of_a_drive_that_takes_a_slot_meanwhile() {
    let setup = Setup::new(Level::Raid6, 5);
    let options = SimOptions { memory: ByteCount(512 << 10), ..SimOptions::seeded(1) };
    let mut sim = Sim::new(options);
    for number in 0..6 {
        let options =
            DriveOptions { unwritten: Unwritten::Noise, ..DriveOptions::sized(setup.member) };
        sim.add_drive(&format!("d{number}"), options);
    }
    let (held, lost, envs) = (drive(&sim, 0), drive(&sim, 3), envs(&sim, &setup));
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let strip = setup.strip.bytes().0;
        let all = bench.volume().spec().capacity.0;
        for at in (0..all).step_by(16 << 10) {
            write(bench.volume(), at, &pattern(at, (16 << 10).min(all - at)))
                .await
                .expect("writable");
        }
        lost.fail_now();
        let places: Vec<(u64, u16)> = (0..setup.geometry().stripes().0)
            .flat_map(|stripe| (0..3).map(move |index| (stripe, index)))
            .collect();
        let at = move |(stripe, index): (u64, u16)| (stripe * 3 + u64::from(index)) * strip;
        let of_lost = |place: &(u64, u16)| data(&setup, place.0, place.1).0 == 3;
        let mut lost_ones = places.iter().copied().filter(of_lost);
        let first = lost_ones.next().expect("every drive has data");
        let (last, expected) = {
            // The first read reveals the failure, the other one runs while a drive is replaced.
            read(bench.volume(), at(first), strip).await.expect("readable");
            let last = lost_ones.next_back().expect("there are several reads");
            (last, read(bench.volume(), at(last), strip).await.expect("readable"))
        };
        held.hold();
        for place in places.iter().copied().filter(|place| place.0 != last.0) {
            let volume = bench.volume().clone();
            bench.env.spawn("waits", async move {
                write(&volume, at(place), &vec![8; strip as usize]).await.expect("writable");
            });
        }
        bench.wait(SECOND / 100).await;
        let volume = bench.volume().clone();
        let got =
            bench.env.spawn("the last one", async move { read(&volume, at(last), strip).await });
        bench.wait(SECOND / 100).await;
        let source = open(&bench.env, 5).await;
        let health = bench.volume().recorded_state().in_service();
        bench
            .tell(|done| {
                let change = change(1, Some(source.clone()), health);
                change.message(done)
            })
            .await;
        held.release();
        assert!(got.await.expect("readable") == expected, "the report is about the new drive");
    })
    .expect("no stall");
}

/// A drive that did not respond in time still holds its operations. The shards forgot them when the
/// volume was detached, and the controller could not tell when the drive was free: a late write
/// landed on newer data. The shards report each such drive; the detach does not wait for it.
#[test]
fn a_volume_is_let_go_of_before_its_drives_have_returned_everything() {
    let setup = Setup { shards: 2, ..Setup::new(Level::Raid5, 4) };
    let mut sim = setup.sim(31, 1);
    let held = drive(&sim, 1);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let source = open(&bench.env, 4).await;
        let fill = |done| {
            ShardMessage::Apply(
                VOLUME,
                Change::ReplacementBegan { slot: DriveIndex(0), left: RegionSet::EMPTY },
                Some(source.clone()),
                Some(done),
            )
        };
        bench.tell(fill).await;
        held.hold();
        let (volume, len) = (bench.volume().clone(), bench.volume().spec().capacity.0);
        drop(bench.env.spawn("writer", async move { write(&volume, 0, &pattern(1, len)).await }));
        bench.wait(SECOND).await;
        let seats = |slot| [Seat::Slot(DriveIndex(slot)), Seat::Replacement(DriveIndex(slot))];
        let all: Vec<Seat> = (0..4).flat_map(seats).collect();
        let (mut asked, mut answers) = (Vec::new(), Vec::new());
        for seat in all.iter().copied() {
            let (done, told) = platform::mailbox::mailbox::<Result<(), String>>(&bench.env, 2);
            asked.push((seat, done));
            answers.push((seat, told, 0));
        }
        let mut quiet = move || -> Vec<Seat> {
            for (_, told, count) in &mut answers {
                while told.try_receive().is_some() {
                    *count += 1;
                }
            }
            answers.iter().filter(|(.., count)| *count == 2).map(|(seat, ..)| *seat).collect()
        };
        let began = bench.env.now();
        bench.tell(|done| ShardMessage::Detach(VOLUME, asked.clone(), done)).await;
        let took = bench.env.now().since(began);
        assert!(
            took > 28 * SECOND && took < 70 * SECOND,
            "operations in progress have their time limit: {took:?}"
        );
        bench.wait(600 * SECOND).await;
        let others: Vec<Seat> =
            all.iter().copied().filter(|seat| *seat != Seat::Slot(DriveIndex(1))).collect();
        assert_eq!(quiet(), others);
        held.release();
        bench.wait(SECOND).await;
        assert_eq!(quiet(), all);
        let writes = held.stats().writes;
        bench.wait(60 * SECOND).await;
        assert_eq!(held.stats().writes, writes, "no late write lands there");
    })
    .expect("no stall");
}
