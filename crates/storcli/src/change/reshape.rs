//! `/cN/vN start migrate ...`, `/cN/vN expand ...`: reshapes of volumes.

use super::wanted::{drives, read_level};
use super::{OF_VOLUMES, Outcomes, Refusal, ask};
use crate::Machine;
use crate::answer::{Answer, Data, OTHER};
use crate::forms::{read_size, size};
use crate::show::room_to_grow;
use crate::tree::{Column, Table, Value, column, left, number, pairs, right, text};
use crate::view::{Vd, View};
use crate::words::{Numbers, Word};
use controller::{Command, Reply, ReshapeInfo, ReshapeVolume};

/// `start migrate type=raidN [option=add|remove drives=...] [force]`; `words`: what follows
/// `migrate`.
pub(super) fn migrate(
    view: &View,
    numbers: &Numbers,
    words: &[Word],
    machine: &mut dyn Machine,
) -> Answer {
    const FAILED: &str = "Start Reconstruction Operation Failed.";
    let migration = match Migration::read(view, words) {
        Ok(Some(migration)) => migration,
        Ok(None) => return Answer::unsupported(),
        Err(refusal) => {
            return Answer::refused("-", refusal.message, refusal.code).described(FAILED);
        }
    };
    let volumes = view.volumes_of(numbers);
    if volumes.is_empty() {
        return crate::show::missing_volumes(numbers);
    }
    let outcome = |volume: &Vd<'_>| {
        let order = migration.of(volume);
        (number(volume.number), ask(machine, Command::VolumeReshape(order)).map(|_| ()))
    };
    let rows = volumes.iter().map(outcome).collect();
    let answer = Outcomes { columns: OF_VOLUMES, rows }.answer("", "Migrate");
    let description = if answer.good { "Start Reconstruction Operation Success" } else { FAILED };
    answer.described(description)
}

/// The new layout of a volume.
struct Migration {
    level: String,
    add: Vec<String>,
    remove: Vec<String>,
    force: bool,
}

impl Migration {
    /// `None`: unknown words.
    fn read(view: &View, words: &[Word]) -> Result<Option<Migration>, Refusal> {
        let (mut level, mut option, mut named, mut force) = (None, None, None, false);
        for word in words {
            match (word.key.as_str(), word.value.as_deref()) {
                ("type", Some(value)) => {
                    let wrong =
                        || Refusal::invalid(format!("type={value} is not a level, such as raid6"));
                    level = Some(read_level(&word.low()).ok_or_else(wrong)?);
                }
                ("option", Some(value)) => match word.low().as_str() {
                    low @ ("add" | "remove") => option = Some(low == "add"),
                    _ => {
                        return Err(Refusal::invalid(format!(
                            "option={value} is neither add nor remove"
                        )));
                    }
                },
                ("drives", Some(value)) => named = Some(drives(view, value)?),
                ("force", None) => force = true,
                _ => return Ok(None),
            }
        }
        let level =
            level.ok_or_else(|| Refusal::invalid("the level is missing: give type=raid6"))?;
        let (add, remove) = match (option, named) {
            (None, None) => (Vec::new(), Vec::new()),
            (Some(true), Some(drives)) => (drives, Vec::new()),
            (Some(false), Some(drives)) => (Vec::new(), drives),
            _ => {
                return Err(Refusal::invalid(
                    "give option and drives together, as in option=add drives=252:4, or neither",
                ));
            }
        };
        Ok(Some(Migration { level, add, remove, force }))
    }

    fn of(&self, vd: &Vd<'_>) -> ReshapeVolume {
        ReshapeVolume {
            volume: vd.volume.uuid.clone(),
            // For the same level: more drives, and as many spans as fit.
            level: Some(self.level.clone()).filter(|level| *level != vd.volume.level),
            add: self.add.clone(),
            remove: self.remove.clone(),
            destroy_data: self.force,
            ..ReshapeVolume::default()
        }
    }
}

