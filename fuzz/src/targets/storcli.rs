//! StorCLI command lines, on a recorded controller.

use controller::{Command, Error, ErrorKind, Reply};
use std::sync::OnceLock;
use storcli::{Machine, Program, Surroundings};

pub(super) const WORDS: &[&str] = &[
    "/c0",
    "/call",
    "/eall",
    "/e252",
    "/sall",
    "/s0-2,4",
    "/vall",
    "/v0",
    "/dall",
    "/fall",
    "/bbu",
    "/cv",
    " show",
    " all",
    " J",
    " nolog",
    " add vd r5",
    " drives=252:0-2",
    " size=10gb,all",
    " pdperarray=2",
    " strip=64",
    " force",
    " set",
    " wrcache=wb",
    " start",
    " stop",
    " pause",
    " init",
    " full",
    " cc",
    " rebuild",
    " copyback target=252:4",
    " hotsparedrive dgs=0",
    " insert dg=0 array=0 row=1",
    " events type=latest=3 filter=fatal",
    " starttime=2026/11/22 10",
    " 4294967295",
    " delete",
    " names=a,b",
    " start migrate type=raid6",
    " option=add",
    " expand size=1gb",
    " show expansion",
    " patrolread delay=720",
    " jbod=off",
    " config file=format",
];

/// Replies of a real controller: see `crates/storcli/tests/common/mod.rs`.
const METRICS: &str = include_str!("../../../crates/storcli/tests/picture/metrics.json");
const EVENTS: &str = include_str!("../../../crates/storcli/tests/picture/events.json");
const FOREIGN: &str = include_str!("../../../crates/storcli/tests/picture/foreign.json");

/// Its reply to a reshape command in preview mode.
const RESHAPE: &str = r#"{"reply": "reshape", "notes": [], "reshape": {"volume": "first", "may_lose": 1,
    "saved_at_a_time_bytes": 0, "at_a_time_bytes": 0,
    "from": {"level": "raid6", "drives": 4, "strip_bytes": 65536, "capacity_bytes": 33554432, "may_lose": 2},
    "to": {"level": "raid6", "drives": 4, "strip_bytes": 65536, "capacity_bytes": 100663296, "may_lose": 2}}}"#;

/// A recorded reply in JSON.
fn kept(text: &str) -> Reply {
    serde_json::from_str(text).expect("it was written by the controller")
}

/// A controller that replies to queries from a recording, and accepts every other command.
#[derive(Default)]
struct RecordedController {
    asked: usize,
}

impl Machine for RecordedController {
    fn ask(&mut self, command: &Command) -> controller::Result<Reply> {
        static KEPT: OnceLock<[Reply; 3]> = OnceLock::new();
        let [metrics, events, foreign] = KEPT.get_or_init(|| [METRICS, EVENTS, FOREIGN].map(kept));
        match command {
            Command::Metrics {} => Ok(metrics.clone()),
            Command::EventsList { .. } => Ok(events.clone()),
            Command::ForeignList {} => Ok(foreign.clone()),
            Command::VolumeReshape(order) if order.dry_run => serde_json::from_str(RESHAPE)
                .map_err(|error| Error::new(ErrorKind::Failed, error.to_string())),
            other => {
                assert!(!other.only_looks(), "{other:?}: the recording has only one state");
                self.asked += 1;
                match self.asked % 2 {
                    0 => Err(Error::new(ErrorKind::WrongState, "not now")),
                    _ => Ok(Reply::Done { notes: Vec::new() }),
                }
            }
        }
    }

    fn read(&mut self, path: &str) -> Result<String, String> {
        // The content of a file is as hostile as its name.
        Ok(path.to_owned())
    }

    fn write(&mut self, _path: &str, text: &str) -> Result<(), String> {
        if text.is_empty() { Err("the text is empty".to_owned()) } else { Ok(()) }
    }

    fn configuration(&mut self) -> controller::Result<String> {
        Ok("format".to_owned())
    }

    fn restore(&mut self, file: &str) -> controller::Result<Vec<String>> {
        match file.strip_prefix("format") {
            None => Err(Error::new(ErrorKind::Invalid, "not a saved configuration")),
            Some(left) => Ok(left.lines().map(str::to_owned).collect()),
        }
    }
}

