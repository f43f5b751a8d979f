//! `mdadm --examine` reads SoftROC's metadata on drives, from plain files, and agrees with SoftROC:
//! for all common levels and layouts, and in all states.

mod common;

use common::judged::{self, Judged, KINDS, Kind, MEMBER_BYTES, STRIP_BYTES};
use common::{Controller, not_installed, pattern, run, softroc};
use serde_json::Value;
use std::path::Path;

/// `mdadm`, which is often outside the path of users other than root.
fn mdadm() -> Option<&'static str> {
    let found = ["/usr/sbin/mdadm", "/sbin/mdadm", "/usr/bin/mdadm"].into_iter();
    let found = found.into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        not_installed("mdadm");
    }
    found
}

/// The output of mdadm for a drive.
struct Said(String);

impl Said {
    fn of(mdadm: &str, drive: &Path) -> Said {
        Said(run(mdadm, &["--examine", drive.to_str().expect("paths are text")]))
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| {
            let (key, value) = line.split_once(" : ")?;
            (key.trim() == name).then_some(value.trim())
        })
    }

    #[track_caller]
    fn expect(&self, name: &str, value: &str) {
        assert_eq!(self.field(name), Some(value), "{name} in\n{}", self.0);
    }

    /// The physical disks of the group: reference, and type and state.
    fn disks(&self) -> Vec<(&str, String)> {
        let rest = self.0.split("Type/State").nth(1).unwrap_or_default();
        let lines = rest.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_disk = words.len() >= 4 && words[0].parse::<u16>().is_ok();
            is_disk.then(|| (words[1], words[3..].join(" ")))
        });
        lines.collect()
    }

    /// The reference of the drive itself: a file has no device number, so mdadm shows it
    /// separately.
    fn own(&self) -> &str {
        let rest = self.0.split("Physical disks not in metadata!:").nth(1).unwrap_or_default();
        rest.split_whitespace()
            .next()
            .unwrap_or_else(|| panic!("no reference of its own in\n{}", self.0))
    }

    /// The state of one of the disks.
    #[track_caller]
    fn expect_disk(&self, number: usize, state: &str) {
        let disks = self.disks();
        let said = disks.get(number).map(|(_, state)| state.trim_start_matches("active/"));
        assert_eq!(said, Some(state), "disk {number} in\n{}", self.0);
    }
}

/// Level, strip, order and sizes, of each drive.
fn expect_agreement(mdadm: &str, judged: &Judged, show: &Value) {
    let Judged { kind, name, drives, capacity } = judged;
    let width = kind.drives / kind.spans;
    let said: Vec<Said> = drives.iter().map(|drive| Said::of(mdadm, drive)).collect();
    let references: Vec<&str> = said.iter().map(Said::own).collect();
    for (slot, said) in said.iter().enumerate() {
        assert_eq!(show["drives"][slot]["name"].as_str(), drives[slot].to_str());
        let disks = said.disks();
        assert_eq!(disks.len(), kind.drives, "{}", said.0);
        // The disk of each member of this drive's span, by its reference.
        let span = slot / width;
        let number = |reference: &str| {
            disks
                .iter()
                .position(|(other, _)| *other == reference)
                .expect("it is one of the group's disks")
        };
        let order = references[span * width..(span + 1) * width].iter();
        let order: Vec<String> =
            order.map(|reference| format!("{}@0K", number(reference))).collect();
        said.expect("Magic", "de11de11");
        said.expect("Redundant hdr", "yes");
        said.expect("Virtual Disks", "1");
        said.expect("Name[0]", name);
        said.expect("Raid Level[0]", kind.examined);
        said.expect("Raid Devices[0]", &format!("{width} ({})", order.join(" ")));
        said.expect("Chunk Size[0]", &format!("{} sectors", STRIP_BYTES / 512));
        said.expect("Device Size[0]", &(MEMBER_BYTES >> 10).to_string());
        said.expect("Array Size[0]", &(capacity >> 10).to_string());
        said.expect("state[0]", "Optimal, Consistent");
        said.expect("init state[0]", "Fully Initialised");
        said.expect("access[0]", "Read/Write");
        let position = (kind.spans > 1).then(|| format!("{span} of {}", kind.spans));
        assert_eq!(said.field("Secondary Position[0]"), position.as_deref(), "{}", said.0);
        assert_eq!(
            said.field("Secondary Level[0]"),
            (kind.spans > 1).then_some("Striped"),
            "{}",
            said.0
        );
        (0..kind.drives).for_each(|disk| said.expect_disk(disk, "Online"));
    }
}

