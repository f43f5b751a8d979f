//! Wrong input: one clear message with the value for each, and no change.

use crate::common::{self, Bench, DRIVE, MIB, create, drive_options, volume};
use controller::{Command, CreateVolume, DriveState, ErrorKind, Explain, Reply, VolumeState};
use platform_sim::DriveOptions;
use units::{ByteCount, ByteOffset, SectorSize};

fn bench() -> Bench {
    let mut bench = Bench::new(1, 1, 4);
    bench.boot(&[]);
    bench
}

/// A refused creation; returns the message. The drives must be unchanged and free.
fn refused(bench: &mut Bench, kind: ErrorKind, change: impl FnOnce(&mut CreateVolume)) -> String {
    let mut wanted = CreateVolume {
        name: "data".into(),
        level: "raid5".into(),
        drives: vec!["a".into(), "b".into(), "c".into()],
        ..CreateVolume::default()
    };
    change(&mut wanted);
    let all = ["a", "b", "c", "d"];
    let written =
        |bench: &Bench| all.map(|name| bench.sim.drive(name).map(|drive| drive.stats().writes));
    let before = written(bench);
    let sentence = bench.refused(kind, Command::VolumeCreate(wanted));
    assert_eq!(written(bench), before, "a drive was written: {sentence}");
    assert!(
        sentence.len() > 20 && !sentence.ends_with('.') && !sentence.contains('\n'),
        "{sentence}"
    );
    sentence
}

#[test]
fn names_levels_strips_and_sizes_that_cannot_be() {
    let mut bench = bench();
    for name in ["", "a/b", "-x", "a b", "ä", &"x".repeat(65)] {
        let why = refused(&mut bench, ErrorKind::Invalid, |create| create.name = name.into());
        assert!(why.contains(&format!("'{name}'")), "{why}");
    }
    let why = refused(&mut bench, ErrorKind::Invalid, |create| create.level = "raid7".into());
    assert!(why.contains("'raid7'") && why.contains("raid0, raid00, raid1, raid1e, "), "{why}");
    let why = refused(&mut bench, ErrorKind::Invalid, |create| create.drives.truncate(2));
    assert!(why.contains("RAID 5 needs at least 3 drives, not 2"), "{why}");
    let why =
        refused(&mut bench, ErrorKind::Invalid, |create| create.drives = vec!["x".into(); 300]);
    assert!(why.contains("300") || why.contains("fewer"), "{why}");
    let why = refused(&mut bench, ErrorKind::Invalid, |create| create.strip_bytes = Some(48 << 10));
    assert!(why.contains("48 KiB") && why.contains("power of two"), "{why}");
    let why =
        refused(&mut bench, ErrorKind::Invalid, |create| create.arrangement = Some("up".into()));
    assert!(why.contains("'up'") && why.contains("left-symmetric"), "{why}");
    let why = refused(&mut bench, ErrorKind::Invalid, |create| {
        create.level = "raid0".into();
        create.arrangement = Some("left-symmetric".into());
    });
    assert!(why.contains("RAID 0 has none"), "{why}");
    let why = refused(&mut bench, ErrorKind::Invalid, |create| create.size_bytes = Some(1 << 30));
    assert!(why.contains("1 GiB") && why.contains("RAID 5 has on these drives"), "{why}");
    let why = refused(&mut bench, ErrorKind::Invalid, |create| create.size_bytes = Some(1000));
    assert!(why.contains("1000 bytes"), "{why}");
    refused(&mut bench, ErrorKind::Invalid, |create| create.size_bytes = Some(0));
}

#[test]
fn a_size_below_what_there_is_is_kept_exactly() {
    let mut bench = bench();
    let wanted = CreateVolume {
        size_bytes: Some(MIB + 512),
        ..match create("data", "raid5", &["a", "b", "c"]) {
            Command::VolumeCreate(create) => create,
            other => panic!("{other:?}"),
        }
    };
    let (info, _) = volume(bench.ask(Command::VolumeCreate(wanted)));
    assert_eq!(info.capacity_bytes, MIB + 512);
    bench.write("data", MIB, 1, 512);
    assert!(bench.try_read("data", MIB + 512, 512).is_err());
}

