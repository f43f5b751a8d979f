//! Entry points for fuzzers, and seeds for their corpora.
//!
//! The first byte of an input determines the fragmentation of the rest. Both entry points process
//! the rest twice, whole and fragmented, and panic if the results differ: each finding of a fuzzer
//! is a bug.

use crate::client::{ClientStream, ReplyEvent};
use crate::memory::MemoryServer;
use crate::negotiation::{ClientHandshake, ClientOptions, ExportInfo};
use crate::types::{BlockSizes, Command, CommandFlags, ExportFlags};

/// An export of 8 KiB, half of it zeroes, with all features.
fn example() -> (ExportInfo, Vec<u8>) {
    let flags = ExportFlags {
        read_only: false,
        flush: true,
        fua: true,
        rotational: false,
        trim: true,
        write_zeroes: true,
        fast_zero: true,
        cache: true,
        multi_conn: true,
        df: true,
    };
    let info = ExportInfo {
        name: "disk".to_owned(),
        description: "an example".to_owned(),
        size_bytes: 0,
        flags,
        block_sizes: BlockSizes { minimum_bytes: 1, preferred_bytes: 512, maximum_bytes: 4096 },
        base_allocation: true,
    };
    let content = (0..8192u32).map(|at| if at < 4096 { 0 } else { at as u8 }).collect();
    (info, content)
}

/// Splits `bytes` into fragments whose lengths follow from `pattern`; with zero, into one.
fn fragments(pattern: u8, bytes: &[u8]) -> Vec<&[u8]> {
    if pattern == 0 {
        return vec![bytes];
    }
    let mut rest = bytes;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let length = (usize::from(pattern) + parts.len() * 7) % 33 + 1;
        let (head, tail) = rest.split_at(length.min(rest.len()));
        parts.push(head);
        rest = tail;
    }
    parts
}

/// Sends hostile bytes to a server: handshake, requests, payloads.
pub fn fuzz_server(data: &[u8]) {
    let Some((pattern, bytes)) = data.split_first() else { return };
    let run = |pattern| {
        let (info, content) = example();
        let mut output = Vec::new();
        let mut server = MemoryServer::start(info, content, &mut output);
        let mut end = "more".to_owned();
        for part in fragments(pattern, bytes) {
            match server.receive(part, &mut output) {
                Ok(true) => {}
                Ok(false) => {
                    end = "closed".to_owned();
                    break;
                }
                Err(error) => {
                    end = error.to_string();
                    break;
                }
            }
        }
        (server.content().to_vec(), output, end)
    };
    assert!(run(0) == run(*pattern), "the server's behaviour depends on the fragmentation");
}

/// Sends hostile bytes to a client: handshake, then replies to fixed requests.
pub fn fuzz_client(data: &[u8]) {
    let Some((pattern, bytes)) = data.split_first() else { return };
    assert!(
        drive_client(&fragments(0, bytes)) == drive_client(&fragments(*pattern, bytes)),
        "the client's behaviour depends on the fragmentation"
    );
}

/// The requests that the example client sends when connected.
const REQUESTS: [(Command, CommandFlags, u64, u64); 8] = [
    (Command::Read, CommandFlags::NONE, 3072, 2048),
    (Command::Write, CommandFlags::FUA, 512, 4),
    (Command::Flush, CommandFlags::NONE, 0, 0),
    (Command::Trim, CommandFlags::NONE, 4096, 512),
    (Command::Cache, CommandFlags::NONE, 0, 4096),
    (Command::WriteZeroes, CommandFlags::NO_HOLE, 5000, 100),
    (Command::BlockStatus, CommandFlags::NONE, 0, 8192),
    (Command::Read, CommandFlags::DF, 0, 1024),
];

/// The result of a client's run: all sent bytes and all events.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    sent: Vec<u8>,
    data: Vec<(usize, u64, u8)>,
    events: Vec<String>,
}

enum Side {
    Handshake(Box<ClientHandshake>),
    Stream(Box<ClientStream>),
}

