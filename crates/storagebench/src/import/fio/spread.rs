//! The distribution of random requests: `random_distribution`.

use super::super::Taken;
use super::Given;
use super::blocks::completed;
use super::extent::LARGEST;
use super::job::Reader;
use super::value::{Amount, percent};
use crate::load::profile::{Skew, Zone};

/// The distribution of one direction's random requests.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Spread {
    pub(super) skew: Skew,
    /// The bytes from the start of the job's part that zones with sizes cover.
    pub(super) bytes: Option<u64>,
}

impl Spread {
    pub(super) const EVEN: Spread = Spread { skew: Skew::Uniform, bytes: None };
}

impl Reader<'_> {
    /// The distributions of reads and of writes.
    pub(super) fn spreads(&mut self) -> Taken<[Spread; 2]> {
        let Some(given) = self.given("random_distribution")? else {
            return Ok([Spread::EVEN, Spread::EVEN]);
        };
        let mut kind = "random";
        let mut spreads = Vec::new();
        for side in given.value.split(',') {
            // The second distribution may omit its kind, which is then the first one's.
            let (name, parameter) = side.trim().split_once(':').unwrap_or((side.trim(), ""));
            let is_kind = name.is_empty() || name.starts_with(|c: char| c.is_ascii_alphabetic());
            let parameter = if is_kind { parameter } else { side.trim() };
            kind = if is_kind { name } else { kind };
            spreads.push(self.spread(given, &kind.to_ascii_lowercase(), parameter)?);
        }
        let [reads, writes] = [spreads.first().cloned(), spreads.get(1).cloned()];
        let reads = reads.unwrap_or(Spread::EVEN);
        Ok([reads.clone(), writes.unwrap_or(reads)])
    }

    fn spread(&mut self, given: &Given, kind: &str, parameter: &str) -> Taken<Spread> {
        let skew = |skew| Ok(Spread { skew, bytes: None });
        match kind {
            "random" => Ok(Spread::EVEN),
            "zipf" => skew(self.zipf(given, parameter)?),
            "zoned" => skew(Skew::Zones(self.zones(given, parameter)?)),
            "zoned_abs" => self.sized_zones(given, parameter),
            "pareto" => skew(self.pareto(given, parameter)?),
            "normal" => skew(self.normal(given, parameter)?),
            _ => self.misunderstood(
                given,
                "random, zipf, pareto, normal, zoned or zoned_abs, such as zipf:1.1",
            ),
        }
    }

    /// The parameter of a distribution. The optional centre after it is ignored.
    fn parameter<'b>(&mut self, given: &Given, text: &'b str) -> &'b str {
        let (parameter, centre) = text.split_once(':').unwrap_or((text, ""));
        if !centre.is_empty() {
            self.note(
                given,
                format_args!(
                    "the centre '{centre}' of '{}' is left out: popular blocks are scattered here",
                    given.written
                ),
            );
        }
        parameter.trim()
    }

    fn zipf(&mut self, given: &Given, parameter: &str) -> Taken<Skew> {
        let theta = self.parameter(given, parameter);
        match if theta.is_empty() { Ok(1.1) } else { theta.parse() } {
            Ok(theta) if (0.0..=10.0).contains(&theta) => Ok(Skew::Zipf { theta }),
            _ => self.misunderstood(given, "an exponent from 0 to 10, such as zipf:1.1"),
        }
    }

    fn pareto(&mut self, given: &Given, parameter: &str) -> Taken<Skew> {
        let share = self.parameter(given, parameter);
        match if share.is_empty() { Ok(0.2) } else { share.parse() } {
            Ok(share) if (0.0001..=0.9999).contains(&share) => Ok(Skew::Pareto { share }),
            _ => self.misunderstood(given, "a share from 0.0001 to 0.9999, such as pareto:0.2"),
        }
    }

    fn normal(&mut self, given: &Given, parameter: &str) -> Taken<Skew> {
        let deviation = self.parameter(given, parameter);
        match if deviation.is_empty() { Ok(0.0) } else { deviation.trim_end_matches('%').parse() } {
            Ok(deviation_percent) if (0.0..=100.0).contains(&deviation_percent) => {
                Ok(Skew::Normal { deviation_percent })
            }
            _ => self.misunderstood(given, "a percentage from 0 to 100, such as normal:10"),
        }
    }

    /// `60/10:30/20:10/`: shares of the requests and of the area; zones without a value get equal
    /// parts of the rest.
    fn zones(&self, given: &Given, parameter: &str) -> Taken<Vec<Zone>> {
        let expected = "zones whose shares add up to 100 % each, such as zoned:60/10:30/20:10/70";
        let mut zones = Vec::new();
        for zone in parameter.split(':') {
            let (access, span) = zone.split_once('/').unwrap_or((zone, ""));
            let span = if span.trim().is_empty() { Some(None) } else { percent(span).map(Some) };
            match (percent(access), span) {
                (Some(access), Some(span)) => zones.push((access, span)),
                _ => return self.misunderstood(given, expected),
            }
        }
        let access: f64 = zones.iter().map(|(access, _)| access).sum();
        let spans: Vec<Option<f64>> = zones.iter().map(|(_, span)| *span).collect();
        let Some(spans) = completed(&spans).filter(|_| access == 100.0) else {
            return self.misunderstood(given, expected);
        };
        self.checked(given, zones.iter().map(|zone| zone.0).zip(spans).collect())
    }

    /// `60/1g:40/9g`: shares of the requests, and sizes.
    fn sized_zones(&mut self, given: &Given, parameter: &str) -> Taken<Spread> {
        let expected = "zones with sizes and shares that add up to 100 %, such as \
                        zoned_abs:60/1g:40/9g";
        let size = match self.given("size")?.and_then(|size| self.base.amount(&size.value)) {
            Some(Amount::Bytes(bytes)) if bytes > 0 => Some(bytes),
            _ => None,
        };
        let (mut zones, mut sum) = (Vec::new(), 0_u64);
        for zone in parameter.split(':') {
            let (access, span) = zone.split_once('/').unwrap_or((zone, ""));
            let span = match (span.trim(), size) {
                ("", Some(size)) => size.checked_sub(sum),
                ("", None) => {
                    let sentence = "leaves the rest to a zone, but the job has no size; add one \
                                    such as size=10g";
                    return self.refuse(given, sentence);
                }
                (span, _) => self.base.number(span),
            };
            match (
                percent(access),
                span,
                span.and_then(|span| sum.checked_add(span).filter(|end| *end <= LARGEST)),
            ) {
                (Some(access), Some(span), Some(end)) => {
                    zones.push((access, span as f64));
                    sum = end;
                }
                _ => return self.misunderstood(given, expected),
            }
        }
        if sum == 0 || zones.iter().map(|(access, _)| access).sum::<f64>() != 100.0 {
            return self.misunderstood(given, expected);
        }
        if size.is_some_and(|size| sum > size) {
            let sentence = "has zones beyond the size of the job, which fio refuses too; give a \
                            larger size= or smaller zones";
            return self.refuse(given, sentence);
        }
        let percent = |(access, span): &(f64, f64)| (*access, span * 100.0 / sum as f64);
        let zones = self.checked(given, zones.iter().map(percent).collect())?;
        Ok(Spread { skew: Skew::Zones(zones), bytes: Some(sum) })
    }

    /// Rejects zones with requests but without a size.
    fn checked(&self, given: &Given, zones: Vec<(f64, f64)>) -> Taken<Vec<Zone>> {
        if zones.iter().any(|(access, span)| *access > 0.0 && *span <= 0.0) {
            return self
                .misunderstood(given, "zones with a size above 0, such as zoned:60/10:40/90");
        }
        let zone = |(access_percent, span_percent)| Zone { access_percent, span_percent };
        Ok(zones.into_iter().map(zone).collect())
    }
}
