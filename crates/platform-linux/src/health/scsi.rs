//! Health of SCSI devices, from log pages.
//!
//! | page | standard | content |
//! | --- | --- | --- |
//! | 03h, 02h: error counters | SPC-4 | uncorrected read and write errors (parameter 6) |
//! | 0Dh: temperature | SPC-4 | the temperature (parameter 0) |
//! | 11h: solid state media | SBC-3 | used endurance (parameter 1) |
//! | 15h: background scan results | SBC-3 | power-on minutes (parameter 0) |
//! | 2Fh: informational exceptions | SPC-4 | additional sense code 5Dh predicts failure (parameter 0) |
//!
//! Mode page 1Ch (SPC-4, informational exceptions control) says whether the device monitors
//! informational exceptions at all.

use super::{Command, Refusal, int_be};
use platform::{DriveHealth, HealthSource};

const LOG_SENSE: u8 = 0x4D;
const MODE_SENSE_6: u8 = 0x1A;
/// LOG SENSE: cumulative values.
const CUMULATIVE: u8 = 0x40;
/// MODE SENSE: no block descriptors.
const NO_DESCRIPTORS: u8 = 0x08;

const WRITE_ERRORS: u8 = 0x02;
const READ_ERRORS: u8 = 0x03;
const TEMPERATURE: u8 = 0x0D;
const SOLID_STATE_MEDIA: u8 = 0x11;
const BACKGROUND_SCAN: u8 = 0x15;
const INFORMATIONAL_EXCEPTIONS: u8 = 0x2F;
const INFORMATIONAL_EXCEPTIONS_CONTROL: u8 = 0x1C;

/// FAILURE PREDICTION THRESHOLD EXCEEDED.
const FAILURE_PREDICTED: u8 = 0x5D;
/// FAILURE PREDICTION THRESHOLD EXCEEDED (FALSE): a test of the report.
const FAILURE_PREDICTION_TEST: u8 = 0xFF;

/// Queries a SCSI device.
pub(super) fn ask(command: &mut Command<'_>) -> Result<DriveHealth, Refusal> {
    let mut health = DriveHealth::default();
    if let Some(page) = log_page(command, INFORMATIONAL_EXCEPTIONS)? {
        let watched = exceptions_are_watched(command)?;
        health.predicted_failure = parameter(&page, 0).and_then(|data| prediction(data, watched));
    }
    if let Some(page) = log_page(command, SOLID_STATE_MEDIA)? {
        health.wear_percent = parameter(&page, 1).and_then(|data| data.get(3).copied());
    }
    if let Some(page) = log_page(command, TEMPERATURE)? {
        let celsius = parameter(&page, 0).and_then(|data| data.get(1).copied());
        health.temperature_c = celsius.filter(|celsius| *celsius != 0xFF).map(i16::from);
    }
    if let Some(page) = log_page(command, BACKGROUND_SCAN)? {
        health.power_on_hours =
            parameter(&page, 0).and_then(|data| data.get(..4)).map(|m| int_be(m) / 60);
    }
    for number in [READ_ERRORS, WRITE_ERRORS] {
        let page = log_page(command, number)?;
        if let Some(errors) = page.as_ref().and_then(|page| parameter(page, 6)) {
            let errors = int_be(errors);
            health.media_errors = Some(health.media_errors.unwrap_or(0).saturating_add(errors));
        }
    }
    if health != DriveHealth::default() {
        health.source = HealthSource::ScsiLog;
    }
    Ok(health)
}

/// A log page without its header, if the device has it.
fn log_page(command: &mut Command<'_>, number: u8) -> Result<Option<Vec<u8>>, Refusal> {
    let mut data = [0; 512];
    let len = (data.len() as u16).to_be_bytes();
    let asked = [LOG_SENSE, 0, CUMULATIVE | number, 0, 0, 0, 0, len[0], len[1], 0];
    let answer = command(&asked, &mut data)?;
    let came = data.get(..answer.len).unwrap_or(&data);
    let [code, _, high, low, page @ ..] = came else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes([*high, *low]));
    let is_it = answer.status == 0 && code & 0x3F == number;
    Ok(is_it.then(|| page[..len.min(page.len())].to_vec()))
}

/// The data of a parameter. Each has its code (2), a control byte, its data length, and its data.
fn parameter(mut page: &[u8], code: u16) -> Option<&[u8]> {
    while let [high, low, _, len, rest @ ..] = page {
        let data = rest.get(..usize::from(*len))?;
        if u16::from_be_bytes([*high, *low]) == code {
            return Some(data);
        }
        page = &rest[data.len()..];
    }
    None
}

/// The failure prediction: parameter 0 starts with the additional sense code and qualifier.
fn prediction(data: &[u8], watched: bool) -> Option<bool> {
    match data {
        [FAILURE_PREDICTED, FAILURE_PREDICTION_TEST, ..] => watched.then_some(false),
        [FAILURE_PREDICTED, _, ..] => Some(true),
        // No exception reported, which is only meaningful if the device monitors them.
        [_, _, ..] => watched.then_some(false),
        _ => None,
    }
}

