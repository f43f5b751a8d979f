//! Drives moved to another slot or host, mixed with drives of another array, or cloned. Also power
//! cuts during the remaining metadata changes: spares and policies.

use crate::common::events::{End, at_every_event};
use crate::common::{Bench, MIB, drive_options, options};
use controller::{AddSpare, Command, DriveState, Reply, SetPolicy, VolumeState};
use platform_sim::{DriveImage, Sim};

const ALL: u64 = MIB / 2;

/// The strips of a volume hold numbers, so that none can be in another one's place.
fn fill(bench: &mut Bench, name: &str, first: u8) {
    for strip in 0..(ALL / 65536) as u8 {
        bench.write(name, u64::from(strip) * 65536, first + strip, 65536);
    }
    let volume = bench.shards[0].volume_named(name).unwrap();
    bench.sim.run(async move { volume.flush().await }).unwrap().unwrap();
}

fn expect_filled(bench: &mut Bench, name: &str, first: u8) {
    for strip in 0..(ALL / 65536) as u8 {
        bench.expect(name, u64::from(strip) * 65536, first + strip, 65536);
    }
}

/// A host on which a volume was created, filled and cleanly stopped.
fn stopped(seed: u64, name: &str, level: &str, drives: &[&str], first: u8) -> Bench {
    let mut bench = Bench::new(seed, 2, drives.len());
    bench.boot(&[]);
    bench.create(name, level, drives);
    bench.settle(name);
    fill(&mut bench, name, first);
    bench.shut_down();
    bench.forget();
    bench
}

fn images(bench: &Bench, drives: &[&str]) -> Vec<DriveImage> {
    drives.iter().map(|drive| bench.sim.drive(drive).unwrap().snapshot()).collect()
}

/// Another host that does not know these drives: empty state folder, other names.
fn machine(seed: u64, drives: &[(&str, &DriveImage)]) -> Bench {
    let mut bench = Bench::new(seed, 2, 0);
    bench.sim = Sim::new(options(seed, 2));
    for (name, image) in drives {
        bench.sim.add_drive_with(name, drive_options(), image);
    }
    let names: Vec<&str> = drives.iter().map(|(name, _)| *name).collect();
    bench.boot(&names);
    bench
}

const DRIVES: [&str; 4] = ["a", "b", "c", "d"];

#[test]
fn drives_that_exchange_their_places_are_the_same_members() {
    for (seed, level) in [(1, "raid0"), (2, "raid5"), (3, "raid6"), (4, "raid10"), (5, "raid1e")] {
        let mut bench = stopped(seed, "data", level, &DRIVES, 1);
        let before = images(&bench, &DRIVES);
        // Each name now leads to the next drive; all paths known to the controller still exist.
        for (slot, drive) in DRIVES.iter().enumerate() {
            bench.sim.drive(drive).unwrap().restore(&before[(slot + 1) % DRIVES.len()]);
        }
        bench.restart(&[]);
        let info = bench.show("data");
        assert_eq!(info.state, VolumeState::Optimal, "{level}: {:?}", info.reasons);
        let names: Vec<&str> = info.drives.iter().map(|drive| drive.name.as_str()).collect();
        assert_eq!(
            names,
            ["d", "a", "b", "c"],
            "{level}: a member is identified by its content, not its name"
        );
        expect_filled(&mut bench, "data", 1);
    }
}

#[test]
fn drives_come_up_the_same_in_another_machine_and_go_on_there() {
    for (seed, level) in
        [(11, "raid0"), (12, "raid5"), (13, "raid6"), (14, "raid10"), (15, "raid1e")]
    {
        let bench = stopped(seed, "data", level, &DRIVES, 1);
        let [a, b, c, d] = images(&bench, &DRIVES).try_into().ok().unwrap();
        let mut there = machine(seed + 100, &[("s7", &c), ("s2", &a), ("s5", &d), ("s1", &b)]);
        let info = there.show("data");
        assert_eq!(info.state, VolumeState::Optimal, "{level}: {:?}", info.reasons);
        let names: Vec<&str> = info.drives.iter().map(|drive| drive.name.as_str()).collect();
        assert_eq!(names, ["s2", "s1", "s7", "s5"], "{level}");
        expect_filled(&mut there, "data", 1);
        fill(&mut there, "data", 101);
        there.power_cycle(&[]);
        assert_eq!(there.show("data").state, VolumeState::Optimal, "{level}");
        expect_filled(&mut there, "data", 101);
    }
}

