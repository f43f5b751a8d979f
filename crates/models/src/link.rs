//! Links and their usable data rates.
//!
//! A link's raw rate without line coding is its theoretical rate; protocols leave a share of it.
//! The white papers assume: SAS and SATA 85 % (2013) or 90 % (2016), PCIe and DMI 90 %.

use crate::catalog::{Error, Result};
use crate::resource::Resource;
use std::fmt;
use std::str::FromStr;

/// The usable share of links' theoretical rates, in percent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkShares {
    /// SAS and SATA.
    pub drive_percent: u64,
    /// PCIe and DMI.
    pub host_percent: u64,
}

impl LinkShares {
    /// The shares of Fujitsu's white paper of 2013.
    pub const IN_2013: LinkShares = LinkShares { drive_percent: 85, host_percent: 90 };
    /// The shares of that of 2016.
    pub const IN_2016: LinkShares = LinkShares { drive_percent: 90, host_percent: 90 };
}

/// The interface of a drive: `SAS 12G`, `SATA 6G`, `PCIe 4.0 x4` (NVMe).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveLink {
    /// SAS; its ports accept SATA drives too.
    Sas {
        /// Bits per second on the wire, in 10^9: 3, 6 or 12.
        gigabit: u64,
    },
    /// SATA, which is half duplex.
    Sata {
        /// Bits per second on the wire, in 10^9: 3 or 6.
        gigabit: u64,
    },
    /// PCIe: an NVMe drive.
    Pcie {
        /// 1 to 5.
        generation: u64,
        /// 1 to 16.
        lanes: u64,
    },
}

impl DriveLink {
    /// Bytes per second in each direction: SAS and SATA use ten bits per byte (8b/10b).
    pub fn bytes_per_s(self, shares: LinkShares) -> u64 {
        match self {
            DriveLink::Sas { gigabit } | DriveLink::Sata { gigabit } => {
                gigabit * 1_000_000 * shares.drive_percent
            }
            DriveLink::Pcie { generation, lanes } => {
                pcie_lane_bytes_per_s(generation) * lanes * shares.host_percent / 100
            }
        }
    }

    /// Bits per second on the wire, including coding.
    pub fn wire_bits_per_s(self) -> u64 {
        match self {
            DriveLink::Sas { gigabit } | DriveLink::Sata { gigabit } => gigabit * 1_000_000_000,
            DriveLink::Pcie { generation, lanes } => pcie_lane_bits_per_s(generation) * lanes,
        }
    }

    /// The negotiated link of this drive and a port; `None`: incompatible.
    pub fn negotiated(self, port: DriveLink) -> Option<DriveLink> {
        match (self, port) {
            (DriveLink::Sas { gigabit }, DriveLink::Sas { gigabit: most }) => {
                Some(DriveLink::Sas { gigabit: gigabit.min(most) })
            }
            (
                DriveLink::Sata { gigabit },
                DriveLink::Sas { gigabit: most } | DriveLink::Sata { gigabit: most },
            ) => Some(DriveLink::Sata { gigabit: gigabit.min(most) }),
            (
                DriveLink::Pcie { generation, lanes },
                DriveLink::Pcie { generation: latest, lanes: most_lanes },
            ) => Some(DriveLink::Pcie {
                generation: generation.min(latest),
                lanes: lanes.min(most_lanes),
            }),
            _ => None,
        }
    }

    /// Whether both directions share the link.
    pub(crate) fn is_half_duplex(self) -> bool {
        matches!(self, DriveLink::Sata { .. })
    }
}

impl fmt::Display for DriveLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DriveLink::Sas { gigabit } => write!(f, "SAS {gigabit}G"),
            DriveLink::Sata { gigabit } => write!(f, "SATA {gigabit}G"),
            DriveLink::Pcie { generation, lanes } => write!(f, "PCIe {generation}.0 x{lanes}"),
        }
    }
}