/// Whether the device monitors exceptions: not if DEXCPT (bit 3 of byte 2) is set. Without the page
/// its reports count.
fn exceptions_are_watched(command: &mut Command<'_>) -> Result<bool, Refusal> {
    let mut data = [0; 64];
    let asked =
        [MODE_SENSE_6, NO_DESCRIPTORS, INFORMATIONAL_EXCEPTIONS_CONTROL, 0, data.len() as u8, 0];
    let answer = command(&asked, &mut data)?;
    let came = data.get(..answer.len).unwrap_or(&data);
    // A header of four bytes, then block descriptors of the length in byte 3.
    let descriptors = came.get(3).map_or(0, |len| usize::from(*len));
    Ok(match came.get(4 + descriptors..) {
        Some([code, _, flags, ..])
            if answer.status == 0 && code & 0x3F == INFORMATIONAL_EXCEPTIONS_CONTROL =>
        {
            flags & 0x08 == 0
        }
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Answer;
    use super::*;

    fn page(number: u8, parameters: &[(u16, &[u8])]) -> Vec<u8> {
        let mut page = vec![number, 0, 0, 0];
        for (code, data) in parameters {
            page.extend(code.to_be_bytes());
            page.extend([0x03, data.len() as u8]);
            page.extend(*data);
        }
        let len = (page.len() as u16 - 4).to_be_bytes();
        page[2..4].copy_from_slice(&len);
        page
    }

    /// A device with these log pages, and this byte 2 in its exceptions control page.
    fn device(
        pages: Vec<Vec<u8>>,
        control: Option<u8>,
    ) -> impl FnMut(&[u8], &mut [u8]) -> Result<Answer, Refusal> {
        move |command, target| {
            let found = match command {
                [LOG_SENSE, 0, number, 0, 0, 0, 0, 2, 0, 0] => {
                    assert_eq!(number & 0xC0, 0x40, "cumulative values");
                    pages.iter().find(|page| page[0] & 0x3F == number & 0x3F).cloned()
                }
                [MODE_SENSE_6, 8, 0x1C, 0, 64, 0] => control
                    .map(|flags| vec![15, 0, 0, 0, 0x9C, 10, flags, 6, 0, 0, 0, 0, 0, 0, 0, 0]),
                other => panic!("unexpected command {other:02x?}"),
            };
            match found {
                Some(bytes) => {
                    let len = bytes.len().min(target.len());
                    target[..len].copy_from_slice(&bytes[..len]);
                    Ok(Answer { status: 0, sense: Vec::new(), len })
                }
                None => Ok(Answer { status: 2, sense: vec![0x70, 0, 5], len: 0 }),
            }
        }
    }

    #[test]
    fn a_sas_ssd_with_every_page() {
        let pages = vec![
            page(READ_ERRORS, &[(0, &[9]), (5, &[1; 8]), (6, &[0, 0, 1, 0])]),
            page(WRITE_ERRORS, &[(6, &[2])]),
            page(TEMPERATURE, &[(0, &[0, 34]), (1, &[0, 70])]),
            page(SOLID_STATE_MEDIA, &[(1, &[0, 0, 0, 108])]),
            page(BACKGROUND_SCAN, &[(0, &[0, 0, 0x27, 0x10, 0, 0, 0, 0, 0, 0, 0, 0])]),
            page(INFORMATIONAL_EXCEPTIONS, &[(0, &[0, 0, 34, 65])]),
        ];
        let expected = DriveHealth {
            source: HealthSource::ScsiLog,
            predicted_failure: Some(false),
            wear_percent: Some(108),
            spare_percent: None,
            spare_threshold_percent: None,
            media_errors: Some(258),
            reallocated_sectors: None,
            temperature_c: Some(34),
            power_on_hours: Some(166),
            written_bytes: None,
        };
        assert_eq!(ask(&mut device(pages, Some(0x10))), Ok(expected));
    }

    #[test]
    fn failure_is_predicted_by_its_sense_code_and_silence_counts_only_if_somebody_watches() {
        const WATCHED: Option<u8> = Some(0x00);
        const DISABLED: Option<u8> = Some(0x08);
        for (code, control, expected) in [
            ([0x5D, 0x10], WATCHED, Some(true)),
            ([0x5D, 0x32], DISABLED, Some(true)),
            ([0x5D, 0xFF], WATCHED, Some(false)),
            ([0x0B, 0x01], WATCHED, Some(false)),
            ([0, 0], WATCHED, Some(false)),
            ([0, 0], DISABLED, None),
            ([0, 0], None, Some(false)),
        ] {
            let pages = vec![page(INFORMATIONAL_EXCEPTIONS, &[(0, &[code[0], code[1], 30])])];
            let health = ask(&mut device(pages, control)).unwrap();
            assert_eq!(health.predicted_failure, expected, "{code:02x?} with {control:02x?}");
        }
    }

    #[test]
    fn damaged_and_short_pages_are_unknown() {
        let mut cut = page(SOLID_STATE_MEDIA, &[(1, &[0, 0, 0, 5])]);
        cut.truncate(9);
        let pages = vec![
            cut,
            page(TEMPERATURE, &[(0, &[0, 0xFF])]),
            page(BACKGROUND_SCAN, &[(0, &[1, 2])]),
            page(INFORMATIONAL_EXCEPTIONS, &[(0, &[0x5D])]),
            vec![READ_ERRORS],
        ];
        assert_eq!(ask(&mut device(pages, None)), Ok(DriveHealth::default()));
        assert_eq!(ask(&mut device(Vec::new(), None)), Ok(DriveHealth::default()));
        assert_eq!(ask(&mut |_, _| Err(Refusal::Denied)), Err(Refusal::Denied));
    }
}
