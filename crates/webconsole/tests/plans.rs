//! Planning pages: a new volume, and simulated drive failures.

mod world;

use access::Role;
use controller::{
    Command, DriveState, Error, ErrorKind, ForeignDrive, Preset, Progress, Reply, ReshapeInfo,
    VolumeState,
};
use webconsole::{ConsoleAction, Model, Order, Point, Prediction, Stage, World};
use world::{html, query, world};

/// Four unused drives of equal size.
fn with_unused() -> World {
    let mut world = world();
    let spare = world.drives[4].clone();
    for letter in ["w", "x", "y", "z"] {
        let mut drive = spare.clone();
        drive.name = format!("/dev/sd{letter}");
        drive.state = DriveState::Unused;
        world.drives.push(drive);
    }
    world.info.levels = ["raid0", "raid1", "raid5", "raid6", "raid50"].map(str::to_owned).to_vec();
    world
}

const FOUR: [(&str, &str); 4] =
    [("drive", "/dev/sdw"), ("drive", "/dev/sdx"), ("drive", "/dev/sdy"), ("drive", "/dev/sdz")];

/// The cells of a table row without markup.
fn row<'p>(page: &'p str, level: &str) -> Vec<&'p str> {
    let head = format!("<tr><th scope=\"row\">{level}</th>");
    let (_, rest) = page.split_once(&head).unwrap_or_else(|| panic!("no {level} in {page}"));
    let cells = rest.split("</tr>").next().expect("an end").split("<td data-label=").skip(1);
    cells
        .map(|cell| cell.split('>').nth(1).and_then(|text| text.split('<').next()).expect("text"))
        .collect()
}

#[test]
fn each_level_says_what_it_gives_and_what_it_costs() {
    let page = html(&with_unused(), Role::Administrator, "create", &FOUR);
    let of = |level| row(&page, level)[1..4].to_vec();
    assert_eq!(of("raid0"), ["none: no redundancy", "1 write", "not possible"]);
    assert_eq!(of("raid5"), ["1", "2 reads, 2 writes", "3 reads"]);
    assert_eq!(of("raid1")[0], "3");
    // On four drives, reading the other data strip is cheaper than reading old parity twice.
    assert_eq!(of("raid6"), ["2", "1 read, 3 writes", "2 reads"]);
    assert!(row(&page, "raid5")[0].ends_with("(74 %)"), "{:?}", row(&page, "raid5"));
    assert!(page.contains("<dt>raid50</dt><dd>RAID 50 needs"), "{page}");
    assert!(page.contains("level=raid5#result\">Choose raid5</a>"), "{page}");
}

/// Regression: a file system on a new drive was reported only in the refusal.
#[test]
fn what_a_drive_holds_is_said_before_it_is_chosen() {
    let mut world = with_unused();
    let question = Command::ForeignList {};
    assert_eq!(
        webconsole::questions(&world, "create", &query(&[])),
        std::slice::from_ref(&question)
    );
    let held = ForeignDrive {
        name: "/dev/sdx".to_owned(),
        holds: vec!["an ext4 file system named <root> (at byte 1080)".to_owned()],
        reason: None,
        clearable: false,
    };
    let told = Reply::Foreign { volumes: Vec::new(), drives: vec![held] };
    world.answers = vec![(question.clone(), Ok(told))];
    let page = html(&world, Role::Administrator, "create", &[]);
    assert_eq!(
        page.matches("▲ holds an ext4 file system named &#60;root&#62;").count(),
        1,
        "{page}"
    );
    world.answers = vec![(question, Err(Error::new(ErrorKind::Busy, "too many commands wait")))];
    let page = html(&world, Role::Administrator, "create", &[]);
    assert!(
        page.contains("The content of the drives is unknown: Too many commands wait."),
        "{page}"
    );
}

/// Adds a catalog of one controller and one drive.
fn offer(world: &mut World) {
    let model = |name: &str, strips_kib: &[u64]| Model {
        name: name.to_owned(),
        about: "one".to_owned(),
        rotates: true,
        strips_kib: strips_kib.to_vec(),
    };
    world.workbench.offer.controllers = vec![model("HBA", &[64, 256])];
    world.workbench.offer.drives = vec![model("SAS-12G-HDD", &[])];
}

