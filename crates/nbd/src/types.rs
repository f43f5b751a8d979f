//! Types of both sides: commands, flags, errors, reply styles, extents, block sizes.

use std::fmt;

use crate::constants as c;

/// The command of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Command {
    /// Read a range.
    Read,
    /// Write a range; the data follow the request.
    Write,
    /// End the connection; has no reply.
    Disconnect,
    /// Make all completed writes durable.
    Flush,
    /// The range's content is no longer needed.
    Trim,
    /// The range will be needed soon.
    Cache,
    /// Make the range read as zeroes.
    WriteZeroes,
    /// Report the range's extents.
    BlockStatus,
}

impl Command {
    /// All commands, in the order of their numbers.
    pub const ALL: [Command; 8] = [
        Command::Read,
        Command::Write,
        Command::Disconnect,
        Command::Flush,
        Command::Trim,
        Command::Cache,
        Command::WriteZeroes,
        Command::BlockStatus,
    ];

    /// The command with this number (`NBD_CMD_*`), if there is one.
    pub fn from_wire(number: u16) -> Option<Command> {
        Command::ALL.get(usize::from(number)).copied()
    }

    /// The command's number (`NBD_CMD_*`).
    pub fn to_wire(self) -> u16 {
        match self {
            Command::Read => c::CMD_READ,
            Command::Write => c::CMD_WRITE,
            Command::Disconnect => c::CMD_DISC,
            Command::Flush => c::CMD_FLUSH,
            Command::Trim => c::CMD_TRIM,
            Command::Cache => c::CMD_CACHE,
            Command::WriteZeroes => c::CMD_WRITE_ZEROES,
            Command::BlockStatus => c::CMD_BLOCK_STATUS,
        }
    }

    /// True for the commands that change the export: write, trim, write zeroes.
    pub fn modifies(self) -> bool {
        matches!(self, Command::Write | Command::Trim | Command::WriteZeroes)
    }
}

/// Flags of a request (`NBD_CMD_FLAG_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommandFlags(pub u16);

impl CommandFlags {
    /// No flag.
    pub const NONE: CommandFlags = CommandFlags(0);
    /// Durable before the reply.
    pub const FUA: CommandFlags = CommandFlags(c::CMD_FLAG_FUA);
    /// Write zeroes: keep the range allocated.
    pub const NO_HOLE: CommandFlags = CommandFlags(c::CMD_FLAG_NO_HOLE);
    /// Read: do not fragment the reply.
    pub const DF: CommandFlags = CommandFlags(c::CMD_FLAG_DF);
    /// Block status: one extent is enough.
    pub const REQ_ONE: CommandFlags = CommandFlags(c::CMD_FLAG_REQ_ONE);
    /// Write zeroes: only if it is faster than writing.
    pub const FAST_ZERO: CommandFlags = CommandFlags(c::CMD_FLAG_FAST_ZERO);

    /// True if every flag of `flags` is set.
    pub fn contains(self, flags: CommandFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether the request must be durable before the reply.
    pub fn fua(self) -> bool {
        self.contains(CommandFlags::FUA)
    }
}

impl std::ops::BitOr for CommandFlags {
    type Output = CommandFlags;
    fn bitor(self, other: CommandFlags) -> CommandFlags {
        CommandFlags(self.0 | other.0)
    }
}

/// The features of an export (`NBD_FLAG_*` of the transmission phase).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportFlags {
    /// Writes, trims and zeroes fail with `EPERM`.
    pub read_only: bool,
    /// Flush is supported.
    pub flush: bool,
    /// FUA is supported.
    pub fua: bool,
    /// The medium rotates: sequential access is faster.
    pub rotational: bool,
    /// Trim is supported.
    pub trim: bool,
    /// Write zeroes (with and without holes) is supported.
    pub write_zeroes: bool,
    /// Fast zero is supported; needs `write_zeroes`.
    pub fast_zero: bool,
    /// Cache is supported.
    pub cache: bool,
    /// Flush and FUA hold across all connections.
    pub multi_conn: bool,
    /// Unfragmented reads are supported; advertised only with structured replies.
    pub df: bool,
}

impl ExportFlags {
    /// Encodes the flags. As the protocol requires, `df` needs a `style` with chunks, and
    /// `fast_zero` needs `write_zeroes`.
    pub fn to_wire(self, style: ReplyStyle) -> u16 {
        let bits = [
            (self.read_only, c::FLAG_READ_ONLY),
            (self.flush, c::FLAG_SEND_FLUSH),
            (self.fua, c::FLAG_SEND_FUA),
            (self.rotational, c::FLAG_ROTATIONAL),
            (self.trim, c::FLAG_SEND_TRIM),
            (self.write_zeroes, c::FLAG_SEND_WRITE_ZEROES),
            (self.df && style != ReplyStyle::Simple, c::FLAG_SEND_DF),
            (self.multi_conn, c::FLAG_CAN_MULTI_CONN),
            (self.cache, c::FLAG_SEND_CACHE),
            (self.fast_zero && self.write_zeroes, c::FLAG_SEND_FAST_ZERO),
        ];
        bits.iter().filter(|(set, _)| *set).fold(c::FLAG_HAS_FLAGS, |sum, (_, bit)| sum | bit)
    }

