//! Big-endian reading and writing, and the assembly of fixed-size messages from a fragmented
//! stream.

/// A cursor over a complete message. Reads return `None` past its end.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(length)?;
        self.rest = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.rest.split_first_chunk::<N>()?;
        self.rest = tail;
        Some(*head)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A 32-bit length and that many bytes.
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.take(length)
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// A short message on the stack: at most `N` bytes, no allocation.
#[derive(Clone, Copy)]
pub(crate) struct Fixed<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Fixed<N> {
    pub(crate) fn new() -> Fixed<N> {
        Fixed { bytes: [0; N], length: 0 }
    }

    /// Appends `bytes`. Callers stay within `N` by construction; excess bytes are dropped.
    pub(crate) fn put(mut self, bytes: &[u8]) -> Fixed<N> {
        debug_assert!(self.length + bytes.len() <= N, "a fixed message outgrew its {N} bytes");
        let room = &mut self.bytes[self.length..];
        let count = room.len().min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        self.length += count;
        self
    }

    pub(crate) fn u16(self, value: u16) -> Fixed<N> {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn u32(self, value: u32) -> Fixed<N> {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn u64(self, value: u64) -> Fixed<N> {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Assembles a message of known length from a fragmented stream.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    bytes: Vec<u8>,
}

impl Collector {
    /// Moves bytes from the front of `input` until `want` are collected; true at the end.
    pub(crate) fn fill(&mut self, want: usize, input: &mut &[u8]) -> bool {
        let missing = want.saturating_sub(self.bytes.len());
        let (head, tail) = input.split_at(missing.min(input.len()));
        self.bytes.extend_from_slice(head);
        *input = tail;
        self.bytes.len() >= want
    }

    /// The bytes collected so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Restarts with an empty message, keeping the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// The longest prefix of `text` of at most `limit` bytes, without splitting a character.
pub(crate) fn prefix(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}
