//! Blocks that a drive cannot keep: their recorded state survives kills and power cuts.

use crate::common::Bench;
use crate::common::events::{End, at_every_event};
use controller::{Command, VolumeState};
use platform::{Buf, Durability};
use std::cell::Cell;
use units::{ByteCount, ByteOffset, ByteRange};

const ALL: u64 = 512 << 10;
const STRIP: u64 = 64 << 10;
/// In the first stripe, whose parity is on the fourth drive: the same columns of its first two data
/// strips.
const LOST: [u64; 2] = [4096, STRIP + 4096];
const LEN: u64 = 1024;

/// RAID 5 of `a`, `b`, `c` and `d`; `a` was lost and `e` has taken its slot, and two sectors of `b`
/// are not repaired by writes.
fn rebuilt(mut bench: Bench, refuses: bool) -> Bench {
    bench.boot(&["a", "b", "c", "d", "e", "f"]);
    bench.create("data", "raid5", &["a", "b", "c", "d"]);
    bench.write("data", 0, 5, ALL);
    bench.settle("data");
    let bad = bench.sim.drive("b").unwrap();
    let blocks = ByteRange::new(ByteOffset(LOST[0]), ByteCount(LEN));
    bench.ask(crate::common::fail_drive("a")).unwrap();
    bad.make_stuck(blocks, None);
    if refuses {
        bad.refuse_writes(blocks);
    }
    replace(&mut bench, "a", "e");
    bench
}

/// Replaces a drive, and waits until the volume is optimal.
fn replace(bench: &mut Bench, drive: &str, with: &str) {
    let (drive, with) = (drive.to_owned(), with.to_owned());
    bench.ask(Command::DriveReplace { drive, with: with.clone(), destroy_data: true }).unwrap();
    for _ in 0..100 {
        let info = bench.show("data");
        let is_in = info.drives.iter().any(|member| member.name == with);
        if info.state == VolumeState::Optimal && is_in {
            return bench.settle("data");
        }
        bench.wait(3);
    }
    panic!("not replaced: {:?}", bench.show("data"));
}

/// Checks every sector: `lost` ones are unreadable, rewritten ones are 9, and all others 5.
fn look(bench: &mut Bench, lost: &[u64], rewritten: &[u64], when: &str) {
    for at in (0..ALL).step_by(512) {
        let is_in = |ranges: &[u64]| ranges.iter().any(|start| (*start..start + LEN).contains(&at));
        let byte = if is_in(rewritten) { 9 } else { 5 };
        match bench.try_read("data", at, 512) {
            Ok(bytes) => {
                assert!(!is_in(lost) && bytes == [byte; 512], "{when}: {at} is {}", bytes[0])
            }
            Err(error) => assert!(is_in(lost), "{when}: {at}: {error}"),
        }
    }
}

/// A rebuild always failed if writes did not repair some blocks. Now it punctures these. Their
/// state, and the state of the zeros that the drive does not keep, survives a kill and a power cut,
/// and so do later host writes there, until the drive is replaced.
#[test]
fn what_a_drive_does_not_keep_is_known_after_a_start() {
    for refuses in [false, true] {
        let mut bench = rebuilt(Bench::new(41, 2, 6), refuses);
        assert_eq!(bench.show("data").lost_bytes, 2 * LEN);
        look(&mut bench, &LOST, &[], "rebuilt");
        bench.restart(&[]);
        look(&mut bench, &LOST, &[], "killed");
        bench.settle("data");
        bench.write("data", LOST[1], 9, LEN);
        look(&mut bench, &LOST[..1], &LOST[1..], "one is rewritten");
        bench.restart(&[]);
        look(&mut bench, &LOST[..1], &LOST[1..], "killed again");
        bench.settle("data");
        bench.write("data", LOST[0], 9, LEN);
        assert_eq!(bench.show("data").lost_bytes, 0);
        bench.power_cycle(&[]);
        bench.settle("data");
        look(&mut bench, &[], &LOST, "the power was cut");
        bench.shut_down();
        bench.restart(&[]);
        look(&mut bench, &[], &LOST, "stopped in order");
        replace(&mut bench, "b", "f");
        look(&mut bench, &[], &LOST, "the drive is replaced");
        bench.ask(crate::common::fail_drive("c")).unwrap();
        look(&mut bench, &[], &LOST, "another drive is lost");
    }
}

