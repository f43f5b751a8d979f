//! One storage under several names, and a name that leads to a different storage than before.

use crate::common::*;
use controller::{Command, CreateVolume, DriveState, ErrorKind, Reply, VolumeState};
use platform::{DriveKind, Hardware, Partition};
use platform_sim::DriveOptions;
use units::{ByteCount, ByteOffset};

const MIB: u64 = 1 << 20;
const LEN: u64 = 64 << 10;

fn add(drive: &str) -> Command {
    Command::DriveAdd { drive: drive.into(), size_bytes: None }
}

/// A disk with a world-wide identifier.
fn disk(wwn: &str, partition: Option<u32>) -> DriveOptions {
    let partition = partition.map(|number| Partition { disk: "sda".to_owned(), number });
    let hardware = Hardware {
        wwn: Some(wwn.to_owned()),
        serial: Some("S1".to_owned()),
        partition,
        ..Hardware::default()
    };
    DriveOptions { kind: DriveKind::BlockDevice, hardware, ..drive_options() }
}

fn drives(bench: &mut Bench) -> Vec<controller::DriveInfo> {
    match bench.ask(Command::DriveList {}) {
        Ok(Reply::Drives { drives }) => drives,
        other => panic!("{other:?}"),
    }
}

/// An "optimal" mirror had one copy: two exports led to one file. It was lost at the next start.
#[test]
fn two_doors_to_one_storage_are_noticed_before_labels_are_written() {
    let mut bench = Bench::in_order(1, 2, 4);
    bench.boot(&["a", "b", "c"]);
    let a = bench.sim.drive("a").unwrap();
    bench.sim.add_twin(&a, "twin");
    let end = |drive: &platform_sim::SimDrive| {
        drive.read_true(ByteOffset(drive.size().0 - 4096), ByteCount(4096))
    };
    let before = end(&a);
    for order in
        [create("data", "raid1", &["a", "twin"]), create("data", "raid5", &["b", "a", "c", "twin"])]
    {
        let error = bench.ask(order).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert!(error.message.contains("a and twin are the same storage"), "{error}");
    }
    let drives = drives(&mut bench);
    assert!(drives.iter().all(|drive| drive.state == DriveState::Unused), "{drives:?}");
    let log = Command::LogAdd {
        drives: vec!["a".into(), "twin".into()],
        destroy_data: false,
        same_disk_ok: true,
    };
    let error = bench.ask(log).unwrap_err();
    assert!(error.message.contains("are the same storage"), "{error}");
    assert_eq!(end(&a), before, "the old content is restored");
    bench.create("data", "raid1", &["a", "b"]);
    // A drive of an online volume is refused under another name too, even with permission to
    // destroy data.
    let order = CreateVolume {
        name: "more".into(),
        level: "raid1".into(),
        drives: vec!["c".into(), "twin".into()],
        destroy_data: true,
        ..CreateVolume::default()
    };
    let error = bench.ask(Command::VolumeCreate(order)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InUse, "{error}");
    assert!(
        error.message.contains("drive twin has the label of drive a, which is in use"),
        "{error}"
    );
    bench.write("data", 0, 1, LEN);
    bench.settle("data");
    bench.expect("data", 0, 1, LEN);
}

