//! Target calls for requests: counted, refused on read-only ports, and split when they are long.

use super::connection::Session;
use crate::protocol::Protocol;
use platform::{BlockTarget, Durability, IoError, IoErrorKind, Slice};
use units::{ByteCount, ByteRange};

/// Why a request was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The target failed.
    Failed(IoError),
    /// The target is no longer served.
    NotServed,
    /// The port offers it for reading only.
    ReadOnly,
    /// The connection is being closed.
    Closing,
}

impl<P: Protocol, T: BlockTarget> Session<P, T> {
    /// Reads `range`; the request's memory has been reserved.
    ///
    /// # Errors
    /// Why it could not be read.
    pub async fn read(&self, range: ByteRange) -> Result<Slice, Refused> {
        if range.is_empty() {
            return Ok(Slice::zero(ByteCount::ZERO));
        }
        let buf = self.env().pool().take_reserved(range.len);
        let (result, buf) = self.target().read(range, buf).await;
        result.map_err(|error| self.refused(error))?;
        // A drive kept the buffer, and no replacement was available.
        let buf = buf.ok_or(Refused::Failed(IoError::new(IoErrorKind::TimedOut)))?;
        self.note_read(range);
        Ok(buf.freeze())
    }

    pub(super) fn note_read(&self, range: ByteRange) {
        self.count(|counters| counters.read_bytes += range.len.0);
        self.host.count_read(range.len.0);
    }

    pub(super) fn note_written(&self, range: ByteRange) {
        self.count(|counters| counters.written_bytes += range.len.0);
        self.host.count_write(range.len.0);
    }

    /// Writes `payload`, as long as `range`; an empty write has none.
    ///
    /// # Errors
    /// Why it could not be written.
    pub async fn write(
        &self,
        range: ByteRange,
        payload: Option<Slice>,
        durability: Durability,
    ) -> Result<(), Refused> {
        self.may_change()?;
        let payload = payload.unwrap_or_else(|| Slice::zero(ByteCount::ZERO));
        let result = self.target().write(range, payload, durability).await;
        result.map_err(|error| self.refused(error))?;
        self.note_written(range);
        Ok(())
    }

    /// Makes `range` read as zeros.
    ///
    /// # Errors
    /// Why the range does not read as zeros everywhere.
    pub async fn write_zeroes(
        &self,
        range: ByteRange,
        durability: Durability,
    ) -> Result<(), Refused> {
        self.may_change()?;
        for run in self.geometry().long_runs(range) {
            self.still_open()?;
            let result = self.target().write_zeroes(run, durability).await;
            result.map_err(|error| self.refused(error))?;
        }
        self.host.count_write(0);
        Ok(())
    }

    /// Discards the content of `range`.
    ///
    /// # Errors
    /// Why it could not be discarded.
    pub async fn trim(&self, range: ByteRange) -> Result<(), Refused> {
        self.may_change()?;
        for run in self.geometry().long_runs(range) {
            self.still_open()?;
            self.target().trim(run).await.map_err(|error| self.refused(error))?;
        }
        self.host.count_write(0);
        Ok(())
    }

    /// Makes acknowledged writes durable.
    ///
    /// # Errors
    /// Why they may not be durable.
    pub async fn flush(&self) -> Result<(), Refused> {
        self.target().flush().await.map_err(|error| self.refused(error))
    }

    fn may_change(&self) -> Result<(), Refused> {
        if self.limits.read_only { Err(Refused::ReadOnly) } else { Ok(()) }
    }

    fn still_open(&self) -> Result<(), Refused> {
        if self.is_cut() { Err(Refused::Closing) } else { Ok(()) }
    }
}
