//! Levels: DDF's codes for them, and shapes of `layout`.
//!
//! The *primary level* and *qualifier* of a span define how its drives are used; the *secondary
//! level* defines how spans are joined. A known level that no shape can express is reported by
//! name, never decoded as a similar one.

use super::names::Guid;
use super::records::VolumePart;
use crate::{Error, ErrorKind, Result};
use layout::{Level, MirrorArrangement, ParityArrangement, Shape};
use units::{DriveCount, MAX_DRIVES};

/// Consecutive stripes of the volume alternate between the spans.
const STRIPED: u8 = 0;
/// Every span holds the whole volume.
const MIRRORED: u8 = 1;
/// The spans follow one another.
const CONCATENATED: u8 = 2;
/// Striped over spans that may have different sizes. With equal sizes it is the same as striped.
const SPANNED: u8 = 3;
/// Linux md writes this where there is only one span.
const NO_SECONDARY: u8 = 0xFF;

/// Primary levels.
mod primary {
    pub(super) const RAID0: u8 = 0x00;
    pub(super) const RAID1: u8 = 0x01;
    pub(super) const RAID3: u8 = 0x03;
    pub(super) const RAID4: u8 = 0x04;
    pub(super) const RAID5: u8 = 0x05;
    pub(super) const RAID6: u8 = 0x06;
    pub(super) const MDF: u8 = 0x07;
    pub(super) const JBOD: u8 = 0x0F;
    pub(super) const RAID1E: u8 = 0x11;
    pub(super) const RAID5E: u8 = 0x15;
    pub(super) const CONCATENATION: u8 = 0x1F;
    pub(super) const RAID5EE: u8 = 0x25;
    pub(super) const RAID5R: u8 = 0x35;
}

/// The codes of a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LevelCode {
    /// The primary level.
    pub primary_level: u8,
    /// Its qualifier.
    pub qualifier: u8,
    /// The number of spans.
    pub spans: u8,
    /// The number of drives in each span.
    pub drives_per_span: u16,
    /// The join of the spans.
    pub secondary_level: u8,
}

/// The layout that the parts of a volume form together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DecodedLevel {
    /// Its common name, such as `raid5`.
    pub(super) level: &'static str,
    /// The layout within the level, such as `left-symmetric`; empty where the level has only one.
    pub(super) layout: &'static str,
    pub(super) what: VolumeLayout,
    /// Whether addresses depend on the strip.
    pub(super) has_strip: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slots {
    /// The drives of span 0, then those of span 1, …
    SpanBySpan,
    /// The first drives of all spans, then the second ones, …
    Interleaved,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum VolumeLayout {
    Shape(Shape, Slots),
    /// Single drives, concatenated.
    Linear,
    /// Spans of that shape, concatenated.
    Concatenated(Shape),
    /// Unsupported, with the reason as a sentence.
    Other(String),
}

/// A span's level, with names.
struct Span {
    level: Level,
    name: &'static str,
    parity: Option<ParityArrangement>,
    mirrors: Option<MirrorArrangement>,
}

type Named<T> = std::result::Result<T, (&'static str, String)>;

fn span_of(part: &VolumePart) -> Named<Span> {
    let (qualifier, width) = (part.qualifier, part.elements.len());
    let unknown = |name: &'static str| {
        (name, format!("{name} with qualifier {qualifier} is not in the standard"))
    };
    let span = |level: Level| Span { level, name: level.name(), parity: None, mirrors: None };
    match part.primary_level {
        primary::RAID0 if width == 1 => Ok(span(Level::Jbod)),
        primary::RAID0 => Ok(span(Level::Raid0)),
        primary::RAID1 if matches!(width, 2 | 3) => Ok(span(Level::Raid1)),
        primary::RAID1 => Err((
            "raid1",
            format!("RAID 1 on {width} drives is not in the standard, which has 2 or 3"),
        )),
        primary::RAID3 => Err(("raid3", "RAID 3, which splits sectors, cannot be served".into())),
        primary::MDF => {
            let parity = part.parity_disks;
            Err((
                "mdf",
                format!("multi-dimensional parity with {parity} parity drives cannot be served"),
            ))
        }
        primary::JBOD if width == 1 => Ok(span(Level::Jbod)),
        primary::RAID1E => {
            let mirrors = match qualifier {
                0 => MirrorArrangement::Near,
                // Linux md writes this code for its far copies, and reads it in the same way.
                1 if Guid(part.volume.0).vendor() == Some("Linux-MD") => MirrorArrangement::Far,
                1 => MirrorArrangement::Offset,
                _ => return Err(unknown("raid1e")),
            };
            Ok(Span { mirrors: Some(mirrors), ..span(Level::Raid1e) })
        }
        primary::RAID4 | primary::RAID5 | primary::RAID6 | primary::RAID5E | primary::RAID5EE => {
            parity_span(part)
        }
        primary::RAID5R => match part.rotate_shift {
            0 => parity_span(part).map(|span| Span { name: "raid5r", ..span }),
            shift => {
                let stripes = 1_u64 << if shift > 31 { 1 } else { shift };
                Err((
                    "raid5r",
                    format!(
                        "RAID 5R, whose parity moves every {stripes} stripes, cannot be served"
                    ),
                ))
            }
        },
        other => Err((
            "unknown",
            format!("primary level {other:#04x} on {width} drives is not supported"),
        )),
    }
}

fn parity_span(part: &VolumePart) -> Named<Span> {
    use ParityArrangement::*;
    let rotating = |level: Level, name: &'static str| {
        let parity = match part.qualifier {
            0 => Some(RightAsymmetric),
            1 => Some(RightSymmetric),
            2 => Some(LeftAsymmetric),
            3 => Some(LeftSymmetric),
            _ => None,
        };
        (level, name, parity)
    };
    let (level, name, parity) = match part.primary_level {
        primary::RAID4 => {
            let parity = match part.qualifier {
                0 => Some(ParityFirst),
                1 => Some(ParityLast),
                _ => None,
            };
            (Level::Raid4, "raid4", parity)
        }
        primary::RAID6 => {
            let parity = match part.qualifier {
                1 => Some(DdfZeroRestart),
                2 => Some(DdfNRestart),
                3 => Some(DdfNContinue),
                _ => None,
            };
            (Level::Raid6, "raid6", parity)
        }
        // RAID 5 with free space at the end of every drive: the volume is smaller than its drives
        // allow.
        primary::RAID5E => rotating(Level::Raid5, "raid5e"),
        primary::RAID5EE => rotating(Level::Raid5ee, "raid5ee"),
        _ => rotating(Level::Raid5, "raid5"),
    };
    match parity {
        Some(_) => Ok(Span { level, name, parity, mirrors: None }),
        None => {
            Err((name, format!("{name} with qualifier {} is not in the standard", part.qualifier)))
        }
    }
}

