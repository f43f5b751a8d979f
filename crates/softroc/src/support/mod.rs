//! `softroc support`: one file for whoever helps. Data of hosts is not read for it, and there is no secret in it (`scrub.rs`).
//!
//! It is also written where no controller answers: that is when help is needed most. What cannot be had says why.

mod archive;
mod machine;
mod scrub;

use crate::cli::Support;
use crate::control::{Control, within};
use crate::failure::{Failure, Outcome};
use crate::{output, render};
use archive::File;
use control_api::client::Place;
use control_api::{AccessReply, NotifyReply};
use controller::{Command, Event, Origin, Reply};
use platform_linux::StateFolder;
use scrub::Scrubber;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::counted;

/// How long the controller may take for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A link is refused (`open(2)`).
const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// What the state folder has that is taken as it is: no file of these is meant to hold a secret.
const KEPT: [&str; 13] = [
    "alarm.toml",
    "arrays.toml",
    "attach.toml",
    "cache.toml",
    "deleted-arrays.toml",
    "drives.toml",
    "events.2.jsonl",
    "events.jsonl",
    "failed-drives.toml",
    "log.toml",
    "nbd.addresses",
    "numbers.toml",
    "tasks.json",
];

/// What it has that holds secrets: it is read to know what must not be in the file.
const SECRET: [&str; 3] = ["accounts.json", "notifications.json", "subscriptions.json"];

