use super::*;
use crate::load::profile::Profile;
use std::time::Duration;

/// Abbreviated output of Iometer 1.1.0.
const ICF: &str = "Version 1.1.0 \n\
    'TEST SETUP ====================================================================\n\
    'Test Description\n\t\n\
    'Run Time\n'\thours      minutes    seconds\n\t0          10         30\n\
    'Ramp Up Time (s)\n\t30\n\
    'Default Disk Workers to Spawn\n\tNUMBER_OF_CPUS\n\
    'Queue Depth Cycling\n'\tstart      end        step       step type\n\t1 32 2 EXPONENTIAL\n\
    'Test Type\n\tNORMAL\n\
    'END test setup\n\
    'RESULTS DISPLAY ===============================================================\n\
    'Record Last Update Results,Update Frequency,Update Type\n\tDISABLED,1,LAST_UPDATE\n\
    'END results display\n\
    'ACCESS SPECIFICATIONS =========================================================\n\
    'Access specification name,default assignment\n\tFile Server (Intel),NONE\n\
    'size,% of size,% reads,% random,delay,burst,align,reply\n\
    \t512,10,80,100,0,1,0,0\n\t1024,5,80,100,0,1,0,0\n\
    \t2048,5,80,100,0,1,0,0\n\t4096,60,80,100,0,1,0,0\n\
    \t8192,2,80,100,0,1,0,0\n\t16384,4,80,100,0,1,0,0\n\
    \t32768,4,80,100,0,1,0,0\n\t65536,10,80,100,0,1,0,0\n\
    'Access specification name,default assignment\n\tlog, paced,ALL\n\
    'size,% of size,% reads,% random,delay,burst,align,reply\n\t65536,100,0,0,20,4,65536,0\n\
    'END access specifications\n\
    'MANAGER LIST ==================================================================\n\
    'Manager ID, manager name\n\t1,HOST\n'Manager network address\n\t\n\
    'Worker\n\tWorker 1\n'Worker type\n\tDISK\n\
    'Default target settings for worker\n\
    'Number of outstanding IOs,test connection rate,transactions per connection\n\t16,DISABLED,1\n\
    'Disk maximum size,starting sector\n\t2097152,0\n\
    'End default target settings for worker\n\
    'Assigned access specs\n\tFile Server (Intel)\n\tlog, paced\n'End assigned access specs\n\
    'Target assignments\n'Target\n\tC: \"System\"\n'Target type\n\tDISK\n'End target\n\
    'End target assignments\n\
    'End worker\n'End manager\n\
    'END manager list\nVersion 1.1.0 \n";

