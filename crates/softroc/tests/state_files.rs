//! Damaged state files at the start of a real controller: hosts are served and the control socket
//! responds in all cases.

mod common;

use common::managed::{Managed, address, managed};
use common::{Controller, softroc};
use std::path::Path;

/// The kinds of damage to a file.
const DAMAGES: [&str; 5] = ["empty", "garbage", "cut off", "folder", "from the future"];

fn damage(path: &str, how: &str) {
    // A channel's queue exists only while messages wait.
    let content = std::fs::read(path).unwrap_or_default();
    let new = match how {
        "empty" => Vec::new(),
        "garbage" => vec![0xA5; 300],
        "cut off" => content[..content.len() / 2].to_vec(),
        "from the future" => {
            String::from_utf8_lossy(&content).replacen("format 1,", "format 9,", 1).into_bytes()
        }
        _ => {
            std::fs::remove_file(path).expect("it goes");
            return std::fs::create_dir(path).expect("a folder");
        }
    };
    std::fs::write(path, new).expect("it is damaged");
}

/// Regression: damaged accounts, notifications or subscriptions ended the start. Without accounts,
/// a new first administrator was created.
#[test]
fn damaged_accounts_stop_nobody_but_those_who_sign_in() {
    let mut managed = managed("state-accounts", &[]);
    managed.controller.volume("data", "raid1", 2);
    let token = managed.account("ada", "administrator");
    managed.remote(&token, &["volume", "list"]).ok();
    managed.account("otto", "operator");
    let file = format!("{}/accounts.json", managed.controller.state());
    for how in DAMAGES {
        managed.controller.stop();
        damage(&file, how);
        for start in 0..2 {
            managed.controller.start();
            managed.address = address(&managed.controller.log());
            // Hosts and local users are not affected.
            assert_eq!(managed.controller.show("data")["state"], "optimal", "{how}");
            let events = managed.controller.softroc(&["events"]).ok();
            assert!(events.contains("controller.state-unreadable"), "{how}: {events}");
            let health = managed.controller.softroc(&["health"]).stdout;
            assert!(health.contains("accounts.json"), "{how}: {health}");
            // No sign-in is possible, and no first administrator is created.
            let refused = managed.sign_in("ada");
            assert_eq!(refused, "", "{how}");
            let kept =
                std::fs::read_to_string(format!("{}/first-password", managed.controller.state()));
            let kept = kept.expect("the first password");
            assert_eq!(
                kept.trim_end(),
                managed.password,
                "{how}: none was made but at the first start"
            );
            for order in [&["account", "list"][..], &["account", "set", "ada", "--new-password"]] {
                let why = managed.controller.softroc(order).refused();
                assert!(why.contains("softroc account repair"), "{how}: {why}");
            }
            if start == 0 {
                managed.controller.kill_9();
            }
        }
        // The previous version: without the account that was created last.
        let listed = managed.controller.softroc(&["account", "repair"]).ok();
        assert!(listed.contains("ada"), "{how}: {listed}");
        let token = managed.sign_in("ada");
        managed.remote(&token, &["volume", "list"]).ok();
        let why = managed.controller.softroc(&["account", "repair"]).refused();
        assert!(why.contains("nothing to repair"), "{why}");
        managed.account(&format!("more-{}", how.len()), "read-only");
    }
    for number in 1..=DAMAGES.len() {
        assert!(Path::new(&format!("{file}.unreadable-{number}")).exists(), "{number} is kept");
    }
    accounts_without_any_version_are_created_anew(&mut managed, &file);
}

fn accounts_without_any_version_are_created_anew(managed: &mut Managed, file: &str) {
    managed.controller.stop();
    std::fs::write(file, "[]").expect("it is damaged");
    std::fs::remove_file(format!("{file}.previous")).expect("it goes");
    managed.controller.start();
    managed.address = address(&managed.controller.log());
    let why = managed.controller.softroc(&["account", "repair"]).refused();
    assert!(why.contains("softroc account repair --anew"), "{why}");
    let told = managed.controller.softroc(&["account", "repair", "--anew"]).ok();
    assert!(told.contains("admin"), "{told}");
    assert_eq!(managed.sign_in("ada"), "");
    managed.account("ada", "administrator");
    assert_ne!(managed.sign_in("ada"), "");
}

/// The other files of interfaces, and those of the controller, on a real file system.
#[test]
fn damaged_files_do_not_keep_a_controller_from_its_start() {
    let mut controller = Controller::new("state-files");
    controller.volume("data", "raid1", 2);
    controller.softroc(&["notify", "set", "log", "journal"]).ok();
    controller.softroc(&["notify", "set", "log", "journal", "--severity", "critical"]).ok();
    controller.softroc(&["task", "schedule", "check", "data", "--every", "2w"]).ok();
    let files = [
        "notifications.json",
        "notify-log.queue",
        "manage-uuid",
        "drives.toml",
        "numbers.toml",
        "tasks.json",
        "nbd.addresses",
    ];
    let serial = controller.json(&["info"])["info"]["serial"].clone();
    for file in files {
        for how in DAMAGES {
            controller.stop();
            let path = format!("{}/{file}", controller.state());
            damage(&path, how);
            controller.start();
            assert_eq!(controller.show("data")["state"], "optimal", "{file}, {how}");
            assert_eq!(controller.json(&["info"])["info"]["serial"], serial, "{file}, {how}");
            let channels = controller.softroc(&["notify", "list"]).ok();
            assert!(channels.contains("journal"), "{file}, {how}: {channels}");
            let schedules = controller.softroc(&["task", "schedule", "list"]).ok();
            assert!(schedules.contains("data"), "{file}, {how}: {schedules}");
            if Path::new(&path).is_dir() {
                std::fs::remove_dir(&path).expect("it is empty");
            }
            // Each damaged file is kept with its own name, up to a limit.
            for number in 1..=8 {
                let kept = format!("{path}.unreadable-{number}");
                let gone = std::fs::remove_file(&kept).or_else(|_| std::fs::remove_dir(&kept));
                if gone.is_err() {
                    break;
                }
            }
        }
    }
    let refused = softroc(&["volume", "list", "--state", "/nonexistent"]);
    assert_ne!(refused.code, 0);
}
