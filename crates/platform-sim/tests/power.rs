//! The content of a drive after a power cut, a kill or a removal.

mod common;
use common::{SECTOR, flush, open, range, read, write};
use platform::{Buf, Durability, ErrorKind, IoErrorKind, IoRequest, Member};
use platform_sim::{DriveOptions, Latency, Sim, SimDrive, SimOptions};
use smallvec::smallvec;
use units::{ByteCount, ByteOffset, SectorSize};

const SEEDS: u64 = 200;

fn sim_with_drive(seed: u64, options: DriveOptions) -> (Sim, SimDrive) {
    let mut sim = Sim::new(SimOptions::seeded(seed));
    let drive = sim.add_drive("a", options);
    (sim, drive)
}

fn small() -> DriveOptions {
    DriveOptions::sized(ByteCount::MIB)
}

/// The value of each sector: sectors are never torn.
fn sector_values(drive: &SimDrive, count: u64) -> Vec<u8> {
    (0..count)
        .map(|sector| {
            let bytes =
                drive.peek(ByteOffset(sector * SECTOR), ByteCount(SECTOR)).expect("readable");
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a torn sector");
            bytes[0]
        })
        .collect()
}

#[test]
fn flushed_and_durable_writes_always_survive_a_power_cut_and_cached_ones_sometimes() {
    let (mut kept, mut lost, mut mixed) = (0, 0, 0);
    for seed in 0..SEEDS {
        let (mut sim, drive) = sim_with_drive(seed, small());
        let env = sim.env();
        sim.run(async move {
            let drive = open(&env, "a").await;
            write(&drive, 0, &[1; 8192], Durability::Cached).await.unwrap();
            flush(&drive).await.unwrap();
            write(&drive, 8192, &[2; 4096], Durability::Durable).await.unwrap();
            write(&drive, 16384, &[3; 4096], Durability::Cached).await.unwrap();
        })
        .unwrap();
        assert!(drive.is_unflushed(range(16384, 512)) && !drive.is_unflushed(range(0, 16384)));
        sim.power_cut();
        let values = sector_values(&drive, 40);
        assert!(values[..16].iter().all(|value| *value == 1), "flushed: {values:?}");
        assert!(values[16..24].iter().all(|value| *value == 2), "durable: {values:?}");
        match values[32..].iter().filter(|value| **value == 3).count() {
            0 => lost += 1,
            8 => kept += 1,
            _ => mixed += 1,
        }
        assert_eq!(drive.unflushed_writes(), 0, "what survived is on the medium now");
    }
    assert!(kept > 10 && lost > 10 && mixed > 10, "kept {kept}, lost {lost}, mixed {mixed}");
}

