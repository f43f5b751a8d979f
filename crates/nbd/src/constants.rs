//! The constants of the NBD protocol that this crate uses or recognises.
//!
//! Source: the protocol's own description, `doc/proto.md` of the NetworkBlockDevice project. Names
//! are the description's, without the `NBD_` prefix. All integers travel in network byte order.

/// First eight bytes a server sends, ASCII `NBDMAGIC`.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second eight bytes of a newstyle server, and the first eight of each option: ASCII `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Second eight bytes of an oldstyle server, which this crate recognises to reject it.
pub const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// First eight bytes of each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First four bytes of a compact request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First four bytes of an extended request.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// First four bytes of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First four bytes of a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// First four bytes of an extended reply chunk.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// The port that IANA assigned to NBD.
pub const DEFAULT_PORT: u16 = 10809;
/// Longest string (export name, description, query, message) the protocol permits, in bytes.
pub const MAX_STRING_BYTES: usize = 4096;

/// Length of the server's greeting.
pub const GREETING_BYTES: usize = 18;
/// Length of an option's header.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Length of the header of an option's reply.
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;
/// Zeroes after the reply to `OPT_EXPORT_NAME`, unless both sides agreed to omit them.
pub const EXPORT_NAME_ZEROES: usize = 124;
/// Length of a compact request's header.
pub const REQUEST_BYTES: usize = 28;
/// Length of an extended request's header.
pub const EXTENDED_REQUEST_BYTES: usize = 32;
/// Length of a simple reply's header.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Length of a structured reply chunk's header.
pub const STRUCTURED_REPLY_BYTES: usize = 20;
/// Length of an extended reply chunk's header.
pub const EXTENDED_REPLY_BYTES: usize = 32;

/// Handshake flag of the server: it speaks fixed newstyle.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag of the server: it can omit the zeroes after `OPT_EXPORT_NAME`.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;
/// Handshake flag of the client: it speaks fixed newstyle.
pub const FLAG_C_FIXED_NEWSTYLE: u32 = 1 << 0;
/// Handshake flag of the client: omit the zeroes after `OPT_EXPORT_NAME`.
pub const FLAG_C_NO_ZEROES: u32 = 1 << 1;

/// Transmission flag: the field is valid; always set.
pub const FLAG_HAS_FLAGS: u16 = 1 << 0;
/// Transmission flag: writes fail with `EPERM`.
pub const FLAG_READ_ONLY: u16 = 1 << 1;
/// Transmission flag: `CMD_FLUSH` is supported.
pub const FLAG_SEND_FLUSH: u16 = 1 << 2;
/// Transmission flag: `CMD_FLAG_FUA` is supported.
pub const FLAG_SEND_FUA: u16 = 1 << 3;
/// Transmission flag: the medium rotates.
pub const FLAG_ROTATIONAL: u16 = 1 << 4;
/// Transmission flag: `CMD_TRIM` is supported.
pub const FLAG_SEND_TRIM: u16 = 1 << 5;
/// Transmission flag: `CMD_WRITE_ZEROES` and `CMD_FLAG_NO_HOLE` are supported.
pub const FLAG_SEND_WRITE_ZEROES: u16 = 1 << 6;
/// Transmission flag: `CMD_FLAG_DF` is supported; only with structured replies.
pub const FLAG_SEND_DF: u16 = 1 << 7;
/// Transmission flag: flush and FUA hold across all connections to the export.
pub const FLAG_CAN_MULTI_CONN: u16 = 1 << 8;
/// Transmission flag of the resize extension, never set here.
pub const FLAG_SEND_RESIZE: u16 = 1 << 9;
/// Transmission flag: `CMD_CACHE` is supported.
pub const FLAG_SEND_CACHE: u16 = 1 << 10;
/// Transmission flag: `CMD_FLAG_FAST_ZERO` is supported.
pub const FLAG_SEND_FAST_ZERO: u16 = 1 << 11;
/// Transmission flag: `CMD_BLOCK_STATUS` may carry a payload; never set here.
pub const FLAG_BLOCK_STATUS_PAYLOAD: u16 = 1 << 12;

/// Option: choose the export and enter transmission; cannot report an error.
pub const OPT_EXPORT_NAME: u32 = 1;
/// Option: end the session.
pub const OPT_ABORT: u32 = 2;
/// Option: list the exports.
pub const OPT_LIST: u32 = 3;
/// Option withdrawn from the protocol.
pub const OPT_PEEK_EXPORT: u32 = 4;
/// Option: upgrade the connection to TLS.
pub const OPT_STARTTLS: u32 = 5;
/// Option: describe an export.
pub const OPT_INFO: u32 = 6;
/// Option: describe an export and enter transmission.
pub const OPT_GO: u32 = 7;
/// Option: use structured replies.
pub const OPT_STRUCTURED_REPLY: u32 = 8;
/// Option: list metadata contexts.
pub const OPT_LIST_META_CONTEXT: u32 = 9;
/// Option: select metadata contexts.
pub const OPT_SET_META_CONTEXT: u32 = 10;
/// Option: use extended headers.
pub const OPT_EXTENDED_HEADERS: u32 = 11;

