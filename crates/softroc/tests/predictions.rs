//! Predictions on the command line: a current drive alone, and the accuracy of its figures.

mod common;

use common::softroc;

const NVME: &str = "Samsung MZQL23T8HCLS";

fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&softroc(arguments).ok()).expect("JSON")
}

/// A short prediction of a single drive.
fn predict(drives: &str, extra: &[&str]) -> Vec<String> {
    let mut arguments = vec!["predict", "--controller", "direct", "--drives", drives];
    arguments.extend(["--profile", "random-read", "--outstanding", "1", "--runtime", "10ms", "--seeds", "1"]);
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
    let line = |name: &str| list.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    assert!(line("NVMe-SSD").contains("PCIe 4.0 x4"), "{list}");
    for (drive, figures) in [
        ("NVMe-SSD", "from the data sheet"),
        ("Nearline-20TB-HDD", "from the data sheet"),
        ("SAS-12G-SSD", "calibrated"),
    ] {
        assert!(line(drive).trim_end().ends_with(figures), "{}", line(drive));
        assert_eq!(json(&["catalog", "show", drive, "--json"])["calibrated"], figures == "calibrated");
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
    assert!(shown.contains("LSI2108") && shown.contains("LSI2208-1G") && shown.contains("ratio"), "{shown}");
    let row = shown.lines().find(|line| line.contains("database")).expect("a row");
    let numbers: Vec<f64> = row.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!((numbers[2] / numbers[1] - numbers[3]).abs() < 0.01, "{row}");
    let refused = softroc(&[&arguments[..], &short[..], &["--csv", "-"][..]].concat()).refused();
    assert!(refused.contains("--controller"), "{refused}");
}
