//! Pages that say what would be before anything is done: a new volume, and drives that fail.

mod world;

use access::Role;
use controller::{Command, Error, ErrorKind, Preset, Reply, VolumeState};
use webconsole::{Deed, Order, World};
use world::{html, query, world};

/// Four drives that nobody uses, all as large as the others.
fn with_unused() -> World {
    let mut world = world();
    let spare = world.drives[4].clone();
    for letter in ["w", "x", "y", "z"] {
        let mut drive = spare.clone();
        drive.name = format!("/dev/sd{letter}");
        drive.state = controller::DriveState::Unused;
        world.drives.push(drive);
    }
    world.info.levels = ["raid0", "raid1", "raid5", "raid6", "raid50"].map(str::to_owned).to_vec();
    world
}

const FOUR: [(&str, &str); 4] =
    [("drive", "/dev/sdw"), ("drive", "/dev/sdx"), ("drive", "/dev/sdy"), ("drive", "/dev/sdz")];

/// A row of a table, without its markup.
fn row<'p>(page: &'p str, level: &str) -> Vec<&'p str> {
    let head = format!("<tr><th scope=\"row\">{level}</th>");
    let (_, rest) = page.split_once(&head).unwrap_or_else(|| panic!("no {level} in {page}"));
    let cells = rest.split("</tr>").next().expect("an end").split("<td data-label=").skip(1);
    cells.map(|cell| cell.split('>').nth(1).and_then(|text| text.split('<').next()).expect("text")).collect()
}

#[test]
fn each_level_says_what_it_gives_and_what_it_costs() {
    let page = html(&with_unused(), Role::Administrator, "create", &FOUR);
    let of = |level| row(&page, level)[1..4].to_vec();
    assert_eq!(of("raid0"), ["none: no redundancy", "1 write", "cannot be read"]);
    assert_eq!(of("raid5"), ["1", "2 reads, 2 writes", "3 reads"]);
    assert_eq!(of("raid1")[0], "3");
    // On four drives reading the other data strip is cheaper than old parity twice.
    assert_eq!(of("raid6"), ["2", "1 read, 3 writes", "2 reads"]);
    assert!(row(&page, "raid5")[0].ends_with("(74 %)"), "{:?}", row(&page, "raid5"));
    assert!(page.contains("<dt>raid50</dt><dd>RAID 50 needs"), "{page}");
    assert!(page.contains("level=raid5#result\">Choose raid5</a>"), "{page}");
}

#[test]
fn the_result_is_shown_before_it_is_made_and_made_as_it_was_shown() {
    let mut world = with_unused();
    world.drives.last_mut().expect("one").size_bytes = Some(2 << 40);
    let fields: Vec<(&str, &str)> = FOUR.into_iter().chain([("level", "raid6")]).collect();
    let page = html(&world, Role::Administrator, "create", &fields);
    assert!(page.contains("This is what it will be: raid6"), "{page}");
    assert!(page.contains("▲ Its drives differ in size"), "what is wasted is said: {page}");
    let cli = "softroc volume create NAME --level raid6 --preset performance --drives /dev/sdw /dev/sdx";
    assert!(page.contains(cli), "{page}");
    let mut sent = vec![("verb", "create"), ("of", "raid6"), ("name", "new"), ("preset", "fast-path")];
    sent.extend(FOUR);
    let deed = Deed::read(&query(&sent), &world).expect("it can be asked");
    let Order::Command(Command::VolumeCreate(create)) = &deed.order else { panic!("{deed:?}") };
    assert_eq!(create.drives, FOUR.map(|(_, name)| name.to_owned()));
    assert_eq!((create.name.as_str(), create.level.as_str(), create.destroy_data), ("new", "raid6", false));
    assert_eq!(create.write_mode, Some(Preset::FastPath.settings().write_mode));
    assert_eq!(deed.then("/console/create"), "/console/volume?of=new&asked=create");
    sent.insert(0, ("preset", "slow"));
    let refused = Deed::read(&query(&sent), &world);
    assert_eq!(refused.expect_err("there is no such preset").kind, ErrorKind::Invalid);
}

#[test]
fn drives_that_are_used_are_not_offered() {
    let page = html(&world(), Role::Administrator, "create", &[("drive", "/dev/sda")]);
    assert!(page.contains("No drive is unused.") && !page.contains("What 1 drive make"), "{page}");
}

/// The answers to what the page asks: the reads of a RAID 5 on three drives, one of them failed.
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
    // It has one drive too few already.
    let page = html(&answered(world.clone(), &fields), Role::ReadOnly, "what-if", &fields);
    assert!(page.contains("&#39;data&#39; ends: hosts reach none of its 8 TiB"), "{page}");
    assert!(!page.contains("What a read costs"), "{page}");
    world.volumes[1].state = VolumeState::Optimal;
    (world.volumes[1].may_lose, world.volumes[1].may_lose_at_most) = (1, 1);
    let page = html(&answered(world.clone(), &fields), Role::ReadOnly, "what-if", &fields);
    assert!(page.contains("goes on, and nothing is lost. It survives no further failure then."), "{page}");
    assert!(
        page.contains("Of reads of 4 KiB at the first 16 strips, 10 take 1 drive read, 6 take 2 drive reads"),
        "{page}"
    );
    assert!(page.contains("1.3 in the mean.") && page.contains("the plan of 2"), "{page}");
    assert!(page.contains("softroc explain --volume data --failed 2 read 4K@0"), "{page}");
    assert!(page.contains("which is a guess for a rotating drive: none was rebuilt here yet"), "{page}");
}

/// Of a RAID 10 it depends on which drives they are: only the plan of a read knows.
#[test]
fn where_it_depends_the_controller_is_asked() {
    let fields = [("of", "data"), ("fail", "2")];
    let mut world = world();
    world.volumes[1].state = VolumeState::Optimal;
    (world.volumes[1].may_lose, world.volumes[1].may_lose_at_most) = (0, 1);
    let mut world = answered(world, &fields);
    let page = html(&world, Role::ReadOnly, "what-if", &fields);
    assert!(page.contains("Which drive fails next decides"), "{page}");
    world.answers[0].1 = Err(Error::new(ErrorKind::Invalid, "both copies are gone"));
    let page = html(&world, Role::ReadOnly, "what-if", &fields);
    assert!(page.contains("&#39;data&#39; ends") && page.contains("Both copies are gone."), "{page}");
}

#[test]
fn nothing_is_asked_before_a_drive_is_taken() {
    let world = world();
    assert_eq!(webconsole::questions(&world, "what-if", &query(&[])), []);
    let page = html(&world, Role::ReadOnly, "what-if", &[]);
    assert!(page.contains("<h1>What if drives of backup failed?</h1>"), "{page}");
    let page = html(&world, Role::ReadOnly, "what-if", &[("of", "nothing")]);
    assert!(page.contains("There is no volume &#39;nothing&#39; any more"), "{page}");
}
