//! Several volumes of different levels on the drives of one array.

use crate::common::events::{End, at_every_event, end};
use crate::common::{self, Bench, MIB, drive_options};
use controller::{Command, DriveState, ErrorKind, VolumeState};
use layout::{Level, Shape};
use platform::IoErrorKind;
use platform_sim::DriveOptions;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount};

const DRIVES: [&str; 3] = ["a", "b", "c"];

/// Drives with space for this many mebibytes of volumes.
fn bench(seed: u64, shards: usize, drives: &[&str], room_mib: u64) -> Bench {
    let mut bench = Bench::in_order(seed, shards, 0);
    bench.add_drives(drives, (32 + room_mib) * MIB);
    bench.boot(&[]);
    bench
}

fn delete(volume: &str) -> Command {
    Command::VolumeDelete { volume: volume.into(), disconnect_hosts: false }
}

#[test]
fn volumes_of_several_levels_lie_side_by_side_and_come_up_together() {
    let mut bench = bench(1, 2, &DRIVES, 12);
    let size =
        |mib: u64| move |create: &mut controller::CreateVolume| create.size_bytes = Some(mib * MIB);
    let first = bench.create_with("data", "raid5", &DRIVES, size(4)).unwrap();
    assert_eq!((first.member_bytes, first.array_free_bytes), (2 * MIB, 10 * MIB));
    // In another order, and by the name of another volume of the array.
    let second = bench.create_with("scratch", "raid0", &["c", "a", "b"], size(6)).unwrap();
    assert_eq!((second.data_start_bytes, second.member_bytes), (2 * MIB, 2 * MIB));
    let third = bench
        .create_with("safe", "raid1", &[], |create| {
            create.array = Some("scratch".into());
            create.strip_bytes = Some(4096);
        })
        .unwrap();
    assert_eq!(
        (third.data_start_bytes, third.member_bytes, third.array_free_bytes),
        (4 * MIB, 8 * MIB, 0)
    );
    assert_eq!(third.array_volumes, ["data", "scratch", "safe"]);
    assert!([&first, &second, &third].iter().all(|volume| volume.array == first.array));
    for (volume, byte) in [("data", 1), ("scratch", 2), ("safe", 3)] {
        bench.write(volume, 0, byte, 4 * MIB);
    }
    assert_eq!(bench.drive("b").volumes, ["data", "scratch", "safe"]);
    assert_eq!(bench.drive("safe:1"), bench.drive("b"));
    for restart in 0..2 {
        for (volume, byte) in [("data", 1), ("scratch", 2), ("safe", 3)] {
            bench.expect(volume, 0, byte, 4 * MIB);
            assert_eq!(bench.show(volume).state, VolumeState::Optimal, "{restart}");
        }
        if restart == 0 {
            bench.restart(&[]);
        } else {
            ["data", "safe"].iter().for_each(|volume| bench.settle(volume));
            assert_eq!(bench.shut_down(), Vec::<String>::new());
            bench.restart(&[]);
        }
    }
    let why = bench.create_with("more", "raid5", &DRIVES, |_| ()).unwrap_err().message;
    assert!(
        why.contains("there is no free space on the drives of 'data', 'scratch', 'safe'"),
        "{why}"
    );
    // The space of a deleted volume is reused by volumes that fit.
    bench.ask(delete("scratch")).unwrap();
    let why = bench.create_with("more", "raid5", &DRIVES, size(5)).unwrap_err().message;
    assert!(why.contains("5 MiB") && why.contains("free in one piece"), "{why}");
    let again = bench.create_with("more", "raid5", &DRIVES, size(2)).unwrap();
    assert_eq!((again.data_start_bytes, again.array_free_bytes), (2 * MIB, MIB));
    bench.expect("data", 0, 1, 4 * MIB);
    bench.expect("safe", 0, 3, 4 * MIB);
    // Deletion of the last volume deletes the array.
    for volume in ["data", "safe", "more"] {
        assert_eq!(bench.drive("a").state, DriveState::Online);
        bench.ask(delete(volume)).unwrap();
    }
    assert_eq!(bench.drive("a").state, DriveState::Unused);
    bench.create("new", "raid0", &["a", "b"]);
}