#[test]
fn a_sector_written_often_is_left_with_any_one_of_its_values() {
    let mut seen = [0; 6];
    for seed in 0..SEEDS {
        let (mut sim, drive) = sim_with_drive(seed, small());
        let env = sim.env();
        sim.run(async move {
            let drive = open(&env, "a").await;
            write(&drive, 0, &[1; 512], Durability::Cached).await.unwrap();
            flush(&drive).await.unwrap();
            for value in 2..6 {
                write(&drive, 0, &[value; 512], Durability::Cached).await.unwrap();
            }
        })
        .unwrap();
        sim.power_cut();
        seen[sector_values(&drive, 1)[0] as usize] += 1;
    }
    assert_eq!(seen[0], 0, "the flushed value is the oldest possible");
    assert!(seen[1..].iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn flushing_an_older_cached_write_does_not_undo_a_later_durable_one() {
    for seed in 0..SEEDS {
        let (mut sim, drive) = sim_with_drive(seed, small());
        let env = sim.env();
        sim.run(async move {
            let drive = open(&env, "a").await;
            write(&drive, 0, &[1; 512], Durability::Cached).await.unwrap();
            // The flush covers only the first write; the second may well complete before the flush.
            let flushing = drive.flush();
            write(&drive, 0, &[2; 512], Durability::Durable).await.unwrap();
            flushing.await.result.unwrap();
        })
        .unwrap();
        assert_eq!(drive.read_durable(ByteOffset(0), ByteCount(1)), [2]);
        drive.power_cut();
        assert_eq!(sector_values(&drive, 1), [2]);
    }
}

#[test]
fn a_flush_covers_what_was_complete_when_it_started_and_no_more() {
    let mut lost = 0;
    for seed in 0..SEEDS {
        let (mut sim, drive) = sim_with_drive(seed, small());
        let env = sim.env();
        sim.run(async move {
            let drive = open(&env, "a").await;
            let slices = smallvec![Buf::copy_of(&[1; 512]).freeze()];
            let writing = drive.write(ByteOffset(0), slices, Durability::Cached);
            flush(&drive).await.unwrap();
            writing.await.result.unwrap();
        })
        .unwrap();
        drive.power_cut();
        lost += u32::from(sector_values(&drive, 1) == [0]);
    }
    assert!(lost > 20, "a write in flight at the flush is not covered by it; lost {lost} times");
}

#[test]
fn lying_drives_are_noticed() {
    for (durability, lie) in [
        (Durability::Cached, SimDrive::ignore_flush as fn(&SimDrive, bool)),
        (Durability::Durable, SimDrive::ignore_durable),
    ] {
        let mut lost = 0;
        for seed in 0..SEEDS {
            let (mut sim, drive) = sim_with_drive(seed, small());
            lie(&drive, true);
            let env = sim.env();
            sim.run(async move {
                let drive = open(&env, "a").await;
                write(&drive, 0, &[1; 512], durability).await.unwrap();
                if durability == Durability::Cached {
                    flush(&drive).await.unwrap();
                }
            })
            .unwrap();
            sim.power_cut();
            lost += u32::from(sector_values(&drive, 1) == [0]);
        }
        assert!(lost > 20, "{durability:?}: lost {lost}");
    }
}

#[test]
fn a_write_in_flight_at_a_power_cut_lands_whole_in_part_or_not_at_all() {
    for (cut, name) in [(Sim::power_cut as fn(&mut Sim), "power cut"), (Sim::kill, "kill")] {
        let (mut none, mut all, mut torn) = (0, 0, 0);
        for seed in 0..SEEDS {
            let (mut sim, drive) = sim_with_drive(seed, small());
            let env = sim.env();
            env.clone().spawn("writer", async move {
                let drive = open(&env, "a").await;
                write(&drive, 0, &[1; 8192], Durability::Cached).await.unwrap();
            });
            while drive.in_flight() == 0 {
                sim.step();
            }
            cut(&mut sim);
            assert_eq!(drive.in_flight(), 0);
            match sector_values(&drive, 16).iter().filter(|value| **value == 1).count() {
                0 => none += 1,
                16 => all += 1,
                _ => torn += 1,
            }
        }
        assert!(none > 10 && all > 10 && torn > 10, "{name}: {none} {all} {torn}");
    }
}

#[test]
fn large_sectors_are_never_torn() {
    for seed in 0..SEEDS {
        let options = DriveOptions {
            logical_sector: SectorSize::B4096,
            latency: Latency::range_us(50, 500),
            ..small()
        };
        let (mut sim, drive) = sim_with_drive(seed, options);
        let env = sim.env();
        env.clone().spawn("writer", async move {
            let drive = open(&env, "a").await;
            assert_eq!(
                write(&drive, 512, &[1; 512], Durability::Cached).await,
                Err(IoErrorKind::Invalid)
            );
            write(&drive, 0, &[1; 65536], Durability::Cached).await.unwrap();
            write(&drive, 0, &[2; 65536], Durability::Cached).await.unwrap();
        });
        while drive.stats().started < 3 {
            sim.step();
        }
        sim.power_cut();
        for sector in 0..16 {
            let bytes = drive.peek(ByteOffset(sector * 4096), ByteCount(4096)).unwrap();
            assert!(bytes.iter().all(|byte| *byte == bytes[0]));
        }
    }
}

#[test]
fn a_killed_process_leaves_the_cache_of_its_drives_and_the_next_one_finds_it() {
    let (mut sim, drive) = sim_with_drive(1, small());
    let env = sim.env();
    sim.run(async move {
        let drive = open(&env, "a").await;
        write(&drive, 0, &[1; 4096], Durability::Cached).await.unwrap();
    })
    .unwrap();
    let before = sim.now();
    sim.kill();
    assert!(!sim.is_alive());
    let env = sim.restart_process();
    let back = sim.run(async move { read(&open(&env, "a").await, 0, 4096).await }).unwrap();
    assert_eq!(back.unwrap(), [1; 4096]);
    assert!(drive.is_unflushed(range(0, 4096)) && sim.now() > before);
}

#[test]
fn a_drive_serves_one_controller_at_a_time_under_whatever_name() {
    let (mut sim, drive) = sim_with_drive(1, small());
    sim.alias_drive(&drive, "other path");
    let env = sim.env();
    let held = sim
        .run(async move {
            let first = env.world().open_drive("a").await.unwrap();
            let second = env.world().open_drive("other path").await.err().expect("is locked");
            assert_eq!(second.kind, ErrorKind::InUse);
            assert!(second.context.contains("other path"), "{second}");
            drop(first);
            let again = env.world().open_drive("other path").await.unwrap();
            assert_eq!(again.info().identity.0, "sim:a");
            let missing = env.world().open_drive("b").await.err().unwrap();
            assert_eq!(missing.kind, ErrorKind::NotFound);
            again
        })
        .unwrap();
    // The end of a process releases a leaked lock.
    let env = sim.restart_process();
    sim.run(async move { drop(env.world().open_drive("a").await.unwrap()) }).unwrap();
    drop(held);
}

#[test]
fn a_failed_drive_returns_everything_as_gone_and_a_returned_one_must_be_opened_again() {
    let (mut sim, drive) = sim_with_drive(4, small());
    let env = sim.env();
    let hand = drive.clone();
    sim.run(async move {
        let member = open(&env, "a").await;
        write(&member, 0, &[1; 4096], Durability::Cached).await.unwrap();
        let writing = member.write(
            ByteOffset(4096),
            smallvec![Buf::copy_of(&[1; 4096]).freeze()],
            Durability::Cached,
        );
        hand.vanish();
        assert_eq!(writing.await.result.unwrap_err().kind, IoErrorKind::Gone);
        assert_eq!(read(&member, 0, 4096).await, Err(IoErrorKind::Gone));
        assert_eq!(env.world().open_drive("a").await.err().unwrap().kind, ErrorKind::NotFound);
        hand.come_back();
        assert_eq!(
            read(&member, 0, 4096).await,
            Err(IoErrorKind::Gone),
            "the old attachment stays unusable"
        );
        let again = open(&env, "a").await;
        assert_eq!(read(&again, 0, 4096).await.unwrap(), [1; 4096]);
        assert_eq!(member.outstanding(), 0);
    })
    .unwrap();
}

#[test]
fn medium_errors_stay_until_the_sector_is_rewritten_and_come_back_if_that_is_lost() {
    let mut returned = 0;
    for seed in 0..SEEDS {
        let (mut sim, drive) = sim_with_drive(seed, small());
        drive.poke(ByteOffset(0), &[9; 4096]);
        drive.make_unreadable(range(1024, 512));
        let env = sim.env();
        sim.run(async move {
            let drive = open(&env, "a").await;
            assert_eq!(read(&drive, 0, 4096).await, Err(IoErrorKind::Medium));
            assert_eq!(read(&drive, 0, 1024).await.unwrap(), [9; 1024]);
            assert_eq!(read(&drive, 1536, 512).await.unwrap(), [9; 512]);
            write(&drive, 1024, &[1; 512], Durability::Cached).await.unwrap();
            assert_eq!(read(&drive, 1024, 512).await.unwrap(), [1; 512]);
        })
        .unwrap();
        drive.power_cut();
        match drive.peek(ByteOffset(1024), ByteCount(512)) {
            Some(bytes) => assert_eq!(bytes, [1; 512]),
            None => {
                returned += 1;
                assert_eq!(
                    drive.read_true(ByteOffset(1024), ByteCount(512)),
                    [9; 512],
                    "the true content remains"
                );
            }
        }
    }
    assert!((20..180).contains(&returned), "{returned}");
}

#[test]
fn rot_reads_without_an_error_and_does_not_touch_the_truth() {
    let (mut sim, drive) = sim_with_drive(1, small());
    drive.poke(ByteOffset(0), &[9; 4096]);
    drive.rot(range(512, 512));
    let env = sim.env();
    sim.run(async move {
        let drive = open(&env, "a").await;
        let bytes = read(&drive, 0, 4096).await.unwrap();
        assert_eq!((&bytes[..512], &bytes[1024..]), (&[9; 512][..], &[9; 3072][..]));
        assert!(bytes[512..1024].iter().all(|byte| *byte != 9));
        assert_eq!(
            read(&drive, 512, 512).await.unwrap(),
            bytes[512..1024],
            "the same wrong bytes again"
        );
    })
    .unwrap();
    assert_eq!(drive.read_true(ByteOffset(0), ByteCount(4096)), [9; 4096]);
    drive.heal(range(0, 4096));
    assert_eq!(drive.peek(ByteOffset(0), ByteCount(4096)).unwrap(), [9; 4096]);
}

#[test]
fn an_image_is_what_the_drive_held_and_goes_to_another_simulation() {
    let (mut sim, drive) = sim_with_drive(1, small());
    drive.poke(ByteOffset(0), &[1; 4096]);
    let image = drive.snapshot();
    drive.poke(ByteOffset(0), &[2; 4096]);
    assert_eq!(image.read(ByteOffset(0), ByteCount(512)), [1; 512]);
    let mut other = Sim::new(SimOptions::seeded(2));
    let copy = other.add_drive_with("copy", small(), &image);
    assert_eq!(copy.peek(ByteOffset(0), ByteCount(512)).unwrap(), [1; 512]);
    drop(other);
    assert_eq!(drive.peek(ByteOffset(0), ByteCount(512)).unwrap(), [2; 512]);
    drive.restore(&image);
    assert_eq!(drive.peek(ByteOffset(0), ByteCount(512)).unwrap(), [1; 512]);
    sim.kill();
}

#[test]
fn a_bounded_cache_writes_back_what_does_not_fit() {
    let (mut sim, drive) = sim_with_drive(1, DriveOptions { cache: ByteCount(16384), ..small() });
    let env = sim.env();
    sim.run(async move {
        let drive = open(&env, "a").await;
        for at in 0..8 {
            write(&drive, at * 4096, &[1; 4096], Durability::Cached).await.unwrap();
        }
    })
    .unwrap();
    assert_eq!(drive.unflushed_writes(), 4);
    assert_eq!(drive.read_durable(ByteOffset(0), ByteCount(16384)), vec![1; 16384]);
    assert_eq!(drive.read_durable(ByteOffset(16384), ByteCount(16384)), vec![0; 16384]);
}

#[test]
fn a_drive_without_a_cache_loses_nothing_that_was_completed() {
    for seed in 0..50 {
        let (mut sim, drive) =
            sim_with_drive(seed, DriveOptions { cache: ByteCount::ZERO, ..small() });
        let env = sim.env();
        sim.run(async move {
            write(&open(&env, "a").await, 0, &[1; 4096], Durability::Cached).await.unwrap();
        })
        .unwrap();
        sim.power_cut();
        assert_eq!(sector_values(&drive, 8), [1; 8]);
    }
}

#[test]
fn zeroes_and_trims_read_as_they_should_and_hollow_buffers_pass() {
    let (mut sim, drive) = sim_with_drive(1, small());
    drive.poke(ByteOffset(0), &[7; 65536]);
    let env = sim.env();
    sim.run(async move {
        let drive = open(&env, "a").await;
        let start = |request| drive.start(request);
        let zeroes = |may_unmap, range| IoRequest::WriteZeroes {
            range,
            may_unmap,
            durability: Durability::Cached,
        };
        start(zeroes(true, range(0, 4096))).await.result.unwrap();
        start(zeroes(false, range(4096, 4096))).await.result.unwrap();
        start(IoRequest::Trim { range: range(8192, 4096) }).await.result.unwrap();
        assert_eq!(read(&drive, 0, 12288).await.unwrap(), [0; 12288]);
        let status = start(IoRequest::Status { range: range(0, 16384) }).await.extents;
        let holes: Vec<u64> = status.iter().map(|extent| extent.len.0).collect();
        assert_eq!(holes, [4096, 4096, 4096, 4096], "hole, zeroes written, hole, data: {status:?}");
        let hollow = smallvec![
            platform::Slice::hollow(ByteCount(4096)),
            platform::Slice::zero(ByteCount(512))
        ];
        assert_eq!(
            drive.write(ByteOffset(16384), hollow, Durability::Cached).await.result.unwrap(),
            4608
        );
        let outcome = drive.read(ByteOffset(16384), smallvec![Buf::hollow(ByteCount(4096))]).await;
        assert_eq!(outcome.result.unwrap(), 4096);
        assert!(outcome.buffers[0].is_hollow());
        assert_eq!(
            read(&drive, 16384, 512).await.unwrap(),
            [7; 512],
            "data-less writes change nothing"
        );
        assert_eq!(read(&drive, 20480, 512).await.unwrap(), [0; 512]);
        let past_end =
            drive.read(ByteOffset(1 << 20), smallvec![Buf::unpooled(ByteCount(512))]).await;
        assert_eq!(past_end.result.unwrap_err().kind, IoErrorKind::Invalid);
    })
    .unwrap();
}

#[test]
fn ordered_failures_hit_what_they_name_as_often_as_they_say() {
    let (mut sim, drive) = sim_with_drive(1, small());
    drive.fail_next(2, Some("write"), IoErrorKind::OutOfSpace);
    let env = sim.env();
    sim.run(async move {
        let drive: Member = open(&env, "a").await;
        assert!(read(&drive, 0, 512).await.is_ok());
        for expected in [Err(IoErrorKind::OutOfSpace), Err(IoErrorKind::OutOfSpace), Ok(512)] {
            assert_eq!(write(&drive, 0, &[1; 512], Durability::Cached).await, expected);
        }
    })
    .unwrap();
}

#[test]
fn what_was_written_durably_over_cached_writes_is_the_oldest_value_a_cut_can_leave() {
    let mut seen = [0; 4];
    for seed in 0..SEEDS {
        let (mut sim, drive) = sim_with_drive(seed, small());
        drive.make_unreadable(range(0, 512));
        let env = sim.env();
        sim.run(async move {
            let drive = open(&env, "a").await;
            write(&drive, 0, &[1; 512], Durability::Cached).await.unwrap();
            write(&drive, 0, &[2; 512], Durability::Durable).await.unwrap();
            write(&drive, 0, &[3; 512], Durability::Cached).await.unwrap();
        })
        .unwrap();
        sim.power_cut();
        // Readable: the durable write repaired the medium error durably.
        seen[sector_values(&drive, 1)[0] as usize] += 1;
    }
    assert!(seen[..2] == [0, 0] && seen[2] > 20 && seen[3] > 20, "{seen:?}");
}
