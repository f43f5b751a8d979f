//! Lines of public scripts, with the replies that they parse, on recorded data.

mod common;

use common::{Picture, ROOM};
use controller::{
    CacheMode, Command, CreateVolume, ErrorKind, ReadMode, Scheduled, SetSchedule, WriteMode,
};
use serde_json::Value;
use storcli::Program;

/// The exit code, the reply as text, and the commands to the controller.
fn run(mut picture: Picture, line: &str) -> (u8, String, Vec<Command>) {
    let output = picture.run(line);
    (output.code, output.text, picture.asked)
}

/// The commands that a successful line sends to the controller.
fn asked(line: &str) -> Vec<Command> {
    let (code, text, asked) = run(Picture::default(), line);
    assert_eq!(code, 0, "{line}: {text}");
    asked
}

/// The reply as JSON.
fn json(mut picture: Picture, line: &str) -> Value {
    let output = picture.run(&format!("{line} J"));
    let value: Value = serde_json::from_str(&output.text).expect(&output.text);
    value["Controllers"][0].clone()
}

/// A refused line: its exit code and sentence, as text and as JSON, without commands to the
/// controller.
fn refused(picture: fn() -> Picture, line: &str, code: u8, sentence: &str) {
    let (found, text, asked) = run(picture(), line);
    assert!(text.contains("\nStatus = Failure\n") && text.contains(sentence), "{line}: {text}");
    assert!(found == code && asked.is_empty(), "{line}: {found} {asked:?} {text}");
    let status = json(picture(), line)["Command Status"].clone();
    assert_eq!(status["Status"], "Failure", "{line}");
    let row = &status["Detailed Status"][0];
    assert_eq!(row["ErrCd"], code, "{line}: {status}");
    assert!(
        row["ErrMsg"].as_str().is_some_and(|message| message.contains(sentence)),
        "{line}: {status}"
    );
}

fn without_volumes() -> Picture {
    Picture { no_volumes: true, ..Picture::default() }
}

fn creations(asked: &[Command]) -> Vec<&CreateVolume> {
    let creations = asked.iter().map(|command| match command {
        Command::VolumeCreate(create) => create,
        other => panic!("{other:?}"),
    });
    creations.collect()
}

#[test]
fn delete_is_del() {
    for line in ["/c0/v0 delete force", "/c0/v0 del force", "/c0/v0 DELETE FORCE"] {
        let deletes = asked(line);
        assert!(matches!(&deletes[..], [Command::VolumeDelete { .. }]), "{line}: {deletes:?}");
    }
    assert_eq!(asked("/c0/vall delete force").len(), 2);
    assert_eq!(asked("/c0/vall del force").len(), 2);
    assert_eq!(asked("/call /vall delete force discardcache").len(), 4);
    assert!(matches!(&asked("/c0/v0 delete preservedcache")[..], [Command::LogDiscard(_)]));
    for line in ["/c0/v0 delete", "/call /vall delete"] {
        refused(Picture::default, line, 255, "VD may hold data, use 'force' option");
    }
    let (code, text, _) = run(without_volumes(), "/c0/vall delete force");
    assert!(code == 12 && text.contains("Description = No VD's have been configured."), "{text}");
    assert!(
        !text.contains("Detailed Status"),
        "there is nothing of which there could be details: {text}"
    );
}

