//! What a drive tells of its own state, and what the machine tells of the device behind it.
//!
//! Everything is an `Option`: `None` is what the drive does not tell. Nothing is derived from something else
//! that it does tell, and nothing is guessed.

use crate::time::Instant;
use std::fmt;
use std::time::Duration;
use units::ByteCount;

/// Where a [`DriveHealth`] comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HealthSource {
    /// The drive has no way to tell: a file, memory, a remote export, a device without such a log.
    #[default]
    NotReported,
    /// The operating system does not let this process ask.
    Denied,
    /// The SMART / Health Information log page of NVMe.
    NvmeLog,
    /// SMART of ATA: return status, device statistics, attributes.
    AtaSmart,
    /// Log pages of SCSI.
    ScsiLog,
    /// A script: a model in virtual time, or a drive that misbehaves on demand.
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

/// What a drive tells of its own state. The default: nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DriveHealth {
    /// Who tells, or why nobody does.
    pub source: HealthSource,
    /// Whether the drive expects to fail.
    pub predicted_failure: Option<bool>,
    /// Used endurance in percent of what the vendor rates the drive for; may exceed 100.
    pub wear_percent: Option<u8>,
    /// Spare blocks left, in percent of what there were.
    pub spare_percent: Option<u8>,
    /// The spare that the drive itself calls too little, in percent.
    pub spare_threshold_percent: Option<u8>,
    /// Errors of the medium that the drive could not correct, over its life.
    pub media_errors: Option<u64>,
    /// Sectors that were replaced by spare ones, over its life.
    pub reallocated_sectors: Option<u64>,
    /// The temperature now, in degrees Celsius.
    pub temperature_c: Option<i16>,
    /// Hours under power, over its life.
    pub power_on_hours: Option<u64>,
    /// Bytes written by hosts, over its life.
    pub written_bytes: Option<u64>,
}

/// What the machine knows of the device behind a drive: who made it, and where it sits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hardware {
    /// Who made it.
    pub vendor: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its serial number. Not always its own: USB bridges and virtual machines give several drives one.
    pub serial: Option<String>,
    /// Its world-wide identifier (NAA, EUI-64, NGUID): every path to it has the same.
    pub wwn: Option<String>,
    /// Which part of a disk it is, if it is not all of one.
    pub partition: Option<Partition>,
    /// What a loop device lies on, named as the [identity](crate::DriveIdentity) of a file is, and from where on.
    pub backing: Option<String>,
    /// Its firmware revision.
    pub firmware: Option<String>,
    /// The enclosure that it sits in: the identifier that the enclosure has for itself.
    pub enclosure: Option<String>,
    /// Its place there: the slot's number, or its name where the enclosure has no numbers.
    pub slot: Option<String>,
}

/// A partition: which one, and of what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// The disk, as this machine calls it until it is restarted.
    pub disk: String,
    /// Its number there.
    pub number: u32,
}

/// The health of a drive that misbehaves on demand: as it is at first, and how it goes on from there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HealthScript {
    /// What it tells at the beginning. Its source is not used: a script says that it is one.
    pub first: DriveHealth,
    /// From then on it predicts its failure, and before that it predicts none.
    pub failure_predicted_from: Option<Instant>,
    /// The time in which one percent of its endurance is used up.
    pub time_per_wear_percent: Option<Duration>,
    /// The bytes written in which one percent of its endurance is used up.
    pub bytes_per_wear_percent: Option<ByteCount>,
}

impl HealthScript {
    /// A drive that is well until `from` and then predicts its failure.
    pub fn failing_from(from: Instant) -> HealthScript {
        HealthScript { failure_predicted_from: Some(from), ..HealthScript::default() }
    }

    /// What it tells at `now`, after `written` bytes.
    pub fn at(&self, now: Instant, written: ByteCount) -> DriveHealth {
        let mut health = DriveHealth { source: HealthSource::Script, ..self.first.clone() };
        if let Some(from) = self.failure_predicted_from {
            health.predicted_failure = Some(now >= from || health.predicted_failure == Some(true));
        }
        let since = now.since(Instant::default()).as_nanos();
        let by_time = self.time_per_wear_percent.map(|percent| since / percent.as_nanos().max(1));
        let by_bytes = self.bytes_per_wear_percent.map(|percent| u128::from(written.0 / percent.0.max(1)));
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