/// What is asked, and what its answer is called.
fn questions() -> [(&'static str, Command); 12] {
    [
        ("info", Command::Info {}),
        ("health", Command::Health {}),
        ("volumes", Command::VolumeList {}),
        ("drives", Command::DriveList {}),
        ("spares", Command::SpareList {}),
        ("tasks", Command::TaskList {}),
        ("schedules", Command::ScheduleList {}),
        ("logs", Command::LogList {}),
        ("disks", Command::DiskList {}),
        ("events", Command::EventsList { last: None, about: None }),
        ("metrics", Command::Metrics {}),
        ("foreign", Command::ForeignList {}),
    ]
}

/// Writes the file.
pub fn run(control: &Control, support: &Support) -> Outcome {
    let now = crate::machine::unix_time();
    let is_here = matches!(control.place(), Place::Socket(_));
    let mut scrubber = Scrubber::default();
    let mut files = Vec::new();
    let silent = answers(control, &mut files, &mut scrubber);
    if is_here {
        files.extend(machine::files());
        files.extend(machine::daemon(control));
        files.extend(state(control.state(), &mut scrubber));
    }
    if let Some(token) = std::env::var_os("SOFTROC_TOKEN") {
        scrubber.secret(&token.to_string_lossy());
    }
    files.insert(0, File { name: "README.txt".into(), text: readme(&files, now, silent.as_ref()) });
    for file in &mut files {
        file.text = scrubber.clean(&file.text);
    }
    let bytes = archive::archive(&files, now)?;
    let path = support.file.clone().unwrap_or_else(|| default_name(now));
    if path == Path::new("-") {
        return output::write_bytes(&path, &bytes);
    }
    write(&path, &bytes)?;
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    match support.output.json {
        true => output::json(&json!({ "file": path, "bytes": bytes.len(), "files": names })),
        false => {
            let mut text = format!(
                "{} with {}. Neither data nor secrets are in it; 'tar xzOf {} | less' shows all of it.",
                path.display(),
                counted(files.len(), "file"),
                path.display()
            );
            if let Some(failure) = silent {
                text.push_str(&format!("\nNote: {failure}"));
            }
            output::print(&text)
        }
    }
}

fn default_name(now: u64) -> PathBuf {
    let date: String = render::date(now).chars().filter(char::is_ascii_digit).collect();
    let (day, time) = date.split_at(8.min(date.len()));
    PathBuf::from(format!("softroc-support-{}-{day}-{time}.tar.gz", crate::machine::host()))
}

/// For this user alone: names and serial numbers are in it. A link of that name is not followed.
fn write(path: &Path, bytes: &[u8]) -> Outcome {
    let failed = |error: std::io::Error| {
        let path = path.display();
        Failure::failed(format!("cannot write {path}: {error}; name another file with --file"))
    };
    let mut open = std::fs::OpenOptions::new();
    open.write(true).create(true).truncate(true).mode(0o600).custom_flags(NOFOLLOW);
    let mut file = open.open(path).map_err(failed)?;
    // The mode is that of a file that was not there before.
    file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
}

/// What the controller answers; why nobody does, where that is so.
fn answers(control: &Control, files: &mut Vec<File>, scrubber: &mut Scrubber) -> Option<Failure> {
    let place = control.place();
    for (name, question) in questions() {
        let reply = within(PATIENCE, place, move |place| control_api::client::call(place, &question));
        match reply {
            Ok(reply) => {
                if let Reply::Events { events } = &reply {
                    events.iter().for_each(|event| named(event, scrubber));
                }
                files.push(answer(name, &reply));
            }
            // Who does not answer this will not answer the rest.
            Err(failure) if name == "info" => return Some(failure),
            Err(failure) => files.push(answer(name, &failure.as_json())),
        }
    }
    // Whoever may not see them has their names from events alone.
    let accounts = |place: &Place| control_api::client::access(place, "GET", "/v1/accounts", None);
    if let Ok(AccessReply::Accounts { accounts }) = within(PATIENCE, place, accounts) {
        accounts.iter().for_each(|account| scrubber.name(&account.name));
    }
    match within(PATIENCE, place, |place| {
        control_api::client::notifications(place, "GET", "/v1/notifications", None)
    }) {
        Ok(NotifyReply::Channels { channels }) => {
            let told: Vec<Value> = channels.iter().map(without_people).collect();
            files.push(answer("notifications", &told));
        }
        Ok(_) => {}
        Err(failure) => files.push(answer("notifications", &failure.as_json())),
    }
    None
}

/// A channel without who gets its messages, and who signs in for it.
fn without_people(channel: &control_api::ChannelInfo) -> Value {
    let mut told = serde_json::to_value(channel).unwrap_or_default();
    if let Some(fields) = told.as_object_mut() {
        for field in ["to", "from", "user"] {
            fields.remove(field);
        }
    }
    told
}

fn answer(name: &str, answer: &impl serde::Serialize) -> File {
    let text = serde_json::to_string_pretty(answer).unwrap_or_else(|error| error.to_string());
    File { name: format!("answers/{name}.json"), text }
}

/// The names of accounts that an event tells of.
fn named(event: &Event, scrubber: &mut Scrubber) {
    if let Some(by) = event.by.as_ref().filter(|by| matches!(by.origin, Origin::Network { .. })) {
        scrubber.name(&by.user);
    }
    if event.code.starts_with("access.") && !event.code.ends_with("certificate-made") {
        scrubber.name(&event.subject);
    }
}

/// What the state folder has: a list of all of it, and what is no secret.
fn state(folder: &Path, scrubber: &mut Scrubber) -> Vec<File> {
    // Links are not followed: a folder of another user could have this one read what it points to.
    let files_of = StateFolder::new(folder);
    // What earlier versions of them hold is secret, too.
    let versions = SECRET.iter().flat_map(|name| {
        let aside = (1..=8).map(move |number| format!("{name}.unreadable-{number}"));
        [(*name).to_owned(), format!("{name}.previous")].into_iter().chain(aside)
    });
    for name in versions {
        if let Ok(Some(bytes)) = files_of.read(&name) {
            let kept: Value = serde_json::from_slice(controller::document(&bytes)).unwrap_or_default();
            secrets_in(&kept, scrubber);
            // Names of accounts are keys there.
            if let Some(accounts) = kept["accounts"].as_object() {
                accounts.keys().for_each(|account| scrubber.name(account));
            }
        }
    }
    if let Ok(password) = std::fs::read_to_string(folder.join("first-password")) {
        scrubber.secret(password.trim_end());
    }
    // Also of accounts that are no more, and where nobody answers.
    for name in ["events.jsonl", "events.2.jsonl"] {
        let events = files_of.read(name).ok().flatten().map(|bytes| machine::end_of_text(&bytes));
        let events = events.unwrap_or_default();
        let events = events.lines().filter_map(|line| serde_json::from_str::<Event>(line).ok());
        events.for_each(|event| named(&event, scrubber));
    }
    let mut files = vec![File { name: "state/list.txt".into(), text: list(folder) }];
    for name in KEPT {
        let text = match files_of.read(name) {
            Ok(None) => continue,
            Ok(Some(bytes)) => machine::end_of_text(&bytes),
            Err(error) => format!("{error}\n"),
        };
        files.push(File { name: format!("state/{name}"), text });
    }
    files
}

/// No key is shorter.
const SHORTEST_KEY: usize = 12;

/// Fields of these files that hold no secret; what is in all others is one.
const OPEN: [&str; 7] = ["severity", "codes", "code", "quiet", "role", "id", "trust"];

/// Fields whose texts are people, or words that may stand anywhere: they are taken out where they stand as a whole.
const PEOPLE: [&str; 4] = ["to", "from", "user", "context"];

/// Takes note of every text in a file that holds secrets, by its field.
fn secrets_in(kept: &Value, scrubber: &mut Scrubber) {
    match kept {
        Value::Array(all) => all.iter().for_each(|one| secrets_in(one, scrubber)),
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(text) if PEOPLE.contains(&field.as_str()) => scrubber.person(text),
                    Value::Array(all) if PEOPLE.contains(&field.as_str()) => {
                        all.iter().filter_map(Value::as_str).for_each(|text| scrubber.person(text));
                    }
                    Value::String(text) if field == "target" || field == "destination" => {
                        address(text, scrubber);
                    }
                    Value::String(text) if field != "name" && !OPEN.contains(&field.as_str()) => {
                        scrubber.secret(text);
                    }
                    other => secrets_in(other, scrubber),
                }
            }
        }
        _ => {}
    }
}

