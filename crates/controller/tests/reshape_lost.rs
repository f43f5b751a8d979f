//! Drives that fail during the very label update that starts or completes a reshape; and drives
//! that are missing at the start after an interrupted reshape.

use crate::common::events::{End, end};
use crate::common::{Bench, MIB};
use crate::reshape::{STRIP, reshape};
use crate::reshape_along::{
    ADDS, REMOVES, Scene, arrive, between, expect_content, holds, lies_on, prepared, task_of,
};
use controller::{AddSpare, Command, DriveState, ErrorKind, ReshapeVolume, TaskState, VolumeState};
use ondisk::{Label, MemberState, VolumeLabel};

const SIZE: u64 = 12 * STRIP;
/// A queued volume and a named one, each of which needs the new drive.
const FOLLOWS: Scene = Scene { volumes: &[("data", "raid5"), ("more", "raid0")], ..ADDS };
const LEADS: Scene = Scene { volumes: &[("data", "raid0")], ..ADDS };
/// It leaves the last drive.
const LEAVES: Scene = Scene { volumes: &[("data", "raid5"), ("more", "raid0")], ..REMOVES };

/// The present label of a drive, if any.
fn label(bench: &Bench, drive: &str) -> Option<Label> {
    let drive = bench.sim.drive(drive).expect("the drive exists");
    let mut glimpse = ondisk::foreign::Glimpse::new(drive.size());
    loop {
        if let ondisk::Found::Carried(carried) = ondisk::find(&glimpse) {
            return carried.label().cloned();
        }
        let wanted = glimpse.wanted();
        if wanted.is_empty() {
            return None;
        }
        let read = |range: units::ByteRange| (range, Some(drive.read_true(range.start, range.len)));
        wanted.into_iter().map(read).for_each(|(range, bytes)| glimpse.put(range, bytes));
    }
}

fn of(label: &Label, name: &str) -> VolumeLabel {
    label.volume.iter().find(|of| of.name == name).expect("the label has the volume").clone()
}

/// Continues until the label of one of the first drives meets the condition.
fn until(bench: &mut Bench, is_so: impl Fn(&Label) -> bool) {
    for _ in 0..100_000 {
        if ["a", "b", "c"]
            .iter()
            .any(|drive| label(bench, drive).is_some_and(|label| is_so(&label)))
        {
            return;
        }
        bench.sim.step();
    }
    panic!("no drive's label meets the condition: {:?}", label(bench, "a"));
}

/// The label says that a reshape has begun, and no data has moved.
fn has_begun(label: &Label, name: &str) -> bool {
    of(label, name).reshape.is_some_and(|at| at.begun && (at.moved_bytes, at.saved_bytes) == (0, 0))
}

fn is_named_once(label: &Label, name: &str) -> bool {
    let has_parts = label.volume.iter().any(VolumeLabel::is_part);
    !has_parts && of(label, name).reshape.is_none() && of(label, name).follows.is_none()
}

/// A reshape begins or continues after a pause; the test does not wait for it.
fn begin(scene: Scene) -> Bench {
    let follows = scene.names().nth(1);
    let mut bench = if follows.is_some() { between(scene, SIZE) } else { prepared(scene, 1, SIZE) };
    let command = match follows {
        Some(name) => Command::TaskResume { task: task_of(&mut bench, name).task },
        None => Command::VolumeReshape(scene.order()),
    };
    drop(bench.begin_ask(command));
    bench
}

