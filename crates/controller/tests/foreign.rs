//! Arrays of other systems: imported with their data, refused, cleared; and imports interrupted at
//! any event.

use crate::common::events::{End, at_every_event};
use crate::common::{self, Bench, MIB};
use controller::{
    Command, DriveState, ErrorKind, ForeignDrive, ForeignVolume, Reply, VolumeInfo, VolumeState,
    WellBeing,
};
use ondisk::ddf::{self, Effort, Look, Step, Structure};
use ondisk::foreign::Glimpse;
use platform_sim::SimDrive;
use units::{ByteCount, ByteOffset};

/// The part of a drive that a volume uses here.
const USED: u64 = MIB + (128 << 10);

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn list(bench: &mut Bench) -> (Vec<ForeignVolume>, Vec<ForeignDrive>) {
    match bench.ask(Command::ForeignList {}) {
        Ok(Reply::Foreign { volumes, drives }) => (volumes, drives),
        other => panic!("{other:?}"),
    }
}

fn command(volume: &str, name: Option<&str>) -> Command {
    Command::ForeignImport { volume: volume.into(), name: name.map(Into::into) }
}

fn import(bench: &mut Bench, volume: &str) -> (Vec<VolumeInfo>, Vec<String>) {
    match bench.ask(command(volume, None)) {
        Ok(Reply::Imported { volumes, notes }) => (volumes, notes),
        other => panic!("{other:?}"),
    }
}

fn structure(drive: &SimDrive) -> ddf::Drive {
    let mut glimpse = Glimpse::new(drive.size());
    loop {
        let look = ddf::look(&glimpse, Effort::Usual);
        let wanted = glimpse.wanted();
        if wanted.is_empty() {
            let Look::Found(found) = look else { panic!("{look:?}") };
            return *found;
        }
        for range in wanted {
            glimpse.put(range, Some(drive.read_true(range.start, range.len)));
        }
    }
}

/// Other software uses the drives for a while: it rewrites their structures, with changes.
fn elsewhere(bench: &mut Bench, drives: &[&str], change: impl Fn(&mut Structure)) {
    bench.shut_down();
    bench.forget();
    bench.sim.restart_process();
    for name in drives {
        let drive = bench.sim.drive(name).unwrap();
        let mut changed = structure(&drive).structure;
        changed.header.sequence += 1;
        change(&mut changed);
        for step in ddf::update(drive.size(), None, &changed).unwrap() {
            if let Step::Write { at, bytes } = step {
                drive.poke(at, &bytes);
            }
        }
    }
}

/// The same group as written by another vendor.
fn by_linux(structure: &mut Structure) {
    let rename = |guid: &mut ddf::Guid| guid.0[..8].copy_from_slice(b"Linux-MD");
    rename(&mut structure.header.group);
    rename(&mut structure.controller.guid);
    structure.disks.iter_mut().flatten().for_each(|disk| rename(&mut disk.guid));
    structure.volumes.iter_mut().flatten().for_each(|volume| rename(&mut volume.guid));
    rename(&mut structure.own.guid);
    for slot in &mut structure.slots {
        if let ddf::Slot::Volume(part) = slot {
            rename(&mut part.volume);
        }
    }
}

/// Bytes that differ from sector to sector.
fn fill(bench: &mut Bench, name: &str) -> Vec<u8> {
    let capacity = bench.show(name).capacity_bytes;
    for (number, at) in (0..capacity).step_by(16384).enumerate() {
        bench.write(name, at, (number % 251) as u8 + 1, 16384.min(capacity - at));
    }
    bench.settle(name);
    bench.try_read(name, 0, capacity).unwrap()
}

fn expect_all(bench: &mut Bench, name: &str, all: &[u8], what: &str) {
    let now = bench.try_read(name, 0, all.len() as u64).unwrap();
    let other = now.iter().zip(all).position(|(is, was)| is != was);
    assert_eq!(other, None, "{what}: the first byte that differs");
}

