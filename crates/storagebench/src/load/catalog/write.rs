//! Writes workloads as a catalog file.

use super::Group;
use crate::load::area::short_size;
use crate::load::profile::{Access, Align, Component, Pace, Profile, RequestKind, Skew, time_text};
use std::fmt::{self, Write as _};

impl Group {
    /// The group as a file that [`Catalog::read`](super::Catalog::read) accepts.
    pub fn to_toml(&self) -> String {
        let mut text = format!("group = {}\nprose = {}\n", quoted(&self.name), quoted(&self.prose));
        for entry in &self.entries {
            for profile in &entry.profiles {
                workload(&mut text, profile).expect("a text takes whatever is written to it");
            }
        }
        text
    }
}

impl Profile {
    /// The profile in the form of a catalog file.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        workload(&mut text, self).expect("a text takes whatever is written to it");
        text.trim_start().to_owned()
    }
}

/// A share in percent, rounded.
fn percent(share: f64) -> f64 {
    (share * 1e10).round() / 1e8
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn workload(text: &mut String, profile: &Profile) -> fmt::Result {
    let load = profile.load();
    // Members of a family may have capitals (`1K`), names in a file may not; lookups ignore case.
    let name = quoted(&profile.name().to_ascii_lowercase());
    writeln!(text, "\n[[workload]]\nname = {name}\nprose = {}", quoted(profile.prose()))?;
    writeln!(text, "source = {}", quoted(profile.source()))?;
    match load.pace {
        Pace::Open { rate, arrivals } => {
            writeln!(text, "rate = {rate}\narrivals = \"{arrivals}\"")?
        }
        Pace::Closed { think, burst } if !think.is_zero() => {
            writeln!(text, "think = \"{}:{burst}\"", time_text(think))?;
        }
        Pace::Closed { .. } => {}
    }
    if load.compressible_percent > 0.0 {
        writeln!(text, "compressible = {}", load.compressible_percent)?;
    }
    if let Some(ladder) = &load.outstanding {
        writeln!(text, "outstanding = \"{ladder}\"")?;
    }
    for (key, time) in [("runtime", load.runtime), ("ramp", load.ramp)] {
        if let Some(time) = time {
            writeln!(text, "{key} = \"{}\"", time_text(time))?;
        }
    }
    if !load.area.is_all() {
        writeln!(text, "area = \"{}\"", load.area)?;
    }
    match &load.components[..] {
        [only] if only.area.is_all() => component(text, only),
        several => {
            for part in several {
                writeln!(text, "\n[[workload.component]]\nshare = {}", percent(part.share))?;
                if !part.area.is_all() {
                    writeln!(text, "area = \"{}\"", part.area)?;
                }
                component(text, part)?;
            }
            Ok(())
        }
    }
}

fn component(text: &mut String, component: &Component) -> fmt::Result {
    match &component.skew {
        Skew::Uniform => {}
        Skew::Zipf { theta } => writeln!(text, "zipf = {theta}")?,
        Skew::Pareto { share } => writeln!(text, "pareto = {share}")?,
        Skew::Normal { deviation_percent } => writeln!(text, "normal = \"{deviation_percent}%\"")?,
        Skew::HotSpot { access_percent, size, moves_every } => {
            writeln!(text, "hot = \"{access_percent}%:{}\"", size.text())?;
            if let Some(time) = moves_every {
                writeln!(text, "moves = \"{}\"", time_text(*time))?;
            }
        }
        Skew::Zones(zones) => {
            let zones =
                zones.iter().map(|zone| format!("{}/{}", zone.access_percent, zone.span_percent));
            writeln!(text, "zones = \"{}\"", zones.collect::<Vec<_>>().join(":"))?;
        }
    }
    if component.streams.count > 0 {
        let apart = component
            .streams
            .apart
            .map(|apart| format!("x{}", short_size(apart)))
            .unwrap_or_default();
        writeln!(text, "streams = \"{}{apart}\"", component.streams.count)?;
    }
    match &component.kinds[..] {
        [only] => {
            write!(text, "{}", access(only))?;
            writeln!(text, "read = {}\nblock = \"{}\"", only.read_percent, short_size(only.block))?;
            if only.align != Align::Block {
                writeln!(text, "align = \"{}\"", only.align.text())?;
            }
            Ok(())
        }
        several => requests(text, several),
    }
}

fn access(kind: &RequestKind) -> String {
    match kind.random_percent {
        100.0 => format!("access = \"{}\"\n", Access::Random),
        0.0 => format!("access = \"{}\"\n", Access::Sequential),
        random => format!("random = {random}\n"),
    }
}

fn requests(text: &mut String, kinds: &[RequestKind]) -> fmt::Result {
    writeln!(text, "requests = [")?;
    for kind in kinds {
        writeln!(
            text,
            "    {{ share = {}, block = \"{}\", random = {}, read = {}, align = \"{}\" }},",
            percent(kind.share),
            short_size(kind.block),
            kind.random_percent,
            kind.read_percent,
            kind.align.text()
        )?;
    }
    writeln!(text, "]")
}
