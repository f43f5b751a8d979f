//! Labels of log devices on drives: written, and taken off.
//!
//! # Fault model and invariants
//! - A drive that is to be a log device first loses everything else that it could be known by, at both ends. Killed there: it
//!   is nobody's.
//! - A change is durable in one copy of the label before the other is written (`ondisk::LogLabel`).
//! - A write that failed may have landed, or land yet. Until it has returned nothing is written to that drive (rule (d)); and
//!   the next label has another generation than the one that failed.

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
    /// Makes a drive carry the label of a log device: durable when this returns, and what is known of the drive then.
    ///
    /// # Errors
    /// When it has not returned what it was asked before, or cannot be written. It may say either then, and the next label
    /// needs another generation.
    pub(crate) async fn write_log_label(&self, drive: &Rc<Drive>, label: LogLabel) -> Result<()> {
        let failed = |why: String| {
            let sentence = format!(
                "the log label of drive {} could not be written: {why}; replace it or its cable, or run 'softroc log remove {}'",
                drive.name, drive.name
            );
            Error::new(ErrorKind::Failed, sentence)
        };
        let unwritten = |error: IoError| match error.kind {
            IoErrorKind::Busy => {
                let sentence =
                    format!("the log label of drive {} could not be written: {error}; try again", drive.name);
                Error::new(ErrorKind::Busy, sentence)
            }
            _ => failed(error.to_string()),
        };
        let access = drive.access().ok_or_else(|| failed("it is not there".to_owned()))?;
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

    /// Takes the label of a log device off a drive: it is nobody's.
    ///
    /// # Errors
    /// When it has not returned what it was asked before, or cannot be written; it may carry the label still.
    pub(crate) async fn erase_log_label(&self, drive: &Rc<Drive>) -> Result<()> {
        let failed = |why: String| {
            let sentence = format!(
                "the log label of drive {} could not be erased: {why}; write zeroes over its first MiB",
                drive.name
            );
            Error::new(ErrorKind::Failed, sentence)
        };
        let access = drive.access().ok_or_else(|| failed("it is not there".to_owned()))?;
        if !drive.is_quiesced(&self.env).await {
            return Err(drive.not_quiesced());
        }
        access.erase_log().await.map_err(|error| failed(error.to_string()))?;
        drive.set_label(LabelSeen::Blank);
        Ok(())
    }
}

impl Access {
    /// Takes off the label of a log device, if there is one, or what is left of one.
    ///
    /// # Errors
    /// When a write fails, or one from before is still under way; some of it may be left.
    pub(crate) async fn erase_log(&self) -> std::result::Result<(), IoError> {
        let heads = LogLabel::copies().map(|copy| ByteRange::new(copy.start, BLOCK));
        for head in heads.into_iter().filter(|head| head.end().0 <= self.info().size.0) {
            if self.writes_under_way() > 0 {
                return Err(IoError::new(IoErrorKind::TimedOut));
            }
            // What cannot be read may be one.
            if self.read(head).await.is_ok_and(|bytes| !LogLabel::is_begun(&bytes)) {
                continue;
            }
            self.write_all(head.start, &vec![0; BLOCK.as_usize()]).await?;
        }
        Ok(())
    }

    /// Takes off everything by which a drive can be known, by whomever: a structure of ours, and both ends, where others
    /// have theirs.
    async fn take_everything_off(&self) -> std::result::Result<(), IoError> {
        self.erase().await?;
        let (size, end) = (self.info().size, LogLabel::FRONT);
        self.write_all(ByteOffset(size.0.saturating_sub(end.0)), &vec![0; end.min(size).as_usize()]).await?;
        self.write_all(ByteOffset::ZERO, &vec![0; end.min(size).as_usize()]).await
    }
}
