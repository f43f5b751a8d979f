//! A drive fails that all volumes need: neither its failure nor any other change is recorded until
//! it returns.

use crate::common::{Bench, MIB, create};
use controller::{AddSpare, Command, ErrorKind, Reply, VolumeState};

const DRIVES: [&str; 5] = ["a", "b", "c", "d", "e"];
const ALL: u64 = 1 << 20;

/// Two drives of a volume with two parity strips are removed, and a third one fails during a write:
/// the volume is offline.
fn lost(more: usize, take_out: impl Fn(String) -> Command) -> Bench {
    let mut bench = Bench::new(1, 1, DRIVES.len() + more);
    bench.boot(&[]);
    bench.create("data", "raid6", &DRIVES);
    bench.write("data", 0, 1, ALL);
    bench.settle("data");
    for drive in ["a", "b"] {
        bench.ask(take_out(drive.into())).expect("the volume tolerates it");
    }
    bench.sim.drive("c").expect("the drive exists").vanish();
    bench.try_write("data", 0, 2, ALL).expect("it ends").expect_err("too much is gone");
    bench.wait(1);
    assert_eq!(bench.show("data").state, VolumeState::Offline);
    bench
}

fn offline(drive: String) -> Command {
    Command::DriveOffline { drive, accept_data_loss: false, accepted: None, dry_run: false }
}

fn fail(drive: String) -> Command {
    Command::DriveFail { drive, accept_data_loss: false, accepted: None, dry_run: false }
}

fn spares(bench: &mut Bench) -> Vec<String> {
    match bench.ask(Command::SpareList {}) {
        Ok(Reply::Spares { spares, .. }) => spares.into_iter().map(|spare| spare.drive).collect(),
        other => panic!("{other:?}"),
    }
}

/// The drive returns, and the volume is complete.
fn is_whole_again(bench: &mut Bench) {
    bench.sim.drive("c").expect("the drive exists").come_back();
    let (volume, accept_stale_parity, degraded) = ("data".into(), false, false);
    bench
        .ask(Command::VolumeStart { volume, accept_stale_parity, degraded })
        .expect("nothing is missing");
    let bytes = bench.try_read("data", 0, ALL).expect("nothing is missing");
    assert!(bytes.iter().all(|byte| [1, 2].contains(byte)));
    bench.settle("data");
}

/// Removed drives were recorded as current while another one was lost. The labels of the remaining
/// drives said so, twice; when the lost drive returned, it counted as an older copy, and the volume
/// was lost.
#[test]
fn no_drive_is_taken_in_again_while_another_one_is_lost() {
    let mut bench = lost(0, offline);
    for drive in ["a", "b"] {
        let why =
            bench.refused(ErrorKind::WrongState, Command::DriveOnline { drive: drive.into() });
        assert!(why.contains("volume start data"), "{why}");
    }
    is_whole_again(&mut bench);
    for drive in ["a", "b"] {
        bench.ask(Command::DriveOnline { drive: drive.into() }).expect("no data is lost now");
    }
    bench.wait(60);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

/// The same with spares that could replace the removed drives: they stay spares until the lost
/// drive returns.
#[test]
fn no_spare_takes_a_place_while_another_drive_is_lost() {
    let mut bench = lost(2, fail);
    for drive in ["f", "g"] {
        let add = AddSpare { drive: drive.into(), revertible: true, ..AddSpare::default() };
        bench.ask(Command::SpareAdd(add)).expect("the drive is free");
    }
    bench.wait(600);
    for (drive, with) in [("data:0", "f"), ("data:1", "g"), ("d", "f")] {
        let (drive, with) = (drive.into(), with.into());
        bench.refused(
            ErrorKind::WrongState,
            Command::DriveReplace { drive, with, destroy_data: true },
        );
    }
    assert_eq!(spares(&mut bench), ["f", "g"]);
    is_whole_again(&mut bench);
    bench.wait(600);
    assert!(spares(&mut bench).is_empty(), "the spares are needed");
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

/// The same for all other label content: no command changes it, whatever its reply.
#[test]
fn nothing_is_recorded_while_a_drive_is_lost() {
    let mut bench = lost(1, offline);
    let commands = [
        Command::VolumeSet { volume: "data".into(), name: "new".into() },
        crate::common::fail_drive("d"),
        crate::common::take_offline("e"),
        create("more", "raid5", &DRIVES),
        Command::DriveReplace { drive: "d".into(), with: "f".into(), destroy_data: true },
    ];
    for command in commands {
        let what = format!("{command:?}");
        for _ in 0..2 {
            bench.ask(command.clone()).expect_err(&what);
        }
    }
    is_whole_again(&mut bench);
}

/// A volume loses a drive that it needs, with writes in progress; another volume of the array stays
/// online. Whatever changes the array then, the possibly interrupted stripes of the first volume
/// stay recorded: with the drive back and the first one still missing, the missing blocks there
/// cannot be computed.
#[test]
fn what_was_being_written_when_a_volume_of_two_was_lost_is_still_doubted() {
    const FOUR: [&str; 4] = ["a", "b", "c", "d"];
    for waits in [0, 120] {
        let mut bench = Bench::in_order(7, 1, 0);
        bench.add_drives(&FOUR, 64 * MIB);
        bench.boot(&[]);
        for (name, level) in [("data", "raid5"), ("safe", "raid6")] {
            let half = |wanted: &mut controller::CreateVolume| {
                (wanted.size_bytes, wanted.write_hole) =
                    (Some(8 * MIB), Some(controller::WriteHole::Resync));
            };
            bench.create_with(name, level, &FOUR, half).expect("there is space");
            bench.write(name, 0, 8, MIB);
            bench.settle(name);
        }
        bench.sim.drive("a").expect("the drive exists").vanish();
        bench.write("data", 0, 8, MIB);
        bench.write("safe", 0, 8, MIB);
        ["data", "safe"].iter().for_each(|name| bench.settle(name));
        bench.sim.drive("b").expect("the drive exists").vanish();
        let writes: Vec<_> =
            (0..12).map(|at| bench.begin_write("data", at * 65536, 9, 4096)).collect();
        for write in writes {
            let _ = bench.sim.finish(&write).expect("it ends");
        }
        bench.write("safe", 0, 9, MIB);
        assert_eq!(bench.show("data").state, VolumeState::Offline);
        bench.wait(waits);
        bench.shut_down();
        bench.sim.drive("b").expect("the drive exists").come_back();
        bench.restart(&[]);
        bench.ask(Command::DriveOnline { drive: "b".into() }).expect("the volume is optimal");
        bench.wait(600);
        let shown = bench.show("data");
        let (is, why) = (shown.state, shown.reasons.join("; "));
        let doubted = is == VolumeState::Offline && why.contains("--accept-stale-parity");
        assert!(doubted, "{waits} s: {is:?} {why}");
        bench.expect("safe", 0, 9, MIB);
    }
}
