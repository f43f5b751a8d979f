//! Drives that go out by the very change that says that a volume has begun to move, or that it has come to its layout; and drives that are not there when
//! a controller starts that ended on the way.

use crate::common::events::{End, end};
use crate::common::{Bench, MIB};
use crate::reshape::{STRIP, reshape};
use crate::reshape_along::{
    ADDS, REMOVES, Scene, arrive, between, expect_content, holds, lies_on, prepared, task_of,
};
use controller::{AddSpare, Command, DriveState, ErrorKind, ReshapeVolume, TaskState, VolumeState};
use ondisk::{Label, MemberState, VolumeLabel};

const SIZE: u64 = 12 * STRIP;
/// One that follows another one, and one that is named, each of which cannot do without the new drive.
const FOLLOWS: Scene = Scene { volumes: &[("data", "raid5"), ("more", "raid0")], ..ADDS };
const LEADS: Scene = Scene { volumes: &[("data", "raid0")], ..ADDS };
/// It leaves the last drive.
const LEAVES: Scene = Scene { volumes: &[("data", "raid5"), ("more", "raid0")], ..REMOVES };

/// The label that a drive carries now, if it carries one.
fn label(bench: &Bench, drive: &str) -> Option<Label> {
    let drive = bench.sim.drive(drive).expect("it is there");
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
    label.volume.iter().find(|of| of.name == name).expect("it is named").clone()
}

/// Goes on until the label of one of the first drives is so.
fn until(bench: &mut Bench, is_so: impl Fn(&Label) -> bool) {
    for _ in 0..100_000 {
        if ["a", "b", "c"].iter().any(|drive| label(bench, drive).is_some_and(|label| is_so(&label))) {
            return;
        }
        bench.sim.step();
    }
    panic!("no drive ever says so: {:?}", label(bench, "a"));
}

/// The label says that a volume has begun, and nothing of it has moved.
fn has_begun(label: &Label, name: &str) -> bool {
    of(label, name).reshape.is_some_and(|at| at.begun && (at.moved_bytes, at.saved_bytes) == (0, 0))
}

fn is_named_once(label: &Label, name: &str) -> bool {
    let has_parts = label.volume.iter().any(VolumeLabel::is_part);
    !has_parts && of(label, name).reshape.is_none() && of(label, name).follows.is_none()
}

/// A move begins, or goes on after it stood still; nobody waits for it.
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

/// The process ended, or the power went, when the other drives had been told that the volume had begun, and the new one had died. The next start refused the
/// volume, though the drives that it lay on had all of it.
#[test]
fn a_volume_is_served_whose_new_drive_went_out_by_the_change_that_says_that_it_has_begun() {
    for (scene, how) in
        [FOLLOWS, LEADS].into_iter().flat_map(|scene| [(scene, End::Killed), (scene, End::PowerCut)])
    {
        let (name, mut begun, mut out) = (scene.names().last().expect("some"), 0, 0);
        for later in (0..240).step_by(13) {
            let mut bench = begin(scene);
            until(&mut bench, |label| has_begun(label, name));
            bench.sim.drive("d").expect("it is there").fail_now();
            for _ in 0..later {
                bench.sim.step();
            }
            end(&mut bench, how);
            let says = label(&bench, "a").expect("it has one");
            begun += u64::from(has_begun(&says, name));
            let is_out = |slot: usize| says.member.get(slot).is_some_and(|d| d.state != MemberState::Online);
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
            // And it is no dead end.
            if name == "more" {
                let spare = AddSpare { drive: "f".into(), destroy_data: true, ..AddSpare::default() };
                bench.ask(Command::SpareAdd(spare)).expect("it is a spare");
                bench.wait(60);
            } else {
                assert_eq!(shown.reshape, None, "{what}");
                reshape(&mut bench, Scene { add: &["e"], ..scene }.order());
            }
            arrive(&mut bench, scene);
            expect_content(&mut bench, scene, SIZE);
            assert_eq!(lies_on(&bench, name), 4, "{what}");
        }
        assert!(begun > 2 && out > 2, "{name}, {how:?}: {begun} had begun, {out} without the drive");
    }
}