#[test]
fn sizes_and_names_are_lists() {
    for word in ["name", "names"] {
        let line = format!(
            "/c0 add vd type=raid10 size=10mb,5mb,5mb {word}=tmp1,tmp2,tmp3 drives=252:2-3,5,7 \
                pdperarray=2"
        );
        let asked = asked(&line);
        let created = creations(&asked);
        let found: Vec<_> = created.iter().map(|one| (one.name.as_str(), one.size_bytes)).collect();
        assert_eq!(
            found,
            [("tmp1", Some(10 << 20)), ("tmp2", Some(5 << 20)), ("tmp3", Some(5 << 20))]
        );
        assert!(created.iter().all(|one| one.spans == Some(2) && one.level == "raid10"));
        assert_eq!(created[0].drives.len(), 4);
    }
    let one = asked("/c0 add vd type=raid5 size=all names=tmp1 drives=252:2-4");
    assert_eq!((creations(&one)[0].name.as_str(), creations(&one)[0].size_bytes), ("tmp1", None));
    // Volumes without a chosen name are named after their numbers.
    let some = asked("/c0 add vd r10 size=10mb,all name=first drives=252:8-9");
    let names: Vec<&str> = creations(&some).iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["first", "vd3"]);
    for (words, sentence) in [
        ("size=1gb names=a,b", "2 names for 1 volumes"),
        ("size=1gb,1gb names=a,a", "a name of its own"),
        ("names=a,", "a name of its own"),
        ("size=1gb,none", "'none' is not a size, such as 10gb"),
    ] {
        refused(Picture::default, &format!("/c0 add vd r5 drives=252:2-4 {words}"), 3, sentence);
    }
    // The error of the second volume is reported with the volumes created before.
    let both = "/c0 add vd r10 size=10mb,all name=first drives=252:8-9";
    let (code, text, _) = run(Picture { room_for: Some(1), ..Picture::default() }, both);
    assert!(code == 32 && text.contains("no room; created before that: first"), "{text}");
    let (code, text, _) = run(Picture { room_for: Some(0), ..Picture::default() }, both);
    assert!(code == 32 && !text.contains("created before"), "{text}");
}

#[test]
fn names_may_have_spaces_in_quotes() {
    for word in ["name=OS disk", "name=\"OS disk\"", "NAME='OS disk'"] {
        let mut picture = Picture::default();
        let words = ["/c0", "add", "vd", "r1", "drives=252:8-9", word];
        let output = picture.run_words(Program::StorCli, words);
        assert!(
            output.code == 0 && output.text.contains("'OS disk' is named 'OS_disk'"),
            "{}",
            output.text
        );
        assert_eq!(creations(&picture.asked)[0].name, "OS_disk");
        assert_eq!(creations(&picture.asked)[0].level, "raid1");
    }
    let mut picture = Picture::default();
    let output = picture.run_words(Program::StorCli, ["/c0/v0", "set", "name=OS disk"]);
    assert!(
        output.code == 0 && output.text.contains("Name     OS_disk Success"),
        "{}",
        output.text
    );
}

#[test]
fn a_volume_without_a_name_is_called_after_its_number() {
    let first = asked("/c0 add vd type=r10 drives=252:8,9 wt nora");
    assert_eq!(creations(&first)[0].name, "vd2");
    // Numbers of deleted volumes are not reused.
    let mut picture = Picture { deleted: 5, ..without_volumes() };
    assert_eq!(picture.run("/c0 add vd type=r0 drives=252:8 nora wt strip=256").code, 0);
    let [Command::VolumeCreate(create), Command::VolumeSet { name, .. }] = &picture.asked[..]
    else {
        panic!("{:?}", picture.asked)
    };
    assert_eq!((create.name.as_str(), name.as_str()), ("vd0", "vd5"));
    assert_eq!((create.level.as_str(), create.strip_bytes), ("jbod", Some(256 << 10)));
    // A chosen name stays.
    let mut picture = Picture { deleted: 5, ..without_volumes() };
    assert_eq!(picture.run("/c0 add vd r0 name=x drives=252:8").code, 0);
    assert_eq!(picture.asked.len(), 1);
}

#[test]
fn words_of_older_tools_are_taken() {
    for line in [
        "/c0 add vd r0 size=all drives=252:8 WB RA Cache",
        "/c0 add vd type=raid0 drives=252:8 rdpolicy=RA wrcache=WB iopolicy=Cached",
    ] {
        let asked = asked(line);
        let created = creations(&asked)[0];
        let modes = (created.write_mode, created.read_mode, created.cache_mode);
        let wanted =
            (Some(WriteMode::WriteBack), Some(ReadMode::ReadAhead), Some(CacheMode::Cached));
        assert_eq!(modes, wanted, "{line}");
    }
    let line = "/c0 add vd type=raid10 size=all drives=252:4-7 pdperarray=2 wb ra direct strip=256";
    let asked = asked(line);
    let created = creations(&asked)[0];
    assert_eq!((created.cache_mode, created.spans), (Some(CacheMode::Direct), Some(2)));
    refused(
        Picture::default,
        "/c0 add vd r0 drives=252:8 wrcache=fast",
        3,
        "wrcache=fast is not a cache mode, such as wt, wb",
    );
}

