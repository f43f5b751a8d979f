//! Reshapes interrupted by a crash before they had begun.

use crate::common::events::{End, at_every_event};
use crate::common::{Bench, MIB};
use controller::{Command, ReshapeVolume, VolumeState};

fn prepared() -> Bench {
    let mut bench = Bench::in_order(9, 1, 0);
    bench.add_drives(&["a", "b", "c", "d", "e"], 36 * MIB);
    bench.boot(&["a", "b", "c", "d", "e"]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench
}

fn begin(bench: &mut Bench) -> Option<()> {
    let order = ReshapeVolume {
        volume: "data".into(),
        level: Some("raid6".into()),
        add: vec!["d".into()],
        ..ReshapeVolume::default()
    };
    bench.try_ask(Command::VolumeReshape(order)).ok()?.ok().map(drop)
}

/// The drives had the label with the drives to be added, and the process ended. Too few of them
/// were present afterwards for a start, which rolls the reshape back. Until a start was possible
/// the volume was shown with the new drives as members, and without a reshape.
#[test]
fn a_volume_that_cannot_start_does_not_show_the_drives_of_a_move_that_has_not_begun() {
    at_every_event(1, End::Killed, prepared, begin, |bench, _, event| {
        for drive in ["a", "b"] {
            bench.sim.drive(drive).expect("the drive exists").vanish();
        }
        bench.boot(&["c", "d"]);
        let info = bench.show("data");
        assert_eq!(info.state, VolumeState::Offline, "event {event}");
        let drives = if info.reshape.is_some() { 4 } else { 3 };
        assert_eq!((info.level.as_str(), info.drives.len()), ("raid5", drives), "event {event}");
    });
}

/// A start rolled the reshape back, and for a moment the map kept the length that the label had
/// had: a replacement of a drive then met that map, and the controller crashed.
#[test]
fn a_drive_takes_a_place_after_a_beginning_was_taken_back() {
    at_every_event(1, End::Killed, prepared, begin, |bench, _, event| {
        bench.boot(&[]);
        if bench.show("data").reshape.is_some() {
            return;
        }
        bench.sim.drive("b").expect("the drive exists").vanish();
        bench.write("data", 0, 3, 1 << 20);
        let (drive, with) = ("data:1".to_owned(), "e".to_owned());
        bench
            .ask(Command::DriveReplace { drive, with, destroy_data: true })
            .expect("the replacement begins");
        bench.settle("data");
        assert_eq!(bench.show("data").state, VolumeState::Optimal, "event {event}");
        bench.expect("data", 0, 3, 1 << 20);
    });
}
