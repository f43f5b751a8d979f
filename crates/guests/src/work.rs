//! Performs guests' requests: calls the target, in pieces if they are long, copies data, and counts
//! requests.

use platform::{
    BlockTarget, Connected, Durability, Env, IoError, IoErrorKind, TargetGeometry, longest_payload,
};
use std::rc::Rc;
use units::{ByteCount, ByteRange};

/// The target, the host, and the access rights.
pub(crate) struct Work<T> {
    pub env: Env,
    pub target: Rc<T>,
    pub geometry: TargetGeometry,
    pub host: Connected,
    pub read_only: bool,
}

/// An operation on a range without data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RangeOperation {
    Discard,
    Zeroes,
}

type Outcome = Result<(), IoError>;

impl<T: BlockTarget> Work<T> {
    /// The maximum length of a piece.
    pub fn piece(&self) -> ByteCount {
        longest_payload(self.env.pool())
    }

    fn pieces(&self, range: ByteRange) -> impl Iterator<Item = (u64, ByteRange)> + use<T> {
        let (step, mut done) = (self.piece(), ByteCount::ZERO);
        std::iter::from_fn(move || {
            let piece = ByteRange::new(range.start + done, (range.len - done).min(step));
            let at = done.0;
            done += piece.len;
            (!piece.is_empty()).then_some((at, piece))
        })
    }

    fn may_change(&self) -> Outcome {
        if self.read_only { Err(IoError::new(IoErrorKind::ReadOnly)) } else { Ok(()) }
    }

    /// Reads `range`; memory for a piece is reserved. `give` copies the data of a piece, from its
    /// offset in the range.
    pub async fn read(&self, range: ByteRange, give: impl Fn(u64, &[u8]) -> Outcome) -> Outcome {
        for (at, piece) in self.pieces(range) {
            let buf = self.env.pool().take_reserved(piece.len);
            let (result, buf) = self.target.read(piece, buf).await;
            result?;
            // A drive still holds the buffer, and the read returned no other.
            let buf = buf.ok_or(IoError::new(IoErrorKind::TimedOut))?;
            give(at, buf.bytes())?;
        }
        self.host.count_read(range.len.0);
        Ok(())
    }

    /// Writes `range`; memory for a piece is reserved. `take` provides the data.
    pub async fn write(
        &self,
        range: ByteRange,
        durability: Durability,
        take: impl Fn(u64, &mut [u8]) -> Outcome,
    ) -> Outcome {
        self.may_change()?;
        for (at, piece) in self.pieces(range) {
            let mut buf = self.env.pool().take_reserved(piece.len);
            take(at, buf.bytes_mut())?;
            self.target.write(piece, buf.freeze(), durability).await?;
        }
        self.host.count_write(range.len.0);
        Ok(())
    }

    /// Discards or zeroes ranges.
    pub async fn change(
        &self,
        ranges: &[ByteRange],
        change: RangeOperation,
        durability: Durability,
    ) -> Outcome {
        self.may_change()?;
        for run in ranges.iter().flat_map(|range| self.geometry.long_runs(*range)) {
            match change {
                RangeOperation::Discard => self.target.trim(run).await?,
                RangeOperation::Zeroes => self.target.write_zeroes(run, durability).await?,
            }
        }
        self.host.count_write(0);
        Ok(())
    }
}
