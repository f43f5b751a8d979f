//! Health of ATA devices: the SMART return status, device statistics, and a few SMART attributes.
//!
//! | command | standard |
//! | --- | --- |
//! | SMART RETURN STATUS | ATA8-ACS: LBA(23:8) is C24Fh, or 2CF4h if a threshold is exceeded |
//! | device statistics, log 04h | ACS-4: values with "supported" and "valid" bits |
//! | SMART READ DATA | ATA/ATAPI-5; the attributes are vendor-specific |
//! | ATA PASS-THROUGH (16) and its sense data | SAT-3 |
//!
//! Device statistics take precedence over attributes. Only attributes with one meaning on the
//! listed drives are used; the others stay unknown.

use super::{Answer, Command, Refusal, int_le};
use platform::{DriveHealth, HealthSource};

const PAGE_BYTES: usize = 512;
type Page = [u8; PAGE_BYTES];

const ATA_PASS_THROUGH_16: u8 = 0x85;
const PROTOCOL_NO_DATA: u8 = 3;
const PROTOCOL_PIO_IN: u8 = 4;
/// Byte 2 of the pass-through: always return the registers.
const CHECK_CONDITION: u8 = 0x20;
/// Byte 2: from the device (bit 3), in blocks (bit 2), length in the count field (bits 1:0).
const FROM_DEVICE_BY_COUNT: u8 = 0x0E;

const READ_LOG_EXT: u8 = 0x2F;
const SMART: u8 = 0xB0;
const SMART_READ_DATA: u8 = 0xD0;
const SMART_RETURN_STATUS: u8 = 0xDA;
/// LBA(15:8) and LBA(23:16) of every SMART command; a healthy device returns them unchanged.
const SMART_SIGNATURE: (u8, u8) = (0x4F, 0xC2);
const THRESHOLD_EXCEEDED: (u8, u8) = (0xF4, 0x2C);

const DEVICE_STATISTICS_LOG: u8 = 0x04;

/// The attribute that counts down from 100 with the wear of the flash, for drives with such
/// documentation.
const REMAINING_LIFE: [(&str, u8); 6] = [
    ("INTEL SSD", 233),
    ("SAMSUNG", 177),
    ("Samsung SSD", 177),
    ("Micron_", 202),
    ("MTFD", 202),
    ("Crucial_CT", 202),
];

/// Queries an ATA device of that model, with logical sectors of that many bytes.
pub(super) fn ask(
    command: &mut Command<'_>,
    model: &str,
    sector_bytes: u64,
) -> Result<DriveHealth, Refusal> {
    let status = command(&smart(PROTOCOL_NO_DATA, CHECK_CONDITION, SMART_RETURN_STATUS), &mut [])?;
    let mut health =
        DriveHealth { predicted_failure: return_status(&status.sense), ..DriveHealth::default() };
    let listed =
        statistics_page(command, 0)?.map(|page| supported_pages(&page)).unwrap_or_default();
    for number in [1, 3, 4, 5, 7] {
        if listed.contains(&number)
            && let Some(page) = statistics_page(command, number)?
        {
            take_statistics(&mut health, number, &page, sector_bytes);
        }
    }
    let mut data = [0; PAGE_BYTES];
    let answer =
        command(&smart(PROTOCOL_PIO_IN, FROM_DEVICE_BY_COUNT, SMART_READ_DATA), &mut data)?;
    if is_whole(&answer) {
        take_attributes(&mut health, &data, model);
    }
    if health != DriveHealth::default() {
        health.source = HealthSource::AtaSmart;
    }
    Ok(health)
}

fn is_whole(answer: &Answer) -> bool {
    answer.status == 0 && answer.len == PAGE_BYTES
}

/// A SMART command in a pass-through.
fn smart(protocol: u8, flags: u8, feature: u8) -> [u8; 16] {
    let mut command = [0; 16];
    command[0] = ATA_PASS_THROUGH_16;
    command[1] = protocol << 1;
    command[2] = flags;
    command[4] = feature;
    command[6] = 1;
    (command[10], command[12]) = SMART_SIGNATURE;
    command[14] = SMART;
    command
}

/// READ LOG EXT of one page of the device statistics.
fn read_statistics(number: u8) -> [u8; 16] {
    let mut command = [0; 16];
    command[0] = ATA_PASS_THROUGH_16;
    command[1] = (PROTOCOL_PIO_IN << 1) | 1; // 48-bit
    command[2] = FROM_DEVICE_BY_COUNT;
    command[6] = 1;
    command[8] = DEVICE_STATISTICS_LOG;
    command[10] = number;
    command[14] = READ_LOG_EXT;
    command
}