#[test]
fn sixty_four_volumes_on_one_array_are_told_apart() {
    let mut bench = bench(2, 1, &DRIVES, 64);
    let name = |number: u64| format!("volume-{number}");
    for number in 0..64 {
        let info = bench
            .create_with(
                &name(number),
                ["raid5", "raid1", "raid0"][number as usize % 3],
                &DRIVES,
                |create| {
                    create.size_bytes = Some(MIB);
                },
            )
            .unwrap();
        assert_eq!(info.data_start_bytes, number * MIB);
    }
    for number in 0..64 {
        bench.write(&name(number), 0, number as u8 + 1, MIB);
    }
    bench.restart(&[]);
    for number in 0..64 {
        bench.expect(&name(number), 0, number as u8 + 1, MIB);
    }
    bench.ask(crate::common::fail_drive("b")).unwrap_err();
    for number in (2..64).step_by(3) {
        bench.ask(delete(&name(number))).unwrap();
    }
    bench.ask(crate::common::fail_drive("b")).unwrap();
    for number in (0..64).filter(|number| number % 3 != 2) {
        assert_eq!(bench.show(&name(number)).state, VolumeState::Degraded);
        bench.expect(&name(number), 0, number as u8 + 1, MIB);
    }
}

#[test]
fn a_volume_is_not_laid_beside_others_on_an_array_that_is_not_whole_or_not_all_named() {
    let mut bench = bench(3, 1, &["a", "b", "c", "d"], 8);
    let small = |create: &mut controller::CreateVolume| create.size_bytes = Some(MIB);
    bench.create_with("data", "raid5", &DRIVES, small).unwrap();
    bench.settle("data");
    let refused = |bench: &mut Bench, drives: &[&str]| {
        let error = bench.create_with("more", "raid1", drives, small).unwrap_err();
        (error.kind, error.message)
    };
    let (kind, why) = refused(&mut bench, &["a", "b"]);
    assert!(kind == ErrorKind::InUse && why.contains("--array data"), "{why}");
    let (kind, why) = refused(&mut bench, &["a", "b", "c", "d"]);
    assert!(kind == ErrorKind::InUse && why.contains("drive a is drive 0 of 'data'"), "{why}");
    let (kind, why) = refused(&mut bench, &["a", "b", "b"]);
    assert!(kind == ErrorKind::InUse || why.contains("twice"), "{why}");
    let error =
        bench.create_with("more", "raid1", &["d"], |create| create.array = Some("data".into()));
    assert!(error.unwrap_err().message.contains("omit either the drives or the array"));
    let error =
        bench.create_with("more", "raid1", &[], |create| create.array = Some("none".into()));
    assert_eq!(error.unwrap_err().kind, ErrorKind::NotFound);
    let error =
        bench.create_with("more", "raid6", &[], |create| create.array = Some("data".into()));
    assert!(error.unwrap_err().message.contains("RAID 6 needs at least 4 drives"));
    bench.ask(crate::common::take_offline("a")).unwrap();
    let (kind, why) = refused(&mut bench, &DRIVES);
    assert!(kind == ErrorKind::WrongState && why.contains("is not complete"), "{why}");
}

/// Each volume has its own fault tolerance; a volume that goes offline loses no data when the drive
/// returns.
#[test]
fn what_one_volume_can_spare_another_may_not() {
    for how in ["fails", "is missing"] {
        let mut bench = bench(4, 1, &DRIVES, 8);
        let small = |create: &mut controller::CreateVolume| create.size_bytes = Some(3 * MIB);
        bench.create_with("data", "raid5", &DRIVES, small).unwrap();
        bench.create_with("scratch", "raid0", &DRIVES, small).unwrap();
        bench.write("data", 0, 1, 2 * MIB);
        bench.write("scratch", 0, 2, 2 * MIB);
        bench.settle("data");
        let data = ByteRange::new(ByteOffset::ZERO, ByteCount(8 * MIB));
        if how == "fails" {
            bench.sim.drive("b").unwrap().refuse_writes(data);
            bench.write("data", 0, 3, 65536 * 4);
            bench.sim.drive("b").unwrap().clear_write_errors();
            bench.wait(1);
        } else {
            bench.shut_down();
            bench.sim.drive("b").unwrap().vanish();
            bench.restart(&[]);
            bench.write("data", 0, 3, 65536 * 4);
        }
        assert_eq!(bench.show("data").state, VolumeState::Degraded, "{how}");
        let scratch = bench.show("scratch");
        assert_eq!(scratch.state, VolumeState::Offline, "{how}");
        assert!(
            scratch.reasons.iter().any(|why| why.contains("drive online")),
            "{how}: {:?}",
            scratch.reasons
        );
        assert!(bench.shards[0].volume_named("scratch").is_none());
        bench.settle("data");
        // The state stays over a restart, since the other volume recorded the drive as out.
        bench.restart(&[]);
        assert_eq!(bench.show("scratch").state, VolumeState::Offline, "{how}");
        if how != "fails" {
            bench.sim.drive("b").unwrap().come_back();
        }
        bench.ask(Command::DriveOnline { drive: "b".into() }).unwrap();
        let scratch = bench.show("scratch");
        assert_eq!(scratch.state, VolumeState::Optimal, "{how}: {:?}", scratch.reasons);
        bench.expect("scratch", 0, 2, 2 * MIB);
        bench.expect("data", 0, 3, 65536 * 4);
        bench.expect("data", 65536 * 4, 1, 2 * MIB - 65536 * 4);
    }
}