/// A volume that has begun to move, and that is lost since the new drive died before anything of it had moved.
fn lost_before_anything_moved(scene: Scene) -> Bench {
    let mut bench = prepared(scene, 1, SIZE);
    reshape(&mut bench, scene.order());
    bench.sim.drive("d").expect("it is there").hold();
    bench.wait(3);
    assert!(has_begun(&label(&bench, "a").expect("it has one"), "data"));
    bench.sim.drive("d").expect("it is there").fail_now();
    bench.wait(1);
    bench
}

/// Nothing had moved when the new drive died, and the volume was lost with it. What was ordered is not done any more after the next start; its task says so, and
/// not that the move is complete.
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
        assert!(task.state == TaskState::Failed && why.contains("order it again"), "{name}: {why}");
    }
    reshape(&mut bench, Scene { add: &["e"], ..scene }.order());
    arrive(&mut bench, scene);
    expect_content(&mut bench, scene, SIZE);
}

/// The start that took a move back was killed before its task had ended: the next one did not know of it any more, and said that the move was complete.
#[test]
fn a_move_that_was_taken_back_is_not_complete_for_a_later_start() {
    let scene = Scene { volumes: &[("data", "raid0"), ("more", "raid5")], ..ADDS };
    let mut bench = lost_before_anything_moved(scene);
    for _ in 0..2 {
        end(&mut bench, End::Killed);
        bench.boot(&[]);
    }
    assert_eq!(of(&label(&bench, "a").expect("it has one"), "data").reshape, None, "it is taken back");
    bench.wait(5);
    for name in scene.names() {
        let task = task_of(&mut bench, name);
        let why = task.reason.unwrap_or_default();
        assert!(
            task.state == TaskState::Failed && why.contains("order it again"),
            "{name}: {:?} {why}",
            task.state
        );
    }
}

/// A RAID 5 was to be a RAID 0 on the same drives, and lost one of them before anything had moved. It can do without that drive, and was refused for good: what its
/// new layout had lost was said of the volume itself.
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
        bench.sim.drive("b").expect("it is there").fail_now();
        bench.wait(5);
        end(&mut bench, End::Killed);
        let says = of(&label(&bench, "a").expect("it has one"), "data");
        let is_lost =
            says.lost == [1] && says.reshape.is_some_and(|at| (at.moved_bytes, at.saved_bytes) == (0, 0));
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
        assert_eq!((bench.show("data").reshape, bench.show("data").level.as_str()), (None, "raid5"));
        expect_content(&mut bench, scene, SIZE);
        // The drive works again: it is given all that it may have missed, and holds what hosts wrote.
        bench.write("data", 0, 77, STRIP);
        bench.sim.drive("b").expect("it is there").come_back();
        bench.restart(&[]);
        bench.ask(Command::DriveOnline { drive: "b".into() }).expect("it works again");
        scene.names().for_each(|name| bench.settle(name));
        bench.wait(10);
        bench.ask(crate::common::take_offline("c")).expect("one can be spared");
        bench.expect("data", 0, 77, STRIP);
        bench.write("data", 0, holds(0, 0), STRIP);
        expect_content(&mut bench, scene, SIZE);
    }
    assert!(lost > 2, "{lost} times the volume had lost the drive");
}

/// A drive that a volume leaves went out by the very change that says that it has come to its layout: what it does not lie on any more was taken for lost
/// with that drive, and it was refused from then on.
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
        bench.sim.drive("d").expect("it is there").fail_now();
        bench.wait(5);
        let says = label(&bench, "a").expect("it has one");
        if !is_named_once(&says, "more") {
            continue; // It lies on that drive still.
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
    assert!(out > 2, "{out} had come");
}

/// What a host wrote last lay behind where the volume ends by the new layout: it was given up, and no stripe of it was in use any more. The start asked for
/// the drive that was missing all the same, as parity might not agree there.
#[test]
fn a_start_asks_for_no_drive_for_what_was_given_up() {
    let names = ["a", "b", "c", "d", "e"];
    let mut bench = Bench::in_order(9, 1, 0);
    bench.add_drives(&names, 240 * MIB);
    bench.boot(&names);
    let sized = |create: &mut controller::CreateVolume| {
        (create.size_bytes, create.write_hole) = (Some(512 * MIB), Some(ondisk::WriteHole::Resync));
    };
    bench.create_with("data", "raid6", &names, sized).expect("it is made");
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
    let at = of(&label(&bench, "a").expect("it has one"), "data").reshape.expect("it is on its way");
    assert_eq!(at.moved_bytes, 0, "nothing is written by the new layout");
    bench.sim.drive("b").expect("it is there").fail_now();
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
    assert_eq!(bench.show("data").reshape, None, "it comes to its layout without the drive");
    for strip in 0..16 {
        bench.expect("data", strip * STRIP, holds(0, strip), STRIP);
    }
}