/// The number of spans of a shape; 1 for levels without spans.
fn spans_of(shape: &Shape) -> Result<u16> {
    match (shape.level, shape.spans) {
        (_, Some(spans)) => Ok(spans),
        (Level::Raid00 | Level::Raid10 | Level::Raid50 | Level::Raid60, None) => Err(Error::new(
            ErrorKind::Contradiction,
            format!("{} needs a number of spans", shape.level),
        )),
        (_, None) => Ok(1),
    }
}

/// The layout of a volume, by one of its parts.
pub(super) fn read(part: &VolumePart) -> DecodedLevel {
    let spans = u16::from(part.spans.max(1));
    let width = part.elements.len();
    let other = |level, why: String| DecodedLevel {
        level,
        layout: "",
        what: VolumeLayout::Other(why),
        has_strip: true,
    };
    let drives = width.saturating_mul(usize::from(spans));
    if drives == 0 || drives > MAX_DRIVES {
        return other(
            "unknown",
            format!("it has {drives} drives; 1 to {MAX_DRIVES} can be served"),
        );
    }
    let drives = DriveCount(drives as u16);
    if part.primary_level == primary::CONCATENATION && spans == 1 {
        return DecodedLevel {
            level: "concatenation",
            layout: "",
            what: VolumeLayout::Linear,
            has_strip: false,
        };
    }
    let span = match span_of(part) {
        Ok(span) => span,
        Err((level, why)) => return other(level, why),
    };
    let alone = Shape {
        parity: span.parity,
        mirrors: span.mirrors,
        ..Shape::new(span.level, DriveCount(width as u16))
    };
    let striped = |level: Level| {
        let shape = Shape { spans: Some(spans), parity: span.parity, ..Shape::new(level, drives) };
        (level.name(), VolumeLayout::Shape(shape, Slots::SpanBySpan))
    };
    let (level, what) = match (spans, part.secondary_level, span.level) {
        (1, ..) => (span.name, VolumeLayout::Shape(alone, Slots::SpanBySpan)),
        (_, STRIPED | SPANNED, Level::Raid1) => striped(Level::Raid10),
        (_, STRIPED | SPANNED, Level::Raid0) => striped(Level::Raid00),
        (_, STRIPED | SPANNED, Level::Raid4) => striped(Level::Raid50),
        (_, STRIPED | SPANNED, Level::Raid5) if span.name == "raid5" => striped(Level::Raid50),
        (_, STRIPED | SPANNED, Level::Raid6) => striped(Level::Raid60),
        (_, STRIPED | SPANNED, Level::Jbod) => {
            ("raid0", VolumeLayout::Shape(Shape::new(Level::Raid0, drives), Slots::SpanBySpan))
        }
        (_, MIRRORED, Level::Jbod | Level::Raid1) => {
            ("raid1", VolumeLayout::Shape(Shape::new(Level::Raid1, drives), Slots::SpanBySpan))
        }
        // Mirrored stripes have the addresses of striped mirrors.
        (_, MIRRORED, Level::Raid0) if matches!(spans, 2 | 3) => {
            let shape = Shape { spans: Some(width as u16), ..Shape::new(Level::Raid10, drives) };
            ("raid01", VolumeLayout::Shape(shape, Slots::Interleaved))
        }
        (_, CONCATENATED, Level::Jbod) => ("concatenation", VolumeLayout::Linear),
        (_, CONCATENATED, _) => (span.name, VolumeLayout::Concatenated(alone)),
        (_, secondary, _) => {
            let how = match secondary {
                STRIPED | SPANNED => "striped".to_owned(),
                MIRRORED => "mirrored".to_owned(),
                other => format!("joined by secondary level {other:#04x}"),
            };
            return other(
                span.name,
                format!("spans of {} that are {how} cannot be served", span.name),
            );
        }
    };
    if let VolumeLayout::Shape(shape, _) | VolumeLayout::Concatenated(shape) = &what
        && let Err(error) = shape.check()
    {
        return other(level, error.context);
    }
    let layout = match (span.parity, span.mirrors) {
        (Some(parity), _) => parity.name(),
        (_, Some(mirrors)) => mirrors.name(),
        _ => "",
    };
    let has_strip = !matches!(&what, VolumeLayout::Linear)
        && !matches!(&what, VolumeLayout::Shape(shape, _) | VolumeLayout::Concatenated(shape)
            if matches!(shape.level, Level::Jbod | Level::Raid1));
    DecodedLevel { level, layout, what, has_strip }
}

