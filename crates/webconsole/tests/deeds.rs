//! Actions of pages: permissions, confirmations, and the equivalent command line.

mod world;

use access::Role;
use controller::{Command, ErrorKind};
use webconsole::{ConsoleAction, Order, Query};
use world::{html, query, world};

fn sent(verb: &str, of: &str, word: &str) -> Query {
    query(&[("verb", verb), ("of", of), ("word", word)])
}

fn read(sent: &Query) -> controller::Result<ConsoleAction> {
    ConsoleAction::read(sent, &world())
}

/// A form of a page: its fields, whether it is enabled, and its command line.
struct Form {
    sent: Vec<(String, String)>,
    usable: bool,
    cli: String,
}

fn forms(page: &str) -> Vec<Form> {
    let between = |text: &str, before: &str, after: &str| {
        let rest = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}")).1;
        rest.split(after).next().unwrap_or_default().replace("&#39;", "'")
    };
    let all = page
        .split("<form class=\"deed\"")
        .skip(1)
        .map(|rest| rest.split("</form>").next().expect("an end"));
    all.map(|form| {
        assert!(form.contains("name=\"token\" value=\"t0ken\""), "{form}");
        let hidden = form.split("<input type=\"hidden\" ").skip(1);
        let field =
            |field: &str| (between(field, "name=\"", "\""), between(field, "value=\"", "\""));
        Form {
            sent: hidden.map(field).collect(),
            usable: !form.contains("<button disabled"),
            cli: between(form, "<code>", "</code>"),
        }
    })
    .collect()
}

#[test]
fn a_form_can_be_used_by_those_who_may() {
    let mut world = world();
    world.info.alarm.sounds = true;
    let pages = [("", ""), ("volume", "data"), ("drive", "/dev/sdb"), ("drive", "/dev/sde")];
    let mut seen = 0;
    for role in Role::ALL {
        for (name, of) in pages {
            for Form { mut sent, usable, cli } in forms(&html(&world, role, name, &[("of", of)])) {
                let field = |name: &str| {
                    sent.iter().find(|(known, _)| known == name).map(|(_, of)| of.clone())
                };
                let (verb, of) = (field("verb").expect("a verb"), field("of").expect("of what"));
                sent.push((
                    "word".to_owned(),
                    if verb == "delete" { of } else { "new".to_owned() },
                ));
                let deed = read(&Query(sent)).expect("it is known");
                assert_eq!(usable, deed.order.action().is_for(role), "{verb} for {role}");
                assert!(cli.starts_with("softroc "), "{cli}");
                seen += 1;
            }
        }
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn a_delete_takes_the_name() {
    let refused = read(&sent("delete", "data", "dat")).expect_err("it is not the name");
    assert_eq!(refused.kind, ErrorKind::Invalid);
    assert!(
        refused.message.contains("type 'data' to confirm 'Delete data'; nothing was changed"),
        "{}",
        refused.message
    );
    let deed = read(&sent("delete", "data", " data ")).expect("it is");
    let command = Command::VolumeDelete { volume: "data".to_owned(), disconnect_hosts: false };
    assert_eq!(deed.order, Order::Command(command));
    assert_eq!(deed.then("/console/volume?of=data"), "/console/?asked=delete");
    let check = read(&sent("check", "data", "")).expect("it is known");
    assert_eq!(check.then("/console/volume?of=data"), "/console/volume?of=data&asked=check");
}

/// Replacing the wrong healthy drive can cost an array: a working drive needs its serial number as
/// confirmation.
#[test]
fn a_drive_that_works_is_replaced_by_its_serial_number_alone() {
    let replace = |of: &str, word: &str| {
        read(&query(&[("verb", "replace"), ("of", of), ("with", "/dev/sdx"), ("word", word)]))
    };
    let refused = replace("data:0", "ZC12").expect_err("it is another one's");
    assert!(
        refused.message.contains("type 'ZC11' to confirm 'Replace data:0 by /dev/sdx'"),
        "{refused}"
    );
    assert_eq!(replace("data:0", "").expect_err("nothing was typed").kind, ErrorKind::Invalid);
    let wanted = |drive: &str, destroy_data| {
        let (drive, with) = (drive.to_owned(), "/dev/sdx".to_owned());
        Order::Command(Command::DriveReplace { drive, with, destroy_data })
    };
    assert_eq!(replace("data:0", "ZC11").expect("it is").order, wanted("data:0", false));
    // A failed drive needs no confirmation; data on the new one is overwritten only on request.
    let mut world = world();
    world.volumes[1].drives[1].state = controller::DriveState::Failed;
    let mut sent = query(&[("verb", "replace"), ("of", "data:1"), ("with", "/dev/sdx")]);
    assert_eq!(
        ConsoleAction::read(&sent, &world).expect("it is out").order,
        wanted("data:1", false)
    );
    sent.0.push(("destroy".to_owned(), "yes".to_owned()));
    assert_eq!(
        ConsoleAction::read(&sent, &world).expect("it is out").order,
        wanted("data:1", true)
    );
}

#[test]
fn what_there_is_not_is_refused() {
    for (verb, of, kind) in [
        ("format", "data", ErrorKind::NotFound),
        ("", "", ErrorKind::NotFound),
        ("task-stop", "seven", ErrorKind::Invalid),
    ] {
        assert_eq!(read(&sent(verb, of, "")).expect_err(verb).kind, kind, "{verb}");
    }
}

#[test]
fn going_back_stays_within_the_console() {
    for (named, to) in [
        (Some("/console/volume?of=data"), "/console/volume?of=data"),
        (Some("https://elsewhere/console/"), "/console/"),
        (Some("//elsewhere/console/"), "/console/"),
        (Some("/console/\r\nset-cookie: x"), "/console/"),
        (Some("/v1/info"), "/console/"),
        (None, "/console/"),
    ] {
        assert_eq!(webconsole::back(named), to);
    }
}
