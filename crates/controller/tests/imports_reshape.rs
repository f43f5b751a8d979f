//! Arrays of Linux md in the middle of a reshape with a backup file, so that the data offset stays:
//! they become reshaping volumes, and SoftROC completes md's reshape. Reshapes that still need the
//! backup, or move data otherwise, are refused.

use crate::common::events::{End, at_every_event};
use crate::common::{Bench, MIB};
use controller::{Command, ErrorKind, ForeignVolume, Reply, VolumeState};
use layout::{CopyIndex, DataIndex, Geometry, Level, ParityArrangement, ParityIndex, Shape};
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, StripSize, StripeIndex};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// The data offset, and the data size per drive.
const DATA_AT: u64 = 33 * MIB;
const USED: u64 = 3 * MIB;
const STRIP: u64 = 64 << 10;
/// The number of updates of the array's superblocks.
const EVENTS: u64 = 17;

/// An md reshape.
#[derive(Clone, Copy)]
struct Half {
    /// Numbers of drives before and after.
    drives: (u16, u16),
    /// Levels before and after.
    levels: (i32, i32),
    /// The position of the interruption, in bytes of the volume.
    position: u64,
    /// Feature bits, and the sectors by which the data moves.
    features: u32,
    shift: i32,
    clean: bool,
}

/// From three drives to four, past its critical section of 384 KiB, and within an old row.
const GROWS: Half = Half {
    drives: (3, 4),
    levels: (5, 5),
    position: 3 * 9 * STRIP,
    features: 4,
    shift: 0,
    clean: true,
};
/// From four drives to three, half of it moved.
const SHRINKS: Half =
    Half { drives: (4, 3), position: 2 * 12 * STRIP, features: 4 | 0x20, ..GROWS };

fn geometry(level: i32, drives: u16) -> Geometry {
    let level = if level == 6 { Level::Raid6 } else { Level::Raid5 };
    let parity = Some(ParityArrangement::LeftSymmetric);
    let shape = Shape { parity, ..Shape::new(level, DriveCount(drives)) };
    shape.geometry(StripSize::new(ByteCount(STRIP)).unwrap(), ByteCount(USED)).unwrap()
}

impl Half {
    fn was(&self) -> Geometry {
        geometry(self.levels.0, self.drives.0)
    }

    fn is(&self) -> Geometry {
        geometry(self.levels.1, self.drives.1)
    }

    fn size(&self) -> u64 {
        self.was().capacity().0.min(self.is().capacity().0)
    }

    fn all(&self) -> usize {
        usize::from(self.drives.0.max(self.drives.1))
    }
}

/// The content of the volume: bytes that differ from sector to sector.
fn content(size: u64) -> Vec<u8> {
    (0..size).map(|at| (at / 512 % 251) as u8 ^ (at / 128_517) as u8).collect()
}

/// Writes the stripes with these bytes of the volume, with their parity.
fn lay(data: &mut [Vec<u8>], volume: &[u8], geometry: &Geometry, bytes: ByteRange) {
    let strip = STRIP as usize;
    let whole = geometry.stripe_bytes().0;
    for stripe in (bytes.start.0 / whole..bytes.end().0.div_ceil(whole)).map(StripeIndex) {
        let map = geometry.stripe_map(stripe);
        let mut sum = vec![0; strip];
        for index in (0..geometry.data_strips()).map(DataIndex) {
            let from = geometry.volume_offset(stripe, index, ByteCount(0)).0 as usize;
            let mut bytes = volume.get(from..).unwrap_or_default().to_vec();
            bytes.resize(strip, 0);
            sum.iter_mut().zip(&bytes).for_each(|(sum, byte)| *sum ^= byte);
            let cell = map.data_cell(index, CopyIndex(0));
            data[cell.drive.as_usize()][cell.offset.0 as usize..][..strip].copy_from_slice(&bytes);
        }
        if let Some(cell) = map.parity_cell(ParityIndex(0)) {
            data[cell.drive.as_usize()][cell.offset.0 as usize..][..strip].copy_from_slice(&sum);
        }
    }
}

fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