    /// Parses the flags; unknown bits are ignored, as the protocol requires of clients.
    pub fn from_wire(bits: u16) -> ExportFlags {
        let has = |bit| bits & bit != 0;
        ExportFlags {
            read_only: has(c::FLAG_READ_ONLY),
            flush: has(c::FLAG_SEND_FLUSH),
            fua: has(c::FLAG_SEND_FUA),
            rotational: has(c::FLAG_ROTATIONAL),
            trim: has(c::FLAG_SEND_TRIM),
            write_zeroes: has(c::FLAG_SEND_WRITE_ZEROES),
            fast_zero: has(c::FLAG_SEND_FAST_ZERO),
            cache: has(c::FLAG_SEND_CACHE),
            multi_conn: has(c::FLAG_CAN_MULTI_CONN),
            df: has(c::FLAG_SEND_DF),
        }
    }
}

/// The negotiated framing of requests and replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyStyle {
    /// Compact requests, simple replies.
    Simple,
    /// Compact requests; replies to reads and block status in chunks.
    Structured,
    /// Extended requests with 64-bit lengths, and extended chunks for every reply.
    Extended,
}

impl ReplyStyle {
    /// Length of a request's header.
    pub fn request_bytes(self) -> usize {
        match self {
            ReplyStyle::Simple | ReplyStyle::Structured => c::REQUEST_BYTES,
            ReplyStyle::Extended => c::EXTENDED_REQUEST_BYTES,
        }
    }
}

/// The error numbers of the protocol, similar to Linux's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errno {
    /// Not permitted: a write to a read-only export.
    Perm,
    /// Input/output error.
    Io,
    /// Out of memory.
    NoMem,
    /// Invalid argument.
    Inval,
    /// No space left, or a write beyond the end.
    NoSpc,
    /// Too large for an unfragmented reply.
    Overflow,
    /// Fast zeroes are not faster.
    NotSup,
    /// The server is shutting down.
    Shutdown,
}

impl Errno {
    /// The number in the protocol.
    pub fn to_wire(self) -> u32 {
        match self {
            Errno::Perm => c::EPERM,
            Errno::Io => c::EIO,
            Errno::NoMem => c::ENOMEM,
            Errno::Inval => c::EINVAL,
            Errno::NoSpc => c::ENOSPC,
            Errno::Overflow => c::EOVERFLOW,
            Errno::NotSup => c::ENOTSUP,
            Errno::Shutdown => c::ESHUTDOWN,
        }
    }

    /// Parses a nonzero number; unknown ones count as `EINVAL`, as the protocol requires of
    /// clients.
    pub fn from_wire(number: u32) -> Errno {
        match number {
            c::EPERM => Errno::Perm,
            c::EIO => Errno::Io,
            c::ENOMEM => Errno::NoMem,
            c::ENOSPC => Errno::NoSpc,
            c::EOVERFLOW => Errno::Overflow,
            c::ENOTSUP => Errno::NotSup,
            c::ESHUTDOWN => Errno::Shutdown,
            _ => Errno::Inval,
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Errno::Perm => "operation not permitted",
            Errno::Io => "input/output error",
            Errno::NoMem => "out of memory",
            Errno::Inval => "invalid argument",
            Errno::NoSpc => "no space left on device",
            Errno::Overflow => "value too large",
            Errno::NotSup => "operation not supported",
            Errno::Shutdown => "the server is shutting down",
        })
    }
}

/// A range with one allocation status (`base:allocation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The length of the range, never zero in the protocol.
    pub length_bytes: u64,
    /// Not allocated in the backing storage.
    pub hole: bool,
    /// Reads as zeroes.
    pub zero: bool,
}

impl Extent {
    /// An allocated range of unknown content: always safe to report.
    pub fn data(length_bytes: u64) -> Extent {
        Extent { length_bytes, hole: false, zero: false }
    }

    /// An unallocated range that reads as zeroes.
    pub fn hole(length_bytes: u64) -> Extent {
        Extent { length_bytes, hole: true, zero: true }
    }

    /// The status in the protocol (`NBD_STATE_*`).
    pub fn status(self) -> u32 {
        u32::from(self.hole) * c::STATE_HOLE + u32::from(self.zero) * c::STATE_ZERO
    }

    /// Parses a descriptor; unknown status bits are ignored, as the protocol requires of clients.
    pub fn from_wire(length_bytes: u64, status: u64) -> Extent {
        Extent {
            length_bytes,
            hole: status & u64::from(c::STATE_HOLE) != 0,
            zero: status & u64::from(c::STATE_ZERO) != 0,
        }
    }
}

/// Block size constraints of an export, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths must be multiples of this: a power of two, 1 to 65536.
    pub minimum_bytes: u32,
    /// Requests of multiples of this avoid read-modify-write: a power of two, at least 512.
    pub preferred_bytes: u32,
    /// Longest read or write: a multiple of the minimum, or `u32::MAX` for no limit.
    pub maximum_bytes: u32,
}

impl BlockSizes {
    /// The defaults without a block size exchange: byte granularity, 4 KiB preferred, 32 MiB at
    /// most.
    pub const DEFAULT: BlockSizes = BlockSizes {
        minimum_bytes: 1,
        preferred_bytes: 4096,
        maximum_bytes: c::DEFAULT_MAX_PAYLOAD_BYTES,
    };

    /// Whether the three sizes comply with the protocol's rules on powers of two and multiples.
    pub fn is_valid(self) -> bool {
        let BlockSizes { minimum_bytes: min, preferred_bytes: preferred, maximum_bytes: max } =
            self;
        min.is_power_of_two()
            && min <= 1 << 16
            && preferred.is_power_of_two()
            && preferred >= min.max(512)
            && (max == u32::MAX || (max >= min && max.is_multiple_of(min)))
    }
}

impl Default for BlockSizes {
    fn default() -> BlockSizes {
        BlockSizes::DEFAULT
    }
}
