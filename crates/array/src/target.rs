//! `array:LEVEL,drives=8xmem:256M,strip=64K`: a temporary array for one benchmark, inside this
//! process.

use crate::assemble::{WriteHole, attach, attachment};
use engine::VolumeDrive;
use layout::{Level, MirrorArrangement, ParityArrangement, Shape};
use ondisk::MAX_LOG_DEVICES;
use platform::{DriveSource, Env, Error, ErrorKind, Result};
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, DriveCount, DriveIndex, DriveSet, StripSize};

/// A parsed `array:` target.
#[derive(Debug, PartialEq)]
pub struct ArrayTarget {
    level: Level,
    drives: Vec<String>,
    strip: StripSize,
    spans: Option<u16>,
    copies: Option<u16>,
    rotation: Option<ParityArrangement>,
    mirrors: Option<MirrorArrangement>,
    failed: DriveSet,
    /// Whether a journal closes the write hole.
    journal: bool,
    /// The log devices; empty: the journal is on the members.
    log: Vec<String>,
}

const FORM: &str = "expected array:LEVEL,drives=8xmem:256M[,strip=64K][,spans=2][,copies=2][,rotation=R][,mirrors=M][,failed=2+5][,write-hole=journal][,log=DEVICE][,preset=fast-path]";

/// The error for an invalid target.
fn refused(sentence: impl Display) -> Error {
    Error::new(ErrorKind::BadName, sentence.to_string())
}

impl ArrayTarget {
    /// Parses the text after `array:`.
    ///
    /// # Errors
    /// [`ErrorKind::BadName`], with the error and the expected format.
    pub fn parse(text: &str) -> Result<ArrayTarget> {
        let mut fields = text.split(',');
        let level = fields.next().unwrap_or_default().parse::<Level>().map_err(refused)?;
        let mut target = ArrayTarget {
            level,
            drives: Vec::new(),
            strip: StripSize::KIB_64,
            spans: None,
            copies: None,
            rotation: None,
            mirrors: None,
            failed: DriveSet::EMPTY,
            journal: false,
            log: Vec::new(),
        };
        for field in fields {
            let (key, value) = field.split_once('=').ok_or_else(|| {
                refused(format!("'{field}' in array:{text} has no value; {FORM}"))
            })?;
            match key {
                "drives" => target.drives.extend(parse_drives(value)?),
                "strip" => target.strip = value.parse().map_err(refused)?,
                "spans" => target.spans = Some(parse_count(key, value)?),
                "copies" => target.copies = Some(parse_count(key, value)?),
                "rotation" => target.rotation = Some(value.parse().map_err(refused)?),
                "mirrors" => target.mirrors = Some(value.parse().map_err(refused)?),
                "failed" => target.failed = parse_failed(value)?,
                "write-hole" => target.journal = parse_write_hole(level, value)?,
                "log" => {
                    target.log.extend(parse_drives(value)?);
                    target.journal = parse_write_hole(level, "journal")?;
                }
                // The only preset so far: write-through, direct, no read-ahead.
                "preset" if value == "fast-path" => {}
                "preset" => {
                    return Err(refused(format!("unknown preset '{value}'; expected fast-path")));
                }
                _ => {
                    return Err(refused(format!("unknown option '{key}' in array:{text}; {FORM}")));
                }
            }
        }
        target.check_devices(text)?;
        target.check()?;
        Ok(target)
    }

    /// Checks the drives, the failed ones, and the log devices of a target with this `text`.
    fn check_devices(&self, text: &str) -> Result<()> {
        if self.drives.is_empty() {
            return Err(refused(format!("array:{text} names no drives; {FORM}")));
        }
        if let Some(drive) = self.failed.iter().find(|drive| drive.as_usize() >= self.drives.len())
        {
            return Err(refused(format!(
                "there is no drive {drive} to fail in array:{text}; its drives are 0 to {}",
                self.drives.len() - 1
            )));
        }
        if self.log.len() > MAX_LOG_DEVICES || !self.log.is_empty() && !self.journal {
            return Err(refused(format!(
                "array:{text} has {} log devices; a journal is on one or two: use 'log=DEVICE', \
                    without 'write-hole'",
                self.log.len()
            )));
        }
        Ok(())
    }

    fn shape(&self) -> Result<Shape> {
        let drives = DriveCount(u16::try_from(self.drives.len()).map_err(refused)?);
        let (level, spans, copies) = (self.level, self.spans, self.copies);
        Ok(Shape { level, drives, spans, copies, parity: self.rotation, mirrors: self.mirrors })
    }

    /// Checks the shape, and that the array survives the failed drives.
    fn check(&self) -> Result<()> {
        let one_row_or_more = ByteCount(1 << 30);
        let geometry = self.shape()?.geometry(self.strip, one_row_or_more).map_err(refused)?;
        if geometry.survives_set(&self.failed) {
            return Ok(());
        }
        let slots: Vec<String> = self.failed.iter().map(|drive| drive.to_string()).collect();
        Err(refused(format!(
            "{} does not survive the loss of drives {}; fail others, or fewer",
            geometry,
            slots.join(" and ")
        )))
    }

