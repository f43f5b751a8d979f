//! Paths: the state folder, the control socket, and files that are not drives.

mod common;

use common::{Answer, Controller, Folder, run, until};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Runs the command line in a folder, with `SOFTROC_STATE` if given.
fn softroc_in(folder: &Folder, state: Option<&str>, arguments: &[&str]) -> Answer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softroc"));
    command.args(arguments).current_dir(&folder.0).env_remove("SOFTROC_STATE");
    let output =
        command.envs(state.map(|state| ("SOFTROC_STATE", state))).output().expect("softroc starts");
    Answer {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn the_state_folder_is_that_of_the_flag_or_of_the_environment_or_the_one_that_is_here() {
    let controller = Controller::new("place");
    controller.volume("v", "raid1", 2);
    let (state, nowhere) = (controller.state(), controller.folder.file("nowhere"));
    let is_found = |state: Option<&str>, arguments: &[&str]| {
        let answer =
            softroc_in(&controller.folder, state, &[arguments, &["volume", "show", "v"]].concat());
        answer.code == 0
    };
    assert!(is_found(None, &["--state", &state]));
    assert!(is_found(Some(&state), &[]));
    assert!(is_found(Some(&nowhere), &["--state", &state]), "the flag goes before the environment");
    assert!(!is_found(Some(&state), &["--state", &nowhere]));
    std::os::unix::fs::symlink(&state, controller.folder.file("softroc-data")).expect("a link");
    assert!(is_found(None, &[]), "the folder is here");
    assert!(!is_found(Some(&nowhere), &[]), "but another one is named");
}

#[test]
fn the_control_socket_is_its_users_alone_unless_a_group_is_let_in() {
    let mode = |controller: &Controller| {
        let socket = format!("{}/control.sock", controller.state());
        std::fs::metadata(socket).expect("the socket").permissions().mode() & 0o777
    };
    assert_eq!(mode(&Controller::new("socket-own")), 0o600);
    assert_eq!(mode(&Controller::with("socket-mode", &["--socket-mode", "0640"])), 0o640);
    let group = run("id", &["-g"]);
    let grouped = Controller::with("socket-group", &["--socket-group", group.trim()]);
    assert_eq!(mode(&grouped), 0o660);
    let folder = Folder::new("socket-wrong");
    let state = folder.file("state");
    let refused =
        |arguments: &[&str]| softroc_in(&folder, Some(&state), &[&["serve"], arguments].concat());
    let answer = refused(&["--socket-group", "nobody-has-such-a-group"]);
    assert_eq!(answer.code, 4, "{}", answer.stderr);
    assert!(answer.stderr.contains("'nobody-has-such-a-group' in /etc/group"), "{}", answer.stderr);
    let answer = refused(&["--socket-mode", "rw"]);
    assert_eq!(answer.code, 2, "{}", answer.stderr);
}

#[test]
fn a_file_that_was_not_made_for_a_drive_is_refused_with_the_way_to_make_one() {
    let controller = Controller::new("no-drive");
    let write = |name: &str, bytes: &[u8]| {
        let path = controller.folder.file(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    };
    let passwd = run("cat", &["/etc/passwd"]);
    let thesis = "In this thesis I show that.\n".repeat(100_000).into_bytes();
    let picture: Vec<u8> = common::pattern(7, (2 << 20) + 77);
    for (path, why) in [
        (write("passwd", passwd.as_bytes()), "bytes"),
        (write("thesis.txt", &thesis[..2 << 20]), "it holds text"),
        (
            write("picture.png", &picture),
            "its size of 2097229 bytes is not a whole number of sectors",
        ),
        (write("tiny.img", &[0; 65536]), "it has only 64 KiB"),
        (write("empty.img", &[]), "is empty"),
    ] {
        let before = std::fs::read(&path).expect("the file");
        for arguments in [
            &["drive", "add", &path][..],
            &["volume", "create", "v", "--level", "jbod", "--drives", &path],
        ] {
            let answer = controller.softroc(arguments);
            assert_eq!(answer.code, 2, "{arguments:?}: {}{}", answer.stdout, answer.stderr);
            assert!(answer.stderr.contains(why), "{arguments:?}: {}", answer.stderr);
            assert!(
                answer.stderr.contains("softroc drive add FILE --create 1G"),
                "{}",
                answer.stderr
            );
        }
        assert!(std::fs::read(&path).expect("the file") == before, "{path} was changed");
    }
    let drives = controller.json(&["drive", "list"]);
    assert_eq!(drives["drives"].as_array().map(Vec::len), Some(0));
    // Nor is it registered at a start.
    let other =
        Controller::with("no-drive-given", &["--drives", &controller.folder.file("thesis.txt")]);
    // It is examined concurrently with the start.
    until("it is looked at", || {
        other.json(&["drive", "list"])["drives"].as_array().map(Vec::len) == Some(0)
    });
    assert!(other.log().contains("was not created for a drive: it holds text"), "{}", other.log());
    // A file of zeroes is a drive, whichever program created it.
    let made = controller.folder.file("made.img");
    run("truncate", &["-s", "64M", &made]);
    controller.softroc(&["drive", "add", &made]).ok();
}

#[test]
fn unequal_drives_say_what_they_waste_before_they_do() {
    let controller = Controller::new("unequal");
    let (small, large) = (controller.folder.file("small.img"), controller.folder.file("large.img"));
    controller.softroc(&["drive", "add", "--create", "48M", &small]).ok();
    run("truncate", &["-s", "80M", &large]);
    let answer = controller.create("v", "raid1", &[small.clone(), large]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(answer.stderr.contains("of each only 48 MiB is used"), "{}", answer.stderr);
    assert!(answer.stderr.contains("32 MiB of "), "{}", answer.stderr);
    let listed = controller.softroc(&["drive", "show", &small]).ok();
    assert!(listed.contains("48 MiB") && !listed.contains("MB"), "{listed}");
}
