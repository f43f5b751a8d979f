//! Intervals of several resolutions as points of one length.

use crate::figures::Figures;
use crate::interval::Interval;
use crate::store::Subject;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The history of a volume or a drive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its unique key: the UUID of a volume, the identity of a drive.
    pub key: String,
    /// The figures of the whole range.
    pub total: Figures,
    /// The figures of its parts, oldest first. Parts without data are left out.
    pub points: Vec<Point>,
}

/// A part of a history.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Its start, in seconds since 1970.
    pub at_unix_s: u64,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Intervals of subjects, merged into points of equal length.
pub(crate) struct Points {
    step_s: u64,
    of: BTreeMap<Subject, BTreeMap<u64, Interval>>,
}

impl Points {
    pub(crate) fn new(step_s: u64) -> Points {
        Points { step_s: step_s.max(1), of: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, subject: &Subject, at_s: u64, interval: &Interval) {
        let at_s = at_s / self.step_s * self.step_s;
        if !self.of.contains_key(subject) {
            self.of.insert(subject.clone(), BTreeMap::new());
        }
        let Some(points) = self.of.get_mut(subject) else { return };
        points.entry(at_s).or_default().merge(interval);
    }

    /// The histories, by kind and name.
    pub(crate) fn series(self) -> Vec<(Subject, Series)> {
        let mut all: Vec<(Subject, Series)> =
            self.of.into_iter().map(|(subject, of)| one(subject, of)).collect();
        all.sort_by(|(a, _), (b, _)| (a.kind, &a.name, &a.key).cmp(&(b.kind, &b.name, &b.key)));
        all
    }
}

fn one(subject: Subject, of: BTreeMap<u64, Interval>) -> (Subject, Series) {
    let mut total = Interval::default();
    of.values().for_each(|interval| total.merge(interval));
    let points = of
        .iter()
        .map(|(at_s, interval)| Point { at_unix_s: *at_s, figures: Figures::of(interval) });
    let series = Series {
        name: subject.name.clone(),
        key: subject.key.clone(),
        total: Figures::of(&total),
        points: points.collect(),
    };
    (subject, series)
}

/// The length of points: a multiple of the resolution, with at most `most` points in the range.
pub(crate) fn step_s(span_s: u64, most: u64, resolution_s: u64) -> u64 {
    span_s.div_ceil(most.max(1)).div_ceil(resolution_s).max(1) * resolution_s
}
