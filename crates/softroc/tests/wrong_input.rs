//! Invalid commands, drives and bytes: one clear message, a matching exit code, no change.

mod common;

use common::{Controller, have, run, softroc};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// The message includes all of `words`.
fn names(sentence: &str, words: &[&str]) {
    for word in words {
        assert!(sentence.contains(word), "'{word}' is not in: {sentence}");
    }
    assert!(!sentence.contains("panicked"), "{sentence}");
}

#[test]
fn a_missing_drive_file_is_named() {
    let controller = Controller::new("missing");
    let mut drives = controller.file_drives(2);
    drives.push(controller.folder.file("nowhere.img"));
    names(&controller.create("v", "raid5", &drives).refused(), &["nowhere.img", "does not exist"]);
    assert!(controller.json(&["volume", "list"])["volumes"].as_array().unwrap().is_empty());
}

#[test]
fn drives_of_different_sizes_make_a_volume_of_the_smallest_and_it_says_so() {
    let controller = Controller::new("sizes");
    let small = controller.folder.file("small.img");
    controller.softroc(&["drive", "add", "--create", "48M", &small]).ok();
    let large = controller.folder.file("large.img");
    controller.softroc(&["drive", "add", "--create", "80M", &large]).ok();
    let said = controller.create("v", "raid1", &[small, large]).ok();
    names(&said, &["Note:", "smallest"]);
    assert_eq!(controller.capacity("v"), 16 << 20);
}

#[test]
fn a_drive_of_another_array_is_refused_even_when_it_is_moved() {
    let mut controller = Controller::new("other-array");
    let drives = controller.volume("first", "raid1", 2);
    // All of its drives: for a second volume on the array, if there were space; one of them is not
    // available.
    names(
        &controller.create("second", "raid1", &drives).refused(),
        &["there is no free space", "first"],
    );
    names(&controller.create("second", "jbod", &drives[..1]).refused(), &["d0.img", "first"]);
    // With another controller, which does not know them.
    controller.stop();
    let other = Controller::new("other-controller");
    let refused = other.create("second", "raid1", &drives).refused();
    names(&refused, &["d0.img", "first"]);
}

#[test]
fn a_drive_that_another_controller_holds_is_refused() {
    let controller = Controller::new("held");
    let drives = controller.volume("v", "raid1", 2);
    let other = Controller::new("held-other");
    names(&other.create("w", "raid1", &drives).refused(), &["d0.img", "another controller"]);
    names(
        &other.softroc(&["drive", "add", &drives[0]]).refused(),
        &["d0.img", "another controller"],
    );
}

#[test]
fn a_drive_with_a_file_system_is_refused_unless_it_may_be_destroyed() {
    if !have("mkfs.ext4") {
        return;
    }
    let controller = Controller::new("fs");
    let drives: Vec<String> =
        (0..2).map(|i| controller.folder.file(&format!("fs{i}.img"))).collect();
    for drive in &drives {
        run("truncate", &["-s", "64M", drive]);
    }
    run("mkfs.ext4", &["-q", "-F", &drives[1]]);
    let before = std::fs::read(&drives[1]).expect("the drive");
    names(
        &controller.create("v", "raid1", &drives).refused(),
        &["fs1.img", "ext", "--destroy-data"],
    );
    assert!(before == std::fs::read(&drives[1]).expect("the drive"), "a refused command wrote");
    let mut arguments =
        vec!["volume", "create", "v", "--level", "raid1", "--destroy-data", "--drives"];
    arguments.extend(drives.iter().map(String::as_str));
    controller.softroc(&arguments).ok();
    controller.wait_synced("v");
}

#[test]
fn too_few_drives_are_refused_with_the_number_that_would_do() {
    let controller = Controller::new("few");
    let drives = controller.file_drives(2);
    names(
        &controller.create("v", "raid5", &drives).refused(),
        &["RAID 5", "at least 3 drives", "not 2"],
    );
    names(
        &controller.create("v", "raid1", &drives[..1]).refused(),
        &["RAID 1", "at least 2 drives", "not 1"],
    );
}

#[test]
fn the_same_drive_twice_is_refused() {
    let controller = Controller::new("twice");
    let drives = controller.file_drives(2);
    let link = controller.folder.file("link.img");
    std::os::unix::fs::symlink(&drives[0], &link).expect("a link");
    names(
        &controller.create("v", "raid1", &[drives[0].clone(), link]).refused(),
        &["link.img", "another name"],
    );
}

#[test]
fn a_strip_that_is_no_power_of_two_is_refused_before_anything_is_asked() {
    let refused = softroc(&[
        "volume", "create", "v", "--level", "raid0", "--strip", "48K", "--drives", "a", "b",
    ]);
    names(&refused.refused(), &["48 KiB", "power of two"]);
    // A command line that another command serves names that one.
    for (more, command) in [
        (&["--add", "a", "b", "--dry-run"][..], "'softroc volume expand v --add a b --dry-run'"),
        (&["--size", "1G"], "'softroc volume expand v --size 1073741824'"),
    ] {
        let answer = softroc(&[&["volume", "migrate", "v"][..], more].concat());
        assert_eq!(answer.code, 2, "{}", answer.stderr);
        names(&answer.refused(), &["--level, --strip or --remove", command]);
    }
    let refused =
        softroc(&["explain", "--level", "raid7", "--drives", "4", "write", "8K@0"]).refused();
    names(&refused, &["raid7", "raid5"]);
    let refused =
        softroc(&["explain", "--level", "raid5", "--drives", "4", "write", "8K"]).refused();
    names(&refused, &["8K", "SIZE@OFFSET"]);
}

