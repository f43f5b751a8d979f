//! Little-endian fields at fixed offsets; reads past the end give zero, which is never a magic
//! number.

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|field| field.try_into().ok()).map_or(0, u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|field| field.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// CRC-32C of `bytes` with the four bytes at `field` as zero: the checksum that a head carries in
/// itself.
pub(crate) fn crc_without(bytes: &[u8], field: usize) -> u32 {
    let crc = crc32c::crc32c(&bytes[..field]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &bytes[field + 4..])
}