/// Redundancy agrees: whichever drive is out, the volume reads the same.
fn expect_redundancy(bench: &mut Bench, name: &str, drives: &[&str], all: &[u8], what: &str) {
    for drive in drives {
        bench
            .ask(Command::DriveOffline {
                drive: (*drive).into(),
                accept_data_loss: false,
                accepted: None,
                dry_run: false,
            })
            .unwrap();
        expect_all(bench, name, all, &format!("{what} without {drive}"));
        bench.ask(Command::DriveOnline { drive: (*drive).into() }).unwrap();
    }
}

#[test]
fn an_array_that_other_software_changed_is_imported_with_its_data_whatever_its_level() {
    for (level, count) in [
        ("raid0", 3),
        ("raid1", 2),
        ("raid1e", 3),
        ("raid10", 4),
        ("raid4", 3),
        ("raid5", 3),
        ("raid5ee", 4),
        ("raid6", 4),
        ("raid00", 4),
        ("raid50", 6),
    ] {
        let drives = &NAMES[..count];
        let mut bench = Bench::new(31, 1, count);
        bench.boot(&[]);
        let spans = matches!(level, "raid00" | "raid50").then_some(2);
        bench.create_with("data", level, drives, |wanted| wanted.spans = spans).unwrap();
        let all = fill(&mut bench, "data");
        elsewhere(&mut bench, drives, |_| {});
        bench.boot(drives);
        assert!(!bench.has("data"), "{level}");
        let (volumes, _) = list(&mut bench);
        assert_eq!(volumes.len(), 1, "{level}");
        assert_eq!(
            (volumes[0].obstacle.as_deref(), &volumes[0].state[..]),
            (None, "complete"),
            "{level}"
        );
        let (imported, notes) = import(&mut bench, "data");
        assert_eq!(imported[0].state, VolumeState::Optimal, "{level}: {notes:?}");
        assert_eq!(imported[0].level, level);
        expect_all(&mut bench, "data", &all, level);
        if imported[0].dirty_regions == 0 && !matches!(level, "raid0" | "raid00") {
            expect_redundancy(&mut bench, "data", drives, &all, level);
        }
        let (volumes, others) = list(&mut bench);
        assert_eq!(
            (volumes, others),
            (Vec::new(), Vec::new()),
            "{level}: no foreign metadata is left"
        );
        bench.restart(&[]);
        expect_all(&mut bench, "data", &all, level);
    }
}

#[test]
fn volumes_of_one_container_become_volumes_of_one_array() {
    let drives = &NAMES[..4];
    let mut bench = Bench::new(32, 1, 0);
    bench.add_drives(drives, 36 * MIB);
    bench.boot(&[]);
    let sized = |size| move |wanted: &mut controller::CreateVolume| wanted.size_bytes = Some(size);
    bench.create_with("one", "raid5", drives, sized(3 * MIB)).unwrap();
    bench.create_with("two", "raid10", drives, sized(MIB)).unwrap();
    let (one, two) = (fill(&mut bench, "one"), fill(&mut bench, "two"));
    elsewhere(&mut bench, drives, by_linux);
    bench.boot(drives);
    let (volumes, holds) = list(&mut bench);
    assert_eq!(volumes.len(), 2);
    assert_eq!(
        (&volumes[0].together_with, &volumes[0].format[..]),
        (&vec!["two".to_owned()], "ddf")
    );
    assert!(holds.iter().all(|drive| drive.clearable && !drive.holds.is_empty()), "{holds:?}");
    let why = bench.drive("a").reason.unwrap();
    assert!(why.contains("Linux-MD made (DDF); run 'softroc foreign list'"), "{why}");

    bench.ask(command("two", Some("second"))).unwrap();
    expect_all(&mut bench, "one", &one, "one");
    expect_all(&mut bench, "second", &two, "two");
    assert_eq!(bench.show("one").array, bench.show("second").array);
    expect_redundancy(&mut bench, "one", drives, &one, "one");
    assert_eq!(list(&mut bench).0, []);
}