#[test]
fn a_read_only_drive_is_refused() {
    let controller = Controller::new("read-only");
    let drives = controller.file_drives(1);
    let read_only = controller.folder.file("ro.img");
    run("truncate", &["-s", "64M", &read_only]);
    if run("id", &["-u"]).trim() == "0" {
        // Root can write to all but immutable files.
        let made = std::process::Command::new("chattr").args(["+i", &read_only]).status();
        if !made.is_ok_and(|status| status.success()) {
            return common::not_possible(
                "a read-only drive",
                "root, and no chattr +i on this file system",
            );
        }
    } else {
        run("chmod", &["444", &read_only]);
    }
    let answer = controller.create("v", "raid1", &[drives[0].clone(), read_only.clone()]);
    let _ = std::process::Command::new("chattr").args(["-i", &read_only]).status();
    names(&answer.refused(), &["ro.img", "read-only"]);
}

#[test]
fn no_space_for_a_file_drive_is_said_and_leaves_nothing_behind() {
    let controller = Controller::new("space");
    let drive = controller.folder.file("huge.img");
    let answer = controller.softroc(&["drive", "add", "--create", "4000T", &drive]);
    assert_ne!(answer.code, 0);
    names(&answer.stderr, &["huge.img"]);
    assert!(!std::path::Path::new(&drive).exists());
}

#[test]
fn a_name_is_taken_once() {
    let controller = Controller::new("name");
    controller.volume("v", "raid1", 2);
    let more: Vec<String> =
        (0..2).map(|i| controller.folder.file(&format!("more{i}.img"))).collect();
    controller.softroc(&["drive", "add", "--create", common::DRIVE, &more[0], &more[1]]).ok();
    names(&controller.create("v", "raid1", &more).refused(), &["'v'", "already"]);
    names(&controller.create("no/slash", "raid1", &more).refused(), &["no/slash"]);
}

#[test]
fn a_socket_in_use_is_refused() {
    let controller = Controller::new("socket");
    let other = controller.folder.file("other");
    let nbd = format!("unix:{}", controller.nbd_socket());
    let refused = softroc(&["serve", "--state", &other, "--nbd", &nbd]).refused();
    names(&refused, &["nbd.sock", "in use"]);
    let control = format!("{}/control.sock", controller.state());
    let refused = softroc(&["serve", "--state", &other, "--socket", &control]).refused();
    names(&refused, &["control.sock", "in use"]);
    // The running one is not affected.
    controller.softroc(&["volume", "list"]).ok();
}

#[test]
fn a_second_controller_on_one_state_directory_is_refused() {
    let controller = Controller::new("second");
    let refused = softroc(&["serve", "--state", &controller.state()]).refused();
    names(&refused, &["state", "in use"]);
    controller.softroc(&["volume", "list"]).ok();
}

#[test]
fn an_address_that_others_can_reach_needs_to_be_asked_for() {
    let controller = Controller::new("remote");
    let other = controller.folder.file("other");
    let refused = softroc(&["serve", "--state", &other, "--nbd", "0.0.0.0:0"]).refused();
    names(&refused, &["0.0.0.0", "--allow-remote"]);
}

#[test]
fn commands_without_a_controller_say_how_to_start_one() {
    let folder = common::Folder::new("nobody");
    let refused = softroc(&["volume", "list", "--state", &folder.file("state")]).refused();
    names(&refused, &["control.sock", "softroc serve"]);
}

#[test]
fn unknown_names_are_said_back() {
    let controller = Controller::new("unknown");
    names(&controller.softroc(&["volume", "show", "nope"]).refused(), &["nope"]);
    names(&controller.softroc(&["drive", "fail", "nope:3"]).refused(), &["nope"]);
    names(&controller.softroc(&["volume", "delete", "nope", "--yes"]).refused(), &["nope"]);
}

#[test]
fn destroying_asks_first() {
    let controller = Controller::new("asks");
    controller.volume("v", "raid1", 2);
    names(&controller.softroc(&["volume", "delete", "v"]).refused(), &["--yes"]);
    assert_eq!(controller.show("v")["state"], "optimal");
}

#[test]
fn garbage_on_the_nbd_socket_harms_nobody() {
    let controller = Controller::new("garbage");
    controller.volume("v", "raid1", 2);
    let mut good =
        common::host::Host::connect(&controller.nbd_socket(), "v").expect("a connection");
    let half_option =
        [&3u32.to_be_bytes()[..], b"IHAVEOPT", &7u32.to_be_bytes(), &u32::MAX.to_be_bytes()]
            .concat();
    let inputs: [&[u8]; 5] =
        [b"", b"GET / HTTP/1.1\r\n\r\n", &[0xFF; 4096], &3u32.to_be_bytes(), &half_option];
    for input in inputs {
        let mut bad = UnixStream::connect(controller.nbd_socket()).expect("a connection");
        let _ = bad.write_all(input);
        let _ = bad.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = bad.read_to_end(&mut rest);
    }
    // Hostile lengths after a valid handshake: a write past the end, of 4 GiB, that never arrives.
    let mut bad = common::host::Host::connect(&controller.nbd_socket(), "v").expect("a connection");
    bad.announce_write(1 << 62, u32::MAX);
    drop(bad);
    good.write(4096, &[7; 8192]).expect("the good one is served");
    assert_eq!(good.read(4096, 8192).expect("and reads"), [7; 8192]);
}
