//! Fault tolerance as `show` states it, and orders that would cost data.

use crate::common::Bench;
use controller::{Command, ErrorKind, Reply, VolumeState};

const MIB: u64 = 1 << 20;

fn fail(accept_data_loss: bool, dry_run: bool) -> Command {
    Command::DriveFail { drive: "b".into(), accept_data_loss, dry_run }
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
    let why = bench.refused(ErrorKind::WrongState, fail(false, false));
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
