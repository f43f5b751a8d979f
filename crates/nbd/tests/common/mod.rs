//! Helpers of the tests: an export, hexadecimal bytes, and both sides in one process.
#![allow(dead_code, reason = "each test file uses its own part")]

use nbd::memory::MemoryServer;
use nbd::{
    BlockSizes, ClientHandshake, ClientOptions, ClientStream, Command, CommandFlags, Cookie,
    ExportFlags, ExportInfo, Extent, Failure, Negotiated, ReplyEvent, ReplyStyle,
};

/// Parses hexadecimal digits; spaces and line ends are ignored, quoted text is literal.
pub fn hex(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, part) in text.split('\'').enumerate() {
        if index % 2 == 1 {
            bytes.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<char> = part.chars().filter(|digit| !digit.is_whitespace()).collect();
        assert!(digits.len().is_multiple_of(2), "half a byte in {part:?}");
        for pair in digits.chunks(2) {
            bytes.push(u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap());
        }
    }
    bytes
}

pub const EVERYTHING: ExportFlags = ExportFlags {
    read_only: false,
    flush: true,
    fua: true,
    rotational: true,
    trim: true,
    write_zeroes: true,
    fast_zero: true,
    cache: true,
    multi_conn: true,
    df: true,
};

/// An export of 1 MiB with all features.
pub fn export() -> ExportInfo {
    ExportInfo {
        name: "disk".to_owned(),
        description: "spare".to_owned(),
        size_bytes: 1 << 20,
        flags: EVERYTHING,
        block_sizes: BlockSizes { minimum_bytes: 1, preferred_bytes: 4096, maximum_bytes: 1 << 18 },
        base_allocation: true,
    }
}

pub fn negotiated(style: ReplyStyle) -> Negotiated {
    Negotiated { export: export(), style, base_allocation: style != ReplyStyle::Simple }
}

/// The result of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub result: Result<(), Failure>,
    pub data: Vec<u8>,
    pub extents: Vec<Extent>,
}

/// A client and a server in one process; messages pass in fragments of `fragment` bytes.
pub struct Pair {
    pub server: MemoryServer,
    pub client: ClientStream,
    pub fragment: usize,
}

impl Pair {
    pub fn connect(
        options: ClientOptions,
        info: ExportInfo,
        content: Vec<u8>,
        fragment: usize,
    ) -> nbd::Result<Pair> {
        let mut to_client = Vec::new();
        let mut server = MemoryServer::start(info, content, &mut to_client);
        let mut handshake = ClientHandshake::new(options)?;
        loop {
            assert!(!to_client.is_empty(), "both sides wait");
            let mut to_server = Vec::new();
            let mut connected = None;
            for part in std::mem::take(&mut to_client).chunks(fragment) {
                let mut rest = part;
                while !rest.is_empty() {
                    assert!(connected.is_none(), "the server sent an unexpected message");
                    let step = handshake.receive(rest, &mut to_server)?;
                    rest = &rest[step.consumed..];
                    connected = step.event;
                }
            }
            for part in to_server.chunks(fragment) {
                server.receive(part, &mut to_client)?;
            }
            if let Some(connected) = connected {
                return Ok(Pair { server, client: ClientStream::new(connected, 4), fragment });
            }
        }
    }

    pub fn request(
        &mut self,
        command: Command,
        flags: CommandFlags,
        offset: u64,
        length: u64,
        payload: &[u8],
    ) -> nbd::Result<Outcome> {
        let (cookie, header) = self.client.begin(command, flags, offset, length)?;
        let mut to_client = Vec::new();
        for part in [header.as_ref(), payload].concat().chunks(self.fragment) {
            assert!(self.server.receive(part, &mut to_client)?);
        }
        let mut outcome =
            Outcome { result: Ok(()), data: vec![0xee; length as usize], extents: Vec::new() };
        let mut done = false;
        for part in to_client.chunks(self.fragment) {
            done |= self.hear(part, cookie, &mut outcome)?;
        }
        assert!(done, "{command:?} was not answered");
        if command != Command::Read || outcome.result.is_err() {
            outcome.data.clear();
        }
        Ok(outcome)
    }

    fn hear(
        &mut self,
        mut input: &[u8],
        expected: Cookie,
        outcome: &mut Outcome,
    ) -> nbd::Result<bool> {
        loop {
            let step = self.client.receive(input)?;
            input = &input[step.consumed..];
            match step.event {
                None => {
                    assert!(input.is_empty());
                    return Ok(false);
                }
                Some(ReplyEvent::Payload(run)) => {
                    assert_eq!(run.cookie, expected);
                    let count = input.len().min(run.left_bytes as usize);
                    let at = run.position_bytes as usize;
                    outcome.data[at..at + count].copy_from_slice(&input[..count]);
                    self.client.payload_taken(count)?;
                    input = &input[count..];
                }
                Some(ReplyEvent::Zeroes { cookie, position_bytes, length_bytes }) => {
                    assert_eq!(cookie, expected);
                    let at = position_bytes as usize;
                    outcome.data[at..at + length_bytes as usize].fill(0);
                }
                Some(ReplyEvent::Extents { cookie, extents }) => {
                    assert_eq!(cookie, expected);
                    outcome.extents = extents;
                }
                Some(ReplyEvent::Done { cookie, result }) => {
                    assert_eq!(cookie, expected);
                    outcome.result = result;
                    return Ok(true);
                }
            }
        }
    }
}