#[test]
fn a_degraded_array_is_imported_degraded_and_rebuilt_on_another_drive() {
    let mut bench = Bench::new(33, 1, 5);
    bench.boot(&[]);
    bench.create("data", "raid5", &NAMES[..4]);
    let all = fill(&mut bench, "data");
    elsewhere(&mut bench, &NAMES[..4], by_linux);
    bench.sim.drive("c").unwrap().vanish();
    bench.boot(&["a", "b", "d"]);
    let (volumes, _) = list(&mut bench);
    assert_eq!((&volumes[0].state[..], volumes[0].obstacle.as_deref()), ("degraded", None));
    assert_eq!(
        (&volumes[0].members[2].standing[..], &volumes[0].members[2].drive),
        ("missing", &None)
    );
    let (imported, _) = import(&mut bench, "data");
    assert_eq!(imported[0].state, VolumeState::Degraded);
    expect_all(&mut bench, "data", &all, "degraded");
    bench
        .ask(Command::DriveReplace {
            drive: "data:2".into(),
            with: "e".into(),
            destroy_data: false,
        })
        .unwrap();
    bench.wait(30);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    expect_redundancy(&mut bench, "data", &["a", "b", "d", "e"], &all, "rebuilt");

    // The missing drive does not return as a member.
    bench.sim.drive("c").unwrap().come_back();
    bench.ask(Command::DriveAdd { drive: "c".into(), size_bytes: None }).unwrap();
    let obstacle = list(&mut bench).0[0].obstacle.clone().unwrap();
    assert!(obstacle.contains("3 of its 4 members are missing, too many to read it"), "{obstacle}");
}

/// A superblock of Linux md 1.0: an array whose data begins at the start of the drives.
fn md_superblock(
    slot: u16,
    members: u32,
    member_bytes: u64,
    drive: &SimDrive,
    resync: u64,
) -> (u64, Vec<u8>) {
    let sector = (drive.size().0 / 512 - 16) & !7;
    let mut block = vec![0; 4096];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &0xA92B_4EFC_u32.to_le_bytes());
    put(4, &1_u32.to_le_bytes());
    put(16, &[0x5A; 16]);
    put(32, b"host:data");
    put(72, &5_u32.to_le_bytes());
    put(76, &2_u32.to_le_bytes());
    put(80, &(member_bytes / 512).to_le_bytes());
    put(88, &128_u32.to_le_bytes());
    put(92, &members.to_le_bytes());
    put(136, &(member_bytes / 512).to_le_bytes());
    put(144, &sector.to_le_bytes());
    put(160, &u32::from(slot).to_le_bytes());
    put(168, &[slot as u8 + 1; 16]);
    put(200, &17_u64.to_le_bytes());
    put(208, &resync.to_le_bytes());
    put(220, &members.to_le_bytes());
    for role in 0..members as usize {
        put(256 + 2 * role, &(role as u16).to_le_bytes());
    }
    let used = &block[..256 + 2 * members as usize];
    let sum: u64 = used
        .chunks(4)
        .map(|word| {
            let mut whole = [0; 4];
            whole[..word.len()].copy_from_slice(word);
            u64::from(u32::from_le_bytes(whole))
        })
        .sum();
    let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
    block[216..220].copy_from_slice(&sum.to_le_bytes());
    (sector * 512, block)
}

/// A RAID 5 volume on a, b and c with superblocks of Linux md; returns its content.
fn made_by_md(seed: u64, member_bytes: u64, resync: u64) -> (Bench, Vec<u8>) {
    let mut bench = Bench::in_order(seed, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &NAMES[..3]);
    let all = fill(&mut bench, "data");
    bench.shut_down();
    bench.forget();
    bench.sim.restart_process();
    for (slot, name) in NAMES[..3].iter().enumerate() {
        let drive = bench.sim.drive(name).unwrap();
        for place in ondisk::Tail::of(drive.size()).unwrap().marks() {
            drive.poke(place.start, &vec![0; place.len.as_usize()]);
        }
        let (at, block) = md_superblock(slot as u16, 3, member_bytes, &drive, resync);
        drive.poke(ByteOffset(at), &block);
    }
    (bench, all)
}

