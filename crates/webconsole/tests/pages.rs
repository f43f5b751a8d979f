//! Pages are functions of the controller's state, and readable as text.

mod world;

use access::Role;
use std::io::Write;
use std::process::{Command, Stdio};
use webconsole::{Export, Shown};
use world::{html, query, viewer, world};

/// The page as text without scripts and styles; `None` without w3m.
fn as_text(page: &str) -> Option<String> {
    let started = Command::new("w3m")
        .args(["-dump", "-T", "text/html", "-I", "UTF-8", "-O", "UTF-8", "-cols", "120"])
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut w3m) = started else {
        test_tools::not_installed("w3m");
        return None;
    };
    w3m.stdin.take().expect("its input").write_all(page.as_bytes()).expect("it reads");
    let output = w3m.wait_with_output().expect("it ends");
    assert!(output.status.success(), "w3m ended with {}", output.status);
    Some(String::from_utf8(output.stdout).expect("UTF-8"))
}

#[test]
fn the_overview_reads_as_text() {
    let page = html(&world(), Role::Operator, "", &[]);
    if let Some(text) = as_text(&page) {
        insta::assert_snapshot!("overview", text);
    }
}

/// Pages without script and style contain the same facts.
#[test]
fn every_page_gives_its_facts_as_text() {
    let world = world();
    for (name, fields, facts) in [
        (
            "volume",
            &[("of", "data")][..],
            &["Volume data", "slot 1 /dev/sdd", "write-hole", "No data yet"][..],
        ),
        ("drive", &[("of", "/dev/sdb")], &["Drive /dev/sdb", "ST4000NM0025", "ZC12"]),
        (
            "replace",
            &[("of", "data:1")],
            &["Replace drive data:1", "is being rebuilt or copied (43 %)", "Rebuild (now)"],
        ),
        ("create", &[], &["Create a volume", "There is no unused drive."]),
        ("what-if", &[("of", "data")], &["Simulated drive failures of data", "slot 2: /dev/sdc"]),
        (
            "bench",
            &[("of", "data")],
            &["Benchmark of data", "The load uses NBD", "Prediction for another controller"],
        ),
        ("maintenance", &[], &["Hot spares", "/dev/sde", "Alarm", "softroc support"]),
        ("events", &[], &["2 events, newest first.", "drive.failed"]),
    ] {
        let Some(text) = as_text(&html(&world, Role::Operator, name, fields)) else { return };
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for fact in facts {
            assert!(flat.contains(fact), "{fact} is not in {name}: {text}");
        }
    }
}

/// The first screen after an alarm contains five facts before the first list.
#[test]
fn the_first_screen_answers_five_questions() {
    let page = html(&world(), Role::ReadOnly, "", &[]);
    let (first, _) = page.split_once("<h2>Volumes</h2>").expect("volumes");
    for answer in [
        "enclosure e1, bay 2 · slot data:1 · ST4000NM0025 · serial ZC12",
        "Yes: its volumes run without it.",
        "When the rebuild is done: 43 %, about 2 h 10 min left.",
        "No data. Reads recompute its data from the other drives.",
        "A rotating drive of at least 4.00 TB (3.64 TiB). Hot spare /dev/sde is suitable.",
    ] {
        assert!(first.contains(answer), "{answer} is not in {first}");
    }
}

#[test]
fn a_drive_is_pulled_only_where_no_volume_needs_it() {
    let mut world = world();
    let of = |world: &webconsole::World, name: &str| {
        html(world, Role::ReadOnly, "drive", &[("of", name)])
    };
    assert!(of(&world, "/dev/sda").contains("No: &#39;data&#39; tolerates no further failure."));
    assert!(of(&world, "/dev/sdd").contains("No: its data is being rebuilt or copied."));
    assert!(of(&world, "/dev/sde").contains("Yes, but only 0 hot spares would remain."));
    world.volumes[1].state = controller::VolumeState::Offline;
    let page = of(&world, "/dev/sdb");
    assert!(page.contains("No: &#39;data&#39; is offline and may need its data."), "{page}");
    assert!(page.contains("Hosts cannot access data."), "{page}");
}

/// Drives with unreadable labels belong to no known volume, but an array may need them.
#[test]
fn of_a_drive_that_is_refused_nobody_says_that_it_may_go() {
    let mut world = world();
    world.drives[1].state = controller::DriveState::Refused;
    (world.drives[1].slot, world.drives[1].volumes) = (None, Vec::new());
    let page = html(&world, Role::ReadOnly, "drive", &[("of", "/dev/sdb")]);
    assert!(
        page.contains(
            "No: it is unknown which volume needs it. Run &#39;softroc drive show /dev/sdb&#39;."
        ),
        "{page}"
    );
    assert!(page.contains("Unknown."), "{page}");
    for wrong in ["Yes", "No data.", "Already: no volume needs this drive."] {
        assert!(!page.contains(wrong), "{wrong}: {page}");
    }
}

/// Two drives of a RAID 5 lost their cable: their data is still needed.
#[test]
fn of_a_volume_that_is_offline_missing_drives_are_to_come_back() {
    let mut world = world();
    world.tasks.clear();
    world.volumes[1].state = controller::VolumeState::Offline;
    world.drives[1].state = controller::DriveState::Missing;
    let page = html(&world, Role::ReadOnly, "drive", &[("of", "/dev/sdb")]);
    assert!(page.contains("Only to reconnect it: &#39;data&#39; is offline"), "{page}");
    assert!(
        page.contains(
            "When &#39;data&#39; is online again: reconnect its missing drives, or restore a \
                backup."
        ),
        "{page}"
    );
    assert!(!page.contains("When a new drive has replaced it"), "{page}");
}

