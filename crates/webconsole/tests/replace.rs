//! A drive is replaced, step by step: the page says where things stand, whoever opens it.

mod world;

use access::Role;
use controller::{Command, DriveState, ForeignDrive, Reply, TaskState, VolumeState};
use webconsole::World;
use world::{html, query, world};

/// The drive in slot 1 of `data` is out, nothing fills it, and an unused drive is there.
fn broken() -> World {
    let mut world = world();
    world.volumes[1].drives[1].clone_from(&world.drives[1]);
    world.tasks.clear();
    world.drives.remove(3);
    world.drives[3].state = DriveState::Unused;
    world
}

fn page(world: &World, of: &str) -> String {
    html(world, Role::Administrator, "replace", &[("of", of)])
}

/// The step that is to be done now.
fn step(page: &str) -> &str {
    let (_, rest) = page.split_once("aria-current=\"step\">").unwrap_or_else(|| panic!("no step: {page}"));
    rest.split("</span> ").nth(1).and_then(|rest| rest.split(" <small>").next()).expect("a step")
}

#[test]
fn the_drive_that_failed_is_chosen_and_named_by_all_that_is_known_of_it() {
    let world = broken();
    let page = page(&world, "");
    assert!(page.contains("<h1>Replace drive data:1</h1>"), "{page}");
    assert!(page.contains("enclosure e1, bay 2 · slot data:1 · ST4000NM0025 · serial ZC12"), "{page}");
    assert!(page.contains("Yes: its volumes go on without it."), "{page}");
    assert!(page.contains("softroc drive replace data:1 --with /dev/sde</code>"), "{page}");
    assert!(page.contains("href=\"/console/replace?of=data%3A0\">Replace data:0</a>"), "others: {page}");
    assert!(!page.contains("name=\"word\""), "nothing has to be typed of one that is out: {page}");
}

#[test]
fn the_steps_follow_what_happens() {
    let mut world = broken();
    let unused = world.drives.remove(3);
    assert_eq!(step(&page(&world, "data:1")), "Find the drive and pull it");
    world.volumes[1].drives[1].state = DriveState::Missing;
    let pulled = page(&world, "data:1");
    assert_eq!(step(&pulled), "Put the new drive in");
    assert!(pulled.contains("Nothing answers in its place any more."), "{pulled}");
    assert!(pulled.contains("No unused drive is known yet."), "{pulled}");
    world.drives.push(unused);
    assert_eq!(step(&page(&world, "data:1")), "Confirm");
    // It is filled: the world as it was found.
    let mut world = crate::world();
    let filling = page(&world, "data:1");
    assert_eq!(step(&filling), "It is rebuilt");
    assert!(filling.contains("Nothing is left to do: /dev/sdd is being filled (43 %)."), "{filling}");
    assert!(!filling.contains("value=\"replace\""), "nothing is asked twice: {filling}");
    // And it is done, and may be done again.
    (world.tasks[0].state, world.tasks[0].ended_unix_s) = (TaskState::Done, Some(world::NOW - 60));
    world.volumes[1].state = VolumeState::Optimal;
    world.volumes[1].drives[1].state = DriveState::Online;
    let done = page(&world, "data:1");
    assert!(
        done.contains("Done: the new drive has all that belongs on it, and the volume is whole."),
        "{done}"
    );
    let again = html(&world, Role::Administrator, "replace", &[("of", "data:1"), ("again", "yes")]);
    assert!(again.contains("This drive works."), "{again}");
}

#[test]
fn a_drive_that_works_takes_its_serial_number() {
    let page = page(&broken(), "data:0");
    assert!(page.contains("It is not pulled yet."), "{page}");
    assert!(page.contains("The drive that is replaced works. Type its serial number, ZC11"), "{page}");
}

#[test]
fn what_a_new_drive_holds_is_said_before_it_is_taken() {
    let mut world = broken();
    assert_eq!(webconsole::questions(&world, "replace", &query(&[])), [Command::ForeignList {}]);
    let held = ForeignDrive {
        name: "/dev/sde".to_owned(),
        holds: vec!["Linux md <1.2>".to_owned()],
        reason: None,
        clearable: true,
    };
    let told = Reply::Foreign { volumes: Vec::new(), drives: vec![held] };
    world.answers = vec![(Command::ForeignList {}, Ok(told))];
    let shown = page(&world, "data:1");
    assert!(shown.contains("It is not empty: Linux md &#60;1.2&#62;."), "{shown}");
    // One that cannot do is not offered.
    world.drives[3].size_bytes = Some(1 << 30);
    let small = page(&world, "data:1");
    assert!(small.contains("▲ too small"), "{small}");
    assert!(!small.contains("name=\"with\" value=\"/dev/sde\""), "{small}");
}

#[test]
fn where_nothing_is_out_nothing_is_chosen() {
    let mut world = world();
    world.volumes[1].drives[1].state = DriveState::Online;
    let page = page(&world, "");
    assert!(page.contains("none has to be replaced"), "{page}");
    assert!(html(&world, Role::ReadOnly, "replace", &[("of", "data:9")]).contains("There is no place"));
}