#[test]
fn an_array_of_linux_md_is_imported_and_its_superblocks_are_gone() {
    for resync in [u64::MAX, 0] {
        let (mut bench, all) = made_by_md(34, USED, resync);
        bench.boot(&NAMES[..3]);
        let (volumes, _) = list(&mut bench);
        assert_eq!((&volumes[0].format[..], &volumes[0].version[..]), ("linux-md", "1.0"));
        assert_eq!(volumes[0].clean, resync == u64::MAX);
        assert_eq!(volumes[0].obstacle, None);
        let (imported, notes) = import(&mut bench, "host:data");
        assert_eq!((&imported[0].name[..], imported[0].state), ("data", VolumeState::Optimal));
        assert_eq!(
            notes.iter().any(|note| note.contains("not cleanly shut down")),
            resync == 0,
            "{notes:?}"
        );
        expect_all(&mut bench, "data", &all, "md");
        bench.settle("data");
        expect_redundancy(&mut bench, "data", &NAMES[..3], &all, "md");
        for name in &NAMES[..3] {
            let drive = bench.sim.drive(name).unwrap();
            let at = (drive.size().0 / 512 - 16) & !7;
            assert_eq!(drive.read_true(ByteOffset(at * 512), ByteCount(4096)), [0; 4096], "{name}");
        }
    }
}

/// A member of a Linux md array was listed as unused, and the console offered it for a new volume.
#[test]
fn members_of_arrays_of_other_systems_are_listed_as_such_with_the_array_and_never_as_unused() {
    let is_foreign = |bench: &mut Bench, format: &str, array: &str| {
        for name in &NAMES[..3] {
            let drive = bench.drive(name);
            assert_eq!(drive.state, DriveState::Foreign, "{name}");
            let of = drive.foreign_array.expect("the drives are listed");
            assert_eq!((&of.format[..], &of.name[..]), (format, array));
            let reason = drive.reason.expect("the drive has a note");
            assert!(reason.contains(array) && reason.contains("softroc foreign list"), "{reason}");
            bench.refused(ErrorKind::HoldsData, common::create("other", "jbod", &[name]));
        }
        let Ok(Reply::Health { health }) = bench.ask(Command::Health {}) else {
            panic!("a health reply")
        };
        let about = health
            .findings
            .iter()
            .filter(|finding| finding.todo.as_deref() == Some("softroc foreign list"));
        assert!(
            about.clone().count() == 3 && about.clone().all(|of| of.status == WellBeing::Ok),
            "{health:?}"
        );
    };
    let (mut bench, _) = made_by_md(39, USED, u64::MAX);
    bench.boot(&NAMES[..3]);
    is_foreign(&mut bench, "linux-md", "host:data");
    import(&mut bench, "host:data");
    assert_eq!(bench.drive("a").state, DriveState::Online);

    let mut bench = Bench::new(40, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &NAMES[..3]);
    elsewhere(&mut bench, &NAMES[..3], by_linux);
    bench.boot(&NAMES[..3]);
    is_foreign(&mut bench, "ddf", "data");
    let drives = NAMES[..3].iter().map(ToString::to_string).collect();
    bench.ask(Command::ForeignClear { drives }).unwrap();
    let drive = bench.drive("a");
    assert_eq!((drive.state, drive.foreign_array), (DriveState::Unused, None));
}

