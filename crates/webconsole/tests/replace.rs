//! The replacement page: it shows the current state of the replacement.

mod world;

use access::Role;
use controller::{
    Command, DriveState, Error, ErrorKind, Event, ForeignDrive, Reply, TaskKind, TaskState,
    VolumeState,
};
use webconsole::World;
use world::{html, query, world};

/// The drive in slot 1 of `data` has failed, no task runs, and an unused drive is available.
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

/// The current step.
fn step(page: &str) -> &str {
    let (_, rest) =
        page.split_once("aria-current=\"step\">").unwrap_or_else(|| panic!("no step: {page}"));
    rest.split("</span> ").nth(1).and_then(|rest| rest.split(" <small>").next()).expect("a step")
}

#[test]
fn the_drive_that_failed_is_chosen_and_named_by_all_that_is_known_of_it() {
    let world = broken();
    let address = webconsole::leads(&world, "replace", &query(&[])).expect("it leads somewhere");
    assert_eq!(address, "/console/replace?of=data%3A1");
    let page = page(&world, "data:1");
    assert!(page.contains("<h1>Replace drive data:1</h1>"), "{page}");
    assert!(
        page.contains("enclosure e1, bay 2 · slot data:1 · ST4000NM0025 · serial ZC12"),
        "{page}"
    );
    assert!(page.contains("Yes: its volumes run without it."), "{page}");
    assert!(page.contains("softroc drive replace data:1 --with /dev/sde</code>"), "{page}");
    assert!(
        page.contains("href=\"/console/replace?of=data%3A0\">Replace data:0</a>"),
        "others: {page}"
    );
    assert!(!page.contains("name=\"word\""), "nothing has to be typed of one that is out: {page}");
}

#[test]
fn the_steps_follow_what_happens() {
    let mut world = broken();
    let unused = world.drives.remove(3);
    assert_eq!(step(&page(&world, "data:1")), "Locate and remove the drive");
    world.volumes[1].drives[1].state = DriveState::Missing;
    let pulled = page(&world, "data:1");
    assert_eq!(step(&pulled), "Insert the new drive");
    assert!(pulled.contains("The drive does not respond any more."), "{pulled}");
    assert!(pulled.contains("No unused drive found."), "{pulled}");
    world.drives.push(unused);
    assert_eq!(step(&page(&world, "data:1")), "Confirm");
    // Rebuild: the initial world.
    let mut world = crate::world();
    let filling = page(&world, "data:1");
    assert_eq!(step(&filling), "Rebuild");
    assert!(
        filling.contains("No action needed: /dev/sdd is being rebuilt or copied (43 %)."),
        "{filling}"
    );
    assert!(!filling.contains("value=\"replace\""), "nothing is asked twice: {filling}");
    // Complete; the drive can be replaced again.
    (world.tasks[0].state, world.tasks[0].ended_unix_s) = (TaskState::Done, Some(world::NOW - 60));
    world.volumes[1].state = VolumeState::Optimal;
    world.volumes[1].drives[1].state = DriveState::Online;
    let done = page(&world, "data:1");
    assert!(done.contains("Done: the new drive is complete, and the volume is optimal."), "{done}");
    let again = html(&world, Role::Administrator, "replace", &[("of", "data:1"), ("again", "yes")]);
    assert!(again.contains("This drive works."), "{again}");
}

#[test]
fn a_drive_that_works_takes_its_serial_number() {
    let page = page(&broken(), "data:0");
    assert!(page.contains("Do not remove it yet."), "{page}");
    assert!(
        page.contains("The old drive works. To confirm, type its serial number, ZC11"),
        "{page}"
    );
}

