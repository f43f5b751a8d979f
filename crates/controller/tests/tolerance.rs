//! Fault tolerance in `show`, and commands that would cost data.

use crate::common::Bench;
use controller::{Command, DriveCost, ErrorKind, Reply, VolumeState};

const MIB: u64 = 1 << 20;

fn fail(accept_data_loss: bool, dry_run: bool) -> Command {
    Command::DriveFail { drive: "b".into(), accept_data_loss, accepted: None, dry_run }
}

/// RAID 5 without a journal, killed during a write: its resync is not done.
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

/// `volume show` reported a fault tolerance of one drive for a volume in a resync, and `drive fail`
/// removed one: its data was lost.
#[test]
fn a_drive_whose_loss_costs_data_is_taken_out_only_by_an_order_that_accepts_it() {
    let mut bench = resyncing();
    let info = bench.show("data");
    assert!(info.resync.is_some(), "the test shows nothing");
    assert_eq!((info.state, info.may_lose, info.may_lose_at_most), (VolumeState::Optimal, 0, 0));
    let why = bench.refused(ErrorKind::LosesData, fail(false, false));
    assert!(why.contains("'data' would lose data") && why.contains("drive fail --yes b"), "{why}");
    assert_eq!(bench.show("data").state, VolumeState::Optimal, "the command changed nothing");
    // The reply reports the cost, and nothing is done.
    let Ok(Reply::Drive { notes, .. }) = bench.ask(fail(false, true)) else { panic!("no answer") };
    assert!(notes.iter().any(|note| note.contains("would lose data")), "{notes:?}");
    assert_eq!(bench.show("data").state, VolumeState::Optimal, "the command changed nothing");
    bench.ask(fail(true, false)).unwrap();
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
}

/// After the resync the same command costs redundancy only, and says so.
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

/// The present cost of failing the drive.
fn costs(bench: &mut Bench) -> Vec<DriveCost> {
    match bench.ask(fail(false, true)) {
        Ok(Reply::Drive { costs, .. }) => costs,
        other => panic!("{other:?}"),
    }
}

/// An operator was told that failing a drive costs redundancy. The state got worse before the
/// confirmation, which then accepted the loss of data.
#[test]
fn a_yes_accepts_no_more_than_was_told() {
    let mut bench = resyncing();
    bench.settle("data");
    let told = costs(&mut bench);
    assert!(told[0].last_redundancy && !told[0].loses_data(), "{told:?}");
    bench.write("data", 0, 6, MIB);
    bench.restart(&["a", "b", "c"]);
    let why = bench.refused(ErrorKind::LosesData, fail_if(&told));
    assert!(
        why.contains("'data' would lose data") && why.contains("larger than the accepted"),
        "{why}"
    );
    bench.refused(ErrorKind::LosesData, fail_if(&[]));
    assert_eq!(bench.show("data").state, VolumeState::Optimal, "the command changed nothing");
    let told = costs(&mut bench);
    assert!(told[0].loses_data(), "{told:?}");
    // The state improved: the confirmation covers that.
    bench.settle("data");
    bench.ask(fail_if(&told)).expect("the cost is lower than the accepted one");
    bench.expect("data", 0, 6, MIB);
}

/// Blocks of a volume are lost, and their drive keeps no zeros for them. The failure of another
/// drive costs no more data, and was refused.
#[test]
fn what_is_lost_already_needs_no_word() {
    let mut bench = Bench::new(32, 1, 5);
    bench.boot(&["a", "b", "c", "d", "e"]);
    bench.create("data", "raid5", &["a", "b", "c", "d"]);
    bench.write("data", 0, 5, MIB / 2);
    bench.settle("data");
    bench.ask(crate::common::fail_drive("a")).expect("the level tolerates it");
    let blocks = units::ByteRange::new(units::ByteOffset(4096), units::ByteCount(1024));
    let drive = bench.sim.drive("b").expect("the drive exists");
    drive.make_stuck(blocks, None);
    drive.refuse_writes(blocks);
    let (failed, with) = ("a".to_owned(), "e".to_owned());
    bench
        .ask(Command::DriveReplace { drive: failed, with, destroy_data: true })
        .expect("the drive is replaced");
    while bench.show("data").state != VolumeState::Optimal {
        bench.wait(3);
    }
    bench.settle("data");
    let info = bench.show("data");
    assert_eq!((info.lost_bytes, info.may_lose), (2 * 1024, 1), "lost blocks need no redundancy");
    bench.ask(crate::common::fail_drive("c")).expect("no further data is lost");
    let failed = |bench: &mut Bench| {
        let sectors = (0..MIB / 2).step_by(512);
        sectors.filter(|at| bench.try_read("data", *at, 512).is_err()).count()
    };
    assert_eq!(failed(&mut bench), 4, "only the lost sectors");
}
