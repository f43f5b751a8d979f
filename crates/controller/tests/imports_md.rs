//! Arrays of Linux md 1.2 as `mdadm --create` makes them: data to the end of the drives, and free
//! space before the data. SoftROC's tail is put there, and the data stays in place. An interrupted
//! import leaves md's array or SoftROC's.

use crate::common::events::{End, at_every_event};
use crate::common::{Bench, MIB};
use controller::{Command, DriveState, ErrorKind, ForeignVolume, Reply, VolumeState};
use ondisk::TailPlace;
use ondisk::ddf::{Effort, Look, look};
use ondisk::foreign::Glimpse;
use platform_sim::SimDrive;
use units::{ByteCount, ByteOffset, ByteRange};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The data offset: the smallest with enough space before the data.
const DATA_AT: u64 = 33 * MIB;

/// Data of each drive.
const USED: u64 = 2 * MIB;

/// The md array to create.
#[derive(Clone, Copy)]
struct Md {
    level: &'static str,
    drives: usize,
    /// md's numbers of level and layout.
    numbers: (i32, u32),
    /// The space behind the data that no full strip fills.
    rest: u64,
    /// The bitmap's header: sectors reserved for it. `None`: no bitmap.
    bitmap_sectors: Option<u32>,
}

const RAID5: Md =
    Md { level: "raid5", drives: 3, numbers: (5, 2), rest: 8192, bitmap_sectors: Some(256) };

fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

/// The superblock of one of its drives.
fn superblock(md: &Md, slot: usize) -> Vec<u8> {
    let mut block = vec![0; 4096];
    let used = USED / 512;
    put(&mut block, 0, &0xA92B_4EFC_u32.to_le_bytes());
    put(&mut block, 4, &1_u32.to_le_bytes());
    put(&mut block, 8, &u32::from(md.bitmap_sectors.is_some()).to_le_bytes());
    put(&mut block, 16, &[0x5A; 16]);
    put(&mut block, 32, b"host:data");
    put(&mut block, 72, &md.numbers.0.to_le_bytes());
    put(&mut block, 76, &md.numbers.1.to_le_bytes());
    put(&mut block, 80, &used.to_le_bytes());
    put(&mut block, 88, &128_u32.to_le_bytes());
    put(&mut block, 92, &(md.drives as u32).to_le_bytes());
    put(&mut block, 96, &8_i32.to_le_bytes());
    put(&mut block, 128, &(DATA_AT / 512).to_le_bytes());
    put(&mut block, 136, &used.to_le_bytes());
    put(&mut block, 144, &8_u64.to_le_bytes());
    put(&mut block, 160, &(slot as u32).to_le_bytes());
    put(&mut block, 168, &[slot as u8 + 1; 16]);
    put(&mut block, 186, &8_u16.to_le_bytes());
    put(&mut block, 188, &264_i32.to_le_bytes());
    put(&mut block, 200, &17_u64.to_le_bytes());
    put(&mut block, 208, &u64::MAX.to_le_bytes());
    put(&mut block, 220, &(md.drives as u32).to_le_bytes());
    for role in 0..md.drives {
        put(&mut block, 256 + 2 * role, &(role as u16).to_le_bytes());
    }
    seal(&mut block, md);
    block
}

