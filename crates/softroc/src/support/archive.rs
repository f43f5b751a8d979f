//! A gzip-compressed tar archive (POSIX ustar): only text files with short names.

use crate::failure::{Failure, Outcome};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// The block size of an archive.
const BLOCK: usize = 512;

/// A file of the archive.
pub struct File {
    /// Its path in the archive, of at most 100 bytes.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// The archive. `mtime_unix_s`: the time of all files.
///
/// # Errors
/// If a name is too long.
pub fn archive(files: &[File], mtime_unix_s: u64) -> Outcome<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let failed =
        |error: std::io::Error| Failure::failed(format!("cannot compress the archive: {error}"));
    for file in files {
        let bytes = file.text.as_bytes();
        gzip.write_all(&header(&file.name, bytes.len(), mtime_unix_s)?).map_err(failed)?;
        gzip.write_all(bytes).map_err(failed)?;
        let padding = bytes.len().next_multiple_of(BLOCK) - bytes.len();
        gzip.write_all(&[0; BLOCK][..padding]).map_err(failed)?;
    }
    gzip.write_all(&[0; 2 * BLOCK]).map_err(failed)?;
    gzip.finish().map_err(failed)
}

fn header(name: &str, size: usize, mtime_unix_s: u64) -> Outcome<[u8; BLOCK]> {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, room: usize, text: &str| {
        let fits = text.len() <= room;
        if fits {
            header[at..at + text.len()].copy_from_slice(text.as_bytes());
        }
        fits
    };
    // name, mode, user, group, size, time, checksum as spaces, type, magic and version
    let fits = put(0, 100, name)
        && put(100, 8, "0000600\0")
        && put(108, 8, "0000000\0")
        && put(116, 8, "0000000\0")
        && put(124, 12, &format!("{size:011o}\0"))
        && put(136, 12, &format!("{mtime_unix_s:011o}\0"))
        && put(148, 8, "        ")
        && put(156, 1, "0")
        && put(257, 8, "ustar\x0000");
    if !fits {
        return Err(Failure::failed(format!("{name} does not fit into a tar archive")));
    }
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}
