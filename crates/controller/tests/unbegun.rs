//! Moves to another layout that a crash left before they had begun.

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

/// Its drives had heard which ones it was to get, and the process ended. Too few of them were there afterwards for a start, which takes that
/// back; until one could be made the volume was shown with the new drives among its own, and no word of a move.
#[test]
fn a_volume_that_cannot_start_does_not_show_the_drives_of_a_move_that_has_not_begun() {
    at_every_event(1, End::Killed, prepared, begin, |bench, _, event| {
        for drive in ["a", "b"] {
            bench.sim.drive(drive).expect("it is there").vanish();
        }
        bench.boot(&["c", "d"]);
        let info = bench.show("data");
        assert_eq!(info.state, VolumeState::Offline, "event {event}");
        let drives = if info.reshape.is_some() { 4 } else { 3 };
        assert_eq!((info.level.as_str(), info.drives.len()), ("raid5", drives), "event {event}");
    });
}

/// A start took the beginning back, and the map of regions stayed as long as the label had said for a moment: whoever took a drive's place
/// afterwards met that, and the controller ended.
#[test]
fn a_drive_takes_a_place_after_a_beginning_was_taken_back() {
    at_every_event(1, End::Killed, prepared, begin, |bench, _, event| {
        bench.boot(&[]);
        if bench.show("data").reshape.is_some() {
            return;
        }
        bench.sim.drive("b").expect("it is there").vanish();
        bench.write("data", 0, 3, 1 << 20);
        let (drive, with) = ("data:1".to_owned(), "e".to_owned());
        bench.ask(Command::DriveReplace { drive, with, destroy_data: true }).expect("it can be replaced");
        bench.settle("data");
        assert_eq!(bench.show("data").state, VolumeState::Optimal, "event {event}");
        bench.expect("data", 0, 3, 1 << 20);
    });
}
