//! Differences between a document and a controller, and the steps proposed to remove them.

use config::{
    Current, Difference, Document, Finding, Notification, Options, Step, Subscription, compare,
};
use controller::{Command, ErrorKind};
use serde_json::{Value, json};

fn drive(name: &str, slot: Option<u16>, number: u32) -> Value {
    json!({
        "name": name, "state": if slot.is_some() { "online" } else { "unused" }, "volumes": [],
        "slot": slot, "stale_regions": 0, "uuid": slot.map(|slot| format!("uuid-{slot}")),
        "size_bytes": 1 << 30,
        "rotational": false, "read_only": false, "medium_errors": 0,
        "numbers": {"enclosure": 252, "slot": number, "device": number},
    })
}

fn volume(name: &str) -> Value {
    let policy = |name: &str, value: &str| {
        json!({
            "name": name, "configured": value, "current": value, "reason": "", "since_unix_s": 0,
        })
    };
    json!({
        "name": name, "uuid": "v-1", "state": "optimal", "reasons": [], "since_unix_s": 0,
        "level": "raid5", "spans": 1, "copies": 1, "strip_bytes": 65536,
        "arrangement": "left-symmetric", "sector_bytes": 512, "capacity_bytes": 1 << 21,
        "data_start_bytes": 0, "member_bytes": 1 << 20, "array": "a-1", "array_volumes": [name],
        "array_free_bytes": 0, "may_lose": 1, "may_lose_at_most": 1, "lost_bytes": 0,
        "dirty_regions": 0,
        "drives": [drive("/d0", Some(0), 0), drive("/d1", Some(1), 1), drive("/d2", Some(2), 2)],
        "policies": [
            policy("preset", "performance"), policy("write-mode", "write-back"),
            policy("task-rate", "30 %"),
        ],
        "cache": {
            "dirty_bytes": 0, "pinned_bytes": 0, "absorbed": 0, "hits": 0, "destages": 0,
        },
        "hosts": [], "generation": 1, "created_unix_s": 0, "number": 4, "group": 2,
    })
}

fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

fn machine() -> Current {
    let schedule = |what: &str, volume: Option<&str>| {
        of(json!({
            "what": what, "volume": volume, "on": true, "every_days": 7, "at_s": 7200,
            "repair": what == "check",
            "share_percent": if what == "patrol" { Some(30) } else { None },
        }))
    };
    let channel = json!({
        "name": "log", "target": "journal", "severity": "info", "quiet": "22:00-07:00",
        "has_secret": false,
    });
    Current {
        info: of(json!({
            "version": "0.1.0", "serial": "SR1", "started_unix_s": 0, "shards": 1, "levels": [],
            "volumes_optimal": 1, "volumes_degraded": 0, "volumes_offline": 0,
            "volumes_missing": 0, "drives": 5, "hosts": 0,
        })),
        drives: vec![
            of(drive("/d0", Some(0), 0)),
            of(drive("/d1", Some(1), 1)),
            of(drive("/d2", Some(2), 2)),
            of(drive("/d3", None, 3)),
            of(drive("mem:64M", None, 4)),
        ],
        volumes: vec![of(volume("data"))],
        spares: vec![of(json!({
            "drive": "/d3", "kind": "dedicated", "dedicated_to": ["data"], "revertible": true,
            "rotational": false, "ready": true, "covers": [],
        }))],
        logs: Vec::new(),
        schedules: vec![schedule("patrol", None), schedule("check", Some("data"))],
        notifications: vec![of::<Notification>(channel)],
        subscriptions: vec![Subscription {
            destination: "https://h/e".into(),
            context: "c".into(),
            verify_certificate: true,
        }],
        accounts: vec![of(
            json!({"name": "ada", "role": "operator", "enabled": true, "must_change": false}),
        )],
    }
}

fn saved(now: &Current) -> Document {
    Document::of(now, "2026-01-01T00:00:00Z".to_owned())
}

fn found(document: &Document, now: &Current) -> Vec<Finding> {
    compare(document, now, Options::default())
}

fn only(found: Vec<Finding>) -> (Difference, Option<Step>) {
    let [Finding { difference, step }] = &found[..] else { panic!("{found:?}") };
    (difference.clone(), step.clone())
}

