//! How long drives may take, by what they are and what they are asked.

use crate::drive::{DriveInfo, DriveKind, IoRequest};
use std::time::Duration;

/// How long a drive may take for one operation, from the moment when it is asked. Time in which the process does not run does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeLimits {
    /// A read of what redundancy has as well: after that redundancy is asked. No limit of its own if it is not below `read`.
    pub short_read: Duration,
    /// Any other read, and what a drive is asked about itself.
    pub read: Duration,
    /// A write, also of zeroes.
    pub write: Duration,
    /// A flush.
    pub flush: Duration,
    /// A trim.
    pub discard: Duration,
}

impl TimeLimits {
    /// The same limit for every operation, and none of its own for short reads.
    pub const fn uniform(limit: Duration) -> TimeLimits {
        TimeLimits { short_read: limit, read: limit, write: limit, flush: limit, discard: limit }
    }

    /// What the limits are called.
    pub const NAMES: [&'static str; 5] = ["short-read", "read", "write", "flush", "discard"];

    /// The limit that is called so. `None`: none is.
    pub fn named(mut self, name: &str) -> Option<Duration> {
        self.named_mut(name).copied()
    }

    /// The limit that is called so, to be changed. `None`: none is.
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

    /// How long a drive may take for a request of that kind.
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

/// Kinds of drives that are given different times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveClass {
    /// Without a spindle, and in or at this machine: files and memory as well.
    Solid,
    /// With a spindle: it may have to spin up, and a shingled one to rewrite a zone.
    Rotating,
    /// Of another machine, behind a network.
    Remote,
}

impl DriveClass {
    /// All.
    pub const ALL: [DriveClass; 3] = [DriveClass::Solid, DriveClass::Rotating, DriveClass::Remote];

    /// What a drive is.
    pub fn of(info: &DriveInfo) -> DriveClass {
        match info.kind {
            DriveKind::Remote => DriveClass::Remote,
            _ if info.rotational => DriveClass::Rotating,
            _ => DriveClass::Solid,
        }
    }

    /// How many operations a drive is given at once by each shard. Others wait, and their time limit does not run: it is a limit of the drive,
    /// and not of how much there is to do. A disk that does 60 operations a second at random has done these in 2.1 s, and one behind a
    /// network in 1.1 s, of the 2 s that a write may take there; 32 is what SATA knows (NCQ), and 64 to 254 are usual for SAS.
    pub const fn queue_depth(self) -> u32 {
        match self {
            DriveClass::Solid => 256,
            DriveClass::Rotating => 128,
            DriveClass::Remote => 64,
        }
    }

    /// The one that is called so.
    pub fn named(name: &str) -> Option<DriveClass> {
        DriveClass::ALL.into_iter().find(|class| class.name() == name)
    }

    /// What it is called.
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
/// A drive of this machine has the times of the Linux kernel's drivers, 30 s for a read or write and 60 s for a flush
/// (`SD_TIMEOUT`, `SD_FLUSH_TIMEOUT`), since the kernel aborts and repeats within them: a spinning-up or shingled drive meets them. A network
/// that has not carried a write for 2 s will often not carry it soon, and a remote drive comes back by itself. A small write reads before it
/// writes, and a host should not wait longer than 3 s for both: hence 0.5 s for a read that redundancy can serve.
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
    /// Changes one, as a text such as `remote.write=5s` says whose left side is given: the class and what the limit is called.
    ///
    /// # Errors
    /// A sentence about what there is, if there is no such limit.
    pub fn set(&mut self, name: &str, limit: Duration) -> Result<(), String> {
        let parts = name.split_once('.');
        let class = parts.and_then(|(class, _)| DriveClass::named(class));
        let limits = class.map(|class| self.of_class_mut(class));
        let of = limits.zip(parts).and_then(|(limits, (_, operation))| limits.named_mut(operation));
        let Some(of) = of else {
            let classes = DriveClass::ALL.map(DriveClass::name).join(", ");
            let names = TimeLimits::NAMES.join(", ");
            return Err(format!(
                "there is no time limit '{name}'; expected CLASS.OPERATION with a class of {classes}, and an operation of {names}"
            ));
        };
        *of = limit;
        Ok(())
    }

    /// The same limit for all drives and operations.
    pub const fn uniform(limit: Duration) -> LimitsByClass {
        let limits = TimeLimits::uniform(limit);
        LimitsByClass { solid: limits, rotating: limits, remote: limits }
    }

    /// Those of one class.
    pub const fn of_class(&self, class: DriveClass) -> TimeLimits {
        match class {
            DriveClass::Solid => self.solid,
            DriveClass::Rotating => self.rotating,
            DriveClass::Remote => self.remote,
        }
    }

    /// Those of one class, to be changed.
    pub const fn of_class_mut(&mut self, class: DriveClass) -> &mut TimeLimits {
        match class {
            DriveClass::Solid => &mut self.solid,
            DriveClass::Rotating => &mut self.rotating,
            DriveClass::Remote => &mut self.remote,
        }
    }

    /// Those of a drive.
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
