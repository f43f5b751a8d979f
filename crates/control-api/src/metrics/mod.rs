//! `GET /metrics`: counters and measurements in Prometheus' text format.
//!
//! Modules: `text` has the format; `controller` the controller, tasks, spares and events; `volumes`
//! and `drives` one series per volume or drive; `work` their operations and latencies; `node_md`
//! the series of node_exporter for Linux md, for existing rules and panels.
//!
//! Each metric has a help text; `docs/operate/monitoring.md` has the most important ones. Names are
//! stable: rules and panels rely on them.

mod controller;
mod drives;
mod node_md;
pub(crate) mod text;
mod volumes;
mod work;

use ::controller::MetricsInfo;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Instant;
use text::{Kind, Labels, Page};

/// Optional series.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MetricsOptions {
    /// Each volume also as a Linux md array in the format of node_exporter: `node_md_…`, with `md_`
    /// before the volume's name.
    pub node_md: bool,
}

/// The page. `since`: the time of the request.
pub(crate) fn page(metrics: &MetricsInfo, options: MetricsOptions, since: Instant) -> String {
    let mut page = Page::default();
    let volumes = named(&metrics.volumes, "volume", |volume| &volume.volume.name);
    let drives = named(&metrics.drives, "drive", |drive| &drive.drive.name);
    controller::write(&mut page, metrics);
    volumes::write(&mut page, metrics, &volumes);
    drives::write(&mut page, metrics, &drives);
    if options.node_md {
        node_md::write(&mut page, metrics);
    }
    let help = "Time to collect and write this page.";
    let mut family = page.family("softroc_scrape_duration_seconds", Kind::Gauge, help);
    family.value(since.elapsed().as_secs_f64());
    page.finish()
}

/// An object with its distinguishing label.
struct Named<'m, T> {
    labels: Labels,
    what: &'m T,
}

/// Objects with their names. Duplicate names get a number, because two series must not have the
/// same labels.
fn named<'m, T>(all: &'m [T], label: &str, name: impl Fn(&T) -> &str) -> Vec<Named<'m, T>> {
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    let mut named = Vec::with_capacity(all.len());
    for what in all {
        let name = name(what);
        let times = times.entry(name).or_default();
        *times += 1;
        let labels = match *times {
            1 => Labels::of(label, name),
            number => Labels::of(label, &format!("{name}#{number}")),
        };
        named.push(Named { labels, what });
    }
    named
}

/// A family with one series per object that has a value.
fn column<T, V: Display>(
    page: &mut Page,
    name: &'static str,
    kind: Kind,
    help: &str,
    rows: &[Named<'_, T>],
    value: impl Fn(&T) -> Option<V>,
) {
    let mut family = page.family(name, kind, help);
    rows.iter().for_each(|row| family.known(&row.labels, value(row.what)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_series_are_called_the_same() {
        let names = ["a", "b", "a", "a"].map(str::to_owned);
        let mut page = Page::default();
        column(&mut page, "x", Kind::Gauge, "X.", &named(&names, "n", |name| name), |_| Some(1));
        let text = page.finish();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines, ["x{n=\"a\"} 1", "x{n=\"b\"} 1", "x{n=\"a#2\"} 1", "x{n=\"a#3\"} 1"]);
    }
}