fn drive_client(parts: &[&[u8]]) -> Heard {
    let mut heard = Heard::default();
    let Ok(handshake) = ClientHandshake::new(ClientOptions::new("disk")) else { return heard };
    let mut side = Side::Handshake(Box::new(handshake));
    for part in parts {
        if let Err(error) = hear(&mut side, part, &mut heard) {
            heard.events.push(error.to_string());
            break;
        }
    }
    heard
}

fn hear(side: &mut Side, mut input: &[u8], heard: &mut Heard) -> crate::Result<()> {
    loop {
        match side {
            Side::Handshake(handshake) => {
                let step = handshake.receive(input, &mut heard.sent)?;
                input = &input[step.consumed..];
                if let Some(connected) = step.event {
                    heard.events.push(format!("{connected:?}"));
                    let mut stream = ClientStream::new(connected, REQUESTS.len() as u32);
                    begin_requests(&mut stream, heard);
                    *side = Side::Stream(Box::new(stream));
                } else if input.is_empty() {
                    return Ok(());
                }
            }
            Side::Stream(stream) => {
                let step = stream.receive(input)?;
                input = &input[step.consumed..];
                match step.event {
                    None => return Ok(()),
                    Some(ReplyEvent::Payload(run)) => {
                        let count = input.len().min(run.left_bytes as usize);
                        for (at, byte) in input[..count].iter().enumerate() {
                            heard.data.push((
                                run.cookie.slot(),
                                run.position_bytes + at as u64,
                                *byte,
                            ));
                        }
                        input = &input[count..];
                        stream.payload_taken(count)?;
                    }
                    Some(event) => heard.events.push(format!("{event:?}")),
                }
            }
        }
    }
}

fn begin_requests(stream: &mut ClientStream, heard: &mut Heard) {
    for (command, flags, offset, length) in REQUESTS {
        match stream.begin(command, flags, offset, length) {
            Ok((_, header)) => {
                heard.sent.extend_from_slice(header.as_ref());
                if command == Command::Write {
                    heard.sent.extend_from_slice(&[7; 4]);
                }
            }
            Err(error) => heard.events.push(error.to_string()),
        }
    }
}

/// Seeds for [`fuzz_server`] and [`fuzz_client`]: both sides of whole sessions, one per style, with
/// reads in one chunk and several.
pub fn seeds() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut for_server, mut for_client) = (Vec::new(), Vec::new());
    for (extended, structured, piece_bytes) in [
        (false, false, 4096),
        (false, true, 4096),
        (false, true, 700),
        (true, true, 4096),
        (true, true, 700),
    ] {
        let options = ClientOptions { extended, structured, ..ClientOptions::new("disk") };
        let (from_client, from_server) = converse(options, piece_bytes);
        for (corpus, bytes) in [(&mut for_server, from_client), (&mut for_client, from_server)] {
            corpus.push([&[5], bytes.as_slice()].concat());
        }
    }
    (for_server, for_client)
}

/// A session of the example client and the example server: the bytes sent by each.
fn converse(options: ClientOptions, piece_bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let (info, content) = example();
    let mut from_server = Vec::new();
    let mut server = MemoryServer::start(info, content, &mut from_server);
    server.set_piece_bytes(piece_bytes);
    let Ok(handshake) = ClientHandshake::new(options) else { return (Vec::new(), from_server) };
    let mut side = Side::Handshake(Box::new(handshake));
    let mut heard = Heard::default();
    let (mut heard_bytes, mut said_bytes) = (0, 0);
    while heard_bytes < from_server.len() || said_bytes < heard.sent.len() {
        let fresh = from_server[heard_bytes..].to_vec();
        heard_bytes = from_server.len();
        let said = hear(&mut side, &fresh, &mut heard);
        let fresh = heard.sent[said_bytes..].to_vec();
        said_bytes = heard.sent.len();
        if said.is_err() || server.receive(&fresh, &mut from_server).is_err() {
            break;
        }
    }
    (heard.sent, from_server)
}