#[test]
fn what_a_new_drive_holds_is_said_before_it_is_taken() {
    let mut world = broken();
    assert_eq!(
        webconsole::questions(&world, "replace", &query(&[("of", "data:1")])),
        [Command::ForeignList {}]
    );
    let held = ForeignDrive {
        name: "/dev/sde".to_owned(),
        holds: vec!["Linux md <1.2>".to_owned()],
        reason: None,
        clearable: true,
    };
    let told = Reply::Foreign { volumes: Vec::new(), drives: vec![held] };
    world.answers = vec![(Command::ForeignList {}, Ok(told))];
    let shown = page(&world, "data:1");
    assert!(shown.contains("Not empty: Linux md &#60;1.2&#62;."), "{shown}");
    assert!(
        shown.contains(
            "Such a drive is refused unless you confirm that its content may be overwritten."
        ),
        "{shown}"
    );
    // A drive that is too small cannot be selected.
    world.drives[3].size_bytes = Some(1 << 30);
    let small = page(&world, "data:1");
    assert!(small.contains("▲ too small"), "{small}");
    assert!(!small.contains("name=\"with\" value=\"/dev/sde\""), "{small}");
    // A failed query does not mean that the drives are empty.
    world.answers[0].1 = Err(Error::new(ErrorKind::Busy, "too many commands wait"));
    let unknown = page(&world, "data:1");
    assert!(
        unknown.contains("The content of these drives is unknown. Too many commands wait."),
        "{unknown}"
    );
}

/// Regression: a page without a slot selected the first failed drive again with each update. It
/// never showed the rebuild, and switched to another drive.
#[test]
fn a_page_stays_with_its_place() {
    let mut world = broken();
    let shown = page(&world, "");
    assert!(
        shown.contains("href=\"/console/replace?of=data%3A1\">Replace it, step by step</a>"),
        "{shown}"
    );
    assert!(!shown.contains("value=\"replace\""), "no form without a slot: {shown}");
    let shown = html(&world, Role::Administrator, "replace", &[("of", "data:1"), ("again", "yes")]);
    assert!(
        shown.contains("name=\"back\" value=\"/console/replace?of=data%3A1\""),
        "it leads to how far it is: {shown}"
    );
    assert_eq!(webconsole::leads(&world, "replace", &query(&[("of", "data:0")])), None);
    assert_eq!(webconsole::leads(&world, "events", &query(&[])), None);
    world.volumes[1].drives[1].state = DriveState::Online;
    assert_eq!(webconsole::leads(&world, "replace", &query(&[])), None);
}

/// The rebuild of slot 1 ended in this state, and the drive is incomplete.
fn ended(state: TaskState) -> World {
    let mut world = world();
    (world.tasks[0].state, world.tasks[0].ended_unix_s) = (state, Some(world::NOW - 60));
    world.volumes[1].drives[1].stale_regions = 57;
    world.drives[3].stale_regions = 57;
    world
}

/// Regression: after a stopped rebuild, the page reported completion.
#[test]
fn a_rebuild_that_ended_too_early_is_not_done() {
    let mut world = ended(TaskState::Stopped);
    let came =
        "drive /dev/sdd takes the slot of drive /dev/sdb; rebuilding onto /dev/sdd (regions: 57)";
    world.events.push(event("drive.takes-slot", came));
    let stopped = page(&world, "data:1");
    assert!(
        stopped.contains("/dev/sdd is incomplete: the rebuild was stopped at 43 %."),
        "{stopped}"
    );
    assert!(stopped.contains("softroc task resume 7</code>"), "{stopped}");
    assert_eq!(step(&stopped), "Rebuild");
    assert!(!stopped.contains("The data of this drive is complete"), "{stopped}");
    let mut failed = ended(TaskState::Failed);
    failed.tasks[0].reason = Some("drive /dev/sdd cannot be written".to_owned());
    let shown = page(&failed, "data:1");
    assert!(
        shown.contains("the rebuild failed at 43 %. Drive /dev/sdd cannot be written."),
        "{shown}"
    );
    failed.tasks.clear();
    assert!(page(&failed, "data:1").contains("and no task runs"));
    // A paused task is not over, but does not continue by itself.
    let paused = page(&ended(TaskState::Paused), "data:1");
    assert!(
        paused.contains("Resume it to continue") && !paused.contains("automatically"),
        "{paused}"
    );
    // The same applies to a copy from a working drive.
    let mut beside = ended(TaskState::Stopped);
    beside.tasks[0].kind = TaskKind::Replace;
    beside.drives[3].state = DriveState::Filling;
    beside.volumes[1].drives[1].clone_from(&beside.drives[0]);
    let shown = page(&beside, "data:1");
    assert!(shown.contains("/dev/sdd is incomplete: the replace was stopped at 43 %."), "{shown}");
    assert_eq!(step(&shown), "Copy");
}