    /// Assembles the array on this thread's shard: the engine alone, without persistent state.
    ///
    /// # Errors
    /// When a drive cannot be opened, or the drives are too small.
    pub async fn make(&self, env: &Env) -> Result<Rc<VolumeDrive>> {
        let sources = opened(env, &self.drives).await?;
        let write_hole = match (self.journal, self.log.is_empty()) {
            (false, _) => WriteHole::Resync,
            (true, true) => WriteHole::OnMembers,
            (true, false) => WriteHole::OnDevices(opened(env, &self.log).await?),
        };
        let attachment =
            attachment(env, &self.shape()?, self.strip, sources, &self.failed, write_hole)?;
        Ok(Rc::new(attach(env, attachment, Default::default(), None).await?.as_drive()))
    }
}

async fn opened(env: &Env, specs: &[String]) -> Result<Vec<Arc<dyn DriveSource>>> {
    let mut sources = Vec::new();
    for spec in specs {
        sources.push(drives::open(env, spec).await?);
    }
    Ok(sources)
}

/// Parses `8xmem:256M`, or several joined by `+`.
fn parse_drives(text: &str) -> Result<Vec<String>> {
    let mut drives = Vec::new();
    for part in text.split('+') {
        let (count, spec) = match part.split_once('x') {
            Some((count, spec))
                if !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                (count.parse::<usize>().map_err(refused)?, spec)
            }
            _ => (1, part),
        };
        if count == 0 || count > units::MAX_DRIVES || spec.is_empty() {
            return Err(refused(format!("'{part}' names no drives; expected such as 8xmem:256M")));
        }
        drives.extend(std::iter::repeat_n(spec.to_owned(), count));
    }
    Ok(drives)
}

fn parse_count(key: &str, value: &str) -> Result<u16> {
    value
        .parse()
        .map_err(|_| refused(format!("{key}={value} is not a number; expected such as {key}=2")))
}

fn parse_write_hole(level: Level, value: &str) -> Result<bool> {
    match value {
        "resync" => Ok(false),
        "journal" if level.has_parity() => Ok(true),
        "journal" => Err(refused(format!("{level} has no parity, and needs no journal"))),
        _ => Err(refused(format!("unknown value write-hole={value}; expected journal or resync"))),
    }
}

fn parse_failed(text: &str) -> Result<DriveSet> {
    text.split('+')
        .map(|slot| {
            slot.parse::<u16>()
                .ok()
                .filter(|slot| usize::from(*slot) < units::MAX_DRIVES)
                .map(DriveIndex)
        })
        .collect::<Option<DriveSet>>()
        .ok_or_else(|| {
            refused(format!("'{text}' names no slots; expected such as failed=2 or failed=2+5"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_from_their_text() {
        let target =
            ArrayTarget::parse("raid5,drives=3xmem:64M,strip=16K,failed=1,preset=fast-path")
                .unwrap();
        assert_eq!(target.drives, ["mem:64M"; 3]);
        assert_eq!(target.strip.bytes(), ByteCount(16384));
        assert_eq!(target.failed.iter().next(), Some(DriveIndex(1)));
        let target = ArrayTarget::parse("raid0,drives=/dev/x1+2xnull:1G").unwrap();
        assert_eq!(target.drives, ["/dev/x1", "null:1G", "null:1G"]);
    }

    #[test]
    fn what_a_level_leaves_open_can_be_chosen() {
        let shape = |text: &str| ArrayTarget::parse(text).unwrap().shape().unwrap();
        let raid60 =
            shape("raid60,drives=12xmem:1G,spans=3,rotation=ddf-zero-restart,failed=0+1+4+5+8+9");
        assert_eq!(
            (raid60.spans, raid60.parity),
            (Some(3), Some(ParityArrangement::DdfZeroRestart))
        );
        let raid1e = shape("raid1e,drives=5xmem:1G,copies=3,mirrors=offset,failed=1+2");
        assert_eq!((raid1e.copies, raid1e.mirrors), (Some(3), Some(MirrorArrangement::Offset)));
        assert_eq!(shape("raid10,drives=6xmem:1G"), Shape::new(Level::Raid10, DriveCount(6)));
    }

    #[test]
    fn what_is_wrong_with_an_array_is_named() {
        for (text, named) in [
            ("raid7,drives=3xmem:1M", "raid7"),
            ("raid5", "drives"),
            ("raid5,drives=0xmem:1M", "0xmem"),
            ("raid5,drives=3xmem:1M,strip=48K", "48 KiB"),
            ("raid5,drives=3xmem:1M,cache=on", "cache"),
            ("raid5,drives=3xmem:1M,preset=turbo", "turbo"),
            ("raid5,drives=3xmem:1M,failed=3", "drive 3"),
            ("raid5,drives=3xmem:1M,failed=a", "'a'"),
            ("raid5,drives=3xmem:1M,failed=0+1", "0 and 1"),
            ("raid10,drives=4xmem:1M,failed=2+3", "2 and 3"),
            ("raid50,drives=8xmem:1M,spans=3", "3 spans"),
            ("raid50,drives=8xmem:1M,spans=two", "spans=two"),
            ("raid5,drives=3xmem:1M,copies=2", "copies"),
            ("raid1,drives=2xmem:1M,write-hole=journal", "no parity"),
            ("raid5,drives=3xmem:1M,write-hole=none", "write-hole=none"),
            ("raid1e,drives=5xmem:1M,copies=6", "6 copies"),
            ("raid1e,drives=5xmem:1M,mirrors=left-symmetric", "left-symmetric"),
            ("raid5,drives=3xmem:1M,mirrors=far", "far"),
            ("raid0,drives=3xmem:1M,rotation=left-symmetric", "left-symmetric"),
        ] {
            let failure = ArrayTarget::parse(text).expect_err(text);
            assert!(failure.to_string().contains(named), "{text}: {failure}");
        }
    }
}
