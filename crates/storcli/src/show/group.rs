//! `/cN/dN show [all|mirror]`.

use super::lists::{drive_table, topology, volume_table};
use super::properties::free_space_table;
use crate::answer::Answer;
use crate::codes::NOT_FOUND;
use crate::tree::{Value, number, pairs};
use crate::view::{Pd, Vd, View};
use crate::words::{Numbers, Word};

/// `/cN/dN show [all]`.
pub(super) fn answer(view: &View, numbers: &Numbers, words: &[Word]) -> Answer {
    let all = match words.iter().map(Word::bare).collect::<Vec<_>>()[..] {
        [] => false,
        ["all"] => true,
        _ => return Answer::unsupported(),
    };
    let mut groups = view.groups();
    groups.retain(|group| group.first().is_some_and(|first| numbers.has(first.group)));
    if groups.is_empty() && *numbers != Numbers::All {
        return Answer::refused("-", "Drive group not found", NOT_FOUND);
    }
    let mut data = Vec::new();
    if !groups.is_empty() {
        data.push(("TOPOLOGY".to_owned(), Value::Table(topology(view, &groups))));
    }
    if all {
        data.extend(details(view, &groups));
    }
    Answer::shown(data).described("Show Drive Group Succeeded")
}

fn details(view: &View, groups: &[Vec<Vd<'_>>]) -> crate::tree::Pairs {
    let volumes: Vec<Vd<'_>> = groups.iter().flatten().copied().collect();
    let numbers: Vec<u32> = groups.iter().filter_map(|group| Some(group.first()?.group)).collect();
    let mut drives: Vec<Pd<'_>> = view.drives();
    drives.retain(|pd| pd.group.is_some_and(|group| numbers.contains(&group)));
    let unused: Vec<Pd<'_>> = view.drives().into_iter().filter(|pd| pd.group.is_none()).collect();
    pairs([
        ("VD LIST", Value::Table(volume_table(view, &volumes))),
        ("Total VD Count", number(volumes.len())),
        ("DG Drive LIST", Value::Table(drive_table(view, &drives))),
        ("Total Drive Count", number(drives.len())),
        ("UN-CONFIGURED DRIVE LIST", Value::Table(drive_table(view, &unused))),
        ("Unconfigured Drive Count", number(unused.len())),
        ("FREE SPACE DETAILS", Value::Table(free_space_table(view))),
    ])
}
