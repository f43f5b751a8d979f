//! Volumes without any drive: they are listed as missing, with the time and the drives of the last
//! contact, until a drive returns or an operator forgets them.

use crate::common::events::{End, at_every_event, end};
use crate::common::{self, Bench, MIB};
use controller::{Command, CreateVolume, DriveState, ErrorKind, Reply, VolumeInfo, VolumeState};

const DRIVES: [&str; 3] = ["a", "b", "c"];

fn forget(volume: &str) -> Command {
    Command::VolumeForget { volume: volume.into() }
}

fn volumes(bench: &mut Bench) -> Vec<VolumeInfo> {
    match bench.ask(Command::VolumeList {}) {
        Ok(Reply::Volumes { volumes }) => volumes,
        other => panic!("{other:?}"),
    }
}

fn vanish(bench: &mut Bench) {
    DRIVES.iter().for_each(|name| bench.sim.drive(name).expect("the drive exists").vanish());
}

fn come_back(bench: &mut Bench, names: &[&str]) {
    names.iter().for_each(|name| bench.sim.drive(name).expect("the drive exists").come_back());
}

fn prepared(seed: u64) -> Bench {
    let mut bench = Bench::in_order(seed, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &DRIVES);
    bench.write("data", 0, 7, MIB / 2);
    bench.settle("data");
    bench
}

#[test]
fn a_volume_of_which_nothing_is_found_is_listed_as_missing() {
    let mut bench = prepared(1);
    let before = bench.show("data");
    assert_eq!(before.last_seen_unix_s, None, "the volume is present");
    bench.wait(7200);
    bench.shut_down();
    vanish(&mut bench);
    bench.restart(&[]);
    bench.wait(3600);
    let listed = volumes(&mut bench);
    assert_eq!(listed.len(), 1, "{listed:?}");
    let info = bench.show("data");
    assert_eq!(
        (info.state, info.uuid.clone(), info.level.as_str()),
        (VolumeState::Missing, before.uuid, "raid5")
    );
    let names: Vec<&str> = info.drives.iter().map(|drive| drive.name.as_str()).collect();
    assert_eq!(names, DRIVES);
    assert!(
        info.drives.iter().all(|drive| drive.state == DriveState::Missing),
        "{:?}",
        info.drives
    );
    assert!(
        info.reasons.iter().any(|why| why.contains("softroc volume forget data")),
        "{:?}",
        info.reasons
    );
    let seen = info.last_seen_unix_s.expect("it was present before");
    assert!(seen >= info.created_unix_s + 7200, "present when the controller was stopped: {seen}");
    match bench.ask(Command::Info {}) {
        Ok(Reply::Info { info }) => {
            assert_eq!((info.volumes_missing, info.volumes_offline), (1, 0))
        }
        other => panic!("{other:?}"),
    }
    assert!(bench.has_event("all drives of 'data' are missing"), "{:?}", bench.events());
    // Its name is free meanwhile: the refusal is because of the drives.
    bench.refused(ErrorKind::Unavailable, common::create("data", "raid5", &DRIVES));
    // It returns drive by drive, unchanged.
    come_back(&mut bench, &["a"]);
    bench
        .ask(Command::DriveAdd { drive: "a".into(), size_bytes: None })
        .expect("the drive is added");
    assert_eq!(bench.show("data").state, VolumeState::Offline);
    come_back(&mut bench, &["b", "c"]);
    for drive in ["b", "c"] {
        bench
            .ask(Command::DriveAdd { drive: drive.into(), size_bytes: None })
            .expect("the drive is added");
    }
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    assert_eq!(bench.show("data").last_seen_unix_s, None);
    bench.expect("data", 0, 7, MIB / 2);
}

#[test]
fn a_missing_volume_is_forgotten_by_order_and_comes_back_with_its_drives() {
    let mut bench = prepared(2);
    let why = bench.refused(ErrorKind::WrongState, forget("data"));
    assert!(why.contains("softroc volume delete data"), "{why}");
    vanish(&mut bench);
    bench.restart(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Missing);
    match bench.ask(forget("data")) {
        Ok(Reply::Done { notes }) => assert!(notes[0].contains("stays"), "{notes:?}"),
        other => panic!("{other:?}"),
    }
    bench.refused(ErrorKind::NotFound, Command::VolumeShow { volume: "data".into() });
    bench.wait(1);
    bench.restart(&[]);
    assert_eq!(volumes(&mut bench), [], "it stays forgotten");
    come_back(&mut bench, &DRIVES);
    bench.restart(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Optimal, "the drives' content is unchanged");
    vanish(&mut bench);
    bench.restart(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Missing, "it is present again");
}

/// A deletion was acknowledged, and recorded as complete a moment later. The power was cut in
/// between, all drives were missing at the next start, and the volume was listed as missing.
#[test]
fn a_volume_that_was_deleted_is_not_remembered() {
    let mut bench = Bench::in_order(9, 1, 0);
    bench.add_drives(&DRIVES, 40 * MIB);
    bench.boot(&[]);
    let sized = |wanted: &mut CreateVolume| wanted.size_bytes = Some(2 * MIB);
    bench.create_with("data", "raid5", &DRIVES, sized).expect("there is space");
    bench.create_with("more", "raid5", &DRIVES, sized).expect("there is space");
    bench.wait(10);
    let delete = Command::VolumeDelete { volume: "more".into(), disconnect_hosts: false };
    bench.ask(delete).expect("deleted");
    end(&mut bench, End::PowerCut);
    vanish(&mut bench);
    bench.boot(&[]);
    let names: Vec<String> = volumes(&mut bench).into_iter().map(|volume| volume.name).collect();
    assert_eq!(names, ["data"]);
}

