//! A volume on used drives tolerates the failures of its level from the first write on, over
//! crashes and at any progress of its initialisation; unwritten sectors read as zeros.

use crate::common::{Bench, MIB, drive_options, names};
use crate::first_losses::{flush, look, start_if_asked};
use controller::{Command, VolumeState};
use platform::Durability;
use platform_sim::{DriveOptions, Unwritten};
use units::{ByteCount, ByteOffset, ByteRange};

/// Levels and their drives.
const LEVELS: [(&str, usize); 9] = [
    ("raid1", 3),
    ("raid1e", 5),
    ("raid10", 4),
    ("raid4", 3),
    ("raid5", 4),
    ("raid5ee", 5),
    ("raid6", 5),
    ("raid50", 6),
    ("raid60", 8),
];

/// Used drives.
fn noisy(level: &str, drives: usize, shards: usize, size: u64) -> (Bench, Vec<String>) {
    let mut bench = Bench::new(level.len() as u64 + drives as u64, shards, 0);
    let names = names(drives);
    for name in &names {
        let (size, unwritten) = (ByteCount(size), Unwritten::Noise);
        bench.sim.add_drive(name, DriveOptions { size, unwritten, ..drive_options() });
    }
    bench.boot(&[]);
    (bench, names)
}

fn create(bench: &mut Bench, level: &str, drives: &[String]) {
    let drives: Vec<&str> = drives.iter().map(String::as_str).collect();
    bench
        .create_with("data", level, &drives, |wanted| wanted.destroy_data = true)
        .expect("the drives are free");
}

/// A host's writes: runs of bytes in several regions, and between them.
fn writes(capacity: u64) -> Vec<(u64, u8, u64)> {
    vec![
        (0, 1, 4096),
        (70_000, 2, 700),
        (capacity / 2, 3, 300_000),
        (capacity - 9000, 4, 8192),
        (capacity / 3, 5, 65_536),
    ]
}

fn fail(bench: &mut Bench, drive: &str) {
    bench
        .ask(Command::DriveFail {
            drive: drive.into(),
            accept_data_loss: false,
            accepted: None,
            dry_run: false,
        })
        .expect("the level tolerates it");
}

/// Drives fail one after the other, a spare takes over, and the controller is restarted in between.
/// A rebuild failed for a medium error that no drive had, and was not retried.
#[test]
fn a_rebuild_in_the_middle_of_the_initialisation_finishes() {
    for (level, drives) in LEVELS {
        let (mut bench, names) = noisy(level, drives, 1, 33 * MIB + (96 << 20));
        create(&mut bench, level, &names);
        let capacity = bench.show("data").capacity_bytes;
        for (at, byte, len) in writes(capacity) {
            bench.write("data", at, byte, len);
        }
        let (size, unwritten) = (ByteCount(33 * MIB + (96 << 20)), Unwritten::Noise);
        bench.sim.add_drive("new", DriveOptions { size, unwritten, ..drive_options() });
        fail(&mut bench, &names[0]);
        let replace = controller::Command::DriveReplace {
            drive: names[0].clone(),
            with: "new".into(),
            destroy_data: true,
        };
        bench.ask(replace).expect("the drive is replaced");
        bench.restart(&[]);
        bench.settle("data");
        fail(&mut bench, &names[1]);
        look(&mut bench, &writes(capacity), false, &format!("{level}, after the rebuild"));
    }
}

/// `explain` showed a read-modify-write where the first write of a stripe writes all of it, and
/// reads that no drive gets.
#[test]
fn explain_tells_of_stripes_that_no_host_has_written() {
    let (mut bench, names) = noisy("raid5", 4, 1, 33 * MIB + (512 << 20));
    create(&mut bench, "raid5", &names);
    let capacity = bench.show("data").capacity_bytes;
    bench.write("data", 0, 1, 4096);
    assert!(bench.show("data").initialisation.is_some(), "only the last stripe is left");
    let mut explain = |operation: &str, offset_bytes: u64| {
        let explain = controller::Explain {
            volume: Some("data".into()),
            operation: operation.into(),
            offset_bytes,
            size_bytes: 4096,
            ..controller::Explain::default()
        };
        match bench.ask(Command::Explain(explain)) {
            Ok(controller::Reply::Explained { text, .. }) => text,
            other => panic!("{other:?}"),
        }
    };
    assert!(explain("write", 0).contains("RMW: 4 drive I/Os"), "a host has written it");
    let first = explain("write", capacity - 4096);
    assert!(first.contains("recorded as initialised") && !first.contains("read "), "{first}");
    assert!(explain("read", capacity - 4096).contains("without drive I/O"));
}