/// A page of the statistics, if the device has it and returns that page.
fn statistics_page(command: &mut Command<'_>, number: u8) -> Result<Option<Page>, Refusal> {
    let mut page = [0; PAGE_BYTES];
    let answer = command(&read_statistics(number), &mut page)?;
    // Bytes 0–1 are the revision, not zero; byte 2 is the page number.
    let is_it = is_whole(&answer) && page[..2] != [0, 0] && page[2] == number;
    Ok(is_it.then_some(page))
}

/// The registers after SMART RETURN STATUS, from descriptor or fixed sense data.
fn return_status(sense: &[u8]) -> Option<bool> {
    let signature = match sense.first()? & 0x7F {
        // The ATA status return descriptor (09h, 0Ch): byte 13 is the status, 9 and 11 the LBA.
        0x72 => {
            let descriptor = sense.get(8..22).filter(|bytes| bytes[..2] == [0x09, 0x0C])?;
            let failed = descriptor[13] & 1 != 0;
            (!failed).then_some((descriptor[9], descriptor[11]))?
        }
        // Byte 4 is the status, bytes 9 to 11 are the low LBA; the sense code identifies the
        // format.
        0x70 => {
            let fixed = sense.get(..14).filter(|bytes| bytes[12..14] == [0x00, 0x1D])?;
            let failed = fixed[4] & 1 != 0;
            (!failed).then_some((fixed[10], fixed[11]))?
        }
        _ => return None,
    };
    match signature {
        SMART_SIGNATURE => Some(false),
        THRESHOLD_EXCEEDED => Some(true),
        _ => None,
    }
}

/// Page 0 lists the supported pages: their number in byte 8, then the page numbers.
fn supported_pages(page: &Page) -> Vec<u8> {
    page[9..].iter().copied().take(usize::from(page[8])).collect()
}

/// A statistic of `len` bytes at `at`, if byte 7 of its eight is supported (bit 7) and valid (bit
/// 6).
fn statistic(page: &Page, at: usize, len: usize) -> Option<u64> {
    let field = page.get(at..at + 8)?;
    let valid = field[7] & 0xC0 == 0xC0;
    valid.then(|| int_le(&field[..len]) as u64)
}

fn take_statistics(health: &mut DriveHealth, number: u8, page: &Page, sector_bytes: u64) {
    match number {
        1 => {
            health.power_on_hours = statistic(page, 16, 4);
            let sectors = statistic(page, 24, 6);
            health.written_bytes = sectors.map(|sectors| sectors.saturating_mul(sector_bytes));
        }
        3 => health.reallocated_sectors = statistic(page, 32, 4),
        4 => health.media_errors = statistic(page, 8, 4),
        5 => health.temperature_c = statistic(page, 8, 1).map(|byte| i16::from(byte as u8 as i8)),
        7 => health.wear_percent = statistic(page, 8, 1).and_then(|byte| u8::try_from(byte).ok()),
        _ => {}
    }
}

struct Attribute {
    value: u8,
    raw: u64,
}

/// The attributes: thirty of twelve bytes from byte 2: number, flags (2), value, worst, raw (6),
/// reserved.
fn attribute(data: &Page, number: u8) -> Option<Attribute> {
    let mut entries = data[2..362].chunks_exact(12);
    let entry = entries.find(|entry| entry[0] == number && number != 0)?;
    Some(Attribute { value: entry[3], raw: int_le(&entry[5..11]) as u64 })
}

