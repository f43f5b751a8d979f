//! The tour changes only its own objects. Regression: it used a controller in its way, deleted that
//! controller's drive registrations, and overwrote the state of a stopped one.

mod common;

use common::{Controller, Folder, run, until};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn tour(folder: &Folder, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softroc"));
    command.arg("quickstart").args(arguments).current_dir(&folder.0).env_remove("SOFTROC_STATE");
    command.output().expect("softroc starts")
}

/// All files below a folder, with their content; sockets by their names.
fn bytes_of(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"))
    {
        let name = entry.path().display().to_string();
        match entry.file_type().expect("a type") {
            kind if kind.is_dir() => all.extend(bytes_of(&entry.path())),
            kind if kind.is_file() => {
                drop(all.insert(name, std::fs::read(entry.path()).expect("a file")))
            }
            _ => drop(all.insert(name, Vec::new())),
        }
    }
    all
}

#[test]
fn a_folder_of_a_controller_is_refused_whether_it_runs_or_not() {
    let mut controller = Controller::new("tour-refused");
    controller.volume("precious", "raid1", 2);
    let state = controller.state();
    let refused = |folder: &Folder| {
        let output = tour(folder, &["--dir", &state]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(
            said.contains("contains files that are not of a tour; give another --dir"),
            "{said}"
        );
    };
    refused(&controller.folder);
    assert!(controller.softroc(&["volume", "list"]).ok().contains("precious"));
    controller.stop();
    let before = bytes_of(Path::new(&state));
    refused(&controller.folder);
    assert_eq!(bytes_of(Path::new(&state)), before);
}

/// Four steps in order, with few lines for the rebuild, and lines that fit into 80 columns.
/// (Without a terminal, progress is in the words of `task follow`, with the whole path of the
/// drive.)
fn tells_a_story(text: &str) {
    let steps = [
        "\n1/4 ",
        "\n2/4 ",
        " restore ",
        "\n3/4 ",
        "was rebuilt in ",
        "\n4/4 ",
        "\nReport: ./softroc-tour",
    ];
    let places: Vec<Option<usize>> = steps.iter().map(|step| text.find(step)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in:\n{text}");
    let (progress, others): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.contains("task ") && line.contains(" %"));
    assert!(progress.len() <= 6, "{progress:#?}");
    let wide: Vec<&&str> = others.iter().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:#?}");
}

/// Like `make run`, in a folder where a controller has its state in ./softroc-data.
#[test]
fn the_tour_beside_a_controller_leaves_it_as_it_was_and_leaves_a_state_that_starts() {
    let mut controller = Controller::new("tour");
    controller.volume("precious", "raid1", 2);
    std::os::unix::fs::symlink(controller.state(), controller.folder.file("softroc-data"))
        .expect("a link");
    controller.stop();
    let before = bytes_of(Path::new(&controller.state()));
    let output = tour(&controller.folder, &["--runtime", "50ms", "--keep"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(bytes_of(Path::new(&controller.state())), before);
    assert!(Path::new(&controller.folder.file("softroc-tour/report.html")).exists());
    tells_a_story(&String::from_utf8_lossy(&output.stdout));
    // A second tour finds the first one, which was kept.
    let output = tour(&controller.folder, &["--runtime", "50ms"]);
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("contains a kept, running or interrupted tour")
    );
    let state = controller.folder.file("softroc-tour/state");
    let mut kept = Command::new(env!("CARGO_BIN_EXE_softroc"));
    let mut kept = kept.args(["serve", "--state", &state]).spawn().expect("softroc starts");
    let softroc = env!("CARGO_BIN_EXE_softroc");
    let shown = || {
        Command::new(softroc).args(["--state", &state, "volume", "list"]).output().expect("it runs")
    };
    until("the kept tour is up", || String::from_utf8_lossy(&shown().stdout).contains("optimal"));
    run("kill", &[&kept.id().to_string()]);
    assert!(kept.wait().expect("it ends").success());
    controller.start();
    assert!(controller.softroc(&["volume", "list"]).ok().contains("precious"));
}

/// Regression: Ctrl-C during the measurement continued with the next step.
#[test]
fn an_interrupted_tour_ends_and_removes_its_drives() {
    let folder = Folder::new("tour-interrupted");
    let mut child = Command::new(env!("CARGO_BIN_EXE_softroc"))
        .args(["quickstart", "--runtime", "10m", "--dir", &folder.file("tour")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("softroc starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut text = String::new();
    while !text.contains("\n2/4 ") {
        assert!(lines.read_line(&mut text).expect("a line") > 0, "it ended: {text}");
    }
    run("kill", &["-INT", &child.id().to_string()]);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.contains("the tour was stopped before its end; its drive files are removed"),
        "{said}"
    );
    assert!(!Path::new(&folder.file("tour/drives")).exists());
    assert!(!Path::new(&folder.file("tour/state")).exists());
}
