//! Benchmarks of a volume and predictions for another controller.

use super::{ConsoleAction, Field, FormValues, Order};
use crate::World;
use crate::foreseen::not_of;
use crate::workbench::{Measure, Predict, command_line};
use controller::{Error, ErrorKind, Result};

/// The default load: small reads, a few numbers of outstanding requests, seconds.
const LOAD: &str = "random-read";
const OUTSTANDING: &str = "1..64";
const RUNTIME: &str = "5s";

/// An action that is not a command of the controller.
fn deed(verb: &'static str, of: &str, label: &str, order: Order, cli: String) -> ConsoleAction {
    let (of, label) = (of.to_owned(), label.to_owned());
    ConsoleAction { order, verb, of, label, cli, fields: Vec::new(), only: None }
}

/// The submitted value, or the default.
fn said<'a>(asked: &'a FormValues<'_>, name: &str, usual: &'a str) -> &'a str {
    match asked.word(name) {
        "" => usual,
        word => word,
    }
}

/// Starts a benchmark of a volume, or stops the running one.
///
/// # Errors
/// `Invalid` if the typed name is not the volume's name.
pub(super) fn bench(
    world: &World,
    verb: &str,
    of: &str,
    asked: &FormValues<'_>,
) -> Result<Option<ConsoleAction>> {
    match verb {
        "bench-run" => measure(world, of, asked).map(Some),
        "bench-stop" => Ok(Some(deed(
            "bench-stop",
            of,
            "Stop the measurement",
            Order::StopMeasuring,
            String::new(),
        ))),
        _ => Ok(None),
    }
}

fn measure(world: &World, of: &str, asked: &FormValues<'_>) -> Result<ConsoleAction> {
    let typed = asked.word("word");
    if !typed.is_empty() && typed != of {
        let sentence = format!(
            "'{typed}' is not the name of the volume '{of}'; type that name to allow data loss, \
             or leave the field empty"
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
        Field::filled("runtime", "Time per measurement", &order.runtime),
        Field::tick("beside", "Measure while hosts use it (--beside-hosts)"),
        Field::may_type(
            "word",
            "Only for loads with writes, which destroy the volume's data: the volume's name",
        ),
    ];
    let cli = command_line(&order.words());
    Ok(ConsoleAction {
        fields,
        ..deed("bench-run", of, &format!("Measure {of}"), Order::Measure(order), cli)
    })
}

/// The loads of the catalog. An unknown load stays selected, and the benchmark refuses it.
fn profile(world: &World, first: &str) -> Field {
    let names = world.workbench.offer.profiles.iter().map(|load| match load.writes {
        true => (load.name.clone(), format!("{} (writes)", load.name)),
        false => (load.name.clone(), load.name.clone()),
    });
    Field::named("profile", "Load", names.collect(), first)
}

/// Starts a prediction, or stops the running one.
///
/// # Errors
/// `Invalid` if a number of the page cannot be parsed, the catalog does not have the controller or
/// drive, or the volume cannot be predicted.
pub(super) fn predict(
    world: &World,
    verb: &str,
    of: &str,
    asked: &FormValues<'_>,
) -> Result<Option<ConsoleAction>> {
    match verb {
        "predict-run" => foresee(world, of, asked).map(Some),
        "predict-stop" => {
            let order = Order::StopPredicting;
            Ok(Some(deed("predict-stop", of, "Stop the prediction", order, String::new())))
        }
        _ => Ok(None),
    }
}

/// A number from the page, if present.
fn number(asked: &FormValues<'_>, name: &str) -> Result<Option<u64>> {
    let word = asked.word(name);
    let wrong = || {
        let sentence =
            format!("'{word}' is not a number for {name}; open the page of the volume again");
        Error::new(ErrorKind::Invalid, sentence)
    };
    if word.is_empty() { Ok(None) } else { word.parse().map(Some).map_err(|_| wrong()) }
}

/// The failed slots from the page.
fn slots(asked: &FormValues<'_>) -> Result<Vec<u16>> {
    let words = asked.word("failed").split(',').filter(|word| !word.is_empty());
    let slot = |word: &str| {
        let wrong = || {
            let sentence =
                format!("'{word}' is not the number of a slot; open the page of the volume again");
            Error::new(ErrorKind::Invalid, sentence)
        };
        word.parse().map_err(|_| wrong())
    };
    words.map(slot).collect()
}

/// The model with that name; by default the first one. A joined list of names is invalid: a form
/// selects one model, unlike the command line.
fn model<'w>(
    models: &'w [crate::Model],
    kind: &str,
    name: &str,
) -> Result<Option<&'w crate::Model>> {
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

fn foresee(world: &World, of: &str, asked: &FormValues<'_>) -> Result<ConsoleAction> {
    let offer = &world.workbench.offer;
    let known = model(&offer.controllers, "controller", asked.word("controller"))?;
    let drive = model(&offer.drives, "drive", asked.word("drive"))?;
    let named = |one: Option<&crate::Model>| one.map(|one| one.name.clone()).unwrap_or_default();
    let strip_kib = number(asked, "strip")?;
    // Without this strip size in the model, the controller's default applies; the command line
    // shows it.
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
        models
            .iter()
            .map(|one| (one.name.clone(), format!("{}: {}", one.name, one.about)))
            .collect()
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
    let label = format!("Predict {} on {} drives", order.level, order.drives.0);
    let cli = command_line(&order.words());
    Ok(ConsoleAction { fields, ..deed("predict-run", of, &label, Order::Predict(order), cli) })
}
