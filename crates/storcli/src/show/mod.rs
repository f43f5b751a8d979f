//! Queries.

mod controller;
mod drive;
mod enclosure;
mod events;
mod foreign;
mod group;
mod lists;
mod properties;
mod protection;
mod volume;

use crate::answer::Answer;
use crate::tree::{Column, Table, Value, column, left, number, pairs, right, text};
use crate::view::View;
use crate::words::{Object, Word};
use crate::{Machine, Surroundings};

pub(crate) use controller::patrol as patrol_schedule;
pub(crate) use drive::{missing_places, path as drive_path};
pub(crate) use foreign::{
    list as foreign_list, none_found as none_foreign_found, nothing as nothing_foreign,
};
pub(crate) use properties::of_controller as controller_properties;
pub(crate) use volume::{missing as missing_volumes, operation_kinds, room_to_grow};

/// `show ...` for an object.
pub(crate) fn answer(
    what: &Object,
    words: &[Word],
    around: &Surroundings,
    machine: &mut dyn Machine,
) -> Answer {
    if *what == Object::Absent {
        return Answer::unsupported();
    }
    let view = match View::look(machine) {
        Ok(view) => view,
        Err(answer) => return answer,
    };
    match what {
        Object::Controller => controller::answer(&view, words, around, machine),
        Object::Enclosures(numbers) => enclosure::answer(&view, numbers, words),
        Object::Drives { enclosures, slots } => {
            drive::answer(&view, enclosures.as_ref(), slots, words)
        }
        Object::Volumes(numbers) => volume::answer(&view, numbers, words, machine),
        Object::Groups(numbers) => group::answer(&view, numbers, words),
        Object::Foreign(_) => foreign::answer(words, machine),
        Object::Bbu => protection::bbu(words),
        Object::Cv => protection::cache_vault(words),
        Object::Absent => Answer::unsupported(),
    }
}

/// Columns of the overview of all controllers.
const OVERVIEW: &[Column] = &[
    column("Ctl"),
    left("Model"),
    column("Ports"),
    column("PDs"),
    column("DGs"),
    column("DNOpt"),
    column("VDs"),
    column("VNOpt"),
    left("BBU"),
    left("sPR"),
    left("DS"),
    left("EHS"),
    right("ASOs"),
    left("Hlth"),
];

const OVERVIEW_LEGEND: &str = "Ctl=Controller Index|DGs=Drive groups|VDs=Virtual drives|Fld=Failed
PDs=Physical drives|DNOpt=Array NotOptimal|VNOpt=VD NotOptimal|Opt=Optimal
Dgd=Degraded|sPR=Scheduled Patrol Read|DS=DimmerSwitch|EHS=Emergency Spare Drive
Y=Yes|N=No|ASOs=Advanced Software Options|BBU=Battery backup unit/CV|Hlth=Health";

/// `show`, `show all`, `show ctrlcount`.
pub(crate) fn overview(words: &[Word], around: &Surroundings, machine: &mut dyn Machine) -> Answer {
    let of_all = |data| Answer { controller: None, ..Answer::shown(data) };
    let view = View::look(machine);
    match words.iter().map(Word::bare).collect::<Vec<_>>()[..] {
        ["ctrlcount"] => of_all(pairs([("Controller Count", number(u32::from(view.is_ok())))])),
        [] | ["all"] => {
            let rows: Vec<Vec<Value>> = view.iter().map(overview_row).collect();
            let mut data = pairs([
                ("Number of Controllers", number(rows.len())),
                ("Host Name", text(&around.host_name)),
                ("Operating System ", text(&around.operating_system)),
            ]);
            if !rows.is_empty() {
                let table = Table { legend: OVERVIEW_LEGEND, ..Table::new(OVERVIEW, rows) };
                data.push(("System Overview".into(), Value::Table(table)));
            }
            of_all(data)
        }
        _ => Answer { controller: None, ..Answer::unsupported() },
    }
}

fn overview_row(view: &View) -> Vec<Value> {
    let (groups, volumes) = (view.groups(), view.volumes());
    let is_bad = |volume: &&crate::view::Vd<'_>| crate::view::volume_state(volume.volume) != "Optl";
    let bad_groups =
        groups.iter().filter(|group| group.iter().any(|volume| is_bad(&volume))).count();
    let drives = view.drives().len();
    vec![
        number(0),
        text("SoftROC"),
        number(drives),
        number(drives),
        number(groups.len()),
        number(bad_groups),
        number(volumes.len()),
        number(volumes.iter().filter(is_bad).count()),
        text("N/A"),
        text(if controller::patrol(view).is_some_and(|schedule| schedule.on) {
            "On"
        } else {
            "Off"
        }),
        text("-"),
        text(if properties::emergency_spares(view) { "Y" } else { "N" }),
        number(0),
        text(match controller::status(view) {
            "Optimal" => "Opt",
            "Degraded" => "Dgd",
            _ => "Fld",
        }),
    ]
}