#[test]
fn every_level_is_created_served_and_survives_what_it_promises() {
    let names = common::names(8);
    for level in Level::ALL {
        for count in [1, 2, 3, 4, 5, 6, 8] {
            let shape = Shape::new(level, DriveCount(count as u16));
            if shape.check().is_err() {
                continue;
            }
            let drives: Vec<&str> = names[..count].iter().map(String::as_str).collect();
            let mut bench = bench(5, 1, &drives, 2);
            let info = bench
                .create_with("data", level.name(), &drives, |create| {
                    create.strip_bytes = Some(4096)
                })
                .unwrap();
            assert_eq!((info.level.as_str(), info.state), (level.name(), VolumeState::Optimal));
            let all = info.capacity_bytes;
            bench.write("data", 0, 9, all / 2);
            bench.settle("data");
            let mut left = info.may_lose_at_most;
            for drive in &drives {
                if bench
                    .ask(Command::DriveOffline {
                        drive: (*drive).into(),
                        accept_data_loss: false,
                        accepted: None,
                        dry_run: false,
                    })
                    .is_ok()
                {
                    left -= 1;
                    assert_eq!(
                        bench.show("data").may_lose_at_most,
                        left,
                        "{level} on {count} without {drive}"
                    );
                    bench.expect("data", 0, 9, all / 2);
                }
            }
            assert_eq!(left, 0, "{level} on {count}");
            bench.restart(&[]);
            bench.expect("data", 0, 9, all / 2);
            for drive in &drives {
                if bench.drive(drive).state != DriveState::Online {
                    bench.ask(Command::DriveOnline { drive: (*drive).into() }).unwrap();
                }
            }
            assert_eq!(bench.show("data").state, VolumeState::Optimal, "{level} on {count}");
        }
    }
}

#[test]
fn choices_that_a_level_does_not_leave_are_refused_with_a_sentence() {
    let mut bench = bench(6, 1, &["a", "b", "c", "d", "e", "f"], 2);
    let six = ["a", "b", "c", "d", "e", "f"];
    let mut refused = |level: &str, drives: &[&str], change: fn(&mut controller::CreateVolume)| {
        let error = bench.create_with("data", level, drives, change).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        error.message
    };
    assert!(refused("raid10", &six, |create| create.spans = Some(4)).contains("4 spans"));
    assert!(refused("raid5", &six, |create| create.spans = Some(2)).contains("2 spans"));
    assert!(refused("raid10", &six[..5], |_| ()).contains("5 drives"));
    assert!(refused("raid1", &six, |create| create.copies = Some(2)).contains("6 copies"));
    assert!(
        refused("raid5", &six, |create| create.arrangement = Some("near".into())).contains("near")
    );
    assert!(
        refused("raid1e", &six, |create| create.arrangement = Some("up".into()))
            .contains("near, offset, far")
    );
    assert!(
        refused("raid0", &six, |create| create.arrangement = Some("up".into()))
            .contains("has none")
    );
    assert!(refused("jbod", &six, |_| ()).contains("at most 1 drive, not 6"));
    let info = bench
        .create_with("data", "raid1e", &six, |create| create.arrangement = Some("far".into()))
        .unwrap();
    assert_eq!((info.arrangement.as_deref(), info.copies), (Some("far"), 2));
}