const EXPANDED: &[Column] = &[
    column("VD"),
    right("Size"),
    right("FreSpc"),
    right("ReqSize"),
    right("AbsUsrSz"),
    column("%FreSpc"),
    right("NewSize"),
    left("Status"),
    right("NoArrExp"),
];

const EXPANDED_LEGEND: &str = "Size - Current VD size|FreSpc - Freespace available before expansion
%FreSpc - Requested expansion size in % of available free space
AbsUsrSz - User size rounded to what the drives hold";

/// `expand size=... [expandarray]`: expands a volume by this size on its drives.
pub(super) fn expand(
    view: &View,
    numbers: &Numbers,
    words: &[Word],
    machine: &mut dyn Machine,
) -> Answer {
    const FAILED: &str = "expansion operation failed";
    let by = match expand_by(words) {
        Ok(Some(by)) => by,
        Ok(None) => return Answer::unsupported(),
        Err(refusal) => {
            return Answer::refused("-", refusal.message, refusal.code).described(FAILED);
        }
    };
    let volumes = view.volumes_of(numbers);
    if volumes.is_empty() {
        return crate::show::missing_volumes(numbers);
    }
    let (mut rows, mut outcomes) = (Vec::new(), Vec::new());
    for volume in &volumes {
        let done = expand_one(volume, by, machine).map(|row| rows.push(row));
        outcomes.push((number(volume.number), done));
    }
    let table = Table { legend: EXPANDED_LEGEND, ..Table::new(EXPANDED, rows) };
    let data = match table.rows.is_empty() {
        true => Data::Nothing,
        false => Data::Pairs(pairs([("EXPANSION RESULT", Value::Table(table))])),
    };
    let answer = Outcomes { columns: OF_VOLUMES, rows: outcomes }.answer("", "Expand");
    match answer.good {
        true => {
            Answer { data, detailed: None, ..answer.described("expansion operation succeeded") }
        }
        false => Answer { data, ..answer.described(FAILED) },
    }
}

/// The number of bytes to add; `None`: unknown words.
fn expand_by(words: &[Word]) -> Result<Option<u64>, Refusal> {
    let mut by = None;
    for word in words {
        match (word.key.as_str(), word.value.as_deref()) {
            ("size", Some(value)) => {
                let wrong =
                    || Refusal::invalid(format!("size={value} is not a size, such as 10gb"));
                by = Some(read_size(value).filter(|bytes| *bytes > 0).ok_or_else(wrong)?);
            }
            // Volumes can use all space of their drives in any case.
            ("expandarray", None) => {}
            _ => return Ok(None),
        }
    }
    by.map(Some).ok_or_else(|| {
        Refusal::invalid("the size is missing: give the size to add, as in size=10gb")
    })
}

/// Expands a volume; returns its row.
fn expand_one(vd: &Vd<'_>, by: u64, machine: &mut dyn Machine) -> Result<Vec<Value>, Refusal> {
    let before = vd.volume.capacity_bytes;
    let free = room_to_grow(vd, machine)?;
    let order = ReshapeVolume {
        volume: vd.volume.uuid.clone(),
        size_bytes: Some(before.saturating_add(by)),
        ..ReshapeVolume::default()
    };
    let Reply::Reshape { reshape, .. } = ask(machine, Command::VolumeReshape(order))? else {
        return Err(Refusal::new(OTHER, "the controller sent an unexpected reply; see its log"));
    };
    let ReshapeInfo { to, .. } = *reshape;
    let gained = to.capacity_bytes.saturating_sub(before);
    let share = (u128::from(gained) * 100).checked_div(u128::from(free)).unwrap_or(100);
    Ok(vec![
        number(vd.number),
        text(size(before)),
        text(size(free)),
        text(size(by)),
        text(size(gained)),
        number(share.min(100)),
        text(size(to.capacity_bytes)),
        text("-"),
        text(size(free)),
    ])
}
