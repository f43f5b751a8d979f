//! Predictions on the command line: a current drive alone, and the accuracy of its figures.

mod common;

use common::{Folder, softroc};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

const NVME: &str = "Samsung MZQL23T8HCLS";

fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&softroc(arguments).ok()).expect("JSON")
}

/// A short prediction of a single drive.
fn predict(drives: &str, extra: &[&str]) -> Vec<String> {
    let mut arguments = vec!["predict", "--controller", "direct", "--drives", drives];
    arguments.extend([
        "--profile",
        "random-read",
        "--outstanding",
        "1",
        "--runtime",
        "10ms",
        "--seeds",
        "1",
    ]);
    arguments.extend(extra);
    arguments.into_iter().map(str::to_owned).collect()
}

fn text_of(drives: &str) -> String {
    let arguments = predict(drives, &[]);
    softroc(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).ok()
}

#[test]
fn a_prediction_says_when_nobody_measured_the_drive() {
    let text = text_of("1xNVMe-SSD");
    let note = format!("note: {NVME} is from its data sheet, not calibrated against measurements");
    assert!(text.contains(&note), "{text}");
    // The command at the end of the note.
    let shown = softroc(&["catalog", "show", NVME]).ok();
    assert!(shown.contains("From the data sheet, not calibrated against measurements."), "{shown}");
    assert!(shown.contains("PM9A3"), "{shown}");
    let arguments = predict("1xNVMe-SSD", &["--json"]);
    let results = json(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(results["environment"]["not calibrated"], NVME);
    let calibrated = text_of("1xSAS-12G-SSD");
    assert!(!calibrated.contains("note:"), "{calibrated}");
}

#[test]
fn a_journal_on_a_log_is_predicted() {
    let command = "predict --controller HBA --drives 8xSAS-6G-HDD --level raid6 \
        --profile random,0%read,8K --outstanding 1 --seeds 1 --write-hole journal --log 2xNVMe-SSD";
    let mut arguments: Vec<&str> = command.split_whitespace().collect();
    let shown = softroc(&arguments).ok();
    assert!(shown.contains("journal on 2xNVMe-SSD") && shown.contains("note: Samsung"), "{shown}");
    arguments.push("--json");
    let results = json(&arguments);
    assert_eq!(results["environment"]["write hole"], "journal on 2xNVMe-SSD");
    arguments.retain(|argument| !["--write-hole", "journal", "--json"].contains(argument));
    let refused = softroc(&arguments).refused();
    assert!(refused.contains("--write-hole journal"), "{refused}");
}

#[test]
fn the_catalog_says_which_drives_were_calibrated() {
    let list = softroc(&["catalog", "list"]).ok();
    let line =
        |name: &str| list.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    assert!(line("NVMe-SSD").contains("PCIe 4.0 x4"), "{list}");
    for (drive, figures) in [
        ("NVMe-SSD", "from the data sheet"),
        ("Nearline-20TB-HDD", "from the data sheet"),
        ("SAS-12G-SSD", "calibrated"),
    ] {
        assert!(line(drive).trim_end().ends_with(figures), "{}", line(drive));
        assert_eq!(
            json(&["catalog", "show", drive, "--json"])["calibrated"],
            figures == "calibrated"
        );
    }
    assert_eq!(json(&["catalog", "show", "direct", "--json"])["interface"], "any");
    assert!(!softroc(&["catalog", "show", "SAS-12G-SSD"]).ok().contains("not calibrated"));
}

/// The same drives with two controllers.
#[test]
fn two_controllers_are_compared_side_by_side() {
    let command = "predict --compare LSI2108 LSI2208-1G --drives 8xSAS-6G-SSD --level raid0 \
        --profile database --method fujitsu2013 --write-mode write-through";
    let arguments: Vec<&str> = command.split_whitespace().collect();
    let short = ["--outstanding", "64", "--runtime", "10ms", "--seeds", "1"];
    let shown = softroc(&[&arguments[..], &short[..]].concat()).ok();
    assert!(
        shown.contains("LSI2108") && shown.contains("LSI2208-1G") && shown.contains("ratio"),
        "{shown}"
    );
    let row = shown.lines().find(|line| line.contains("database")).expect("a row");
    let numbers: Vec<f64> = row.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!((numbers[2] / numbers[1] - numbers[3]).abs() < 0.01, "{row}");
    let refused = softroc(&[&arguments[..], &short[..], &["--csv", "-"][..]].concat()).refused();
    assert!(refused.contains("--controller"), "{refused}");
}

#[test]
fn figures_that_do_not_exist_are_refused_with_those_that_do() {
    let refused = softroc(&["reproduce", "--only", "f99"]).refused();
    assert!(refused.contains("no figure's number begins with 'f99'; there are "), "{refused}");
    assert!(refused.contains("f13-001 to f13-") && refused.contains("(fujitsu2013)"), "{refused}");
}

/// The first figures are calculated, the later ones simulated for minutes: rows on standard output
/// at that time were printed before the end.
#[test]
fn a_reproduction_prints_rows_at_once_and_a_summary_when_it_is_interrupted() {
    let folder = Folder::new("reproduce");
    let page = folder.file("page.html");
    let mut child = Command::new(env!("CARGO_BIN_EXE_softroc"))
        .args(["reproduce", "fujitsu2013", "--html", &page])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("softroc starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut text = String::new();
    while !text.contains("\n f13-001 ") {
        assert!(lines.read_line(&mut text).expect("a line") > 0, "it ended: {text}");
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("a signal");
    lines.read_to_string(&mut text).expect("text");
    let output = child.wait_with_output().expect("softroc ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.starts_with("217 figures, ") && said.contains(" of them simulated: "), "{said}");
    assert!(
        said.contains(" of 217 figures compared") && said.contains("page.html not written"),
        "{said}"
    );
    assert!(!std::path::Path::new(&page).exists());
    assert!(text.contains(" of links: error at most"), "{text}");
    let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 100).collect();
    assert!(wide.is_empty(), "{wide:#?}");
}
