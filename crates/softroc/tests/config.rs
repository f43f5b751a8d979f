//! Save and restore of the configuration: a restore brings back everything but times
//! (`docs/operate/config.md`).

mod common;

use common::Controller;
use serde_json::Value;

/// All shown state, without times and counters. Lists are sorted by text, because the order of
/// arrays is not part of the configuration.
fn shown(controller: &Controller) -> Vec<(&'static str, Value)> {
    let all: [(&'static str, &[&str]); 8] = [
        ("drives", &["drive", "list"]),
        ("volumes", &["volume", "list"]),
        ("spares", &["spare", "list"]),
        ("schedules", &["task", "schedule", "list"]),
        ("notifications", &["notify", "list"]),
        ("accounts", &["account", "list"]),
        ("alarm", &["alarm", "show"]),
        ("log", &["log", "list"]),
    ];
    let mut shown: Vec<(&'static str, Value)> =
        all.into_iter().map(|(what, command)| (what, timeless(controller.json(command)))).collect();
    let info = controller.json(&["info"]);
    shown.push(("serial", info["controller"]["serial"].clone()));
    shown
}

fn timeless(value: Value) -> Value {
    // `must_change` belongs to the password, which is not saved.
    let passing = [
        "revision",
        "array_revision",
        "generation",
        "cache",
        "health",
        "must_change",
        "dirty_regions",
    ];
    match value {
        Value::Object(fields) => {
            let is_lasting =
                |name: &String| !name.ends_with("_unix_s") && !passing.contains(&name.as_str());
            let fields = fields.into_iter().filter(|(name, _)| is_lasting(name));
            Value::Object(fields.map(|(name, value)| (name, timeless(value))).collect())
        }
        Value::Array(values) => {
            let mut values: Vec<Value> = values.into_iter().map(timeless).collect();
            values.sort_by_key(Value::to_string);
            Value::Array(values)
        }
        other => other,
    }
}

/// Configures everything that can be configured. Returns the drives.
fn configured(controller: &Controller) -> Vec<String> {
    let drives = controller.file_drives_of("64M", 9);
    let softroc = |line: &str| controller.softroc(&line.split(' ').collect::<Vec<_>>()).ok();
    // Numbers are not reused: the following ones differ from those of a new controller.
    controller.create("gone", "raid0", &drives[..2]).ok();
    softroc("volume delete gone --yes");
    softroc(&format!("drive forget {}", drives[8]));
    let mut create =
        vec!["volume", "create", "data", "--level", "raid5", "--size", "8M", "--drives"];
    create.extend(drives[..3].iter().map(String::as_str));
    controller.softroc(&create).ok();
    controller.create("beside", "raid0", &drives[..3]).ok();
    controller.create("pair", "raid1", &drives[3..5]).ok();
    softroc(&format!("spare add {}", drives[5]));
    softroc(&format!("spare add {} --for data", drives[6]));
    softroc(
        "volume set data --task-rate 60% --copyback off --read-mode read-ahead --start-degraded \
            ask",
    );
    softroc("volume set pair --medium-error-limit 7 --cache-mode cached");
    softroc("task schedule check data --every 4w --at 03:30 --repair");
    softroc("task schedule patrol --every 2w");
    softroc("notify set log journal --severity info --code drive.* --quiet 22:00-07:00 --fold 30");
    softroc("notify set hook http://127.0.0.1:9/told --severity critical");
    softroc("account add ada --role operator");
    softroc("account add grace --role administrator");
    softroc("account set ada --disable");
    softroc("alarm off");
    for volume in ["data", "beside", "pair"] {
        controller.wait_optimal(volume);
    }
    drives
}

/// The state folder is lost: starts a controller with a new one.
fn lose_state(controller: &mut Controller) {
    controller.stop();
    std::fs::remove_dir_all(controller.state()).expect("it is ours");
    controller.start();
}

fn differences(controller: &Controller, file: &str) -> Vec<Value> {
    let reply = controller.json(&["config", "restore", file, "--dry-run"]);
    reply["differences"].as_array().expect("a list").clone()
}

#[test]
fn a_lost_state_folder_loses_nothing_but_times() {
    let mut controller = Controller::new("config-lost");
    let drives = configured(&controller);
    let file = controller.folder.file("saved.toml");
    controller.softroc(&["config", "save", "--output", &file]).ok();
    assert_eq!(differences(&controller, &file), Vec::<Value>::new(), "it is as it is");
    let before = shown(&controller);
    lose_state(&mut controller);
    // In another order, so that they get other numbers at first.
    for drive in drives[..8].iter().rev() {
        controller.softroc(&["drive", "add", drive]).ok();
    }
    for volume in ["data", "beside", "pair"] {
        controller.wait_optimal(volume);
    }
    let found = differences(&controller, &file);
    let about = |what: &str| found.iter().any(|one| one["what"] == what);
    for what in
        ["numbers", "number", "serial number", "check", "schedule", "channel", "role", "alarm"]
    {
        assert!(about(what), "{what} is named: {found:?}");
    }
    let told = controller.softroc(&["config", "restore", &file, "--yes"]).ok();
    assert!(told.contains("softroc account set ada --new-password"), "{told}");
    assert_eq!(differences(&controller, &file), Vec::<Value>::new(), "{told}");
    for ((what, before), (_, after)) in before.iter().zip(&shown(&controller)) {
        assert_eq!(before, after, "{what}");
    }
    let events = controller.softroc(&["events"]).ok();
    assert!(events.contains("'ada' added, operator"), "each change has its event: {events}");
}

/// The restore registers the drives, and finds the volumes on them.
#[test]
fn a_restore_registers_drives_and_finds_what_is_on_them() {
    let mut controller = Controller::new("config-registers");
    configured(&controller);
    let file = controller.folder.file("saved.toml");
    controller.softroc(&["config", "save", "--output", &file]).ok();
    let before = shown(&controller);
    lose_state(&mut controller);
    controller.softroc(&["config", "restore", &file, "--yes"]).ok();
    for volume in ["data", "beside", "pair"] {
        controller.wait_optimal(volume);
    }
    assert_eq!(differences(&controller, &file), Vec::<Value>::new());
    for ((what, before), (_, after)) in before.iter().zip(&shown(&controller)) {
        assert_eq!(before, after, "{what}");
    }
}

/// Volumes with lost drives are recreated only on request, and never over data on another drive.
#[test]
fn volumes_are_created_on_demand_and_on_empty_drives_alone() {
    let mut controller = Controller::new("config-create");
    let drives = controller.volume("data", "raid1", 2);
    controller.wait_optimal("data");
    controller.softroc(&["volume", "set", "data", "--task-rate", "70%"]).ok();
    let file = controller.folder.file("saved.toml");
    controller.softroc(&["config", "save", "--output", &file]).ok();
    controller.stop();
    std::fs::remove_dir_all(controller.state()).expect("it is ours");
    for drive in &drives {
        let size = std::fs::metadata(drive).expect("it is there").len();
        std::fs::File::create(drive).and_then(|made| made.set_len(size)).expect("an empty drive");
    }
    // Swap space.
    let mut content = vec![0_u8; 4096];
    content[4086..].copy_from_slice(b"SWAPSPACE2");
    std::os::unix::fs::FileExt::write_all_at(
        &std::fs::OpenOptions::new().write(true).open(&drives[1]).expect("it is there"),
        &content,
        0,
    )
    .expect("it is written");
    controller.start();
    let left = controller.softroc(&["config", "restore", &file, "--yes"]).ok();
    assert!(left.contains("use --create"), "{left}");
    assert!(controller.json(&["volume", "list"])["volumes"].as_array().expect("a list").is_empty());
    let refused = controller.softroc(&["config", "restore", &file, "--create", "--yes"]);
    assert!(refused.code == 1 && refused.stdout.contains("[failed:"), "{}", refused.stdout);
    let kept = std::fs::read(&drives[1]).expect("it is there");
    assert!(kept[..4096] == content[..], "nothing was written over it");
    std::os::unix::fs::FileExt::write_all_at(
        &std::fs::OpenOptions::new().write(true).open(&drives[1]).expect("it is there"),
        &[0; 4096],
        0,
    )
    .expect("it is written");
    controller.softroc(&["config", "restore", &file, "--create", "--yes"]).ok();
    assert_eq!(differences(&controller, &file), Vec::<Value>::new());
    let policies = controller.show("data")["policies"].to_string();
    assert!(policies.contains("70 %"), "{policies}");
}

#[test]
fn secrets_are_not_saved_and_are_named() {
    let mut controller = Controller::new("config-secrets");
    let state = controller.state();
    let shell = |line: &str| {
        let softroc = format!("{} --state {state}", env!("CARGO_BIN_EXE_softroc"));
        common::run("sh", &["-c", &line.replace("softroc", &softroc)])
    };
    shell("echo very-secret | softroc notify set hook http://127.0.0.1:9/told --secret-stdin");
    shell(
        "echo also-secret | softroc notify set mail smtp://127.0.0.1:9 --from a@example.org --to \
            b@example.org --user u --secret-stdin",
    );
    shell("echo 'third secret' | softroc account add ada --role operator --password-stdin");
    let file = controller.folder.file("saved.toml");
    controller.softroc(&["config", "save", "--output", &file]).ok();
    let text = std::fs::read_to_string(&file).expect("it was saved");
    for secret in ["secret", "argon2", "hash"] {
        let lines =
            text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("has_secret"));
        assert!(lines.clone().all(|line| !line.contains(secret)), "{secret}: {text}");
    }
    lose_state(&mut controller);
    let told = controller.softroc(&["config", "restore", &file, "--yes"]).ok();
    for line in [
        "notify set hook http://127.0.0.1:9/told",
        "notify set mail smtp://127.0.0.1:9",
        "--user u --secret-stdin",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let left = differences(&controller, &file);
    assert_eq!(left.len(), 2, "both secrets are still missing: {left:?}");
    assert!(left.iter().all(|one| one["stays"].is_string()), "{left:?}");
}

#[test]
fn a_file_that_is_none_is_refused_and_changes_nothing() {
    let controller = Controller::new("config-wrong");
    let file = controller.folder.file("wrong.toml");
    controller.softroc(&["config", "save", "--output", &file]).ok();
    let good = std::fs::read_to_string(&file).expect("it was saved");
    for (text, says) in [
        (String::new(), "its format is ''"),
        ("not = [toml".to_owned(), "no saved configuration"),
        (good.replace("version = 1", "version = 9"), "version 9"),
        (good.replace("softroc-config", "other"), "its format is 'other'"),
        (format!("{good}\n[nonsense]\nx = 1\n"), "nonsense"),
        (format!("{good}\n[[array]]\nuuid = 7\n"), "array"),
    ] {
        std::fs::write(&file, &text).expect("a file");
        let refused = controller.softroc(&["config", "restore", &file, "--yes"]);
        assert!(
            refused.code == 2 && refused.stderr.contains(says),
            "{says}: {} {}",
            refused.code,
            refused.stderr
        );
    }
    let missing = controller.folder.file("nowhere.toml");
    assert_eq!(controller.softroc(&["config", "restore", &missing, "--yes"]).code, 4);
    std::fs::write(&file, good.replace("alarm = true", "alarm = false")).expect("a file");
    let unasked = controller.softroc(&["config", "restore", &file]);
    assert!(
        unasked.code == 3 && unasked.stderr.contains("Confirm with --yes"),
        "{}",
        unasked.stderr
    );
    assert!(controller.softroc(&["alarm", "show"]).ok().contains("on"), "nothing was changed");
}
