//! Encoding of options and their replies.

use crate::constants as c;
use crate::types::ReplyStyle;
use crate::wire::Reader;

use super::export::ExportInfo;

/// An option's name in error messages.
pub(crate) fn option_name(option: u32) -> &'static str {
    match option {
        c::OPT_EXPORT_NAME => "EXPORT_NAME",
        c::OPT_ABORT => "ABORT",
        c::OPT_LIST => "LIST",
        c::OPT_STARTTLS => "STARTTLS",
        c::OPT_INFO => "INFO",
        c::OPT_GO => "GO",
        c::OPT_STRUCTURED_REPLY => "STRUCTURED_REPLY",
        c::OPT_LIST_META_CONTEXT => "LIST_META_CONTEXT",
        c::OPT_SET_META_CONTEXT => "SET_META_CONTEXT",
        c::OPT_EXTENDED_HEADERS => "EXTENDED_HEADERS",
        _ => "unknown option",
    }
}

/// Appends one reply to an option: header, then the parts of its payload.
pub(crate) fn put_reply(output: &mut Vec<u8>, option: u32, kind: u32, parts: &[&[u8]]) {
    output.extend_from_slice(&c::OPTION_REPLY_MAGIC.to_be_bytes());
    output.extend_from_slice(&option.to_be_bytes());
    output.extend_from_slice(&kind.to_be_bytes());
    put_with_length(output, parts);
}

/// Appends one option: header, then the parts of its payload.
pub(crate) fn put_option(output: &mut Vec<u8>, option: u32, parts: &[&[u8]]) {
    output.extend_from_slice(&c::OPTION_MAGIC.to_be_bytes());
    output.extend_from_slice(&option.to_be_bytes());
    put_with_length(output, parts);
}

fn put_with_length(output: &mut Vec<u8>, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    output.extend_from_slice(&wire_length(length));
    for part in parts {
        output.extend_from_slice(part);
    }
}

/// A length as a 32-bit field. Names and payloads of this crate are far below 4 GiB.
pub(crate) fn wire_length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

/// The payload of `OPT_INFO` and `OPT_GO`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InfoQuery<'a> {
    pub(crate) name: &'a str,
    /// The requested information types, as 16-bit fields.
    wanted: &'a [u8],
}

impl<'a> InfoQuery<'a> {
    pub(crate) fn parse(payload: &'a [u8]) -> Option<InfoQuery<'a>> {
        let mut reader = Reader::new(payload);
        let name = string(reader.string()?)?;
        let count = usize::from(reader.u16()?);
        let wanted = reader.take(count * 2)?;
        reader.is_empty().then_some(InfoQuery { name, wanted })
    }

    pub(crate) fn wants(&self, info: u16) -> bool {
        self.wanted.chunks_exact(2).any(|field| field == info.to_be_bytes())
    }
}

/// The payload of `OPT_LIST_META_CONTEXT` and `OPT_SET_META_CONTEXT`, reduced to the supported
/// queries.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MetaQuery<'a> {
    pub(crate) name: &'a str,
    /// There is no query.
    pub(crate) empty: bool,
    /// A query is the wildcard `base:`.
    pub(crate) wildcard: bool,
    /// A query is `base:allocation`.
    pub(crate) allocation: bool,
}

impl<'a> MetaQuery<'a> {
    pub(crate) fn parse(payload: &'a [u8]) -> Option<MetaQuery<'a>> {
        let mut reader = Reader::new(payload);
        let name = string(reader.string()?)?;
        let count = reader.u32()?;
        let mut query = MetaQuery { name, empty: count == 0, wildcard: false, allocation: false };
        for _ in 0..count {
            // Each query has at least four bytes, so a hostile count ends with the payload.
            match string(reader.string()?)? {
                "base:" => query.wildcard = true,
                c::BASE_ALLOCATION => query.allocation = true,
                // Other leaves and namespaces must be ignored.
                _ => {}
            }
        }
        reader.is_empty().then_some(query)
    }
}

/// A string as the protocol defines it: UTF-8, no NUL, at most 4096 bytes.
pub(crate) fn string(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > c::MAX_STRING_BYTES || bytes.contains(&0) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

/// Appends the information on `export` that `query` requests; always `INFO_EXPORT`.
pub(crate) fn put_info(
    output: &mut Vec<u8>,
    option: u32,
    query: &InfoQuery<'_>,
    export: &ExportInfo,
    style: ReplyStyle,
) {
    let mut put = |info: u16, parts: [&[u8]; 3]| {
        put_reply(
            output,
            option,
            c::REP_INFO,
            &[&info.to_be_bytes(), parts[0], parts[1], parts[2]],
        );
    };
    put(
        c::INFO_EXPORT,
        [&export.size_bytes.to_be_bytes(), &export.flags.to_wire(style).to_be_bytes(), &[]],
    );
    if query.wants(c::INFO_NAME) {
        put(c::INFO_NAME, [export.name.as_bytes(), &[], &[]]);
    }
    if query.wants(c::INFO_DESCRIPTION) && !export.description.is_empty() {
        put(c::INFO_DESCRIPTION, [export.description.as_bytes(), &[], &[]]);
    }
    if query.wants(c::INFO_BLOCK_SIZE) {
        let sizes = export.block_sizes;
        put(
            c::INFO_BLOCK_SIZE,
            [
                &sizes.minimum_bytes.to_be_bytes(),
                &sizes.preferred_bytes.to_be_bytes(),
                &sizes.maximum_bytes.to_be_bytes(),
            ],
        );
    }
}
