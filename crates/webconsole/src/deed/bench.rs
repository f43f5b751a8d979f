//! Measuring a volume, and predicting what another controller would do: what is asked of whoever measures and predicts.

use super::{Asked, Deed, Field, Order};
use crate::World;
use crate::foreseen::not_of;
use crate::workbench::{Measure, Predict, command_line};
use controller::{Error, ErrorKind, Result};

/// What is chosen at first: a small load with reads alone, at a few numbers of outstanding requests, for seconds.
const LOAD: &str = "random-read";
const OUTSTANDING: &str = "1..64";
const RUNTIME: &str = "5s";

/// A deed that is no command of the controller.
fn deed(verb: &'static str, of: &str, label: &str, order: Order, cli: String) -> Deed {
    let (of, label) = (of.to_owned(), label.to_owned());
    Deed { order, verb, of, label, cli, fields: Vec::new(), only: None }
}

/// What was said, or what is usual where nothing was.
fn said<'a>(asked: &'a Asked<'_>, name: &str, usual: &'a str) -> &'a str {
    match asked.word(name) {
        "" => usual,
        word => word,
    }
}

/// Begins a measurement of a volume, or stops the one that runs.
///
/// # Errors
/// `Invalid` if something else than the volume's name was typed where its name is asked for.
pub(super) fn bench(world: &World, verb: &str, of: &str, asked: &Asked<'_>) -> Result<Option<Deed>> {
    match verb {
        "bench-run" => measure(world, of, asked).map(Some),
        "bench-stop" => {
            Ok(Some(deed("bench-stop", of, "Stop the measurement", Order::StopMeasuring, String::new())))
        }
        _ => Ok(None),
    }
}

fn measure(world: &World, of: &str, asked: &Asked<'_>) -> Result<Deed> {
    let typed = asked.word("word");
    if !typed.is_empty() && typed != of {
        let sentence = format!(
            "'{typed}' is not the name of the volume '{of}'; type that if what it holds may be lost, or leave it out"
        );
        return Err(Error::new(ErrorKind::Invalid, sentence));
    }
    let order = Measure {
        volume: of.to_owned(),
        profile: said(asked, "profile", LOAD).to_owned(),
        outstanding: said(asked, "outstanding", OUTSTANDING).to_owned(),
        runtime: said(asked, "runtime", RUNTIME).to_owned(),
        destroy_data: !typed.is_empty(),
        beside_hosts: asked.is_ticked("beside"),
    };
    let fields = vec![
        profile(world, &order.profile),
        Field::filled("outstanding", "Outstanding requests", &order.outstanding),
        Field::filled("runtime", "Measured for, each", &order.runtime),
        Field::tick("beside", "Beside hosts that use it (--beside-hosts)"),
        Field::may_type(
            "word",
            "Only for a load that writes, which destroys what the volume holds: its name",
        ),
    ];
    let cli = command_line(&order.words());
    Ok(Deed { fields, ..deed("bench-run", of, &format!("Measure {of}"), Order::Measure(order), cli) })
}

/// The loads of the catalog; of those that there are not, what was said stays, and is refused by whoever measures.
fn profile(world: &World, first: &str) -> Field {
    let names = world.workbench.offer.profiles.iter().map(|load| match load.writes {
        true => (load.name.clone(), format!("{} (writes)", load.name)),
        false => (load.name.clone(), load.name.clone()),
    });
    Field::named("profile", "Load", names.collect(), first)
}

/// Begins a prediction, or stops the one that runs.
///
/// # Errors
/// `Invalid` if numbers cannot be read that the page says itself, a controller or a drive is asked for that the catalog does not have, or the volume
/// is one of which nothing is predicted.
pub(super) fn predict(world: &World, verb: &str, of: &str, asked: &Asked<'_>) -> Result<Option<Deed>> {
    match verb {
        "predict-run" => foresee(world, of, asked).map(Some),
        "predict-stop" => {
            let order = Order::StopPredicting;
            Ok(Some(deed("predict-stop", of, "Stop the prediction", order, String::new())))
        }
        _ => Ok(None),
    }
}