/// The properties in the reply to a line.
fn properties(line: &str) -> Vec<(String, String)> {
    let answer = json(Picture::default(), line);
    assert_eq!(answer["Command Status"]["Status"], "Success", "{line}: {answer}");
    assert_eq!(answer["Command Status"]["Description"], "None", "{line}");
    let rows = answer["Response Data"]["Controller Properties"].as_array().expect("a list").clone();
    let of = |row: &Value, key: &str| row[key].as_str().expect("text").to_owned();
    rows.iter().map(|row| (of(row, "Ctrl_Prop"), of(row, "Value"))).collect()
}

#[test]
fn properties_are_answered_as_they_are_then() {
    for (line, name, value) in [
        ("/c0 set jbod=off", "JBOD", "OFF"),
        ("/c0 set jbod=off force", "JBOD", "OFF"),
        ("/c0 set rebuildrate=60", "Rebuildrate", "60%"),
        ("/c0 set alarm=silence", "Alarm", "SILENCE"),
        ("/c0 set copyback=off type=all", "Copyback", "OFF"),
        ("/c0 set prrate=10", "Patrol Read Rate", "10%"),
        ("/c0 set autorebuild=on", "AutoRebuild", "ON"),
    ] {
        assert_eq!(properties(line), [(name.to_owned(), value.to_owned())], "{line}");
    }
    assert!(asked("/c0 set jbod=off force").is_empty());
    for line in ["/c0 set jbod=on", "/c0 set jbod=on force"] {
        refused(
            Picture::default,
            line,
            3,
            "create a RAID 0 per drive with 'add vd each r0 drives=252:0-3'",
        );
    }
    for line in ["/c0 set rebuildrate=60", "/c0 set copyback=on", "/c0 set eghs state=on"] {
        refused(without_volumes, line, 50, "is a property of drive groups, and there is no group");
    }
    refused(without_volumes, "/c0 set cc=conc", 50, "no volume has redundancy to check");
    refused(
        Picture::default,
        "/c0 set rebuildrate=101",
        3,
        "rebuildrate=101 is not a share from 1 to 100",
    );
}

#[test]
fn the_patrol_has_a_period() {
    let set = |on, every_days| SetSchedule {
        what: Scheduled::Patrol,
        on: Some(on),
        every_days,
        ..SetSchedule::default()
    };
    for (line, on, every_days) in [
        // Enabled in the recorded data.
        ("/c0 set patrolread delay=720", true, Some(30)),
        ("/c0 set patrolread=on mode=auto delay=168", true, Some(7)),
        ("/c0 set patrolread=on mode=auto", true, None),
        ("/c0 set patrolread mode=auto", true, None),
        ("/c0 set patrolread=on mode=manual includessds=on uncfgareas=on", false, None),
        ("/c0 set patrolread=off", false, None),
    ] {
        assert_eq!(asked(line), [Command::TaskSchedule(set(on, every_days))], "{line}");
    }
    let rows = properties("/c0 set patrolread delay=720");
    assert_eq!(rows[1], ("PR Execution Delay".to_owned(), "720 hours".to_owned()));
    for (words, sentence) in [
        (" delay=100", "delay=100 is not a number of whole days in hours"),
        ("=off mode=auto", "give patrolread=on mode=auto"),
        ("", "give patrolread=on mode=auto"),
        (" mode=auto starttime=2026/12/30 00", "run 'softroc task schedule patrol --at 03:00'"),
        ("=on includessds=off", "includessds=off: a patrol read covers all drives completely"),
        ("=on frob", "frob: the options of patrol reads are on, off, mode and delay"),
    ] {
        refused(Picture::default, &format!("/c0 set patrolread{words}"), 3, sentence);
    }
}

#[test]
fn nothing_foreign_is_no_failure_but_of_details_and_imports() {
    let nothing = || Picture { nothing_foreign: true, ..Picture::default() };
    for line in ["/c0/fall show", "/c0/fall del", "/c0/fall delete"] {
        let (code, text, asked) = run(nothing(), line);
        assert!(code == 0 && asked.is_empty(), "{line}: {text}");
        let lines = "\nStatus = Success\nDescription = Couldn't find any foreign \
            Configuration\n\nTotal Foreign PDs = 0\n";
        assert!(text.contains(lines), "{line}: {text}");
        assert_eq!(json(nothing(), line)["Response Data"]["Total Foreign PDs"], 0);
    }
    for line in ["/c0/fall show all", "/c0/fall import", "/c0/fall import preview"] {
        refused(nothing, line, 50, "No foreign configuration found.");
    }
    let (_, text, asked) = run(Picture::default(), "/c0/fall del");
    assert!(
        matches!(&asked[..], [Command::ForeignClear { drives }] if drives.len() == 2),
        "{asked:?}"
    );
    assert!(text.contains("Description = Successfully deleted foreign configuration"), "{text}");
}

