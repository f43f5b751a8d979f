//! The interface of a drive's internals: commands in, completions out.

/// The kind of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    /// `durable`: completes only when it is on the medium, with any cache.
    Write {
        durable: bool,
    },
    Flush,
    /// Completed by the electronics alone.
    Ask,
}

/// A command at the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// Its slot in the port.
    pub tag: u32,
    pub kind: Kind,
    /// In sectors of [`SECTOR`] bytes.
    pub start: u64,
    pub sectors: u64,
}

impl Command {
    pub fn end(&self) -> u64 {
        self.start + self.sectors
    }
}

/// The sector size for addresses inside drives.
pub(crate) const SECTOR: u64 = 512;

/// The internals of a drive.
pub(crate) trait Device {
    /// Receives a command, with its data if it writes.
    fn submit(&self, command: Command);

    /// The busy time of each kind of resource, as the mean over its instances: names and
    /// nanoseconds.
    fn busy(&self, now_ns: u64) -> Vec<(&'static str, u64)>;
}

/// Receives completions of commands. It must not submit commands within the call.
pub(crate) trait Done {
    fn done(&self, tag: u32);
}

/// The state of drives before the run: the data that they contain.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prepared {
    /// The percentage of a drive, from its start, that was written at random up to a steady state.
    /// The rest is full and is not rewritten. Zero: everything was written sequentially.
    pub random_percent: u64,
}
