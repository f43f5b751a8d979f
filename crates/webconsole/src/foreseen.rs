//! Predictions on planning pages, for a controller and a drive of the catalog that the viewer
//! selects.

use crate::advice::is_out;
use crate::bench::rate;
use crate::words::{Query, rendered, sentence};
use crate::{Model, Predict, Stage, Viewer, World};
use access::Action;
use askama::Template;
use controller::VolumeInfo;

#[derive(Template)]
#[template(path = "models.html")]
struct Form {
    controllers: Vec<Choice>,
    drives: Vec<Choice>,
    /// Why no prediction is available to the viewer.
    cannot: Option<String>,
}

/// A controller or a drive of the catalog.
struct Choice {
    name: String,
    about: String,
    is_chosen: bool,
}

/// The prediction of one configuration.
pub(crate) struct PredictedRate {
    pub(crate) rate: String,
    pub(crate) why: Option<String>,
}

/// The predicted load and its number of outstanding requests.
const LOAD: (&str, &str) = ("database", "32");

/// The selected controller and drive of the catalog.
pub(crate) struct Models<'q> {
    pub(crate) controller: &'q str,
    pub(crate) drive: &'q str,
}

impl<'q> Models<'q> {
    /// The models of an address. Joined names and unknown names count as no selection.
    pub(crate) fn of(world: &World, query: &'q Query) -> Option<Models<'q>> {
        let offer = &world.workbench.offer;
        let chosen = |name, models: &[Model]| {
            query.get(name).filter(|value| models.iter().any(|one| one.name == *value))
        };
        Some(Models {
            controller: chosen("controller", &offer.controllers)?,
            drive: chosen("model", &offer.drives)?,
        })
    }

    /// The prediction of a level on this number of drives.
    pub(crate) fn order(
        &self,
        world: &World,
        level: &str,
        drives: usize,
        (spans, strip_bytes): (u16, u64),
    ) -> Predict {
        let known =
            world.workbench.offer.controllers.iter().find(|one| one.name == self.controller);
        let kib = strip_bytes >> 10;
        Predict {
            controller: self.controller.to_owned(),
            drives: (drives, self.drive.to_owned()),
            level: level.to_owned(),
            spans,
            strip_kib: known.filter(|known| known.strips_kib.contains(&kib)).map(|_| kib),
            profile: LOAD.0.to_owned(),
            outstanding: LOAD.1.to_owned(),
            failed: Vec::new(),
        }
    }
}

/// The failed or missing slots of a volume.
pub(crate) fn out(volume: &VolumeInfo) -> Vec<u16> {
    (0_u16..)
        .zip(&volume.drives)
        .filter(|(_, drive)| is_out(drive.state))
        .map(|(slot, _)| slot)
        .collect()
}

/// Why a volume without these slots cannot be predicted: the model would be another volume.
pub(crate) fn not_of(volume: &VolumeInfo, failed: &[u16]) -> Option<String> {
    if volume.level == "raid5ee" && !failed.is_empty() {
        let sentence = "no prediction for a RAID 5EE without all drives: the model does not have \
            its distributed spare";
        return Some(sentence.to_owned());
    }
    let drives = u16::try_from(volume.drives.len()).unwrap_or(u16::MAX);
    let usual = match volume.level.as_str() {
        "raid1e" => 2,
        "raid1" | "raid10" => drives / volume.spans.max(1),
        _ => return None,
    };
    (volume.copies != usual).then(|| {
        format!(
            "no prediction for a volume with {} copies of each block: the model has {usual} for \
                this level",
            volume.copies
        )
    })
}

/// The load in words.
pub(crate) fn load() -> String {
    format!("load {} with {} outstanding requests", LOAD.0, LOAD.1)
}

/// The selectable models.
fn offered(models: &[Model], chosen: Option<&str>) -> Vec<Choice> {
    let choice = |one: &Model| Choice {
        name: one.name.clone(),
        about: one.about.clone(),
        is_chosen: chosen == Some(one.name.as_str()),
    };
    models.iter().map(choice).collect()
}

/// The model selection, as a part of a form.
pub(crate) fn form(world: &World, viewer: &Viewer, query: &Query) -> String {
    let offer = &world.workbench.offer;
    rendered(&Form {
        controllers: offered(&offer.controllers, query.get("controller")),
        drives: offered(&offer.drives, query.get("model")),
        cannot: viewer.caller.may(Action::Benchmark).err().map(|why| sentence(&why.message)),
    })
}

/// The state of a prediction.
pub(crate) fn of(world: &World, order: &Predict) -> PredictedRate {
    let Some(known) = world.foreseen.iter().find(|known| known.order == *order) else {
        return PredictedRate { rate: "–".to_owned(), why: None };
    };
    let best = known.points.iter().map(|point| point.per_s).fold(0.0, f64::max);
    let (rate, why) = match &known.stage {
        Stage::Waits => ("queued".to_owned(), None),
        Stage::Runs => (format!("prediction at {} %", known.percent), None),
        Stage::Done => (rate(best), None),
        Stage::Stopped(why) | Stage::Failed(why) => ("–".to_owned(), Some(sentence(why))),
    };
    PredictedRate { rate, why }
}