fn superblock(half: &Half, slot: usize, events: u64) -> Vec<u8> {
    let mut block = vec![0; 4096];
    let (used, all) = (USED / 512, half.all());
    let words = [
        (0, 0xA92B_4EFC),
        (4, 1),
        (8, half.features),
        (72, half.levels.0 as u32),
        (76, 2),
        (88, (STRIP / 512) as u32),
        (92, u32::from(half.drives.1)),
        (100, half.levels.1 as u32),
        (112, (i32::from(half.drives.1) - i32::from(half.drives.0)) as u32),
        (116, 2),
        (120, (STRIP / 512) as u32),
        (124, half.shift as u32),
        (160, slot as u32),
        (220, all as u32),
    ];
    words.iter().for_each(|(at, word): &(usize, u32)| put(&mut block, *at, &word.to_le_bytes()));
    let clean = if half.clean { u64::MAX } else { 0 };
    let wide = [
        (80, used),
        (104, half.position / 512),
        (128, DATA_AT / 512),
        (136, used),
        (144, 8),
        (200, events),
        (208, clean),
    ];
    wide.iter().for_each(|(at, word): &(usize, u64)| put(&mut block, *at, &word.to_le_bytes()));
    put(&mut block, 16, &[0x5A; 16]);
    put(&mut block, 32, b"host:data");
    put(&mut block, 168, &[slot as u8 + 1; 16]);
    (0..all).for_each(|role| put(&mut block, 256 + 2 * role, &(role as u16).to_le_bytes()));
    let words = block[..256 + 2 * all].chunks(4);
    let sum: u64 = words
        .map(|word| word.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
        .sum();
    put(&mut block, 216, &(sum as u32).wrapping_add((sum >> 32) as u32).to_le_bytes());
    block
}

/// Drives with such an interrupted md reshape, booted; returns the content of the volume.
fn interrupted(seed: u64, half: &Half) -> (Bench, Vec<u8>) {
    let volume = content(half.size());
    let data = laid(half, &volume, (half.position, half.position));
    let blocks = (0..half.all()).map(|slot| superblock(half, slot, EVENTS));
    (booted(seed, blocks.zip(data).collect()), volume)
}

/// The host with drives that have these superblocks and data.
fn booted(seed: u64, drives: Vec<(Vec<u8>, Vec<u8>)>) -> Bench {
    let names = &NAMES[..drives.len()];
    let mut bench = Bench::in_order(seed, 1, 0);
    bench.add_drives(names, DATA_AT + USED + 8192);
    for (name, (superblock, data)) in names.iter().zip(drives) {
        let drive = bench.sim.drive(name).unwrap();
        drive.poke(ByteOffset(4096), &superblock);
        drive.poke(ByteOffset(DATA_AT), &data);
    }
    bench.boot(names);
    bench
}

/// The content of each drive: moved up to the first position, in the direction of the reshape;
/// unmoved beyond the second.
fn laid(half: &Half, volume: &[u8], (ahead_of, up_to): (u64, u64)) -> Vec<Vec<u8>> {
    let mut data = vec![vec![0x77; USED as usize]; half.all()];
    let behind =
        |at: u64| ByteRange::from_to(ByteOffset(at.min(half.size())), ByteOffset(half.size()));
    let before = |at: u64| ByteRange::from_to(ByteOffset(0), ByteOffset(at.min(half.size())));
    match half.drives.1 < half.drives.0 {
        true => {
            lay(&mut data, volume, &half.is(), behind(up_to));
            lay(&mut data, volume, &half.was(), before(ahead_of));
        }
        false => {
            lay(&mut data, volume, &half.was(), behind(ahead_of));
            lay(&mut data, volume, &half.is(), before(up_to));
        }
    }
    data
}

fn command() -> Command {
    Command::ForeignImport { volume: "data".into(), name: None }
}

fn list(bench: &mut Bench) -> Vec<ForeignVolume> {
    match bench.ask(Command::ForeignList {}) {
        Ok(Reply::Foreign { volumes, .. }) => volumes,
        other => panic!("{other:?}"),
    }
}

fn expect_all(bench: &mut Bench, all: &[u8], what: &str) {
    let now = bench.try_read("data", 0, all.len() as u64).unwrap();
    let other = now.iter().zip(all).position(|(is, was)| is != was);
    assert_eq!(other, None, "{what}: the first byte that differs");
}

#[test]
fn a_reshape_of_md_goes_on_here_and_its_volume_holds_the_same_before_during_and_after() {
    let to_raid6 = Half { drives: (3, 5), levels: (5, 6), ..GROWS };
    for (what, half) in [("grows", GROWS), ("shrinks", SHRINKS)] {
        let (mut bench, mut all) = interrupted(71, &half);
        assert_eq!(list(&mut bench)[0].obstacle, None, "{what}");
        let Ok(Reply::Imported { volumes, notes }) = bench.ask(command()) else { panic!("{what}") };
        assert_eq!(volumes.len(), 1, "{what}: its parts are hidden from users");
        assert!(
            notes.iter().any(|note| note.contains("continues; run 'softroc task list'")),
            "{what}: {notes:?}"
        );
        expect_all(&mut bench, &all, what);
        bench.write("data", 4096, 0xEE, 8192);
        all[4096..4096 + 8192].fill(0xEE);
        bench.wait(600);
        let info = bench.show("data");
        assert_eq!(
            (info.state, info.reshape.is_none()),
            (VolumeState::Optimal, true),
            "{what}: {info:?}"
        );
        assert_eq!(info.capacity_bytes, half.is().capacity().0, "{what}");
        expect_all(&mut bench, &all, what);
        bench.restart(&[]);
        // Redundancy is that of the new layout.
        for name in &NAMES[..usize::from(half.drives.1)] {
            bench
                .ask(Command::DriveOffline {
                    drive: (*name).into(),
                    accept_data_loss: false,
                    accepted: None,
                    dry_run: false,
                })
                .unwrap();
            expect_all(&mut bench, &all, &format!("{what} without {name}"));
            bench.ask(Command::DriveOnline { drive: (*name).into() }).unwrap();
            bench.wait(60);
        }
    }
    // RAID 5 of three to RAID 6 of five works the same way: it has one more data drive.
    let (mut bench, _) = interrupted(72, &to_raid6);
    assert_eq!(list(&mut bench)[0].obstacle, None);
}

/// The power failed while md updated the position in its superblocks: one member has the old ones,
/// and had not flushed the data moved to it since. The newest superblocks were used, and the
/// member's missing data was read.
#[test]
fn a_member_that_tells_of_less_of_a_reshape_is_gone_by() {
    let ahead = [(GROWS, 27 * STRIP, 36 * STRIP), (SHRINKS, 30 * STRIP, 24 * STRIP)];
    for (half, before, now) in ahead {
        let all = content(half.size());
        let at = |position: u64| Half { position, ..half };
        for late in 0..half.all() {
            // The data moved since is only on the other drives. Its source is on all drives: hosts
            // were blocked there until all superblocks were written.
            let (mut data, old) =
                (laid(&half, &all, (before, now)), laid(&half, &all, (before, before)));
            data[late] = old[late].clone();
            let blocks = (0..half.all()).map(|slot| match slot == late {
                true => superblock(&at(before), slot, EVENTS - 1),
                false => superblock(&at(now), slot, EVENTS),
            });
            let mut bench = booted(76, blocks.zip(data).collect());
            let name = NAMES[late];
            assert_eq!(list(&mut bench)[0].obstacle, None, "{name}");
            bench.ask(command()).expect("the reshape continues here");
            expect_all(&mut bench, &all, name);
            bench.wait(600);
            assert!(bench.show("data").reshape.is_none(), "{name}");
            expect_all(&mut bench, &all, name);
        }
    }
}

/// The power failed while md wrote the first superblocks without a reshape: one member had not
/// flushed the data last moved to it. It was imported as complete.
#[test]
fn a_reshape_of_whose_end_one_member_does_not_know_is_not_imported() {
    for half in [GROWS, SHRINKS] {
        let members = usize::from(half.drives.1);
        let over =
            Half { drives: (half.drives.1, half.drives.1), features: 0, position: 0, ..half };
        let all = content(half.size());
        for (late, name) in NAMES.iter().enumerate().take(members) {
            let (data, old) = (
                laid(&over, &all, (0, half.size())),
                laid(&half, &all, (half.position, half.position)),
            );
            let drives = (0..members).map(|slot| match slot == late {
                true => (superblock(&half, slot, EVENTS - 1), old[slot].clone()),
                false => (superblock(&over, slot, EVENTS), data[slot].clone()),
            });
            let mut bench = booted(77, drives.collect());
            let why = bench.refused(ErrorKind::WrongState, command());
            assert!(why.contains(&format!("{name} records a reshape at")), "{why}");
        }
    }
}

/// A kill at any event of the import leaves md's array, or a reshaping volume.
#[test]
fn an_import_on_its_way_that_is_interrupted_leaves_the_array_of_md_or_ours() {
    for (how, clean) in [(End::Killed, true), (End::PowerCut, true), (End::PowerCut, false)] {
        let half = Half { clean, ..GROWS };
        let all = interrupted(73, &half).1;
        let back = std::cell::Cell::new(0);
        let scene = |bench: &mut Bench| bench.try_ask(command()).ok().map(Result::unwrap);
        at_every_event(
            11,
            how,
            || interrupted(73, &half).0,
            scene,
            |bench, acknowledged, event| {
                let what = format!("{how:?} at event {event}");
                bench.boot(&NAMES[..4]);
                if !bench.has("data") {
                    assert!(acknowledged.is_none(), "{what}");
                    let volumes = list(bench);
                    assert_eq!((volumes.len(), &volumes[0].obstacle), (1, &None), "{what}");
                    back.set(back.get() + 1);
                    bench.ask(command()).unwrap();
                }
                expect_all(bench, &all, &what);
                bench.wait(600);
                assert!(bench.show("data").reshape.is_none(), "{what}");
                expect_all(bench, &all, &what);
            },
        );
        assert!(back.get() > 3, "{how:?}: some imports are reverted");
    }
}

#[test]
fn a_reshape_that_cannot_go_on_here_is_refused_with_what_to_do() {
    let cases = [
        (Half { position: 6 * STRIP, ..GROWS }, "--backup-file=FILE"),
        (Half { drives: (4, 4), ..GROWS }, "--backup-file=FILE"),
        (Half { drives: (3, 4), levels: (5, 6), ..GROWS }, "--backup-file=FILE"),
        (Half { features: 0x44, shift: -256, ..GROWS }, "moves the start of the data"),
    ];
    for (half, expected) in cases {
        let (mut bench, _) = interrupted(74, &half);
        let why = bench.refused(ErrorKind::WrongState, command());
        assert!(why.contains(expected) && why.contains("mdadm --assemble"), "{why}");
    }
    // One member is missing: its superblock is gone.
    let (mut bench, _) = interrupted(75, &GROWS);
    bench.sim.drive("d").unwrap().poke(ByteOffset(4096), &[0; 4096]);
    let why = bench.refused(ErrorKind::WrongState, command());
    assert!(why.contains("not all of its members are current"), "{why}");
}