#[test]
fn volumes_migrate() {
    let order = |line: &str| match &asked(line)[..] {
        [Command::VolumeReshape(order)] => order.clone(),
        other => panic!("{line}: {other:?}"),
    };
    let of_second = order("/c0/v1 start migrate type=raid6 option=add drives=252:8");
    assert_eq!((of_second.level.as_deref(), of_second.add.len()), (Some("raid6"), 1));
    assert!(of_second.add[0].ends_with("d8.img") && !of_second.destroy_data && !of_second.dry_run);
    // With the same level, it gets more drives and is otherwise unchanged.
    let more = order("/c0/v1 start migrate type=r10 option=add drives=252:8-9 force");
    assert!(more.level.is_none() && more.add.len() == 2 && more.destroy_data);
    assert_eq!(order("/c0/v1 start migrate type=raid6").level.as_deref(), Some("raid6"));
    assert_eq!(order("/c0/v0 start migrate type=raid6 option=remove drives=252:3").remove.len(), 1);
    let (_, text, _) = run(Picture::default(), "/c0/v1 start migrate type=raid6");
    assert!(text.contains("\nDescription = Start Reconstruction Operation Success\n"), "{text}");
    let (code, text, _) = run(
        Picture { refuses: Some(ErrorKind::WrongState), ..Picture::default() },
        "/c0/v1 start migrate type=r6",
    );
    assert!(
        code == 50 && text.contains("Description = Start Reconstruction Operation Failed."),
        "{text}"
    );
    for (words, code, sentence) in [
        ("", 3, "the level is missing: give type=raid6"),
        ("type=raid7", 3, "type=raid7 is not a level"),
        ("type=raid6 option=add", 3, "give option and drives together"),
        ("type=raid6 drives=252:8", 3, "give option and drives together"),
        ("type=raid6 option=swap drives=252:8", 3, "option=swap is neither add nor remove"),
        ("type=raid6 option=add drives=252:99", 12, "there is no drive 252:99"),
    ] {
        refused(Picture::default, &format!("/c0/v1 start migrate {words}"), code, sentence);
    }
    let (code, text, _) =
        run(Picture::default(), "/c0/v start migrate type=raid6 option=add drives=252:8");
    assert!(code == 1 && text.contains("syntax error, unexpected object '/v'"), "{text}");
    let shown =
        json(Picture::default(), "/c0/v1 show migrate")["Response Data"]["VD Operation Status"]
            .clone();
    assert_eq!(
        (&shown[0]["Operation"], &shown[0]["Status"], &shown[0]["Progress%"]),
        (&"Migrate".into(), &"Not in progress".into(), &"-".into())
    );
}

#[test]
fn volumes_become_larger() {
    let grown = asked("/c0/v1 expand Size=16mb expandarray");
    let [Command::VolumeReshape(order)] = &grown[..] else { panic!("{grown:?}") };
    assert_eq!((order.size_bytes, &order.level), (Some(48 << 20), &None));
    let answer = json(Picture::default(), "/c0/v1 expand size=16mb");
    assert_eq!(answer["Command Status"]["Description"], "expansion operation succeeded");
    let row = &answer["Response Data"]["EXPANSION RESULT"][0];
    for (column, value) in [
        ("Size", "32.000 MB"),
        ("FreSpc", "64.000 MB"),
        ("ReqSize", "16.000 MB"),
        ("AbsUsrSz", "16.000 MB"),
        ("NewSize", "48.000 MB"),
    ] {
        assert_eq!(row[column], value, "{row}");
    }
    assert_eq!(row["%FreSpc"], 25);
    let all = json(Picture::default(), "/c0/vall show expansion");
    let shown = all["Response Data"]["EXPANSION INFORMATION"].clone();
    assert_eq!(shown.as_array().map(Vec::len), Some(2));
    assert_eq!((&shown[1]["OCE"], &shown[1]["NoArrExp"]), (&"Y".into(), &"64.000 MB".into()));
    assert_eq!(ROOM, 64 << 20);
    let full = Picture { refuses: Some(ErrorKind::WrongState), ..Picture::default() };
    let shown =
        json(full, "/c0/v1 show expansion")["Response Data"]["EXPANSION INFORMATION"].clone();
    assert_eq!((&shown[0]["OCE"], &shown[0]["NoArrExp"]), (&"N".into(), &"-".into()));
    refused(Picture::default, "/c0/v1 expand", 3, "the size is missing: give the size to add");
    refused(Picture::default, "/c0/v1 expand size=all", 3, "size=all is not a size");
    let full = Picture { refuses: Some(ErrorKind::WrongState), ..Picture::default() };
    let (code, text, _) = run(full, "/c0/v1 expand size=1gb");
    assert!(code == 50 && text.contains("Description = expansion operation failed"), "{text}");
}

