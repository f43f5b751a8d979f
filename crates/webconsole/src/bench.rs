//! The benchmark page: the benchmark and the prediction of a volume, also while they run.

use crate::foreseen;
use crate::page::Part;
use crate::words::{Badge, Moment, Query, Tone, duration, encoded, sentence, volume_page};
use crate::workbench::{Model, Point, Prediction, Run, Stage, command_line};
use crate::{Load, Viewer, World, deed};
use askama::Template;
use controller::VolumeInfo;
use std::fmt;
use units::counted;

/// The default controller for predictions: it adds no latency of its own.
const PLAIN: &str = "HBA";

#[derive(Template)]
#[template(path = "bench.html")]
struct Head {
    volume: String,
    link: String,
    others: Vec<(String, String)>,
    /// Number of connected hosts.
    hosts: Option<String>,
    form: Option<String>,
}

#[derive(Template)]
#[template(path = "bench-none.html")]
struct NoVolume {}

#[derive(Template)]
#[template(path = "bench-run.html")]
struct Measured {
    what: String,
    by: String,
    begun: Moment,
    badge: Badge<Standing>,
    why: Option<String>,
    now: Option<Now>,
    rows: Vec<Row>,
    notes: Vec<String>,
    cli: String,
    stop: Vec<String>,
    has_report: bool,
    /// Whether a prediction of the same load can be compared.
    has_both: bool,
}

/// The current values of a benchmark.
struct Now {
    percent: u8,
    said: String,
    left: String,
}

struct Row {
    profile: String,
    outstanding: u32,
    cells: [String; 4],
}

#[derive(Template)]
#[template(path = "bench-prediction.html")]
struct PredictionPart {
    form: Option<String>,
    /// Why the volume cannot be predicted.
    why: Option<String>,
    told: Option<PredictionView>,
}

/// The requested prediction.
struct PredictionView {
    what: String,
    badge: Badge<Standing>,
    why: Option<String>,
    percent: Option<u8>,
    rows: Vec<Row>,
    notes: Vec<String>,
    cli: String,
    stop: Vec<String>,
}

#[derive(Template)]
#[template(path = "bench-compared.html")]
struct Compared {
    measured: String,
    predicted: String,
    rows: Vec<(String, [String; 4])>,
}

#[derive(Template)]
#[template(path = "bench-loads.html")]
struct Loads<'w> {
    loads: &'w [Load],
}

/// The state of a benchmark or a prediction, as a word.
#[derive(Clone, Copy)]
enum Standing {
    Waits,
    Runs,
    Done,
    Stopped,
    Failed,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Standing::Waits => "queued",
            Standing::Runs => "running",
            Standing::Done => "done",
            Standing::Stopped => "stopped",
            Standing::Failed => "failed",
        })
    }
}

impl From<Standing> for Tone {
    fn from(standing: Standing) -> Tone {
        match standing {
            Standing::Waits | Standing::Stopped => Tone::Idle,
            Standing::Runs => Tone::Busy,
            Standing::Done => Tone::Good,
            Standing::Failed => Tone::Bad,
        }
    }
}

fn standing(stage: &Stage) -> (Badge<Standing>, Option<String>) {
    let (standing, why) = match stage {
        Stage::Waits => (Standing::Waits, None),
        Stage::Runs => (Standing::Runs, None),
        Stage::Done => (Standing::Done, None),
        Stage::Stopped(why) => (Standing::Stopped, Some(why)),
        Stage::Failed(why) => (Standing::Failed, Some(why)),
    };
    (Badge(standing), why.map(|why| sentence(why)))
}

/// `None`: no such volume.
pub(crate) fn parts(
    world: &World,
    viewer: &Viewer,
    back: &str,
    query: &Query,
) -> Option<Vec<Part>> {
    let of = query.get("of").filter(|name| !name.is_empty());
    let named = |name: &str| world.volumes.iter().find(|volume| volume.name == name);
    let volume = match of {
        Some(name) => named(name)?,
        // Without a volume in the address, the page shows the running benchmark.
        None => {
            let measured = world.workbench.run.as_ref().and_then(|run| named(&run.order.volume));
            match measured.or(world.volumes.first()) {
                Some(volume) => volume,
                None => return Some(vec![Part::new("bench", &NoVolume {})]),
            }
        }
    };
    let mut parts = vec![Part::new("bench", &head(world, volume, viewer, back))];
    parts.push(match &world.workbench.run {
        Some(run) => Part::new("run", &measured(world, run, viewer, back)),
        None => Part::empty("run"),
    });
    parts.push(Part::new("prediction", &prediction(world, volume, viewer, back)));
    parts.push(
        compared(world)
            .map_or_else(|| Part::empty("compared"), |both| Part::new("compared", &both)),
    );
    parts.push(Part::new("loads", &Loads { loads: &world.workbench.offer.profiles }));
    Some(parts)
}

