//! Differences of a saved configuration as text.

use config::Difference;
use control_api::ConfigReply;
use units::counted;

/// A reply about the configuration.
pub fn reply(reply: &ConfigReply) -> String {
    let ConfigReply::Differences { dry_run, differences, notes } = reply else {
        return String::new();
    };
    if differences.is_empty() {
        return "No difference: the controller matches the file.".to_owned();
    }
    let mut lines: Vec<String> = differences.iter().map(|one| line(one, *dry_run)).collect();
    lines.extend(notes.iter().map(|note| format!("Note: {note}")));
    let count = |is: &dyn Fn(&Difference) -> bool| differences.iter().filter(|one| is(one)).count();
    let stays = count(&|one| one.stays.is_some());
    let all = counted(differences.len(), "difference");
    lines.push(match dry_run {
        true => format!("{all}; a restore sets {}, and {stays} stay.", differences.len() - stays),
        false => {
            let (set, failed) = (count(&|one| one.applied), count(&|one| one.failure.is_some()));
            format!("{all}: {set} set, {failed} failed, {stays} stay.")
        }
    });
    lines.join("\n")
}

/// One difference, on one line.
pub fn line(one: &Difference, dry_run: bool) -> String {
    let Difference { about, what, file, now, stays, applied, failure } = one;
    let values = match (now, file) {
        (Some(now), Some(file)) => format!("{now} -> {file}"),
        (None, Some(file)) => format!("none -> {file}"),
        (Some(now), None) => format!("{now}, not in the file"),
        (None, None) => "-".to_owned(),
    };
    let outcome = match (stays, failure) {
        (Some(why), _) => format!(" [stays: {why}]"),
        (None, Some(why)) => format!(" [failed: {why}]"),
        (None, None) if *applied => " [set]".to_owned(),
        (None, None) if dry_run => String::new(),
        (None, None) => " [not tried]".to_owned(),
    };
    format!("{about}: {what}: {values}{outcome}")
}