#[test]
fn what_is_predicted_of_each_level_is_shown_when_it_is_there() {
    let mut world = with_unused();
    offer(&mut world);
    let fields: Vec<(&str, &str)> = FOUR
        .into_iter()
        .chain([("controller", "HBA"), ("model", "SAS-12G-HDD"), ("level", "raid5")])
        .collect();
    let orders = webconsole::predictions(&world, "create", &query(&fields));
    let levels: Vec<&str> = orders.iter().map(|order| order.level.as_str()).collect();
    assert_eq!(levels, ["raid0", "raid1", "raid5", "raid6"], "those that the drives make");
    assert!(
        webconsole::predictions(&world, "create", &query(&FOUR)).is_empty(),
        "without selected models"
    );
    // The command line's syntax for several models must not be accepted: it would allow an
    // unbounded number of drives.
    for model in ["SAS-12G-HDD+254xSAS-12G-HDD", "SAS"] {
        let odd: Vec<_> =
            FOUR.into_iter().chain([("controller", "HBA"), ("model", model)]).collect();
        assert!(webconsole::predictions(&world, "create", &query(&odd)).is_empty(), "{model}");
    }
    let known = |number: usize, stage: Stage| {
        let point = Point {
            profile: "database".to_owned(),
            outstanding: 32,
            per_s: 1234.4,
            mib_per_s: 9.6,
            mean_us: None,
            p99_us: None,
            sure_percent: None,
        };
        let points = if stage == Stage::Done { vec![point] } else { Vec::new() };
        Prediction { order: orders[number].clone(), stage, percent: 33, points, notes: Vec::new() }
    };
    world.foreseen = vec![
        known(0, Stage::Waits),
        known(1, Stage::Runs),
        known(2, Stage::Done),
        known(3, Stage::Failed("HBA has <none>".to_owned())),
    ];
    let page = html(&world, Role::Administrator, "create", &fields);
    let of = |level| row(&page, level)[4];
    assert_eq!(of("raid0"), "queued");
    assert_eq!(of("raid1"), "prediction at 33 %");
    assert_eq!(of("raid5"), "1234");
    assert!(page.contains("<small>HBA has &#60;none&#62;.</small>"), "{page}");
    assert!(page.contains("model=SAS-12G-HDD&#38;level=raid6#result"), "{page}");
    let cli = "softroc predict --controller=HBA --drives=4xSAS-12G-HDD --level=raid5 --strip=256K \
        --profile=database --outstanding=32";
    assert!(page.contains(cli), "{page}");
    let page = html(&world, Role::ReadOnly, "create", &fields);
    assert!(!page.contains("name=\"controller\"") && page.contains("takes operator"), "{page}");
}

/// Predictions of a volume with the selected models: with all drives, and without the failed ones.
#[test]
fn what_a_volume_serves_without_drives_is_predicted_beside_what_it_serves_whole() {
    let mut world = world();
    offer(&mut world);
    world.volumes[1].state = VolumeState::Optimal;
    (world.volumes[1].may_lose, world.volumes[1].may_lose_at_most) = (1, 1);
    let fields = [("of", "data"), ("fail", "2"), ("controller", "HBA"), ("model", "SAS-12G-HDD")];
    let orders = webconsole::predictions(&world, "what-if", &query(&fields));
    let words: Vec<String> = orders.iter().map(|order| order.words().join(" ")).collect();
    assert_eq!(words.len(), 2);
    assert_eq!(format!("{} --failed=2", words[0]), words[1]);
    assert!(words[0].contains("--drives=3xSAS-12G-HDD --level=raid5"), "{words:?}");
    let known = |order: &webconsole::Predict| Prediction {
        order: order.clone(),
        stage: Stage::Failed("HBA has <none>".to_owned()),
        percent: 0,
        points: Vec::new(),
        notes: Vec::new(),
    };
    world.foreseen = orders.iter().map(known).collect();
    let page = html(&world, Role::Operator, "what-if", &fields);
    assert!(
        page.contains("<code>softroc predict --controller=HBA")
            && page.contains("--failed=2</code>"),
        "{page}"
    );
    assert!(page.contains("<dt>With all drives</dt><dd>– HBA has &#60;none&#62;.</dd>"), "{page}");
    assert!(webconsole::predictions(&world, "what-if", &query(&fields[..2])).is_empty());
}

