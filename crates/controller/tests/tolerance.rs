//! Fault tolerance as `show` states it, and orders that would cost data.

use crate::common::Bench;
use controller::{Command, DriveCost, ErrorKind, Reply, VolumeState};

const MIB: u64 = 1 << 20;

fn fail(accept_data_loss: bool, dry_run: bool) -> Command {
    Command::DriveFail { drive: "b".into(), accept_data_loss, accepted: None, dry_run }
}

/// RAID 5 without a journal, killed behind a write: its resync is not done.
fn resyncing() -> Bench {
    let mut bench = Bench::new(31, 1, 3);
    bench.boot(&["a", "b", "c"]);
    bench.create_resyncing("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    assert_eq!(bench.show("data").may_lose, 1);
    bench.write("data", 0, 5, MIB);
    bench.restart(&["a", "b", "c"]);
    bench
}

/// `volume show` said that a volume in its resync may lose a drive, and `drive fail` took one out: what was on it was lost.
#[test]
fn a_drive_whose_loss_costs_data_is_taken_out_only_by_an_order_that_accepts_it() {
    let mut bench = resyncing();
    let info = bench.show("data");
    assert!(info.resync.is_some(), "the test shows nothing");
    assert_eq!((info.state, info.may_lose, info.may_lose_at_most), (VolumeState::Optimal, 0, 0));
    let why = bench.refused(ErrorKind::LosesData, fail(false, false));
    assert!(why.contains("'data' would lose data") && why.contains("drive fail --yes b"), "{why}");
    assert_eq!(bench.show("data").state, VolumeState::Optimal, "nothing was changed");
    // What it costs is answered, and nothing is done.
    let Ok(Reply::Drive { notes, .. }) = bench.ask(fail(false, true)) else { panic!("no answer") };
    assert!(notes.iter().any(|note| note.contains("would lose data")), "{notes:?}");
    assert_eq!(bench.show("data").state, VolumeState::Optimal, "nothing was changed");
    bench.ask(fail(true, false)).unwrap();
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
}

/// After the resync the same order costs redundancy only, and says so.
#[test]
fn a_drive_that_redundancy_replaces_is_taken_out_without_more_ado() {
    let mut bench = resyncing();
    bench.settle("data");
    assert_eq!(bench.show("data").may_lose, 1);
    let Ok(Reply::Drive { notes, .. }) = bench.ask(fail(false, false)) else { panic!("refused") };
    assert!(notes.iter().any(|note| note.contains("has no redundancy left")), "{notes:?}");
    let info = bench.show("data");
    assert_eq!((info.state, info.may_lose), (VolumeState::Degraded, 0));
    bench.expect("data", 0, 5, MIB);
}

fn fail_if(accepted: &[DriveCost]) -> Command {
    let (drive, accepted) = ("b".to_owned(), Some(accepted.to_vec()));
    Command::DriveFail { drive, accept_data_loss: false, accepted, dry_run: false }
}

/// What it costs now to take the drive out.
fn costs(bench: &mut Bench) -> Vec<DriveCost> {
    match bench.ask(fail(false, true)) {
        Ok(Reply::Drive { costs, .. }) => costs,
        other => panic!("{other:?}"),
    }
}

/// An operator was told that a drive's failure costs redundancy, the state got worse before the answer, and the yes accepted that data
/// were lost.
#[test]
fn a_yes_accepts_no_more_than_was_told() {
    let mut bench = resyncing();
    bench.settle("data");
    let told = costs(&mut bench);
    assert!(told[0].last_redundancy && !told[0].loses_data(), "{told:?}");
    bench.write("data", 0, 6, MIB);
    bench.restart(&["a", "b", "c"]);
    let why = bench.refused(ErrorKind::LosesData, fail_if(&told));
    assert!(why.contains("'data' would lose data") && why.contains("more than was accepted"), "{why}");
    bench.refused(ErrorKind::LosesData, fail_if(&[]));
    assert_eq!(bench.show("data").state, VolumeState::Optimal, "nothing was changed");
    let told = costs(&mut bench);
    assert!(told[0].loses_data(), "{told:?}");
    // It became better: what was accepted includes that.
    bench.settle("data");
    bench.ask(fail_if(&told)).expect("it costs less than was accepted");
    bench.expect("data", 0, 6, MIB);
}

/// Blocks of a volume are lost, and their drive keeps no zeros for them: the failure of another drive costs nothing more, and was refused.
#[test]
fn what_is_lost_already_needs_no_word() {
    let mut bench = Bench::new(32, 1, 5);
    bench.boot(&["a", "b", "c", "d", "e"]);
    bench.create("data", "raid5", &["a", "b", "c", "d"]);
    bench.write("data", 0, 5, MIB / 2);
    bench.settle("data");
    bench.ask(crate::common::fail_drive("a")).expect("the level survives it");
    let blocks = units::ByteRange::new(units::ByteOffset(4096), units::ByteCount(1024));
    let drive = bench.sim.drive("b").expect("it is there");
    drive.make_stuck(blocks, None);
    drive.refuse_writes(blocks);
    let (failed, with) = ("a".to_owned(), "e".to_owned());
    bench.ask(Command::DriveReplace { drive: failed, with, destroy_data: true }).expect("it is replaced");
    while bench.show("data").state != VolumeState::Optimal {
        bench.wait(3);
    }
    bench.settle("data");
    let info = bench.show("data");
    assert_eq!((info.lost_bytes, info.may_lose), (2 * 1024, 1), "what is lost needs no redundancy");
    bench.ask(crate::common::fail_drive("c")).expect("it costs nothing more");
    let failed = |bench: &mut Bench| {
        let sectors = (0..MIB / 2).step_by(512);
        sectors.filter(|at| bench.try_read("data", *at, 512).is_err()).count()
    };
    assert_eq!(failed(&mut bench), 4, "the sectors that were lost, and no other");
}
