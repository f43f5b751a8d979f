//! Schedules of checks and of the patrol read.

use super::{Findings, Step, Subject, VolumeMatches};
use crate::clock;
use crate::current::{self, Current};
use crate::document::{Document, Schedule};
use controller::{Command, ScheduleInfo, Scheduled, SetSchedule};
use units::ByteCount;

pub(super) fn compare(
    document: &Document,
    now: &Current,
    pairs: &VolumeMatches<'_>,
    found: &mut Findings,
) {
    let patrol = now.schedules.iter().find(|one| one.what == Scheduled::Patrol);
    if let (Some(file), Some(there)) = (&document.patrol, patrol) {
        one("patrol", None, (file, there), found);
    }
    for (volume, _, there) in &pairs.0 {
        let (Some(file), Some(there)) = (&volume.check, there) else { continue };
        match current::check_of(now, &there.name) {
            Some(info) => {
                one(&format!("volume {}", there.name), Some(&there.name), (file, info), found)
            }
            None => {
                let of =
                    Subject::new(format!("volume {}", there.name), "check").file(written(file));
                found.stays(of, "it has no redundancy to check");
            }
        }
    }
}

fn one(
    about: &str,
    volume: Option<&str>,
    (file, info): (&Schedule, &ScheduleInfo),
    found: &mut Findings,
) {
    let there = current::schedule(info);
    if *file == there {
        return;
    }
    let what = if volume.is_some() { "check" } else { "schedule" };
    let of = Subject::new(about, what).file(written(file)).now(written(&there));
    let at_s = match clock::read(&file.at) {
        Ok(at_s) => at_s,
        Err(why) => return found.stays(of, why),
    };
    if file.share_percent.is_none() && there.share_percent.is_some() {
        return found.stays(
            of,
            "a share that was set cannot be removed; set it with 'softroc task schedule'",
        );
    }
    let set = SetSchedule {
        what: info.what,
        volume: volume.map(str::to_owned),
        on: Some(file.on),
        every_days: Some(file.every_days),
        at_s: Some(at_s),
        repair: file.repair.filter(|_| info.what == Scheduled::Check),
        share_percent: file.share_percent,
        limit_bytes_per_s: Some(file.limit_bytes_per_s.unwrap_or(0)),
    };
    found.changes(of, Step::Command(Command::TaskSchedule(set)));
}

fn written(schedule: &Schedule) -> String {
    let Schedule { on, every_days, at, repair, share_percent, limit_bytes_per_s } = schedule;
    let mut text = format!("{}, every {every_days} days at {at}", if *on { "on" } else { "off" });
    if *repair == Some(true) {
        text.push_str(", repairs");
    }
    if let Some(share) = share_percent {
        text.push_str(&format!(", {share} %"));
    }
    if let Some(limit) = limit_bytes_per_s {
        text.push_str(&format!(", at most {}/s", ByteCount(*limit)));
    }
    text
}