/// A kill or power cut when the other drives had the label of the begun reshape, and the new drive
/// had failed. The next start refused the volume, though its old drives had all of its data.
#[test]
fn a_volume_is_served_whose_new_drive_went_out_by_the_change_that_says_that_it_has_begun() {
    for (scene, how) in [FOLLOWS, LEADS]
        .into_iter()
        .flat_map(|scene| [(scene, End::Killed), (scene, End::PowerCut)])
    {
        let (name, mut begun, mut out) = (scene.names().last().expect("some"), 0, 0);
        for later in (0..240).step_by(13) {
            let mut bench = begin(scene);
            until(&mut bench, |label| has_begun(label, name));
            bench.sim.drive("d").expect("the drive exists").fail_now();
            for _ in 0..later {
                bench.sim.step();
            }
            end(&mut bench, how);
            let says = label(&bench, "a").expect("the drive has a label");
            begun += u64::from(has_begun(&says, name));
            let is_out =
                |slot: usize| says.member.get(slot).is_some_and(|d| d.state != MemberState::Online);
            out += u64::from(has_begun(&says, name) && is_out(3));
            bench.boot(&[]);
            bench.wait(2);
            let what = format!("{name}, {how:?} {later} events later");
            let shown = bench.show(name);
            assert!(shown.state.serves(), "{what}: {:?}", shown.reasons);
            if !bench.show("data").state.serves() {
                bench.start_accepting("data");
            }
            assert_eq!(lies_on(&bench, name), 3, "{what}");
            expect_content(&mut bench, scene, SIZE);
            // A replacement solves it.
            if name == "more" {
                let spare =
                    AddSpare { drive: "f".into(), destroy_data: true, ..AddSpare::default() };
                bench.ask(Command::SpareAdd(spare)).expect("the spare is added");
                bench.wait(60);
            } else {
                assert_eq!(shown.reshape, None, "{what}");
                reshape(&mut bench, Scene { add: &["e"], ..scene }.order());
            }
            arrive(&mut bench, scene);
            expect_content(&mut bench, scene, SIZE);
            assert_eq!(lies_on(&bench, name), 4, "{what}");
        }
        assert!(
            begun > 2 && out > 2,
            "{name}, {how:?}: {begun} had begun, {out} without the drive"
        );
    }
}

/// A volume whose reshape has begun, and which is offline since the new drive failed before data
/// had moved.
fn lost_before_anything_moved(scene: Scene) -> Bench {
    let mut bench = prepared(scene, 1, SIZE);
    reshape(&mut bench, scene.order());
    bench.sim.drive("d").expect("the drive exists").hold();
    bench.wait(3);
    assert!(has_begun(&label(&bench, "a").expect("the drive has a label"), "data"));
    bench.sim.drive("d").expect("the drive exists").fail_now();
    bench.wait(1);
    bench
}

/// No data had moved when the new drive failed and the volume went offline. The reshape is not
/// continued after the next start; its task says so, and not that it is complete.
#[test]
fn a_start_takes_back_what_cannot_go_on_and_its_tasks_say_so() {
    let scene = Scene { volumes: &[("data", "raid0"), ("more", "raid5")], ..ADDS };
    let mut bench = lost_before_anything_moved(scene);
    end(&mut bench, End::Killed);
    bench.boot(&[]);
    bench.wait(5);
    expect_content(&mut bench, scene, SIZE);
    for name in scene.names() {
        let (shown, task) = (bench.show(name), task_of(&mut bench, name));
        assert_eq!((shown.reshape, lies_on(&bench, name)), (None, 3), "{name}");
        let why = task.reason.unwrap_or_default();
        assert!(
            task.state == TaskState::Failed && why.contains("repeat the command"),
            "{name}: {why}"
        );
    }
    reshape(&mut bench, Scene { add: &["e"], ..scene }.order());
    arrive(&mut bench, scene);
    expect_content(&mut bench, scene, SIZE);
}

/// The start that rolled a reshape back was killed before its task had ended: the next start did
/// not know of the rollback any more, and reported the reshape as complete.
#[test]
fn a_move_that_was_taken_back_is_not_complete_for_a_later_start() {
    let scene = Scene { volumes: &[("data", "raid0"), ("more", "raid5")], ..ADDS };
    let mut bench = lost_before_anything_moved(scene);
    for _ in 0..2 {
        end(&mut bench, End::Killed);
        bench.boot(&[]);
    }
    assert_eq!(
        of(&label(&bench, "a").expect("the drive has a label"), "data").reshape,
        None,
        "the reshape is rolled back"
    );
    bench.wait(5);
    for name in scene.names() {
        let task = task_of(&mut bench, name);
        let why = task.reason.unwrap_or_default();
        assert!(
            task.state == TaskState::Failed && why.contains("repeat the command"),
            "{name}: {:?} {why}",
            task.state
        );
    }
}

