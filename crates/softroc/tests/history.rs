//! The history of volumes and drives, with a controller that is stopped, killed, and has a damaged
//! history file.

mod common;

use common::Controller;
use common::host::Host;
use serde_json::Value;

const WRITES: u64 = 40;
const READS: u64 = 25;

fn asked(controller: &Controller, command: &[&str]) -> Value {
    controller.json(&[command, &["--since", "1h"]].concat())
}

/// The number of operations of a kind in a series.
fn operations(series: &Value, kind: &str) -> u64 {
    let figure = |value: &Value| value.as_f64().expect("a figure");
    (figure(&series["total"][kind]["iops"]) * figure(&series["total"]["covered_s"])).round() as u64
}

fn of_volume(controller: &Controller) -> (u64, u64) {
    let told = asked(controller, &["volume", "stats", "data"]);
    let series = &told["volumes"][0];
    assert_eq!(series["name"], "data");
    (operations(series, "write"), operations(series, "read"))
}

fn use_it(controller: &Controller) {
    let mut host = Host::connect(&controller.nbd_socket(), "data").expect("it is served");
    for at in 0..WRITES {
        host.write(at * 8192, &[7; 8192]).expect("it is written");
    }
    for at in 0..READS {
        host.read(at * 4096, 4096).expect("it is read");
    }
}

fn served(name: &str) -> Controller {
    let controller = Controller::new(name);
    controller.volume("data", "raid1", 2);
    controller.wait_optimal("data");
    // The first reading is the baseline of later ones.
    assert_eq!(of_volume(&controller), (0, 0));
    controller
}

#[test]
fn what_a_host_did_is_there_after_a_stop_and_after_a_kill() {
    let mut controller = served("history-kept");
    use_it(&controller);
    assert_eq!(of_volume(&controller), (WRITES, READS));
    controller.stop();
    controller.start();
    assert_eq!(of_volume(&controller), (WRITES, READS), "it is on disk");
    use_it(&controller);
    // A query stores pending data first.
    assert_eq!(of_volume(&controller), (2 * WRITES, 2 * READS));
    controller.kill_9();
    controller.start();
    assert_eq!(of_volume(&controller), (2 * WRITES, 2 * READS));
    // The history continues with another name.
    controller.softroc(&["volume", "rename", "data", "home"]).ok();
    let told = asked(&controller, &["volume", "stats", "home"]);
    assert_eq!(operations(&told["volumes"][0], "write"), 2 * WRITES);
    let drives = asked(&controller, &["drive", "stats"]);
    let of_drives = drives["drives"].as_array().expect("a list");
    assert_eq!(of_drives.len(), 2);
    assert!(
        of_drives.iter().all(|drive| operations(drive, "write") >= 2 * WRITES),
        "{of_drives:?}"
    );
    let text =
        controller.softroc(&["volume", "stats", "home", "--since", "24h", "--points", "6"]).ok();
    assert!(text.contains("in intervals of") && text.contains("IOPS"), "{text}");
}

#[test]
fn a_damaged_file_is_kept_aside_and_stops_nothing() {
    let mut controller = served("history-damaged");
    use_it(&controller);
    assert_eq!(of_volume(&controller), (WRITES, READS));
    controller.stop();
    let file = format!("{}/history.db", controller.state());
    std::fs::write(&file, b"this was a database until something wrote over it".repeat(200))
        .expect("it is ours");
    controller.start();
    assert_eq!(controller.show("data")["state"], "optimal");
    assert_eq!(of_volume(&controller), (0, 0), "it is begun anew");
    use_it(&controller);
    assert_eq!(of_volume(&controller), (WRITES, READS));
    assert!(std::path::Path::new(&format!("{file}.unreadable-1")).is_file());
    let events = controller.softroc(&["events"]).ok();
    assert_eq!(events.matches("controller.state-unreadable").count(), 1, "{events}");
    assert!(events.contains("history.db.unreadable-1"), "{events}");
}

#[test]
fn a_file_that_cannot_be_made_is_told_once_and_stops_nothing() {
    let mut controller = served("history-room");
    controller.stop();
    let file = format!("{}/history.db", controller.state());
    std::fs::remove_file(&file).expect("it is ours");
    std::fs::create_dir(&file).expect("a folder in its place");
    controller.start();
    assert_eq!(of_volume(&controller), (0, 0));
    use_it(&controller);
    assert_eq!(of_volume(&controller), (WRITES, READS), "it is in memory");
    let told =
        || controller.softroc(&["events"]).ok().matches("controller.state-not-stored").count();
    assert_eq!(told(), 1);
}

#[test]
fn what_is_not_there_or_not_kept_is_refused() {
    let controller = served("history-refused");
    for (line, code, says) in [
        ("volume stats nope --since 1h", 4, "no history of 'nope'"),
        ("drive stats /nowhere --since 1h", 4, "no history of '/nowhere'"),
        ("volume stats --since 31d", 2, "30 days"),
        ("volume stats --since soon", 2, "is not a time"),
        ("volume stats --since 1h --interval 1s", 2, "--interval"),
        ("volume stats --since 1h --points 1000", 2, "1 to 100"),
    ] {
        let refused = controller.softroc(&line.split(' ').collect::<Vec<_>>());
        assert!(
            refused.code == code && refused.stderr.contains(says),
            "{line}: {} {}",
            refused.code,
            refused.stderr
        );
    }
}