fn replace(slot: usize, with: &str) -> Command {
    Command::DriveReplace { drive: format!("data:{slot}"), with: with.into(), destroy_data: true }
}

/// It is moved until some of it lies by its new layout, and so many events further.
pub fn moved(scene: Scene, size: u64, later: u64) -> Bench {
    let mut bench = prepared(scene, 2, size);
    reshape(&mut bench, scene.order());
    until(&mut bench, |label| of(label, "data").reshape.is_some_and(|at| at.moved_bytes > 0));
    for _ in 0..later {
        bench.sim.step();
    }
    bench
}

/// A drive that is there again is used, by order or because the controller has seen it by itself.
fn works_again(bench: &mut Bench, drive: &str) {
    let ordered = bench.ask(Command::DriveOnline { drive: drive.into() });
    let state = bench.drive(drive).state;
    assert!(ordered.is_ok() || matches!(state, DriveState::Online | DriveState::Rebuilding), "{ordered:?}");
}

/// Two new drives went out by one change, after something had moved, and one of them was dead. The volume could do without it, and nothing helped: it was refused
/// as long as it had lost a drive, no other drive could take that one's place, as the volume was on its way, and those behind it waited for ever.
#[test]
fn a_new_drive_that_is_dead_is_replaced_when_the_volume_can_do_without_it() {
    let scene = Scene { volumes: &[("data", "raid5"), ("more", "raid5")], add: &["d", "e"], ..ADDS };
    let (size, mut lost) = (48 * STRIP, 0);
    for later in (0..200).step_by(23) {
        let mut bench = moved(scene, size, later);
        bench.sim.drive("d").expect("it is there").vanish();
        bench.sim.drive("e").expect("it is there").fail_now();
        bench.wait(20);
        let says = of(&label(&bench, "a").expect("it has one"), "data");
        if says.lost != [3, 4] || says.reshape.is_none() {
            continue;
        }
        lost += 1;
        assert!(!bench.show("data").state.serves() && bench.show("more").state.serves());
        bench.refused(ErrorKind::WrongState, replace(4, "f"));
        bench.sim.drive("d").expect("it is there").come_back();
        works_again(&mut bench, "d");
        bench.wait(2);
        assert!(!bench.show("data").state.serves(), "it has lost drive e still");
        bench.refused(ErrorKind::WrongState, replace(3, "f"));
        bench.ask(replace(4, "f")).expect("all of it is on the others");
        bench.wait(2);
        if !bench.show("data").state.serves() {
            // The window that was being written is saved, and is written again.
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
            assert_eq!((bench.show(name).state, lies_on(&bench, name)), (VolumeState::Optimal, 5), "{name}");
        }
        bench.ask(crate::common::take_offline("b")).expect("one can be spared");
        expect_content(&mut bench, scene, size);
    }
    assert!(lost > 2, "{lost} times both went out by one change");
}

/// What a new drive of a RAID 0 holds is nowhere else: no other drive takes its place.
#[test]
fn a_new_drive_that_holds_what_no_other_does_is_not_replaced() {
    let scene = Scene { volumes: &[("data", "raid0"), ("more", "raid5")], ..ADDS };
    let size = 48 * STRIP;
    let mut bench = moved(scene, size, 0);
    bench.sim.drive("d").expect("it is there").vanish();
    bench.wait(20);
    assert!(!bench.show("data").state.serves() && bench.show("more").state.serves());
    let why = bench.refused(ErrorKind::WrongState, replace(3, "f"));
    assert!(why.contains("is on its way"), "{why}");
    bench.sim.drive("d").expect("it is there").come_back();
    works_again(&mut bench, "d");
    arrive(&mut bench, scene);
    expect_content(&mut bench, scene, size);
}
