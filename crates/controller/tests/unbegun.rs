//! Moves to another layout that a crash left before they had begun.

use crate::common::events::{End, at_every_event};
use crate::common::{Bench, MIB};
use controller::{Command, ReshapeVolume, VolumeState};

/// Its drives had heard which ones it was to get, and the process ended. Too few of them were there afterwards for a start, which takes that
/// back; until one could be made the volume was shown with the new drives among its own, and no word of a move.
#[test]
fn a_volume_that_cannot_start_does_not_show_the_drives_of_a_move_that_has_not_begun() {
    let prepare = || {
        let mut bench = Bench::in_order(9, 1, 0);
        bench.add_drives(&["a", "b", "c", "d"], 36 * MIB);
        bench.boot(&["a", "b", "c", "d"]);
        bench.create("data", "raid5", &["a", "b", "c"]);
        bench.settle("data");
        bench
    };
    let begin = |bench: &mut Bench| {
        let order = ReshapeVolume {
            volume: "data".into(),
            level: Some("raid6".into()),
            add: vec!["d".into()],
            ..ReshapeVolume::default()
        };
        bench.try_ask(Command::VolumeReshape(order)).ok()?.ok()
    };
    at_every_event(1, End::Killed, prepare, begin, |bench, _, event| {
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
