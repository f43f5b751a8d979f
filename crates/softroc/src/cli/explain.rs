//! `softroc explain`.

use super::Output;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use layout::{Level, MirrorArrangement, ParityArrangement};
use units::StripSize;

/// See [`Command::Explain`](super::Command::Explain).
#[derive(Args, Debug)]
pub struct Explain {
    /// A volume of the running controller, in its current state.
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["level", "drives", "spans", "strip", "layout", "copies"],
    )]
    pub volume: Option<String>,

    /// The RAID level.
    #[arg(long, value_name = "LEVEL", value_parser = levels(), required_unless_present = "volume")]
    pub level: Option<Level>,

    /// The number of drives.
    #[arg(long, value_name = "N", required_unless_present = "volume")]
    pub drives: Option<u16>,

    /// The strip size.
    #[arg(long, value_name = "SIZE", default_value = "64K", visible_alias = "stripe-size")]
    pub strip: StripSize,

    /// The number of spans (RAID 00, 10, 50, 60) [default: pairs for RAID 10, otherwise the
    /// fewest].
    #[arg(long, value_name = "N")]
    pub spans: Option<u16>,

    /// The layout of parity or copies on the drives, such as left-symmetric or near [default: that
    /// of the level].
    #[arg(
        long,
        value_name = "LAYOUT",
        visible_alias = "arrangement",
        aliases = ["rotation", "mirrors"],
        value_parser = parse_layout,
    )]
    pub layout: Option<LayoutName>,

    /// The number of copies of each strip (RAID 1E) [default: 2].
    #[arg(long, value_name = "N")]
    pub copies: Option<u16>,

    /// The slots of failed drives, such as 2 or 2,5.
    #[arg(long, value_name = "SLOTS", value_delimiter = ',')]
    pub failed: Vec<u16>,

    /// The operation.
    pub operation: Operation,

    /// The range as SIZE@OFFSET, such as 8K@1M; not with cache.
    #[arg(value_name = "SIZE@OFFSET", required_unless_present_any = ["volume"])]
    pub range: Option<String>,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// The operation to explain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Operation {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Write zeroes.
    WriteZeroes,
    /// Recompute redundancy from data, in every stripe of the range.
    Resync,
    /// Compare redundancy with data, in every stripe of the range.
    Verify,
    /// No request: show the cached data of the volume (--volume NAME), and the next destage.
    Cache,
}

/// Parses a level; an error lists all levels.
pub(crate) fn levels() -> impl TypedValueParser<Value = Level> {
    let levels = Level::ALL.map(|level| PossibleValue::new(level.name()).help(level.row().summary));
    PossibleValuesParser::new(levels).try_map(|name| name.parse::<Level>())
}

/// A layout by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayoutName {
    /// The layout of parity.
    Parity(ParityArrangement),
    /// The layout of copies.
    Mirrors(MirrorArrangement),
}

/// Reads a layout such as `left-symmetric` or `near`.
fn parse_layout(text: &str) -> Result<LayoutName, String> {
    let (parity, mirrors) =
        (text.parse().map(LayoutName::Parity), text.parse().map(LayoutName::Mirrors));
    let names = || {
        let parity = ParityArrangement::ALL.map(ParityArrangement::name);
        [&parity[..], &MirrorArrangement::ALL.map(MirrorArrangement::name)].concat().join(", ")
    };
    parity.or(mirrors).map_err(|_| format!("'{text}' is not a layout; expected one of {}", names()))
}
