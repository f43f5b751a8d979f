//! The memory of one execution of a plan: the host's, and the plan's own.

use crate::stripe::payload::{Payload, cut_all};
use plan::{Plan, Read, ReadSlot, Source, Target};
use platform::{Buf, Durability, IoError, IoErrorKind, IoOutcome, Slice, Slices};
use smallvec::SmallVec;
use units::ByteCount;

/// The host's side of a plan.
pub(crate) enum Host {
    /// No host data: a resync or check.
    None,
    /// The payload of a write.
    Payload(Payload, Durability),
    /// The whole buffer of a read.
    Buffer(Buf),
}

/// A buffer of the plan: writable by computations while open, then sealed, so that several writes
/// can share it.
pub(crate) enum OwnBuf {
    Open(Buf),
    Sealed(Slice),
}

impl OwnBuf {
    pub(crate) fn len(&self) -> ByteCount {
        match self {
            OwnBuf::Open(buf) => buf.len(),
            OwnBuf::Sealed(slice) => slice.len(),
        }
    }

    /// The bytes; `None` for a data-less buffer.
    pub(crate) fn solid(&self) -> Option<&[u8]> {
        match self {
            OwnBuf::Open(buf) => (!buf.is_hollow()).then(|| buf.bytes()),
            OwnBuf::Sealed(slice) => slice.solid(),
        }
    }

    /// A slice of the buffer to write; `None` while it is open.
    pub(crate) fn cut(&self, at: ByteCount, len: ByteCount) -> Option<Slice> {
        match self {
            OwnBuf::Open(_) => None,
            OwnBuf::Sealed(slice) => Some(slice.cut(at, len)),
        }
    }

    /// Takes the buffer out, so that another can replace it.
    pub(super) fn take(&mut self) -> Option<Buf> {
        match self {
            OwnBuf::Open(buf) => Some(std::mem::replace(buf, Buf::hollow(ByteCount::ZERO))),
            OwnBuf::Sealed(_) => None,
        }
    }

    pub(super) fn seal(&mut self) {
        if let Some(buf) = self.take() {
            *self = OwnBuf::Sealed(buf.freeze());
        }
    }
}

/// A contiguous range that a read fetched for the plan's own use.
pub(crate) struct Brought {
    slot: ReadSlot,
    at: u64,
    pub(crate) bytes: OwnBuf,
}

/// A part of the host's buffer for one target.
pub(crate) struct HostPart {
    at: u64,
    len: u64,
    pub(crate) buf: Option<Buf>,
}

/// The memory of one execution.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) payload: Option<Payload>,
    pub(super) parts: SmallVec<[HostPart; 4]>,
    pub(crate) brought: SmallVec<[Brought; 8]>,
    pub(crate) scratch: SmallVec<[OwnBuf; 4]>,
    pub(crate) hollow: bool,
}

/// The location of a source's bytes.
pub(crate) enum Lying<'a> {
    Zero,
    Bytes(&'a [u8]),
    /// In several slices.
    Scattered,
}

/// The location of the bytes in these parts. `None` without parts.
fn first_of<'a>(
    mut parts: impl Iterator<Item = (&'a Slice, usize, usize)>,
    len: usize,
) -> Option<Lying<'a>> {
    let (slice, skip, first) = parts.next()?;
    Some(match slice.solid() {
        _ if first < len => Lying::Scattered,
        Some(bytes) => Lying::Bytes(&bytes[skip..skip + len]),
        None => Lying::Zero,
    })
}

/// One buffer of a read: a part of the host's buffer, or consecutive parts of the read's own.
pub(crate) struct Segment {
    pub(crate) target: Target,
    pub(crate) len: u64,
}

/// The pool memory that executing a plan needs.
pub(crate) fn scratch_need(plan: &Plan) -> ByteCount {
    let own = |read: &Read| segments(plan, read).filter(|segment| is_own(segment.target));
    let reads: u64 = plan
        .reads()
        .iter()
        .flat_map(own)
        .map(|segment| platform::BufferPool::block_size(ByteCount(segment.len)).0)
        .sum();
    let scratch: u64 =
        plan.scratch().iter().map(|len| platform::BufferPool::block_size(*len).0).sum();
    ByteCount(reads + scratch)
}

