//! Volumes that have come to another layout: what is left of the one that they had.

use crate::common::{Bench, MIB};
use crate::reshape::{STRIP, WAYS, byte, expect_content, order, prepared};
use controller::{Command, ErrorKind, VolumeState};

/// Lets time pass until it is so.
fn until(bench: &mut Bench, what: &str, is_so: impl Fn(&controller::VolumeInfo) -> bool) {
    for _ in 0..300 {
        if is_so(&bench.show("data")) {
            return;
        }
        bench.wait(1);
    }
    panic!("{what}: {:?}", bench.show("data"));
}

/// A drive went out that had not returned what it was asked by the old layout. When the volume had come to the new one, nobody waited for that any
/// more: the drive was taken in again, and a write from before could land on what lies there by now.
#[test]
fn a_drive_that_owes_a_write_of_the_old_layout_is_not_taken_in_again() {
    let way = WAYS[0];
    let mut bench = prepared(way, 1, 12 * MIB);
    let bytes = bench.show("data").capacity_bytes;
    bench.ask(Command::VolumeReshape(order(way))).unwrap();
    let drive = bench.sim.drive("b").unwrap();
    drive.hold();
    let strips = bytes / STRIP;
    let written =
        [strips - 2, strips - 1].map(|strip| bench.begin_write("data", strip * STRIP, byte(strip), STRIP));
    until(&mut bench, "it arrives", |shown| shown.reshape.is_none());
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    for one in written {
        bench.sim.finish(&one).unwrap().expect("written without the drive");
    }
    let online = Command::DriveOnline { drive: "b".into() };
    let why = bench.refused(ErrorKind::WrongState, online.clone());
    assert!(why.contains("outstanding"), "{why}");
    drive.release();
    bench.wait(5);
    bench.ask(online).unwrap();
    until(&mut bench, "it is whole", |shown| shown.state == VolumeState::Optimal);
    expect_content(&mut bench, bytes);
}