/// A kill at any event of the first writes to a new volume: flushed data is there; every other
/// sector is zeros or the interrupted write, never the drive's old content.
#[test]
fn a_crash_during_a_first_write_leaves_zeros_or_what_was_written() {
    for (level, drives, survives) in [("raid5", 3, 1), ("raid1", 2, 1), ("raid6", 4, 2)] {
        for (step, power) in (0..60).zip([false, true].into_iter().cycle()) {
            let (mut bench, names) = noisy(level, drives, 1, 33 * MIB + (8 << 20));
            create(&mut bench, level, &names);
            bench.write("data", 40_000, 7, 512);
            flush(&mut bench);
            let volume = bench.shards[0].volume_named("data").expect("the volume is online");
            let data = platform::Buf::copy_of(&[9; 3000]).freeze();
            let range = ByteRange::new(ByteOffset(600), ByteCount(3000));
            let task = volume.shard().env().clone();
            let _writing = task
                .spawn("write", async move { volume.write(range, data, Durability::Cached).await });
            let until = bench.sim.now() + std::time::Duration::from_micros(40 * step);
            bench.sim.run_until(until).expect("no stall");
            bench.forget();
            if power {
                bench.sim.power_cut();
            }
            bench.sim.restart_process();
            let lost = step as usize % drives;
            for drive in (0..survives).map(|more| (lost + more) % drives) {
                bench.sim.drive(&names[drive]).expect("the drive exists").vanish();
            }
            bench.boot(&[]);
            start_if_asked(&mut bench);
            let why = format!("{level}, {step}, power cut: {power}, without {lost}");
            let got = bench.try_read("data", 0, 64 << 10).expect("readable");
            for (at, byte) in got.iter().enumerate() {
                let may = match at {
                    600..3600 => *byte == 0 || *byte == 9,
                    40_000..40_512 => *byte == 7,
                    _ => *byte == 0,
                };
                assert!(may, "{why}: {byte} at {at}");
            }
        }
    }
}

/// No drive has the record of initialised stripes: no host data is taken for zeros, and redundancy
/// is recomputed.
#[test]
fn a_record_that_no_drive_can_read_costs_a_resync_and_no_data() {
    let (mut bench, names) = noisy("raid5", 3, 1, 33 * MIB + (96 << 20));
    create(&mut bench, "raid5", &names);
    let capacity = bench.show("data").capacity_bytes;
    for (at, byte, len) in writes(capacity) {
        bench.write("data", at, byte, len);
    }
    bench.shut_down();
    let tail = ondisk::Tail::of(ByteCount(33 * MIB + (96 << 20))).expect("a tail");
    for name in &names {
        for copy in 0..2 {
            let place = tail.blocks(ondisk::Area::PartlyInitialised, copy, 0, 1);
            bench.sim.drive(name).expect("the drive exists").make_unreadable(place);
        }
    }
    bench.restart(&[]);
    assert!(bench.has_event("no drive records which stripes of 'data' are initialised"));
    bench.settle("data");
    for (at, byte, len) in writes(capacity) {
        bench.expect("data", at, byte, len);
    }
    fail(&mut bench, "b");
    for (at, byte, len) in writes(capacity) {
        bench.expect("data", at, byte, len);
    }
}

/// Changes the initialisation record in a drive's label.
fn relabel(bench: &Bench, drive: &str, change: impl Fn(&mut ondisk::Label)) {
    let drive = bench.sim.drive(drive).expect("the drive exists");
    let mut seen = ondisk::foreign::Glimpse::new(drive.size());
    let carried = loop {
        if let ondisk::Found::Carried(carried) = ondisk::find(&seen) {
            break carried;
        }
        let wanted = seen.wanted();
        assert!(!wanted.is_empty(), "the drive has a label");
        wanted
            .into_iter()
            .for_each(|range| seen.put(range, Some(drive.read_true(range.start, range.len))));
    };
    let mut label = carried.label().expect("a member's").clone();
    change(&mut label);
    label.generation += 1;
    let structure = carried.drive.clone().expect("it is the drive's own label");
    let site =
        ondisk::ddf::Site::of(drive.size(), units::SectorSize::B512).expect("there is space");
    let told = ondisk::Telling::of(&label).and_then(|telling| telling.told(&site, label.drive));
    let steps = told
        .expect("the label is written")
        .steps(drive.size(), Some(&structure))
        .expect("the update is valid");
    for step in steps {
        if let ondisk::ddf::Step::Write { at, bytes } = step {
            drive.poke(at, &bytes);
        }
    }
}

