//! `softroc support`: the support bundle, without host data and secrets (`scrub.rs`).
//!
//! It also works without a running controller, when support is needed most. Missing parts state
//! their reason.

mod archive;
mod machine;
mod scrub;

use crate::cli::Support;
use crate::control::{Control, within};
use crate::failure::{Failure, Outcome};
use crate::output;
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

/// The time limit of a reply of the controller.
const PATIENCE: Duration = Duration::from_secs(20);

/// Refuses links (`open(2)`).
const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// Files of the state folder that are copied unchanged: none of them should contain secrets.
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

/// Files with secrets: they are read to remove their contents from all other texts.
const SECRET: [&str; 3] = ["accounts.json", "notifications.json", "subscriptions.json"];

/// The commands to the controller, and the names of their replies.
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

/// Writes the bundle.
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
                "{} with {}. It contains no data and no secrets; 'tar xzOf {} | less' shows \
                 everything.",
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
    let date: String = units::utc(now).chars().filter(char::is_ascii_digit).collect();
    let (day, time) = date.split_at(8.min(date.len()));
    PathBuf::from(format!("softroc-support-{}-{day}-{time}.tar.gz", crate::machine::host()))
}

/// Only for this user: it contains names and serial numbers. A link of that name is not followed.
fn write(path: &Path, bytes: &[u8]) -> Outcome {
    let failed = |error: std::io::Error| {
        let path = path.display();
        Failure::failed(format!("cannot write {path}: {error}; give another file with --file"))
    };
    let mut open = std::fs::OpenOptions::new();
    open.write(true).create(true).truncate(true).mode(0o600).custom_flags(NOFOLLOW);
    let mut file = open.open(path).map_err(failed)?;
    // The mode given to open applies only to new files.
    file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
}

/// The replies of the controller, or the reason why it does not respond.
fn answers(control: &Control, files: &mut Vec<File>, scrubber: &mut Scrubber) -> Option<Failure> {
    let place = control.place();
    for (name, question) in questions() {
        let reply =
            within(PATIENCE, place, move |place| control_api::client::call(place, &question));
        match reply {
            Ok(reply) => {
                if let Reply::Events { events } = &reply {
                    events.iter().for_each(|event| named(event, scrubber));
                }
                files.push(answer(name, &reply));
            }
            // A controller that does not answer this will not answer the rest.
            Err(failure) if name == "info" => return Some(failure),
            Err(failure) => files.push(answer(name, &failure.as_json())),
        }
    }
    // Without permission for this list, account names come only from events.
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

/// A channel without its recipients and its user name.
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

/// Takes the account names from an event.
fn named(event: &Event, scrubber: &mut Scrubber) {
    if let Some(by) = event.by.as_ref().filter(|by| matches!(by.origin, Origin::Network { .. })) {
        scrubber.name(&by.user);
    }
    if event.code.starts_with("access.") && !event.code.ends_with("certificate-made") {
        scrubber.name(&event.subject);
    }
}

/// The state folder: a list of all files, and the contents of those without secrets.
fn state(folder: &Path, scrubber: &mut Scrubber) -> Vec<File> {
    // Links are not followed: another user's folder could expose files of this user.
    let files_of = StateFolder::new(folder);
    // Secrets in earlier versions of these files are removed too.
    let versions = SECRET.iter().flat_map(|name| {
        let aside = (1..=8).map(move |number| format!("{name}.unreadable-{number}"));
        [(*name).to_owned(), format!("{name}.previous")].into_iter().chain(aside)
    });
    for name in versions {
        if let Ok(Some(bytes)) = files_of.read(&name) {
            let kept: Value =
                serde_json::from_slice(controller::document(&bytes)).unwrap_or_default();
            secrets_in(&kept, scrubber);
            // The keys are account names.
            if let Some(accounts) = kept["accounts"].as_object() {
                accounts.keys().for_each(|account| scrubber.name(account));
            }
        }
    }
    if let Ok(password) = std::fs::read_to_string(folder.join("first-password")) {
        scrubber.secret(password.trim_end());
    }
    // Also for removed accounts, and without a running controller.
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

/// The shortest length of a key.
const SHORTEST_KEY: usize = 12;

/// Fields without secrets; all other fields contain secrets.
const OPEN: [&str; 7] = ["severity", "codes", "code", "quiet", "role", "id", "trust"];

/// Fields with persons or common words: only whole words are replaced.
const PEOPLE: [&str; 4] = ["to", "from", "user", "context"];

/// Registers every text of a file with secrets, by its field.
fn secrets_in(kept: &Value, scrubber: &mut Scrubber) {
    match kept {
        Value::Array(all) => all.iter().for_each(|one| secrets_in(one, scrubber)),
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(text) if PEOPLE.contains(&field.as_str()) => {
                        scrubber.person(text)
                    }
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

/// The part behind the host of a web address is often a key. Short words may occur anywhere; as
/// part of an address they are still removed.
fn address(address: &str, scrubber: &mut Scrubber) {
    let web = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    if let Some((_, path)) = web.and_then(|rest| rest.split_once('/'))
        && path.len() >= SHORTEST_KEY
    {
        scrubber.secret(path);
    }
}

/// Names, sizes, permissions and times of the files in a folder.
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
    let changed = units::utc(u64::try_from(metadata.mtime()).unwrap_or(0));
    Some(format!(
        "{} {mode:o} {} {} {changed}",
        name.to_string_lossy(),
        metadata.uid(),
        metadata.len()
    ))
}

fn readme(files: &[File], now: u64, silent: Option<&Failure>) -> String {
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let silent =
        silent.map_or_else(String::new, |failure| format!("\nNo controller answered: {failure}\n"));
    format!(
        "Written by 'softroc support' {} on {}, {}.\n{silent}\n\
         Contents: replies of the controller (answers), its state folder (state), its process \
         (daemon),\n\
         its log, and the machine.\n\
         Left out: data of hosts, passwords, tokens, keys, communities, accounts, recipients of\n\
         notifications. Texts have '{}' or 'account-N' in their place; web addresses are \
         shortened to\n\
         the host.\n\n{}\n",
        env!("CARGO_PKG_VERSION"),
        crate::machine::host(),
        units::utc(now),
        scrub::LEFT_OUT,
        names.join("\n")
    )
}