#[test]
fn a_document_is_read_as_it_was_written_and_differs_in_nothing() {
    let now = machine();
    let document = saved(&now);
    let text = document.written().unwrap();
    assert_eq!(Document::read(&text).unwrap(), document, "{text}");
    assert_eq!(found(&document, &now), []);
    let json = serde_json::to_string(&document).unwrap();
    assert_eq!(serde_json::from_str::<Document>(&json).unwrap(), document);
    assert!(!text.contains("mem:64M"), "memory drives are not saved: {text}");
}

#[test]
fn a_section_that_is_not_there_is_not_compared() {
    assert_eq!(found(&Document::empty(), &machine()), []);
}

#[test]
fn what_differs_is_named_with_the_order_that_sets_it() {
    let document = saved(&machine());
    let mut now = machine();
    now.volumes[0].policies[2].configured = "60 %".to_owned();
    let (difference, step) = only(found(&document, &now));
    assert_eq!(
        (difference.about.as_str(), difference.what.as_str()),
        ("array of data", "task-rate")
    );
    assert_eq!(
        (difference.now.as_deref(), difference.file.as_deref()),
        (Some("60 %"), Some("30 %"))
    );
    let Some(Step::Command(Command::VolumePolicy(set))) = step else { panic!("{step:?}") };
    assert_eq!((set.volume.as_str(), set.task_share_percent), ("data", Some(30)));

    let mut now = machine();
    (now.volumes[0].name, now.volumes[0].array_volumes) = ("other".into(), vec!["other".into()]);
    now.schedules[1].volume = Some("other".into());
    let found = found(&document, &now);
    let Some(Step::Command(Command::VolumeSet { volume, name })) = &found[0].step else {
        panic!("{found:?}")
    };
    assert_eq!((volume.as_str(), name.as_str()), ("v-1", "data"), "matched by UUID");
}

#[test]
fn numbers_that_differ_are_given_back_by_one_order() {
    let document = saved(&machine());
    let mut now = machine();
    for drive in 0..2 {
        let numbers = now.drives[drive].numbers.as_mut().unwrap();
        (numbers.slot, numbers.device) = (numbers.slot ^ 1, numbers.device ^ 1);
    }
    now.volumes[0].number = Some(0);
    let found = found(&document, &now);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.windows(2).all(|two| two[0].step == two[1].step), "{found:?}");
    let Some(Step::Command(Command::NumbersSet(set))) = &found[0].step else { panic!("{found:?}") };
    assert_eq!(set.drives.len(), 4);
    assert_eq!((set.volumes[0].number, set.arrays[0].number, &set.serial), (4, 2, &None));
}

/// Drives match by label, whatever their path; another drive at a known path does not match.
#[test]
fn drives_are_found_by_what_they_are() {
    let document = saved(&machine());
    let mut now = machine();
    (now.drives[0].name, now.drives[1].name) = ("/d1".into(), "/d0".into());
    assert_eq!(found(&document, &now), [], "only the paths are swapped");
    let mut now = machine();
    now.drives[0].uuid = Some("uuid-of-another".into());
    let found = found(&document, &now);
    let about: Vec<&str> = found.iter().map(|one| one.difference.about.as_str()).collect();
    assert_eq!(
        about,
        ["drive /d0", "drive /d0"],
        "one drive is missing, one is not in the file: {found:?}"
    );
    assert!(found.iter().all(|one| one.step.is_none()), "{found:?}");
}