fn import(text: &str) -> (Vec<Profile>, Vec<String>) {
    let (group, notes) =
        import_icf("test.icf", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    (group.entries.into_iter().flat_map(|entry| entry.profiles).collect(), notes)
}

#[test]
fn access_specifications_become_profiles_and_the_rest_is_said() {
    let (group, notes) = import_icf("lab/test.icf", ICF.as_bytes()).unwrap();
    let profiles: Vec<&Profile> = group.entries.iter().map(|entry| &entry.profiles[0]).collect();
    let classic: Profile = "iometer-file-server".parse().unwrap();
    assert_eq!(profiles[0].load().components, classic.load().components);
    assert_eq!((profiles[0].name(), group.name.as_str()), ("file-server-intel", "test"));
    assert_eq!(
        profiles[1].description(),
        "sequential, write, 64 KiB, in 0..1G, 20ms pause after 4, 16 outstanding, for 630s after a \
            ramp of 30s"
    );
    assert_eq!(
        notes,
        [
            "lab/test.icf:2: of the section 'test setup' only run time, ramp-up time and queue \
                depths are taken",
            "lab/test.icf:11: 'NUMBER_OF_CPUS' is left out; use --workers and the number of \
                processors when measuring",
            "lab/test.icf:18: of the section 'results display' nothing is taken: it is no part of \
                a load profile",
            "lab/test.icf:39: of the section 'manager list' only outstanding I/Os, parts of disks \
                and assignments of disk workers are taken",
            "lab/test.icf:24: 'File Server (Intel)' becomes the load profile 'file-server-intel'",
            "lab/test.icf:35: 'log, paced' becomes the load profile 'log-paced'",
        ]
    );
}

#[test]
fn what_is_imported_is_a_catalogs_file() {
    let (group, _) = import_icf("test.icf", ICF.as_bytes()).unwrap();
    let mut catalog = crate::Catalog::builtin().clone();
    catalog.read("test.toml", &group.to_toml()).unwrap();
    let profile = &catalog.select("file-server-intel").unwrap()[0];
    assert_eq!(
        (profile.read_percent(), profile.load().runtime),
        (80, Some(Duration::from_secs(630)))
    );
}

/// Real file variants: in a Windows code page, in UTF-16, with a byte order mark, with CRLF, and
/// with an idle specification.
#[test]
fn real_files_are_read() {
    let names = ["512-b-100-read-0-random", "4-kib-50-read-100-random", "64-kib-0-read-0-random"];
    for (file, content) in [
        ("cp1252", &include_bytes!("samples/cp1252.icf")[..]),
        ("utf16", include_bytes!("samples/utf16.icf")),
        ("bom", include_bytes!("samples/bom.icf")),
        ("crlf", include_bytes!("samples/crlf.icf")),
    ] {
        let (group, _) = import_icf("real.icf", content).unwrap();
        let profiles: Vec<Profile> = group.profiles();
        assert_eq!(profiles.iter().map(Profile::name).collect::<Vec<_>>(), names, "{file}");
        // A worker without a number of outstanding I/Os uses one.
        let second = "random, 50% read, 4 KiB, 1 outstanding, for 60s";
        assert_eq!(profiles[1].description(), second, "{file}");
        assert_eq!(profiles[1].load().ramp, Some(Duration::ZERO), "{file}");
    }
    let (group, notes) = import_icf("idle.icf", include_bytes!("samples/idle.icf")).unwrap();
    assert_eq!(group.profiles()[0].description(), "random, 67% read, 8 KiB");
    let refusal = "idle.icf:6: the access specification 'Idle' is not imported: its size is 0 \
                   bytes, which makes it idle; omit it, or give a size such as 4096";
    assert!(notes.iter().any(|note| note == refusal), "{notes:?}");
}

#[test]
fn outstanding_requests_are_those_of_a_target() {
    let log = |from: &str, to: &str| {
        let (profiles, notes) = import(&ICF.replacen(from, to, 1));
        let load = profiles[1].load().clone();
        (load.outstanding.map(|ladder| ladder.to_string()).unwrap_or_default(), notes)
    };
    assert_eq!(log("NORMAL", "CYCLE_OUTSTANDING_IOS").0, "1..32");
    let worker = ICF.split("'Worker\n").nth(1).unwrap().split("'End manager").next().unwrap();
    let second = format!("'Worker\n{}'End manager", worker.replacen("\t16,", "\t8,", 1));
    let (depth, notes) = log("'End manager", &second);
    assert_eq!(depth, "24");
    assert!(
        notes
            .iter()
            .any(|note| note.contains("2 workers run 'log, paced' on one target; use --workers 2")),
        "{notes:?}"
    );
    let elsewhere = second.replacen("C: \"System\"", "D: \"Data\"", 1);
    let (depth, notes) = log("'End manager", &elsewhere);
    assert_eq!(depth, "16");
    assert!(
        notes.iter().any(|note| note.contains("have different numbers of outstanding I/Os")),
        "{notes:?}"
    );
    let (depth, notes) = log("\tlog, paced\n'End assigned", "'End assigned");
    assert_eq!(depth, "16");
    assert!(notes.iter().any(|note| note.contains("no worker runs 'log, paced'")), "{notes:?}");
    let network = ICF.replacen("\tDISK\n'Default", "\tNETWORK,TCP\n'Default", 1);
    let (profiles, notes) = import(&network);
    assert_eq!(profiles[1].load().outstanding, None);
    assert!(notes.iter().any(|note| note.contains("'Worker 1' is for networks")), "{notes:?}");
}

#[test]
fn workers_with_parts_of_their_own_are_components() {
    let worker = ICF.split("'Worker\n").nth(1).unwrap().split("'End manager").next().unwrap();
    let second =
        format!("'Worker\n{}'End manager", worker.replacen("2097152,0", "2097152,4194304", 1));
    let (profiles, _) = import(&ICF.replacen("'End manager", &second, 1));
    let areas: Vec<String> =
        profiles[1].load().components.iter().map(|component| component.area.to_string()).collect();
    assert_eq!(areas, ["0..1G", "2G..3G"]);
}

#[test]
fn what_cannot_be_taken_of_the_setup_is_said() {
    for (from, to, part) in [
        (
            "0          10         30",
            "0 0 0",
            "test.icf:7: '0 0 0' runs until it is stopped; use --runtime",
        ),
        (
            "0          10         30",
            "ten",
            "test.icf:7: 'ten' is no run time and is left out; expected hours",
        ),
        (
            "\t30\n",
            "\tlong\n",
            "test.icf:9: 'long' is no ramp-up time and is left out; expected seconds",
        ),
        ("1 32 2 EXPONENTIAL", "1 to 32", "test.icf:14: '1 to 32' are no queue depths"),
        (
            "NORMAL",
            "CYCLE_WORKERS",
            "test.icf:16: the test type 'CYCLE_WORKERS' cycles through workers or targets",
        ),
        (
            "\t16,",
            "\tfew,",
            "'few,DISABLED,1' begins with no number of outstanding I/Os; 1 is taken",
        ),
        ("\t2097152,0", "\tall", "'all' is no part of a disk and is left out"),
    ] {
        let (_, notes) = import(&ICF.replacen(from, to, 1));
        assert!(notes.iter().any(|note| note.contains(part)), "{to}: {notes:?}");
    }
}

#[test]
fn a_wrong_specification_is_refused_alone() {
    for (from, to, part) in [
        (
            "\t512,10,80",
            "\t512,11,80",
            "test.icf:24: the access specification 'File Server (Intel)' is not imported: the \
             shares of its kinds of requests add up to 101 %; they must add up to 100 %",
        ),
        (
            "\t512,10,80",
            "\t500,10,80",
            "test.icf:26: the access specification 'File Server (Intel)' is not imported: a size \
                of 500 bytes is not whole sectors; give",
        ),
        (
            "\t512,10,80",
            "\t512,10,180",
            "180 % reads is more than 100 %; give a percentage from 0 to 100",
        ),
        (
            "\t512,10,80,100,0,1,0,0",
            "\t512,10,80,100,0,1",
            "'512,10,80,100,0,1' has 6 numbers; expected eight",
        ),
        (
            "\t512,10,80",
            "\tmany,10,80",
            "'many,10,80,100,0,1,0,0' is not a list of whole numbers; expected eight",
        ),
        (
            "\t512,10,80,100,0,1,0,0",
            "\t512,10,80,100,0,1,100,0",
            "an alignment of 100 B is not whole 512-byte sectors",
        ),
    ] {
        let (profiles, notes) = import(&ICF.replacen(from, to, 1));
        assert_eq!(profiles.iter().map(Profile::name).collect::<Vec<_>>(), ["log-paced"], "{to}");
        assert!(notes.iter().any(|note| note.contains(part)), "{to}: {notes:?}");
    }
    let none = ICF.replacen("'ACCESS SPEC", "'OTHER SPEC", 1);
    let error = import_icf("test.icf", none.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("test.icf:1: there is no access specification in this file"), "{error}");
    let idle = "'ACCESS SPECIFICATIONS ===\n'Access specification name,default \
        assignment\n\tIdle,NONE\n'size\n\t0,100,0,0,0,1,0,0\n";
    let error = import_icf("test.icf", idle.as_bytes()).unwrap_err().to_string();
    assert!(
        error
            .contains("test.icf:5: the access specification 'Idle' is not imported: its size is 0"),
        "{error}"
    );
}