#[test]
fn a_name_that_is_taken() {
    let mut bench = bench();
    bench.create("data", "raid1", &["a", "b"]);
    let why = bench.refused(ErrorKind::NameTaken, create("data", "raid1", &["c", "d"]));
    assert!(why.contains("'data' exists already"), "{why}");
    bench.create("more", "raid1", &["c", "d"]);
    let rename = Command::VolumeSet { volume: "more".into(), name: "data".into() };
    bench.refused(ErrorKind::NameTaken, rename);
}

#[test]
fn drives_that_cannot_be_opened_or_written() {
    let mut bench = bench();
    let why =
        refused(&mut bench, ErrorKind::Unavailable, |create| create.drives[1] = "/nowhere".into());
    assert!(why.contains("/nowhere"), "{why}");
    let why = bench.refused(
        ErrorKind::Unavailable,
        Command::DriveAdd { drive: "/nowhere".into(), size_bytes: None },
    );
    assert!(why.contains("/nowhere"), "{why}");
    bench.sim.add_drive("ro", DriveOptions { read_only: true, ..drive_options() });
    let why = refused(&mut bench, ErrorKind::Unavailable, |create| create.drives[2] = "ro".into());
    assert!(why.contains("drive ro is read-only"), "{why}");
    bench.sim.add_drive("small", DriveOptions { size: ByteCount(32 * MIB), ..drive_options() });
    let why = refused(&mut bench, ErrorKind::Invalid, |create| create.drives[2] = "small".into());
    assert!(why.contains("drive small is too small") && why.contains("32 MiB"), "{why}");
    let why = refused(&mut bench, ErrorKind::Invalid, |create| create.drives[2] = "mem:17".into());
    assert!(why.contains("mem:17"), "{why}");
    let why = refused(&mut bench, ErrorKind::Invalid, |create| create.drives[2] = String::new());
    assert!(why.contains("needs a name"), "{why}");
    // Drives opened for a refused creation are free again.
    let listed = bench.ask(Command::DriveList {});
    assert!(matches!(listed, Ok(Reply::Drives { drives }) if drives.is_empty()));
    bench.create("data", "raid5", &["a", "b", "c"]);
}

#[test]
fn one_drive_under_two_names() {
    let mut bench = bench();
    let why = refused(&mut bench, ErrorKind::Invalid, |create| create.drives[1] = "a".into());
    assert!(why.contains("named twice"), "{why}");
    let drive = bench.sim.drive("a").unwrap();
    bench.sim.alias_drive(&drive, "other");
    // The controller itself holds the lock: the second of the two names finds the drive in use.
    let why = refused(&mut bench, ErrorKind::InUse, |create| create.drives[1] = "other".into());
    assert!(why.contains("in use by this process"), "{why}");
}

#[test]
fn a_drive_that_belongs_to_a_volume() {
    let mut bench = bench();
    bench.create("data", "raid1", &["a", "b"]);
    bench.wait(20);
    let why = refused(&mut bench, ErrorKind::InUse, |create| {
        create.name = "more".into();
        create.drives = vec!["c".into(), "d".into(), "b".into()];
    });
    assert!(why.contains("drive b is drive 1 of 'data'"), "{why}");
    let why = refused(&mut bench, ErrorKind::InUse, |create| {
        create.name = "more".into();
        create.drives = vec!["c".into(), "d".into(), "data:0".into()];
        create.destroy_data = true;
    });
    assert!(
        why.contains("'data'"),
        "even --destroy-data takes no drive from an online volume: {why}"
    );
}