/// A label written during a start could leave the record of initialised stripes out: all stripes
/// counted as initialised, and the redundancy of unwritten ones was trusted, though it was the
/// drives' old content.
#[test]
fn a_label_that_leaves_the_record_out_costs_a_resync_and_no_data() {
    for (starts, lacks_drive) in [(1, false), (2, false), (1, true)] {
        let when = format!("start {starts}, without a drive: {lacks_drive}");
        let (mut bench, names) = noisy("raid5", 4, 1, 33 * MIB + (96 << 20));
        create(&mut bench, "raid5", &names);
        let capacity = bench.show("data").capacity_bytes;
        for (at, byte, len) in writes(capacity) {
            bench.write("data", at, byte, len);
        }
        flush(&mut bench);
        bench.forget();
        bench.sim.restart_process();
        names
            .iter()
            .for_each(|name| relabel(&bench, name, |label| label.initialisation_blocks = None));
        if lacks_drive {
            bench.sim.drive("c").expect("the drive exists").vanish();
        }
        bench.boot(&[]);
        for _ in 1..starts {
            bench.restart(&[]);
        }
        let text = "no drive records which stripes of 'data' are initialised";
        assert_eq!(bench.show("data").state == VolumeState::Offline, lacks_drive, "{when}");
        if lacks_drive {
            // No journal covers parity that was never computed: the operator is asked.
            bench.start_accepting("data");
            assert!(bench.has_event(text), "{when}");
        } else {
            assert!(bench.has_event(text), "{when}");
            assert_eq!(
                bench.show("data").may_lose,
                0,
                "{when}: parity is not used before it is computed"
            );
            bench.settle("data");
            bench.write("data", capacity / 4, 6, 4096);
            fail(&mut bench, "c");
            bench.expect("data", capacity / 4, 6, 4096);
        }
        writes(capacity)
            .into_iter()
            .for_each(|(at, byte, len)| bench.expect("data", at, byte, len));
    }
}

/// The memory of the cache was lost in the same boot, and an operator gave it up. The label update
/// for that was written before the start had read the record of initialised stripes, and said that
/// there is none: all stripes counted as initialised, whatever the drives had held.
#[test]
fn what_an_operator_gives_up_before_a_start_leaves_the_record() {
    let (mut bench, names) = noisy("raid5", 4, 1, 33 * MIB + (96 << 20));
    bench.cache_size = ByteCount(MIB);
    bench.restart(&[]);
    let drives: Vec<&str> = names.iter().map(String::as_str).collect();
    let change = |wanted: &mut controller::CreateVolume| {
        (wanted.destroy_data, wanted.write_mode) = (true, Some(controller::WriteMode::WriteBack));
    };
    let capacity = bench
        .create_with("data", "raid5", &drives, change)
        .expect("the drives are free")
        .capacity_bytes;
    for (at, byte, len) in writes(capacity) {
        bench.write("data", at, byte, len);
    }
    flush(&mut bench);
    bench.forget();
    bench.sim.restart_process();
    let env = bench.sim.env();
    let forgotten = bench.sim.run(async move { env.world().forget_kept_memory("cache").await });
    forgotten.expect("no stall").expect("the memory exists");
    bench.boot(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Offline, "the volume waits for the memory");
    bench
        .ask(Command::LogDiscard(controller::DiscardLog::lacking("data")))
        .expect("the memory is gone");
    start_if_asked(&mut bench);
    look(&mut bench, &writes(capacity), false, "the memory is given up");
    bench.restart(&[]);
    look(&mut bench, &writes(capacity), false, "after another start");
}

/// During a first write a drive is missing, and another one takes its slot. As long as the write
/// was not recorded its region counted as uninitialised, and the new drive as current there: hosts
/// read its old content.
#[test]
fn a_drive_that_takes_a_slot_lacks_what_is_being_written_first() {
    for (level, drives) in [("raid5", 3), ("raid1", 2), ("raid6", 4)] {
        for step in 0..16 {
            let size = 33 * MIB + (96 << 20);
            let (mut bench, names) = noisy(level, drives, 1, size);
            create(&mut bench, level, &names);
            let (size, unwritten) = (ByteCount(size), Unwritten::Noise);
            bench.sim.add_drive("new", DriveOptions { size, unwritten, ..drive_options() });
            bench
                .ask(Command::DriveAdd { drive: "new".into(), size_bytes: None })
                .expect("the drive is registered");
            fail(&mut bench, &names[0]);
            // The background initialisation has not reached the last region.
            let written = (bench.show("data").capacity_bytes - 400_000, 9, 300_000);
            let (at, byte, len) = written;
            let (drive, with) = (names[0].clone(), "new".into());
            let replaced =
                bench.begin_ask(Command::DriveReplace { drive, with, destroy_data: true });
            let until = bench.sim.now() + std::time::Duration::from_micros(60 * step);
            bench.sim.run_until(until).expect("no stall");
            let writing = bench.begin_write("data", at, byte, len);
            bench.sim.finish(&replaced).expect("no stall").expect("the drive is replaced");
            bench.sim.finish(&writing).expect("no stall").expect("the write succeeds");
            look(
                &mut bench,
                &[written],
                false,
                &format!("{level}, written {step} steps after the order"),
            );
        }
    }
}