fn head(world: &World, volume: &VolumeInfo, viewer: &Viewer, back: &str) -> Head {
    let link = |volume: &VolumeInfo| format!("/console/bench?of={}", encoded(&volume.name));
    let others = world.volumes.iter().filter(|other| other.uuid != volume.uuid);
    // The benchmark itself is a host of its volume.
    let is_measured = |run: &Run| run.order.volume == volume.name && !run.stage.is_over();
    let own = usize::from(world.workbench.run.as_ref().is_some_and(is_measured));
    let hosts = volume.hosts.len().saturating_sub(own);
    // The values of the last benchmark are the initial ones.
    let last = world.workbench.run.as_ref().map(|run| &run.order);
    let said: Vec<(&str, &str)> = last.map_or_else(Vec::new, |last| {
        vec![
            ("profile", &*last.profile),
            ("outstanding", &*last.outstanding),
            ("runtime", &*last.runtime),
        ]
    });
    Head {
        volume: volume.name.clone(),
        link: volume_page(&volume.name),
        others: others.map(|other| (other.name.clone(), link(other))).collect(),
        hosts: (hosts > 0).then(|| counted(hosts, "host")),
        form: deed::form(world, viewer, back, &volume.name, "bench-run", &said),
    }
}

fn measured(world: &World, run: &Run, viewer: &Viewer, back: &str) -> Measured {
    let (badge, why) = standing(&run.stage);
    let now = run.live.as_ref().filter(|_| !run.stage.is_over()).map(|live| {
        let errors =
            if live.errors > 0 { format!(", {} failed", live.errors) } else { String::new() };
        Now {
            percent: live.percent,
            said: format!(
                "{} requests/s, {} MiB/s, {} each{errors}: {}, {} outstanding, {} (point {} of {})",
                rate(live.per_s),
                rate(live.mib_per_s),
                time(live.mean_us),
                live.profile,
                live.outstanding,
                live.phase,
                live.point.0,
                live.point.1
            ),
            left: duration(live.left_s),
        }
    });
    let stop = if run.stage.is_over() {
        Vec::new()
    } else {
        deed::forms(world, viewer, back, "", &["bench-stop"])
    };
    let has_report = run.stage.is_over() && !run.points.is_empty();
    Measured {
        what: run.order.volume.clone(),
        by: run.by.clone(),
        begun: Moment { at_s: run.begun_unix_s, now_s: world.now_unix_s },
        badge,
        why,
        now,
        rows: run.points.iter().map(row).collect(),
        notes: run.notes.iter().map(|note| sentence(note)).collect(),
        cli: command_line(&run.order.words()),
        stop,
        has_report,
        has_both: has_report && compared(world).is_some(),
    }
}

fn row(point: &Point) -> Row {
    let sure = point.sure_percent.map(|percent| format!(" ± {percent:.1} %")).unwrap_or_default();
    Row {
        profile: point.profile.clone(),
        outstanding: point.outstanding,
        cells: [
            format!("{}{sure}", rate(point.per_s)),
            rate(point.mib_per_s),
            time(point.mean_us),
            time(point.p99_us),
        ],
    }
}

