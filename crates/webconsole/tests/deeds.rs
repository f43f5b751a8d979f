//! What can be done from a page: who may, what has to be typed, and the command line that does the same.

mod world;

use access::{Action, Role};
use controller::{Command, ErrorKind};
use webconsole::{Deed, Sent};
use world::{html, world};

fn sent(verb: &str, of: &str, word: &str) -> Sent {
    Sent { verb: verb.to_owned(), of: of.to_owned(), word: word.to_owned() }
}

/// The forms of a page: their verb, what they are of, whether they can be used, and their command line.
fn forms(page: &str) -> Vec<(String, String, bool, String)> {
    let between = |text: &str, before: &str, after: &str| {
        let rest = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}")).1;
        rest.split(after).next().unwrap_or_default().replace("&#39;", "'")
    };
    let all =
        page.split("<form class=\"deed\"").skip(1).map(|rest| rest.split("</form>").next().expect("an end"));
    all.map(|form| {
        assert!(form.contains("name=\"token\" value=\"t0ken\""), "{form}");
        let of = |name: &str| between(form, &format!("name=\"{name}\" value=\""), "\"");
        (of("verb"), of("of"), !form.contains("<button disabled"), between(form, "<code>", "</code>"))
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
            for (verb, of, usable, cli) in forms(&html(&world, role, name, &[("of", of)])) {
                let word = if verb == "delete" { of.as_str() } else { "new" };
                let deed = Deed::read(&sent(&verb, &of, word)).expect("it is known");
                assert_eq!(usable, Action::of(&deed.command).is_for(role), "{verb} for {role}");
                assert!(cli.starts_with("softroc "), "{cli}");
                seen += 1;
            }
        }
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn a_delete_takes_the_name() {
    let refused = Deed::read(&sent("delete", "data", "dat")).expect_err("it is not the name");
    assert_eq!(refused.kind, ErrorKind::Invalid);
    assert!(
        refused.message.contains("type 'data' for 'Delete data'; nothing was done"),
        "{}",
        refused.message
    );
    let deed = Deed::read(&sent("delete", "data", " data ")).expect("it is");
    assert_eq!(deed.command, Command::VolumeDelete { volume: "data".to_owned(), disconnect_hosts: false });
    assert_eq!(deed.then("/console/volume?of=data"), "/console/?asked=delete");
    let check = Deed::read(&sent("check", "data", "")).expect("it is known");
    assert_eq!(check.then("/console/volume?of=data"), "/console/volume?of=data&asked=check");
}

#[test]
fn what_there_is_not_is_refused() {
    for (verb, of, kind) in [
        ("format", "data", ErrorKind::NotFound),
        ("", "", ErrorKind::NotFound),
        ("task-stop", "seven", ErrorKind::Invalid),
    ] {
        assert_eq!(Deed::read(&sent(verb, of, "")).expect_err(verb).kind, kind, "{verb}");
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
