//! `GET /metrics`: what the controller counts and measures, in Prometheus' text format.
//!
//! | module | writes |
//! | --- | --- |
//! | `text` | the format: families, labels, histograms |
//! | `controller` | the controller, its tasks, spares and events |
//! | `volumes`, `drives` | a series for each volume, and for each drive |
//! | `work` | what was asked of either, and how long it took |
//! | `node_md` | the series of node_exporter for Linux md, for rules and panels that are made for these |
//!
//! Each metric has a help text; `docs/operate/monitoring.md` has the most important ones. Names are stable: rules and panels rely
//! on them.

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

/// What is told besides SoftROC's own series.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MetricsOptions {
    /// Each volume also as node_exporter tells of an array of Linux md: `node_md_…`, with `md_` before the volume's name.
    pub node_md: bool,
}

/// The page. `since`: when it was asked for.
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
    let help = "How long it took to gather and write this page.";
    let mut family = page.family("softroc_scrape_duration_seconds", Kind::Gauge, help);
    family.value(since.elapsed().as_secs_f64());
    page.finish()
}

/// Something with the label that tells it from others of its kind.
struct Named<'m, T> {
    labels: Labels,
    what: &'m T,
}

/// Each with its name. One whose name another one has, too, has a number behind it: two series must not be called the same.
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

/// A family with a series for each of these that has a value.
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