#[test]
fn a_second_volume_that_is_interrupted_in_the_making_is_whole_or_not_there() {
    for how in [End::Killed, End::PowerCut] {
        let prepare = || {
            let mut bench = bench(7, 1, &DRIVES, 6);
            bench
                .create_with("data", "raid5", &DRIVES, |create| create.size_bytes = Some(2 * MIB))
                .unwrap();
            bench.write("data", 0, 1, MIB);
            flush(&mut bench, "data");
            bench.settle("data");
            bench
        };
        let scene = |bench: &mut Bench| {
            let Command::VolumeCreate(mut wanted) = common::create("more", "raid5", &DRIVES) else {
                unreachable!()
            };
            wanted.size_bytes = Some(2 * MIB);
            bench.try_ask(Command::VolumeCreate(wanted)).ok()
        };
        at_every_event(3, how, prepare, scene, |bench, answered, event| {
            bench.boot(&[]);
            bench.expect("data", 0, 1, MIB);
            assert_eq!(bench.show("data").state, VolumeState::Optimal, "event {event}");
            let exists = bench.ask(Command::VolumeShow { volume: "more".into() }).is_ok();
            assert!(exists || answered.is_none(), "event {event}");
            if !exists {
                bench
                    .create_with("more", "raid5", &DRIVES, |create| {
                        create.size_bytes = Some(2 * MIB)
                    })
                    .unwrap();
            }
            bench.write("more", 0, 6, 2 * MIB);
            for volume in ["data", "more"] {
                bench.settle(volume);
            }
            for drive in DRIVES {
                bench
                    .ask(Command::DriveOffline {
                        drive: drive.into(),
                        accept_data_loss: false,
                        accepted: None,
                        dry_run: false,
                    })
                    .unwrap();
                bench.expect("data", 0, 1, MIB);
                bench.expect("more", 0, 6, 2 * MIB);
                bench.ask(Command::DriveOnline { drive: drive.into() }).unwrap();
            }
        });
    }
}

#[test]
fn the_deletion_of_one_of_two_that_is_interrupted_harms_the_other_in_no_way() {
    for how in [End::Killed, End::PowerCut] {
        let prepare = || {
            let mut bench = bench(8, 1, &DRIVES, 6);
            for (name, byte) in [("data", 1), ("more", 2)] {
                bench
                    .create_with(name, "raid5", &DRIVES, |create| create.size_bytes = Some(2 * MIB))
                    .unwrap();
                bench.write(name, 0, byte, MIB);
                flush(&mut bench, name);
            }
            bench.settle("more");
            bench.write("more", 0, 2, MIB);
            bench
        };
        let scene = |bench: &mut Bench| bench.try_ask(delete("more")).ok();
        at_every_event(1, how, prepare, scene, |bench, answered, event| {
            bench.boot(&[]);
            assert_eq!(bench.show("data").state, VolumeState::Optimal, "event {event}");
            bench.expect("data", 0, 1, MIB);
            match bench.ask(Command::VolumeShow { volume: "more".into() }) {
                Ok(_) => {
                    assert!(answered.is_none(), "event {event}");
                    assert_eq!(bench.show("more").state, VolumeState::Optimal, "event {event}");
                    bench.expect("more", 0, 2, MIB);
                }
                Err(_) => {
                    let size =
                        |create: &mut controller::CreateVolume| create.size_bytes = Some(2 * MIB);
                    let info = bench.create_with("more", "raid5", &DRIVES, size).unwrap();
                    assert_eq!(info.data_start_bytes, MIB, "event {event}");
                }
            }
            bench.expect("data", 0, 1, MIB);
        });
    }
}

fn flush(bench: &mut Bench, name: &str) {
    let volume = bench.shards[0].volume_named(name).unwrap();
    bench.sim.run(async move { volume.flush().await }).unwrap().unwrap();
}

/// A write to one volume while another one is created on the same array, and one is deleted.
#[test]
fn other_volumes_are_written_while_one_is_made_and_another_goes() {
    let mut bench = bench(9, 2, &DRIVES, 8);
    let size = |create: &mut controller::CreateVolume| create.size_bytes = Some(2 * MIB);
    bench.create_with("data", "raid5", &DRIVES, size).unwrap();
    for round in 0..5 {
        let volume = bench.shards[0].volume_named("data").unwrap();
        let env = volume.shard().env().clone();
        let writing = env.spawn("writes", async move {
            for at in 0..32 {
                let bytes = platform::Buf::copy_of(&vec![round + 1; 65536]).freeze();
                let range = ByteRange::new(ByteOffset(at * 65536), ByteCount(65536));
                volume.write(range, bytes, platform::Durability::Cached).await.unwrap();
            }
        });
        let name = format!("v{round}");
        bench
            .create_with(&name, "raid1", &[], |create| {
                create.array = Some("data".into());
                create.size_bytes = Some(MIB);
            })
            .unwrap();
        if round % 2 == 1 {
            bench.ask(delete(&name)).unwrap();
        }
        bench.sim.finish(&writing).unwrap();
        bench.expect("data", 0, round + 1, 2 * MIB);
    }
    end(&mut bench, End::Killed);
    bench.boot(&[]);
    bench.settle("data");
    bench.expect("data", 0, 5, 2 * MIB);
    for volume in ["v0", "v2", "v4"] {
        assert_eq!(bench.show(volume).state, VolumeState::Optimal);
    }
}