/// Every line gets a reply or an error in StorCLI's form, with the matching exit code.
pub(super) fn command_line(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let around = Surroundings {
        program: if input.len().is_multiple_of(2) { Program::StorCli } else { Program::PercCli },
        host_name: "host".into(),
        operating_system: "Linux 6.1".into(),
        now_unix_s: 1_795_388_462,
        temperature_c: input.len().is_multiple_of(3).then_some(45),
        memory_bytes: 1 << 31,
        memory_errors: (0, 0),
    };
    let output = storcli::run(&words, &around, &mut RecordedController::default());
    assert!(!output.text.trim().is_empty(), "the output is empty");
    if output.text.contains("SAS Customization Utility") {
        assert_eq!(output.code, 0);
        return;
    }
    let wants_json = words.iter().any(|word| word.eq_ignore_ascii_case("j"));
    let good: Vec<bool> =
        if wants_json { json_statuses(&output.text) } else { text_statuses(&output.text) };
    assert!(!good.is_empty(), "no status");
    assert_eq!(output.code == 0, good.iter().all(|good| *good), "{}", output.text);
}

fn text_statuses(text: &str) -> Vec<bool> {
    assert!(text.starts_with("CLI Version = "), "{text}");
    let of_line = |line: &str| match line.strip_prefix("Status = ")? {
        "Success" => Some(true),
        "Failure" => Some(false),
        // Enclosures have their own status.
        _ => None,
    };
    text.lines().filter_map(of_line).collect()
}

fn json_statuses(text: &str) -> Vec<bool> {
    let value: serde_json::Value = serde_json::from_str(text).expect("it is JSON");
    let all = value["Controllers"].as_array().expect("a list of controllers");
    all.iter().map(|one| one["Command Status"]["Status"] == "Success").collect()
}

/// Seed command lines: from the help, and from tools.
pub fn command_lines() -> Vec<Vec<u8>> {
    [
        "show J",
        "show ctrlcount",
        "-v",
        "help",
        "/cALL show all J nolog",
        "/c0 show",
        "/c0/vall show all",
        "/c0/vall show init nolog",
        "/c0/eall/sall show all J",
        "/c0/e252/s0-3 show rebuild",
        "/c0/dall show all",
        "/c0/fall show all J",
        "/c0 /bbu show",
        "/c0 /cv show status",
        "/c0 show events type=latest=5 filter=warning,fatal",
        "/c0 show patrolread J",
        "/c0 add vd r5 name=x drives=252:0-3 strip=64 wb spares=252:5 force",
        "/c0 add vd each r0 drives=252:0-3",
        "/c0 add vd type=raid10 drives=252:0-3 pdperarray=2 size=1gb,2gb",
        "/c0/v0 set wrcache=awb name=y J",
        "/c0/v0 start init full force",
        "/c0/v0 pause cc",
        "/c0/v0 del force discardcache",
        "/c0/e252/s1 set offline",
        "/c0/e252/s1 start copyback target=252:4",
        "/c0/e252/s1 add hotsparedrive dgs=0 enclaffinity nonrevertible",
        "/c0/e252/s4 insert dg=0 array=0 row=1",
        "/c0/s1 start locate",
        "/c0 set cc=conc delay=168 starttime=2026/11/22 10 excludevd=0",
        "/c0 set patrolread=on mode=auto",
        "/c0 set config file=format",
        "/c0 set config file=formatx",
        "/c0 get config file=/tmp/x",
        "/c0/fall import preview",
        "/c1,2/vall show J",
        "/call /vall delete force",
        "/c0 add vd type=raid10 size=10mb,5mb,5mb names=tmp1,tmp2,tmp3 drives=252:2-3,5,7 \
            pdperarray=2",
        "/c0 add vd r0 drives=252:8 name='x WB RA Cache",
        "/c0/v0 start migrate type=raid6 option=add drives=252:8 force J",
        "/c0/v0 start migrate type=raid6",
        "/c0/v0 expand size=10gb expandarray",
        "/c0/vall show expansion J",
        "/c0/eall show all J",
        "/c0 set jbod=off force",
        "/c0 set patrolread delay=720",
        "/c0 set patrolread=on mode=auto delay=168 includessds=on",
        "/c0/v0 set bootdrive=on",
        "/c0/e252/s0 show smart",
        "/c0/e252/s0 show jbod",
    ]
    .map(|line| line.as_bytes().to_vec())
    .into()
}
