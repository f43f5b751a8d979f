//! A complete server with an export in memory, without sockets: an example, and the peer for tests
//! and fuzzing of clients.

use crate::error::Result;
use crate::negotiation::{ExportEntry, ExportInfo, Exports, ServerEvent, ServerHandshake};
use crate::reply::Replies;
use crate::request::Request;
use crate::request_stream::{RequestEvent, RequestStream};
use crate::types::{Command, CommandFlags, Errno, Extent, ReplyStyle};

/// A single export, by its name and as the default.
struct OneExport<'a>(&'a ExportInfo);

impl Exports for OneExport<'_> {
    fn list(&self) -> Vec<ExportEntry> {
        vec![ExportEntry { name: self.0.name.clone(), description: self.0.description.clone() }]
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        (name.is_empty() || name == self.0.name).then(|| self.0.clone())
    }
}

enum Phase {
    Handshake(Box<ServerHandshake>),
    Transmission(Box<RequestStream>),
    Over,
}

/// One connection to a server with an export in memory that replies immediately.
pub struct MemoryServer {
    info: ExportInfo,
    content: Vec<u8>,
    phase: Phase,
    /// The write in progress, and its received payload.
    writing: Option<(Request, Vec<u8>)>,
    /// Offsets at which reads and writes fail with an input/output error.
    bad_bytes: Vec<u64>,
    piece_bytes: usize,
}

impl MemoryServer {
    /// A new connection; `output` has the server's greeting. The export's size is that of
    /// `content`; the size in `info` is ignored.
    pub fn start(mut info: ExportInfo, content: Vec<u8>, output: &mut Vec<u8>) -> MemoryServer {
        info.size_bytes = content.len() as u64;
        let phase = Phase::Handshake(Box::new(ServerHandshake::start(output)));
        MemoryServer {
            info,
            content,
            phase,
            writing: None,
            bad_bytes: Vec::new(),
            piece_bytes: usize::MAX,
        }
    }

    /// Sets the bytes whose reads and writes fail with an input/output error.
    pub fn set_bad_bytes(&mut self, offsets: Vec<u64>) {
        self.bad_bytes = offsets;
    }

    /// Sets the largest chunk of reads: chunks are sent last first, and zeroes as holes, if the
    /// client's flags and the style permit.
    pub fn set_piece_bytes(&mut self, piece_bytes: usize) {
        self.piece_bytes = piece_bytes.max(1);
    }

    /// The current content of the export.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Processes bytes from the client and appends the replies. False: close the connection.
    ///
    /// # Errors
    /// The client violated the protocol: send the output, then close.
    pub fn receive(&mut self, mut input: &[u8], output: &mut Vec<u8>) -> Result<bool> {
        loop {
            let consumed = match &mut self.phase {
                Phase::Over => return Ok(false),
                Phase::Handshake(handshake) => {
                    let step = handshake.receive(input, &OneExport(&self.info), output)?;
                    match step.event {
                        Some(ServerEvent::Enter(negotiated)) => {
                            self.phase =
                                Phase::Transmission(Box::new(RequestStream::new(*negotiated)));
                        }
                        // It never offers TLS.
                        Some(ServerEvent::Abort | ServerEvent::Encrypt) => self.phase = Phase::Over,
                        None if step.consumed == input.len() => return Ok(true),
                        None => {}
                    }
                    step.consumed
                }
                Phase::Transmission(stream) => {
                    let step = stream.receive(input)?;
                    let replies = Replies::new(stream.negotiated());
                    match step.event {
                        None => return Ok(true),
                        Some(RequestEvent::Disconnect) => self.phase = Phase::Over,
                        Some(RequestEvent::Rejected(rejected)) => {
                            let reply =
                                replies.error(rejected.reply_to, rejected.errno, rejected.message);
                            output.extend_from_slice(reply.as_ref());
                        }
                        Some(RequestEvent::Request(request)) if request.payload_bytes() > 0 => {
                            self.writing = Some((request, Vec::new()));
                        }
                        Some(RequestEvent::Request(request)) => {
                            self.execute(replies, &request, &[], output)
                        }
                        Some(RequestEvent::Payload { left_bytes }) => {
                            let rest = &input[step.consumed..];
                            let taken = rest.len().min(left_bytes as usize);
                            stream.payload_taken(taken)?;
                            let complete = stream.payload_left() == 0;
                            self.payload(replies, &rest[..taken], complete, output);
                            input = &rest[taken..];
                            continue;
                        }
                    }
                    step.consumed
                }
            };
            input = &input[consumed..];
        }
    }

