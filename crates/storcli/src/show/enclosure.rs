//! `/cN/eN show [all]`.

use super::lists::enclosure_table;
use crate::answer::Answer;
use crate::codes::NOT_FOUND;
use crate::tree::{Pairs, Value, number, pairs, text};
use crate::view::View;
use crate::words::{Numbers, Word};

/// `/cN/eN show [all]`.
pub(super) fn answer(view: &View, numbers: &Numbers, words: &[Word]) -> Answer {
    let all = match words.iter().map(Word::bare).collect::<Vec<_>>()[..] {
        [] => false,
        ["all"] => true,
        _ => return Answer::unsupported(),
    };
    let mut there = view.enclosures();
    there.retain(|number| numbers.has(*number));
    if there.is_empty() && (all || numbers != &Numbers::All) {
        return Answer::refused("-", "Enclosure not found", NOT_FOUND);
    }
    match all {
        true => Answer::shown(there.iter().map(|number| details(view, *number)).collect()),
        false => {
            Answer::shown(vec![("Properties".into(), Value::Table(enclosure_table(view, &there)))])
        }
    }
}

/// The details of an enclosure. The trailing blank of its name is StorCLI's.
fn details(view: &View, enclosure: u32) -> (String, Value) {
    let drives = view.drives();
    let there = drives.iter().filter(|pd| pd.numbers.enclosure == enclosure);
    let known = there.map(|pd| pd.drive).find_map(|drive| drive.enclosure.as_deref());
    let sections = pairs([
        ("Information", Value::Pairs(information(enclosure, known))),
        (
            "Inquiry Data",
            Value::Pairs(pairs([
                ("Vendor Identification", text(if known.is_some() { "N/A" } else { "SoftROC" })),
                ("Product Identification", text(known.unwrap_or("SoftROC"))),
                ("Product Revision Level", text("N/A")),
            ])),
        ),
        ("Properties", Value::Table(enclosure_table(view, &[enclosure]))),
    ]);
    (format!("Enclosure /c0/e{enclosure} "), Value::Pairs(sections))
}

/// `known`: the enclosure's own identifier; `None` for drives outside an enclosure.
fn information(enclosure: u32, known: Option<&str>) -> Pairs {
    let none = || text("N/A");
    pairs([
        ("Device ID", number(enclosure)),
        ("Position", none()),
        ("Connector Name", text("Unavailable")),
        ("Enclosure Type", text(if known.is_some() { "SES" } else { "N/A" })),
        ("Status", text("OK")),
        ("FRU Part Number", none()),
        ("Enclosure Serial Number", none()),
        ("ESM Serial Number", none()),
        ("Enclosure Zoning Mode", none()),
        ("Partner Device ID", text("Unavailable")),
        ("Device Type", text(if known.is_some() { "Enclosure" } else { "N/A" })),
        ("EnclLogicalID", known.map_or_else(none, text)),
    ])
}
