//! StorageBench on the command line: what is measured is kept, compared, joined and written to files.

mod common;

use common::{Answer, Folder, softroc};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A short measurement of a target that completes at once.
fn measure(folder: &Folder, name: &str, extra: &[&str]) -> Answer {
    let state = folder.file("state");
    let mut arguments = vec!["--state", &state, "bench", "null:64M", "--profile", "database", "--name", name];
    arguments.extend([
        "--outstanding",
        "1,4",
        "--runtime",
        "300ms",
        "--ramp",
        "50ms",
        "--confidence",
        "none",
    ]);
    arguments.extend(extra);
    softroc(&arguments)
}

fn kept(folder: &Folder, arguments: &[&str]) -> Answer {
    let state = folder.file("state");
    let mut all = vec!["--state", &state, "bench"];
    all.extend(arguments);
    softroc(&all)
}

fn json(answer: Answer) -> serde_json::Value {
    serde_json::from_str(&answer.ok()).expect("JSON")
}

#[test]
fn measurements_are_kept_shown_compared_joined_and_exported() {
    let folder = Folder::new("bench-kept");
    let first = folder.file("first.json");
    measure(&folder, "first", &["--json", &first]).ok();
    measure(&folder, "second", &[]).ok();
    measure(&folder, "nobody keeps this", &["--no-save"]).ok();
    let runs = json(kept(&folder, &["list", "--json"]));
    let names: Vec<&str> =
        runs["runs"].as_array().expect("runs").iter().filter_map(|run| run["name"].as_str()).collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!((&runs["runs"][0]["state"], &runs["runs"][0]["rows"]), (&"complete".into(), &2.into()));
    let shown = json(kept(&folder, &["show", "first", "--json"]));
    assert_eq!(shown["rows"][1]["outstanding"], 4);
    assert!(shown["environment"]["kernel"].is_string() && shown["rows"][0]["detail"].is_null());
    let compared = json(kept(&folder, &["compare", "first", "second", "--json"]));
    assert_eq!(compared["comparisons"][0]["profiles"][0]["points"].as_array().map(Vec::len), Some(2));
    // A file that was written is as good as a run that is kept.
    kept(&folder, &["merge", "second", &first, "--name", "both"]).ok();
    let both = json(kept(&folder, &["show", "both", "--json"]));
    let ios = |results: &serde_json::Value| results["rows"][0]["ios"].as_u64().expect("ios");
    let second = json(kept(&folder, &["show", "second", "--json"]));
    assert_eq!(ios(&both), ios(&shown) + ios(&second));
    assert_eq!(both["rows"][0]["outstanding"], 2);
    let [html, svg, png, iometer] = ["r.html", "p.svg", "p.png", "r.csv"].map(|name| folder.file(name));
    kept(&folder, &["export", "first", "second", "--html", &html, "--svg", &svg, "--iometer", &iometer]).ok();
    let read = |path: &str| std::fs::read_to_string(path).expect("a file that was written");
    assert!(read(&html).contains("Compared with first") && read(&svg).starts_with("<svg "));
    assert!(read(&iometer).contains("'Results\r\n'Target Type,"));
    let drawn = kept(&folder, &["export", "first", "--png", &png, "--plot", "distribution"]);
    if std::path::Path::new(&png).exists() {
        drawn.ok();
        assert!(std::fs::read(&png).expect("the picture").starts_with(b"\x89PNG"));
    }
    kept(&folder, &["delete", "first", "--yes"]).ok();
    assert!(kept(&folder, &["show", "first"]).refused().contains("there is no run 'first'"));
}

#[test]
fn an_interrupt_ends_a_measurement_with_what_was_measured_so_far() {
    let folder = Folder::new("bench-interrupt");
    let state = folder.file("state");
    let child = Command::new(env!("CARGO_BIN_EXE_softroc"))
        .args(["--state", &state, "bench", "null:64M", "--profile", "database", "--outstanding", "1,2"])
        .args(["--runtime", "10m", "--ramp", "1ms"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("softroc starts");
    // Once the run is in the database it has begun; a moment later it has counted something.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !std::path::Path::new(&state).join("results.db").exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(1500));
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("a signal");
    let output = child.wait_with_output().expect("softroc ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("the measurement of 'null:64M' was stopped"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("database"), "the row is shown");
    let runs = json(kept(&folder, &["list", "--json"]));
    assert_eq!((&runs["runs"][0]["state"], &runs["runs"][0]["rows"]), (&"stopped".into(), &1.into()));
}

#[test]
fn what_cannot_be_done_is_said() {
    let folder = Folder::new("bench-wrong");
    for (arguments, words) in [
        (&["show", "last"][..], "no measurement is kept in"),
        (&["export", "last"], "nothing is asked for; give --json"),
        (&["compare", "/nowhere/a.json"], "/nowhere/a.json is no results file"),
        (&["null:64M", "--plot", "pie"], "'pie' is no plot; expected best-iops"),
        (&["null:64M", "--confidence", "some"], "'some' is no confidence; expected percent"),
        (&["null:64M", "--precondition", "much"], "'much' is no preconditioning; expected none, snia"),
        (
            &["null:64M", "--runtime", "10s", "--max-runtime", "1s"],
            "at most 1 s is less than the run time of 10 s",
        ),
    ] {
        let sentence = kept(&folder, arguments).refused();
        assert!(sentence.contains(words), "{arguments:?}: {sentence}");
    }
    assert!(kept(&folder, &["list"]).ok().contains("No measurement is kept yet"));
}