/// A kill or power cut at any event of a host write to punctured blocks that their drive does not
/// keep: acknowledged data is there, and every other block reads as written, also when a drive is
/// lost then.
#[test]
fn a_crash_while_punctured_blocks_are_rewritten_costs_no_other_block() {
    let ways =
        [(End::Killed, false), (End::PowerCut, false), (End::Killed, true), (End::PowerCut, true)];
    for (how, refuses) in ways {
        let prepare = || rebuilt(Bench::in_order(43, 1, 6), refuses);
        let scene = |bench: &mut Bench| {
            let first = bench.try_write("data", LOST[1], 9, LEN).ok()?;
            let second = bench.try_write("data", LOST[0], 9, LEN).ok()?;
            first.and(second).ok()
        };
        at_every_event(1, how, prepare, scene, |bench, outcome, event| {
            // With the crash, or after the resync that follows.
            let at_once = event % 2 == 0;
            if at_once {
                bench.sim.drive("c").unwrap().vanish();
            }
            bench.boot(&[]);
            for lost in if at_once { &["c"][..] } else { &["", "c"] } {
                for at in (0..ALL).step_by(512) {
                    let is_listed = LOST.iter().any(|start| (*start..start + LEN).contains(&at));
                    // Rewritten blocks are in redundancy only: one more lost drive loses a block of
                    // that column.
                    let is_beside =
                        *lost == "c" && (2 * STRIP + 4096..2 * STRIP + 4096 + LEN).contains(&at);
                    let what =
                        format!("{how:?}, refuses {refuses}, {event}: {at} without '{lost}'");
                    match bench.try_read("data", at, 512) {
                        Ok(bytes) if is_listed => assert_eq!(bytes, [9; 512], "{what}"),
                        Ok(bytes) => assert_eq!(bytes, [5; 512], "{what}"),
                        Err(_) if is_beside => {}
                        Err(_) => {
                            let is_acknowledged =
                                outcome.is_some() && how == End::Killed && lost.is_empty();
                            assert!(is_listed && !is_acknowledged, "{what}");
                        }
                    }
                }
                if lost.is_empty() {
                    bench.settle("data");
                    // Where a block of `b` is in redundancy only, that loses one of `c`.
                    let (drive, accept_data_loss) = ("c".into(), true);
                    bench
                        .ask(Command::DriveFail {
                            drive,
                            accept_data_loss,
                            accepted: None,
                            dry_run: false,
                        })
                        .unwrap();
                }
            }
        });
    }
}

/// A drive was missing, and another one refused a host's write of a block. The process ended before
/// the write had failed, or while the old content was restored: its record was replayed, its block
/// refused again, and the missing drive's block of these columns was lost with it. The same where a
/// concurrent flush invalidated the record while the first of two sectors was restored: no record
/// held the second one's content by then.
#[test]
fn a_crash_while_a_refused_write_is_put_back_costs_no_other_block() {
    for how in [End::Killed, End::PowerCut] {
        let prepare = || {
            let mut bench = Bench::in_order(44, 1, 4);
            bench.boot(&["a", "b", "c", "d"]);
            bench.create("data", "raid5", &["a", "b", "c", "d"]);
            bench.write("data", 0, 5, ALL);
            bench.settle("data");
            bench.ask(crate::common::fail_drive("a")).unwrap();
            let refused = ByteRange::new(ByteOffset(LOST[0]), ByteCount(LEN));
            bench.sim.drive("b").unwrap().refuse_writes(refused);
            bench
        };
        let at = LOST[1] - 2 * LEN;
        let scene = |bench: &mut Bench| {
            (3..8).for_each(|strip| write_and_flush_beside(bench, strip * STRIP));
            bench.try_write("data", at, 9, 8 * LEN).ok()
        };
        at_every_event(1, how, prepare, scene, |bench, outcome, event| {
            bench.boot(&[]);
            for sector in (0..ALL).step_by(512) {
                let is_written = (at..at + 8 * LEN).contains(&sector);
                let is_refused = (LOST[1]..LOST[1] + LEN).contains(&sector);
                let what = format!("{how:?}, {event}, {outcome:?}: {sector}");
                match bench.try_read("data", sector, 512) {
                    Ok(bytes) if is_written => {
                        assert!(bytes == [5; 512] || bytes == [9; 512], "{what}")
                    }
                    Ok(bytes) => assert_eq!(bytes, [5; 512], "{what}"),
                    Err(error) => assert!(is_refused, "{what}: {error}"),
                }
            }
        });
    }
}

