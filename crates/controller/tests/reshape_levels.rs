//! Reshapes to and from levels with spans and with a distributed spare.

use crate::common::events::{End, at_every_event};
use crate::common::{Bench, MIB};
use crate::reshape::{
    STRIP, Way, arrive, byte, expect_content, expect_redundancy, flush, order, reshape,
};
use controller::{Command, ErrorKind, Reply, ReshapeVolume, VolumeState};
use std::cell::Cell;

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

const WAYS: [Way; 9] = [
    Way { from: "raid5", drives: &["a", "b", "c", "d", "e"], to: "raid50", add: &["f"] },
    Way { from: "raid50", drives: &["a", "b", "c", "d", "e", "f"], to: "raid5", add: &[] },
    Way { from: "raid50", drives: &["a", "b", "c", "d", "e", "f"], to: "raid50", add: &["g", "h"] },
    Way { from: "raid6", drives: &["a", "b", "c", "d", "e", "f"], to: "raid60", add: &["g", "h"] },
    Way { from: "raid60", drives: &NAMES, to: "raid6", add: &[] },
    Way { from: "raid5", drives: &["a", "b", "c", "d"], to: "raid5ee", add: &["e"] },
    Way { from: "raid5ee", drives: &["a", "b", "c", "d"], to: "raid5", add: &[] },
    Way { from: "raid5ee", drives: &["a", "b", "c", "d"], to: "raid6", add: &[] },
    Way { from: "raid10", drives: &["a", "b", "c", "d", "e", "f"], to: "raid50", add: &[] },
];

fn prepared(way: Way, shards: usize, room: u64) -> Bench {
    let mut bench = Bench::in_order(9, shards, 0);
    bench.add_drives(&NAMES, 32 * MIB + room);
    bench.boot(&NAMES);
    let (info, _) = bench.create("data", way.from, way.drives);
    for strip in 0..info.capacity_bytes / STRIP {
        bench.write("data", strip * STRIP, byte(strip), STRIP);
    }
    flush(&mut bench);
    bench.settle("data");
    bench
}

#[test]
fn levels_with_spans_and_spares_are_reached_and_left() {
    for (way, shards) in WAYS.into_iter().zip([2, 1].into_iter().cycle()) {
        let mut bench = prepared(way, shards, 6 * MIB);
        let bytes = bench.show("data").capacity_bytes;
        let told = reshape(&mut bench, order(way));
        arrive(&mut bench);
        let shown = bench.show("data");
        assert_eq!(
            (shown.level.as_str(), shown.capacity_bytes),
            (way.to, told.to.capacity_bytes),
            "{way:?}"
        );
        assert_eq!(
            shown.spans,
            if way.to.ends_with("50") || way.to.ends_with("60") { 2 } else { 1 },
            "{way:?}"
        );
        expect_content(&mut bench, bytes);
        expect_redundancy(&mut bench, bytes);
    }
}

#[test]
fn they_are_interrupted_anywhere_and_lose_nothing() {
    for (way, how) in WAYS.into_iter().zip([End::PowerCut, End::Killed].into_iter().cycle()) {
        let bytes = Cell::new(0);
        let prepare = || {
            let mut bench = prepared(way, 1, MIB + (128 << 10));
            bytes.set(bench.show("data").capacity_bytes);
            bench
        };
        let scene = |bench: &mut Bench| {
            bench.try_ask(Command::VolumeReshape(order(way))).ok()?.unwrap();
            for _ in 0..60 {
                let until = bench.sim.now() + std::time::Duration::from_secs(1);
                bench.sim.run_until(until).ok()?;
                let shown = bench.try_ask(Command::VolumeShow { volume: "data".into() }).ok()?;
                if matches!(shown, Ok(Reply::Volume { volume, .. }) if volume.reshape.is_none()) {
                    return Some(());
                }
            }
            None
        };
        at_every_event(47, how, prepare, scene, |bench, _, event| {
            bench.boot(&NAMES);
            let shown = bench.show("data");
            assert!(shown.state.serves(), "{way:?}, {how:?} at event {event}: {:?}", shown.reasons);
            arrive(bench);
            expect_content(bench, bytes.get());
            let info = bench.show("data");
            if info.drives.len() == way.drives.len() && info.level == way.from && way.to != way.from
            {
                reshape(bench, ReshapeVolume { destroy_data: true, ..order(way) });
                arrive(bench);
            }
            let info = bench.show("data");
            assert_eq!(
                (info.level.as_str(), info.state),
                (way.to, VolumeState::Optimal),
                "event {event}"
            );
            expect_content(bench, bytes.get());
            expect_redundancy(bench, bytes.get());
        });
    }
}

/// A drive is lost during the reshape, which continues without it; in the end the drive is rebuilt.
/// No strip moves into the distributed spare before that.
#[test]
fn a_drive_that_is_lost_on_the_way_is_rebuilt_in_the_end() {
    for way in WAYS {
        let mut bench = prepared(way, 2, 6 * MIB);
        let bytes = bench.show("data").capacity_bytes;
        reshape(&mut bench, order(way));
        bench.sim.drive("b").unwrap().vanish();
        bench.write("data", 0, byte(0), STRIP);
        bench.sim.drive("b").unwrap().come_back();
        for _ in 0..200 {
            let shown = bench.show("data");
            if shown.reshape.is_none() && shown.state == VolumeState::Optimal {
                break;
            }
            bench.wait(1);
        }
        let shown = bench.show("data");
        assert_eq!((shown.reshape, shown.state), (None, VolumeState::Optimal), "{way:?}");
        expect_content(&mut bench, bytes);
    }
}

/// The same number of drives holds less data at a level with more redundancy.
#[test]
fn what_has_no_room_is_refused_with_the_nearest_way() {
    for (from, to, drives) in [
        ("raid5", "raid50", &NAMES[..6]),
        ("raid6", "raid60", &NAMES[..]),
        ("raid5", "raid5ee", &NAMES[..4]),
    ] {
        let mut bench = Bench::in_order(9, 1, 0);
        bench.add_drives(&NAMES, 32 * MIB + MIB);
        bench.boot(&NAMES);
        bench.create("data", from, drives);
        bench.settle("data");
        let order = ReshapeVolume {
            volume: "data".into(),
            level: Some(to.into()),
            ..ReshapeVolume::default()
        };
        let why = bench.refused(ErrorKind::WrongState, Command::VolumeReshape(order));
        assert!(why.contains("add drives with --add"), "{why}");
    }
}
