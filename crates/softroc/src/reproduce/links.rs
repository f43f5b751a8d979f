//! The papers' tables of links, reckoned from coding and share.

use super::{Figure, Reproduced, compared};
use crate::failure::{Failure, Outcome};
use models::{Catalog, DriveLink, HostLink, LinkShares};

/// Bytes per second as MiB per second.
fn mib(bytes_per_s: u64) -> f64 {
    bytes_per_s as f64 / f64::from(1 << 20)
}

/// A row of the tables: an interface by itself, or a side of a controller.
pub fn reproduce(catalog: &Catalog, figure: &Figure) -> Outcome<Vec<Reproduced>> {
    let shares = match (figure.doc.as_str(), figure.kind.as_str()) {
        (_, "theoretical") => LinkShares { drive_percent: 100, host_percent: 100 },
        ("fujitsu2013", _) => LinkShares::IN_2013,
        ("fujitsu2016", _) => LinkShares::IN_2016,
        _ => return Err(Failure::refused("the document does not say how it reckons")),
    };
    let (what, limit) = match figure.setting("interface") {
        Some(interface) => (interface.to_owned(), interface_limit(interface, figure, shares)?),
        None => side_limit(catalog, figure, shares)?,
    };
    let value = figure.number().ok_or_else(|| Failure::refused("no single value is published"))?;
    let mut reproduced = compared(figure, what, value, mib(limit));
    // The tables are exact: within what rounding leaves, 1 MB/s on each of the (up to eight) links.
    reproduced.right = (mib(limit) - value).abs() <= 1.0 + value / 1000.0;
    if !reproduced.right {
        // DMI's generations are PCIe's, and the paper's own table of PCIe has another value for the same link.
        reproduced.reason =
            "The paper contradicts its own table of PCIe, which reckons the same link.".to_owned();
    }
    Ok(vec![reproduced])
}

fn interface_limit(interface: &str, figure: &Figure, shares: LinkShares) -> Outcome<u64> {
    if interface.starts_with("PCIe") || interface.starts_with("DMI") {
        let lanes = figure.setting("lanes").unwrap_or("x1");
        let link: HostLink = format!("{interface} {lanes}").parse().map_err(Failure::refused)?;
        return Ok(link.bytes_per_s(shares));
    }
    let one = interface.split(" / ").next().unwrap_or(interface);
    let link: DriveLink = one.parse().map_err(Failure::refused)?;
    let lanes = match figure.setting("connection") {
        Some(connection) if connection.starts_with('2') => 8,
        Some(_) => 4,
        None => 1,
    };
    Ok(link.bytes_per_s(shares) * lanes)
}

fn side_limit(catalog: &Catalog, figure: &Figure, shares: LinkShares) -> Outcome<(String, u64)> {
    let (count, name) = match figure.controller.split_once(" x ") {
        Some((count, name)) => (count.parse().unwrap_or(1), name),
        None => (1, figure.controller.as_str()),
    };
    let controller =
        catalog.controller(name).map_err(|_| Failure::refused("its controller is not in the catalog yet"))?;
    let side = figure.setting("side").unwrap_or_default();
    if side == "disk interface" {
        let only_6g = figure.setting("condition").is_some();
        let link = DriveLink {
            gigabit: if only_6g { 6 } else { controller.drive_link.gigabit },
            ..controller.drive_link
        };
        return Ok((
            format!("{count} x {name}, drives"),
            link.bytes_per_s(shares) * controller.ports * count,
        ));
    }
    let Some(mut host) = controller.host_link else {
        return Err(Failure::refused("it has no host link"));
    };
    if let Some(lanes) = figure.setting("width").and_then(|width| width.strip_prefix('x')?.parse().ok()) {
        host.lanes = lanes;
    }
    Ok((format!("{name}, {host}"), host.bytes_per_s(shares)))
}