impl LevelCode {
    /// The codes of a shape. Spans are *striped*; a mirror of more than three drives, which the
    /// primary levels do not have, is written as single drives that are *mirrored*.
    ///
    /// RAID 5 with parity on one drive is written as RAID 4.
    ///
    /// # Errors
    /// [`ErrorKind::Contradiction`] where the shape is invalid, and where DDF has no code for it:
    /// Linux md's own layouts of RAID 6, RAID 1E with far copies or more than two.
    pub fn of(shape: &Shape) -> Result<LevelCode> {
        let error = |context: String| Error::new(ErrorKind::Contradiction, context);
        shape.check().map_err(|e| error(e.context))?;
        let spans = spans_of(shape)?;
        let (drives, width) = (shape.drives.0, shape.drives.0 / spans.max(1));
        let code = |primary_level, qualifier| LevelCode {
            primary_level,
            qualifier,
            spans: spans as u8,
            drives_per_span: width,
            secondary_level: if spans > 1 { STRIPED } else { NO_SECONDARY },
        };
        let row = shape.level.row();
        let parity = shape.parity.or(row.parity_arrangements.first().copied());
        let mirrors = shape.mirrors.or(row.mirror_arrangements.first().copied());
        let two_copies = shape.copies.unwrap_or(2) == 2;
        use ParityArrangement::*;
        Ok(match (shape.level, parity, mirrors) {
            (Level::Jbod, ..) => code(primary::JBOD, 0),
            (Level::Raid0 | Level::Raid00, ..) => code(primary::RAID0, 0),
            (Level::Raid1 | Level::Raid10, ..) if width <= 3 => {
                code(primary::RAID1, u8::from(width == 3))
            }
            (Level::Raid1, ..) => LevelCode {
                spans: drives as u8,
                drives_per_span: 1,
                secondary_level: MIRRORED,
                ..code(primary::JBOD, 0)
            },
            (Level::Raid1e, _, Some(MirrorArrangement::Near)) if two_copies => {
                code(primary::RAID1E, 0)
            }
            (Level::Raid1e, _, Some(MirrorArrangement::Offset)) if two_copies => {
                code(primary::RAID1E, 1)
            }
            (Level::Raid4 | Level::Raid5 | Level::Raid50, Some(ParityFirst), _) => {
                code(primary::RAID4, 0)
            }
            (Level::Raid4 | Level::Raid5 | Level::Raid50, Some(ParityLast), _) => {
                code(primary::RAID4, 1)
            }
            (Level::Raid5 | Level::Raid50, Some(RightAsymmetric), _) => code(primary::RAID5, 0),
            (Level::Raid5 | Level::Raid50, Some(RightSymmetric), _) => code(primary::RAID5, 1),
            (Level::Raid5 | Level::Raid50, Some(LeftAsymmetric), _) => code(primary::RAID5, 2),
            (Level::Raid5 | Level::Raid50, Some(LeftSymmetric), _) => code(primary::RAID5, 3),
            (Level::Raid5ee, Some(RightAsymmetric), _) => code(primary::RAID5EE, 0),
            (Level::Raid5ee, Some(LeftAsymmetric), _) => code(primary::RAID5EE, 2),
            (Level::Raid5ee, Some(LeftSymmetric), _) => code(primary::RAID5EE, 3),
            (Level::Raid6 | Level::Raid60, Some(DdfZeroRestart), _) => code(primary::RAID6, 1),
            (Level::Raid6 | Level::Raid60, Some(DdfNRestart), _) => code(primary::RAID6, 2),
            (Level::Raid6 | Level::Raid60, Some(DdfNContinue), _) => code(primary::RAID6, 3),
            (level, parity, mirrors) => {
                let arrangement =
                    parity.map(ParityArrangement::name).or(mirrors.map(MirrorArrangement::name));
                return Err(error(format!(
                    "{} {} on {drives} drives has no code in DDF; choose another layout",
                    level.title(),
                    arrangement.unwrap_or_default()
                )));
            }
        })
    }
}
