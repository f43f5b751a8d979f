//! Volumes that grow on the drives that they have, and what is done meanwhile to the volumes beside them.

use crate::common::{Bench, MIB};
use crate::reshape::{arrive, expect_content, reshape, task};
use crate::reshape_longer::{beside, order, shorter};
use controller::{Command, ErrorKind};

const DRIVES: [&str; 3] = ["a", "b", "c"];

/// A volume, and another one with a gap between them. Bytes of the first.
fn with_a_gap() -> (Bench, u64) {
    let (mut bench, bytes) = shorter("raid5", &DRIVES, 2, 24 * MIB);
    for name in ["more", "last"] {
        bench.create_with(name, "raid5", &[], beside("data", 8 * MIB)).expect("there is room");
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

/// It grows into the gap, and stands still on its way.
fn growing() -> (Bench, u64) {
    let (mut bench, bytes) = with_a_gap();
    reshape(&mut bench, order());
    let task = task(&mut bench).task;
    bench.ask(Command::TaskPause { task }).expect("it stands still");
    bench.wait(1);
    assert!(bench.show("data").reshape.is_some(), "it is on its way");
    (bench, bytes)
}

/// Its parts stayed in the label, as parts of no volume. No drive's label could be read any more, and the other volume was gone.
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
        let info =
            bench.create_with("again", "raid5", &[], beside("last", 8 * MIB)).expect("its room is free");
        assert_eq!(info.data_start_bytes, 0);
        bench.settle("again");
        bench.restart(&DRIVES);
        bench.ask(Command::DriveOffline { drive: "b".into() }).unwrap();
        bench.expect("last", 0, 9, 8 * MIB);
    }
}

/// The others can go meanwhile.
#[test]
fn a_volume_beside_one_that_grows_can_be_deleted() {
    let (mut bench, bytes) = growing();
    delete(&mut bench, "last");
    expect_content(&mut bench, bytes);
    let task = task(&mut bench).task;
    bench.ask(Command::TaskResume { task }).expect("it goes on");
    arrive(&mut bench);
    expect_content(&mut bench, bytes);
    bench.restart(&[]);
    expect_content(&mut bench, bytes);
}

/// A volume came to the array of one on its way where its drives were named and not the array; when the way was taken back, it was lost.
#[test]
fn no_volume_is_made_beside_one_that_is_on_its_way() {
    let (mut bench, _) = growing();
    let by_drives =
        bench.create_with("other", "raid5", &DRIVES, |create| create.size_bytes = Some(MIB)).map(|_| ());
    let by_array = bench.create_with("other", "raid5", &[], beside("data", MIB)).map(|_| ());
    for refused in [by_drives, by_array] {
        let why = refused.expect_err("it is on its way");
        assert_eq!(why.kind, ErrorKind::WrongState);
        assert!(why.message.contains("softroc task list"), "{why:?}");
    }
}