/// Another host repeatedly rewrites unchanged bytes, and flushes them.
fn write_and_flush_beside(bench: &Bench, at: u64) {
    let volume = bench.shards[0].volume_named("data").expect("the volume is online");
    let env = volume.shard().env().clone();
    env.spawn("host beside", async move {
        for _ in 0..200 {
            let data = Buf::copy_of(&[5; LEN as usize]).freeze();
            let range = ByteRange::new(ByteOffset(at), ByteCount(LEN));
            volume.write(range, data, Durability::Cached).await.expect("its drives take the write");
            volume.flush().await.expect("its drives take the flush");
        }
    });
}

/// A drive kept no write of a block, and only redundancy had it. The drive became good again, and
/// the process ended during a host's write of the block: its record was replayed and the drive kept
/// it. The block stayed excluded, and was lost with the next drive.
#[test]
fn a_block_that_a_replay_has_written_and_its_drive_keeps_is_no_longer_excluded() {
    let prepare = || {
        let mut bench = rebuilt(Bench::in_order(45, 1, 6), true);
        for at in LOST {
            bench.write("data", at, 9, LEN);
        }
        let bad = bench.sim.drive("b").unwrap();
        bad.clear_write_errors();
        bad.heal(ByteRange::new(ByteOffset(LOST[0]), ByteCount(LEN)));
        bench
    };
    let scene = |bench: &mut Bench| bench.try_write("data", LOST[1], 7, LEN).ok();
    let replayed = Cell::new(0);
    at_every_event(1, End::Killed, prepare, scene, |bench, _, event| {
        bench.boot(&[]);
        replayed
            .set(replayed.get() + u32::from(bench.has_event("interrupted writes were finished")));
        let is_written =
            bench.try_read("data", LOST[1], LEN).expect("redundant") == [7; LEN as usize];
        bench.sim.drive("c").unwrap().vanish();
        for at in (0..ALL).step_by(512) {
            let is_in = |start: u64| (start..start + LEN).contains(&at);
            let byte = if is_in(LOST[1]) {
                [9, 7][usize::from(is_written)]
            } else if is_in(LOST[0]) {
                9
            } else {
                5
            };
            match bench.try_read("data", at, 512) {
                Ok(bytes) => assert_eq!(bytes, [byte; 512], "{event}: {at}"),
                // Until it is written, the block is in redundancy only.
                Err(error) => assert!(!is_written, "{event}: {at}: {error}"),
            }
        }
    });
    assert!(replayed.get() > 0, "some of them leave a record to replay");
}

/// A replay wrote a block that its drive then refused, while it still returned the old content. The
/// block was not excluded: an acknowledged write was lost, and the next lost drive was computed
/// from the old content.
#[test]
fn a_block_that_is_refused_in_a_replay_is_not_computed_with() {
    let prepare = || {
        let mut bench = Bench::in_order(46, 1, 4);
        bench.boot(&["a", "b", "c", "d"]);
        bench.create("data", "raid5", &["a", "b", "c", "d"]);
        bench.write("data", 0, 5, ALL);
        bench.settle("data");
        bench
    };
    let scene = |bench: &mut Bench| bench.try_write("data", LOST[1], 9, LEN).ok();
    at_every_event(1, End::PowerCut, prepare, scene, |bench, _, event| {
        let refused = ByteRange::new(ByteOffset(LOST[0]), ByteCount(LEN));
        bench.sim.drive("b").unwrap().refuse_writes(refused);
        bench.boot(&[]);
        let written = bench.try_read("data", LOST[1], LEN).expect("redundant");
        assert!(written.iter().all(|byte| [5, 9].contains(byte)), "{event}");
        bench.sim.drive("c").unwrap().vanish();
        for at in (2 * STRIP..3 * STRIP).step_by(512) {
            match bench.try_read("data", at, 512) {
                Ok(bytes) => assert_eq!(bytes, [5; 512], "{event}: {at}"),
                Err(error) => {
                    assert!((at % STRIP).wrapping_sub(LOST[0]) < LEN, "{event}: {at}: {error}")
                }
            }
        }
    });
}
