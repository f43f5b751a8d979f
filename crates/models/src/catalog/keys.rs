//! The parameters: what each means, in which unit, and between which bounds it is plausible.

/// A parameter of a drive or a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its name, with its unit last.
    pub name: &'static str,
    /// The least it may be.
    pub least: u64,
    /// The most it may be.
    pub most: u64,
    /// What it is.
    pub meaning: &'static str,
}

macro_rules! parameters {
    ($(#[$doc:meta])* $spec:ident { $($name:ident: $least:literal ..= $most:literal, $meaning:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $spec {
            $(#[doc = $meaning] pub $name: u64,)*
        }

        impl $spec {
            /// Its parameters, in the order in which files and lists show them.
            pub const KEYS: &'static [Key] = &[
                $(Key { name: stringify!($name), least: $least, most: $most, meaning: $meaning },)*
            ];

            /// Takes every parameter from `value`.
            ///
            /// # Errors
            /// The first error of `value`.
            pub fn read<E>(mut value: impl FnMut(&'static Key) -> Result<u64, E>) -> Result<$spec, E> {
                let mut keys = Self::KEYS.iter();
                $(let $name = match keys.next() {
                    Some(key) => value(key)?,
                    None => $least,
                };)*
                Ok($spec { $($name,)* })
            }

            /// The parameter of that name, to read or to change.
            pub fn parameter(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

parameters! {
    /// A rotating drive's inside.
    RotatingSpec {
        rpm: 3600 ..= 20_000, "Revolutions of the spindle per minute.";
        rpm_tolerance_ppm: 0 ..= 20_000, "By how many millionths of that the spindle is quicker or slower at most; each drive has a speed of its own.";
        heads: 1 ..= 32, "Surfaces that are written, hence tracks per cylinder.";
        outer_rate_kb_s: 10_000 ..= 400_000, "What a stream moves at the start of the drive, in 1000 bytes per second.";
        inner_rate_kb_s: 5_000 ..= 400_000, "What a stream moves at its end, in 1000 bytes per second.";
        skew_permille: 0 ..= 300, "By how much of a revolution each track begins after the one before.";
        seek_min_us: 50 ..= 5_000, "From one cylinder to the next, settling included, in microseconds.";
        seek_avg_us: 500 ..= 20_000, "Between two random places of the whole drive, in microseconds.";
        seek_max_us: 1_000 ..= 40_000, "From the first cylinder to the last, in microseconds.";
        write_settle_us: 0 ..= 2_000, "What settling takes longer before a write, in microseconds.";
        command_us: 0 ..= 1_000, "What the electronics take for a command, in microseconds.";
        read_window: 1 ..= 256, "How many commands of its queue, the oldest, the drive chooses between.";
        write_window: 1 ..= 1_024, "How many runs of dirty sectors the cache holds and chooses between.";
        read_ahead_kib: 0 ..= 65_536, "How much a drive reads ahead of what was asked for, in KiB.";
        segments: 0 ..= 256, "How many ranges that were read are kept.";
        write_buffer_kib: 64 ..= 262_144, "How much of the buffer may hold dirty sectors, in KiB.";
    }
}

parameters! {
    /// A flash drive's inside.
    SsdSpec {
        channels: 1 ..= 64, "Channels between the drive's processor and its dies.";
        dies_per_channel: 1 ..= 64, "Dies on each channel.";
        page_kib: 2 ..= 64, "What a die reads at once, in KiB.";
        program_kib: 2 ..= 256, "What a die programs at once, all its planes together, in KiB.";
        mapping_kib: 1 ..= 64, "The unit in which the drive maps addresses, in KiB.";
        read_us: 10 ..= 500, "How long a die reads a page, in microseconds.";
        program_us: 50 ..= 5_000, "How long a die programs, in microseconds.";
        erase_us: 500 ..= 20_000, "How long a die erases a block, in microseconds.";
        programs_per_block: 16 ..= 4_096, "Programs until a block is full.";
        channel_mb_s: 20 ..= 2_000, "What a channel carries, in 1,000,000 bytes per second.";
        command_ns: 0 ..= 200_000, "How long the drive's processor is busy with a command, in nanoseconds.";
        lookup_ns: 0 ..= 200_000, "The same for each mapping unit of a read that continues no stream, in nanoseconds.";
        update_ns: 0 ..= 200_000, "The same for each mapping unit of a write that continues no stream, in nanoseconds.";
        stream_ns: 0 ..= 200_000, "The same for each mapping unit of what continues a stream, in nanoseconds.";
        latency_us: 0 ..= 1_000, "How long a command takes besides, in microseconds; others go on meanwhile.";
        write_buffer_kib: 64 ..= 4_194_304, "How much written data waits for the dies, in KiB.";
        raw_gb: 1 ..= 100_000, "Flash in all, in 1,000,000,000 bytes: more than hosts see.";
    }
}

parameters! {
    /// The cache of a controller, and what the controller does because it has one. The cache is the engine's own; these are its sizes.
    CacheSpec {
        memory_mib_s: 100 ..= 1_000_000, "What its memory carries, in MiB per second; a byte of the cache goes in once, and out once.";
        cached_command_ns: 0 ..= 1_000_000, "Processor time for a part of a command that the cache answers, besides that for the command, in nanoseconds.";
        hit_latency_ns: 0 ..= 1_000_000, "What a command takes besides that needs no drive, in nanoseconds; others go on meanwhile.";
        fast_path_command_ns: 0 ..= 1_000_000, "Processor time for a command of the host on the fast path, in nanoseconds; 0: it has none.";
        low_mark_percent: 1 ..= 98, "How much of the cache is dirty when it begins to make room, in percent.";
        high_mark_percent: 2 ..= 99, "How much is dirty when it does nothing else, in percent.";
        most_raid10_drives: 2 ..= 256, "The most drives of one RAID 10.";
    }
}