/// What stands in a web address behind its host is often a key. What is short is a word that may stand anywhere; as a part of an address
/// it goes all the same.
fn address(address: &str, scrubber: &mut Scrubber) {
    let web = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    if let Some((_, path)) = web.and_then(|rest| rest.split_once('/'))
        && path.len() >= SHORTEST_KEY
    {
        scrubber.secret(path);
    }
}

/// Names, sizes, permissions and times of what is in a folder.
fn list(folder: &Path) -> String {
    let mut lines: Vec<String> = std::fs::read_dir(folder)
        .map(|entries| entries.filter_map(|entry| line(&entry.ok()?)).collect())
        .unwrap_or_default();
    lines.sort();
    format!("{}\n{}\n", folder.display(), lines.join("\n"))
}

fn line(entry: &std::fs::DirEntry) -> Option<String> {
    let metadata = entry.metadata().ok()?;
    let (name, mode) = (entry.file_name(), metadata.permissions().mode());
    let changed = render::date(u64::try_from(metadata.mtime()).unwrap_or(0));
    Some(format!("{} {mode:o} {} {} {changed}", name.to_string_lossy(), metadata.uid(), metadata.len()))
}

fn readme(files: &[File], now: u64, silent: Option<&Failure>) -> String {
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let silent = silent.map_or_else(String::new, |failure| format!("\nNo controller answered: {failure}\n"));
    format!(
        "Written by 'softroc support' {} on {}, {}.\n{silent}\n\
         In it: what the controller answers (answers), what it keeps (state), its process (daemon), its log, and the machine.\n\
         Not in it: data of hosts, passwords, tokens, keys, communities, accounts, who gets notifications. Where one of these stood\n\
         in a text, there is '{}' or 'account-N'; of web addresses the host alone is told.\n\n{}\n",
        env!("CARGO_PKG_VERSION"),
        crate::machine::host(),
        render::date(now),
        scrub::LEFT_OUT,
        names.join("\n")
    )
}
