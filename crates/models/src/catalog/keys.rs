//! The parameters: meaning, unit and plausible range of each.

/// A parameter of a drive or a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its name, which ends with the unit.
    pub name: &'static str,
    /// The minimum.
    pub least: u64,
    /// The maximum.
    pub most: u64,
    /// A description.
    pub meaning: &'static str,
}

macro_rules! parameters {
    ($(#[$doc:meta])* $spec:ident {
        $($name:ident: $least:literal ..= $most:literal, $meaning:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $spec {
            $(#[doc = $meaning] pub $name: u64,)*
        }

        impl $spec {
            /// All parameters, in the order of files and lists.
            pub const KEYS: &'static [Key] = &[
                $(Key { name: stringify!($name), least: $least, most: $most, meaning: $meaning },)*
            ];

            /// Reads every parameter with `value`.
            ///
            /// # Errors
            /// The first error of `value`.
            pub fn read<E>(
                mut value: impl FnMut(&'static Key) -> Result<u64, E>,
            ) -> Result<$spec, E> {
                let mut keys = Self::KEYS.iter();
                $(let $name = match keys.next() {
                    Some(key) => value(key)?,
                    None => $least,
                };)*
                Ok($spec { $($name,)* })
            }

            /// The parameter with this name, mutable.
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
    /// The internals of a rotating drive.
    RotatingSpec {
        rpm: 3600 ..= 20_000, "Revolutions of the spindle per minute.";
        rpm_tolerance_ppm: 0 ..= 20_000, "Tolerance of the speed, in millionths; each drive has \
                                          its own.";
        heads: 1 ..= 32, "Recording surfaces, which is the number of tracks per cylinder.";
        outer_rate_kb_s: 10_000 ..= 400_000, "Sequential rate at the start of the drive, in kB/s.";
        inner_rate_kb_s: 5_000 ..= 400_000, "Sequential rate at its end, in kB/s.";
        skew_permille: 0 ..= 300, "Track skew, in thousandths of a revolution.";
        seek_min_us: 50 ..= 5_000, "Track-to-track seek with settling, in microseconds.";
        seek_avg_us: 500 ..= 20_000, "Average seek over the whole drive, in microseconds.";
        seek_max_us: 1_000 ..= 40_000, "Full-stroke seek, in microseconds.";
        write_settle_us: 0 ..= 2_000, "Additional settling before a write, in microseconds.";
        command_us: 0 ..= 1_000, "Command overhead of the electronics, in microseconds.";
        read_window: 1 ..= 256, "Oldest commands of the queue that the drive reorders.";
        write_window: 1 ..= 1_024, "Runs of dirty sectors that the cache holds and reorders.";
        read_ahead_kib: 0 ..= 65_536, "Read-ahead, in KiB.";
        segments: 0 ..= 256, "Read ranges that the cache keeps.";
        write_buffer_kib: 64 ..= 262_144, "Share of the buffer for dirty sectors, in KiB.";
    }
}

parameters! {
    /// The internals of a flash drive.
    SsdSpec {
        channels: 1 ..= 64, "Channels between the processor and the dies.";
        dies_per_channel: 1 ..= 64, "Dies on each channel.";
        page_kib: 2 ..= 64, "Page size: one read of a die, in KiB.";
        program_kib: 2 ..= 256, "One program operation of a die with all its planes, in KiB.";
        mapping_kib: 1 ..= 64, "Mapping unit of the drive, in KiB.";
        read_us: 10 ..= 500, "Page read time of a die, in microseconds.";
        program_us: 50 ..= 5_000, "Program time of a die, in microseconds.";
        erase_us: 500 ..= 20_000, "Block erase time of a die, in microseconds.";
        programs_per_block: 16 ..= 4_096, "Program operations per block.";
        channel_mb_s: 20 ..= 2_000, "Rate of a channel, in MB/s.";
        command_ns: 0 ..= 200_000, "Processor time per command, in nanoseconds.";
        lookup_ns: 0 ..= 200_000, "The same per mapping unit of a random read, in nanoseconds.";
        update_ns: 0 ..= 200_000, "The same per mapping unit of a random write, in nanoseconds.";
        stream_ns: 0 ..= 200_000, "The same per mapping unit of a stream, in nanoseconds.";
        latency_us: 0 ..= 1_000, "Additional latency without processor time, in microseconds.";
        write_buffer_kib: 64 ..= 4_194_304, "Write buffer, in KiB.";
        raw_gb: 1 ..= 100_000, "Total flash with overprovisioning, in GB.";
    }
}

parameters! {
    /// A controller's cache and the features that depend on it. The engine's own cache is used with
    /// these sizes.
    CacheSpec {
        memory_mib_s: 100 ..= 1_000_000, "Memory bandwidth, in MiB/s; cached bytes pass it twice.";
        cached_command_ns: 0 ..= 1_000_000, "Processor time per cache hit, in nanoseconds, \
                                             additional.";
        hit_latency_ns: 0 ..= 1_000_000, "Additional latency of a cache hit, in nanoseconds.";
        fast_path_command_ns: 0 ..= 1_000_000, "Processor time per FastPath command, in ns; 0: \
                                                none.";
        low_mark_percent: 1 ..= 98, "Dirty share at which destaging for space begins, in percent.";
        high_mark_percent: 2 ..= 99, "Dirty share at which destaging has priority, in percent.";
        most_raid10_drives: 2 ..= 256, "Maximum number of drives in one RAID 10.";
    }
}