#[test]
fn what_cannot_be_imported_is_refused_with_the_reason_and_the_way_out() {
    // The data extends into the tail.
    let (mut bench, _) = made_by_md(35, 4 * MIB, u64::MAX);
    bench.boot(&NAMES[..3]);
    let why = bench.refused(ErrorKind::WrongState, command("data", None));
    assert!(
        why.contains("extends into the last 32 MiB of drive a") && why.contains("rescue"),
        "{why}"
    );
    bench.refused(ErrorKind::NotFound, command("other", None));

    // A degraded array that was being written.
    let (mut bench, _) = made_by_md(36, USED, 0);
    bench.sim.drive("c").unwrap().vanish();
    bench.boot(&[]);
    let why = bench.refused(ErrorKind::WrongState, command("data", None));
    assert!(why.contains("degraded and was not cleanly shut down"), "{why}");
    assert_eq!(list(&mut bench).0[0].obstacle.as_deref(), Some(&why[..]));
    bench.sim.drive("c").unwrap().come_back();
    bench.ask(Command::DriveAdd { drive: "c".into(), size_bytes: None }).unwrap();
    let why = bench.refused(ErrorKind::Invalid, command("data", Some("no name")));
    assert!(why.contains("--name"), "{why}");

    // A controller whose order of P and Q is unknown.
    let mut bench = Bench::new(37, 1, 4);
    bench.boot(&[]);
    bench.create("data", "raid6", &NAMES[..4]);
    elsewhere(&mut bench, &NAMES[..4], |structure| {
        by_linux(structure);
        let rename = |guid: &mut ddf::Guid| guid.0[..8].copy_from_slice(b"NoSuch__");
        structure.volumes.iter_mut().flatten().for_each(|volume| rename(&mut volume.guid));
        for slot in &mut structure.slots {
            if let ddf::Slot::Volume(part) = slot {
                rename(&mut part.volume);
            }
        }
    });
    bench.boot(&NAMES[..4]);
    let why = bench.refused(ErrorKind::WrongState, command("data", None));
    assert!(why.contains("which of its two parity strips is P"), "{why}");
    // The refused imports changed nothing.
    assert_eq!(list(&mut bench).0[0].state, "complete");
}

#[test]
fn metadata_are_cleared_from_drives_that_are_not_in_use_and_from_no_others() {
    let (mut bench, _) = made_by_md(38, USED, u64::MAX);
    bench.add_drives(&["x", "y"], common::DRIVE);
    bench.boot(&["a", "b", "c", "x", "y"]);
    bench.create("mirror", "raid1", &["x", "y"]);
    let clear = |drives: &[&str]| Command::ForeignClear {
        drives: drives.iter().map(ToString::to_string).collect(),
    };
    let why = bench.refused(ErrorKind::InUse, clear(&["a", "x"]));
    assert!(why.contains("drive 0 of 'mirror'"), "{why}");
    assert_eq!(list(&mut bench).0[0].state, "complete", "no import was done");
    bench.ask(clear(&["a", "b", "c"])).unwrap();
    assert_eq!(list(&mut bench), (Vec::new(), Vec::new()));
    bench.refused(ErrorKind::Invalid, clear(&["a"]));

    // Damaged DDF structures: SoftROC's own.
    bench.shut_down();
    bench.forget();
    bench.sim.restart_process();
    let drive = bench.sim.drive("x").unwrap();
    let site = ondisk::Tail::of(drive.size()).unwrap().site(units::SectorSize::B512).unwrap();
    drive.poke(site.primary(), &[0xEE; 512]);
    drive.poke(site.secondary(), &[0xEE; 512]);
    bench.sim.drive("y").unwrap().vanish();
    bench.boot(&[]);
    let (_, drives) = list(&mut bench);
    let headless = drives.iter().find(|drive| drive.name == "x").unwrap();
    assert!(
        headless.clearable && headless.holds[0].contains("remains of SoftROC's label"),
        "{headless:?}"
    );
    bench.ask(clear(&["x"])).unwrap();
    assert_eq!(bench.drive("x").state, controller::DriveState::Unused);
    bench.create("alone", "jbod", &["x"]);
}