/// Adds values that device statistics do not report and attributes define unambiguously.
fn take_attributes(health: &mut DriveHealth, data: &Page, model: &str) {
    // The checksum: all 512 bytes add up to zero.
    if data.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) != 0 || data[..2] == [0, 0] {
        return;
    }
    if health.reallocated_sectors.is_none() {
        // Some vendors use the upper bytes for other data: then the lower ones are ambiguous.
        health.reallocated_sectors =
            attribute(data, 5).map(|sectors| sectors.raw).filter(|raw| *raw <= u64::from(u16::MAX));
    }
    if health.temperature_c.is_none() {
        // The lowest byte; the others hold extremes.
        let temperature = attribute(data, 194).or_else(|| attribute(data, 190));
        health.temperature_c =
            temperature.map(|temperature| i16::from(temperature.raw as u8 as i8));
    }
    if health.wear_percent.is_none()
        && let Some((_, number)) =
            REMAINING_LIFE.iter().find(|(prefix, _)| model.starts_with(prefix))
    {
        let remaining = attribute(data, *number).map(|life| life.value);
        health.wear_percent = remaining.filter(|value| *value <= 100).map(|value| 100 - value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKED: u8 = 2;

    fn descriptor_sense(status: u8, mid: u8, high: u8) -> Vec<u8> {
        let mut sense = vec![0x72, 0x01, 0x00, 0x1D, 0, 0, 0, 14];
        sense.extend([0x09, 0x0C, 0, 0, 0, 0, 0, 0, 0, mid, 0, high, 0, status]);
        sense
    }

    fn page(number: u8, statistics: &[(usize, u64, u8)]) -> Page {
        let mut page = [0; PAGE_BYTES];
        page[0] = 1;
        page[2] = number;
        for (at, value, flags) in statistics {
            page[*at..at + 7].copy_from_slice(&value.to_le_bytes()[..7]);
            page[at + 7] = *flags;
        }
        page
    }

    fn attributes(entries: &[(u8, u8, [u8; 6])]) -> Page {
        let mut data = [0; PAGE_BYTES];
        data[0] = 16;
        for (index, (number, value, raw)) in entries.iter().enumerate() {
            let at = 2 + index * 12;
            (data[at], data[at + 3], data[at + 4]) = (*number, *value, *value);
            data[at + 5..at + 11].copy_from_slice(raw);
        }
        data[511] = data.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte));
        data
    }

    /// A device that returns these pages and attributes, and aborts all other commands.
    fn device(
        sense: Vec<u8>,
        statistics: Vec<Page>,
        data: Option<Page>,
    ) -> impl FnMut(&[u8], &mut [u8]) -> Result<Answer, Refusal> {
        let aborted = || Answer { status: CHECKED, sense: descriptor_sense(0x51, 0, 0), len: 0 };
        move |command, target| {
            assert_eq!((command.len(), command[0]), (16, ATA_PASS_THROUGH_16));
            let found = match (command[14], command[4]) {
                (SMART, SMART_RETURN_STATUS) => {
                    assert_eq!((command[1], command[2]), (3 << 1, 0x20));
                    assert_eq!((command[10], command[12]), (0x4F, 0xC2));
                    return Ok(Answer { status: CHECKED, sense: sense.clone(), len: 0 });
                }
                (SMART, SMART_READ_DATA) => {
                    assert_eq!((command[1], command[2], command[6]), (4 << 1, 0x0E, 1));
                    data
                }
                (READ_LOG_EXT, 0) => {
                    assert_eq!((command[1], command[8]), ((4 << 1) | 1, 4));
                    statistics.iter().find(|page| page[2] == command[10]).copied()
                }
                other => panic!("unexpected command {other:?}"),
            };
            match found {
                Some(page) => {
                    target.copy_from_slice(&page);
                    Ok(Answer { status: 0, sense: Vec::new(), len: PAGE_BYTES })
                }
                None => Ok(aborted()),
            }
        }
    }

    fn list(pages: &[u8]) -> Page {
        let mut list = page(0, &[]);
        list[8] = pages.len() as u8;
        list[9..9 + pages.len()].copy_from_slice(pages);
        list
    }

    #[test]
    fn an_ssd_with_device_statistics() {
        let statistics = vec![
            list(&[0, 1, 4, 5, 7]),
            page(1, &[(8, 12, 0xC0), (16, 4321, 0xC0), (24, 1 << 40, 0xC0)]),
            page(4, &[(8, 2, 0xC0)]),
            page(5, &[(8, 0xFB, 0xC0)]),
            page(7, &[(8, 17, 0xC8)]),
        ];
        // Attributes with other values.
        let data = attributes(&[
            (5, 100, [7, 0, 0, 0, 0, 0]),
            (194, 60, [40, 0, 20, 0, 60, 0]),
            (177, 50, [0; 6]),
        ]);
        let mut device = device(descriptor_sense(0x50, 0x4F, 0xC2), statistics, Some(data));
        let expected = DriveHealth {
            source: HealthSource::AtaSmart,
            predicted_failure: Some(false),
            wear_percent: Some(17),
            spare_percent: None,
            spare_threshold_percent: None,
            media_errors: Some(2),
            reallocated_sectors: Some(7),
            temperature_c: Some(-5),
            power_on_hours: Some(4321),
            written_bytes: Some(512 << 40),
        };
        assert_eq!(ask(&mut device, "Samsung SSD 870 EVO 1TB", 512).unwrap(), expected);
    }

    #[test]
    fn statistics_that_are_not_supported_valid_or_listed_are_unknown() {
        let statistics = vec![
            list(&[0, 1, 3, 7]),
            page(1, &[(16, 4321, 0x80), (24, 9, 0x40)]),
            page(3, &[(32, 11, 0xC0)]),
            page(4, &[(8, 2, 0xC0)]),
            // A page with another number.
            page(5, &[(8, 30, 0xC0)]),
        ];
        let health = ask(&mut device(Vec::new(), statistics, None), "", 512).unwrap();
        let expected = DriveHealth {
            source: HealthSource::AtaSmart,
            reallocated_sectors: Some(11),
            ..DriveHealth::default()
        };
        assert_eq!(health, expected);
    }

    #[test]
    fn an_older_ssd_with_attributes_alone() {
        let entries = [
            (5, 100, [0; 6]),
            (9, 99, [1; 6]),
            (190, 70, [30, 0, 0, 0, 0, 0]),
            (202, 83, [17, 0, 0, 0, 0, 0]),
        ];
        let data = attributes(&entries);
        let asked = |model: &str, data: Page| {
            ask(&mut device(descriptor_sense(0x50, 0xF4, 0x2C), Vec::new(), Some(data)), model, 512)
                .unwrap()
        };
        let crucial = asked("Crucial_CT275MX300SSD1", data);
        assert_eq!(crucial.predicted_failure, Some(true));
        assert_eq!((crucial.wear_percent, crucial.temperature_c), (Some(17), Some(30)));
        assert_eq!((crucial.reallocated_sectors, crucial.power_on_hours), (Some(0), None));
        assert_eq!(
            asked("KINGSTON SV300S37A120G", data).wear_percent,
            None,
            "attribute 202 is not defined for this model"
        );
        let mut damaged = data;
        damaged[100] ^= 1;
        let health = asked("Crucial_CT275MX300SSD1", damaged);
        assert_eq!((health.wear_percent, health.temperature_c), (None, None));
    }

    #[test]
    fn other_things_in_the_upper_bytes_make_a_count_unknown() {
        let data = attributes(&[(5, 100, [3, 0, 1, 0, 0, 0])]);
        let health = ask(&mut device(Vec::new(), Vec::new(), Some(data)), "", 512).unwrap();
        assert_eq!(health.reallocated_sectors, None);
    }

    #[test]
    fn the_return_status_in_either_format_and_what_is_none() {
        let fixed = |status: u8, code: u8, mid: u8, high: u8| {
            let mut sense = vec![0x70, 0, 1, 0, status, 0, 0, 10, 0, 0, mid, high, 0, code];
            sense.resize(18, 0);
            sense
        };
        for (sense, expected) in [
            (descriptor_sense(0x50, 0x4F, 0xC2), Some(false)),
            (descriptor_sense(0x50, 0xF4, 0x2C), Some(true)),
            (descriptor_sense(0x51, 0x4F, 0xC2), None),
            (descriptor_sense(0x50, 0, 0), None),
            (fixed(0x50, 0x1D, 0x4F, 0xC2), Some(false)),
            (fixed(0x50, 0x1D, 0xF4, 0x2C), Some(true)),
            (fixed(0x50, 0x20, 0xF4, 0x2C), None),
            (vec![0x72], None),
            (vec![0x70; 9], None),
            (vec![0x00; 32], None),
            (Vec::new(), None),
        ] {
            assert_eq!(return_status(&sense), expected, "{sense:02x?}");
        }
    }

    #[test]
    fn a_device_that_tells_nothing_is_unknown_and_one_that_does_not_answer_is_an_error() {
        let mut silent = device(descriptor_sense(0x51, 0, 0), Vec::new(), None);
        assert_eq!(ask(&mut silent, "", 512), Ok(DriveHealth::default()));
        assert_eq!(ask(&mut |_, _| Err(super::super::gone()), "", 512), Err(super::super::gone()));
        assert_eq!(ask(&mut |_, _| Err(Refusal::Denied), "", 512), Err(Refusal::Denied));
    }
}
