//! The format of a state file: a header line, then the document as text.
//!
//! ```text
//! # SoftROC state file, format 1, 123 bytes, CRC-32C 0a1b2c3d
//! ```
//!
//! The header is a comment in TOML. A file without it is read as it is: earlier versions wrote
//! none, and an operator who edits a file removes it.

/// The beginning of the header line.
const MARK: &str = "# SoftROC state file, format ";

/// A document with its header line.
pub(super) fn framed(format: u32, body: &str) -> Vec<u8> {
    let sum = crc32c::crc32c(body.as_bytes());
    format!("{MARK}{format}, {} bytes, CRC-32C {sum:08x}\n{body}", body.len()).into_bytes()
}

/// The document of a file, if it is intact.
///
/// # Errors
/// Why it is damaged: the end of a sentence.
pub(super) fn body(format: u32, bytes: &[u8]) -> Result<&str, String> {
    if bytes.is_empty() {
        return Err("it is empty".to_owned());
    }
    let text = str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    let Some(rest) = text.strip_prefix(MARK) else {
        return match text.starts_with('#') && MARK.starts_with(text) {
            true => Err("it is truncated".to_owned()),
            false => Ok(text),
        };
    };
    let (line, body) = rest.split_once('\n').ok_or_else(|| "it is truncated".to_owned())?;
    let parts = line
        .split_once(", ")
        .and_then(|(of, rest)| Some((of, rest.split_once(" bytes, CRC-32C ")?)));
    let garbled = || "its first line is invalid".to_owned();
    let (of, (len, sum)) = parts.ok_or_else(garbled)?;
    let of: u32 = of.parse().map_err(|_| garbled())?;
    if of == 0 {
        return Err(garbled());
    }
    if of > format {
        return Err(format!(
            "a later version of SoftROC wrote the file in format {of}; this version knows format \
             {format}"
        ));
    }
    let len: usize = len.parse().map_err(|_| garbled())?;
    let sum = u32::from_str_radix(sum, 16).map_err(|_| garbled())?;
    if body.len() < len {
        return Err(format!("the file is truncated: {} of {len} bytes are present", body.len()));
    }
    if body.len() > len || crc32c::crc32c(body.as_bytes()) != sum {
        return Err("its checksum is wrong".to_owned());
    }
    Ok(body)
}

/// The bytes after the header line, if there is one.
pub(super) fn document(bytes: &[u8]) -> &[u8] {
    if !bytes.starts_with(MARK.as_bytes()) {
        return bytes;
    }
    let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
    bytes.get(end..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_or_not_at_all() {
        let whole = framed(1, "on = true\n");
        assert_eq!(body(1, &whole), Ok("on = true\n"));
        assert_eq!(document(&whole), b"on = true\n");
        assert_eq!(document(b"on = true\n"), b"on = true\n");
        assert_eq!(body(2, &whole), Ok("on = true\n"), "an earlier format is known");
        for len in 0..whole.len() {
            assert!(body(1, &whole[..len]).is_err(), "{len} bytes of it");
        }
        for at in MARK.len()..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            assert!(body(1, &other).is_err(), "byte {at} is another one");
        }
        let later = body(1, &framed(7, "on = true\n")).unwrap_err();
        assert!(
            later.contains("later version of SoftROC") && later.contains("format 7"),
            "{later}"
        );
    }

    #[test]
    fn a_file_of_an_earlier_version_is_taken_as_it_is() {
        assert_eq!(body(1, b"on = true\n"), Ok("on = true\n"));
        assert_eq!(body(1, b"{\"next\": 1}"), Ok("{\"next\": 1}"));
        assert_eq!(body(1, b"# a note\non = true\n"), Ok("# a note\non = true\n"));
        assert!(body(1, b"").is_err() && body(1, b"\xff\xfe").is_err());
    }
}
