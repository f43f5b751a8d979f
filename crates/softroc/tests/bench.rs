//! StorageBench on the command line: results are stored, compared, merged and written to files.

mod common;

use common::{Answer, Controller, Folder, softroc};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A short measurement of a target that completes at once.
fn measure(folder: &Folder, name: &str, extra: &[&str]) -> Answer {
    let state = folder.file("state");
    let mut arguments =
        vec!["--state", &state, "bench", "null:64M", "--profile", "database", "--name", name];
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
    measure(&folder, "first", &["--json-file", &first]).ok();
    measure(&folder, "second", &[]).ok();
    measure(&folder, "not stored", &["--no-save"]).ok();
    let runs = json(kept(&folder, &["list", "--json"]));
    let names: Vec<&str> = runs["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .filter_map(|run| run["name"].as_str())
        .collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!(
        (&runs["runs"][0]["state"], &runs["runs"][0]["rows"]),
        (&"complete".into(), &2.into())
    );
    let shown = json(kept(&folder, &["show", "first", "--json"]));
    assert_eq!(shown["rows"][1]["outstanding"], 4);
    assert!(shown["environment"]["kernel"].is_string() && shown["rows"][0]["detail"].is_null());
    let compared = json(kept(&folder, &["compare", "first", "second", "--json"]));
    assert_eq!(
        compared["comparisons"][0]["profiles"][0]["points"].as_array().map(Vec::len),
        Some(2)
    );
    // A result file can be used like a stored run.
    kept(&folder, &["merge", "second", &first, "--name", "both"]).ok();
    let both = json(kept(&folder, &["show", "both", "--json"]));
    let ios = |results: &serde_json::Value| results["rows"][0]["ios"].as_u64().expect("ios");
    let second = json(kept(&folder, &["show", "second", "--json"]));
    assert_eq!(ios(&both), ios(&shown) + ios(&second));
    assert_eq!(both["rows"][0]["outstanding"], 2);
    let [html, svg, png, iometer] =
        ["r.html", "p.svg", "p.png", "r.csv"].map(|name| folder.file(name));
    kept(
        &folder,
        &["export", "first", "second", "--html", &html, "--svg", &svg, "--iometer", &iometer],
    )
    .ok();
    let read = |path: &str| std::fs::read_to_string(path).expect("a file that was written");
    assert!(read(&html).contains("Compared with first") && read(&svg).starts_with("<svg "));
    assert!(read(&iometer).contains("'Results\r\n'Target Type,"));
    let drawn = kept(&folder, &["export", "first", "--png", &png, "--plot", "distribution"]);
    if std::path::Path::new(&png).exists() {
        drawn.ok();
        assert!(std::fs::read(&png).expect("the picture").starts_with(b"\x89PNG"));
    } else {
        // It was built without PNG support, or this computer has no fonts.
        assert!(drawn.code != 0 && drawn.stderr.contains("use --svg"), "{}", drawn.stderr);
    }
    kept(&folder, &["delete", "first", "--yes"]).ok();
    assert!(kept(&folder, &["show", "first"]).refused().contains("there is no run 'first'"));
}

#[test]
fn an_interrupt_ends_a_measurement_with_what_was_measured_so_far() {
    let folder = Folder::new("bench-interrupt");
    let state = folder.file("state");
    let (report, stopped) = (folder.file("report.html"), folder.file("report.stopped.html"));
    std::fs::write(&report, "finished").expect("a report from before");
    let child = Command::new(env!("CARGO_BIN_EXE_softroc"))
        .args([
            "--state",
            &state,
            "bench",
            "null:64M",
            "--profile",
            "database",
            "--outstanding",
            "1,2",
        ])
        .args(["--runtime", "10m", "--ramp", "1ms", "--seed", "42", "--html", &report])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("softroc starts");
    // A run in the database has started; soon it has counted operations.
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
    assert_eq!(
        std::fs::read_to_string(&report).expect("the report"),
        "finished",
        "it stays as it was"
    );
    assert!(
        said.contains("report.html is unchanged") && said.contains("report.stopped.html"),
        "{said}"
    );
    let page = std::fs::read_to_string(stopped).expect("the partial report");
    assert!(page.contains("<dt>Seed</dt><dd>42</dd>"), "the seed is on it");
    assert!(
        page.contains("bench null:64M --profile database --outstanding 1,2"),
        "the command line too"
    );
    assert!(
        page.contains("[[workload]]") && page.contains("read IO/s"),
        "and profiles, and both directions"
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("database"), "the row is shown");
    let runs = json(kept(&folder, &["list", "--json"]));
    assert_eq!(
        (&runs["runs"][0]["state"], &runs["runs"][0]["rows"]),
        (&"stopped".into(), &1.into())
    );
}

/// Measures a new file with --verify while another thread keeps overwriting block 10.
fn verify_beside_somebody_who_writes(folder: &Folder, profile: &str) -> Answer {
    let (state, target) = (folder.file("state"), folder.file("target.img"));
    std::fs::write(&target, vec![0; 1 << 20]).expect("a file");
    let child = Command::new(env!("CARGO_BIN_EXE_softroc"))
        .args([
            "--state",
            &state,
            "bench",
            &target,
            "--verify",
            "--destroy-data",
            "--profile",
            profile,
        ])
        .args(["--outstanding", "4", "--runtime", "1s", "--ramp", "0s", "--confidence", "none"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("softroc starts");
    let ended = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = std::fs::OpenOptions::new().write(true).open(&target).expect("the target");
            while !ended.load(Ordering::Relaxed) {
                file.write_all_at(&[0xee; 4096], 40_960).expect("a write behind its back");
            }
        });
        let output = child.wait_with_output();
        ended.store(true, Ordering::Relaxed);
        output
    })
    .expect("softroc ends");
    Answer {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn a_target_that_returns_wrong_data_fails_the_command_with_the_block_what_it_should_hold_and_what_it_does()
 {
    let wrong =
        ", but holds something that this run did not write; it begins with ee ee ee ee ee ee ee ee";
    // One error is found during the profile, the other by reading back the written data.
    for (profile, begins) in [
        ("random,50%read,4K", "softroc: the measurement of '"),
        ("random,write,4K", "softroc: the final read of '"),
    ] {
        let folder = Folder::new("bench-verify");
        let answer = verify_beside_somebody_who_writes(&folder, profile);
        let Answer { code, stdout, stderr } = &answer;
        assert_eq!(*code, 1, "{profile}: {stdout}{stderr}");
        let sentence = stderr.lines().last().expect("a sentence");
        assert!(sentence.starts_with(begins) && sentence.ends_with(wrong), "{profile}: {sentence}");
        assert!(
            sentence.contains("gave wrong data: the 4 KiB at byte 40960 should hold "),
            "{profile}: {sentence}"
        );
        assert!(stdout.contains("Verification is incomplete: "), "{profile}: {stdout}");
        let runs = json(kept(&folder, &["list", "--json"]));
        assert_eq!(runs["runs"][0]["state"], "failed", "{profile}");
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let folder = Folder::new("bench-wrong");
    for (arguments, words) in [
        (&["show", "last"][..], "no measurement is stored in"),
        (&["export", "last"], "no output is given; use --json"),
        (&["compare", "/nowhere/a.json"], "/nowhere/a.json is not a results file"),
        (&["null:64M", "--plot", "pie"], "'pie' is not a plot; expected best-iops"),
        (&["null:64M", "--confidence", "some"], "'some' is not a confidence; expected percent"),
        (
            &["null:64M", "--precondition", "much"],
            "'much' is not a preconditioning; expected none, snia",
        ),
        (
            &["null:64M", "--runtime", "10s", "--max-runtime", "1s"],
            "at most 1 s is less than the run time of 10 s",
        ),
        (
            &["null:64M", "--json-file", "-", "--csv", "-"],
            "--json-file and --csv would both write to standard output",
        ),
        (
            &["null:64M", "--json-file", "/nowhere/r.json"],
            "--json-file /nowhere/r.json: the folder does not exist",
        ),
        (&["null:64M", "--html", "/"], "--html /: this is a folder"),
        (
            &["null:64M", "--profile", "database", "--plot", "latency:streaming"],
            "the profile of --plot latency:streaming is not measured; give one of database",
        ),
        (&["null:64M", "null:64M"], "'null:64M' is given twice"),
        (
            &["/nowhere/t.img"],
            "there is no file or device /nowhere/t.img; give another target, or create",
        ),
        (
            &["null:64M", "--profile", "database,hot=90%:4G"],
            "has 4 GiB, more than the area's 64 MiB",
        ),
    ] {
        let sentence = kept(&folder, arguments).refused();
        assert!(sentence.contains(words), "{arguments:?}: {sentence}");
    }
    assert!(!folder.0.join("state").exists(), "a command that is refused changes nothing");
    assert!(kept(&folder, &["list"]).ok().contains("No measurement is stored in"));
}

#[test]
fn nothing_is_measured_before_every_target_can_be_and_no_test_file_is_left_behind() {
    let folder = Folder::new("bench-all");
    let (new, other) = (folder.file("new.img"), folder.file("other.img"));
    std::fs::write(&other, vec![7; 1 << 20]).expect("a file");
    // The second target has data that a profile would overwrite.
    let sentence =
        kept(&folder, &[&new, &other, "--create", "1M", "--profile", "database"]).refused();
    assert!(sentence.contains("holds data that is not from an earlier run"), "{sentence}");
    assert!(!std::path::Path::new(&new).exists() && !folder.0.join("state").exists());
    assert!(std::fs::read(&other).expect("the file") == vec![7; 1 << 20]);
    let sentence = kept(&folder, &[&other, "--create", "2M", "--profile", "streaming"]).refused();
    assert!(
        sentence.contains("exists already and has 1 MiB, not the 2 MiB of --create"),
        "{sentence}"
    );
    let sentence =
        kept(&folder, &[&other, "--json-file", &other, "--profile", "streaming"]).refused();
    assert!(sentence.contains("this is the target itself"), "{sentence}");
}

#[test]
fn without_a_state_folder_results_are_kept_for_the_user_and_the_place_is_said() {
    let folder = Folder::new("bench-xdg");
    let here = folder.file("here");
    std::fs::create_dir(&here).expect("a folder");
    let bench = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_softroc"))
            .arg("bench")
            .args(arguments)
            .current_dir(&here)
            .env("XDG_STATE_HOME", folder.file("xdg"))
            .output()
            .expect("softroc starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // Without a named profile, the profiles of the workload file are measured; a ramp of zero is
    // possible.
    let job = folder.file("job.fio");
    std::fs::write(&job, "[mail]\nrw=randread\nbs=8k\niodepth=2\nsize=1m\nnorandommap\n")
        .expect("a job");
    let said = bench(&[
        "null:64M",
        "--workload-file",
        &job,
        "--runtime",
        "100ms",
        "--ramp",
        "0s",
        "--confidence",
        "none",
    ]);
    let kept = folder.file("xdg/softroc/results.db");
    assert!(said.contains("mail") && !said.contains("database"), "{said}");
    assert!(said.contains(&format!("Stored as run 1 in {kept} (softroc bench show 1).")), "{said}");
    assert!(
        std::fs::read_dir(&here).expect("the folder").next().is_none(),
        "nothing is left where one stands"
    );
    assert!(bench(&["list"]).contains("mail"));
    // Results belong into the state folder of a controller.
    std::fs::create_dir(folder.0.join("here/softroc-data")).expect("a folder");
    assert!(bench(&["list"]).contains("No measurement is stored in ./softroc-data"));
}

/// Regression: `softroc bench volume:NAME --socket SOCKET` read the volume's address from the state
/// folder of another controller.
#[test]
fn a_volume_is_measured_where_the_controller_at_the_socket_serves_it() {
    let (controller, elsewhere) = (Controller::new("bench-socket"), Folder::new("bench-elsewhere"));
    controller.volume("data", "raid1", 2);
    let (state, socket) = (elsewhere.file("state"), format!("{}/control.sock", controller.state()));
    let measured = softroc(&[
        "--state",
        &state,
        "--socket",
        &socket,
        "bench",
        "volume:data",
        "--profile",
        "database",
        "--destroy-data",
        "--no-save",
        "--runtime",
        "200ms",
        "--ramp",
        "10ms",
        "--confidence",
        "none",
        "--outstanding",
        "1",
    ]);
    assert!(measured.ok().contains("data"));
}

#[test]
fn a_job_file_of_fio_is_measured_for_its_own_time() {
    let folder = Folder::new("bench-job-file");
    let (job, workloads) = (folder.file("nightly.fio"), folder.file("nightly.toml"));
    // UTF-8 with a byte order mark, CRLF, an included file, a variable, and a job that cannot be
    // imported.
    let text = "\u{FEFF}[global]\r\ninclude depth.fio\r\n\
        runtime=${SECONDS}\r\ntime_based\r\n[reads]\r\nrw=randread\r\n[trims]\r\nrw=trim\r\n";
    std::fs::write(&job, text).expect("a job file");
    std::fs::write(folder.file("depth.fio"), "ioengine=libaio\niodepth=3 # deep\n")
        .expect("its other file");
    let import = |seconds: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_softroc"));
        command.args(["bench", "import", &job, "--to", &workloads]).env_remove("SECONDS");
        seconds.map(|seconds| command.env("SECONDS", seconds));
        let output = command.output().expect("softroc runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (done, said) = import(None);
    assert!(
        !done
            && said.contains("the environment variable SECONDS of 'runtime=${SECONDS}' is not set"),
        "{said}"
    );
    let (done, said) = import(Some("1"));
    assert!(
        done && said.contains("nightly.fio:8: the job 'trims' is not imported: 'rw=trim' trims"),
        "{said}"
    );
    let written = std::fs::read_to_string(&workloads).expect("the workloads");
    for line in ["outstanding = \"3\"", "runtime = \"1s\"", "ramp = \"0us\""] {
        assert!(written.contains(line), "{line}: {written}");
    }
    let state = folder.file("state");
    let measure = |extra: &[&str]| {
        let mut arguments =
            vec!["--state", &state, "bench", "null:64M", "--workload-file", &workloads, "--json"];
        arguments.extend(extra);
        let began = Instant::now();
        let results = json(softroc(&arguments));
        let row = &results["rows"][0];
        let seconds = row["duration_s"].as_f64().expect("a time");
        (row["outstanding"].as_u64(), seconds, began.elapsed())
    };
    // Neither the default of 30 s nor an extension for narrower intervals.
    let (outstanding, seconds, took) = measure(&[]);
    assert!(outstanding == Some(3) && (0.9..1.5).contains(&seconds), "{seconds} s");
    assert!(took < Duration::from_secs(20), "{took:?}");
    // Options of the command line take precedence.
    let (_, seconds, _) = measure(&["--runtime", "300ms", "--confidence", "none"]);
    assert!((0.2..0.6).contains(&seconds), "{seconds} s");
}