/// The list has the last name, and all volumes of the array; they are forgotten together.
#[test]
fn what_was_renamed_or_laid_beside_is_remembered_so() {
    let mut bench = Bench::in_order(3, 1, 0);
    bench.add_drives(&DRIVES, 40 * MIB);
    bench.boot(&[]);
    let sized = |wanted: &mut CreateVolume| wanted.size_bytes = Some(MIB);
    bench.create_with("old", "raid5", &DRIVES, sized).expect("there is space");
    bench.create_with("beside", "raid1", &DRIVES, sized).expect("there is space");
    bench.ask(Command::VolumeSet { volume: "old".into(), name: "new".into() }).expect("renamed");
    bench.wait(1);
    vanish(&mut bench);
    bench.restart(&[]);
    let names: Vec<String> = volumes(&mut bench).into_iter().map(|volume| volume.name).collect();
    assert_eq!(names, ["beside", "new"]);
    bench.ask(forget("beside")).expect("the volume is missing");
    assert_eq!(volumes(&mut bench), []);
}

#[test]
fn a_deleted_volume_is_not_missed_wherever_the_deletion_ends() {
    for how in [End::Killed, End::PowerCut] {
        let scene = |bench: &mut Bench| {
            bench
                .try_ask(Command::VolumeDelete { volume: "data".into(), disconnect_hosts: false })
                .ok()
        };
        at_every_event(
            2,
            how,
            || prepared(4),
            scene,
            |bench, deleted, event| {
                bench.boot(&[]);
                let there = volumes(bench);
                let is_whole = there.iter().all(|volume| volume.state == VolumeState::Optimal);
                assert!(is_whole, "{how:?} at event {event}: {there:?}");
                assert!(
                    deleted.is_none() || there.is_empty(),
                    "{how:?} at event {event}: acknowledged"
                );
                if !there.is_empty() {
                    return;
                }
                vanish(bench);
                bench.restart(&[]);
                assert_eq!(volumes(bench), [], "{how:?} at event {event}: not listed as missing");
            },
        );
    }
}

/// A kill during a deletion. The next start completed the deletion without one drive, and did not
/// record it: that drive restored the volume later.
#[test]
fn a_drive_that_is_away_when_a_deletion_is_finished_does_not_bring_it_back() {
    for how in [End::Killed, End::PowerCut] {
        let scene = |bench: &mut Bench| {
            bench
                .try_ask(Command::VolumeDelete { volume: "data".into(), disconnect_hosts: false })
                .ok()
        };
        at_every_event(
            2,
            how,
            || prepared(5),
            scene,
            |bench, _, event| {
                bench.sim.drive("b").expect("the drive exists").vanish();
                bench.boot(&[]);
                if !volumes(bench).is_empty() {
                    return; // The deletion did not begin.
                }
                come_back(bench, &["b"]);
                bench.restart(&[]);
                assert_eq!(volumes(bench), [], "{how:?} at event {event}: deleted");
            },
        );
    }
}

fn deleted() -> Command {
    Command::VolumeDelete { volume: "data".into(), disconnect_hosts: false }
}

/// The commands for a drive that still has the label of a deleted volume.
fn is_no_part_of_it_any_more(bench: &mut Bench, drive: &str) {
    assert_eq!(volumes(bench), [], "the volume was deleted");
    let shown = bench.drive(drive);
    assert_eq!(shown.state, DriveState::Refused);
    let why = shown.reason.unwrap_or_default();
    assert!(why.contains("has the label of") && why.contains("softroc rescue"), "{why}");
    let create = |destroy_data| {
        let Command::VolumeCreate(wanted) = common::create("new", "raid5", &DRIVES) else {
            panic!()
        };
        Command::VolumeCreate(CreateVolume { destroy_data, ..wanted })
    };
    bench.refused(ErrorKind::HoldsData, create(false));
    bench.ask(create(true)).expect("that data may be lost");
    bench.restart(&[]);
    assert_eq!(bench.show("new").state, VolumeState::Optimal);
}

/// A drive hung while its volume was deleted, and kept its label. After a power cut the volume was
/// present again, from that drive alone.
#[test]
fn a_drive_that_did_not_answer_does_not_bring_back_what_was_deleted() {
    let mut bench = prepared(6);
    bench
        .sim
        .drive("b")
        .expect("the drive exists")
        .stall_next(1, std::time::Duration::from_secs(90));
    drop(bench.begin_write("data", 0, 2, MIB / 2));
    bench.ask(deleted()).expect("it is deleted");
    bench.power_cycle(&[]);
    is_no_part_of_it_any_more(&mut bench, "b");
}

/// The same for a missing drive that returns at once or after a restart.
#[test]
fn a_drive_that_was_away_does_not_bring_back_what_was_deleted() {
    for restarts in [false, true] {
        let mut bench = prepared(7);
        bench.sim.drive("b").expect("the drive exists").vanish();
        bench.write("data", 0, 2, MIB / 2);
        let notes = match bench.ask(deleted()) {
            Ok(Reply::Done { notes }) => notes,
            other => panic!("{other:?}"),
        };
        assert!(notes.iter().any(|note| note.contains("drive b keeps the label")), "{notes:?}");
        come_back(&mut bench, &["b"]);
        match restarts {
            true => bench.restart(&[]),
            false => drop(
                bench
                    .ask(Command::DriveAdd { drive: "b".into(), size_bytes: None })
                    .expect("the drive is here"),
            ),
        }
        is_no_part_of_it_any_more(&mut bench, "b");
    }
}