fn event(code: &str, text: &str) -> Event {
    let mut event = world().events.remove(0);
    code.clone_into(&mut event.code);
    "data".clone_into(&mut event.subject);
    text.clone_into(&mut event.text);
    event
}

/// Regression: after the replacement of a working drive, the page named and lit the new one instead
/// of the old one.
#[test]
fn the_drive_that_was_replaced_is_the_one_to_pull() {
    let mut world = world();
    world.tasks.clear();
    world.volumes[1].state = VolumeState::Optimal;
    world.volumes[1].drives[1].state = DriveState::Online;
    (world.drives[3].state, world.drives[1].state) = (DriveState::Online, DriveState::Unused);
    (world.drives[1].slot, world.drives[1].volumes) = (None, Vec::new());
    world.events.push(event("drive.replaced", "drive /dev/sdd replaced drive /dev/sdb of 'data'"));
    world.events.push(event("drive.replaced", "drive /dev/sdx replaced drive /dev/sdd of 'data'"));
    world.events[3].time_unix_s = world::NOW - 90_000;
    let done = page(&world, "data:1");
    assert_eq!(step(&done), "Remove the old drive");
    assert!(
        done.contains(
            "Remove the old drive, which is unused now: /dev/sdb, enclosure e1, bay 2 \
            · ST4000NM0025 · serial ZC12."
        ),
        "{done}"
    );
    assert!(done.contains("softroc drive locate /dev/sdb --off</code>"), "{done}");
    assert!(!done.contains("softroc drive locate /dev/sdd"), "the new one is not lit: {done}");
    // A released hot spare stays.
    world.drives[1].state = DriveState::Spare;
    assert!(!page(&world, "data:1").contains("Remove the old"));
    // After its removal, no step is left.
    world.drives[1].state = DriveState::Missing;
    let pulled = page(&world, "data:1");
    assert!(
        !pulled.contains("aria-current=\"step\"") && pulled.contains("Remove the old drive"),
        "{pulled}"
    );
    // The examined events may not reach back far enough.
    world.events.truncate(2);
    let mut task = world::world().tasks.remove(0);
    (task.kind, task.state, task.ended_unix_s) =
        (TaskKind::Replace, TaskState::Done, Some(world::NOW - 60));
    world.tasks.push(task);
    let unknown = page(&world, "data:1");
    assert!(unknown.contains("it is among the unused drives"), "{unknown}");
}

/// A volume with too many missing drives is offline: a new drive restores nothing.
#[test]
fn where_the_volume_does_not_serve_nothing_is_replaced() {
    let mut world = broken();
    for state in [VolumeState::Offline, VolumeState::Missing] {
        world.volumes[1].state = state;
        let shown = page(&world, "data:1");
        assert!(
            shown.contains("is not available: it is")
                && shown.contains("Reconnect the missing drives"),
            "{shown}"
        );
        assert!(!shown.contains("runs without it"), "{shown}");
        assert!(
            !shown.contains("value=\"replace\"") && !shown.contains("class=\"steps\""),
            "{shown}"
        );
        assert_eq!(webconsole::questions(&world, "replace", &query(&[("of", "data:1")])), []);
    }
}

#[test]
fn where_nothing_is_out_nothing_is_chosen() {
    let mut world = world();
    world.volumes[1].drives[1].state = DriveState::Online;
    let page = page(&world, "");
    assert!(page.contains("No drive has to be replaced"), "{page}");
    assert!(
        html(&world, Role::ReadOnly, "replace", &[("of", "data:9")]).contains("There is no slot")
    );
}
