//! The SMART / Health Information log page of NVMe: NVM Express Base Specification 2.0, section
//! 5.16.1.3.

use super::{Refusal, int_le};
use platform::{DriveHealth, HealthSource};

/// The page's length in bytes.
pub(super) const LOG_BYTES: usize = 512;

/// Data is counted in units of 1000 blocks of 512 bytes.
const DATA_UNIT_BYTES: u64 = 1000 * 512;

/// Warnings that predict a failure: spare used up (bit 0), reliability degraded (2), read-only (3),
/// volatile memory backup failed (4). The others are temperature (1) and persistent memory region
/// (5).
const FAILURE_WARNINGS: u8 = 0b0001_1101;

const ZERO_CELSIUS_K: i32 = 273;

/// Reads the page through `get_log_page`.
pub(super) fn ask(
    get_log_page: impl FnOnce(&mut [u8; LOG_BYTES]) -> Result<(), Refusal>,
) -> Result<DriveHealth, Refusal> {
    let mut log = [0; LOG_BYTES];
    get_log_page(&mut log)?;
    Ok(parse(&log))
}

/// | bytes | content |
/// | --- | --- |
/// | 0 | critical warning |
/// | 1–2 | composite temperature, kelvin |
/// | 3, 4, 5 | available spare, its threshold, percentage used |
/// | 48–63 | data units written; zero: not reported |
/// | 128–143 | power-on hours |
/// | 160–175 | media and data integrity errors |
fn parse(log: &[u8; LOG_BYTES]) -> DriveHealth {
    let counter = |at: usize| u64::try_from(int_le(&log[at..at + 16])).unwrap_or(u64::MAX);
    let kelvin = i32::from(u16::from_le_bytes([log[1], log[2]]));
    let written = Some(counter(48)).filter(|units| *units > 0);
    DriveHealth {
        source: HealthSource::NvmeLog,
        predicted_failure: Some(log[0] & FAILURE_WARNINGS != 0),
        wear_percent: Some(log[5]),
        spare_percent: Some(log[3]),
        spare_threshold_percent: Some(log[4]),
        media_errors: Some(counter(160)),
        reallocated_sectors: None,
        temperature_c: i16::try_from(kelvin - ZERO_CELSIUS_K).ok().filter(|_| kelvin > 0),
        power_on_hours: Some(counter(128)),
        written_bytes: written.map(|units| units.saturating_mul(DATA_UNIT_BYTES)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> [u8; LOG_BYTES] {
        let mut log = [0; LOG_BYTES];
        log[1..3].copy_from_slice(&311u16.to_le_bytes());
        log[3..6].copy_from_slice(&[97, 10, 42]);
        log[48..64].copy_from_slice(&2_000_000u128.to_le_bytes());
        log[128..144].copy_from_slice(&8765u128.to_le_bytes());
        log[160..176].copy_from_slice(&3u128.to_le_bytes());
        log
    }

    #[test]
    fn the_page_is_read_field_by_field() {
        let health = ask(|log| {
            *log = page();
            Ok(())
        });
        let expected = DriveHealth {
            source: HealthSource::NvmeLog,
            predicted_failure: Some(false),
            wear_percent: Some(42),
            spare_percent: Some(97),
            spare_threshold_percent: Some(10),
            media_errors: Some(3),
            reallocated_sectors: None,
            temperature_c: Some(38),
            power_on_hours: Some(8765),
            written_bytes: Some(1_024_000_000_000),
        };
        assert_eq!(health.unwrap(), expected);
    }

    #[test]
    fn warnings_of_the_end_count_and_heat_does_not() {
        for (warning, predicted) in [
            (0, false),
            (1, true),
            (2, false),
            (4, true),
            (8, true),
            (0x10, true),
            (0x20, false),
            (6, true),
        ] {
            let mut log = page();
            log[0] = warning;
            assert_eq!(parse(&log).predicted_failure, Some(predicted), "{warning:#x}");
        }
    }

    #[test]
    fn counters_that_overflow_and_values_that_are_not_reported() {
        let mut log = [0xFF; LOG_BYTES];
        let health = parse(&log);
        assert_eq!((health.media_errors, health.written_bytes), (Some(u64::MAX), Some(u64::MAX)));
        assert_eq!(health.wear_percent, Some(255));
        log.fill(0);
        let health = parse(&log);
        assert_eq!((health.temperature_c, health.written_bytes), (None, None));
    }
}
