//! Labels of log devices: writing and removal.
//!
//! # Fault model and invariants
//! - A new log device first loses all other metadata, at both ends. Killed there: the drive is
//!   unused.
//! - A change is durable in one copy of the label before the other is written (`ondisk::LogLabel`).
//! - A failed write may have landed, or may land late. Until it has returned, nothing is written to
//!   that drive (rule (d)); the next label has a different generation from the failed one.

use super::access::{Access, LabelSeen};
use super::structures::Written;
use super::{Drive, Inventory};
use crate::interface::{Error, ErrorKind, Result};
use ondisk::{BLOCK, LogLabel};
use platform::{IoError, IoErrorKind};
use std::rc::Rc;
use units::{ByteOffset, ByteRange};

impl Drive {
    /// Its label, if it is a log device.
    pub(crate) fn log_label(&self) -> Option<LogLabel> {
        match self.label() {
            LabelSeen::Log(label) => Some((*label).clone()),
            _ => None,
        }
    }
}

impl Inventory {
    /// Writes the label of a log device: durable on return, and the known state of the drive is
    /// updated.
    ///
    /// # Errors
    /// When earlier I/O is outstanding, or the write fails. The drive may then carry either label,
    /// and the next label needs a new generation.
    pub(crate) async fn write_log_label(&self, drive: &Rc<Drive>, label: LogLabel) -> Result<()> {
        let failed = |why: String| {
            let sentence = format!(
                "the log label of drive {} could not be written: {why}; replace it or its cable, \
                    or run 'softroc log remove {}'",
                drive.name, drive.name
            );
            Error::new(ErrorKind::Failed, sentence)
        };
        let unwritten = |error: IoError| match error.kind {
            IoErrorKind::Busy => {
                let sentence = format!(
                    "the log label of drive {} could not be written: {error}; try again",
                    drive.name
                );
                Error::new(ErrorKind::Busy, sentence)
            }
            _ => failed(error.to_string()),
        };
        let access = drive.access().ok_or_else(|| failed("it is missing".to_owned()))?;
        if !label.fits(access.info().size) {
            return Err(failed("it is too small".to_owned()));
        }
        let bytes = label.encode().map_err(|error| failed(error.to_string()))?;
        if !drive.is_quiesced(&self.env).await {
            return Err(drive.not_quiesced());
        }
        let is_same = |known: LogLabel| known.log == label.log && known.device == label.device;
        if !drive.log_label().is_some_and(is_same) {
            drive.set_structure(Written::Nothing);
            access.take_everything_off().await.map_err(unwritten)?;
            drive.set_label(LabelSeen::Blank);
            drive.set_problem(None);
        }
        drive.set_zeroed(false);
        for copy in LogLabel::copies() {
            access.write_all(copy.start, &bytes).await.map_err(unwritten)?;
        }
        drive.set_label(LabelSeen::Log(Rc::new(label)));
        drive.set_problem(None);
        Ok(())
    }

    /// Removes the label of a log device: the drive is then unused.
    ///
    /// # Errors
    /// When earlier I/O is outstanding, or the write fails; the label may remain.
    pub(crate) async fn erase_log_label(&self, drive: &Rc<Drive>) -> Result<()> {
        let failed = |why: String| {
            let sentence = format!(
                "the log label of drive {} could not be erased: {why}; write zeroes over its first \
                    MiB",
                drive.name
            );
            Error::new(ErrorKind::Failed, sentence)
        };
        let access = drive.access().ok_or_else(|| failed("it is missing".to_owned()))?;
        if !drive.is_quiesced(&self.env).await {
            return Err(drive.not_quiesced());
        }
        access.erase_log().await.map_err(|error| failed(error.to_string()))?;
        drive.set_label(LabelSeen::Blank);
        Ok(())
    }
}

impl Access {
    /// Removes the complete or partial label of a log device.
    ///
    /// # Errors
    /// When a write fails, or an earlier one is outstanding; a part may be left.
    pub(crate) async fn erase_log(&self) -> std::result::Result<(), IoError> {
        let heads = LogLabel::copies().map(|copy| ByteRange::new(copy.start, BLOCK));
        for head in heads.into_iter().filter(|head| head.end().0 <= self.info().size.0) {
            if self.writes_under_way() > 0 {
                return Err(IoError::new(IoErrorKind::TimedOut));
            }
            // An unreadable area may contain a label.
            if self.read(head).await.is_ok_and(|bytes| !LogLabel::is_begun(&bytes)) {
                continue;
            }
            self.write_all(head.start, &vec![0; BLOCK.as_usize()]).await?;
        }
        Ok(())
    }

    /// Removes all metadata, of SoftROC and of other systems: the structure, and both ends of the
    /// drive.
    async fn take_everything_off(&self) -> std::result::Result<(), IoError> {
        self.erase().await?;
        let (size, end) = (self.info().size, LogLabel::FRONT);
        self.write_all(
            ByteOffset(size.0.saturating_sub(end.0)),
            &vec![0; end.min(size).as_usize()],
        )
        .await?;
        self.write_all(ByteOffset::ZERO, &vec![0; end.min(size).as_usize()]).await
    }
}