impl FromStr for DriveLink {
    type Err = Error;
    fn from_str(text: &str) -> Result<DriveLink> {
        if let Ok(HostLink { dmi: false, generation, lanes }) = text.parse() {
            return Ok(DriveLink::Pcie { generation, lanes });
        }
        let (kind, speed) = text.split_once(' ').unwrap_or((text, ""));
        let gigabit = match speed {
            "3G" => Some(3),
            "6G" => Some(6),
            "12G" => Some(12),
            _ => None,
        };
        match (kind.to_ascii_uppercase().as_str(), gigabit) {
            ("SAS", Some(gigabit)) => Ok(DriveLink::Sas { gigabit }),
            ("SATA", Some(gigabit @ (3 | 6))) => Ok(DriveLink::Sata { gigabit }),
            _ => Err(Error(format!(
                "'{text}' is no drive link; expected SAS 3G, SAS 6G, SAS 12G, SATA 3G, SATA 6G or \
                    such as PCIe 4.0 x4"
            ))),
        }
    }
}

/// The raw rate of a PCIe lane (PCI Express base specification: 2.5, 5, 8, 16 and 32 GT/s).
fn pcie_lane_bits_per_s(generation: u64) -> u64 {
    match generation {
        1 => 2_500_000_000,
        2 => 5_000_000_000,
        3 => 8_000_000_000,
        4 => 16_000_000_000,
        _ => 32_000_000_000,
    }
}

/// The rate of a lane without coding: 8b/10b up to generation 2, 128b/130b from 3.
fn pcie_lane_bytes_per_s(generation: u64) -> u64 {
    let bits_per_s = pcie_lane_bits_per_s(generation);
    if generation <= 2 { bits_per_s / 10 } else { bits_per_s * 128 / 130 / 8 }
}

/// The interface of a controller to its host: `PCIe 3.0 x8`, `DMI 2.0 x4`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostLink {
    /// DMI, the link from chipset to processor; otherwise PCIe.
    pub dmi: bool,
    /// 1 to 5.
    pub generation: u64,
    /// 1 to 16.
    pub lanes: u64,
}

impl HostLink {
    /// Bytes per second in each direction; DMI's generations are those of PCIe.
    pub fn bytes_per_s(self, shares: LinkShares) -> u64 {
        pcie_lane_bytes_per_s(self.generation) * self.lanes * shares.host_percent / 100
    }

    /// Bits per second on the wire, including coding.
    pub fn wire_bits_per_s(self) -> u64 {
        pcie_lane_bits_per_s(self.generation) * self.lanes
    }
}

impl fmt::Display for HostLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.0 x{}", if self.dmi { "DMI" } else { "PCIe" }, self.generation, self.lanes)
    }
}

impl FromStr for HostLink {
    type Err = Error;
    fn from_str(text: &str) -> Result<HostLink> {
        let mut words = text.split(' ');
        let dmi = match words.next() {
            Some("PCIe") => Some(false),
            Some("DMI") => Some(true),
            _ => None,
        };
        let generation = match words.next() {
            Some("1.0" | "1.1") => Some(1),
            Some("2.0") => Some(2),
            Some("3.0") => Some(3),
            Some("4.0") => Some(4),
            Some("5.0") => Some(5),
            _ => None,
        };
        let lanes = words.next().and_then(|lanes| lanes.strip_prefix('x')?.parse().ok());
        match (dmi, generation, lanes, words.next()) {
            (Some(dmi), Some(generation), Some(lanes @ (1 | 2 | 4 | 8 | 16)), None) => {
                Ok(HostLink { dmi, generation, lanes })
            }
            _ => Err(Error(format!(
                "'{text}' is no host link; expected such as PCIe 3.0 x8 or DMI 2.0 x4"
            ))),
        }
    }
}

/// The time for `bytes` at a rate.
pub(crate) fn transfer_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    match bytes.checked_mul(1_000_000_000) {
        Some(scaled) => scaled / bytes_per_s.max(1),
        None => (u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s.max(1))) as u64,
    }
}

/// A link with its two directions; a half-duplex link has one resource for both.
#[derive(Debug)]
pub(crate) struct Link {
    pub bytes_per_s: u64,
    half_duplex: bool,
    apart: bool,
    down: Resource,
    up: Resource,
}

impl Link {
    pub fn new(bytes_per_s: u64, half_duplex: bool) -> Link {
        Link {
            bytes_per_s,
            half_duplex,
            apart: false,
            down: Resource::default(),
            up: Resource::default(),
        }
    }