#[test]
fn the_result_is_shown_before_it_is_made_and_made_as_it_was_shown() {
    let mut world = with_unused();
    world.drives.last_mut().expect("one").size_bytes = Some(2 << 40);
    let fields: Vec<(&str, &str)> = FOUR.into_iter().chain([("level", "raid6")]).collect();
    let page = html(&world, Role::Administrator, "create", &fields);
    assert!(page.contains("Summary: raid6"), "{page}");
    assert!(page.contains("▲ Its drives differ in size"), "unused space is reported: {page}");
    let cli =
        "softroc volume create NAME --level raid6 --preset performance --drives /dev/sdw /dev/sdx";
    assert!(page.contains(cli), "{page}");
    let mut sent =
        vec![("verb", "create"), ("of", "raid6"), ("name", "new"), ("preset", "fast-path")];
    sent.extend(FOUR);
    let deed = ConsoleAction::read(&query(&sent), &world).expect("it can be asked");
    let Order::Command(Command::VolumeCreate(create)) = &deed.order else { panic!("{deed:?}") };
    assert_eq!(create.drives, FOUR.map(|(_, name)| name.to_owned()));
    assert_eq!(
        (create.name.as_str(), create.level.as_str(), create.destroy_data),
        ("new", "raid6", false)
    );
    assert_eq!(create.write_mode, Some(Preset::FastPath.settings().write_mode));
    assert_eq!(deed.then("/console/create"), "/console/volume?of=new&asked=create");
    sent.insert(0, ("preset", "slow"));
    let refused = ConsoleAction::read(&query(&sent), &world);
    assert_eq!(refused.expect_err("there is no such preset").kind, ErrorKind::Invalid);
}

#[test]
fn drives_that_are_used_are_not_offered() {
    let page = html(&world(), Role::Administrator, "create", &[("drive", "/dev/sda")]);
    assert!(
        page.contains("There is no unused drive.") && !page.contains("Levels for 1 drive"),
        "{page}"
    );
}

/// Results of the page's queries: reads of a RAID 5 on three drives, one of them failed.
fn answered(mut world: World, fields: &[(&str, &str)]) -> World {
    let questions = webconsole::questions(&world, "what-if", &query(fields));
    let answer = |(number, question): (usize, Command)| {
        let Command::Explain(explain) = &question else { panic!("{question:?}") };
        assert_eq!((explain.operation.as_str(), &explain.failed[..]), ("read", &[2][..]));
        let reads = if number % 3 == 1 { 2 } else { 1 };
        let explanation = serde_json::json!({ "cost": { "reads": reads } });
        let text = format!("the plan of {reads}");
        (question, Ok(Reply::Explained { text, explanation }))
    };
    world.answers = questions.into_iter().enumerate().map(answer).collect();
    world
}

#[test]
fn what_would_be_lost_is_said_of_each_volume() {
    let fields = [("of", "data"), ("fail", "2")];
    let mut world = world();
    // One drive has already failed.
    let page = html(&answered(world.clone(), &fields), Role::ReadOnly, "what-if", &fields);
    assert!(page.contains("&#39;data&#39; goes offline: hosts cannot access its 8 TiB"), "{page}");
    assert!(!page.contains("Cost of a read"), "{page}");
    world.volumes[1].state = VolumeState::Optimal;
    (world.volumes[1].may_lose, world.volumes[1].may_lose_at_most) = (1, 1);
    let page = html(&answered(world.clone(), &fields), Role::ReadOnly, "what-if", &fields);
    assert!(
        page.contains("stays online without data loss. It then tolerates no further failure."),
        "{page}"
    );
    assert!(
        page.contains(
            "4 KiB reads of the first 16 strips: 11 need 1 drive read, 5 need 2 drive reads; mean"
        ),
        "{page}"
    );
    assert!(page.contains("mean 1.3.") && page.contains("the plan of 2"), "{page}");
    assert!(page.contains("softroc explain --volume data --failed 2 read 4K@0"), "{page}");
    assert!(page.contains("an assumption for a rotating drive before the first rebuild"), "{page}");
}