    fn payload(&mut self, replies: Replies, bytes: &[u8], complete: bool, output: &mut Vec<u8>) {
        if let Some((_, payload)) = &mut self.writing {
            payload.extend_from_slice(bytes);
        }
        if complete && let Some((request, payload)) = self.writing.take() {
            self.execute(replies, &request, &payload, output);
        }
    }

    fn execute(
        &mut self,
        replies: Replies,
        request: &Request,
        payload: &[u8],
        output: &mut Vec<u8>,
    ) {
        let to = request.reply_to();
        // The stream has checked the range against the export's size.
        let range =
            request.offset_bytes as usize..(request.offset_bytes + request.length_bytes) as usize;
        let bad = self.bad_bytes.iter().copied().find(|bad| range.contains(&(*bad as usize)));
        match (request.command, bad) {
            (Command::Read | Command::Write, Some(bad)) => {
                let error = match replies.chunks() {
                    Some(chunks) => chunks.error_at(to, Errno::Io, bad, "a bad byte", true),
                    None => replies.error(to, Errno::Io, "a bad byte"),
                };
                return output.extend_from_slice(error.as_ref());
            }
            (Command::Read, None) => return self.read(replies, request, output),
            (Command::BlockStatus, _) => {
                if let Some(chunks) = replies.chunks() {
                    chunks.block_status(request, &extents(&self.content[range]), output);
                }
                return;
            }
            (Command::Write, None) => self.content[range].copy_from_slice(payload),
            (Command::WriteZeroes, _) => {
                if request.flags.contains(CommandFlags::FAST_ZERO | CommandFlags::NO_HOLE) {
                    let error =
                        replies.error(to, Errno::NotSup, "allocated zeroes are not fast here");
                    return output.extend_from_slice(error.as_ref());
                }
                self.content[range].fill(0);
            }
            (Command::Trim, _) => self.content[range].fill(0),
            (Command::Flush | Command::Cache | Command::Disconnect, _) => {}
        }
        output.extend_from_slice(replies.done(to).as_ref());
    }

    fn read(&self, replies: Replies, request: &Request, output: &mut Vec<u8>) {
        let (start, length) = (request.offset_bytes as usize, request.length_bytes as usize);
        let data = &self.content[start..start + length];
        let whole = length <= self.piece_bytes || request.flags.contains(CommandFlags::DF);
        let chunks = match replies.chunks() {
            Some(chunks) if !whole => chunks,
            _ => {
                output.extend_from_slice(replies.read(request).as_ref());
                return output.extend_from_slice(data);
            }
        };
        let to = request.reply_to();
        for (index, piece) in data.chunks(self.piece_bytes).enumerate().rev() {
            let offset = (start + index * self.piece_bytes) as u64;
            let piece_length = piece.len() as u32;
            if piece.iter().all(|byte| *byte == 0) {
                output.extend_from_slice(chunks.hole(to, offset, piece_length, false).as_ref());
            } else {
                output.extend_from_slice(chunks.data(to, offset, piece_length, false).as_ref());
                output.extend_from_slice(piece);
            }
        }
        output.extend_from_slice(chunks.end(to).as_ref());
    }

    /// The negotiated style, after the handshake.
    pub fn style(&self) -> Option<ReplyStyle> {
        match &self.phase {
            Phase::Transmission(stream) => Some(stream.negotiated().style),
            Phase::Handshake(_) | Phase::Over => None,
        }
    }
}

/// Extents of `content` with zeroes as holes, at a granularity of 512 bytes.
fn extents(content: &[u8]) -> Vec<Extent> {
    content
        .chunks(512)
        .map(|piece| match piece.iter().all(|byte| *byte == 0) {
            true => Extent::hole(piece.len() as u64),
            false => Extent::data(piece.len() as u64),
        })
        .collect()
}