/// A RAID 5 was to become a RAID 0 on the same drives, and lost one of them before data had moved.
/// It tolerates that loss, and was refused permanently: the loss in its new layout was counted
/// against the volume itself.
#[test]
fn a_volume_is_served_that_lost_an_old_drive_which_its_new_layout_alone_needs() {
    let scene = Scene {
        drives: 4,
        volumes: &[("data", "raid5"), ("more", "raid5")],
        to: Some("raid0"),
        add: &[],
        ..ADDS
    };
    let mut lost = 0;
    for later in (0..240).step_by(13) {
        let mut bench = prepared(scene, 1, SIZE);
        drop(bench.begin_ask(Command::VolumeReshape(scene.order())));
        until(&mut bench, |label| has_begun(label, "data"));
        for _ in 0..later {
            bench.sim.step();
        }
        bench.sim.drive("b").expect("the drive exists").fail_now();
        bench.wait(5);
        end(&mut bench, End::Killed);
        let says = of(&label(&bench, "a").expect("the drive has a label"), "data");
        let is_lost = says.lost == [1]
            && says.reshape.is_some_and(|at| (at.moved_bytes, at.saved_bytes) == (0, 0));
        lost += u64::from(is_lost);
        if !is_lost {
            continue;
        }
        bench.boot(&[]);
        bench.wait(2);
        for name in scene.names() {
            if !bench.show(name).state.serves() {
                bench.start_accepting(name);
            }
        }
        assert_eq!(
            (bench.show("data").reshape, bench.show("data").level.as_str()),
            (None, "raid5")
        );
        expect_content(&mut bench, scene, SIZE);
        // The drive works again: it gets all possibly missed writes, and holds the hosts' data.
        bench.write("data", 0, 77, STRIP);
        bench.sim.drive("b").expect("the drive exists").come_back();
        bench.restart(&[]);
        bench.ask(Command::DriveOnline { drive: "b".into() }).expect("the drive works again");
        scene.names().for_each(|name| bench.settle(name));
        bench.wait(10);
        bench.ask(crate::common::take_offline("c")).expect("one failure is tolerated");
        bench.expect("data", 0, 77, STRIP);
        bench.write("data", 0, holds(0, 0), STRIP);
        expect_content(&mut bench, scene, SIZE);
    }
    assert!(lost > 2, "the volume had lost the drive {lost} times");
}

/// A drive that a volume leaves failed during the very label update that completes the reshape:
/// ranges that the volume no longer uses counted as lost with that drive, and the volume was
/// refused from then on.
#[test]
fn a_volume_has_come_though_a_drive_that_it_leaves_goes_out_by_that_very_change() {
    let mut bench = begin(LEAVES);
    until(&mut bench, |label| is_named_once(label, "more"));
    let (comes, mut out) = (bench.sim.events(), 0);
    for event in (comes.saturating_sub(90)..comes + 12).step_by(3) {
        let mut bench = begin(LEAVES);
        while bench.sim.events() < event {
            bench.sim.step();
        }
        bench.sim.drive("d").expect("the drive exists").fail_now();
        bench.wait(5);
        let says = label(&bench, "a").expect("the drive has a label");
        if !is_named_once(&says, "more") {
            continue; // The volume still uses that drive.
        }
        out += u64::from(of(&says, "more").members == Some(3) || says.member.len() == 3);
        for what in ["at once", "after a start"] {
            assert!(
                bench.show("more").state.serves(),
                "event {event}, {what}: {:?}",
                bench.show("more").reasons
            );
            expect_content(&mut bench, LEAVES, SIZE);
            bench.restart(&[]);
            bench.wait(2);
        }
    }
    assert!(out > 2, "{out} reshapes completed");
}

/// The last host write was beyond the end of the volume in the new layout: it was given up, and
/// none of its stripes was in use any more. The start still required the missing drive, as parity
/// might be stale there.
#[test]
fn a_start_asks_for_no_drive_for_what_was_given_up() {
    let names = ["a", "b", "c", "d", "e"];
    let mut bench = Bench::in_order(9, 1, 0);
    bench.add_drives(&names, 240 * MIB);
    bench.boot(&names);
    let sized = |create: &mut controller::CreateVolume| {
        (create.size_bytes, create.write_hole) = (Some(512 * MIB), Some(ondisk::WriteHole::Resync));
    };
    bench.create_with("data", "raid6", &names, sized).expect("created");
    for strip in 0..16 {
        bench.write("data", strip * STRIP, holds(0, strip), STRIP);
    }
    bench.settle("data");
    bench.wait(60);
    bench.write("data", 500 * MIB, 7, STRIP);
    let order = ReshapeVolume {
        volume: "data".into(),
        remove: vec!["e".into()],
        size_bytes: Some(128 * MIB),
        destroy_data: true,
        ..ReshapeVolume::default()
    };
    reshape(&mut bench, order);
    until(&mut bench, |label| of(label, "data").reshape.is_some_and(|at| at.saved_bytes > 0));
    end(&mut bench, End::Killed);
    let at = of(&label(&bench, "a").expect("the drive has a label"), "data")
        .reshape
        .expect("the volume is reshaping");
    assert_eq!(at.moved_bytes, 0, "no data is in the new layout");
    bench.sim.drive("b").expect("the drive exists").fail_now();
    bench.boot(&[]);
    bench.wait(2);
    let shown = bench.show("data");
    assert!(shown.state.serves(), "{:?}", shown.reasons);
    for _ in 0..120 {
        if bench.show("data").reshape.is_none() {
            break;
        }
        bench.wait(5);
    }
    assert_eq!(bench.show("data").reshape, None, "the reshape completes without the drive");
    for strip in 0..16 {
        bench.expect("data", strip * STRIP, holds(0, strip), STRIP);
    }
}