fn is_own(target: Target) -> bool {
    matches!(target, Target::Read { .. })
}

/// The buffers of a read, in order.
pub(crate) fn segments<'p>(plan: &'p Plan, read: &Read) -> impl Iterator<Item = Segment> + use<'p> {
    let mut parts = plan.read_parts(read).iter().peekable();
    std::iter::from_fn(move || {
        let first = parts.next()?;
        let mut segment = Segment { target: first.into, len: first.len.0 };
        while is_own(first.into)
            && let Some(next) = parts.next_if(|next| is_own(next.into))
        {
            segment.len += next.len.0;
        }
        Some(segment)
    })
}

/// The kind of host side while its memory is divided.
pub(crate) enum HostKind {
    None,
    Payload(Durability),
    Buffer(ByteCount),
}

impl HostKind {
    pub(super) fn durability(&self) -> Durability {
        match self {
            HostKind::Payload(durability) => *durability,
            HostKind::None | HostKind::Buffer(_) => Durability::Cached,
        }
    }
}

impl Memory {
    /// Empties it, for the next plan.
    pub(crate) fn clear(&mut self) {
        let Memory { payload, parts, brought, scratch, hollow } = self;
        (*payload, *hollow) = (None, false);
        parts.clear();
        brought.clear();
        scratch.clear();
    }

    /// Takes the host's memory: splits the buffer of a read at the plan's targets.
    pub(crate) fn admit(&mut self, plan: &Plan, host: Host) -> HostKind {
        match host {
            Host::None => HostKind::None,
            Host::Payload(payload, durability) => {
                let asked = plan.request().host_bytes();
                assert_eq!(
                    payload.len(),
                    asked,
                    "the payload is what the request asks to be written"
                );
                self.hollow = payload.is_hollow();
                self.payload = Some(payload);
                HostKind::Payload(durability)
            }
            Host::Buffer(buf) => {
                self.hollow = buf.is_hollow();
                let len = buf.len();
                self.cut(plan, buf);
                HostKind::Buffer(len)
            }
        }
    }

    fn cut(&mut self, plan: &Plan, mut buf: Buf) {
        let mut add = |target, len: ByteCount| {
            if let Target::Host { at } = target {
                self.parts.push(HostPart { at: at.0, len: len.0, buf: None });
            }
        };
        for read in plan.reads() {
            for segment in segments(plan, read) {
                add(segment.target, ByteCount(segment.len));
            }
        }
        for compute in plan.computes() {
            for into in compute.kind.targets() {
                add(into, compute.len);
            }
        }
        self.parts.sort_unstable_by_key(|part| part.at);
        let covered: u64 = self.parts.iter().map(|part| part.len).sum();
        let gapless = self.parts.windows(2).all(|pair| pair[0].at + pair[0].len == pair[1].at);
        assert!(
            covered == buf.len().0 && gapless,
            "the plan of {} delivers {covered} bytes of the {} asked for, each exactly once",
            plan.stripe(),
            buf.len().0
        );
        for part in &mut self.parts {
            let rest = buf.split_off(ByteCount(part.len));
            part.buf = Some(std::mem::replace(&mut buf, rest));
        }
    }

