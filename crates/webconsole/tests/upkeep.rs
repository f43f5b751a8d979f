//! Maintenance page, policies, and host I/O.

mod world;

use access::{AccountInfo, Role};
use controller::{Command, ErrorKind, Reply, ScheduleInfo, Scheduled, Severity, WriteMode};
use webconsole::{Channel, ConsoleAction, Order, Rate, Sample, Upkeep, World};
use world::{NOW, html, query, world};

fn kept() -> World {
    let mut world = world();
    let schedule = |what, volume: Option<&str>, on| ScheduleInfo {
        what,
        volume: volume.map(str::to_owned),
        on,
        every_days: 7,
        at_s: 7200,
        repair: false,
        share_percent: None,
        limit_bytes_per_s: None,
        next_unix_s: on.then_some(NOW + 7200),
        last_unix_s: None,
    };
    let schedules = vec![
        schedule(Scheduled::Patrol, None, true),
        schedule(Scheduled::Check, Some("data"), false),
    ];
    world.answers = vec![(Command::ScheduleList {}, Ok(Reply::Schedules { schedules }))];
    world.upkeep = Some(Upkeep {
        channels: vec![Channel {
            name: "mail".to_owned(),
            target: "smtp://mail".to_owned(),
            severity: Severity::Warning,
            waiting: 2,
            problem: Some("no response".to_owned()),
        }],
        accounts: vec![AccountInfo {
            name: "grace".to_owned(),
            role: Role::Operator,
            enabled: true,
            must_change: true,
            locked_s: Some(200),
            locked_from: vec!["10.0.0.5".to_owned()],
        }],
        certificate: Some("AB:CD".to_owned()),
    });
    world
}

#[test]
fn all_that_keeps_a_controller_in_order_is_on_one_page() {
    let page = html(&kept(), Role::Administrator, "maintenance", &[]);
    for fact in [
        "every 7 days, at 02:00 UTC",
        "softroc task schedule patrol --every 7d --at 02:00 --on</code>",
        "softroc task schedule check data --every 7d --at 02:00 --off</code>",
        "global, 4.00 TB (3.64 TiB), covers data",
        "covered, first by /dev/sde.",
        "On and silent",
        "smtp://mail; warning and worse; 2 messages queued",
        "▲ No response.",
        "softroc notify test mail</code>",
        "operator, enabled, password change required, ▲ locked for 3 min for 10.0.0.5",
        "softroc account set grace --unlock</code>",
        "SHA-256: <code>AB:CD</code>",
        "<code>softroc support</code>",
    ] {
        assert!(page.contains(&fact.replace('\'', "&#39;")), "{fact} is not in {page}");
    }
    assert_eq!(page.matches("<h1>").count(), 1);
}

/// Hidden parts are replaced by the reason.
#[test]
fn an_operator_sees_neither_accounts_nor_channels() {
    let mut world = kept();
    world.upkeep = Some(Upkeep::default());
    let page = html(&world, Role::Operator, "maintenance", &[]);
    assert!(page.contains("&#39;accounts&#39; takes administrator"), "{page}");
    assert!(page.contains("&#39;notifications&#39; takes administrator"), "{page}");
    assert!(page.contains("<button>Set the patrol read</button>"), "{page}");
}

