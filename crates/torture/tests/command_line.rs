//! The command line of the binary.

use std::process::{Command, Output};

fn torture(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_torture")).args(arguments).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn seeds_end_with_one_line_that_sums_up() {
    let output = torture(&["--seeds", "0..3", "--ops", "100"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("3 seeds, each twice: ") && said.contains("; 0 failed; "), "{said}");
}

#[test]
fn a_seed_that_fails_prints_how_to_replay_it_and_the_replay_fails_alike() {
    let output =
        torture(&["--seeds", "0..100", "--ops", "800", "--lie", "ignores-flush", "--shrink", "40"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(said.contains("shrunk in "), "{said}");
    let replay =
        said.lines().find_map(|line| line.strip_prefix("replay it: torture ")).expect("a replay");
    let arguments: Vec<&str> = replay.split(' ').collect();
    let output = torture(&arguments);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stdout);
    assert!(
        told.contains("seed ")
            && told.contains(" begins")
            && told.contains("d0         ignores flushes"),
        "no story"
    );
}

#[test]
fn what_happens_to_a_neighbour_is_told_as_its_own() {
    let arguments =
        ["--seed", "3", "--neighbour", "always", "--ops", "200", "--without-inquests", "--trace"];
    let output = torture(&arguments);
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}");
    for part in ["w/run      neighbour: ", "w/operator the volume is created", "w/worker 100 "] {
        assert!(told.contains(part), "{part} is missing");
    }
    // Omissions use the names of the story.
    let alone = torture(&[&arguments[..], &["--only-requests", "none"]].concat());
    assert!(alone.status.success() && !text(&alone.stdout).contains("w/worker"));
    let output =
        torture(&["--seeds", "0..2", "--neighbour", "always", "--ops", "100", "--coverage"]);
    let said = text(&output.stdout);
    assert!(said.contains("neighbour\n") && said.contains(" to 2 neighbours"), "{said}");
}

#[test]
fn wrong_arguments_are_refused_in_a_sentence_that_names_them() {
    for (arguments, named) in [
        (&["--seeds", "7"][..], "'7' is not a range of seeds"),
        (&["--seeds", "7..7"], "'7..7' holds no seed"),
        (&["--seeds", "a..b"], "'a..b' is not a range of seeds"),
        (&["--level", "raid9"], "raid9"),
        (&["--seed", "1", "--only-requests", "1.2"], "'1.2' names no requests"),
        (&["--trace"], "--seed"),
        (&["--seed", "1", "--seeds", "1..2"], "--seeds"),
        (&["--ops", "0"], "0"),
        (&["--neighbour", "often"], "often"),
    ] {
        let output = torture(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(named), "{arguments:?}: {}", text(&output.stderr));
    }
}