#[test]
fn a_drive_with_the_label_of_an_incomplete_volume_is_only_taken_when_that_may_be_lost() {
    let mut bench = bench();
    bench.create("old", "raid0", &["a", "b"]);
    bench.wait(20);
    bench.shut_down();
    bench.sim.drive("b").unwrap().vanish();
    bench.sim.remove_stored("drives.toml");
    bench.restart(&[]);
    let why = refused(&mut bench, ErrorKind::HoldsData, |_| ());
    assert!(why.contains("drive a holds a part of the volume 'old'"), "{why}");
    // A registered drive gives the same message.
    bench.ask(Command::DriveAdd { drive: "a".into(), size_bytes: None }).unwrap();
    assert_eq!(bench.show("old").state, VolumeState::Offline);
    let why = refused(&mut bench, ErrorKind::InUse, |create| {
        create.drives = ["a", "c", "d"].map(Into::into).into()
    });
    assert!(why.contains("drive 0 of 'old'"), "{why}");
    let wanted = CreateVolume {
        name: "new".into(),
        level: "raid5".into(),
        drives: ["a", "c", "d"].map(Into::into).into(),
        destroy_data: true,
        ..CreateVolume::default()
    };
    let (info, _) = volume(bench.ask(Command::VolumeCreate(wanted)));
    assert_eq!(info.state, VolumeState::Optimal);
    bench.refused(ErrorKind::NotFound, Command::VolumeShow { volume: "old".into() });
    bench.restart(&[]);
    assert_eq!(bench.show("new").state, VolumeState::Optimal);
}

#[test]
fn a_drive_with_a_file_system_or_partitions() {
    let mut bench = bench();
    let mut ext4 = vec![0_u8; 4096];
    ext4[0x438..0x43A].copy_from_slice(&[0x53, 0xEF]);
    ext4[0x400..0x404].copy_from_slice(&1000_u32.to_le_bytes());
    ext4[0x404..0x408].copy_from_slice(&8000_u32.to_le_bytes());
    ext4[0x44C..0x450].copy_from_slice(&1_u32.to_le_bytes());
    ext4[0x460..0x464].copy_from_slice(&0x40_u32.to_le_bytes());
    bench.sim.drive("b").unwrap().poke(ByteOffset::ZERO, &ext4);
    let why = refused(&mut bench, ErrorKind::HoldsData, |_| ());
    assert!(
        why.contains("drive b holds") && why.contains("ext") && why.contains("--destroy-data"),
        "{why}"
    );
    let wanted = CreateVolume {
        name: "data".into(),
        level: "raid5".into(),
        drives: ["a", "b", "c"].map(Into::into).into(),
        destroy_data: true,
        ..CreateVolume::default()
    };
    bench.ask(Command::VolumeCreate(wanted)).unwrap();
}

#[test]
fn a_label_of_an_earlier_version_is_refused_by_its_number_and_not_overwritten_unasked() {
    let mut bench = bench();
    let tail = ondisk::Tail::of(ByteCount(DRIVE)).unwrap();
    let mut slot = vec![0_u8; 4096];
    slot[..12].copy_from_slice(b"SoftROC\0\x02\0\0\0");
    bench.sim.drive("c").unwrap().poke(tail.start(), &slot);
    let why = refused(&mut bench, ErrorKind::HoldsData, |_| ());
    assert!(why.contains("drive c holds a SoftROC label that cannot be used"), "{why}");
    bench.ask(Command::DriveAdd { drive: "c".into(), size_bytes: None }).unwrap();
    let info = bench.drive("c");
    assert_eq!(info.state, DriveState::Refused);
    let why = info.reason.unwrap();
    assert!(why.contains("version 2") && why.contains("versions 3 to 6"), "{why}");
}

#[test]
fn drives_of_different_sizes_and_sectors_make_a_volume_that_says_so() {
    let mut bench = bench();
    bench.sim.add_drive("large", DriveOptions { size: ByteCount(40 * MIB), ..drive_options() });
    let coarse = DriveOptions { logical_sector: SectorSize::B4096, ..drive_options() };
    bench.sim.add_drive("coarse", coarse);
    let (info, notes) = bench.create("data", "raid5", &["a", "large", "coarse"]);
    assert_eq!((info.member_bytes, info.sector_bytes), (DRIVE - 32 * MIB, 4096));
    assert!(
        notes.iter().any(|note| note.contains("differ in size") && note.contains("smallest, a")),
        "{notes:?}"
    );
    assert!(notes.iter().any(|note| note.contains("sectors of 4096")), "{notes:?}");
}

#[test]
fn the_strip_follows_the_drives_unless_it_is_given() {
    let mut bench = bench();
    assert_eq!(bench.create("flash", "raid1", &["a", "b"]).0.strip_bytes, 64 << 10);
    for name in ["r", "s"] {
        bench.sim.add_drive(name, DriveOptions { rotational: true, ..drive_options() });
    }
    assert_eq!(bench.create("disk", "raid1", &["r", "s"]).0.strip_bytes, 256 << 10);
}