/// In a RAID 10, the position of the drives decides: only the plan of a read knows.
#[test]
fn where_it_depends_the_controller_is_asked() {
    let fields = [("of", "data"), ("fail", "2")];
    let mut world = world();
    world.volumes[1].state = VolumeState::Optimal;
    (world.volumes[1].may_lose, world.volumes[1].may_lose_at_most) = (0, 1);
    let mut world = answered(world, &fields);
    // The long plan of the read is dropped; only its success is kept.
    for (number, (question, answer)) in world.answers.iter_mut().enumerate() {
        *answer = webconsole::kept(question, answer.clone());
        let Ok(Reply::Explained { text, .. }) = answer else { panic!("{answer:?}") };
        assert_eq!(text.is_empty(), number == 0, "{number}: {text}");
    }
    let page = html(&world, Role::ReadOnly, "what-if", &fields);
    assert!(
        page.contains("Whether it tolerates a further failure") && page.contains("the plan of 2"),
        "{page}"
    );
    world.answers[0].1 = Err(Error::new(ErrorKind::Invalid, "both copies are gone"));
    let page = html(&world, Role::ReadOnly, "what-if", &fields);
    assert!(
        page.contains("&#39;data&#39; goes offline") && page.contains("Both copies are gone."),
        "{page}"
    );
    // A busy controller has not reported data loss.
    world.answers[0].1 = Err(Error::new(ErrorKind::Busy, "too many commands wait"));
    let page = html(&world, Role::ReadOnly, "what-if", &fields);
    assert!(
        page.contains("The effect on &#39;data&#39; is unknown. Too many commands wait."),
        "{page}"
    );
}

/// `data` with a drive under rebuild, and this fault tolerance.
fn filling(level: &str, slot: usize, may_lose: (u16, u16)) -> World {
    let mut world = world();
    let data = &mut world.volumes[1];
    level.clone_into(&mut data.level);
    (data.may_lose, data.may_lose_at_most) = may_lose;
    for (number, drive) in data.drives.iter_mut().enumerate() {
        let is_filled = number == slot;
        drive.state = if is_filled { DriveState::Rebuilding } else { DriveState::Online };
        drive.stale_regions = if is_filled { 70 } else { 0 };
    }
    world
}

/// Regression: a read of the rebuilt beginning of a RAID 10 was taken as proof for the rest.
#[test]
fn what_a_rebuild_has_not_reached_is_not_promised() {
    let fields = [("of", "data"), ("fail", "2")];
    let world = filling("raid10", 1, (0, 1));
    assert_eq!(
        webconsole::questions(&world, "what-if", &query(&fields)),
        [],
        "the beginning proves nothing"
    );
    let page = html(&world, Role::ReadOnly, "what-if", &fields);
    assert!(
        page.contains("The effect on &#39;data&#39; is unknown. /dev/sdd is incomplete"),
        "{page}"
    );
    assert!(!page.contains("without data loss") && !page.contains("Cost of a read"), "{page}");
}

/// Regression: fault tolerance counts inconsistent parity; after a crash the page relied on it.
#[test]
fn parity_that_does_not_agree_is_not_relied_on() {
    let fields = [("of", "data"), ("fail", "2")];
    let mut world = world();
    let data = &mut world.volumes[1];
    data.state = VolumeState::Optimal;
    (data.may_lose, data.may_lose_at_most) = (1, 1);
    data.resync = Some(Progress { regions_left: 3, regions: 100, percent: 97 });
    let page = html(&world, Role::ReadOnly, "what-if", &fields);
    assert!(
        page.contains("The effect on &#39;data&#39; is unknown. Its parity is not consistent"),
        "{page}"
    );
    // Each copy is complete.
    "raid1".clone_into(&mut world.volumes[1].level);
    let page = html(&answered(world.clone(), &fields), Role::ReadOnly, "what-if", &fields);
    assert!(page.contains("stays online without data loss"), "{page}");
    // A refused read overrides the calculated result.
    let mut world = answered(world, &fields);
    world.answers[3].1 = Err(Error::new(ErrorKind::Invalid, "its parity is not trusted"));
    let page = html(&world, Role::ReadOnly, "what-if", &fields);
    assert!(page.contains("is unknown. Its parity is not trusted."), "{page}");
    assert!(!page.contains("without data loss"), "{page}");
}

/// Regression: a drive under rebuild was counted as a further failure, and a RAID 5 reported as
/// lost.
#[test]
fn a_drive_that_is_being_filled_is_no_further_failure() {
    let fields = [("of", "data"), ("fail", "2")];
    let world = filling("raid5", 2, (0, 0));
    let page = html(&answered(world.clone(), &fields), Role::ReadOnly, "what-if", &fields);
    assert!(
        page.contains("stays online without data loss. It then tolerates no further failure."),
        "{page}"
    );
    let page =
        html(&world, Role::ReadOnly, "what-if", &[("of", "data"), ("fail", "2"), ("fail", "0")]);
    assert!(page.contains("&#39;data&#39; goes offline"), "{page}");
    // One of two volumes on the same drives may be complete. That is unknown unless nothing is
    // missing.
    let mut world = world;
    world.volumes[1].array_volumes.push("more".to_owned());
    world.volumes[1].drives[0].state = DriveState::Failed;
    let page = html(&world, Role::ReadOnly, "what-if", &fields);
    assert!(page.contains("the affected volumes are unknown"), "{page}");
    let data = &mut world.volumes[1];
    (data.state, data.drives[0].state) = (VolumeState::Optimal, DriveState::Online);
    let page = html(&world, Role::ReadOnly, "what-if", &fields);
    assert!(page.contains("&#39;data&#39; goes offline"), "it counts, with none to spare: {page}");
}

