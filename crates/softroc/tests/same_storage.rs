//! One storage with two names: loop devices over one file, a hard link, two exports of one volume.

mod common;

use common::{Controller, Folder, have, not_possible, run};
use std::process::Command;

/// A loop device, detached on drop.
struct Loop(String);

impl Loop {
    /// `None`: not available to this user or computer.
    fn over(file: &str) -> Option<Loop> {
        let made = Command::new("losetup").args(["-f", "--show", file]).output().ok()?;
        let name = String::from_utf8_lossy(&made.stdout).trim().to_owned();
        (made.status.success() && !name.is_empty()).then_some(Loop(name))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

fn create(controller: &Controller, name: &str, drives: &[&str]) -> common::Answer {
    controller
        .softroc(&[&["volume", "create", name, "--level", "raid1", "--drives"], drives].concat())
}

/// Regression: a mirror of two loop devices over one file was "optimal". It was missing at the next
/// start, and the recommended command would have erased its only label.
#[test]
fn two_loop_devices_over_one_file_are_one_drive() {
    if !have("losetup") {
        return;
    }
    let folder = Folder::new("twin-loops");
    let file = folder.file("disk.img");
    run("truncate", &["-s", "96M", &file]);
    let (Some(one), Some(other)) = (Loop::over(&file), Loop::over(&file)) else {
        return not_possible("two_loop_devices", "this user may not make loop devices");
    };
    let controller = Controller::new("twin-loops");
    let answer = create(&controller, "twin", &[&one.0, &other.0]);
    assert_eq!(answer.code, 2, "{}", answer.stderr);
    assert!(answer.stderr.contains("the same drive"), "{}", answer.stderr);
    controller.softroc(&["drive", "add", &one.0]).ok();
    let second = controller.softroc(&["drive", "add", &other.0]).ok();
    assert!(second.contains(&format!("another path to drive {}", one.0)), "{second}");
    // Nor is the file below them another drive.
    let below = controller.softroc(&["drive", "add", &file]).ok();
    assert!(below.contains("another path to drive"), "{below}");
    assert_eq!(
        std::fs::read(&file).expect("the file").iter().filter(|byte| **byte != 0).count(),
        0
    );
}

#[test]
fn a_hard_link_is_one_drive() {
    let controller = Controller::new("twin-link");
    let drives = controller.file_drives(1);
    let link = controller.folder.file("link.img");
    std::fs::hard_link(&drives[0], &link).expect("a link");
    let answer = create(&controller, "twin", &[&drives[0], &link]);
    assert_ne!(answer.code, 0);
    assert!(answer.stderr.contains("under another name"), "{}", answer.stderr);
}

/// Only writes reveal that two exports are one storage.
#[test]
fn two_exports_of_one_volume_are_one_drive() {
    let far = Controller::new("twin-far");
    far.volume("v", "raid0", 4);
    let socket = format!("{}/nbd.sock", far.state());
    let link = far.folder.file("other.sock");
    std::os::unix::fs::symlink(&socket, &link).expect("a link");
    let controller = Controller::new("twin-exports");
    let uri = |socket: &str| format!("nbd+unix:///v?socket={socket}");
    let answer = create(&controller, "twin", &[&uri(&socket), &uri(&link)]);
    assert_ne!(answer.code, 0);
    assert!(answer.stderr.contains("are the same storage"), "{}", answer.stderr);
    assert!(!controller.softroc(&["volume", "list"]).ok().contains("twin"));
}