fn replace(slot: usize, with: &str) -> Command {
    Command::DriveReplace { drive: format!("data:{slot}"), with: with.into(), destroy_data: true }
}

/// The reshape runs until some data is in the new layout, and this many events longer.
pub fn moved(scene: Scene, size: u64, later: u64) -> Bench {
    let mut bench = prepared(scene, 2, size);
    reshape(&mut bench, scene.order());
    until(&mut bench, |label| of(label, "data").reshape.is_some_and(|at| at.moved_bytes > 0));
    for _ in 0..later {
        bench.sim.step();
    }
    bench
}

/// A returned drive is used, by a command or after automatic detection.
fn works_again(bench: &mut Bench, drive: &str) {
    let ordered = bench.ask(Command::DriveOnline { drive: drive.into() });
    let state = bench.drive(drive).state;
    assert!(
        ordered.is_ok() || matches!(state, DriveState::Online | DriveState::Rebuilding),
        "{ordered:?}"
    );
}

/// Two new drives were removed by one label update, after data had moved, and one of them had
/// failed. The volume tolerates that, and nothing helped: it was refused as long as it lacked a
/// drive, no replacement was accepted, as the volume was reshaping, and the queued volumes waited
/// without end.
#[test]
fn a_new_drive_that_is_dead_is_replaced_when_the_volume_can_do_without_it() {
    let scene =
        Scene { volumes: &[("data", "raid5"), ("more", "raid5")], add: &["d", "e"], ..ADDS };
    let (size, mut lost) = (48 * STRIP, 0);
    for later in (0..200).step_by(23) {
        let mut bench = moved(scene, size, later);
        bench.sim.drive("d").expect("the drive exists").vanish();
        bench.sim.drive("e").expect("the drive exists").fail_now();
        bench.wait(20);
        let says = of(&label(&bench, "a").expect("the drive has a label"), "data");
        if says.lost != [3, 4] || says.reshape.is_none() {
            continue;
        }
        lost += 1;
        assert!(!bench.show("data").state.serves() && bench.show("more").state.serves());
        bench.refused(ErrorKind::WrongState, replace(4, "f"));
        bench.sim.drive("d").expect("the drive exists").come_back();
        works_again(&mut bench, "d");
        bench.wait(2);
        assert!(!bench.show("data").state.serves(), "drive e is still lost");
        bench.refused(ErrorKind::WrongState, replace(3, "f"));
        bench.ask(replace(4, "f")).expect("the others have all of its data");
        bench.wait(2);
        if !bench.show("data").state.serves() {
            // The window being written is saved, and is written again.
            bench.start_accepting("data");
        }
        expect_content(&mut bench, scene, size);
        if later % 2 == 0 {
            bench.restart(&[]);
        }
        arrive(&mut bench, scene);
        bench.wait(20);
        for name in scene.names() {
            bench.settle(name);
            assert_eq!(
                (bench.show(name).state, lies_on(&bench, name)),
                (VolumeState::Optimal, 5),
                "{name}"
            );
        }
        bench.ask(crate::common::take_offline("b")).expect("one failure is tolerated");
        expect_content(&mut bench, scene, size);
    }
    assert!(lost > 2, "both were removed by one label update {lost} times");
}

/// A RAID 0's data on a new drive has no other copy: no replacement takes its slot.
#[test]
fn a_new_drive_that_holds_what_no_other_does_is_not_replaced() {
    let scene = Scene { volumes: &[("data", "raid0"), ("more", "raid5")], ..ADDS };
    let size = 48 * STRIP;
    let mut bench = moved(scene, size, 0);
    bench.sim.drive("d").expect("the drive exists").vanish();
    bench.wait(20);
    assert!(!bench.show("data").state.serves() && bench.show("more").state.serves());
    let why = bench.refused(ErrorKind::WrongState, replace(3, "f"));
    assert!(why.contains("is being reshaped"), "{why}");
    bench.sim.drive("d").expect("the drive exists").come_back();
    works_again(&mut bench, "d");
    arrive(&mut bench, scene);
    expect_content(&mut bench, scene, size);
}