/// Updates the checksum of a superblock.
fn seal(block: &mut [u8], md: &Md) {
    put(block, 216, &[0; 4]);
    let sum: u64 = block[..256 + 2 * md.drives]
        .chunks(4)
        .map(|word| word.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
        .sum();
    let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
    put(block, 216, &sum.to_le_bytes());
}

fn bitmap_head(sectors: u32) -> Vec<u8> {
    let mut head = vec![0; 512];
    put(&mut head, 0, b"bitm");
    put(&mut head, 40, &(USED / 512).to_le_bytes());
    put(&mut head, 52, &(64_u32 << 20).to_le_bytes());
    put(&mut head, 64, &sectors.to_le_bytes());
    head
}

/// Drives with such an md array; returns its content. A SoftROC volume is created and filled, its
/// data moved to md's data offset, and the rest written as md does.
fn made_by_md(seed: u64, md: &Md) -> (Bench, Vec<u8>) {
    let names = &NAMES[..md.drives];
    let mut bench = Bench::in_order(seed, 1, 0);
    bench.add_drives(names, DATA_AT + USED + md.rest);
    bench.boot(&[]);
    let data_strips = match md.level {
        "raid1" => 1,
        "raid10" => md.drives / 2,
        "raid0" => md.drives,
        "raid6" => md.drives - 2,
        _ => md.drives - 1,
    };
    let size = USED * data_strips as u64;
    bench
        .create_with("data", md.level, names, |wanted| {
            wanted.size_bytes = Some(size);
            wanted.arrangement = (md.level == "raid6").then(|| "left-symmetric".to_owned());
        })
        .unwrap();
    for (number, at) in (0..size).step_by(16384).enumerate() {
        bench.write("data", at, (number % 251) as u8 + 1, 16384);
    }
    bench.settle("data");
    let all = bench.try_read("data", 0, size).unwrap();
    bench.shut_down();
    bench.forget();
    bench.sim.restart_process();
    for (slot, name) in names.iter().enumerate() {
        let drive = bench.sim.drive(name).unwrap();
        let data = drive.read_true(ByteOffset(0), ByteCount(USED));
        let end = drive.size().0;
        for at in (0..end).step_by(MIB as usize) {
            drive.poke(ByteOffset(at), &vec![0; MIB.min(end - at) as usize]);
        }
        drive.poke(ByteOffset(4096), &superblock(md, slot));
        if let Some(sectors) = md.bitmap_sectors {
            drive.poke(ByteOffset(8192), &bitmap_head(sectors));
        }
        drive.poke(ByteOffset(DATA_AT), &data);
    }
    (bench, all)
}

fn list(bench: &mut Bench) -> Vec<ForeignVolume> {
    match bench.ask(Command::ForeignList {}) {
        Ok(Reply::Foreign { volumes, .. }) => volumes,
        other => panic!("{other:?}"),
    }
}

fn command() -> Command {
    Command::ForeignImport { volume: "data".into(), name: None }
}

fn expect_all(bench: &mut Bench, all: &[u8], what: &str) {
    let now = bench.try_read("data", 0, all.len() as u64).unwrap();
    let other = now.iter().zip(all).position(|(is, was)| is != was);
    assert_eq!(other, None, "{what}: the first byte that differs");
}

/// The locations of the anchor and the tail.
fn places(drive: &SimDrive) -> (u64, TailPlace) {
    let mut glimpse = Glimpse::new(drive.size());
    loop {
        let found = look(&glimpse, Effort::Usual);
        let wanted = glimpse.wanted();
        if wanted.is_empty() {
            let Look::Found(found) = found else { panic!("{found:?}") };
            return (found.anchor.at.0, found.structure.place());
        }
        for range in wanted {
            glimpse.put(range, Some(drive.read_true(range.start, range.len)));
        }
    }
}

#[test]
fn every_level_of_md_is_imported_with_its_data_where_md_left_no_room_behind_them() {
    let levels = [
        ("raid0", 3, (0, 0)),
        ("raid1", 2, (1, 0)),
        ("raid10", 4, (10, 0x102)),
        ("raid4", 3, (4, 0)),
        ("raid5", 3, (5, 2)),
        ("raid6", 4, (6, 2)),
    ];
    for (level, drives, numbers) in levels {
        for (rest, place) in [(8192, TailPlace::Front), (0, TailPlace::FrontWithAnchor)] {
            let md = Md { level, drives, numbers, rest, ..RAID5 };
            let what = format!("{level}, {place:?}");
            let (mut bench, all) = made_by_md(51, &md);
            let names = &NAMES[..drives];
            bench.boot(names);
            assert_eq!(list(&mut bench)[0].obstacle, None, "{what}");
            bench.ask(command()).unwrap();
            expect_all(&mut bench, &all, &what);
            let drive = bench.sim.drive("a").unwrap();
            let anchor = if place == TailPlace::Front { drive.size().0 - 512 } else { 4096 };
            assert_eq!(places(&drive), (anchor, place), "{what}");
            // Written, and found again; its data is in place.
            bench.write("data", 4096, 0xEE, 8192);
            let mut all = all;
            all[4096..4096 + 8192].fill(0xEE);
            bench.settle("data");
            bench.restart(&[]);
            expect_all(&mut bench, &all, &what);
            assert_eq!(bench.show("data").data_start_bytes, DATA_AT, "{what}");
            if level != "raid0" {
                bench.ask(crate::common::take_offline("b")).unwrap();
                expect_all(&mut bench, &all, &what);
                bench.ask(Command::DriveOnline { drive: "b".into() }).unwrap();
            }
            bench.power_cycle(names);
            expect_all(&mut bench, &all, &what);
        }
    }
}

#[test]
fn a_drive_as_large_as_the_others_takes_a_place_in_an_imported_array() {
    for rest in [8192, 0] {
        let (mut bench, all) = made_by_md(52, &Md { rest, ..RAID5 });
        bench.add_drives(&["x", "y"], DATA_AT + USED + rest);
        bench.add_drives(&["small"], DATA_AT + USED - 4096);
        bench.boot(&["a", "b", "c", "x", "y", "small"]);
        bench.ask(command()).unwrap();
        let replace = |with: &str| Command::DriveReplace {
            drive: "data:1".into(),
            with: with.into(),
            destroy_data: false,
        };
        bench.refused(ErrorKind::Invalid, replace("small"));
        bench.ask(replace("x")).unwrap();
        bench.wait(30);
        bench.ask(crate::common::fail_drive("a")).unwrap();
        expect_all(&mut bench, &all, "from the new drive");
        // A spare has its label at its end, and gets the array's tail location when it takes a
        // slot.
        bench
            .ask(Command::SpareAdd(controller::AddSpare {
                drive: "y".into(),
                ..Default::default()
            }))
            .unwrap();
        bench.wait(60);
        assert_eq!(bench.show("data").state, VolumeState::Optimal, "rest {rest}");
        bench.restart(&[]);
        bench.ask(crate::common::fail_drive("c")).unwrap();
        expect_all(&mut bench, &all, "from the spare");
        // No other volume gets the space of the tail.
        assert!(bench.show("data").array_free_bytes <= rest, "rest {rest}");
        // After the deletion the drives are unused: the tail is at the end again.
        bench
            .ask(Command::VolumeDelete { volume: "data".into(), disconnect_hosts: false })
            .unwrap();
        assert_eq!(bench.drive("x").state, DriveState::Unused);
        bench.create("new", "raid1", &["x", "y"]);
        bench.restart(&[]);
        assert_eq!(bench.show("new").state, VolumeState::Optimal);
    }
}

#[test]
fn an_import_that_is_interrupted_leaves_the_array_of_md_or_ours() {
    for (how, rest) in
        [(End::Killed, 8192), (End::PowerCut, 8192), (End::Killed, 0), (End::PowerCut, 0)]
    {
        let md = Md { rest, ..RAID5 };
        let prepare = || {
            let mut bench = made_by_md(53, &md).0;
            bench.boot(&NAMES[..3]);
            bench
        };
        let all = made_by_md(53, &md).1;
        let back = std::cell::Cell::new(0);
        let scene = |bench: &mut Bench| bench.try_ask(command()).ok().map(Result::unwrap);
        at_every_event(7, how, prepare, scene, |bench, acknowledged, event| {
            let what = format!("rest {rest}, {how:?} at event {event}");
            bench.boot(&NAMES[..3]);
            if !bench.has("data") {
                assert!(acknowledged.is_none(), "{what}");
                let volumes = list(bench);
                assert_eq!(volumes.len(), 1, "{what}");
                assert_eq!(
                    (&volumes[0].state[..], &volumes[0].obstacle),
                    ("complete", &None),
                    "{what}"
                );
                expect_as_md_left_it(bench, &md, &what);
                back.set(back.get() + 1);
                bench.ask(command()).unwrap();
            }
            assert_eq!(bench.show("data").state, VolumeState::Optimal, "{what}");
            expect_all(bench, &all, &what);
        });
        assert!(back.get() > 3, "rest {rest}, {how:?}: some imports are reverted");
    }
}

/// The fields by which md identifies its array are unchanged.
fn expect_as_md_left_it(bench: &mut Bench, md: &Md, what: &str) {
    for (slot, name) in NAMES[..md.drives].iter().enumerate() {
        let drive = bench.sim.drive(name).unwrap();
        let read = |range: ByteRange| drive.read_true(range.start, range.len);
        let is = read(ByteRange::new(ByteOffset(4096), ByteCount(4096)));
        assert!(is == superblock(md, slot), "{what}: the superblock of {name}");
        let head = md.bitmap_sectors.map(bitmap_head).unwrap_or_default();
        assert!(
            read(ByteRange::new(ByteOffset(8192), ByteCount::of(&head))) == head,
            "{what}: the bitmap"
        );
    }
}

#[test]
fn what_md_may_need_before_its_data_is_left_alone() {
    // A bitmap that reaches into the place of the tail.
    let (mut bench, _) = made_by_md(54, &Md { bitmap_sectors: Some(4096), ..RAID5 });
    bench.boot(&NAMES[..3]);
    let why = bench.refused(ErrorKind::WrongState, command());
    assert!(
        why.contains("the metadata of Linux md before its start") && why.contains("softroc rescue"),
        "{why}"
    );
    assert_eq!(list(&mut bench)[0].state, "complete", "no import was done");
}

/// An import would use sectors in a member's bad block list as data.
#[test]
fn an_array_of_which_a_member_has_bad_blocks_is_refused_by_name() {
    let (mut bench, all) = made_by_md(56, &RAID5);
    let list_at = ByteOffset(4096 + 264 * 512);
    let poke = |bench: &mut Bench, list: &[u8]| {
        let mut block = superblock(&RAID5, 1);
        block[8] |= 8;
        seal(&mut block, &RAID5);
        let drive = bench.sim.drive("b").unwrap();
        drive.poke(ByteOffset(4096), &block);
        drive.poke(list_at, list);
    };
    let mut listed = vec![0xFF; 4096];
    put(&mut listed, 0, &((DATA_AT / 512 + 64) << 10 | 8).to_le_bytes());
    poke(&mut bench, &listed);
    bench.boot(&NAMES[..3]);
    let why = bench.refused(ErrorKind::WrongState, command());
    assert!(why.contains("b has a list of bad blocks") && why.contains("softroc rescue"), "{why}");
    poke(&mut bench, &[0; 4096]);
    let why = bench.refused(ErrorKind::WrongState, command());
    assert!(why.contains("b is excluded: its list of bad blocks is damaged"), "{why}");
    assert_eq!(list(&mut bench)[0].members[1].standing, "excluded");
    // An empty bad block list is no obstacle.
    poke(&mut bench, &[0xFF; 4096]);
    bench.ask(command()).unwrap();
    expect_all(&mut bench, &all, "with an empty list");
}

#[test]
fn what_a_host_wrote_that_looks_like_metadata_stays() {
    let md = Md { level: "raid1", drives: 2, numbers: (1, 0), rest: 0, bitmap_sectors: None };
    let (mut bench, mut all) = made_by_md(55, &md);
    // The place of an md 1.0 superblock: the last blocks of the volume.
    let at = bench.sim.drive("a").unwrap().size().0 - 8192;
    let mut sector = vec![0xDA; 512];
    put(&mut sector, 0, &0xA92B_4EFC_u32.to_le_bytes());
    for name in &NAMES[..2] {
        bench.sim.drive(name).unwrap().poke(ByteOffset(at), &sector);
    }
    put(&mut all, (at - DATA_AT) as usize, &sector);
    bench.boot(&NAMES[..2]);
    bench.ask(command()).unwrap();
    expect_all(&mut bench, &all, "what looks like a superblock");
}
