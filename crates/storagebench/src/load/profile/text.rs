//! Profiles in words: the description, and the text forms of small values.

use super::{Access, Align, Extent, Pace, Profile, Skew};
use crate::load::area::short_size;
use std::fmt::Write as _;
use std::time::Duration;
use units::ByteCount;

impl Profile {
    /// The load in a line: `random, 67% read, 8 KiB`.
    pub fn description(&self) -> String {
        let mut text =
            format!("{}, {}, {}", self.access_text(), self.read_text(), self.block_text());
        let component = &self.load.components[0];
        if self.load.components.len() > 1 {
            let _ = write!(text, ", {} components", self.load.components.len());
        } else {
            text.push_str(&skew_text(&component.skew));
            if !component.area.is_all() {
                let _ = write!(text, ", in {}", component.area);
            }
        }
        if component.streams.count > 0 {
            let plural = if component.streams.count == 1 { "" } else { "s" };
            let _ = write!(text, ", {} stream{plural}", component.streams.count);
            if let Some(apart) = component.streams.apart.filter(|_| component.streams.count > 1) {
                let _ = write!(text, " {apart} apart");
            }
        }
        if !self.load.area.is_all() {
            let _ = write!(text, ", in {}", self.load.area);
        }
        match self.load.pace {
            Pace::Open { rate, arrivals } => {
                let _ = write!(text, ", {rate}/s ({arrivals})");
            }
            Pace::Closed { think, burst } if !think.is_zero() => {
                let _ = write!(text, ", {} pause", time_text(think));
                if burst > 1 {
                    let _ = write!(text, " after {burst}");
                }
            }
            Pace::Closed { .. } => {}
        }
        if self.load.compressible_percent > 0.0 {
            let _ = write!(text, ", {}% compressible", self.load.compressible_percent);
        }
        if let Some(ladder) = &self.load.outstanding {
            let _ = write!(text, ", {ladder} outstanding");
        }
        if let Some(runtime) = self.load.runtime {
            let _ = write!(text, ", for {}", time_text(runtime));
        }
        if let Some(ramp) = self.load.ramp.filter(|ramp| !ramp.is_zero()) {
            let _ = write!(text, " after a ramp of {}", time_text(ramp));
        }
        text
    }

    fn access_text(&self) -> String {
        match self.access() {
            Access::Mixed => {
                format!("{}% random", short_number(self.average(|kind| kind.random_percent)))
            }
            access => access.to_string(),
        }
    }

    fn read_text(&self) -> String {
        match self.average(|kind| kind.read_percent) {
            _ if !self.writes() => "read".to_owned(),
            _ if !self.reads() => "write".to_owned(),
            read => format!("{}% read", short_number(read)),
        }
    }

    fn block_text(&self) -> String {
        match (self.block(), &self.blocks()[..]) {
            (Some(block), _) => block.to_string(),
            (None, [first, .., last]) => {
                format!("{} to {}", ByteCount(first.bytes), ByteCount(last.bytes))
            }
            (None, _) => self.largest_block().to_string(),
        }
    }
}

/// At most one decimal.
fn short_number(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn skew_text(skew: &Skew) -> String {
    match skew {
        Skew::Uniform => String::new(),
        Skew::Zipf { theta } => format!(", Zipf {theta}"),
        Skew::Pareto { share } => format!(", Pareto {share}"),
        Skew::Normal { deviation_percent } => format!(", normal {deviation_percent}%"),
        Skew::HotSpot { access_percent, size, moves_every } => {
            let size = match size {
                Extent::Bytes(size) => size.to_string(),
                Extent::Percent(percent) => format!("{percent}% of the area"),
            };
            let moves = moves_every.map(|time| format!(" moving every {}", time_text(time)));
            format!(", {access_percent}% of it to {size}{}", moves.unwrap_or_default())
        }
        Skew::Zones(zones) => format!(", in {} zones", zones.len()),
    }
}

impl Extent {
    /// The input form: `4G`, `10%`.
    pub(crate) fn text(self) -> String {
        match self {
            Extent::Bytes(size) => short_size(size),
            Extent::Percent(percent) => format!("{percent}%"),
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Extent> {
        match text.trim().ends_with('%') {
            true => parse_percent(text).map(Extent::Percent),
            false => text.trim().parse().ok().map(Extent::Bytes),
        }
    }
}

impl Align {
    /// The input form: `block`, `sector`, `4K`.
    pub(crate) fn text(self) -> String {
        match self {
            Align::Block => "block".to_owned(),
            Align::Sector => "sector".to_owned(),
            Align::Bytes(bytes) => short_size(bytes),
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Align> {
        match text.trim() {
            "block" => Some(Align::Block),
            "sector" => Some(Align::Sector),
            size => size.parse().ok().map(Align::Bytes),
        }
    }
}

/// `67%` or `67`: from 0 to 100.
pub(crate) fn parse_percent(text: &str) -> Option<f64> {
    let text = text.trim();
    let number: f64 = text.strip_suffix('%').unwrap_or(text).trim().parse().ok()?;
    (0.0..=100.0).contains(&number).then_some(number)
}

/// `5ms`, `200us`, `1.5s`, `2m`.
pub(crate) fn parse_time(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let unit_ns = match unit.trim() {
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        _ => return None,
    };
    let ns = number.parse::<f64>().ok()? * unit_ns;
    (ns < 1e18).then(|| Duration::from_nanos(ns.round() as u64))
}

/// The form that [`parse_time`] reads.
pub(crate) fn time_text(time: Duration) -> String {
    let us = time.as_nanos() as f64 / 1e3;
    match us {
        _ if us < 1e3 => format!("{us}us"),
        _ if us < 1e6 => format!("{}ms", us / 1e3),
        _ => format!("{}s", us / 1e6),
    }
}