/// A drive registered under a second name had the label of the first one after the next start, and
/// neither was used.
#[test]
fn a_second_door_that_is_registered_and_not_named_is_noticed() {
    let mut bench = Bench::in_order(7, 2, 4);
    let a = bench.sim.drive("a").unwrap();
    bench.sim.add_twin(&a, "twin");
    bench.boot(&["a", "b", "c", "twin"]);
    let spare = controller::AddSpare { drive: "a".into(), ..Default::default() };
    for order in [create("data", "raid1", &["a", "b"]), Command::SpareAdd(spare)] {
        let error = bench.ask(order).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert!(error.message.contains("a and twin are the same storage"), "{error}");
        assert!(error.message.contains("softroc drive forget twin"), "{error}");
    }
    bench.ask(Command::DriveForget { drive: "twin".into() }).unwrap();
    bench.create("data", "raid1", &["a", "b"]);
    bench.shut_down();
    bench.restart(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

/// A second path to a disk counted as another drive.
#[test]
fn a_second_path_is_listed_and_not_used_until_the_first_is_gone() {
    let mut bench = Bench::in_order(2, 2, 2);
    let (first, other) = (disk("naa.1", None), disk("naa.2", None));
    let storage = bench.sim.add_drive("sda", first);
    bench.sim.add_twin(&storage, "sdb");
    bench.sim.add_drive("sdc", other);
    bench.boot(&["sda", "sdc"]);
    let notes = match bench.ask(add("sdb")) {
        Ok(Reply::Drive { notes, .. }) => notes,
        other => panic!("{other:?}"),
    };
    assert!(notes[0].contains("drive sdb is another path to drive sda"), "{notes:?}");
    let second = bench.drive("sdb");
    assert_eq!(second.state, DriveState::Refused);
    assert!(second.reason.unwrap().contains("another path to drive sda"));
    let error = bench.ask(create("data", "raid1", &["sdc", "sdb"])).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InUse, "{error}");
    bench.create("data", "raid1", &["sda", "sdc"]);
    bench.write("data", 0, 1, LEN);
    bench.settle("data");
    // Nor after a start, whichever name is opened first.
    bench.shut_down();
    bench.restart(&[]);
    let volume = bench.show("data");
    assert_eq!(volume.state, VolumeState::Optimal, "{:?}", volume.reasons);
    let paths = ["sda", "sdb"].map(|name| bench.drive(name).state);
    assert!(
        paths.contains(&DriveState::Online) && paths.contains(&DriveState::Refused),
        "{paths:?}"
    );
    bench.expect("data", 0, 1, LEN);
}

/// Partitions of one disk have its serial number, and StorCLI showed one drive.
#[test]
fn partitions_are_drives_of_their_own_and_an_array_of_two_of_one_disk_says_so() {
    let mut bench = Bench::in_order(3, 2, 1);
    for number in 1..=2 {
        bench.sim.add_drive(&format!("sda{number}"), disk("naa.1", Some(number)));
    }
    bench.boot(&["sda1", "sda2"]);
    let drives = drives(&mut bench);
    assert!(drives.iter().all(|drive| drive.state == DriveState::Unused), "{drives:?}");
    let identities: Vec<_> = drives.iter().map(|drive| drive.identity.clone()).collect();
    assert_ne!(identities[0], identities[1]);
    let (_, notes) = volume(bench.ask(create("data", "raid1", &["sda1", "sda2"])));
    let told = notes.iter().any(|note| note.contains("sda1 and sda2 are partitions of disk sda"));
    assert!(told, "{notes:?}");
}

/// A volume was created on a deleted file, and was offline seconds later: the file had been removed
/// and created again under its name.
#[test]
fn an_order_uses_what_is_at_a_path_now() {
    let mut bench = Bench::in_order(4, 2, 4);
    bench.boot(&["a", "b", "c"]);
    bench.sim.drive("a").unwrap().delete_file();
    let new =
        bench.sim.add_drive("a", DriveOptions { size: ByteCount(80 * MIB), ..drive_options() });
    bench.create("data", "raid1", &["a", "b"]);
    bench.write("data", 0, 1, LEN);
    bench.settle("data");
    bench.wait(60);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    assert_eq!(bench.drive("a").size_bytes, Some(80 * MIB));
    assert!(new.stats().started > 0);
    // A deleted file without a new one in its place is missing.
    bench.sim.drive("c").unwrap().delete_file();
    let error = bench
        .ask(Command::SpareAdd(controller::AddSpare { drive: "c".into(), ..Default::default() }));
    assert_eq!(error.unwrap_err().kind, ErrorKind::Unavailable);
}

/// A replacement of another vendor had some sectors less, and was refused.
#[test]
fn a_drive_a_little_smaller_takes_part() {
    let mut bench = Bench::in_order(5, 2, 1);
    let odd = 60 * MIB + 300 * 4096 - 4096;
    let with_size = |size: u64| DriveOptions { size: ByteCount(size), ..drive_options() };
    for name in ["x", "y", "z"] {
        bench.sim.add_drive(name, with_size(odd));
    }
    bench.sim.add_drive("fits", with_size(odd - 40 * 4096));
    bench.sim.add_drive("less", with_size(60 * MIB - 4096));
    bench.boot(&["x", "y", "z"]);
    bench.create_with("data", "raid5", &["x", "y", "z"], |wanted| wanted.coercion = None).unwrap();
    bench.write("data", 0, 1, LEN);
    bench.settle("data");
    bench.ask(fail_drive("y")).unwrap();
    let replace = |with: &str| Command::DriveReplace {
        drive: "data:1".into(),
        with: with.into(),
        destroy_data: false,
    };
    assert_eq!(bench.ask(replace("less")).unwrap_err().kind, ErrorKind::Invalid);
    bench.ask(replace("fits")).unwrap();
    (0..100).find(|_| {
        bench.wait(1);
        bench.show("data").state == VolumeState::Optimal
    });
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.expect("data", 0, 1, LEN);
    // Free space of an array ends where it would on a slightly smaller drive.
    assert_eq!(bench.show("data").array_free_bytes, 0);
}

#[test]
fn sizes_are_rounded_as_an_operator_says() {
    let mut bench = Bench::in_order(6, 2, 1);
    let size = 300 * MIB + 8 * 4096;
    for name in ["x", "y"] {
        bench.sim.add_drive(name, DriveOptions { size: ByteCount(size), ..drive_options() });
    }
    bench.boot(&["x", "y"]);
    let order = |coercion| {
        Command::VolumeCreate(CreateVolume {
            name: "data".into(),
            level: "raid0".into(),
            drives: vec!["x".into(), "y".into()],
            coercion,
            ..CreateVolume::default()
        })
    };
    let mut used = |coercion| match bench.ask(order(coercion)) {
        Ok(Reply::Volume { volume, .. }) => {
            bench
                .ask(Command::VolumeDelete { volume: "data".into(), disconnect_hosts: false })
                .unwrap();
            volume.member_bytes
        }
        other => panic!("{other:?}"),
    };
    use controller::Coercion;
    let by_size = used(None);
    assert_eq!(by_size, used(Some(Coercion::BySize)));
    assert!(used(Some(Coercion::None)) >= by_size);
    assert_eq!(by_size - used(Some(Coercion::Mib128)), 44 * MIB);
    let error = bench.ask(order(Some(Coercion::Gib1))).unwrap_err();
    assert!(error.message.contains("of which 0 B are used with --coercion 1G"), "{error}");
}