#[test]
fn drives_of_two_arrays_in_one_machine_are_two_volumes() {
    let three = ["a", "b", "c"];
    let one = images(&stopped(21, "one", "raid5", &three, 1), &three);
    let two = images(&stopped(22, "two", "raid5", &three, 101), &three);
    let mixed = [
        ("s0", &two[1]),
        ("s1", &one[2]),
        ("s2", &one[0]),
        ("s3", &two[0]),
        ("s4", &one[1]),
        ("s5", &two[2]),
    ];
    let mut both = machine(23, &mixed);
    for (name, first, places) in [("one", 1, ["s2", "s4", "s1"]), ("two", 101, ["s3", "s0", "s5"])]
    {
        let info = both.show(name);
        assert_eq!(info.state, VolumeState::Optimal, "{name}: {:?}", info.reasons);
        assert_eq!(info.drives.iter().map(|drive| drive.name.as_str()).collect::<Vec<_>>(), places);
        expect_filled(&mut both, name, first);
    }
    // One drive of each array is missing: neither array takes the other's drive, and each asks
    // before it starts without.
    let mut parts = machine(24, &[mixed[0], mixed[1], mixed[2], mixed[3]]);
    for (name, first) in [("one", 1), ("two", 101)] {
        if parts.show(name).state == VolumeState::Offline {
            let start = Command::VolumeStart {
                volume: name.into(),
                accept_stale_parity: false,
                degraded: true,
            };
            parts.ask(start).unwrap();
        }
        assert_eq!(parts.show(name).state, VolumeState::Degraded, "{name}");
        expect_filled(&mut parts, name, first);
    }
}

#[test]
fn a_drive_and_its_copy_are_never_both_used() {
    let three = ["a", "b", "c"];
    for (seed, level) in [(31, "raid5"), (32, "raid1")] {
        let bench = stopped(seed, "data", level, &three, 1);
        let [a, b, c] = images(&bench, &three).try_into().ok().unwrap();
        // Two equal copies: the original is unknown, and neither is used.
        let mut there = machine(seed + 100, &[("a", &a), ("b", &b), ("c", &c), ("copy", &b)]);
        let info = there.show("data");
        assert_ne!(info.state, VolumeState::Optimal, "{level}");
        let told = format!("{:?} {:?} {:?}", info.reasons, there.drive("b"), there.drive("copy"));
        assert!(told.contains("carry the same drive UUID"), "{level}: {told}");
        if info.state == VolumeState::Offline {
            let start = Command::VolumeStart {
                volume: "data".into(),
                accept_stale_parity: false,
                degraded: true,
            };
            there.ask(start).unwrap();
        }
        assert_eq!(there.show("data").state, VolumeState::Degraded, "{level}");
        expect_filled(&mut there, "data", 1);

        // Cloned before the array was used again: the drive is used, its clone is not, whatever the
        // order.
        let mut here = machine(seed + 200, &[("a", &a), ("b", &b), ("c", &c)]);
        fill(&mut here, "data", 101);
        here.settle("data");
        here.sim.add_drive_with("0-copy", drive_options(), &b);
        here.restart(&["0-copy", "a", "b", "c"]);
        let info = here.show("data");
        assert_eq!(info.state, VolumeState::Optimal, "{level}: {:?}", info.reasons);
        assert!(info.drives.iter().all(|drive| drive.name != "0-copy"), "{level}");
        let copy = here.drive("0-copy");
        let why = copy.reason.unwrap_or_default();
        assert!(why.contains("is a copy of"), "{level}: {why}");
        assert_ne!(copy.state, DriveState::Online, "{level}");
        expect_filled(&mut here, "data", 101);
    }
}