#[test]
fn forms_become_orders() {
    let world = kept();
    let read = |fields: &[(&str, &str)]| ConsoleAction::read(&query(fields), &world);
    let order = |fields: &[(&str, &str)]| read(fields).expect("it can be asked").order;
    let set = order(&[
        ("verb", "schedule-check"),
        ("of", "data"),
        ("on", "on"),
        ("every", "28"),
        ("at", "03:30"),
    ]);
    let Order::Command(Command::TaskSchedule(set)) = set else { panic!("{set:?}") };
    assert_eq!(
        (set.volume.as_deref(), set.on, set.every_days),
        (Some("data"), Some(true), Some(28))
    );
    assert_eq!(set.at_s, Some(12_600));
    // Unchanged values are not set: setting them would make the controller forget the last check.
    let shown = [
        ("verb", "schedule-check"),
        ("of", "data"),
        ("was-on", "off"),
        ("was-every", "7"),
        ("was-at", "02:00"),
    ];
    let changed =
        |on, every, at| read(&[&shown[..], &[("on", on), ("every", every), ("at", at)]].concat());
    let Order::Command(Command::TaskSchedule(set)) =
        changed("off", "7", "03:30").expect("it can").order
    else {
        panic!("it is a schedule");
    };
    assert_eq!((set.on, set.every_days, set.at_s), (None, None, Some(12_600)));
    let same = changed("off", "7", "02:00").expect_err("nothing differs");
    assert!(same.message.contains("nothing was changed"), "{same}");
    let page = html(&world, Role::Operator, "maintenance", &[]);
    assert!(
        page.contains("name=\"was-every\" value=\"7\""),
        "the form has its initial values: {page}"
    );
    assert_eq!(
        order(&[("verb", "notify-test"), ("of", "mail")]),
        Order::TestChannel("mail".to_owned())
    );
    let add = [("verb", "account-add"), ("name", "eve"), ("role", "operator")];
    assert_eq!(order(&add), Order::AddAccount("eve".to_owned(), Role::Operator));
    for wrong in [
        &[("verb", "schedule-patrol"), ("at", "25:00")][..],
        &[("verb", "schedule-patrol"), ("on", "perhaps")],
        &[("verb", "account-add"), ("role", "king")],
        &[("verb", "account-remove"), ("of", "grace"), ("word", "grac")],
    ] {
        assert_eq!(read(wrong).expect_err("it is wrong").kind, ErrorKind::Invalid, "{wrong:?}");
    }
}

#[test]
fn a_policy_is_set_where_it_is_shown() {
    let world = world();
    let page = html(&world, Role::Operator, "volume", &[("of", "data")]);
    assert!(page.contains("softroc volume set data --write-mode write-through</code>"), "{page}");
    assert!(page.contains("<option selected>write-through</option>"), "{page}");
    let set = |policy: &str, value: &str, sure: bool| {
        let mut fields =
            vec![("verb", "policy"), ("of", "data"), ("policy", policy), ("value", value)];
        fields.extend(sure.then_some(("sure", "yes")));
        ConsoleAction::read(&query(&fields), &world)
    };
    let Order::Command(Command::VolumePolicy(policy)) =
        set("task-rate", "40", false).expect("it can").order
    else {
        panic!("it is a policy");
    };
    assert_eq!((policy.volume.as_str(), policy.task_share_percent), ("data", Some(40)));
    // A setting that can lose flushed data needs a confirmation.
    assert!(
        set("write-mode", "always-write-back", false)
            .expect_err("not confirmed")
            .message
            .contains("checkbox")
    );
    let Order::Command(Command::VolumePolicy(policy)) =
        set("write-mode", "always-write-back", true).expect("they are").order
    else {
        panic!("it is a policy");
    };
    assert_eq!(policy.write_mode, Some(WriteMode::AlwaysWriteBack));
    assert_eq!(set("colour", "red", false).expect_err("there is none").kind, ErrorKind::NotFound);
    assert_eq!(set("copyback", "perhaps", false).expect_err("neither").kind, ErrorKind::Invalid);
    // Regression: an empty field was accepted without effect.
    for policy in ["task-rate", "preset", "medium-error-limit"] {
        let empty = set(policy, " ", false).expect_err("it is empty");
        assert!(
            empty.kind == ErrorKind::Invalid && empty.message.contains("nothing was changed"),
            "{empty}"
        );
    }
}

/// `data` with this policy, added or changed.
fn with_policy(name: &str, configured: &str) -> World {
    let mut world = world();
    let policies = &mut world.volumes[1].policies;
    let mut policy = policies[0].clone();
    policies.retain(|policy| policy.name != name);
    (policy.name, policy.configured) = (name.to_owned(), configured.to_owned());
    policies.push(policy);
    world
}

/// Regression: a task rate of one volume changed that of its neighbours without a notice.
#[test]
fn what_is_of_the_array_is_said_to_be() {
    let mut world = with_policy("task-rate", "30 %");
    let shown = |world: &World| html(world, Role::Operator, "volume", &[("of", "data")]);
    assert!(shown(&world).contains("task-rate <small>(array)</small>"), "{}", shown(&world));
    assert!(!shown(&world).contains("write-hole <small>"), "{}", shown(&world));
    assert!(!shown(&world).contains("Policies of the array"), "it is alone");
    world.volumes[1].array_volumes = vec!["data".to_owned(), "more".to_owned()];
    let page = shown(&world);
    assert!(page.contains("Policies of the array apply to all its volumes: data, more."), "{page}");
    assert!(page.contains("task-rate (all volumes of the array): <input"), "{page}");
}

