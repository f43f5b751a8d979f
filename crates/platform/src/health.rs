//! Health data of drives, and properties of the devices behind them.
//!
//! `None` means that the drive does not report a value. No value is derived from another one or
//! estimated.

use crate::time::Instant;
use std::fmt;
use std::time::Duration;
use units::ByteCount;

/// The source of a [`DriveHealth`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HealthSource {
    /// The drive reports no health data: a file, memory, a remote export, a device without such a
    /// log.
    #[default]
    NotReported,
    /// The operating system does not permit the query.
    Denied,
    /// The SMART / Health Information log page of NVMe.
    NvmeLog,
    /// SMART of ATA: return status, device statistics, attributes.
    AtaSmart,
    /// Log pages of SCSI.
    ScsiLog,
    /// A script: a model in virtual time, or a drive with injected faults.
    Script,
}

impl fmt::Display for HealthSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HealthSource::NotReported => "not reported",
            HealthSource::Denied => "permission denied",
            HealthSource::NvmeLog => "NVMe health log",
            HealthSource::AtaSmart => "ATA SMART",
            HealthSource::ScsiLog => "SCSI log pages",
            HealthSource::Script => "script",
        })
    }
}

/// The health of a drive. Default: unknown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DriveHealth {
    /// The source of the data, or the reason why there is none.
    pub source: HealthSource,
    /// Whether the drive predicts its failure.
    pub predicted_failure: Option<bool>,
    /// Used endurance in percent of the vendor's rating; may exceed 100.
    pub wear_percent: Option<u8>,
    /// Spare blocks left, in percent of the original number.
    pub spare_percent: Option<u8>,
    /// The drive's own threshold for spare blocks, in percent.
    pub spare_threshold_percent: Option<u8>,
    /// Uncorrectable medium errors, over the drive's life.
    pub media_errors: Option<u64>,
    /// Reallocated sectors, over the drive's life.
    pub reallocated_sectors: Option<u64>,
    /// The current temperature, in degrees Celsius.
    pub temperature_c: Option<i16>,
    /// Power-on hours, over the drive's life.
    pub power_on_hours: Option<u64>,
    /// Bytes written by hosts, over the drive's life.
    pub written_bytes: Option<u64>,
}

/// The device behind a drive: its make and its location.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hardware {
    /// The vendor.
    pub vendor: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The serial number. Not always unique: USB bridges and virtual machines report one for
    /// several drives.
    pub serial: Option<String>,
    /// The world-wide identifier (NAA, EUI-64, NGUID): the same on every path to the drive.
    pub wwn: Option<String>,
    /// The partition, if the drive is not a whole disk.
    pub partition: Option<Partition>,
    /// The backing storage of a loop device and its offset there, named like the
    /// [identity](crate::DriveIdentity) of a file.
    pub backing: Option<String>,
    /// The firmware revision.
    pub firmware: Option<String>,
    /// The enclosure's own identifier.
    pub enclosure: Option<String>,
    /// The bay in the enclosure: its number, or its name if the enclosure has no numbers.
    pub slot: Option<String>,
}

/// A partition and its disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// The disk's device name, which may change at a restart of the computer.
    pub disk: String,
    /// The partition's number.
    pub number: u32,
}

/// A scripted health: its first state and its changes over time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HealthScript {
    /// The first state. Its source is ignored: the script is the source.
    pub first: DriveHealth,
    /// When the drive starts to predict its failure; it reports no prediction of failure before.
    pub failure_predicted_from: Option<Instant>,
    /// The time in which wear rises by one percent.
    pub time_per_wear_percent: Option<Duration>,
    /// The written bytes after which wear rises by one percent.
    pub bytes_per_wear_percent: Option<ByteCount>,
}

impl HealthScript {
    /// A healthy drive that predicts its failure from `from`.
    pub fn failing_from(from: Instant) -> HealthScript {
        HealthScript { failure_predicted_from: Some(from), ..HealthScript::default() }
    }

    /// The health at `now`, after `written` bytes.
    pub fn at(&self, now: Instant, written: ByteCount) -> DriveHealth {
        let mut health = DriveHealth { source: HealthSource::Script, ..self.first.clone() };
        if let Some(from) = self.failure_predicted_from {
            health.predicted_failure = Some(now >= from || health.predicted_failure == Some(true));
        }
        let since = now.since(Instant::default()).as_nanos();
        let by_time = self.time_per_wear_percent.map(|percent| since / percent.as_nanos().max(1));
        let by_bytes =
            self.bytes_per_wear_percent.map(|percent| u128::from(written.0 / percent.0.max(1)));
        if by_time.is_some() || by_bytes.is_some() {
            let first = u128::from(health.wear_percent.unwrap_or(0));
            let wear = first + by_time.unwrap_or(0) + by_bytes.unwrap_or(0);
            health.wear_percent = Some(u8::try_from(wear).unwrap_or(u8::MAX));
        }
        health
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant { ns: seconds * 1_000_000_000 }
    }

    #[test]
    fn an_empty_script_tells_nothing() {
        let health = HealthScript::default().at(at(5), ByteCount::MIB);
        assert_eq!(health, DriveHealth { source: HealthSource::Script, ..DriveHealth::default() });
    }

    #[test]
    fn failure_is_predicted_from_its_time_on_and_wear_grows_with_time_and_bytes() {
        let script = HealthScript {
            first: DriveHealth { wear_percent: Some(90), ..DriveHealth::default() },
            failure_predicted_from: Some(at(10)),
            time_per_wear_percent: Some(Duration::from_secs(2)),
            bytes_per_wear_percent: Some(ByteCount(1000)),
        };
        let told = |seconds, bytes| {
            let health = script.at(at(seconds), ByteCount(bytes));
            (health.predicted_failure, health.wear_percent)
        };
        assert_eq!(told(0, 999), (Some(false), Some(90)));
        assert_eq!(told(9, 1000), (Some(false), Some(95)));
        assert_eq!(told(10, 7000), (Some(true), Some(102)));
        assert_eq!(told(10, u64::MAX), (Some(true), Some(255)));
    }
}