/// An old clone was in the place of one half of a mirror, and that half was in another host. The
/// clone made the slot stale, not missing, and the other half started without a question, though
/// the first half could have served alone.
#[test]
fn an_old_clone_in_the_place_of_a_drive_is_asked_about_as_if_nothing_were_there() {
    let two = ["a", "b"];
    let bench = stopped(51, "data", "raid1", &two, 1);
    let [a, b] = images(&bench, &two).try_into().ok().unwrap();
    let mut home = machine(52, &[("a", &a), ("b", &b)]);
    fill(&mut home, "data", 101);
    home.shut_down();
    let [now, _] = images(&home, &two).try_into().ok().unwrap();
    let mut there = machine(53, &[("a", &now), ("clone", &b)]);
    let info = there.show("data");
    assert_eq!(info.state, VolumeState::Offline, "{:?}", info.reasons);
    let why = info.reasons.join("; ");
    assert!(why.contains("could have served it alone since then"), "{why}");
    there.start_degraded("data");
    expect_filled(&mut there, "data", 101);
    // The operator's confirmation is recorded.
    there.shut_down();
    there.restart(&[]);
    assert_eq!(there.show("data").state, VolumeState::Degraded);
    expect_filled(&mut there, "data", 101);
}

/// A mirror half in a rebuild was missing at a start: the controller asked whether it had been used
/// alone, which is impossible.
#[test]
fn a_drive_that_was_still_being_rebuilt_is_not_asked_about() {
    let two = ["a", "b"];
    let mut bench = Bench::new(54, 1, 2);
    bench.boot(&two);
    bench.create("data", "raid1", &two);
    bench.settle("data");
    fill(&mut bench, "data", 1);
    bench.ask(crate::common::take_offline("b")).unwrap();
    fill(&mut bench, "data", 101);
    bench.settle("data");
    // A command is acknowledged when it is recorded: a rebuild this small has ended by then.
    let asked = bench.begin_ask(Command::DriveOnline { drive: "b".into() });
    while bench.drive("b").state != DriveState::Rebuilding {
        assert!(!asked.is_finished(), "a start during the rebuild is met");
        let until = bench.sim.now() + std::time::Duration::from_micros(50);
        bench.sim.run_until(until).unwrap();
    }
    drop(asked);
    bench.sim.drive("b").unwrap().vanish();
    bench.restart(&[]);
    let info = bench.show("data");
    assert_eq!(info.state, VolumeState::Degraded, "{:?}", info.reasons);
    expect_filled(&mut bench, "data", 101);
}

fn served(seed: u64) -> Bench {
    let mut bench = Bench::in_order(seed, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    fill(&mut bench, "data", 1);
    bench.settle("data");
    bench
}

#[test]
fn a_policy_whose_change_is_interrupted_is_the_old_or_the_new_one() {
    for how in [End::Killed, End::PowerCut] {
        let set = || {
            let (volume, share) = ("data".into(), Some(77));
            Command::VolumePolicy(SetPolicy {
                volume,
                task_share_percent: share,
                ..SetPolicy::default()
            })
        };
        let scene = |bench: &mut Bench| bench.try_ask(set()).ok();
        at_every_event(
            1,
            how,
            || served(41),
            scene,
            |bench, answered, event| {
                bench.boot(&[]);
                let info = bench.show("data");
                assert_eq!(info.state, VolumeState::Optimal, "event {event}: {:?}", info.reasons);
                let is_new = format!("{info:?}").contains("task_share_percent: 77");
                assert!(is_new || answered.is_none(), "event {event}: acknowledged");
                expect_filled(bench, "data", 1);
            },
        );
    }
}

#[test]
fn a_spare_whose_making_is_interrupted_is_one_or_is_free() {
    for how in [End::Killed, End::PowerCut] {
        let prepare = || {
            let mut bench = served(42);
            bench.sim.add_drive("s", drive_options());
            bench
        };
        let add = || {
            Command::SpareAdd(AddSpare {
                drive: "s".into(),
                revertible: true,
                ..AddSpare::default()
            })
        };
        let scene = |bench: &mut Bench| bench.try_ask(add()).ok();
        at_every_event(1, how, prepare, scene, |bench, answered, event| {
            bench.boot(&["s"]);
            let is_spare = match bench.ask(Command::SpareList {}) {
                Ok(Reply::Spares { spares, .. }) => spares.len() == 1,
                other => panic!("{other:?}"),
            };
            assert!(is_spare || answered.is_none(), "event {event}: acknowledged");
            if !is_spare {
                bench.ask(add()).unwrap_or_else(|error| panic!("event {event}: not free: {error}"));
            }
            assert_eq!(bench.show("data").state, VolumeState::Optimal, "event {event}");
            expect_filled(bench, "data", 1);
        });
    }
}
