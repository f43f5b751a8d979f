//! Error numbers as in the firmware of these controllers, and event numbers.

use controller::{ErrorKind, Event, Severity};

/// No such drive or volume.
pub(crate) const NOT_FOUND: u16 = 12;
/// No such hardware.
pub(crate) const NO_HARDWARE: u16 = 34;
/// Invalid state; for foreign configurations: none exists.
pub(crate) const WRONG_STATE: u16 = 50;
/// Invalid value.
pub(crate) const INVALID: u16 = 3;
/// No such operation in progress.
pub(crate) const NOT_IN_PROGRESS: u16 = 35;

/// The number for a kind of error.
pub(crate) fn of_error(kind: ErrorKind) -> u16 {
    match kind {
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::NameTaken | ErrorKind::Invalid => INVALID,
        ErrorKind::InUse => 11,
        ErrorKind::Unavailable => 46,
        ErrorKind::WrongState | ErrorKind::LosesData => WRONG_STATE,
        ErrorKind::OutOfSpace => 32,
        ErrorKind::HoldsData
        | ErrorKind::Failed
        | ErrorKind::Busy
        | ErrorKind::Stopping
        | ErrorKind::Denied
        | ErrorKind::Unauthenticated => crate::answer::OTHER,
    }
}

/// Events with a number in the firmware of these controllers.
const KNOWN: &[(&str, u16)] = &[
    ("controller.started", 0x0000),
    ("volume.created", 0x008a),
    ("volume.deleted", 0x008b),
    ("volume.offline", 0x00fc),
    ("volume.started-degraded", 0x00fb),
    ("volume.imported", 0x00db),
    ("drive.missing", 0x0070),
    ("drive.back", 0x005b),
];

/// The number of an event code: a known one, or a hash above 8000h.
pub fn of_event(code: &str) -> u16 {
    if let Some((_, number)) = KNOWN.iter().find(|(known, _)| *known == code) {
        return *number;
    }
    // FNV-1a, folded to fifteen bits.
    let hash = code
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    0x8000 | (((hash >> 15) ^ hash) & 0x7fff) as u16
}

/// The class of a severity.
pub(crate) fn class(severity: Severity) -> i64 {
    match severity {
        Severity::Info => 0,
        Severity::Warning => 1,
        Severity::Critical => 2,
        Severity::Fatal => 3,
    }
}

/// The subject of an event, as a bit.
pub(crate) fn locale(event: &Event) -> i64 {
    match event.code.split('.').next().unwrap_or_default() {
        "volume" | "task" | "schedule" => 0x01,
        "drive" | "spare" => 0x02,
        "log" => 0x08,
        "array" => 0x40,
        _ => 0x20,
    }
}