/// A number that the page says; none where it says nothing.
fn number(asked: &Asked<'_>, name: &str) -> Result<Option<u64>> {
    let word = asked.word(name);
    let wrong = || {
        let sentence = format!("'{word}' is not a number for {name}; open the page of the volume again");
        Error::new(ErrorKind::Invalid, sentence)
    };
    if word.is_empty() { Ok(None) } else { word.parse().map(Some).map_err(|_| wrong()) }
}

/// The slots that the page says are out.
fn slots(asked: &Asked<'_>) -> Result<Vec<u16>> {
    let words = asked.word("failed").split(',').filter(|word| !word.is_empty());
    let slot = |word: &str| {
        let wrong = || {
            let sentence = format!("'{word}' is not the number of a slot; open the page of the volume again");
            Error::new(ErrorKind::Invalid, sentence)
        };
        word.parse().map_err(|_| wrong())
    };
    words.map(slot).collect()
}

/// The model of that name, or the first one where nothing was said. What is joined of several names is none: a form names one, however many the
/// command line takes.
fn model<'w>(models: &'w [crate::Model], kind: &str, name: &str) -> Result<Option<&'w crate::Model>> {
    if name.is_empty() {
        return Ok(models.first());
    }
    let wrong = || {
        let sentence =
            format!("the catalog has no {kind} of that name; choose one of 'softroc catalog list'");
        Error::new(ErrorKind::Invalid, sentence)
    };
    models.iter().find(|one| one.name == name).map(Some).ok_or_else(wrong)
}

fn foresee(world: &World, of: &str, asked: &Asked<'_>) -> Result<Deed> {
    let offer = &world.workbench.offer;
    let known = model(&offer.controllers, "controller", asked.word("controller"))?;
    let drive = model(&offer.drives, "drive", asked.word("drive"))?;
    let named = |one: Option<&crate::Model>| one.map(|one| one.name.clone()).unwrap_or_default();
    let strip_kib = number(asked, "strip")?;
    // A controller that has no strips of that size takes its usual one: the command line says which.
    let offers = |kib: &u64| known.is_some_and(|known| known.strips_kib.contains(kib));
    let drives = number(asked, "drives")?.unwrap_or(1);
    let failed = slots(asked)?;
    let volume = world.volumes.iter().find(|volume| volume.name == of);
    if let Some(why) = volume.and_then(|volume| not_of(volume, &failed)) {
        return Err(Error::new(ErrorKind::Invalid, why));
    }
    let slots: Vec<String> = failed.iter().map(ToString::to_string).collect();
    let order = Predict {
        controller: named(known),
        drives: (usize::try_from(drives).unwrap_or(usize::MAX), named(drive)),
        level: said(asked, "level", "jbod").to_owned(),
        spans: number(asked, "spans")?.and_then(|spans| u16::try_from(spans).ok()).unwrap_or(1),
        strip_kib: strip_kib.filter(offers),
        profile: said(asked, "profile", LOAD).to_owned(),
        outstanding: said(asked, "outstanding", OUTSTANDING).to_owned(),
        failed,
    };
    let models = |models: &[crate::Model]| -> Vec<(String, String)> {
        models.iter().map(|one| (one.name.clone(), format!("{}: {}", one.name, one.about))).collect()
    };
    let fields = vec![
        Field::said("level", &order.level),
        Field::said("drives", order.drives.0.to_string()),
        Field::said("spans", order.spans.to_string()),
        Field::said("strip", asked.word("strip")),
        Field::said("failed", slots.join(",")),
        Field::named("controller", "Controller", models(&offer.controllers), &order.controller),
        Field::named("drive", "Drives", models(&offer.drives), &order.drives.1),
        profile(world, &order.profile),
        Field::filled("outstanding", "Outstanding requests", &order.outstanding),
    ];
    let label = format!("Predict {} on {} such drives", order.level, order.drives.0);
    let cli = command_line(&order.words());
    Ok(Deed { fields, ..deed("predict-run", of, &label, Order::Predict(order), cli) })
}
