//! Fields at fixed places of a block, in the structure's byte order.

use std::ops::Range;

/// The byte order of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Most significant byte first, as in the standard.
    #[default]
    Big,
    /// Least significant byte first: Adaptec HostRAID.
    Little,
}

/// Reads fields. Bytes past the end read as 0xFF, which means "unused" everywhere in DDF.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    order: Order,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8], order: Order) -> Fields<'a> {
        Fields { bytes, order }
    }

    pub(super) fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut field = [0xFF; N];
        let there = self.bytes.get(at..).unwrap_or_default();
        for (to, from) in field.iter_mut().zip(there) {
            *to = *from;
        }
        field
    }

    pub(super) fn vec(&self, range: Range<usize>) -> Vec<u8> {
        self.bytes.get(range).map(<[u8]>::to_vec).unwrap_or_default()
    }

    pub(super) fn u8(&self, at: usize) -> u8 {
        self.array::<1>(at)[0]
    }

    pub(super) fn u16(&self, at: usize) -> u16 {
        match self.order {
            Order::Big => u16::from_be_bytes(self.array(at)),
            Order::Little => u16::from_le_bytes(self.array(at)),
        }
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        match self.order {
            Order::Big => u32::from_be_bytes(self.array(at)),
            Order::Little => u32::from_le_bytes(self.array(at)),
        }
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        match self.order {
            Order::Big => u64::from_be_bytes(self.array(at)),
            Order::Little => u64::from_le_bytes(self.array(at)),
        }
    }

    /// The part of these fields from `at` on.
    pub(super) fn from(&self, at: usize) -> Fields<'a> {
        Fields { bytes: self.bytes.get(at..).unwrap_or_default(), order: self.order }
    }
}

/// Writes fields into a block that is filled with 0xFF.
pub(super) struct Writer {
    bytes: Vec<u8>,
    order: Order,
}

impl Writer {
    pub(super) fn new(len: usize, order: Order) -> Writer {
        Writer { bytes: vec![0xFF; len], order }
    }

    /// Writes bytes at an offset. Bytes that do not fit are left out: lengths are checked before
    /// encoding.
    pub(super) fn put(&mut self, at: usize, field: &[u8]) {
        debug_assert!(
            at + field.len() <= self.bytes.len(),
            "a field at {at} lies past the end of its block"
        );
        let room = self.bytes.get_mut(at..).unwrap_or_default();
        let len = room.len().min(field.len());
        room[..len].copy_from_slice(&field[..len]);
    }

    pub(super) fn u8(&mut self, at: usize, value: u8) {
        self.put(at, &[value]);
    }

    pub(super) fn u16(&mut self, at: usize, value: u16) {
        match self.order {
            Order::Big => self.put(at, &value.to_be_bytes()),
            Order::Little => self.put(at, &value.to_le_bytes()),
        }
    }

    pub(super) fn u32(&mut self, at: usize, value: u32) {
        match self.order {
            Order::Big => self.put(at, &value.to_be_bytes()),
            Order::Little => self.put(at, &value.to_le_bytes()),
        }
    }

    pub(super) fn u64(&mut self, at: usize, value: u64) {
        match self.order {
            Order::Big => self.put(at, &value.to_be_bytes()),
            Order::Little => self.put(at, &value.to_le_bytes()),
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
