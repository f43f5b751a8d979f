//! Figures whose row contains all data for a run.

use super::{Case, Figure, Metric, Reproduced, Runner, compared};
use crate::error::{Error, Result};
use models::{Catalog, DriveLink};

/// The runs for a figure.
#[derive(Debug)]
pub struct Measured {
    metric: Metric,
    /// The published value.
    value: f64,
    /// For each controller its name, and the cases, of which the best counts.
    runs: Vec<(String, Vec<Case>)>,
}

impl Measured {
    /// Reads a row.
    ///
    /// # Errors
    /// When the row or the catalog is incomplete.
    pub fn of(catalog: &Catalog, figure: &Figure) -> Result<Measured> {
        let missing = |what: &str| Error::refused(what);
        let metric = match figure.metric.as_str() {
            "iops" => Metric::Iops,
            "throughput_mib_s" => Metric::Throughput,
            _ => return Err(missing("a statement without a case")),
        };
        let value = figure.number().ok_or_else(|| missing("no single value is published"))?;
        if !matches!(figure.doc.as_str(), "fujitsu2013" | "fujitsu2016" | "sx940") {
            return Err(missing("the method of this document is not modelled"));
        }
        if figure.drive.is_empty() || catalog.drive(&figure.drive).is_err() {
            return Err(missing("the drives are not stated, or are not in the catalog"));
        }
        let count: u32 = figure
            .drive_count
            .parse()
            .map_err(|_| missing("the number of drives is not stated"))?;
        let single = figure.controller.is_empty() && count == 1;
        if figure.controller.is_empty() && !single {
            return Err(missing("the controller is not stated"));
        }
        let controllers: Vec<&str> =
            if single { vec!["direct"] } else { figure.controller.split('|').collect() };
        let level = if single { "jbod".to_owned() } else { format!("raid{}", figure.level) };
        let mut runs = Vec::new();
        for controller in controllers.into_iter().filter(|name| catalog.controller(name).is_ok()) {
            let head = format!("{controller} / {count}x{} / {level}", figure.drive);
            let what = format!("{controller} {count}x{} {level} {}", figure.drive, figure.profile);
            let settings = settings(catalog, figure, controller, single);
            runs.push((what, cases(figure, &head, &settings)?));
        }
        match runs.is_empty() {
            true => Err(missing("its controllers are not in the catalog")),
            false => Ok(Measured { metric, value, runs }),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// When a case cannot be configured.
    pub fn run(&self, runner: &Runner<'_>, figure: &Figure) -> Result<Vec<Reproduced>> {
        let mut found = Vec::new();
        for (what, cases) in &self.runs {
            let mut best: f64 = 0.0;
            for case in cases {
                best = best.max(runner.value(case, self.metric)?);
            }
            let place =
                cases.first().map(|case| case.place(runner.catalog(), self.metric)).transpose()?;
            let compared = compared(figure, what.clone(), self.value, best);
            found.push(Reproduced { value: Some(self.value), place, ..compared });
        }
        Ok(found)
    }
}

/// A controller's cases: all profiles of the row at all its depths.
fn cases(figure: &Figure, head: &str, settings: &str) -> Result<Vec<Case>> {
    let depths = match figure.outstanding.as_str() {
        "max(1-512)" => vec!["max"],
        depths => depths.split('|').collect(),
    };
    let method = &figure.doc;
    let mut cases = Vec::new();
    for profile in figure.profile.split('|') {
        let profile = profile.to_lowercase().replace(' ', "-");
        for depth in &depths {
            cases.push(Case::parse(&format!(
                "{head} / {profile} / {method} / {settings} @ {depth}"
            ))?);
        }
    }
    Ok(cases)
}

/// The settings of a row. The drives' caches are off for SAS disks in arrays of the 2016 paper,
/// otherwise on. The controller's cache follows the row. A preset that the row names is also the
/// controller's default.
fn settings(catalog: &Catalog, figure: &Figure, controller: &str, single: bool) -> String {
    let sas_disk = catalog
        .drive(&figure.drive)
        .is_ok_and(|drive| drive.is_rotating() && matches!(drive.link, DriveLink::Sas { .. }));
    let off = figure.settings.contains("disk cache disabled")
        || (figure.doc == "fujitsu2016" && sas_disk && !single);
    let mut words = vec![if off { "off" } else { "on" }.to_owned()];
    if let Some(cache) =
        catalog.controller(controller).ok().and_then(|controller| controller.cache.as_ref())
    {
        let has_fast_path = cache.presets.iter().any(|preset| preset == "fast-path");
        let named = figure.settings.contains("Fast Path optimum")
            || figure.setting("fastpath") == Some("on");
        let without = figure.setting("read_mode") == Some("No read-ahead")
            || figure.setting("fastpath") == Some("off");
        if named && has_fast_path {
            words.push("fast-path".to_owned());
        } else if without {
            words.push("no-read-ahead write-through".to_owned());
        }
    }
    if let Some(workers) = figure.workers.parse::<u32>().ok().filter(|workers| *workers > 1) {
        words.push(format!("workers={workers}"));
    }
    words.join(" ")
}
