//! The status line of every page, and the open findings.

use crate::page::Part;
use crate::words::{Badge, Tone, drive_page, sentence, volume_page};
use crate::{Viewer, World, deed};
use askama::Template;
use controller::{Finding, WellBeing};

#[derive(Template)]
#[template(path = "status.html")]
struct Status {
    class: &'static str,
    badge: Badge<WellBeing>,
    sentence: String,
    is_overview: bool,
    findings: Vec<Found>,
    alarm: Vec<String>,
}

/// A finding.
struct Found {
    badge: Badge<WellBeing>,
    what: String,
    link: Option<String>,
    subject: String,
    /// A command that fixes the finding.
    command: Option<String>,
    /// A recommendation without a command.
    todo: Option<String>,
}

pub(crate) fn part(world: &World, viewer: &Viewer, back: &str, is_overview: bool) -> Part {
    let health = &world.health;
    let shown = |finding: &&Finding| is_overview || finding.status > WellBeing::Ok;
    let alarm = if world.info.alarm.sounds {
        deed::forms(world, viewer, back, "", &["alarm-silence"])
    } else {
        Vec::new()
    };
    let status = Status {
        class: Tone::from(health.status).class(),
        badge: Badge(health.status),
        sentence: sentence(&health.sentence),
        is_overview,
        findings: health
            .findings
            .iter()
            .filter(shown)
            .map(|finding| found(world, finding))
            .collect(),
        alarm,
    };
    Part::new("status", &status)
}

fn found(world: &World, finding: &Finding) -> Found {
    let (command, todo) = match &finding.todo {
        Some(todo) if todo.starts_with("softroc ") => (Some(todo.clone()), None),
        Some(todo) => match todo.strip_prefix("wait: ") {
            Some(command) => (Some(command.to_owned()), Some("wait".to_owned())),
            None => (None, Some(todo.clone())),
        },
        None => (None, None),
    };
    Found {
        badge: Badge(finding.status),
        what: sentence(&finding.what),
        link: link(world, &finding.subject),
        subject: finding.subject.clone(),
        command,
        todo: todo.as_deref().map(sentence),
    }
}

/// The page of the finding's subject, if it has one.
fn link(world: &World, subject: &str) -> Option<String> {
    let (kind, name) = subject.split_once(' ')?;
    match kind {
        "volume" if world.volumes.iter().any(|volume| volume.name == name) => {
            Some(volume_page(name))
        }
        "drive" | "spare" if world.drives.iter().any(|drive| drive.name == name) => {
            Some(drive_page(name))
        }
        _ => None,
    }
}
