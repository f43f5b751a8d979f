//! Replies, refusals, and commands to the controller, with recorded data.

mod common;

use common::Picture;
use controller::{AlarmSetting, Command, ErrorKind, EventCode, Startable, WriteMode};
use std::collections::BTreeSet;
use storcli::{Program, of_event};

/// The output of a command that must succeed.
fn ok(line: &str) -> String {
    let output = Picture::default().run(line);
    assert_eq!(output.code, 0, "{line}: {}", output.text);
    output.text
}

/// The commands that a successful command sends to the controller.
fn asked(line: &str) -> Vec<Command> {
    let mut picture = Picture::default();
    let output = picture.run(line);
    assert_eq!(output.code, 0, "{line}: {}", output.text);
    picture.asked
}

fn json(line: &str) -> serde_json::Value {
    let output = Picture::default().run(&format!("{line} J"));
    let value: serde_json::Value = serde_json::from_str(&output.text).expect(&output.text);
    value["Controllers"][0].clone()
}

#[test]
fn everything_that_is_shown_is_shown_in_both_forms() {
    for line in [
        "show",
        "/c0 show",
        "/c0 show all",
        "/call/vall show all",
        "/c0/vall show cc",
        "/c0/vall show init",
        "/c0/vall show bgi",
        "/c0/vall show migrate",
        "/c0/vall show expansion",
        "/c0/vall show autobgi",
        "/c0/eall show",
        "/c0/eall show all",
        "/c0/eall/sall show",
        "/c0/eall/sall show all",
        "/c0/sall show rebuild",
        "/c0/sall show erase",
        "/c0/dall show all",
        "/c0/d0 show",
        "/c0/fall show all",
        "/c0 show events",
        "/c0 show events type=latest=2 filter=warning,fatal",
        "/c0 show patrolread",
        "/c0 show cc",
        "/c0 show time",
        "/c0 show preservedcache",
        "/c0 show freespace",
        "/c0 show rebuildrate",
        "/c0 show eghs",
        "/c0 show copyback",
        "/c0 show temperature",
    ] {
        assert!(ok(line).contains("\nStatus = Success\n"), "{line}");
        let all = json(line);
        assert_eq!(all["Command Status"]["Status"], "Success", "{line}");
        assert!(
            all["Response Data"].is_object() || all["Response Data"].is_array(),
            "{line}: {all}"
        );
    }
}

#[test]
fn tables_stand_in_columns_and_rulers_are_as_long_as_their_rows() {
    for line in
        ["/c0 show all", "/c0/vall show all", "/c0/eall/sall show all", "/c0/dall show all", "show"]
    {
        let text = ok(line);
        let mut lines = text.lines().peekable();
        let mut tables = 0;
        while let Some(ruler) = lines.next() {
            if !ruler.starts_with("---") {
                continue;
            }
            tables += 1;
            let width = ruler.chars().count();
            let head = lines.next().expect("the names of columns");
            assert_eq!(head.chars().count(), width, "{line}: {head}");
            assert_eq!(lines.next(), Some(ruler), "{line}");
            for row in lines.by_ref().take_while(|row| *row != ruler) {
                assert_eq!(row.chars().count(), width, "{line}: {row}");
            }
        }
        assert!(tables > 0, "{line}: {text}");
    }
}

