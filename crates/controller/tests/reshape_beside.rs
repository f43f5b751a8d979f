//! Volumes that grow on their drives, and concurrent changes to other volumes of the array.

use crate::common::{Bench, MIB};
use crate::reshape::{arrive, expect_content, reshape, task};
use crate::reshape_longer::{beside, order, shorter};
use controller::{Command, ErrorKind, ReshapeVolume, SectorFormat, SetPolicy, WriteHole};

const DRIVES: [&str; 3] = ["a", "b", "c"];

/// A volume, and another one behind a gap. Returns the bytes of the first.
fn with_a_gap() -> (Bench, u64) {
    let (mut bench, bytes) = shorter("raid5", &DRIVES, 2, 24 * MIB);
    for name in ["more", "last"] {
        bench.create_with(name, "raid5", &[], beside("data", 8 * MIB)).expect("there is space");
        bench.write(name, 0, 9, 8 * MIB);
        bench.settle(name);
    }
    delete(&mut bench, "more");
    (bench, bytes)
}

fn delete(bench: &mut Bench, volume: &str) {
    let delete = Command::VolumeDelete { volume: volume.into(), disconnect_hosts: false };
    bench.ask(delete).expect("deleted");
}

fn set(bench: &mut Bench, policy: SetPolicy) {
    bench.ask(Command::VolumePolicy(policy)).expect("the policy is set");
}

/// It grows into the gap, and the reshape is paused.
fn growing() -> (Bench, u64) {
    let (mut bench, bytes) = with_a_gap();
    reshape(&mut bench, order());
    let task = task(&mut bench).task;
    bench.ask(Command::TaskPause { task }).expect("the reshape is paused");
    bench.wait(1);
    assert!(bench.show("data").reshape.is_some(), "the volume is reshaping");
    (bench, bytes)
}

/// Its parts stayed in the label, without a volume. No drive's label was readable any more, and the
/// other volume was lost.
#[test]
fn a_volume_that_is_deleted_while_it_grows_takes_its_parts_along() {
    for interrupted in [false, true] {
        let (mut bench, _) = growing();
        if interrupted {
            bench.restart(&[]);
        }
        delete(&mut bench, "data");
        bench.expect("last", 0, 9, 8 * MIB);
        bench.restart(&[]);
        assert!(!bench.has("data"));
        bench.expect("last", 0, 9, 8 * MIB);
        let info = bench
            .create_with("again", "raid5", &[], beside("last", 8 * MIB))
            .expect("its space is free");
        assert_eq!(info.data_start_bytes, 0);
        bench.settle("again");
        bench.restart(&DRIVES);
        bench.ask(crate::common::take_offline("b")).unwrap();
        bench.expect("last", 0, 9, 8 * MIB);
    }
}

/// Other volumes can be deleted meanwhile.
#[test]
fn a_volume_beside_one_that_grows_can_be_deleted() {
    let (mut bench, bytes) = growing();
    delete(&mut bench, "last");
    expect_content(&mut bench, bytes);
    let task = task(&mut bench).task;
    bench.ask(Command::TaskResume { task }).expect("the reshape continues");
    arrive(&mut bench);
    expect_content(&mut bench, bytes);
    bench.restart(&[]);
    expect_content(&mut bench, bytes);
}

/// A volume was created in the array of a reshaping one when its drives were named instead of the
/// array; a rollback of the reshape lost it.
#[test]
fn no_volume_is_made_beside_one_that_is_on_its_way() {
    let (mut bench, _) = growing();
    let by_drives = bench
        .create_with("other", "raid5", &DRIVES, |create| create.size_bytes = Some(MIB))
        .map(|_| ());
    let by_array = bench.create_with("other", "raid5", &[], beside("data", MIB)).map(|_| ());
    for refused in [by_drives, by_array] {
        let why = refused.expect_err("the volume is reshaping");
        assert_eq!(why.kind, ErrorKind::WrongState);
        assert!(why.message.contains("softroc task list"), "{why:?}");
    }
}

/// All of the space behind a volume was taken, whatever size was requested.
#[test]
fn a_volume_that_grows_to_a_size_takes_no_more_than_that() {
    let (mut bench, bytes) = shorter("raid5", &DRIVES, 2, 24 * MIB);
    let before = bench.show("data").member_bytes;
    reshape(&mut bench, ReshapeVolume { size_bytes: Some(bytes + 4 * MIB), ..order() });
    arrive(&mut bench);
    let shown = bench.show("data");
    assert_eq!((shown.capacity_bytes, shown.member_bytes), (bytes + 4 * MIB, before + 2 * MIB));
    bench.create_with("more", "raid5", &[], beside("data", 8 * MIB)).expect("there is space");
    expect_content(&mut bench, bytes);
    let same = ReshapeVolume { size_bytes: Some(bytes + 4 * MIB), ..order() };
    let why = bench.refused(ErrorKind::Invalid, Command::VolumeReshape(same));
    assert!(why.contains("has this layout already"), "{why}");
}

/// A volume with 4 KiB sectors got a size that is no multiple of them.
#[test]
fn a_volume_grows_by_whole_sectors_as_hosts_see_them() {
    let (mut bench, bytes) = shorter("raid5", &DRIVES, 1, 24 * MIB);
    let sector_format = Some(SectorFormat::Native4096);
    set(&mut bench, SetPolicy { volume: "data".into(), sector_format, ..SetPolicy::default() });
    let odd = ReshapeVolume { size_bytes: Some(bytes + 512), ..order() };
    let why = bench.refused(ErrorKind::Invalid, Command::VolumeReshape(odd));
    assert!(why.contains("4 KiB") && why.contains(&(bytes + 4096).to_string()), "{why}");
    let even = ReshapeVolume { size_bytes: Some(bytes + 4096), ..order() };
    assert_eq!(reshape(&mut bench, even).to.capacity_bytes, bytes + 4096);
}

/// Journals of other volumes left no space for a second one. The refusal named an option that
/// growing does not have.
#[test]
fn a_volume_without_room_for_a_second_journal_is_told_what_to_do() {
    let (mut bench, bytes) = shorter("raid5", &DRIVES, 1, 24 * MIB);
    let mut names = Vec::new();
    loop {
        let name = format!("v{}", names.len());
        let made = bench.create_with(&name, "raid5", &[], |create| {
            beside("data", MIB)(create);
            create.write_hole = Some(WriteHole::Journal);
        });
        match made {
            Ok(_) => {
                bench.settle(&name);
                names.push(name);
            }
            Err(why) => break assert!(why.message.contains("--write-hole resync"), "{why:?}"),
        }
    }
    let [.., before, last] = names.as_slice() else { panic!("{names:?}") };
    let grow = || ReshapeVolume { volume: last.clone(), ..order() };
    // First no space at all, then some, but not enough.
    let why = bench.refused(ErrorKind::Invalid, Command::VolumeReshape(grow()));
    assert!(why.contains("softroc volume set data --write-hole resync"), "{why}");
    delete(&mut bench, before);
    let why = bench.refused(ErrorKind::Invalid, Command::VolumeReshape(grow()));
    assert!(why.contains(&format!("softroc volume set {last} --write-hole resync")), "{why}");
    let write_hole = Some(WriteHole::Resync);
    set(&mut bench, SetPolicy { volume: last.clone(), write_hole, ..SetPolicy::default() });
    bench.settle(last);
    reshape(&mut bench, grow());
    for _ in 0..100 {
        if bench.show(last).reshape.is_none() {
            break;
        }
        bench.wait(1);
    }
    assert!(bench.show(last).capacity_bytes > 8 * MIB);
    expect_content(&mut bench, bytes);
}