/// The output of `rescue`, which reads the drives without SoftROC's state, for the same array.
fn expect_rescue_agrees(judged: &Judged, show: &Value) {
    let mut arguments = vec!["rescue", "--json"];
    // In another order.
    arguments.extend(judged.drives.iter().rev().map(|path| path.to_str().expect("paths are text")));
    let found: Value = serde_json::from_str(&softroc(&arguments).ok()).expect("JSON");
    let volumes = found["volumes"].as_array().expect("volumes");
    assert_eq!(volumes.len(), 1, "{found}");
    let volume = &volumes[0];
    assert_eq!(volume["name"], show["name"], "{volume}");
    // Plain mirrors have no strips.
    let strip = if judged.kind.level == "raid1" { &Value::Null } else { &show["strip_bytes"] };
    assert_eq!(&volume["strip_bytes"], strip, "{volume}");
    assert_eq!(volume["size_bytes"], show["capacity_bytes"], "{volume}");
    assert_eq!(volume["state"], "complete", "{volume}");
    for (slot, member) in volume["members"].as_array().expect("members").iter().enumerate() {
        assert_eq!(member["drive"], show["drives"][slot]["name"], "{volume}");
        assert_eq!(member["standing"], "current", "{volume}");
        assert_eq!(member["data_start_bytes"], show["data_start_bytes"], "{volume}");
    }
}

#[test]
fn mdadm_says_the_same_of_every_level_that_both_know() {
    let Some(mdadm) = mdadm() else { return };
    let mut controller = Controller::new("examine");
    let all: Vec<Judged> = KINDS.iter().map(|kind| judged::make(&controller, *kind)).collect();
    let shows: Vec<Value> = all.iter().map(|judged| controller.show(&judged.name)).collect();
    controller.stop();
    for (judged, show) in all.iter().zip(&shows) {
        let Kind { level, copies, .. } = judged.kind;
        assert_eq!(show["level"], level);
        assert!(copies == 1 || show["copies"] == copies, "{show}");
        assert_eq!(show["member_bytes"], MEMBER_BYTES, "{show}");
        expect_agreement(mdadm, judged, show);
        expect_rescue_agrees(judged, show);
    }
}

fn kind_of(level: &str) -> Kind {
    *KINDS.iter().find(|kind| kind.level == level).expect("there is one of that level")
}

#[test]
fn mdadm_says_the_same_of_drives_and_volumes_that_are_not_well() {
    let Some(mdadm) = mdadm() else { return };
    let mut controller = Controller::new("examine-states");
    let all =
        ["raid0", "raid1", "raid5", "raid6"].map(|level| judged::make(&controller, kind_of(level)));
    let [raid0, raid1, raid5, raid6] = &all;
    let spare = controller.folder.file("spare.img");
    controller.softroc(&["drive", "add", "--create", "36M", &spare]).ok();

    // While regions are marked, the volume is shown as inconsistent; this remains after a crash.
    for judged in &all {
        judged::write(&controller, &judged.name, 4096, &pattern(3, 9000));
    }
    controller.kill_9();
    for judged in &all {
        let state = if judged.kind.is_redundant() {
            "Optimal, Not Consistent"
        } else {
            "Optimal, Consistent"
        };
        Said::of(mdadm, &judged.drives[0]).expect("state[0]", state);
    }
    controller.start();
    all.iter().for_each(|judged| controller.wait_synced(&judged.name));

    // A drive of each fails.
    for judged in [raid1, raid5, raid6] {
        controller.softroc(&["drive", "fail", &format!("{}:1", judged.name)]).ok();
        assert_eq!(controller.show(&judged.name)["state"], "degraded");
    }
    controller.stop();
    let failed = "Offline, Failed";
    expect_states(mdadm, raid1, "Degraded, Consistent", &["Online", failed]);
    expect_states(mdadm, raid5, "Degraded, Consistent", &["Online", failed, "Online", "Online"]);
    expect_states(
        mdadm,
        raid6,
        "Partially Optimal, Consistent",
        &["Online", failed, "Online", "Online", "Online"],
    );

    // A drive of the other is missing, and its volume is started without it. A spare is available.
    std::fs::rename(&raid6.drives[3], controller.folder.file("away.img")).expect("it is moved");
    controller.start();
    if controller.show(&raid6.name)["state"] == "offline" {
        controller.softroc(&["volume", "start", &raid6.name]).ok();
    }
    assert_eq!(controller.show(&raid6.name)["state"], "degraded");
    controller.softroc(&["spare", "add", &spare, "--for", &raid0.name]).ok();
    controller.stop();
    let disks = ["Online", failed, "Online", "Offline, Missing", "Online"];
    expect_states(mdadm, raid6, "Degraded, Consistent", &disks);
    let said = Said::of(mdadm, Path::new(&spare));
    let disks = said.disks();
    assert!(
        disks.len() == 1
            && disks[0].1.to_lowercase().contains("spare")
            && disks[0].1.ends_with("/Online"),
        "{}",
        said.0
    );
}

/// The metadata of the drive in slot 0 about its volume and all drives.
#[track_caller]
fn expect_states(mdadm: &str, judged: &Judged, volume: &str, disks: &[&str]) {
    let said = Said::of(mdadm, &judged.drives[0]);
    said.expect("state[0]", volume);
    disks.iter().enumerate().for_each(|(number, state)| said.expect_disk(number, state));
}