#[test]
fn a_drive_that_fails_while_a_second_volume_is_made_leaves_the_first_degraded_and_nothing_new() {
    let mut bench = bench(10, 1, &DRIVES, 6);
    bench
        .create_with("data", "raid5", &DRIVES, |create| create.size_bytes = Some(2 * MIB))
        .unwrap();
    bench.write("data", 0, 1, MIB);
    bench.settle("data");
    bench.sim.drive("c").unwrap().fail_next(1, Some("write"), IoErrorKind::Medium);
    let error = bench.create_with("more", "raid5", &DRIVES, |_| ()).unwrap_err();
    assert!(error.message.contains("nothing was created"), "{error}");
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    bench.refused(ErrorKind::NotFound, Command::VolumeShow { volume: "more".into() });
    bench.restart(&[]);
    bench.expect("data", 0, 1, MIB);
    bench.refused(ErrorKind::NotFound, Command::VolumeShow { volume: "more".into() });
}

#[test]
fn the_strip_of_a_volume_beside_others_follows_the_drives_too() {
    let mut bench = Bench::in_order(11, 1, 0);
    for name in ["r", "s"] {
        let options =
            DriveOptions { rotational: true, size: ByteCount(40 * MIB), ..drive_options() };
        bench.sim.add_drive(name, options);
    }
    bench.boot(&[]);
    let small = |create: &mut controller::CreateVolume| create.size_bytes = Some(MIB);
    assert_eq!(
        bench.create_with("disk", "raid1", &["r", "s"], small).unwrap().strip_bytes,
        256 << 10
    );
    assert_eq!(
        bench.create_with("more", "raid0", &["r", "s"], small).unwrap().strip_bytes,
        256 << 10
    );
}

/// A volume was initialised in an array during the rebuild of a replacement drive. The drive got
/// the writes to the new volume, but not the previous content of its regions: parity did not agree
/// once the drive had the slot.
#[test]
fn a_volume_that_is_made_while_a_drive_is_filled_is_whole_on_that_drive_too() {
    let mut bench = bench(9, 1, &["a", "b", "c", "d"], 40);
    let size =
        |mib: u64| move |create: &mut controller::CreateVolume| create.size_bytes = Some(mib * MIB);
    bench.create_with("data", "raid5", &DRIVES, size(64)).unwrap();
    // The space is not blank.
    bench.create_with("old", "raid5", &DRIVES, size(4)).unwrap();
    bench.write("old", 0, 5, 4 * MIB);
    bench.ask(delete("old")).unwrap();
    bench.settle("data");
    bench.write("data", 0, 7, 64 * MIB);
    let replace =
        Command::DriveReplace { drive: "a".into(), with: "d".into(), destroy_data: false };
    bench.ask(replace).unwrap();
    bench.create_with("new", "raid5", &DRIVES, size(4)).unwrap();
    bench.write("new", 0, 3, 4096);
    assert_eq!(bench.drive("data:0"), bench.drive("a"), "the other drive is being rebuilt");
    bench.settle("new");
    bench.wait(60);
    assert_eq!(bench.drive("data:0"), bench.drive("d"));
    let before = bench.try_read("new", 0, 4 * MIB).unwrap();
    for out in ["b", "c"] {
        bench
            .ask(Command::DriveOffline {
                drive: out.into(),
                accept_data_loss: false,
                accepted: None,
                dry_run: false,
            })
            .unwrap();
        assert!(bench.try_read("new", 0, 4 * MIB).unwrap() == before, "without drive {out}");
        bench.ask(Command::DriveOnline { drive: out.into() }).unwrap();
        bench.wait(60);
    }
}
