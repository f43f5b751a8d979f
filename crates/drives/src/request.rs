//! Request handling that these drives share: validation and completion.

use platform::{Buf, Completion, DriveInfo, IoError, IoErrorKind, IoOutcome, IoRequest};
use smallvec::SmallVec;

/// The reason why the drive rejects the request: a defect of the caller, not a drive fault.
pub(crate) fn objection(info: &DriveInfo, request: &IoRequest) -> Option<IoErrorKind> {
    let writes = matches!(
        request,
        IoRequest::Write { .. } | IoRequest::WriteZeroes { .. } | IoRequest::Trim { .. }
    );
    if writes && info.read_only {
        return Some(IoErrorKind::ReadOnly);
    }
    let range = request.range();
    let inside = range.start.checked_add(range.len).is_some_and(|end| end.0 <= info.size.0);
    let status = matches!(request, IoRequest::Status { .. });
    let whole = status || range.is_aligned(info.logical_sector.bytes());
    (!inside || !whole).then_some(IoErrorKind::Invalid)
}

/// Completes a request with its result; a read returns its buffers.
pub(crate) fn give_back(request: IoRequest, completion: Completion, result: Result<u64, IoError>) {
    let buffers = match request {
        IoRequest::Read { buffers, .. } => buffers,
        _ => SmallVec::new(),
    };
    completion.complete(IoOutcome { result, buffers, ..IoOutcome::done(0) });
}

/// Copies `bytes` to byte `position` of the concatenated `buffers`. Data-less buffers are skipped.
pub(crate) fn copy_into(buffers: &mut [Buf], mut position: usize, mut bytes: &[u8]) {
    for buf in buffers {
        let len = buf.len().as_usize();
        if position >= len {
            position -= len;
            continue;
        }
        let count = bytes.len().min(len - position);
        if let Some(target) = buf.bytes_mut().get_mut(position..position + count) {
            target.copy_from_slice(&bytes[..count]);
        }
        bytes = &bytes[count..];
        position = 0;
        if bytes.is_empty() {
            return;
        }
    }
}

/// Fills `len` bytes from byte `position` of the concatenated `buffers` with zeroes.
pub(crate) fn zero_into(buffers: &mut [Buf], mut position: usize, mut len: usize) {
    let zeroes = platform::buffers::zero_bytes();
    while len > 0 {
        let count = len.min(zeroes.len());
        copy_into(buffers, position, &zeroes[..count]);
        position += count;
        len -= count;
    }
}
