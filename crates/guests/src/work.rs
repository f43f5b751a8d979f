//! Performs guests' requests: calls the target, in pieces if they are long, copies data, and counts
//! requests.

use platform::{
    BlockTarget, Buf, Connected, Durability, Env, IoError, IoErrorKind, IoOutcome, IoRequest,
    Receiver, Slice, TargetGeometry, longest_payload,
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

    /// A read of a piece, whose memory is reserved.
    pub fn read_request(&self, piece: ByteRange) -> IoRequest {
        let buf = self.env.pool().take_reserved(piece.len);
        IoRequest::Read { offset: piece.start, buffers: std::iter::once(buf).collect() }
    }

    /// The same for a write. `take` provides the data.
    pub fn write_request(
        &self,
        piece: ByteRange,
        durability: Durability,
        take: impl FnOnce(&mut [u8]) -> Outcome,
    ) -> Result<IoRequest, IoError> {
        let mut buf = self.env.pool().take_reserved(piece.len);
        take(buf.bytes_mut())?;
        let slices = std::iter::once(buf.freeze()).collect();
        Ok(IoRequest::Write { offset: piece.start, slices, durability })
    }

    /// Carries out such a request for the caller's task.
    pub async fn transfer(&self, request: IoRequest) -> IoOutcome {
        let (io, completion) = self.env.start_operation(None);
        match self.target.begin(request, Receiver::Completion(completion)) {
            None => io.await,
            Some((request, receiver)) => {
                io.abandon();
                drop(receiver);
                self.transfer_by_call(request).await
            }
        }
    }

    /// Carries out such a request, which the target does not begin without a task.
    pub async fn transfer_by_call(&self, request: IoRequest) -> IoOutcome {
        let range = request.range();
        let (result, buf) = match request {
            IoRequest::Read { buffers, .. } => match buffers.into_iter().next() {
                Some(buf) => self.target.read(range, buf).await,
                None => (Err(IoError::new(IoErrorKind::Invalid)), None),
            },
            IoRequest::Write { slices, durability, .. } => {
                let data = slices.into_iter().next().unwrap_or_else(|| Slice::zero(range.len));
                (self.target.write(range, data, durability).await, None)
            }
            _ => (Err(IoError::new(IoErrorKind::NotSupported)), None),
        };
        let outcome = IoOutcome { result: result.map(|()| range.len.0), ..IoOutcome::done(0) };
        outcome.with_buffers(buf.into_iter().collect())
    }

    pub fn may_change(&self) -> Outcome {
        if self.read_only { Err(IoError::new(IoErrorKind::ReadOnly)) } else { Ok(()) }
    }

    /// Reads `range`; memory for a piece is reserved. `give` copies the data of a piece, from its
    /// offset in the range.
    pub async fn read(&self, range: ByteRange, give: impl Fn(u64, &[u8]) -> Outcome) -> Outcome {
        for (at, piece) in self.pieces(range) {
            let outcome = self.transfer(self.read_request(piece)).await;
            give(at, buffer_of(outcome)?.bytes())?;
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
            let request = self.write_request(piece, durability, |to| take(at, to))?;
            self.transfer(request).await.result?;
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

/// The buffer of a read.
///
/// # Errors
/// That of the read. `TimedOut` if a drive still has the buffer, and the read returned no other.
pub(crate) fn buffer_of(outcome: IoOutcome) -> Result<Buf, IoError> {
    outcome.result?;
    outcome.buffers.into_iter().next().ok_or(IoError::new(IoErrorKind::TimedOut))
}