#[test]
fn out_of_space_when_file_drives_are_made() {
    let mut bench = Bench::new(1, 1, 0);
    bench.sim = platform_sim::Sim::new(platform_sim::SimOptions {
        file_space: Some(ByteCount(50 * MIB)),
        ..common::options(1, 1)
    });
    bench.boot(&[]);
    bench.ask(Command::DriveAdd { drive: "/x/a".into(), size_bytes: Some(DRIVE) }).unwrap();
    let add = Command::DriveAdd { drive: "/x/b".into(), size_bytes: Some(DRIVE) };
    let error = bench.ask(add).unwrap_err();
    assert_eq!((error.kind, error.exit_code()), (ErrorKind::OutOfSpace, 1));
    let again = Command::DriveAdd { drive: "/x/a".into(), size_bytes: Some(DRIVE) };
    let why = bench.refused(ErrorKind::InUse, again);
    assert!(why.contains("exists already"), "{why}");
    for size in [0, MIB, 32 * MIB, DRIVE + 512] {
        let add = Command::DriveAdd { drive: "/x/c".into(), size_bytes: Some(size) };
        bench.refused(ErrorKind::Invalid, add);
    }
    let add = Command::DriveAdd { drive: "mem:1G".into(), size_bytes: Some(DRIVE) };
    bench.refused(ErrorKind::Invalid, add);
}

#[test]
fn a_drive_that_fails_while_a_volume_is_created_leaves_nothing_behind() {
    // The places of both copies of earlier labels, the map's two, the witness and the record of
    // initialised stripes; and two places that are never written.
    for (after, is_written) in [
        (0, true),
        (1, true),
        (2, false),
        (16, true),
        (18, true),
        (20, true),
        (21, true),
        (22, true),
        (23, true),
        (25, false),
    ] {
        let mut bench = bench();
        bench.sim.drive("c").unwrap().refuse_writes(units::ByteRange::new(
            ByteOffset(MIB + (128 << 10) + after * MIB),
            ByteCount(MIB),
        ));
        let created = bench.ask(create("data", "raid5", &["a", "b", "c"]));
        let Err(error) = created else {
            assert!(!is_written, "{after}");
            continue;
        };
        assert!(is_written, "{after}");
        assert_eq!((error.kind, error.exit_code()), (ErrorKind::Failed, 1), "{error}");
        assert!(
            error.message.contains("drive c") && error.message.contains("nothing was created"),
            "{error}"
        );
        bench.refused(ErrorKind::NotFound, Command::VolumeShow { volume: "data".into() });
        bench.sim.drive("c").unwrap().clear_write_errors();
        bench.restart(&["a", "b", "c"]);
        bench.refused(ErrorKind::NotFound, Command::VolumeShow { volume: "data".into() });
        bench.create("data", "raid5", &["a", "b", "c"]);
    }
}

#[test]
fn things_that_are_not_there() {
    let mut bench = bench();
    for command in [
        Command::VolumeShow { volume: "none".into() },
        Command::VolumeDelete { volume: "none".into(), disconnect_hosts: false },
        Command::VolumeStart { volume: "none".into(), accept_stale_parity: false, degraded: false },
        Command::VolumeSet { volume: "none".into(), name: "new".into() },
        Command::DriveShow { drive: "none".into() },
        crate::common::fail_drive("none:3"),
        crate::common::take_offline("none"),
        Command::DriveOnline { drive: "none".into() },
    ] {
        let why = bench.refused(ErrorKind::NotFound, command);
        assert!(why.contains("'none"), "{why}");
    }
    bench.create("data", "raid1", &["a", "b"]);
    bench.refused(ErrorKind::NotFound, crate::common::fail_drive("data:2"));
    bench.ask(Command::DriveAdd { drive: "c".into(), size_bytes: None }).unwrap();
    bench.refused(ErrorKind::WrongState, crate::common::fail_drive("c"));
    bench.refused(
        ErrorKind::WrongState,
        Command::VolumeStart { volume: "data".into(), accept_stale_parity: false, degraded: false },
    );
}