#[test]
fn states_are_in_the_words_of_tools() {
    let data = json("/c0 show all")["Response Data"].clone();
    assert_eq!(data["Status"]["Controller Status"], "Degraded");
    let states = |list: &str| -> Vec<String> {
        let rows = data[list].as_array().unwrap().iter();
        rows.map(|row| row["State"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(states("VD LIST"), ["Pdgd", "Optl"]);
    for state in ["Onln", "Offln", "DHS", "GHS"] {
        assert!(states("PD LIST").contains(&state.to_owned()), "{state}: {data}");
    }
    let topology = data["TOPOLOGY"].as_array().unwrap();
    let of_second: Vec<&serde_json::Value> = topology.iter().filter(|row| row["DG"] == 1).collect();
    assert_eq!(of_second.len(), 1 + 2 + 4, "a group, two spans, four drives");
    assert_eq!((&of_second[0]["Type"], &of_second[1]["Type"]), (&"RAID10".into(), &"RAID1".into()));
    assert_eq!((&of_second[6]["Arr"], &of_second[6]["Row"]), (&1.into(), &1.into()));
    assert_eq!(data["HwCfg"]["ROC temperature(Degree Celsius)"], 45);
    let perc = Picture::default().run_as(Program::PercCli, "/c0 show all J").text;
    assert!(
        perc.contains("\"Ctrl temperature(Degree Celsius)\" : 45")
            && perc.contains("\"BBU_Info\" : [")
    );
}

/// Regression: a volume under background initialisation was shown without an active operation.
#[test]
fn the_background_initialisation_is_in_progress() {
    let rows = json("/c0/vall show bgi")["Response Data"]["VD Operation Status"].clone();
    assert_eq!(
        (&rows[0]["Operation"], &rows[0]["Status"]),
        (&"BGI".into(), &"Not in progress".into())
    );
    assert_eq!((&rows[1]["Progress%"], &rows[1]["Status"]), (&75.into(), &"In progress".into()));
    let second = json("/c0/v1 show all")["Response Data"]["VD1 Properties"].clone();
    assert_eq!(second["Active Operations"], "Background Initialization (75%)");
}

#[test]
fn the_alarm_is_the_controllers_own() {
    let all = json("/c0 show alarm");
    assert_eq!(all["Response Data"]["Controller Properties"][0]["Value"], "ON", "{all}");
    assert_eq!(json("/c0 show all")["Response Data"]["HwCfg"]["Alarm"], "On");
    for (word, to) in
        [("on", AlarmSetting::On), ("off", AlarmSetting::Off), ("silence", AlarmSetting::Silence)]
    {
        assert_eq!(asked(&format!("/c0 set alarm={word}")), [Command::AlarmSet { to }]);
    }
}

#[test]
fn a_suspended_drive_is_resumed_first() {
    for (line, count) in [("/c0/s1 set online", 1), ("/c0/s1 set missing", 2)] {
        let mut picture = Picture { suspended: true, ..Picture::default() };
        assert_eq!(picture.run(line).code, 0, "{line}");
        assert_eq!(picture.asked.len(), count, "{line}");
        assert!(
            matches!(picture.asked[0], Command::DriveResume { .. }),
            "{line}: {:?}",
            picture.asked
        );
    }
}

#[test]
fn changes_ask_the_controller_for_what_they_say() {
    let [Command::VolumePolicy(policy), Command::VolumePolicy(reads)] =
        &asked("/c0/v0 set wrcache=awb rdcache=ra")[..]
    else {
        panic!()
    };
    assert_eq!(reads.read_mode, Some(controller::ReadMode::ReadAhead));
    assert_eq!(policy.write_mode, Some(WriteMode::AlwaysWriteBack));
    let [Command::TaskStart(start)] = &asked("/c0/v1 start init full force")[..] else { panic!() };
    assert!(start.what == Startable::InitFull && !start.disconnect_hosts);
    let [Command::VolumeDelete { disconnect_hosts: false, .. }] = &asked("/c0/v1 del force")[..]
    else {
        panic!()
    };
    assert_eq!(asked("/c0/vall del force discardcache").len(), 4, "each is given up, then deleted");
    let [Command::VolumeCreate(create)] =
        &asked("/c0 add vd r10 drives=252:8,9 name=x size=1.5gb strip=128 pdperarray=2 wb")[..]
    else {
        panic!()
    };
    assert_eq!(
        (create.spans, create.strip_bytes, create.size_bytes),
        (Some(1), Some(128 << 10), Some(3 << 29))
    );
    assert!(
        create.write_mode == Some(WriteMode::WriteBack)
            && !create.destroy_data
            && create.drives.len() == 2
    );
    let [Command::VolumeCreate(first), Command::VolumeCreate(second)] =
        &asked("/c0 add vd each r0 drives=252:8-9")[..]
    else {
        panic!()
    };
    assert!(first.name != second.name && first.drives != second.drives && first.level == "jbod");
    let [Command::SpareAdd(spare)] =
        &asked("/c0/s8 add hotsparedrive dgs=1 enclaffinity nonrevertible")[..]
    else {
        panic!()
    };
    assert!(spare.volumes.len() == 1 && spare.same_enclosure && !spare.revertible);
    let [Command::DriveReplace { drive, destroy_data: false, .. }] =
        &asked("/c0/s8 insert dg=1 array=1 row=0")[..]
    else {
        panic!()
    };
    assert!(drive.ends_with(":2"), "{drive}");
    assert!(matches!(
        asked("/c0/s1 set missing")[..],
        [Command::DriveOnline { .. }, Command::DriveFail { .. }]
    ));
    assert!(matches!(asked("/c0/s1 set online")[..], [Command::DriveOnline { .. }]));
    assert!(matches!(asked("/c0/s0 start locate")[..], [Command::DriveLocate { on: true, .. }]));
    assert_eq!(asked("/c0/s4-7 set offline").len(), 4);
    assert_eq!(asked("/c0 set eghs state=on").len(), 2, "a policy for each array");
    assert_eq!(asked("/c0 flushcache").len(), 2);
}

#[test]
fn what_is_refused_asks_the_controller_nothing() {
    for (line, words) in [
        ("/c0", "syntax error"),
        ("/c0 frob", "Un-supported command"),
        ("/c0/v0 del", "use 'force' option"),
        ("/c0/v0 delete", "use 'force' option"),
        ("/c0/v0 delete cachecade", "Un-supported command"),
        ("/c0/v0 start init full", "use 'force' option"),
        ("/c0/v0 start migrate frob", "Un-supported command"),
        ("/c0/v0 stop migrate", "Un-supported command"),
        ("/c0/v9 expand size=1gb", "VD doesn't exist"),
        ("/c0/v0 set accesspolicy=ro", "volumes are always read-write"),
        ("/c0/v0 set frob=on", "Un-supported command"),
        ("/c0/v9 set name=x", "VD doesn't exist"),
        ("/c0/s0-99 set offline", "No drive found!"),
        ("/c0/s0 set missing", "set it offline first"),
        ("/c0/s0 stop rebuild", "Rebuild is not in progress"),
        ("/c0/s0 start erase", "Un-supported command"),
        ("/c0 add vd r5", "drives are missing"),
        ("/c0 add vd drives=252:8", "level is missing"),
        ("/c0 add vd r5 drives=252:8,252:77", "there is no drive 252:77"),
        ("/c0 add vd r1 drives=252:8-9,0", "give r10"),
        ("/c0 add vd r10 drives=252:8-9,0 pdperarray=2", "cannot be divided"),
        ("/c0 add vd r0 drives=252:8 reada", "is not an option of 'add vd'"),
        ("/c0 set patrolread=maybe", "give patrolread=on"),
        ("/c0 set cc=seq", "give cc=conc"),
        ("/c0 set rebuildrate=0", "a share from 1 to 100"),
        ("/c0/cv start learn", "Un-supported command"),
        ("/c0 show all logfile=x", "log files are not supported"),
        ("/c0 set config file=nowhere", "there is no nowhere"),
    ] {
        let mut picture = Picture::default();
        let output = picture.run(line);
        assert!(
            output.code != 0 && output.text.contains("\nStatus = Failure\n"),
            "{line}: {}",
            output.text
        );
        assert!(output.text.contains(words), "{line}: {}", output.text);
        assert!(picture.asked.is_empty(), "{line}: {:?}", picture.asked);
    }
}

#[test]
fn what_the_controller_refuses_has_its_sentence_and_a_number() {
    for (kind, number) in [
        (ErrorKind::InUse, 11),
        (ErrorKind::WrongState, 50),
        (ErrorKind::LosesData, 50),
        (ErrorKind::Failed, 255),
    ] {
        for line in [
            "/c0/v0 set wrcache=wb",
            "/c0/s0 set offline",
            "/c0 flushcache",
            "/c0 add vd r0 drives=252:8",
        ] {
            let mut picture = Picture { refuses: Some(kind), ..Picture::default() };
            let output = picture.run(line);
            assert_eq!(i32::from(output.code), number, "{line}");
            assert!(output.text.contains("the controller says no"), "{line}: {}", output.text);
        }
    }
}

#[test]
fn a_configuration_is_saved_and_restored() {
    let mut picture = Picture::default();
    assert_eq!(picture.run("/c0 get config file=c.toml").code, 0);
    assert!(picture.written[0].1.starts_with("format"), "{:?}", picture.written);
    let output = picture.run("/c0 set config file=c.toml");
    assert_eq!(output.code, 0, "{}", output.text);
    assert!(output.text.contains("Description = Set Config Succeeded."), "{}", output.text);
    picture.left =
        vec!["volume data: existence: none -> raid5 [stays: a drive is in use]".to_owned()];
    let output = picture.run("/c0 set config file=c.toml");
    assert_eq!(output.code, 255, "{}", output.text);
    assert!(
        output.text.contains(
            "[stays: a drive is in use] (and 0 more); run 'softroc config restore c.toml"
        )
    );
    picture.written[0].1 = "{}".to_owned();
    let output = picture.run("/c0 set config file=c.toml");
    assert!(output.code == 3 && output.text.contains("no saved configuration"), "{}", output.text);
    for other in ["/c0 get config", "/c0 get config file=", "/c0 set config folder=x"] {
        assert!(picture.run(other).text.contains("Un-supported command"), "{other}");
    }
}

/// Event watchers split the text at these lines, in this order.
#[test]
fn events_are_blocks_of_lines_in_an_order() {
    let text = ok("/c0 show events");
    let blocks: Vec<&str> = text.split("seqNum: ").skip(1).collect();
    assert!(blocks.len() > 5, "{text}");
    for block in blocks {
        let lines: Vec<&str> = block.lines().collect();
        let is_hex = |text: &str, digits: usize| {
            text.strip_prefix("0x")
                .is_some_and(|hex| hex.len() == digits && u64::from_str_radix(hex, 16).is_ok())
        };
        assert!(is_hex(lines[0], 8), "{block}");
        let value = |at: usize, name: &str| {
            lines[at].strip_prefix(name).unwrap_or_else(|| panic!("{name}{block}"))
        };
        assert_eq!(value(1, "Time: ").split_whitespace().count(), 5, "{block}");
        assert_eq!(lines[2], "");
        assert!(is_hex(value(3, "Code: "), 8) && is_hex(value(5, "Locale: "), 2), "{block}");
        assert!((0..4).contains(&value(4, "Class: ").parse::<i32>().unwrap()), "{block}");
        assert!(!value(6, "Event Description: ").is_empty());
        assert_eq!(lines[7..9], ["Event Data:", "==========="]);
        assert!(!lines[9].is_empty(), "{block}");
    }
}

#[test]
fn every_event_has_a_number_of_its_own() {
    let numbers: BTreeSet<u16> = EventCode::ALL.iter().map(|code| of_event(code.code())).collect();
    assert_eq!(numbers.len(), EventCode::ALL.len());
}