fn on_its_way() -> ReshapeInfo {
    let layout = serde_json::json!({
        "level": "raid5", "drives": 3, "strip_bytes": 262_144, "capacity_bytes": 8_u64 << 40,
        "may_lose": 1,
    });
    let way = serde_json::json!({
        "volume": "data", "from": layout, "to": layout, "may_lose": 1, "saved_at_a_time_bytes": 0,
        "at_a_time_bytes": 0,
    });
    serde_json::from_value(way).expect("a way")
}

/// During a reshape, neither the first byte nor the slots of the old layout represent the volume.
#[test]
fn a_volume_on_its_way_promises_nothing() {
    let fields = [("of", "data"), ("fail", "2")];
    let mut world = world();
    world.volumes[1].state = VolumeState::Optimal;
    (world.volumes[1].may_lose, world.volumes[1].may_lose_at_most) = (1, 1);
    world.volumes[1].reshape = Some(Box::new(on_its_way()));
    let page = html(&world, Role::ReadOnly, "what-if", &fields);
    assert!(page.contains("is unknown. A reshape is running"), "{page}");
}

#[test]
fn nothing_is_asked_before_a_drive_is_taken() {
    let world = world();
    assert_eq!(webconsole::questions(&world, "what-if", &query(&[])), []);
    let page = html(&world, Role::ReadOnly, "what-if", &[]);
    assert!(page.contains("<h1>Simulated drive failures of backup</h1>"), "{page}");
    let page = html(&world, Role::ReadOnly, "what-if", &[("of", "nothing")]);
    assert!(page.contains("There is no volume &#39;nothing&#39; any more"), "{page}");
}

/// Regression: a RAID 5EE was predicted without its distributed spare, and a three-way mirror as a
/// two-way one. A prediction was started for a volume that goes offline, and never shown.
#[test]
fn what_cannot_be_predicted_is_not_and_the_page_says_why() {
    let mut whole = world();
    offer(&mut whole);
    let volume = &mut whole.volumes[1];
    volume.state = VolumeState::Optimal;
    volume.drives.iter_mut().for_each(|drive| drive.state = DriveState::Online);
    (volume.may_lose, volume.may_lose_at_most) = (1, 1);
    let fields = [("of", "data"), ("fail", "2"), ("controller", "HBA"), ("model", "SAS-12G-HDD")];
    let asked = |world: &World| webconsole::predictions(world, "what-if", &query(&fields)).len();
    assert_eq!(asked(&whole), 2);
    let like = |level: &str, copies: u16| {
        let mut world = whole.clone();
        (world.volumes[1].level, world.volumes[1].copies) = (level.to_owned(), copies);
        world
    };
    for (level, copies, why) in
        [("raid5ee", 1, "RAID 5EE without all drives"), ("raid1e", 3, "3 copies of each block")]
    {
        let world = like(level, copies);
        assert_eq!(asked(&world), 0, "{level}");
        let page = html(&world, Role::Operator, "what-if", &fields);
        assert!(page.contains(why) && !page.contains("Predicted IOPS"), "{page}");
    }
    assert_eq!((asked(&like("raid1e", 2)), asked(&like("raid1", 3))), (2, 2));
    let bench = |world: &World| html(world, Role::Operator, "bench", &[("of", "data")]);
    let page = bench(&like("raid1e", 3));
    assert!(
        page.contains("3 copies of each block") && !page.contains("value=\"predict-run\""),
        "{page}"
    );
    let mut out = like("raid5ee", 1);
    assert!(bench(&out).contains("value=\"predict-run\""), "the volume is complete");
    out.volumes[1].drives[1].state = DriveState::Failed;
    assert!(bench(&out).contains("RAID 5EE without all drives"));
    let mut ends = whole.clone();
    (ends.volumes[1].may_lose, ends.volumes[1].may_lose_at_most) = (0, 0);
    assert_eq!(asked(&ends), 0, "it ends, and nothing would be shown");
}
