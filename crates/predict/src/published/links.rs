//! Calculates link rates as the papers do, from coding and usable share.

use super::{Figure, Reproduced, compared};
use crate::error::{Error, Result};
use models::{Catalog, ControllerSpec, DriveLink, HostLink, LinkShares};
use std::fmt;

const SAS_6G: DriveLink = DriveLink::Sas { gigabit: 6 };
const SATA_6G: DriveLink = DriveLink::Sata { gigabit: 6 };

/// The full theoretical rate.
const WHOLE: LinkShares = LinkShares { drive_percent: 100, host_percent: 100 };

/// An interface by itself: `SAS 6G`, `8 x SAS 6G`, `PCIe 2.0 x8`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interface {
    /// This many lanes to drives.
    Drives(DriveLink, u64),
    /// The link to the host.
    Host(HostLink),
}

impl Interface {
    /// Parses an interface.
    ///
    /// # Errors
    /// When it has another form.
    pub fn parse(text: &str) -> Result<Interface> {
        if text.starts_with("PCIe") || text.starts_with("DMI") {
            return Ok(Interface::Host(text.parse().map_err(Error::refused)?));
        }
        let counted =
            text.split_once(" x ").and_then(|(lanes, link)| Some((lanes.parse().ok()?, link)));
        let (lanes, link) = counted.unwrap_or((1, text));
        Ok(Interface::Drives(link.parse().map_err(Error::refused)?, lanes))
    }

    /// The usable rate.
    pub fn mib_per_s(self, shares: LinkShares) -> f64 {
        let bytes_per_s = match self {
            Interface::Drives(link, lanes) => link.bytes_per_s(shares) * lanes,
            Interface::Host(link) => link.bytes_per_s(shares),
        };
        bytes_per_s as f64 / f64::from(1 << 20)
    }

    /// Bits per second on the wire, including coding.
    fn wire_bits_per_s(self) -> f64 {
        match self {
            Interface::Drives(link, lanes) => (link.wire_bits_per_s() * lanes) as f64,
            Interface::Host(link) => link.wire_bits_per_s() as f64,
        }
    }

    fn coding_percent(self) -> f64 {
        let bits_per_s = self.mib_per_s(WHOLE) * f64::from(1 << 23);
        (1.0 - bits_per_s / self.wire_bits_per_s()) * 100.0
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Interface::Drives(link, 1) => write!(f, "{link}"),
            Interface::Drives(link, lanes) => write!(f, "{lanes} x {link}"),
            Interface::Host(link) => write!(f, "{link}"),
        }
    }
}

/// The usable share of links by a document; documents without a statement use theoretical rates.
pub fn shares(doc: &str) -> LinkShares {
    match doc {
        "fujitsu2013" | "sx940" => LinkShares::IN_2013,
        "fujitsu2016" => LinkShares::IN_2016,
        _ => WHOLE,
    }
}

/// Reproduces a row about links: from a table of link rates, or about coding and share. `None`: not
/// about links.
pub fn reproduce(catalog: &Catalog, figure: &Figure) -> Option<Result<Vec<Reproduced>>> {
    match (figure.metric.as_str(), figure.setting("quantity")) {
        ("limit_mib_s", Some(quantity)) if quantity.contains("memory bandwidth") => None,
        ("limit_mib_s", _) => Some(limit(catalog, figure)),
        (_, Some(quantity)) if quantity.starts_with("coding overhead") => {
            Some(of_kinds(figure, Interface::coding_percent))
        }
        (_, Some("practical/theoretical throughput")) => {
            let shares = shares(&figure.doc);
            Some(of_kinds(figure, |interface| {
                interface.mib_per_s(shares) / interface.mib_per_s(WHOLE)
            }))
        }
        (_, Some("x4 wide port / single port")) => Some(wide_port(figure)),
        (_, Some("raw rate before coding")) => Some(raw(figure)),
        _ => None,
    }
}

fn published(figure: &Figure) -> Result<f64> {
    figure.number().ok_or_else(|| Error::refused("no single value is published"))
}

/// A table row: a single interface, or one side of a controller.
fn limit(catalog: &Catalog, figure: &Figure) -> Result<Vec<Reproduced>> {
    let reckons = figure.kind == "theoretical" || shares(&figure.doc) != WHOLE;
    if !reckons {
        return Err(Error::refused("the document does not state its calculation"));
    }
    let shares = if figure.kind == "theoretical" { WHOLE } else { shares(&figure.doc) };
    let (what, interface) = match figure.setting("interface") {
        Some(text) => (text.to_owned(), named(text, figure)?),
        None => side(catalog, figure)?,
    };
    let (value, carried) = (published(figure)?, interface.mib_per_s(shares));
    let mut reproduced = compared(figure, what, value, carried);
    // The tables are exact except for rounding: 1 MB/s on each of up to eight links.
    reproduced.right = (carried - value).abs() <= 1.0 + value / 1000.0;
    Ok(vec![reproduced])
}

