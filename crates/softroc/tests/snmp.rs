//! The controller by SNMP: net-snmp's daemon starts `softroc snmp pass`, and net-snmp's clients
//! send requests, also by SNMP v3. Events as well: a hook's program sends them by v3 with net-snmp.

mod common;

use common::{Controller, have, until};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

const MIB: &str = include_str!("../../../docs/SOFTROC-MIB.txt");
const STATE: &str = ".1.3.6.1.4.1.32473.1.3";
const USER: [&str; 12] =
    ["-v3", "-u", "ada", "-l", "authPriv", "-a", "SHA", "-A", "auth-secret-1", "-x", "AES", "-X"];
const PRIVATE: &str = "priv-secret-1";

/// A program that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("it has one").port()
}

/// A daemon of net-snmp with its own settings; its output is in a file.
fn daemon(
    controller: &Controller,
    program: &str,
    settings: &str,
    more: &[&str],
) -> (Ended, String) {
    let (file, told) =
        (controller.folder.file(&format!("{program}.conf")), controller.folder.file(program));
    std::fs::write(&file, settings).expect("settings");
    let log = std::fs::File::create(&told).expect("a log");
    let child = Command::new(program)
        .args(["-f", "-Lo", "-C", "-m", "", "-c", &file])
        .args(more)
        .env("SNMP_PERSISTENT_DIR", controller.folder.file("persistent"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    (Ended(child), told)
}

/// The response to a client of net-snmp.
fn ask(program: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program)
        .args(["-m", "", "-On", "-t", "5", "-r", "3"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// The number of a column in the list of names.
fn column(entry: &str, number: &str) -> bool {
    MIB.contains(&format!("::= {{ {entry} {number} }}"))
}

/// The entries of a walk and their columns.
fn columns(walk: &str) -> BTreeSet<(&str, &str)> {
    walk.lines()
        .filter_map(|line| line.strip_prefix(STATE)?.strip_prefix('.')?.split_once(" ="))
        .map(|(oid, _)| {
            let parts: Vec<&str> = oid.split('.').collect();
            match parts[..] {
                [scalar, "0"] => ("softrocState", scalar),
                ["10", "1", column, _] => ("softrocVolumeEntry", column),
                ["11", "1", column, _] => ("softrocDriveEntry", column),
                ["12", "1", column, _] => ("softrocTaskEntry", column),
                _ => panic!("{oid} is in no table"),
            }
        })
        .collect()
}

#[test]
fn a_walk_by_v3_tells_of_volumes_and_drives_as_the_list_of_names_says() {
    if !have("snmpwalk") || !have_daemon("snmpd") {
        return;
    }
    let controller = Controller::new("snmp");
    let drives = controller.volume("data", "raid5", 3);
    controller.wait_optimal("data");
    controller.wait_synced("data");
    let port = free_port();
    let settings = format!(
        "agentaddress udp:127.0.0.1:{port}\nrocommunity public 127.0.0.1\n\
         createUser ada SHA auth-secret-1 AES {PRIVATE}\nrouser ada priv\n\
         pass_persist {STATE} {} snmp pass --state {}\n",
        env!("CARGO_BIN_EXE_softroc"),
        controller.state()
    );
    let pid = controller.folder.file("snmpd.pid");
    let (_daemon, told) = daemon(&controller, "snmpd", &settings, &["-p", &pid]);
    let agent = format!("udp:127.0.0.1:{port}");
    let by_v3 =
        |program: &str, oid: &str| ask(program, &[&USER[..], &[PRIVATE, &agent, oid]].concat());
    until("the daemon answers", || by_v3("snmpget", &format!("{STATE}.1.0")).0);
    let (good, walk) = by_v3("snmpwalk", STATE);
    assert!(good, "{walk} {}", std::fs::read_to_string(&told).unwrap_or_default());
    let has =
        |line: &str| assert!(walk.lines().any(|told| told == line), "{line} is not in {walk}");
    has(&format!("{STATE}.1.0 = INTEGER: 0"));
    has(&format!("{STATE}.2.0 = STRING: \"all is well: 1 volume, 3 drives, 0 hot spares ready\""));
    has(&format!("{STATE}.3.0 = Gauge32: 0"));
    has(&format!("{STATE}.7.0 = INTEGER: 1"));
    let number = controller.show("data")["number"].as_u64().expect("a number");
    has(&format!("{STATE}.10.1.2.{number} = STRING: \"data\""));
    has(&format!("{STATE}.10.1.3.{number} = INTEGER: 1"));
    has(&format!("{STATE}.10.1.8.{number} = Counter64: 0"));
    assert!(walk.contains(&drives[2]), "{walk}");
    let columns = columns(&walk);
    assert!(
        columns.len() > 20 && columns.iter().all(|(entry, number)| column(entry, number)),
        "{columns:?}"
    );
    // A drive fails, and clients see it; nothing can be set; a missing controller is reported.
    controller.softroc(&["drive", "fail", &drives[0]]).ok();
    let status = || ask("snmpget", &["-v2c", "-c", "public", &agent, &format!("{STATE}.1.0")]).1;
    until("it is critical", || status().contains("INTEGER: 2"));
    let (set, _) =
        ask("snmpset", &["-v2c", "-c", "public", &agent, &format!("{STATE}.7.0"), "i", "0"]);
    assert!(!set, "nothing can be set");
    drop(controller);
    until("no response", || status().contains("INTEGER: 3"));
}

/// Whether a daemon is installed, possibly outside the path of normal users.
fn have_daemon(program: &str) -> bool {
    std::path::Path::new("/usr/sbin").join(program).is_file() || have(program)
}

#[test]
fn a_hook_has_events_sent_by_v3() {
    if !have("snmpinform") || !have_daemon("snmptrapd") {
        return;
    }
    let controller = Controller::new("snmp-v3-hook");
    let port = free_port();
    let settings =
        format!("createUser ada SHA auth-secret-1 AES {PRIVATE}\nauthUser log ada priv\n");
    let (_daemon, told) = daemon(
        &controller,
        "snmptrapd",
        &settings,
        &["-n", "-On", &format!("udp:127.0.0.1:{port}")],
    );
    let heard = || String::from_utf8_lossy(&std::fs::read(&told).unwrap_or_default()).into_owned();
    until("snmptrapd listens", || heard().contains("NET-SNMP version"));
    // The example of docs/operate/notifications.md.
    let example = include_str!("../../../docs/operate/notifications.md");
    let script = example
        .split("```text\n#!/bin/sh\n# /etc/softroc/hooks.d/snmp-v3\n")
        .nth(1)
        .expect("the script");
    let script = script.split("```").next().expect("its end");
    let folder = controller.folder.file("snmp");
    std::fs::create_dir(&folder).expect("a folder");
    let user = format!(
        "defVersion 3\ndefSecurityName ada\ndefSecurityLevel authPriv\n\
         defAuthType SHA\ndefAuthPassphrase auth-secret-1\n\
         defPrivType AES\ndefPrivPassphrase {PRIVATE}\n"
    );
    std::fs::write(format!("{folder}/snmp.conf"), user).expect("settings");
    let script = script
        .replace("/etc/softroc/snmp", &folder)
        .replace("collector.example", &format!("udp:127.0.0.1:{port}"));
    let program = controller.folder.file("snmp-v3");
    std::fs::write(&program, format!("#!/bin/sh\n{script}")).expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("it is one");
    controller
        .softroc(&[
            "notify",
            "set",
            "v3",
            &format!("hook:{program}"),
            "--severity",
            "info",
            "--code",
            "volume.*",
        ])
        .ok();
    controller.volume("data", "raid1", 2);
    until("it arrives", || heard().contains("volume.created"));
    let text = heard();
    assert!(
        text.contains(".1.3.6.1.4.1.32473.1.0.1") && text.contains("the volume 'data'")
            || text.contains("'data'"),
        "{text}"
    );
    controller.softroc(&["notify", "test", "v3"]).ok();
}