#[test]
fn enclosures_are_shown_in_sections() {
    let answer = json(Picture::default(), "/c0/eall show all");
    let data = answer["Response Data"].as_object().expect("an object");
    assert_eq!(data.keys().collect::<Vec<_>>(), ["Enclosure /c0/e252 "], "the blank is StorCLI's");
    let enclosure = data["Enclosure /c0/e252 "].as_object().expect("an object");
    for section in ["Information", "Inquiry Data", "Properties"] {
        assert!(enclosure.contains_key(section), "{section}: {enclosure:?}");
    }
    assert_eq!(enclosure["Information"]["Device ID"], 252);
    assert_eq!(enclosure["Information"]["Status"], "OK");
    let row = &enclosure["Properties"][0];
    assert_eq!((&row["EID"], &row["State"], &row["PD"]), (&252.into(), &"OK".into(), &12.into()));
    let (code, text, _) = run(Picture::default(), "/c0/eall show all");
    assert!(code == 0 && text.contains("\nEnclosure /c0/e252  :\n===================\n"), "{text}");
    assert!(text.contains("\nProperties :\n==========\n\n-----"), "{text}");
    let short = json(Picture::default(), "/c0/eall show");
    assert_eq!(short["Response Data"]["Properties"][0]["EID"], 252);
    refused(Picture::default, "/c0/e7 show all", 12, "Enclosure not found");
}

#[test]
fn settings_of_volumes_are_answered_one_by_one() {
    let status =
        json(Picture::default(), "/c0/v0 set rdcache=RA wrcache=WT iopolicy=Direct bootdrive=off");
    let status = &status["Command Status"];
    assert_eq!((&status["Status"], &status["Description"]), (&"Success".into(), &"None".into()));
    let rows = status["Detailed Status"].as_array().expect("a list");
    let found: Vec<_> =
        rows.iter().map(|row| (row["Property"].as_str(), row["Value"].as_str())).collect();
    assert_eq!(
        found,
        [
            (Some("rdCache"), Some("RA")),
            (Some("wrCache"), Some("WT")),
            (Some("IoPolicy"), Some("Direct")),
            (Some("Boot Drive"), Some("off"))
        ]
    );
    // All of them, or none.
    refused(Picture::default, "/c0/v0 set wrcache=wt bootdrive=on", 3, "there is no boot ROM");
    assert!(asked("/c0/v0 set bootdrive=off").is_empty());
}

#[test]
fn what_is_looked_at_is_answered() {
    for (line, words) in [
        ("/c0/eall/sall show rebuild", "Show Drive Rebuild Status Succeeded."),
        ("show ctrlcount nolog", "Controller Count = 1"),
        ("/c0/vall show init", "INIT"),
        ("/c0 show bootdrive", "BootDrive No Boot Drive"),
        ("/c0 show jbod", "JBOD      OFF"),
    ] {
        let (code, text, asked) = run(Picture::default(), line);
        assert!(code == 0 && text.contains(words) && asked.is_empty(), "{line}: {text}");
    }
    refused(Picture::default, "/c0/cv show all nolog", 34, "Cachevault is absent!");
    refused(
        Picture::default,
        "/c0/e252/s0 show smart",
        3,
        "run 'softroc drive show /tmp/picture/d0.img'",
    );
    refused(Picture::default, "/c0/e252/s0 show jbod", 50, "not a JBOD");
    assert!(matches!(&asked("/c0/e252/s9 add hotsparedrive")[..], [Command::SpareAdd(_)]));
}