/// An interface by its name in a table, which has the lanes in separate columns.
fn named(text: &str, figure: &Figure) -> Result<Interface> {
    let text = text.split(" / ").next().unwrap_or(text).trim_end_matches(" per port");
    let whole = |text: &str| text.split(' ').count() == 3;
    let to_host = text.starts_with("PCIe") || text.starts_with("DMI");
    if to_host && !whole(text) {
        return Interface::parse(&format!("{text} {}", figure.setting("lanes").unwrap_or("x1")));
    }
    match (Interface::parse(text)?, figure.setting("connection")) {
        (Interface::Drives(link, _), Some(connection)) => {
            Ok(Interface::Drives(link, if connection.starts_with('2') { 8 } else { 4 }))
        }
        (interface, _) => Ok(interface),
    }
}

/// One side of a controller: from the catalog if possible, otherwise from the row.
fn side(catalog: &Catalog, figure: &Figure) -> Result<(String, Interface)> {
    let (count, name) = match figure.controller.split_once(" x ") {
        Some((count, name)) => (count.parse().unwrap_or(1), name),
        None => (1, figure.controller.as_str()),
    };
    let drives = figure.setting("side") == Some("disk interface");
    let interface = match catalog.controller(name) {
        Ok(controller) => side_of(controller, count, drives),
        Err(_) => side_as_written(figure, drives)?,
    };
    let interface =
        match interface.ok_or_else(|| Error::refused("it has no separate link there"))? {
            Interface::Drives(link, lanes) if figure.setting("condition").is_some() => {
                Interface::Drives(link.negotiated(SAS_6G).unwrap_or(link), lanes)
            }
            Interface::Host(link) => {
                let lanes =
                    figure.setting("width").and_then(|width| width.strip_prefix('x')?.parse().ok());
                Interface::Host(HostLink { lanes: lanes.unwrap_or(link.lanes), ..link })
            }
            interface => interface,
        };
    let what = match interface {
        Interface::Drives(..) => format!("{count} x {name}, drives"),
        Interface::Host(link) => format!("{name}, {link}"),
    };
    Ok((what, interface))
}

fn side_of(controller: &ControllerSpec, count: u64, drives: bool) -> Option<Interface> {
    match drives {
        true => controller.drive_link.map(|link| Interface::Drives(link, controller.ports * count)),
        false => controller.host_link.map(Interface::Host),
    }
}

fn side_as_written(figure: &Figure, drives: bool) -> Result<Option<Interface>> {
    let written = match drives {
        true => figure.setting("links").map(str::to_owned),
        false => figure
            .setting("pcie")
            .zip(figure.setting("width"))
            .map(|(generation, width)| format!("PCIe {generation} {width}")),
    };
    match written {
        Some(text) => Interface::parse(&text).map(Some),
        None => Err(Error::refused(
            "the row does not say which link, and its controller is not in the catalog",
        )),
    }
}

/// A figure for whole kinds of links: checked for one link of each kind.
fn of_kinds(figure: &Figure, value: impl Fn(Interface) -> f64) -> Result<Vec<Reproduced>> {
    let (said, wanted) = (figure.setting("interface").unwrap_or_default(), published(figure)?);
    let host = |dmi, generation| Interface::Host(HostLink { dmi, generation, lanes: 1 });
    let drive = |link| Interface::Drives(link, 1);
    let generations = [("1.0", 1), ("2.0", 2), ("3.0", 3)];
    let any = said.contains("PCIe") && !generations.iter().any(|(name, _)| said.contains(name));
    let mut kinds = Vec::new();
    kinds.extend(said.contains("SAS").then(|| drive(SAS_6G)));
    kinds.extend(said.contains("SATA").then(|| drive(SATA_6G)));
    for (name, generation) in generations {
        kinds.extend((any || said.contains(name)).then(|| host(false, generation)));
    }
    kinds.extend(said.contains("DMI").then(|| host(true, 2)));
    let row = |kind: &Interface| compared_closely(figure, kind.to_string(), wanted, value(*kind));
    Ok(kinds.iter().map(row).collect())
}

fn wide_port(figure: &Figure) -> Result<Vec<Reproduced>> {
    let link = SAS_6G;
    let ratio = |shares| {
        Interface::Drives(link, 4).mib_per_s(shares) / Interface::Drives(link, 1).mib_per_s(shares)
    };
    let what = format!("4 x {link} : {link}");
    Ok(vec![compared_closely(figure, what, published(figure)?, ratio(shares(&figure.doc)))])
}

/// The raw rate on the wire, in GB/s.
fn raw(figure: &Figure) -> Result<Vec<Reproduced>> {
    let interface = Interface::parse(figure.setting("interface").unwrap_or_default())?;
    let value = figure.value.trim_end_matches(" GB/s").parse();
    let value = value.map_err(|_| Error::refused("no rate in GB/s is published"))?;
    let what = format!("{interface}, raw");
    Ok(vec![compared_closely(figure, what, value, interface.wire_bits_per_s() / 8e9)])
}

/// Shares have two published digits.
fn compared_closely(figure: &Figure, what: String, value: f64, reckoned: f64) -> Reproduced {
    let mut reproduced = compared(figure, what, value, reckoned);
    reproduced.right = (reckoned - value).abs() <= value / 100.0;
    reproduced
}
