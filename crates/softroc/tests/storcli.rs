//! StorCLI's commands on a running controller, tested with unmodified tools for other controllers:
//! Debian's and Prometheus' collectors `storcli.py`, Thomas-Krenn's `check_lsi_raid`, `pystorcli2`,
//! `perccli_status.py`.
//!
//! The GPL tools are not included: `SOFTROC_JUDGES` names a folder with
//! `check_lsi_raid/check_lsi_raid` and `perccli-status/perccli_status.py`. Python's packages are in
//! `target/judges-python`, filled by `make test`.

mod common;

use common::{Controller, Folder, have, judged, not_installed, not_possible, pattern, until};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A controller with drives, and the program with the names of the tools.
struct Tool {
    controller: Controller,
    /// For the cache, if the computer has memory for it.
    _memory: Option<Folder>,
}

impl Tool {
    fn new(name: &str) -> Tool {
        let memory = Folder::in_memory(name);
        let mut controller = Controller::unstarted(name);
        if let Some(memory) = &memory {
            let cache = ["--cache", "16M", "--cache-folder"].map(str::to_owned);
            controller.arguments.extend(cache.into_iter().chain([memory.path()]));
        }
        controller.start();
        for link in ["storcli64", "perccli64"] {
            let link = controller.folder.file(link);
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_softroc"), link).expect("a link");
        }
        Tool { controller, _memory: memory }
    }

    fn path(&self, name: &str) -> String {
        self.controller.folder.file(name)
    }

    /// A program, with the controller's state folder in its environment.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SOFTROC_STATE", self.controller.state()).stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let output = self.command(program).args(arguments).output();
        output.unwrap_or_else(|error| panic!("{program} does not start: {error}"))
    }

    /// The exit code, and the output.
    fn storcli(&self, line: &str) -> (i32, String) {
        let output =
            self.run(&self.path("storcli64"), &line.split_whitespace().collect::<Vec<_>>());
        assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The output of a command that must succeed.
    fn ok(&self, line: &str) -> String {
        let (code, text) = self.storcli(line);
        assert_eq!(code, 0, "{line}: {text}");
        text
    }

    fn json(&self, line: &str) -> serde_json::Value {
        let text = self.storcli(&format!("{line} J")).1;
        let value: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"));
        value["Controllers"][0].clone()
    }
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A program of `SOFTROC_JUDGES`.
fn judge(name: &str) -> Option<String> {
    let folder = std::env::var_os("SOFTROC_JUDGES").map(PathBuf::from);
    let Some(path) = folder.map(|folder| folder.join(name)).filter(|path| path.is_file()) else {
        not_possible(
            name,
            "SOFTROC_JUDGES names no folder that has it: it is GPL, and not kept here",
        );
        return None;
    };
    Some(path.to_str().expect("it is text").to_owned())
}

/// The Python with the packages of PyPI.
fn python() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("target/judges-python/bin/python");
    if !path.is_file() {
        not_installed("pystorcli2");
        return None;
    }
    Some(path.to_str().expect("it is text").to_owned())
}

/// A slow remote drive, so that its rebuild can be observed.
struct Slow {
    server: Child,
    socket: String,
}

