//! Rejects files that are not drives: a document that was named by mistake is refused before it is
//! registered, long before any write.

use super::Drive;
use super::access::LabelSeen;
use crate::interface::{Error, ErrorKind, Result};
use platform::{Buf, DriveKind, Env};
use smallvec::smallvec;
use std::rc::Rc;
use units::{ByteCount, ByteOffset};

/// The amount of a file that is checked for text.
const LOOKED_AT: ByteCount = ByteCount(4096);

/// The minimum size of a file that serves as a drive.
const SMALLEST: ByteCount = ByteCount::MIB;

impl Drive {
    /// Refuses a file without a label that does not look like a drive: its size is no whole number
    /// of sectors, it is tiny, or it contains text.
    ///
    /// # Errors
    /// The reason, and how to create a suitable file.
    pub(crate) async fn check_made_for_a_drive(self: &Rc<Self>, env: &Env) -> Result<()> {
        let Some(access) = self.access() else { return Ok(()) };
        if access.info().kind != DriveKind::File || !matches!(self.label(), LabelSeen::Blank) {
            return Ok(());
        }
        let (size, odd) = (access.info().size, access.source.odd_bytes());
        let why = if !odd.is_zero() {
            format!("its size of {} bytes is not a whole number of sectors", size.0 + odd.0)
        } else if size < SMALLEST {
            format!("it has only {size}")
        } else {
            let start = access.member.read(ByteOffset::ZERO, smallvec![Buf::unpooled(LOOKED_AT)]);
            let read = self.in_time(env, start).await.map(|start| (start.result, start.buffers));
            match &read {
                Some((Ok(_), buffers))
                    if buffers.first().is_some_and(|buffer| is_text(buffer.bytes())) =>
                {
                    "it holds text".to_owned()
                }
                _ => return Ok(()),
            }
        };
        let sentence = format!(
            "file {} was not created for a drive: {why}; create a file drive with 'softroc drive \
            add FILE --create 1G'",
            self.name
        );
        Err(Error::new(ErrorKind::Invalid, sentence))
    }
}

/// Whether these first bytes of a file are text: UTF-8 without control characters except those of
/// lines and tabs.
fn is_text(bytes: &[u8]) -> bool {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // The last character may be cut off.
        Err(error) if error.error_len().is_none() => {
            match std::str::from_utf8(&bytes[..error.valid_up_to()]) {
                Ok(text) => text,
                Err(_) => return false,
            }
        }
        Err(_) => return false,
    };
    !text.is_empty()
        && text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t' | '\x0c'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_what_drives_hold() {
        let long = "Größe: 4 KiB\n".repeat(300);
        for text in ["root:x:0:0:root:/root:/bin/bash\n", "\tone\r\ntwo", &long] {
            assert!(is_text(text.as_bytes()), "{text}");
        }
        assert!(is_text(&long.as_bytes()[..3]), "cut within a character");
        for other in
            [&[0_u8; 4096][..], &[0xEB, 0x3C, 0x90], b"text\0", b"\x7fELF", &[0xFF; 16], b""]
        {
            assert!(!is_text(other), "{other:?}");
        }
    }
}