#[test]
fn a_volume_that_is_not_found_is_created_on_demand_and_on_unused_drives_alone() {
    let document = saved(&machine());
    let mut now = machine();
    now.volumes.clear();
    now.schedules.pop();
    now.spares.clear();
    for (at, drive) in now.drives.iter_mut().take(3).enumerate() {
        *drive = of(self::drive(&format!("/d{at}"), None, at as u32));
    }
    let volume = |found: Vec<Finding>| {
        found.into_iter().find(|one| one.difference.about == "volume data").unwrap()
    };
    let stays = volume(found(&document, &now)).difference.stays.unwrap();
    assert!(stays.contains("/d0, /d1, /d2") && stays.contains("--create"), "{stays}");
    let create = |now: &Current| volume(compare(&document, now, Options { create: true }));
    let Some(Step::Command(Command::VolumeCreate(order))) = create(&now).step else {
        panic!("{:?}", create(&now))
    };
    assert_eq!(
        (order.drives, order.destroy_data),
        (vec!["/d0".into(), "/d1".into(), "/d2".into()], false)
    );
    assert_eq!((order.level.as_str(), order.size_bytes), ("raid5", Some(1 << 21)));
    now.drives[1] = of(json!({
        "name": "/d1", "state": "foreign", "volumes": [], "stale_regions": 0,
        "rotational": false, "read_only": false, "medium_errors": 0,
    }));
    let refused = create(&now);
    assert!(refused.step.is_none() && refused.difference.stays.unwrap().contains("/d1 is foreign"));
}

/// Volumes created by a restore have other UUIDs; a comparison finds no difference.
#[test]
fn a_volume_that_was_created_anew_is_that_of_the_file() {
    let document = saved(&machine());
    let mut now = machine();
    (now.volumes[0].uuid, now.volumes[0].array) = ("v-2".into(), "a-2".into());
    for drive in now.drives.iter_mut().take(3) {
        drive.uuid = Some(format!("new {}", drive.name));
        drive.volumes = vec!["data".into()];
    }
    assert_eq!(found(&document, &now), []);
}

#[test]
fn what_the_file_does_not_have_stays_and_is_named() {
    let now = machine();
    let mut document = saved(&now);
    (document.spares, document.accounts) = (Some(Vec::new()), Some(Vec::new()));
    (document.notifications, document.subscriptions) = (Some(Vec::new()), Some(Vec::new()));
    document.arrays = Some(Vec::new());
    let found = found(&document, &now);
    let about: Vec<&str> = found.iter().map(|one| one.difference.about.as_str()).collect();
    let expected =
        ["volume data", "spare /d3", "notification log", "subscription https://h/e", "account ada"];
    assert_eq!(about, expected);
    assert!(
        found.iter().all(|one| one.step.is_none() && one.difference.stays.is_some()),
        "{found:?}"
    );
}

#[test]
fn a_channel_without_its_secret_says_how_it_is_set_again() {
    let mut now = machine();
    let mail = json!({
        "name": "mail", "target": "smtp://h", "from": "a@h", "to": ["b@h"], "user": "u",
        "has_secret": true,
    });
    let hook =
        json!({"name": "hook", "target": "https://h/x", "codes": ["drive.*"], "has_secret": true});
    now.notifications = vec![of(mail), of(hook)];
    let document = saved(&now);
    now.notifications.clear();
    let found = found(&document, &now);
    let of = |about: &str, what: &str| {
        let is_it = |one: &&Finding| one.difference.about == about && one.difference.what == what;
        found.iter().find(is_it).unwrap_or_else(|| panic!("{about} {what}: {found:?}"))
    };
    assert!(matches!(of("notification hook", "channel").step, Some(Step::Channel(_))));
    let hook = of("notification hook", "secret").difference.stays.clone().unwrap();
    assert!(
        hook.contains("echo SECRET | softroc notify set hook https://h/x")
            && hook.contains("--code 'drive.*'"),
        "{hook}"
    );
    let mail = of("notification mail", "channel");
    assert!(
        mail.step.is_none()
            && mail.difference.stays.clone().unwrap().contains("--user u --secret-stdin")
    );
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn a_file_that_is_none_is_refused_in_one_sentence() {
    let good = saved(&machine()).written().unwrap();
    for (text, says) in [
        (String::new(), "its format is ''"),
        ("x = [".to_owned(), "no saved configuration"),
        (good.replace("version = 1", "version = 2"), "of version 2"),
        (good.replace("version = 1", "version = 0"), "has no version"),
        (good.replace("level = ", "levle = "), "levle"),
        (
            format!("{good}\n[[account]]\nname = \"ada\"\nrole = \"operator\"\nenabled = true\n"),
            "two entries for account 'ada'",
        ),
    ] {
        let refused = Document::read(&text).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid);
        assert!(refused.message.contains(says), "{says}: {}", refused.message);
    }
}