impl Slow {
    fn start(folder: &Folder) -> Option<Slow> {
        if !have("nbdkit") {
            return None;
        }
        let socket = folder.file("slow.sock");
        let server = Command::new("nbdkit")
            .args(["-f", "-U", &socket, "--filter=delay", "memory", "48M", "wdelay=250ms"])
            .stdin(Stdio::null())
            .spawn()
            .expect("nbdkit starts");
        until("nbdkit serves", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        Some(Slow { server, socket })
    }

    fn name(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket)
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn what_is_shown_has_the_form_that_tools_cut_to_pieces() {
    let tool = Tool::new("storcli-show");
    tool.controller.volume("data", "raid5", 3);
    let text = tool.ok("/c0 show");
    assert!(text.starts_with("CLI Version = 007."), "{text}");
    assert!(text.contains("\nStatus = Success\nDescription = None\n"), "{text}");
    let head = "DG/VD TYPE  State Access Consist Cache Cac sCC ";
    assert!(text.contains("\nVD LIST :\n=======\n\n") && text.contains(head), "{text}");
    assert!(text.contains("\n0/0   RAID5 Optl  RW     Yes     NRWTD -   "), "{text}");
    assert!(text.contains("\n 0 0   2   252:2    2   DRIVE Onln  "), "{text}");
    assert!(text.contains("\n252:1     1 Onln   0 48.000 MB File HDD N   N  "), "{text}");
    // The block of each drive starts and ends where line-based parsers expect it.
    let drives = tool.ok("/c0/eall/sall show all nolog");
    assert!(drives.contains("\nDrive /c0/e252/s1 :\n=================\n"), "{drives}");
    let block = drives.split("Drive /c0/e252/s1 State :").nth(1).expect("the counters");
    let last = block.find("S.M.A.R.T alert flagged by drive = No").expect("the last counter");
    assert!(block.find("Shield Counter = 0").is_some_and(|first| first < last));
    // The same as JSON.
    let all = tool.json("/c0 show all");
    let data = &all["Response Data"];
    assert_eq!(data["Version"]["Driver Name"], "megaraid_sas");
    assert_eq!(data["Status"]["Controller Status"], "Optimal");
    assert_eq!((&data["Drive Groups"], &data["Physical Drives"]), (&1.into(), &3.into()));
    assert_eq!(data["VD LIST"][0]["DG/VD"], "0/0");
    assert_eq!(data["PD LIST"][2]["DID"], 2);
    let info = tool.controller.json(&["info"]);
    assert_eq!(data["Basics"]["Serial Number"], info["controller"]["serial"], "{info}");
    let rebuild = tool.json("/c0/e252/s0 show rebuild");
    assert_eq!(rebuild["Response Data"][0]["Status"], "Not in progress", "a list, not an object");
    assert!(tool.ok("-v").contains("SAS Customization Utility Ver 007."));
    assert_eq!(tool.json("show ctrlcount")["Response Data"]["Controller Count"], 1);
}

#[test]
fn what_is_not_there_is_refused_in_the_same_form() {
    let mut tool = Tool::new("storcli-refused");
    tool.controller.volume("data", "raid5", 3);
    for (line, code, words) in [
        ("/c0 show frobnication", 1, "Un-supported command"),
        ("/c0/v0 start erase", 1, "Un-supported command"),
        ("/c1 show", 1, "Controller 1 not found"),
        ("/c0/v7 show", 12, "VD doesn't exist"),
        ("/c0/e252/s9 show", 1, "No drive found!"),
        ("/c0/e252/s0,9 show", 12, "/c0/e252/s9 Failure    12 Drive not found"),
        ("/c0 /bbu show", 255, "use /cx/cv"),
        ("/c0/cv show all", 34, "Cachevault is absent!"),
        ("/c0/fall show all", 50, "No foreign configuration found."),
        ("/c0/v0 del", 255, "VD may hold data, use 'force' option"),
        ("/c0/v0 set accesspolicy=ro", 3, "volumes are always read-write"),
        ("/c0/e252/s0 set jbod", 3, "pass-through is not supported"),
        ("/c0/e252/s0 start locate", 46, "is in no enclosure"),
        ("/c0 add vd r5 drives=252:0-2 strip=65", 3, "is not a number of KB"),
        ("/c0 add vd r4 drives=252:0-2", 3, "is not an option"),
        ("frob", 1, "syntax error"),
    ] {
        let (found, text) = tool.storcli(line);
        assert_eq!(found, code, "{line}: {text}");
        assert!(text.contains("\nStatus = Failure\n") && text.contains(words), "{line}: {text}");
        let json = tool.json(line);
        assert_eq!(json["Command Status"]["Status"], "Failure", "{line}");
    }
    assert_eq!(tool.json("/c0/vall show")["Response Data"]["Virtual Drives"][0]["Name"], "data");
    // Also without a controller.
    tool.controller.stop();
    let (code, text) = tool.storcli("/c0 show");
    assert!(code != 0 && text.contains("Description = Controller 0 not found"), "{text}");
    assert_eq!(tool.json("show ctrlcount")["Response Data"]["Controller Count"], 0);
}

#[test]
fn volumes_are_made_changed_and_deleted() {
    let tool = Tool::new("storcli-change");
    let drives = tool.controller.file_drives(6);
    assert!(
        tool.ok("/c0 add vd r5 drives=252:0-2 name=data strip=64 spares=252:3")
            .contains("Add VD Succeeded.")
    );
    tool.ok("/c0 add vd each r0 drives=252:4,252:5");
    let names = |tool: &Tool| -> Vec<String> {
        let list = tool.json("/c0/vall show")["Response Data"]["Virtual Drives"].clone();
        list.as_array()
            .expect("a list")
            .iter()
            .map(|volume| volume["Name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&tool), ["data", "vd1", "vd2"]);
    assert!(tool.ok("/c0/s3 show").contains("252:3     3 DHS   - "));
    tool.ok("/c0/v0 set name=other");
    assert_eq!(names(&tool)[0], "other");
    // An event records the command and its caller.
    let events = tool.ok("/c0 show events type=latest=20");
    let renamed =
        events.split("seqNum: ").find(|block| block.contains("volume.renamed")).expect("the event");
    assert!(
        renamed.contains("\nBy: ")
            && renamed.contains("\nClass: 0\nLocale: 0x01\nEvent Description: ")
    );
    let file = tool.path("events.txt");
    assert!(!tool.ok(&format!("/c0 show events file={file}")).contains("seqNum"));
    assert!(std::fs::read_to_string(&file).expect("the events").contains("seqNum: 0x000000"));
    // The configuration, saved and recreated.
    let file = tool.path("config.json");
    tool.ok(&format!("/c0 get config file={file}"));
    let (code, text) = tool.storcli("/c0 delete config");
    assert!(code == 255 && text.contains("use 'force' option"), "{text}");
    tool.ok("/c0 delete config force");
    assert_eq!(tool.json("/c0 show")["Response Data"]["Virtual Drives"], 0);
    tool.ok("/c0/e252/s3 delete hotsparedrive");
    tool.ok(&format!("/c0 set config file={file}"));
    assert_eq!(names(&tool), ["other", "vd1", "vd2"]);
    assert_eq!(
        tool.json("/c0/vall show")["Response Data"]["Virtual Drives"][0]["DG/VD"],
        "0/0",
        "its number is given back"
    );
    // Offline, online, and removed for good.
    tool.ok("/c0/e252/s1 set offline");
    assert!(tool.ok("/c0/v0 show").contains("Dgrd"));
    assert!(tool.ok("/c0/e252/s1 show").contains("252:1     1 Offln  0 "));
    tool.ok("/c0/e252/s1 set online");
    tool.controller.wait_optimal("other");
    tool.ok("/c0/v0 start cc");
    tool.controller.wait_optimal("other");
    assert!(drives.len() == 6 && tool.ok("/c0 flushcache").contains("Flush Cache Succeeded."));
    settings_are_shown(&tool);
}

fn settings_are_shown(tool: &Tool) {
    for line in [
        "/c0 set patrolread=on mode=manual",
        "/c0 set cc=off",
        "/c0 set rebuildrate=40",
        "/c0 set copyback=on",
    ] {
        tool.ok(line);
    }
    assert!(tool.ok("/c0 show patrolread").contains("PR Mode                 Manual"));
    assert!(tool.ok("/c0 show cc").contains("CC Operation Mode         Disabled"));
    assert!(tool.ok("/c0 show rebuildrate").contains("Rebuildrate 40%"));
}

/// Lines of public scripts in a possible order, each with its exit code and expected output.
const SCRIPT: &[(&str, i32, &str)] = &[
    ("/c0/fall show", 0, "Couldn't find any foreign Configuration"),
    ("/c0/fall show all", 50, "No foreign configuration found."),
    ("/c0/fall del", 0, "Couldn't find any foreign Configuration"),
    ("/c0 set jbod=off", 0, "JBOD      OFF"),
    ("/c0 set jbod=off force", 0, "JBOD      OFF"),
    ("/c0 set jbod=on", 3, "pass-through is not supported"),
    ("/c0 set rebuildrate=60", 50, "there is no group; set it after 'add vd'"),
    ("/c0 add vd type=r0 drives=252:0 nora wt strip=256", 0, "Add VD Succeeded."),
    ("/c0/v0 delete", 255, "VD may hold data, use 'force' option"),
    ("/c0/v0 delete force", 0, "Delete VD Succeeded."),
    ("/c0/vall delete force", 12, "No VD's have been configured."),
    ("/call /vall delete", 12, "No VD's have been configured."),
    ("/c0 add vd type=r10 drives=252:0,1,2,3,4,5,6,7 wt nora", 0, "Add VD Succeeded."),
    // Its number: that of the first one is not reused.
    ("/c0/v1 show", 0, "1/1   RAID10 Optl  RW     Yes     NRWTD "),
    ("/c0/vall del force", 0, "Delete VD Succeeded."),
    ("/c0 add vd type=raid5 size=all names=tmp1 drives=252:2-4", 0, "Add VD Succeeded."),
    ("/c0 add vd r0 size=all drives=252:7 WB RA Cache", 0, "Add VD Succeeded."),
    ("/c0/vall delete force", 0, "Delete VD Succeeded."),
    (
        "/c0 add vd type=raid10 size=10mb,5mb,5mb name=tmp1,tmp2,tmp3 drives=252:2-3,5,7 \
            pdperarray=2",
        0,
        "Add VD Succeeded.",
    ),
    ("/c0/vall show", 0, "4/6   RAID10 Optl"),
    ("/c0/vall delete force", 0, "Delete VD Succeeded."),
    ("/c0 set patrolread delay=720", 0, "720 hours"),
    ("/c0 show patrolread", 0, "PR Execution Delay      720 hours"),
    ("/c0 set patrolread=on mode=auto delay=168", 0, "168 hours"),
    (
        "/c0 add vd type=raid10 size=10mb drives=252:0-3 pdperarray=2 wt ra direct strip=64",
        0,
        "Add VD Succeeded.",
    ),
    ("/c0 set rebuildrate=60", 0, "Rebuildrate 60%"),
    ("/c0/vall show expansion", 0, "EXPANSION INFORMATION"),
    ("/c0/v7 show migrate", 0, "Migrate"),
    ("/c0/v7 set bootdrive=on", 3, "there is no boot ROM"),
    ("/c0/e252/s0 show smart", 3, "run 'softroc drive show"),
    ("/c0/e252/s0 show jbod", 50, "not a JBOD"),
    ("/c0/e252/s9 add hotsparedrive", 0, "Add Hot Spare Succeeded."),
    ("/c0/eall/sall show rebuild", 0, "Show Drive Rebuild Status Succeeded."),
    ("/c0/eall show all", 0, "Enclosure /c0/e252  :"),
    ("/c0 set alarm=silence", 0, "SILENCE"),
    ("show ctrlcount nolog", 0, "Controller Count = 1"),
    ("/c0/cv show all nolog", 34, "Cachevault is absent!"),
    ("/c0/vall show init", 0, "INIT"),
    ("/c0 show bootdrive", 0, "No Boot Drive"),
];

#[test]
fn lines_of_public_scripts_have_the_answers_that_they_read() {
    let tool = Tool::new("storcli-scripts");
    tool.controller.file_drives_of("64M", 12);
    for (line, code, words) in SCRIPT {
        let (found, text) = tool.storcli(line);
        assert!(found == *code && text.contains(words), "{line}: {found}: {text}");
        let status = if *code == 0 { "Success" } else { "Failure" };
        assert!(text.contains(&format!("\nStatus = {status}\n")), "{line}: {text}");
    }
    let volume = || tool.json("/c0/v7 show")["Response Data"]["Virtual Drives"][0].clone();
    let rests = || tool.ok("/c0/v7 show migrate").contains("Not in progress");
    assert_eq!((&volume()["Size"], &volume()["Name"]), (&"10.000 MB".into(), &"vd7".into()));
    assert!(tool.ok("/c0/v7 expand size=4mb").contains("expansion operation succeeded"));
    until("the volume is larger", rests);
    assert_eq!(volume()["Size"], "14.000 MB");
    let migrate = "/c0/v7 start migrate type=raid6 option=add drives=252:8";
    assert!(tool.ok(migrate).contains("Start Reconstruction Operation Success"));
    until("the volume has its level", rests);
    assert_eq!(volume()["TYPE"], "RAID6");
    let named = tool.run(
        &tool.path("storcli64"),
        &["/c0", "add", "vd", "r1", "drives=252:10-11", "name=OS disk"],
    );
    assert!(
        named.status.success() && said(&named).contains("'OS disk' is named 'OS_disk'"),
        "{}",
        said(&named)
    );
}

/// The samples of a collector, by name and labels.
fn samples(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", said(output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The output of a collector for a volume that is optimal, then degraded, then optimal again.
fn collected(tool: &Tool, collect: &dyn Fn() -> Vec<String>) {
    let has = |samples: &[String], name: &str, label: &str, value: f64| {
        samples.iter().any(|line| {
            let (series, number) = line.rsplit_once(' ').unwrap_or((line, ""));
            series.starts_with(name) && series.contains(label) && number.parse() == Ok(value)
        })
    };
    let good = collect();
    assert!(good.len() >= 35, "{} samples: {good:#?}", good.len());
    assert!(
        has(&good, "megaraid_healthy", "", 1.0) && has(&good, "megaraid_degraded", "", 0.0),
        "{good:#?}"
    );
    assert!(has(&good, "megaraid_vd_info", "state=\"Optl\"", 1.0), "{good:#?}");
    tool.ok("/c0/e252/s1 set offline");
    let bad = collect();
    assert!(
        has(&bad, "megaraid_healthy", "", 0.0) && has(&bad, "megaraid_degraded", "", 1.0),
        "{bad:#?}"
    );
    assert!(has(&bad, "megaraid_vd_info", "state=\"Dgrd\"", 1.0), "{bad:#?}");
    assert!(has(&bad, "megaraid_pd_info", "state=\"Offln\"", 1.0), "{bad:#?}");
    tool.ok("/c0/e252/s1 set online");
    tool.controller.wait_optimal("data");
    let again = collect();
    assert!(has(&again, "megaraid_vd_info", "state=\"Optl\"", 1.0), "{again:#?}");
}

#[test]
fn the_collectors_of_prometheus_read_it() {
    let tool = Tool::new("storcli-collectors");
    tool.controller.volume("data", "raid5", 3);
    let debian = "/usr/share/prometheus-node-exporter-collectors/storcli.py";
    if have("python3") && Path::new(debian).is_file() {
        // It looks for the tool at its vendor's path, or at this path.
        let storcli = tool.path("storcli64");
        collected(&tool, &|| samples(&tool.run("python3", &[debian, "--storcli_path", &storcli])));
    } else {
        not_installed(debian);
    }
    if let Some(python) = python() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/judges/node-exporter-textfile/storcli.py");
        let (script, storcli) = (script.to_str().expect("text"), tool.path("storcli64"));
        collected(&tool, &|| samples(&tool.run(&python, &[script, "--storcli_path", &storcli])));
    }
}

#[test]
fn check_lsi_raid_is_content_then_not_then_content_again() {
    let Some(check) = judge("check_lsi_raid/check_lsi_raid").filter(|_| have("perl")) else {
        return;
    };
    let tool = Tool::new("storcli-check");
    if tool._memory.is_none() {
        return not_possible(
            "check_lsi_raid",
            "it wants a write-back volume, and /dev/shm is not there",
        );
    }
    let Some(slow) = Slow::start(&tool.controller.folder) else { return };
    tool.controller.volume("data", "raid5", 3);
    tool.ok("/c0/v0 set wrcache=wb");
    // Unwritten data take no time to rebuild.
    judged::write(&tool.controller, "data", 0, &pattern(1, 8 << 20));
    tool.controller.wait_optimal("data");
    // With -b 1 it requires a battery, and there is none.
    let look = || {
        let output =
            tool.run(&check, &["-p", &tool.path("storcli64"), "--nosudo", "-b", "2", "-C", "0"]);
        (output.status.code().unwrap_or(-1), said(&output))
    };
    let (code, text) = look();
    assert!(code == 0 && text.starts_with("OK"), "{code}: {text}");
    tool.controller.softroc(&["drive", "fail", "data:1"]).ok();
    let (code, text) = look();
    assert!(
        code == 2 && text.contains("c0/e252/s1_State") && text.contains("c0/v0_State"),
        "{code}: {text}"
    );
    // A new drive is slow: the output shows the rebuild.
    tool.controller.softroc(&["drive", "replace", "data:1", "--with", &slow.name()]).ok();
    tool.ok("/c0/e252/s3 pause rebuild");
    let (code, text) = look();
    assert!(code == 2 && text.contains("c0/e252/s3_Rebuild"), "{code}: {text}");
    assert!(tool.ok("/c0/e252/s3 show rebuild").contains("Paused"));
    tool.ok("/c0/e252/s3 resume rebuild");
    tool.controller.wait_optimal("data");
    // The failed drive is marked good, or removed.
    tool.ok("/c0/e252/s1 set good");
    let (code, text) = look();
    assert!(code == 0 && text.starts_with("OK"), "{code}: {text}");
}

/// Creates a volume, changes it, loses a drive to a spare, deletes it. Ends with `done`.
const WITH_PYSTORCLI2: &str = r#"
import sys, time
from pystorcli2 import StorCLI
from pystorcli2.controller import Controllers
from pystorcli2.drive import DriveState
binary = sys.argv[1]
controllers = Controllers(binary=binary)
assert controllers.ids == [0] or controllers.ids == ['0'], controllers.ids
c = [x for x in controllers][0]
assert c.facts['Version']['Driver Name'] == 'megaraid_sas'
assert [e.id for e in c.encls] == [252]
assert c.drives_ids == ['252:0', '252:1', '252:2', '252:3'], c.drives_ids
encl = [e for e in c.encls][0]
drives = [d for d in encl.drives]
assert all(d.state == DriveState.UGood for d in drives)
assert drives[0].spin == 'up' and drives[0].wwn and drives[0].vd_id is None
assert not c.has_foreign_configurations()
vd = c.create_vd('data', '5', '252:0-2', strip='64')
assert vd is not None and vd.raid == 'raid5' and vd.state.name == 'Optl', vd
assert vd.strip == '64' and vd.os_exposed and [d.id for d in vd.drives] == ['0', '1', '2']
policies = (vd.rdcache, vd.iopolicy, vd.pdcache, vd.autobgi)
assert policies == ('ra', 'direct', 'on', 'on'), policies
# The default preset, and what is in effect without memory for it.
assert vd.wrcache == ('wb' if sys.argv[2] == 'cache' else 'wt'), vd.wrcache
vd.wrcache = 'wt'
assert vd.wrcache == 'wt'
if sys.argv[2] == 'cache':
    vd.wrcache = 'wb'
    assert vd.wrcache == 'wb'
vd.name = 'other'
assert vd.name == 'other'
drives[3].hotparedrive_create(dgs='0')
assert drives[3].state == DriveState.DHS
assert drives[0].vd_id == 0
assert c.metrics.all['state'] == 'optimal' and c.metrics.all['physical_drives'] == '4'
assert drives[0].metrics.all['smart_alert'] == 'NO' and c.is_foreign_configuration_healthy()
drives[1].set_state('offline')
assert drives[1].state == DriveState.Offln and vd.state.name == 'Dgrd'
drives[1].set_state('missing')
deadline = time.time() + 120
while vd.state.name != 'Optl':
    assert time.time() < deadline, vd.state
    time.sleep(0.05)
assert drives[3].state == DriveState.Onln, drives[3].state
assert not vd.init_running and not vd.erase_running
vd.cc_start()
c.patrolread = 'off'
assert c.autorebuild == 'on' and c.cc in ('on', 'off') and not c.patrolread_running
try:
    vd.delete()
    raise SystemExit('it was deleted without force')
except Exception as error:
    assert 'use' in str(error) or '255' in str(error) or error, error
vd.delete(force=True)
assert not c.vds.has_vds
print('done')
"#;

#[test]
fn pystorcli2_makes_a_volume_loses_a_drive_and_deletes_it() {
    let Some(python) = python() else { return };
    let tool = Tool::new("storcli-python");
    tool.controller.file_drives(4);
    let script = tool.path("judge.py");
    std::fs::write(&script, WITH_PYSTORCLI2).expect("a script");
    let cache = if tool._memory.is_some() { "cache" } else { "no-cache" };
    let output = tool.run(&python, &[&script, &tool.path("storcli64"), cache]);
    assert!(
        output.status.success() && said(&output).trim_end().ends_with("done"),
        "{}",
        said(&output)
    );
}

#[test]
fn perccli_status_prints_its_tables() {
    let Some(script) = judge("perccli-status/perccli_status.py").filter(|_| have("python3")) else {
        return;
    };
    let tool = Tool::new("storcli-perccli");
    tool.controller.volume("data", "raid6", 4);
    let look = || {
        let output = tool.run("python3", &[&script, "--perccli-path", &tool.path("perccli64")]);
        (output.status.code().unwrap_or(-1), said(&output))
    };
    let (code, text) = look();
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("C0 V0/0 | Optl   | RAID6") && text.contains("C0 P252:3 | Onln"),
        "{text}"
    );
    tool.ok("/c0/e252/s2 set offline");
    let (code, text) = look();
    assert!(code == 2 && text.contains("Pdgd") && text.contains("Offln"), "{code}: {text}");
}