#[test]
fn explanations_of_what_cannot_be() {
    let mut bench = bench();
    let explain = |change: fn(&mut Explain)| {
        let mut explain = Explain {
            level: Some("raid5".into()),
            drives: Some(8),
            operation: "write".into(),
            offset_bytes: 0,
            size_bytes: 8192,
            ..Explain::default()
        };
        change(&mut explain);
        Command::Explain(explain)
    };
    assert!(bench.ask(explain(|_| ())).is_ok());
    let mut wrong = |change| bench.refused(ErrorKind::Invalid, explain(change));
    assert!(wrong(|explain| explain.operation = "fly".into()).contains("'fly'"));
    assert!(wrong(|explain| explain.level = Some("raid9".into())).contains("'raid9'"));
    assert!(wrong(|explain| explain.level = None).contains("level"));
    assert!(wrong(|explain| explain.drives = None).contains("number of drives"));
    assert!(wrong(|explain| explain.drives = Some(0)).contains("not 0"));
    assert!(wrong(|explain| explain.strip_bytes = Some(5000)).contains("power of two"));
    assert!(wrong(|explain| explain.failed = vec![8]).contains("drive 8"));
    assert!(wrong(|explain| explain.size_bytes = 0).len() > 10);
    assert!(wrong(|explain| explain.size_bytes = u64::MAX).len() > 10);
    assert!(wrong(|explain| explain.offset_bytes = u64::MAX).contains("past the end"));
    assert!(wrong(|explain| explain.failed = vec![0, 1]).len() > 10);
    bench.refused(ErrorKind::NotFound, explain(|explain| explain.volume = Some("none".into())));
}

#[test]
fn commands_in_json_refuse_what_they_do_not_know() {
    let parse = serde_json::from_str::<Command>;
    assert_eq!(parse(r#"{"command":"volume-list"}"#).unwrap(), Command::VolumeList {});
    let create = parse(
        r#"{"command":"volume-create","name":"x","level":"raid0","drives":["a","b"],"coercion":"none",
            "write_mode":"write-through","read_mode":"no-read-ahead","cache_mode":"direct",
            "drive_cache":"unchanged"}"#,
    )
    .unwrap();
    assert_eq!(create, common::create("x", "raid0", &["a", "b"]));
    for wrong in [
        r#"{"command":"volume-expand"}"#,
        r#"{"command":"volume-list","extra":1}"#,
        r#"{"command":"volume-create","name":"x","level":"raid0","drives":[],"read_mode":"ahead"}"#,
        r#"{"command":"drive-show"}"#,
        r#"{}"#,
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    let json = serde_json::to_string(&Command::DriveShow { drive: "data:0".into() }).unwrap();
    assert_eq!(json, r#"{"command":"drive-show","drive":"data:0"}"#);
}

#[test]
fn hostile_state_files_and_labels_do_not_keep_the_controller_from_starting() {
    let mut bench = Bench::new(1, 1, 2);
    for content in [&b"\xff\xfe"[..], b"drives = 7", b"drives = [\"a\"", b""] {
        bench.sim.put_stored("drives.toml", Some(content.to_vec()));
        bench.sim.put_stored("events.jsonl", Some(b"\xff\n{}\nnull\n[[[".to_vec()));
        bench.restart(&["a"]);
        assert_eq!(bench.drive("a").state, DriveState::Unused);
    }
    bench.sim.fail_stores(1000);
    let why =
        bench.refused(ErrorKind::Failed, Command::DriveAdd { drive: "b".into(), size_bytes: None });
    assert!(why.contains("cannot be stored") && bench.has_event("cannot be stored"), "{why}");
    assert!(matches!(bench.ask(Command::Info {}), Ok(Reply::Info { info }) if info.drives == 1));
}

#[test]
fn after_a_shutdown_no_command_is_taken() {
    let mut bench = bench();
    bench.create("data", "raid1", &["a", "b"]);
    bench.shut_down();
    bench.refused(ErrorKind::Stopping, Command::VolumeList {});
    bench.refused(ErrorKind::Stopping, create("more", "raid0", &["c", "d"]));
}