/// Option reply: accepted, or end of a list.
pub const REP_ACK: u32 = 1;
/// Option reply: one export of a list.
pub const REP_SERVER: u32 = 2;
/// Option reply: one piece of information on an export.
pub const REP_INFO: u32 = 3;
/// Option reply: one metadata context.
pub const REP_META_CONTEXT: u32 = 4;
/// The bit that all option errors have set.
pub const REP_ERR_BIT: u32 = 1 << 31;
/// Option error: unknown option.
pub const REP_ERR_UNSUP: u32 = REP_ERR_BIT + 1;
/// Option error: forbidden by the server's policy.
pub const REP_ERR_POLICY: u32 = REP_ERR_BIT + 2;
/// Option error: malformed option.
pub const REP_ERR_INVALID: u32 = REP_ERR_BIT + 3;
/// Option error: not on this platform.
pub const REP_ERR_PLATFORM: u32 = REP_ERR_BIT + 4;
/// Option error: TLS must be started first.
pub const REP_ERR_TLS_REQD: u32 = REP_ERR_BIT + 5;
/// Option error: no such export.
pub const REP_ERR_UNKNOWN: u32 = REP_ERR_BIT + 6;
/// Option error: the server is shutting down.
pub const REP_ERR_SHUTDOWN: u32 = REP_ERR_BIT + 7;
/// Option error: the client must request block sizes.
pub const REP_ERR_BLOCK_SIZE_REQD: u32 = REP_ERR_BIT + 8;
/// Option error: the option or its reply is too large.
pub const REP_ERR_TOO_BIG: u32 = REP_ERR_BIT + 9;
/// Option error: needs extended headers (or is superseded by them).
pub const REP_ERR_EXT_HEADER_REQD: u32 = REP_ERR_BIT + 10;

/// Information: size and transmission flags.
pub const INFO_EXPORT: u16 = 0;
/// Information: canonical name.
pub const INFO_NAME: u16 = 1;
/// Information: description for users.
pub const INFO_DESCRIPTION: u16 = 2;
/// Information: block size constraints.
pub const INFO_BLOCK_SIZE: u16 = 3;

/// Command: read.
pub const CMD_READ: u16 = 0;
/// Command: write.
pub const CMD_WRITE: u16 = 1;
/// Command: disconnect; has no reply.
pub const CMD_DISC: u16 = 2;
/// Command: make completed writes durable.
pub const CMD_FLUSH: u16 = 3;
/// Command: the range is no longer needed.
pub const CMD_TRIM: u16 = 4;
/// Command: the range will be needed soon.
pub const CMD_CACHE: u16 = 5;
/// Command: make the range read as zeroes.
pub const CMD_WRITE_ZEROES: u16 = 6;
/// Command: report the metadata of the range.
pub const CMD_BLOCK_STATUS: u16 = 7;
/// Command of the resize extension, not supported here.
pub const CMD_RESIZE: u16 = 8;

/// Command flag: durable before the reply.
pub const CMD_FLAG_FUA: u16 = 1 << 0;
/// Command flag of `CMD_WRITE_ZEROES`: keep the range allocated.
pub const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
/// Command flag of `CMD_READ`: at most one content chunk.
pub const CMD_FLAG_DF: u16 = 1 << 2;
/// Command flag of `CMD_BLOCK_STATUS`: one extent per context.
pub const CMD_FLAG_REQ_ONE: u16 = 1 << 3;
/// Command flag of `CMD_WRITE_ZEROES`: only if faster than writing.
pub const CMD_FLAG_FAST_ZERO: u16 = 1 << 4;
/// Command flag with extended headers: the length is that of the payload.
pub const CMD_FLAG_PAYLOAD_LEN: u16 = 1 << 5;

/// Chunk flag: last chunk of the reply.
pub const REPLY_FLAG_DONE: u16 = 1 << 0;
/// Chunk: no payload; the end of a reply.
pub const REPLY_TYPE_NONE: u16 = 0;
/// Chunk: offset and data.
pub const REPLY_TYPE_OFFSET_DATA: u16 = 1;
/// Chunk: offset and length of a run of zeroes.
pub const REPLY_TYPE_OFFSET_HOLE: u16 = 2;
/// Chunk: extents with 32-bit lengths.
pub const REPLY_TYPE_BLOCK_STATUS: u16 = 5;
/// Chunk: extents with 64-bit lengths; only with extended headers.
pub const REPLY_TYPE_BLOCK_STATUS_EXT: u16 = 6;
/// The bit that all error chunks have set.
pub const REPLY_TYPE_ERROR_BIT: u16 = 1 << 15;
/// Chunk: an error.
pub const REPLY_TYPE_ERROR: u16 = REPLY_TYPE_ERROR_BIT + 1;
/// Chunk: an error at an offset.
pub const REPLY_TYPE_ERROR_OFFSET: u16 = REPLY_TYPE_ERROR_BIT + 2;

/// `base:allocation`: the extent is not allocated.
pub const STATE_HOLE: u32 = 1 << 0;
/// `base:allocation`: the extent reads as zeroes.
pub const STATE_ZERO: u32 = 1 << 1;
/// The only metadata context that the protocol defines.
pub const BASE_ALLOCATION: &str = "base:allocation";

/// Error: not permitted.
pub const EPERM: u32 = 1;
/// Error: input/output.
pub const EIO: u32 = 5;
/// Error: out of memory.
pub const ENOMEM: u32 = 12;
/// Error: invalid argument.
pub const EINVAL: u32 = 22;
/// Error: no space left.
pub const ENOSPC: u32 = 28;
/// Error: value too large.
pub const EOVERFLOW: u32 = 75;
/// Error: not supported.
pub const ENOTSUP: u32 = 95;
/// Error: the server is shutting down.
pub const ESHUTDOWN: u32 = 108;

/// The largest payload that every server and client must support without a block size exchange.
pub const DEFAULT_MAX_PAYLOAD_BYTES: u32 = 1 << 25;