#[test]
fn an_import_that_is_interrupted_leaves_the_foreign_array_or_ours() {
    for (how, by) in
        [(End::Killed, "md"), (End::PowerCut, "ddf"), (End::PowerCut, "md"), (End::Killed, "ddf")]
    {
        let prepare = || {
            let mut bench = match by {
                "md" => made_by_md(39, USED, u64::MAX).0,
                _ => {
                    let mut bench = Bench::in_order(40, 1, 3);
                    bench.boot(&[]);
                    bench.create("data", "raid5", &NAMES[..3]);
                    fill(&mut bench, "data");
                    elsewhere(&mut bench, &NAMES[..3], |_| {});
                    bench
                }
            };
            bench.boot(&NAMES[..3]);
            bench
        };
        let all = {
            let mut bench = prepare();
            import(&mut bench, "data");
            let capacity = bench.show("data").capacity_bytes;
            bench.try_read("data", 0, capacity).unwrap()
        };
        assert!(all.iter().all(|byte| *byte > 0), "{by}");
        let scene =
            |bench: &mut Bench| bench.try_ask(command("data", None)).ok().map(Result::unwrap);
        at_every_event(7, how, prepare, scene, |bench, acknowledged, event| {
            let what = format!("{by}, {how:?} at event {event}");
            bench.boot(&NAMES[..3]);
            if !bench.has("data") {
                assert!(acknowledged.is_none(), "{what}");
                let (volumes, drives) = list(bench);
                assert_eq!(volumes.len(), 1, "{what}: {drives:?}");
                assert_eq!(
                    (&volumes[0].state[..], &volumes[0].obstacle),
                    ("complete", &None),
                    "{what}"
                );
                import(bench, "data");
            }
            assert_eq!(bench.show("data").state, VolumeState::Optimal, "{what}");
            expect_all(bench, "data", &all, &what);
            let (volumes, drives) = list(bench);
            assert_eq!((volumes, drives), (Vec::new(), Vec::new()), "{what}");
        });
    }
}

#[test]
fn an_interrupted_import_waits_for_drives_that_alone_can_tell_how_far_it_came() {
    let prepare = || {
        let (mut bench, _) = made_by_md(42, USED, u64::MAX);
        bench.boot(&NAMES[..3]);
        bench
    };
    let all = made_by_md(42, USED, u64::MAX).1;
    let scene = |bench: &mut Bench| bench.try_ask(command("data", None)).ok().map(Result::unwrap);
    let waited = std::cell::Cell::new(0);
    at_every_event(11, End::Killed, prepare, scene, |bench, _, event| {
        bench.sim.drive("c").unwrap().vanish();
        bench.boot(&[]);
        let (volumes, drives) = list(bench);
        let says_so = |drive: &ForeignDrive| {
            let why = drive.reason.as_deref().unwrap_or_default();
            drive.clearable && why.contains("import was interrupted; register the other drives")
        };
        waited.set(waited.get() + u32::from(volumes.is_empty() && drives.iter().any(says_so)));
        bench.sim.drive("c").unwrap().come_back();
        bench.ask(Command::DriveAdd { drive: "c".into(), size_bytes: None }).unwrap();
        let (volumes, drives) = list(bench);
        if !bench.has("data") {
            assert_eq!(volumes.len(), 1, "event {event}: {drives:?}");
            assert_eq!(
                (&volumes[0].state[..], &volumes[0].obstacle),
                ("complete", &None),
                "event {event}"
            );
            import(bench, "data");
        } else if bench.show("data").state == VolumeState::Offline {
            bench
                .ask(Command::VolumeStart {
                    volume: "data".into(),
                    accept_stale_parity: false,
                    degraded: false,
                })
                .unwrap();
        }
        expect_all(bench, "data", &all, &format!("event {event}"));
    });
    assert!(waited.get() > 0, "a label on every present drive, and none says online");
}

#[test]
fn a_drive_that_fails_while_it_is_imported_leaves_the_foreign_array() {
    let (mut bench, all) = made_by_md(41, USED, u64::MAX);
    bench.boot(&NAMES[..3]);
    let drive = bench.sim.drive("c").unwrap();
    let tail = ondisk::Tail::of(drive.size()).unwrap();
    // Its undo log can be written, its label cannot.
    drive.refuse_writes(units::ByteRange::from_to(tail.start(), tail.undo().start));
    let why = bench.refused(ErrorKind::Failed, command("data", None));
    assert!(why.contains("drive c failed") && why.contains("nothing was imported"), "{why}");
    drive.clear_write_errors();
    bench.restart(&NAMES[..3]);
    assert_eq!(list(&mut bench).0[0].state, "complete");
    import(&mut bench, "data");
    expect_all(&mut bench, "data", &all, "after a failure");
}