    /// The same link outside of the controller's ports.
    pub fn apart(self) -> Link {
        Link { apart: true, ..self }
    }

    /// Whether it shares no lanes with the controller's ports.
    pub fn is_apart(&self) -> bool {
        self.apart
    }

    /// Away from the host.
    pub fn down(&self) -> &Resource {
        &self.down
    }

    /// Towards the host.
    pub fn up(&self) -> &Resource {
        if self.half_duplex { &self.down } else { &self.up }
    }

    /// The transfer time of `bytes`.
    pub fn duration_ns(&self, bytes: u64) -> u64 {
        transfer_ns(bytes, self.bytes_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mib(bytes_per_s: u64) -> u64 {
        (bytes_per_s + (1 << 19)) >> 20
    }

    #[test]
    fn links_carry_what_the_papers_say() {
        let drive =
            |text: &str, shares| mib(text.parse::<DriveLink>().unwrap().bytes_per_s(shares));
        assert_eq!(drive("SAS 3G", LinkShares::IN_2013), 243);
        assert_eq!(drive("SATA 6G", LinkShares::IN_2013), 486);
        assert_eq!(drive("SATA 6G", LinkShares::IN_2016), 515);
        assert_eq!(drive("SAS 12G", LinkShares::IN_2016), 1030);
        let host =
            |text: &str| mib(text.parse::<HostLink>().unwrap().bytes_per_s(LinkShares::IN_2016));
        assert_eq!(host("PCIe 1.0 x4"), 858);
        assert_eq!(host("PCIe 2.0 x8"), 3433);
        assert_eq!(host("DMI 2.0 x4"), 1717);
        assert_eq!(host("PCIe 3.0 x8"), 6761);
        assert_eq!(host("PCIe 4.0 x8"), 2 * 6761);
        assert_eq!(drive("PCIe 4.0 x4", LinkShares::IN_2016), 6761);
        assert_eq!(drive("PCIe 5.0 x4", LinkShares::IN_2016), 2 * 6761);
    }

    #[test]
    fn a_drive_and_its_port_agree_on_the_slower_or_do_not_fit() {
        let agreed = |drive: &str, port: &str| {
            let drive: DriveLink = drive.parse().unwrap();
            drive.negotiated(port.parse().unwrap()).map(|link| link.to_string())
        };
        for (drive, port, link) in [
            ("SATA 6G", "SAS 12G", Some("SATA 6G")),
            ("SAS 12G", "SAS 6G", Some("SAS 6G")),
            ("PCIe 4.0 x4", "PCIe 3.0 x16", Some("PCIe 3.0 x4")),
            ("PCIe 4.0 x4", "PCIe 5.0 x2", Some("PCIe 4.0 x2")),
            ("SAS 6G", "SATA 6G", None),
            ("PCIe 4.0 x4", "SAS 12G", None),
            ("SATA 6G", "PCIe 4.0 x4", None),
        ] {
            assert_eq!(agreed(drive, port).as_deref(), link, "{drive} in {port}");
        }
    }

    #[test]
    fn links_are_written_as_they_are_read() {
        for text in ["SAS 3G", "SAS 12G", "SATA 6G", "PCIe 4.0 x4"] {
            assert_eq!(text.parse::<DriveLink>().unwrap().to_string(), text);
        }
        assert_eq!("PCIe 3.0 x8".parse::<HostLink>().unwrap().to_string(), "PCIe 3.0 x8");
        for text in ["SATA 12G", "SAS", "USB 3G", "DMI 2.0 x4", "PCIe 6.0 x4"] {
            assert!(text.parse::<DriveLink>().unwrap_err().to_string().contains(text));
        }
        assert!("PCIe 3.0 x3".parse::<HostLink>().is_err());
    }

    #[test]
    fn one_way_at_a_time_shares_what_two_ways_have_each() {
        let (half, full) = (Link::new(1_000_000_000, true), Link::new(1_000_000_000, false));
        for (link, done) in [(&half, 2000), (&full, 1000)] {
            link.down().book(0, link.duration_ns(1000));
            assert_eq!(link.up().book(0, link.duration_ns(1000)), done);
        }
    }
}
