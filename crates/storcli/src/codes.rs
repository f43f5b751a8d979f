//! Numbers of errors, as the firmware of such controllers has them, and of events.

use controller::{ErrorKind, Event, Severity};

/// There is no such drive or volume.
pub(crate) const NOT_FOUND: u16 = 12;
/// There is no such hardware.
pub(crate) const NO_HARDWARE: u16 = 34;
/// The state of something does not allow it; of foreign configurations: there is none.
pub(crate) const WRONG_STATE: u16 = 50;
/// A value cannot be.
pub(crate) const INVALID: u16 = 3;
/// There is no such operation in progress.
pub(crate) const NOT_IN_PROGRESS: u16 = 35;

/// The number of a kind of error.
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

/// Events for which such controllers have a number of their own.
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

/// The number of a kind of event: a known one, or one above 8000h that is a function of its name.
pub fn of_event(code: &str) -> u16 {
    if let Some((_, number)) = KNOWN.iter().find(|(known, _)| *known == code) {
        return *number;
    }
    // FNV-1a, folded to fifteen bits.
    let hash =
        code.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    0x8000 | (((hash >> 15) ^ hash) & 0x7fff) as u16
}

/// How much an event matters.
pub(crate) fn class(severity: Severity) -> i64 {
    match severity {
        Severity::Info => 0,
        Severity::Warning => 1,
        Severity::Critical => 2,
        Severity::Fatal => 3,
    }
}

/// What an event is about, as a bit.
pub(crate) fn locale(event: &Event) -> i64 {
    match event.code.split('.').next().unwrap_or_default() {
        "volume" | "task" | "schedule" => 0x01,
        "drive" | "spare" => 0x02,
        "log" => 0x08,
        "array" => 0x40,
        _ => 0x20,
    }
}
