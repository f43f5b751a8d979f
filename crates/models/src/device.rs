//! What the inside of a drive has in common: commands in, completions out.

/// What a command asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    /// `durable`: not before it is on the medium, whatever the cache.
    Write {
        durable: bool,
    },
    Flush,
    /// Answered by the electronics alone.
    Ask,
}

/// A command as it reaches the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// Whose it is: the port's slot.
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

/// Addresses inside drives count in these.
pub(crate) const SECTOR: u64 = 512;

/// A drive's inside.
pub(crate) trait Device {
    /// A command arrives, with its data if it writes.
    fn submit(&self, command: Command);

    /// How long the parts that can be busy were, each on average over their number: names and nanoseconds.
    fn busy(&self, now_ns: u64) -> Vec<(&'static str, u64)>;
}

/// Who is told when a command is done. It must not submit before it returns.
pub(crate) trait Done {
    fn done(&self, tag: u32);
}

/// The state in which drives are found: what was written before.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prepared {
    /// How many percent of a drive, from its start, were written at random until nothing changed any more; the
    /// rest is full and is left alone. Zero: everything was written in order.
    pub random_percent: u64,
}
