//! A drive is lost that no volume can spare: nothing of it is recorded, and nothing else is, until it is back.

use crate::common::{Bench, MIB, create};
use controller::{AddSpare, Command, ErrorKind, Reply, VolumeState};

const DRIVES: [&str; 5] = ["a", "b", "c", "d", "e"];
const ALL: u64 = 1 << 20;

/// Two drives of a volume with two parity strips are taken out so, and a third one is lost with a write: it is offline.
fn lost(more: usize, take_out: impl Fn(String) -> Command) -> Bench {
    let mut bench = Bench::new(1, 1, DRIVES.len() + more);
    bench.boot(&[]);
    bench.create("data", "raid6", &DRIVES);
    bench.write("data", 0, 1, ALL);
    bench.settle("data");
    for drive in ["a", "b"] {
        bench.ask(take_out(drive.into())).expect("it can do without");
    }
    bench.sim.drive("c").expect("it is there").vanish();
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

/// The drive is back, and the volume all there.
fn is_whole_again(bench: &mut Bench) {
    bench.sim.drive("c").expect("it is there").come_back();
    let (volume, accept_stale_parity, degraded) = ("data".into(), false, false);
    bench.ask(Command::VolumeStart { volume, accept_stale_parity, degraded }).expect("nothing is missing");
    let bytes = bench.try_read("data", 0, ALL).expect("nothing is missing");
    assert!(bytes.iter().all(|byte| [1, 2].contains(byte)));
    bench.settle("data");
}

/// Drives that were out were said to be well again while another one was lost. The labels of those that were left said so, twice;
/// when the lost drive was back, what it held was called a copy from an earlier time, and the volume was lost.
#[test]
fn no_drive_is_taken_in_again_while_another_one_is_lost() {
    let mut bench = lost(0, offline);
    for drive in ["a", "b"] {
        let why = bench.refused(ErrorKind::WrongState, Command::DriveOnline { drive: drive.into() });
        assert!(why.contains("volume start data"), "{why}");
    }
    is_whole_again(&mut bench);
    for drive in ["a", "b"] {
        bench.ask(Command::DriveOnline { drive: drive.into() }).expect("nothing is lost now");
    }
    bench.wait(60);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

/// The same, where spares could take the places of drives that are out: they stay spares until the lost one is back.
#[test]
fn no_spare_takes_a_place_while_another_drive_is_lost() {
    let mut bench = lost(2, fail);
    for drive in ["f", "g"] {
        let add = AddSpare { drive: drive.into(), revertible: true, ..AddSpare::default() };
        bench.ask(Command::SpareAdd(add)).expect("it is free");
    }
    bench.wait(600);
    for (drive, with) in [("data:0", "f"), ("data:1", "g"), ("d", "f")] {
        let (drive, with) = (drive.into(), with.into());
        bench.refused(ErrorKind::WrongState, Command::DriveReplace { drive, with, destroy_data: true });
    }
    assert_eq!(spares(&mut bench), ["f", "g"]);
    is_whole_again(&mut bench);
    bench.wait(600);
    assert!(spares(&mut bench).is_empty(), "they are needed");
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

/// The same for all else that labels say: no command changes them, whatever it answers.
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

/// A volume of two loses a drive that it cannot spare, while writes to it are under way, and the other one goes on. Whatever is done with the array then, that stripes of the first may be
/// torn is not forgotten: with the drive back, and the first one still out, what that had cannot be computed there.
#[test]
fn what_was_being_written_when_a_volume_of_two_was_lost_is_still_doubted() {
    const FOUR: [&str; 4] = ["a", "b", "c", "d"];
    for waits in [0, 120] {
        let mut bench = Bench::in_order(7, 1, 0);
        bench.add_drives(&FOUR, 64 * MIB);
        bench.boot(&[]);
        for (name, level) in [("data", "raid5"), ("safe", "raid6")] {
            let half = |wanted: &mut controller::CreateVolume| {
                (wanted.size_bytes, wanted.write_hole) = (Some(8 * MIB), Some(controller::WriteHole::Resync));
            };
            bench.create_with(name, level, &FOUR, half).expect("there is room");
            bench.write(name, 0, 8, MIB);
            bench.settle(name);
        }
        bench.sim.drive("a").expect("it is there").vanish();
        bench.write("data", 0, 8, MIB);
        bench.write("safe", 0, 8, MIB);
        ["data", "safe"].iter().for_each(|name| bench.settle(name));
        bench.sim.drive("b").expect("it is there").vanish();
        let writes: Vec<_> = (0..12).map(|at| bench.begin_write("data", at * 65536, 9, 4096)).collect();
        for write in writes {
            let _ = bench.sim.finish(&write).expect("it ends");
        }
        bench.write("safe", 0, 9, MIB);
        assert_eq!(bench.show("data").state, VolumeState::Offline);
        bench.wait(waits);
        bench.shut_down();
        bench.sim.drive("b").expect("it is there").come_back();
        bench.restart(&[]);
        bench.ask(Command::DriveOnline { drive: "b".into() }).expect("it is well");
        bench.wait(600);
        let shown = bench.show("data");
        let (is, why) = (shown.state, shown.reasons.join("; "));
        let doubted = is == VolumeState::Offline && why.contains("--accept-stale-parity");
        assert!(doubted, "{waits} s: {is:?} {why}");
        bench.expect("safe", 0, 9, MIB);
    }
}
