//! More lost blocks than the label has space for: a rebuild that meets them finishes all other
//! regions, and the rest once hosts have rewritten the blocks.

use crate::common::{Bench, MIB, drive_options, fail_drive, names};
use controller::{Command, DriveState, VolumeState};
use platform_sim::DriveOptions;
use units::{ByteCount, ByteOffset, ByteRange};

/// The used part of each drive.
const DATA: u64 = 96 << 20;
const SECTOR: u64 = 512;
/// A number of sectors, every second one from the first on: no two of them are one run.
const BAD: u64 = 3000;

fn bad_end() -> u64 {
    2 * SECTOR * BAD
}

/// Failed drives, and levels that tolerate just them.
const CASES: [(&str, usize, &[&str]); 3] =
    [("raid5", 4, &["a"]), ("raid6", 5, &["a", "d"]), ("raid1", 3, &["a", "c"])];

fn target(bench: &mut Bench) -> (DriveState, u32) {
    let drive = bench.drive("new");
    (drive.state, drive.stale_regions)
}

/// Waits until a drive's rebuild makes no more progress.
fn rebuilt(bench: &mut Bench) -> (DriveState, u32) {
    let mut before = target(bench);
    for _ in 0..200 {
        bench.wait(20);
        let now = target(bench);
        if now == before && bench.events().iter().any(|event| event.text.contains("new")) {
            return now;
        }
        before = now;
    }
    panic!("the rebuild does not end: {before:?}");
}

/// Reads in pieces; returns the unreadable sectors. All others hold the written data.
fn unreadable(bench: &mut Bench, len: u64, byte: u8) -> Vec<u64> {
    const PIECE: u64 = 256 << 10;
    let mut failed = Vec::new();
    for at in (0..len).step_by(PIECE as usize) {
        match bench.try_read("data", at, PIECE) {
            Ok(bytes) => assert!(bytes.iter().all(|other| *other == byte), "{at}"),
            Err(_) => failed.extend((at..at + PIECE).step_by(SECTOR as usize).filter(|at| {
                bench
                    .try_read("data", *at, SECTOR)
                    .map(|bytes| assert_eq!(bytes, [byte; 512]))
                    .is_err()
            })),
        }
    }
    failed
}

/// With a full table of punctured blocks the rebuild never ended, or the whole slot stayed stale.
#[test]
fn a_full_list_of_lost_blocks_lets_the_rebuild_finish_all_other_regions() {
    for (level, drives, failed) in CASES {
        let mut bench = Bench::new(61, 1, 0);
        let names = names(drives);
        for name in names.iter().map(String::as_str).chain(["new"]) {
            let size = ByteCount(33 * MIB + DATA);
            bench.sim.add_drive(name, DriveOptions { size, ..drive_options() });
        }
        bench.boot(&[]);
        let members: Vec<&str> = names.iter().map(String::as_str).collect();
        let capacity = bench.create("data", level, &members).0.capacity_bytes;
        // Bad blocks in as many columns as possible, and some in every other region.
        let dense = (4 * bad_end()).next_multiple_of(256 << 10).min(capacity / 4);
        bench.write("data", 0, 5, dense);
        (dense..capacity).step_by(MIB as usize).for_each(|at| bench.write("data", at, 5, SECTOR));
        bench.settle("data");
        for drive in failed {
            bench.ask(fail_drive(drive)).expect("the level tolerates it");
        }
        let bad = bench.sim.drive("b").expect("the drive exists");
        for at in (0..BAD).map(|nth| 2 * nth * SECTOR) {
            bad.make_unreadable(ByteRange::new(ByteOffset(at), ByteCount(SECTOR)));
        }
        let (drive, with) = (failed[0].to_owned(), "new".to_owned());
        bench
            .ask(Command::DriveReplace { drive, with, destroy_data: true })
            .expect("the drive is replaced");
        let before = target(&mut bench).1;
        let (state, left) = rebuilt(&mut bench);
        assert!(before >= 2, "{level}: the test shows nothing: {before} regions");
        assert_eq!(
            (state, left),
            (DriveState::Rebuilding, 1),
            "{level}: all regions but one, of {before}"
        );
        assert!(bench.has_event("more unreadable or unwritable blocks"), "{level}");
        let lost = unreadable(&mut bench, dense, 5);
        assert!(lost.len() as u64 >= BAD / 2, "{level}: {} are lost", lost.len());
        // Once every block is readable again, the rest is rebuilt.
        bench.write("data", 0, 9, dense);
        for _ in 0..200 {
            if target(&mut bench).0 == DriveState::Online {
                break;
            }
            bench.wait(20);
        }
        assert_eq!(target(&mut bench), (DriveState::Online, 0), "{level}: rewritten");
        assert_eq!(unreadable(&mut bench, dense, 9), [0; 0], "{level}");
        let whole = if failed.len() == 1 { VolumeState::Optimal } else { VolumeState::Degraded };
        assert_eq!(bench.show("data").state, whole, "{level}");
    }
}