/// A hot spare took its slot: it belongs to no volume any more, and the volume is still degraded.
#[test]
fn a_drive_whose_place_was_taken_is_advised_on_as_well() {
    let mut world = world();
    (world.drives[1].slot, world.drives[1].volumes) = (None, Vec::new());
    let page = html(&world, Role::ReadOnly, "drive", &[("of", "/dev/sdb")]);
    for answer in [
        "Yes: no volume uses it.",
        "When the rebuild is done: 43 %",
        "A rotating drive of at least 4.00 TB",
    ] {
        assert!(page.contains(answer), "{answer} is not in {page}");
    }
    world.tasks.clear();
    world.volumes.retain(|volume| volume.state == controller::VolumeState::Optimal);
    let page = html(&world, Role::ReadOnly, "drive", &[("of", "/dev/sdb")]);
    assert!(page.contains("Already: no volume needs this drive."), "{page}");
}

#[test]
fn what_is_not_normal_is_on_top_of_every_page() {
    let world = world();
    for (name, of) in
        [("", ""), ("volume", "home"), ("drive", "/dev/sda"), ("events", ""), ("nowhere", "")]
    {
        let page = html(&world, Role::ReadOnly, name, &[("of", of)]);
        let (_, main) = page.split_once("<main").expect("main");
        let status = main.split("</section>").next().expect("a part");
        assert!(
            status.contains("about 2 h 10 min left; one more thing needs attention."),
            "{name}: {status}"
        );
        assert!(
            status.contains("<code>softroc drive replace data:1 --with NEW-DRIVE</code>"),
            "{name}: {status}"
        );
        assert_eq!(page.matches("<h1>").count(), 1, "{name}: one heading");
    }
}

#[test]
fn text_of_others_is_no_markup() {
    let mut world = world();
    world.drives[0].model = Some("<script>alert(1)</script>".to_owned());
    world.volumes[0].name = "\"><b>x".to_owned();
    let words = ("words", "<i>\"'");
    for (name, of) in
        [("", ""), ("drive", "/dev/sda"), ("volume", "\"><b>x"), ("events", ""), ("volume", "<i>")]
    {
        let page = html(&world, Role::Administrator, name, &[("of", of), words, ("asked", "<i>")]);
        for raw in ["<script>", "<b>", "<i>"] {
            assert!(!page.contains(raw), "{raw} on {name} {of}");
        }
    }
    assert!(
        html(&world, Role::ReadOnly, "", &[]).contains("&#60;failed&#62; &#38; &#39;data&#39;")
    );
}

#[test]
fn an_open_page_is_told_what_changed_and_nothing_else() {
    let (mut world, viewer) = (world(), viewer(Role::ReadOnly));
    let mut shown = Shown::default();
    let mut told = |world: &webconsole::World| {
        let page = webconsole::page(world, &viewer, "", &query(&[]));
        page.changed(&mut shown).map(|json| {
            let told: serde_json::Value = serde_json::from_str(&json).expect("JSON");
            let parts =
                told["parts"].as_object().expect("parts").keys().cloned().collect::<Vec<_>>();
            parts.join(" ")
        })
    };
    assert_eq!(told(&world).as_deref(), Some("cache drives events out status tasks volumes"));
    assert_eq!(told(&world), None);
    world.now_unix_s += 10;
    assert_eq!(told(&world), None, "a clock that goes on is no news");
    world.tasks[0].percent = 44;
    assert_eq!(told(&world).as_deref(), Some("out tasks"));
    world.drives.remove(1);
    assert_eq!(told(&world).as_deref(), Some("drives out status"), "with the recommendations");
}

#[test]
fn events_are_filtered_and_exported() {
    let world = world();
    let page = html(&world, Role::ReadOnly, "events", &[("severity", "warning")]);
    assert!(page.contains("1 event, newest first.") && !page.contains("the controller started"));
    assert!(page.contains("href=\"/console/events.csv?severity=warning\""), "{page}");
    let csv = webconsole::export(&world, &query(&[("words", "SDB")]), Export::Csv).expect("CSV");
    let rows: Vec<&str> = csv.split_terminator("\r\n").collect();
    assert_eq!(rows.len(), 2);
    assert!(
        rows[1].starts_with("\"2\",\"2023-11-14T21:13:20Z\",\"critical\",\"drive.failed\","),
        "{csv}"
    );
    let json = webconsole::export(&world, &query(&[]), Export::Json).expect("JSON");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).expect("JSON")[1]["number"], 2);
}

#[test]
fn a_page_is_small() {
    let page = html(&world(), Role::Administrator, "", &[]);
    let assets = ["console.css", "console.js", "icon.svg"]
        .map(|name| webconsole::asset(name).expect(name).text.len());
    let all = page.len() + assets.iter().sum::<usize>();
    assert!(all < 100 << 10, "{all} bytes");
    assert!(
        !page.contains("http:") && !page.contains("https:") && !page.contains("style="),
        "{page}"
    );
}