    /// The host's parts with their offsets in its buffer.
    #[cfg(test)]
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u64, &Buf)> {
        self.parts.iter().filter_map(|part| Some((part.at, part.buf.as_ref()?)))
    }

    pub(crate) fn part(&mut self, at: u64) -> Option<&mut HostPart> {
        self.parts.iter_mut().find(|part| part.at == at)
    }

    /// Stores the buffers of a completed read.
    pub(crate) fn take_read(
        &mut self,
        plan: &Plan,
        slot: usize,
        outcome: IoOutcome,
    ) -> Result<(), IoError> {
        self.take_buffers(plan, slot, &mut outcome.buffers.into_iter(), outcome.result.is_ok());
        outcome.result.map(|_| ())
    }

    /// Like `take_read`, from the buffers of several reads; this read's buffers are next.
    pub(super) fn take_buffers(
        &mut self,
        plan: &Plan,
        slot: usize,
        buffers: &mut impl Iterator<Item = Buf>,
        is_read: bool,
    ) {
        for (segment, buf) in segments(plan, &plan.reads()[slot]).zip(buffers) {
            match segment.target {
                Target::Host { at } => {
                    if let Some(part) = self.part(at.0) {
                        part.buf = Some(buf);
                    }
                }
                Target::Read { slot, at } if is_read => {
                    self.brought.push(Brought { slot, at: at.0, bytes: OwnBuf::Open(buf) });
                }
                Target::Read { .. } | Target::Scratch { .. } => {}
            }
        }
    }

    /// Adds the slices of a plan's write.
    ///
    /// # Panics
    /// When the memory lacks them. This is after the commit: an error would fail a sound drive
    /// because of a programming error.
    pub(super) fn add_slices(&self, plan: &Plan, write: &plan::Write, slices: &mut Slices) {
        for part in plan.write_parts(write) {
            let found = self.slices(part.from, part.len, slices);
            assert!(found.is_some(), "the plan of {} writes data not in memory", plan.stripe());
        }
    }

    /// The bytes of a source, in place.
    pub(crate) fn lying(&self, source: Source, len: usize) -> Result<Lying<'_>, IoError> {
        let missing = IoError::new(IoErrorKind::Invalid);
        let bytes = match source {
            Source::Zero => None,
            Source::Host { at } => {
                if let Some(payload) = &self.payload {
                    return first_of(payload.parts(at.0, len as u64), len).ok_or(missing);
                }
                let part = self.parts.iter().find(|part| {
                    part.at <= at.0 && at.0 + len as u64 <= part.at + part.len && part.buf.is_some()
                });
                let part = part.ok_or(missing)?;
                let skip = (at.0 - part.at) as usize;
                part.buf.as_ref().map(|buf| &buf.bytes()[skip..skip + len])
            }
            Source::Cached { role, at } => {
                let payload = self.payload.as_ref().ok_or(missing)?;
                return first_of(payload.cached_parts(role, at.0, len as u64), len).ok_or(missing);
            }
            Source::Read { slot, at } => {
                let brought = self.find_brought(slot, at.0, len as u64).ok_or(missing)?;
                let skip = (at.0 - brought.at) as usize;
                brought.bytes.solid().map(|bytes| &bytes[skip..skip + len])
            }
            Source::Scratch { slot, at } => {
                let scratch = self.scratch.get(usize::from(slot.0)).ok_or(missing)?;
                scratch.solid().map(|bytes| &bytes[at.0 as usize..][..len])
            }
        };
        Ok(bytes.map_or(Lying::Zero, Lying::Bytes))
    }

    fn find_brought(&self, slot: ReadSlot, at: u64, len: u64) -> Option<&Brought> {
        self.brought.iter().find(|brought| {
            brought.slot == slot
                && brought.at <= at
                && at + len <= brought.at + brought.bytes.len().0
        })
    }

    /// The read's own buffer that holds position `at` of a read, and the offset in it.
    pub(crate) fn own_buffer(&self, slot: ReadSlot, at: u64) -> Option<(usize, u64)> {
        let index = self.brought.iter().position(|brought| {
            brought.slot == slot && brought.at <= at && at < brought.at + brought.bytes.len().0
        })?;
        Some((index, at - self.brought[index].at))
    }

    /// A source as slices to write; several if the payload or the cached data lies in several.
    pub(crate) fn slices(&self, source: Source, len: ByteCount, into: &mut Slices) -> Option<()> {
        into.push(match source {
            Source::Zero => Slice::zero(len),
            Source::Host { at } => {
                return cut_all(self.payload.as_ref()?.parts(at.0, len.0), len, into);
            }
            Source::Cached { role, at } => {
                return cut_all(self.payload.as_ref()?.cached_parts(role, at.0, len.0), len, into);
            }
            Source::Read { slot, at } => {
                let brought = self.find_brought(slot, at.0, len.0)?;
                brought.bytes.cut(ByteCount(at.0 - brought.at), len)?
            }
            Source::Scratch { slot, at } => {
                self.scratch.get(usize::from(slot.0))?.cut(ByteCount(at.0), len)?
            }
        });
        Some(())
    }
}
