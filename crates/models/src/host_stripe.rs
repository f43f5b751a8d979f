//! The volumes of several controllers as one, striped by the host as its operating system's RAID 0
//! does. Striping takes no time here: host CPU time per I/O is charged at each controller's port.

use platform::{
    Buf, Bufs, Drive, DriveIdentity, DriveInfo, Env, Io, IoError, IoErrorKind, IoOutcome,
    IoRequest, Member, Served, Service, Slices,
};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

/// The strip of the host. Longer than most requests, so that few are split.
const PIECE: ByteCount = ByteCount(1 << 20);

/// The maximum number of outstanding requests per volume.
const MOST_REQUESTS: usize = 1024;

/// See the [module](self).
struct HostStripe {
    parts: Vec<Member>,
    info: DriveInfo,
}

/// A part of a range on one volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    part: usize,
    range: ByteRange,
}

/// Splits a range over this number of volumes.
fn pieces(range: ByteRange, parts: usize) -> impl Iterator<Item = Piece> {
    let (mut at, end, parts) = (range.start.0, range.end().0, parts.max(1) as u64);
    std::iter::from_fn(move || {
        let (number, within) = (at / PIECE.0, at % PIECE.0);
        let len = (PIECE.0 - within).min(end - at);
        at += len;
        let start = ByteOffset(number / parts * PIECE.0 + within);
        let part = (number % parts) as usize;
        (len > 0).then_some(Piece { part, range: ByteRange::new(start, ByteCount(len)) })
    })
}

/// One drive from the volumes of several controllers, limited by the shortest. A single volume is
/// returned unchanged.
pub fn striped(env: &Env, volumes: Vec<Rc<dyn Drive>>) -> Option<Rc<dyn Drive>> {
    let first = volumes.first()?;
    if volumes.len() == 1 {
        return Some(first.clone());
    }
    let each = volumes.iter().map(|volume| volume.info().size.0 / PIECE.0).min().unwrap_or(0);
    let info = DriveInfo {
        name: "volumes of the host".to_owned(),
        identity: DriveIdentity("host".to_owned()),
        size: ByteCount(each * PIECE.0 * volumes.len() as u64),
        ..first.info().clone()
    };
    let most = MOST_REQUESTS * volumes.len();
    let parts = volumes.into_iter().map(|volume| Member::new(env, volume)).collect();
    Some(Rc::new(Served::new(env, HostStripe { parts, info }, most)))
}

/// Waits for all requests.
async fn all(requests: Vec<Io>) -> IoOutcome {
    let mut sum = Ok(0);
    for request in requests {
        let result = request.await.result;
        sum = sum.and_then(|sum| result.map(|bytes| sum + bytes));
    }
    sum.map_or_else(IoOutcome::failed, IoOutcome::done)
}

impl HostStripe {
    fn each(&self, range: ByteRange, request: impl Fn(ByteRange) -> IoRequest) -> Vec<Io> {
        let all = pieces(range, self.parts.len());
        all.map(|piece| self.parts[piece.part].start(request(piece.range))).collect()
    }

    async fn read(&self, offset: ByteOffset, buffers: Bufs) -> IoOutcome {
        let (mut at, mut asked) = (offset, Vec::new());
        for mut buf in buffers {
            let mut of_one = Vec::new();
            let range = ByteRange::new(at, buf.len());
            for piece in pieces(range, self.parts.len()) {
                let rest = buf.split_off(piece.range.len);
                let this = std::mem::replace(&mut buf, rest);
                of_one
                    .push(self.parts[piece.part].read(piece.range.start, Bufs::from_iter([this])));
            }
            at = range.end();
            asked.push(of_one);
        }
        let (mut back, mut result) = (Bufs::new(), Ok(0));
        for of_one in asked {
            let mut whole: Option<Buf> = None;
            for request in of_one {
                let outcome = request.await;
                result = result.and_then(|sum| outcome.result.map(|bytes| sum + bytes));
                for buf in outcome.buffers {
                    whole = Some(match whole.take() {
                        Some(before) => before.join_or_keep(buf),
                        None => buf,
                    });
                }
            }
            back.extend(whole);
        }
        result.map_or_else(IoOutcome::failed, IoOutcome::done).with_buffers(back)
    }
}

impl Service for HostStripe {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    async fn serve(&self, request: IoRequest) -> IoOutcome {
        match request {
            IoRequest::Read { offset, buffers } => self.read(offset, buffers).await,
            IoRequest::Write { offset, slices, durability } => {
                let (mut at, mut asked) = (offset, Vec::new());
                for slice in slices {
                    let range = ByteRange::new(at, slice.len());
                    let mut done = ByteCount::ZERO;
                    for piece in pieces(range, self.parts.len()) {
                        let data = Slices::from_iter([slice.cut(done, piece.range.len)]);
                        asked.push(self.parts[piece.part].write(
                            piece.range.start,
                            data,
                            durability,
                        ));
                        done += piece.range.len;
                    }
                    at = range.end();
                }
                all(asked).await
            }
            IoRequest::WriteZeroes { range, may_unmap, durability } => {
                let zeroes = |range| IoRequest::WriteZeroes { range, may_unmap, durability };
                all(self.each(range, zeroes)).await
            }
            IoRequest::Trim { range } => {
                all(self.each(range, |range| IoRequest::Trim { range })).await
            }
            IoRequest::Flush => all(self.parts.iter().map(Member::flush).collect()).await,
            IoRequest::Status { .. }
            | IoRequest::Health
            | IoRequest::Locate { .. }
            | IoRequest::WriteCache { .. } => {
                IoOutcome::failed(IoError::new(IoErrorKind::NotSupported))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_lies_on_the_volumes_in_turn() {
        let mib = PIECE.0;
        let range = ByteRange::new(ByteOffset(mib / 2), ByteCount(2 * mib));
        let found: Vec<(usize, u64, u64)> = pieces(range, 2)
            .map(|piece| (piece.part, piece.range.start.0, piece.range.len.0))
            .collect();
        assert_eq!(found, [(0, mib / 2, mib / 2), (1, 0, mib), (0, mib, mib / 2)]);
        // The mapping is a bijection of bytes.
        let mut seen = std::collections::BTreeSet::new();
        for block in 0..12 {
            let at = ByteRange::new(ByteOffset(block * mib / 2), ByteCount(mib / 2));
            for piece in pieces(at, 3) {
                assert!(seen.insert((piece.part, piece.range.start.0)));
            }
        }
        assert_eq!(seen.len(), 12);
    }
}