/// Regression: notes of the controller were dropped.
#[test]
fn what_is_worth_knowing_is_told_with_what_was_accepted() {
    let mut world = world();
    world.notes = vec!["this concerns all volumes of the array: <data>, more".to_owned()];
    let page = html(&world, Role::Operator, "volume", &[("of", "data"), ("asked", "policy")]);
    assert!(
        page.contains("▲ This concerns all volumes of the array: &#60;data&#62;, more."),
        "{page}"
    );
}

/// Regression: a volume without a preset showed data-protection, and the command line `--preset 0`.
#[test]
fn a_volume_without_a_preset_has_none() {
    let page =
        html(&with_policy("preset", "none"), Role::Administrator, "volume", &[("of", "data")]);
    assert!(
        page.contains("<option value=\"\" selected>–</option><option>data-protection</option>"),
        "{page}"
    );
    assert!(page.contains("softroc volume set data --preset VALUE</code>"), "{page}");
    let page = html(
        &with_policy("preset", "performance"),
        Role::Administrator,
        "volume",
        &[("of", "data")],
    );
    assert!(
        page.contains("<option selected>performance</option>") && !page.contains(">–<"),
        "{page}"
    );
    let page = html(
        &with_policy("medium-error-limit", "none"),
        Role::Administrator,
        "volume",
        &[("of", "data")],
    );
    assert!(page.contains("name=\"value\" value=\"0\" required"), "no limit is 0: {page}");
}

/// Regression: a form offered values that were then refused.
#[test]
fn a_form_offers_what_whoever_looks_may_choose() {
    let of = |world: &World, role| html(world, role, "volume", &[("of", "data")]);
    let world = world();
    let (operator, all) = (of(&world, Role::Operator), of(&world, Role::Administrator));
    for value in ["<option>always-write-back</option>", "<option>resync</option>", "name=\"sure\""]
    {
        assert!(all.contains(value) && !operator.contains(value), "{value}: {operator}");
    }
    assert!(operator.contains("<option selected>journal</option>"), "{operator}");
    // The configured value is not in the list, so no value is selected.
    let resync = of(&with_policy("write-hole", "resync"), Role::Operator);
    assert!(
        resync.contains("<option value=\"\" selected>–</option><option>journal</option>"),
        "{resync}"
    );
    // A viewer without permissions sees all values.
    assert!(of(&world, Role::ReadOnly).contains("<option>resync</option>"));
}

#[test]
fn what_hosts_do_is_a_sentence_a_chart_and_a_table() {
    let mut world = world();
    let page = html(&world, Role::ReadOnly, "volume", &[("of", "data")]);
    assert!(page.contains("No data yet"), "{page}");
    let sample = |ago: u64, per_s: u64| Sample {
        at_unix_s: NOW - ago,
        reads: Rate { per_s, bytes_per_s: per_s << 20, mean_us: Some(1500) },
        writes: Rate::default(),
    };
    world.traffic = vec![sample(450, 10), sample(10, 40), sample(0, 20)];
    let page = html(&world, Role::ReadOnly, "volume", &[("of", "data")]);
    assert!(
        page.contains("20 reads a second (20 MiB/s), 1.5 ms each; 0 writes a second."),
        "{page}"
    );
    assert!(
        page.contains("<polyline class=\"reads\" points=\"300.0,82.5 593.3,0.0 600.0,55.0\"/>"),
        "{page}"
    );
    assert!(
        page.contains("aria-label=\"Throughput over the last 15 minutes: reads up to 40 MiB/s"),
        "{page}"
    );
    assert_eq!(page.matches("data-label=\"Reads/s\"").count(), 2, "a row a minute: {page}");
    // An old sample is not current.
    world.now_unix_s += 60;
    let page = html(&world, Role::ReadOnly, "volume", &[("of", "data")]);
    assert!(!page.contains("Over the last ten seconds") && !page.contains("No data yet"), "{page}");
    assert!(page.contains("No current data; last sample <time"), "{page}");
    assert!(page.contains("<polyline"), "{page}");
}
