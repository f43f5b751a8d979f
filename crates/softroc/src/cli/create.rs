//! `softroc volume create`.

use super::{Output, levels};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use controller::{CacheMode, Coercion, DriveCache, Preset, ReadMode, SectorFormat, WriteMode};
use layout::Level;
use units::{ByteCount, StripSize};

/// See [`VolumeCommand::Create`](super::VolumeCommand::Create).
#[derive(Args, Debug)]
pub struct VolumeCreate {
    /// The name of the volume: letters, digits, '-', '_' and '.'.
    pub name: String,

    /// The RAID level.
    #[arg(long, value_name = "LEVEL", value_parser = levels())]
    pub level: Level,

    /// The drives in slot order: paths, mem:SIZE, nbd:// addresses. If they are all drives of an
    /// array, the volume uses its free space.
    #[arg(long, required_unless_present = "array", num_args = 1.., value_name = "DRIVE")]
    pub drives: Vec<String>,

    /// Use the free space of this volume's array, instead of --drives.
    #[arg(long, value_name = "VOLUME", conflicts_with = "drives")]
    pub array: Option<String>,

    /// The number of spans (raid00, raid10, raid50, raid60) [default: pairs for raid10, otherwise
    /// the fewest].
    #[arg(long, value_name = "N")]
    pub spans: Option<u16>,

    /// The number of copies of each strip on raid1e [default: 2].
    #[arg(long, value_name = "N")]
    pub copies: Option<u16>,

    /// The strip size (the part of a stripe on one drive): 4K to 1M [default: 256K on rotating
    /// drives, 64K on SSDs].
    #[arg(long, value_name = "SIZE", visible_alias = "stripe-size")]
    pub strip: Option<StripSize>,

    /// The layout of parity or copies on the drives, such as left-symmetric or near [default: that
    /// of the level].
    #[arg(long, value_name = "LAYOUT", visible_alias = "arrangement")]
    pub layout: Option<String>,

    /// The capacity [default: all free space].
    #[arg(long, value_name = "SIZE")]
    pub size: Option<ByteCount>,

    /// How levels with parity close the write hole. journal: partial-stripe writes go to a journal
    /// on the drives first, and a replay repairs them after a crash without an operator. It costs
    /// 38 to 51 % of random writes on drives (at 32 outstanding I/Os), up to 65 % in memory, and
    /// nothing for reads and full-stripe writes. resync: partial-stripe writes are about twice as
    /// fast; a crash causes a resync of marked regions. If the volume is also degraded, it needs an
    /// operator and may lose blocks. 'softroc explain --volume' counts the I/Os; 'volume set'
    /// changes it later [default: journal].
    #[arg(long, value_name = "HOW")]
    pub write_hole: Option<WriteHole>,

    /// The preset of the four cache settings below; each may also be given on its own.
    /// data-protection: writes are acknowledged by a log device, or without one by the drives
    /// (read-ahead, logged-write-back, direct, drive-cache off). performance: writes are
    /// acknowledged from the cache; unflushed writes are lost in a power cut (read-ahead,
    /// write-back, direct, drive-cache on). fast-path: writes are acknowledged by the drives
    /// (no-read-ahead, write-through, direct, drive-cache on). 'volume set' changes it later
    /// [default: performance; fast-path if all drives are mem: or null:].
    #[arg(long, value_name = "PRESET", value_parser = setting(Preset::ALL, Preset::name))]
    pub preset: Option<Preset>,

    /// When writes are acknowledged. write-through: when the drives have them. logged-write-back:
    /// when a log device has them, or without one the drives. write-back: when the cache has them;
    /// acknowledged writes survive a restart, and flushed and FUA writes survive a power cut.
    /// always-write-back: like write-back, but flushes and FUA are acknowledged at once; a power
    /// cut loses even flushed writes. Without a cache, the mode is write-through for now. 'volume
    /// set' changes it later [default: that of the preset].
    #[arg(long, value_name = "MODE", value_parser = setting(WriteMode::ALL, WriteMode::name))]
    pub write_mode: Option<WriteMode>,

    /// Whether the cache reads ahead of sequential reads: read-ahead, or no-read-ahead. 'volume
    /// set' changes it later [default: that of the preset].
    #[arg(long, value_name = "MODE", value_parser = setting(ReadMode::ALL, ReadMode::name))]
    pub read_mode: Option<ReadMode>,

    /// Whether the cache keeps data that hosts read: cached, or direct. 'volume set' changes it
    /// later [default: that of the preset].
    #[arg(long, value_name = "MODE", value_parser = setting(CacheMode::ALL, CacheMode::name))]
    pub cache_mode: Option<CacheMode>,

    /// The drives' own write caches: on, off, or unchanged. The controller flushes them before it
    /// reports data as durable. If the volumes of an array differ, the caches of all of its drives
    /// are off. 'volume set' changes it later [default: that of the preset].
    #[arg(long, value_name = "SWITCH", value_parser = setting(DriveCache::ALL, DriveCache::name))]
    pub drive_cache: Option<DriveCache>,

    /// The sector sizes reported to hosts: 512n (512 bytes both), 512e (512 bytes on 4 KiB), 4Kn (4
    /// KiB both), or default: those of the drives. Choose 512e if larger drives may replace these
    /// later: they have physical sectors of 4 KiB, and hosts then align their writes. 'volume set'
    /// changes it later.
    #[arg(
        long = "sector",
        value_name = "FORMAT",
        value_parser = setting(SectorFormat::ALL, SectorFormat::name)
    )]
    pub sector_format: Option<SectorFormat>,

    /// The unit to which drive sizes are rounded down, so that a slightly smaller replacement fits:
    /// none, 128M, 1G, or default, which is 1G, and 1M for drives below 16G.
    #[arg(long, value_name = "SIZE", value_parser = setting(Coercion::ALL, Coercion::name))]
    pub coercion: Option<Coercion>,

    /// Overwrite data on the drives: file systems, partitions, other arrays.
    #[arg(long)]
    pub destroy_data: bool,

    /// Do not ask for confirmation. Questions arise if drives of different sizes waste space, or a
    /// power cut may lose flushed data.
    #[arg(long)]
    pub yes: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// See [`VolumeCreate::write_hole`].
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteHole {
    /// Write to a journal on the drives first.
    Journal,
    /// Resync after a crash.
    Resync,
}

impl From<WriteHole> for controller::WriteHole {
    fn from(how: WriteHole) -> controller::WriteHole {
        match how {
            WriteHole::Journal => controller::WriteHole::Journal,
            WriteHole::Resync => controller::WriteHole::Resync,
        }
    }
}

/// The values of a setting, by their names.
pub(super) fn setting<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: impl Fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let names: Vec<&'static str> = all.iter().map(|value| name(*value)).collect();
    let values: Vec<(&'static str, T)> = names.iter().copied().zip(all.iter().copied()).collect();
    PossibleValuesParser::new(names).try_map(move |text| {
        let found = values.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        found.ok_or_else(|| format!("'{text}' is not a valid value"))
    })
}
