//! Time limits of drives, by class and operation.

use crate::drive::{DriveInfo, DriveKind};
use crate::request::IoRequest;
use std::time::Duration;

/// A drive's time limits per operation, from the moment when the drive receives it. Time in which
/// the process does not run does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeLimits {
    /// A read that redundancy can serve as well: after this time redundancy is used. Unused if it
    /// is not below `read`.
    pub short_read: Duration,
    /// Any other read, and queries of the drive.
    pub read: Duration,
    /// A write, or zeroing.
    pub write: Duration,
    /// A flush.
    pub flush: Duration,
    /// A trim.
    pub discard: Duration,
}

impl TimeLimits {
    /// One limit for all operations, and no separate limit for short reads.
    pub const fn uniform(limit: Duration) -> TimeLimits {
        TimeLimits { short_read: limit, read: limit, write: limit, flush: limit, discard: limit }
    }

    /// The names of the limits.
    pub const NAMES: [&'static str; 5] = ["short-read", "read", "write", "flush", "discard"];

    /// The limit of that name; `None` if the name is unknown.
    pub fn named(mut self, name: &str) -> Option<Duration> {
        self.named_mut(name).copied()
    }

    /// The limit of that name, mutable; `None` if the name is unknown.
    pub fn named_mut(&mut self, name: &str) -> Option<&mut Duration> {
        Some(match name {
            "short-read" => &mut self.short_read,
            "read" => &mut self.read,
            "write" => &mut self.write,
            "flush" => &mut self.flush,
            "discard" => &mut self.discard,
            _ => return None,
        })
    }

    /// The time limit for a request.
    pub fn of(&self, request: &IoRequest) -> Duration {
        match request {
            IoRequest::Write { .. } | IoRequest::WriteZeroes { .. } => self.write,
            IoRequest::Flush => self.flush,
            IoRequest::Trim { .. } => self.discard,
            IoRequest::Read { .. }
            | IoRequest::Status { .. }
            | IoRequest::Health
            | IoRequest::Locate { .. }
            | IoRequest::WriteCache { .. } => self.read,
        }
    }
}

/// Classes of drives with different time limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveClass {
    /// Not rotating and local: files and memory as well.
    Solid,
    /// Rotating: it may have to spin up, or to rewrite a zone if it is shingled.
    Rotating,
    /// On another computer, reached over a network.
    Remote,
}

impl DriveClass {
    /// All classes.
    pub const ALL: [DriveClass; 3] = [DriveClass::Solid, DriveClass::Rotating, DriveClass::Remote];

    /// The class of a drive.
    pub fn of(info: &DriveInfo) -> DriveClass {
        match info.kind {
            DriveKind::Remote => DriveClass::Remote,
            _ if info.rotational => DriveClass::Rotating,
            _ => DriveClass::Solid,
        }
    }

    /// The maximum number of operations that each shard gives a drive at once. Others queue, and
    /// their time limits do not run: a limit applies to the drive, not to the amount of work. A
    /// disk with 60 random operations per second completes these in 2.1 s. A remote one needs 1.1 s
    /// of the 2 s that a write may take there. SATA has 32 (NCQ), and 64 to 254 are usual for SAS.
    pub const fn queue_depth(self) -> u32 {
        match self {
            DriveClass::Solid => 256,
            DriveClass::Rotating => 128,
            DriveClass::Remote => 64,
        }
    }

    /// The class of that name.
    pub fn named(name: &str) -> Option<DriveClass> {
        DriveClass::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            DriveClass::Solid => "solid",
            DriveClass::Rotating => "rotating",
            DriveClass::Remote => "remote",
        }
    }
}

/// Time limits for each class of drives.
///
/// # Defaults
/// Local drives have the limits of the Linux kernel's drivers, 30 s for a read or write and 60 s
/// for a flush (`SD_TIMEOUT`, `SD_FLUSH_TIMEOUT`). The kernel aborts and repeats within them, so
/// that drives that spin up and shingled drives meet them. A network that blocks a write for 2 s
/// will often block longer, and a remote drive returns by itself. A small write reads before it
/// writes, and both together should take a host at most 3 s: hence 0.5 s for a read that redundancy
/// can serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitsByClass {
    /// Of [`DriveClass::Solid`].
    pub solid: TimeLimits,
    /// Of [`DriveClass::Rotating`].
    pub rotating: TimeLimits,
    /// Of [`DriveClass::Remote`].
    pub remote: TimeLimits,
}

impl LimitsByClass {
    /// Sets one limit by its name, CLASS.OPERATION, such as `remote.write` in `remote.write=5s`.
    ///
    /// # Errors
    /// A sentence with the valid names, if the name is unknown.
    pub fn set(&mut self, name: &str, limit: Duration) -> Result<(), String> {
        let parts = name.split_once('.');
        let class = parts.and_then(|(class, _)| DriveClass::named(class));
        let limits = class.map(|class| self.of_class_mut(class));
        let of = limits.zip(parts).and_then(|(limits, (_, operation))| limits.named_mut(operation));
        let Some(of) = of else {
            let classes = DriveClass::ALL.map(DriveClass::name).join(", ");
            let names = TimeLimits::NAMES.join(", ");
            return Err(format!(
                "there is no time limit '{name}'; expected CLASS.OPERATION with a class of \
                    {classes}, and an operation of {names}"
            ));
        };
        *of = limit;
        Ok(())
    }

    /// One limit for all drives and operations.
    pub const fn uniform(limit: Duration) -> LimitsByClass {
        let limits = TimeLimits::uniform(limit);
        LimitsByClass { solid: limits, rotating: limits, remote: limits }
    }

    /// The limits of a class.
    pub const fn of_class(&self, class: DriveClass) -> TimeLimits {
        match class {
            DriveClass::Solid => self.solid,
            DriveClass::Rotating => self.rotating,
            DriveClass::Remote => self.remote,
        }
    }

    /// The limits of a class, mutable.
    pub const fn of_class_mut(&mut self, class: DriveClass) -> &mut TimeLimits {
        match class {
            DriveClass::Solid => &mut self.solid,
            DriveClass::Rotating => &mut self.rotating,
            DriveClass::Remote => &mut self.remote,
        }
    }

    /// The limits of a drive.
    pub fn of(&self, info: &DriveInfo) -> TimeLimits {
        self.of_class(DriveClass::of(info))
    }
}

const LOCAL: TimeLimits = TimeLimits {
    short_read: Duration::from_secs(2),
    read: Duration::from_secs(30),
    write: Duration::from_secs(30),
    flush: Duration::from_secs(60),
    discard: Duration::from_secs(60),
};

impl Default for LimitsByClass {
    fn default() -> LimitsByClass {
        let remote = TimeLimits {
            short_read: Duration::from_millis(500),
            write: Duration::from_secs(2),
            flush: Duration::from_secs(10),
            ..LOCAL
        };
        LimitsByClass { solid: LOCAL, rotating: LOCAL, remote }
    }
}