fn prediction(world: &World, volume: &VolumeInfo, viewer: &Viewer, back: &str) -> PredictionPart {
    let bench = &world.workbench;
    let rotates = volume.drives.iter().any(|drive| drive.rotational);
    let last = bench.prediction.as_ref().map(|last| &last.order);
    let first = |models: &[Model], is: &dyn Fn(&Model) -> bool| {
        models.iter().find(|one| is(one)).map(|one| one.name.clone()).unwrap_or_default()
    };
    let controller = last.map_or_else(
        || first(&bench.offer.controllers, &|one| one.name == PLAIN),
        |last| last.controller.clone(),
    );
    let drive = last.map_or_else(
        || first(&bench.offer.drives, &|one| one.rotates == rotates),
        |last| last.drives.1.clone(),
    );
    let (drives, spans) = (volume.drives.len().to_string(), volume.spans.to_string());
    let strip = (volume.strip_bytes >> 10).to_string();
    let out = foreseen::out(volume);
    let failed: Vec<String> = out.iter().map(ToString::to_string).collect();
    let failed = failed.join(",");
    let mut said: Vec<(&str, &str)> = vec![
        ("level", &volume.level),
        ("drives", &drives),
        ("spans", &spans),
        ("strip", &strip),
        ("failed", &failed),
        ("controller", &controller),
        ("drive", &drive),
    ];
    if let Some(run) = &bench.run {
        said.extend([("profile", &*run.order.profile), ("outstanding", &*run.order.outstanding)]);
    }
    PredictionPart {
        form: deed::form(world, viewer, back, &volume.name, "predict-run", &said),
        why: foreseen::not_of(volume, &out).map(|why| sentence(&why)),
        told: bench.prediction.as_ref().map(|prediction| told(world, prediction, viewer, back)),
    }
}

/// A short description of a prediction.
fn named(prediction: &Prediction) -> String {
    let order = &prediction.order;
    let slots: Vec<String> = order.failed.iter().map(ToString::to_string).collect();
    let kind = if slots.len() == 1 { "drive" } else { "drives" };
    let lacks = match slots.is_empty() {
        true => String::new(),
        false => format!(", without {kind} {}", slots.join(", ")),
    };
    format!("{}, {} × {}, {}{lacks}", order.controller, order.drives.0, order.drives.1, order.level)
}

fn told(world: &World, prediction: &Prediction, viewer: &Viewer, back: &str) -> PredictionView {
    let (badge, why) = standing(&prediction.stage);
    let is_over = prediction.stage.is_over();
    PredictionView {
        what: named(prediction),
        badge,
        why,
        percent: (!is_over).then_some(prediction.percent),
        rows: prediction.points.iter().map(row).collect(),
        notes: prediction.notes.iter().map(|note| sentence(note)).collect(),
        cli: command_line(&prediction.order.words()),
        stop: if is_over {
            Vec::new()
        } else {
            deed::forms(world, viewer, back, "", &["predict-stop"])
        },
    }
}

/// Measured and predicted values for the same load and outstanding requests, if the prediction
/// matches the measured volume.
fn compared(world: &World) -> Option<Compared> {
    let (run, prediction) = (world.workbench.run.as_ref()?, world.workbench.prediction.as_ref()?);
    let volume = world.volumes.iter().find(|volume| volume.name == run.order.volume)?;
    let of = (prediction.order.level.as_str(), prediction.order.drives.0);
    if of != (volume.level.as_str(), volume.drives.len()) {
        return None;
    }
    let pair = |measured: &Point| {
        let is_same = |other: &&Point| {
            other.profile == measured.profile && other.outstanding == measured.outstanding
        };
        let predicted = prediction.points.iter().find(is_same)?;
        let share = measured.per_s / predicted.per_s.max(f64::MIN_POSITIVE) * 100.0;
        let cells = [
            rate(measured.per_s),
            rate(predicted.per_s),
            format!("{share:.0} %"),
            format!("{} / {}", time(measured.mean_us), time(predicted.mean_us)),
        ];
        Some((format!("{}, {} outstanding", measured.profile, measured.outstanding), cells))
    };
    let rows: Vec<(String, [String; 4])> = run.points.iter().filter_map(pair).collect();
    let (measured, predicted) = (run.order.volume.clone(), named(prediction));
    (!rows.is_empty()).then_some(Compared { measured, predicted, rows })
}

/// A rate for display.
pub(crate) fn rate(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// A time in microseconds for display; empty without a measurement.
fn time(us: Option<f64>) -> String {
    match us {
        None => "–".to_owned(),
        Some(us) if us < 1000.0 => format!("{us:.0} µs"),
        Some(us) if us < 1_000_000.0 => format!("{:.1} ms", us / 1000.0),
        Some(us) => format!("{:.1} s", us / 1_000_000.0),
    }
}
