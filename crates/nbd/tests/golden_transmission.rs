//! Requests and replies byte by byte, taken from the protocol's description, independent of this
//! crate's encoder: the output of the server's encoder, and the events of the client's parser.

mod common;

use common::{export, hex, negotiated};
use nbd::{
    BlockSizes, ClientStream, Command, CommandFlags, Connected, Errno, Extent, Failure, Replies,
    ReplyEvent, ReplyStyle, Request, RequestEvent, RequestStream,
};

const STYLES: [ReplyStyle; 3] = [ReplyStyle::Simple, ReplyStyle::Structured, ReplyStyle::Extended];

fn request(command: Command, offset_bytes: u64, length_bytes: u64) -> Request {
    Request { command, flags: CommandFlags::NONE, cookie: 5 << 32 | 6, offset_bytes, length_bytes }
}

fn replies(style: ReplyStyle) -> Replies {
    Replies::new(&negotiated(style))
}

#[test]
fn requests_are_read_from_their_28_or_32_bytes() {
    let mut stream = RequestStream::new(negotiated(ReplyStyle::Structured));
    let input = hex("25609513 0001 0001 0000000500000006 0000000000001000 00000002 6162
                     25609513 0000 0003 0000000000000007 0000000000000000 00000000");
    let step = stream.receive(&input).unwrap();
    let write = Request { flags: CommandFlags::FUA, ..request(Command::Write, 4096, 2) };
    assert_eq!((step.consumed, step.event), (28, Some(RequestEvent::Request(write))));
    assert_eq!((stream.payload_left(), stream.want_bytes()), (2, 2));
    let step = stream.receive(&input[28..]).unwrap();
    assert_eq!((step.consumed, step.event), (0, Some(RequestEvent::Payload { left_bytes: 2 })));
    assert!(stream.payload_taken(3).is_err());
    stream.payload_taken(2).unwrap();
    let step = stream.receive(&input[30..]).unwrap();
    let flush = Request { cookie: 7, ..request(Command::Flush, 0, 0) };
    assert_eq!((step.consumed, step.event), (28, Some(RequestEvent::Request(flush))));

    let mut stream = RequestStream::new(negotiated(ReplyStyle::Extended));
    let input = hex("21e41c71 0020 0001 0000000500000006 0000000000001000 0000000000000002 6162");
    let step = stream.receive(&input).unwrap();
    let write = request(Command::Write, 4096, 2);
    assert_eq!((step.consumed, step.event), (32, Some(RequestEvent::Request(write))));
    assert_eq!(stream.payload_left(), 2);
}

#[test]
fn a_wrong_magic_loses_the_framing_for_good() {
    for (style, magic) in [
        (ReplyStyle::Simple, "67446698"),
        (ReplyStyle::Structured, "21e41c71"),
        (ReplyStyle::Extended, "25609513"),
    ] {
        let mut stream = RequestStream::new(negotiated(style));
        let input = [hex(magic), vec![0; 28]].concat();
        assert_eq!(stream.receive(&input).unwrap_err().kind, nbd::ErrorKind::FramingLost);
        assert_eq!(stream.receive(&input).unwrap_err().kind, nbd::ErrorKind::Usage);
    }
}

#[test]
fn success_without_data() {
    let to = request(Command::Write, 4096, 2).reply_to();
    for (style, bytes) in [
        (ReplyStyle::Simple, "67446698 00000000 0000000500000006"),
        (ReplyStyle::Structured, "67446698 00000000 0000000500000006"),
        (
            ReplyStyle::Extended,
            "6e8a278c 0001 0000 0000000500000006 0000000000001000 0000000000000000",
        ),
    ] {
        assert_eq!(replies(style).done(to).as_ref(), hex(bytes), "{style:?}");
    }
}

#[test]
fn a_read_is_one_header_in_front_of_its_data() {
    let read = request(Command::Read, 4096, 512);
    for (style, bytes) in [
        (ReplyStyle::Simple, "67446698 00000000 0000000500000006"),
        (ReplyStyle::Structured, "668e33ef 0001 0001 0000000500000006 00000208 0000000000001000"),
        (
            ReplyStyle::Extended,
            "6e8a278c 0001 0001 0000000500000006 0000000000001000 0000000000000208 \
                0000000000001000",
        ),
    ] {
        assert_eq!(replies(style).read(&read).as_ref(), hex(bytes), "{style:?}");
    }
}

#[test]
fn a_read_of_nothing_has_no_empty_data_chunk() {
    let read = request(Command::Read, 4096, 0);
    for (style, bytes) in [
        (ReplyStyle::Simple, "67446698 00000000 0000000500000006"),
        (ReplyStyle::Structured, "668e33ef 0001 0000 0000000500000006 00000000"),
        (
            ReplyStyle::Extended,
            "6e8a278c 0001 0000 0000000500000006 0000000000001000 0000000000000000",
        ),
    ] {
        assert_eq!(replies(style).read(&read).as_ref(), hex(bytes), "{style:?}");
    }
}

#[test]
fn errors_carry_their_message_where_there_is_room_for_one() {
    let to = request(Command::Read, 4096, 512).reply_to();
    for (style, bytes) in [
        (ReplyStyle::Simple, "67446698 00000005 0000000500000006"),
        (
            ReplyStyle::Structured,
            "668e33ef 0001 8001 0000000500000006 00000009 00000005 0003 'bad'",
        ),
        (
            ReplyStyle::Extended,
            "6e8a278c 0001 8001 0000000500000006 0000000000001000 0000000000000009 00000005 0003 \
                'bad'",
        ),
    ] {
        assert_eq!(replies(style).error(to, Errno::Io, "bad").as_ref(), hex(bytes), "{style:?}");
    }
    let long = "ü".repeat(200);
    let reply = replies(ReplyStyle::Extended).error(to, Errno::Io, &long);
    assert_eq!(reply.as_ref().len(), 32 + 6 + 120, "a long message is cut");
    assert!(std::str::from_utf8(&reply.as_ref()[38..]).is_ok(), "between characters");
    let chunks = replies(ReplyStyle::Extended).chunks().unwrap();
    assert_eq!(chunks.error_at(to, Errno::Io, 7, &long, true).as_ref().len(), 32 + 6 + 120 + 8);
}

#[test]
fn chunks_of_a_read_in_pieces() {
    assert!(replies(ReplyStyle::Simple).chunks().is_none());
    let to = request(Command::Read, 4096, 1024).reply_to();
    let structured = replies(ReplyStyle::Structured).chunks().unwrap();
    let data = structured.data(to, 4096, 512, false);
    assert_eq!(data.as_ref(), hex("668e33ef 0000 0001 0000000500000006 00000208 0000000000001000"));
    let hole = structured.hole(to, 4608, 512, true);
    assert_eq!(
        hole.as_ref(),
        hex("668e33ef 0001 0002 0000000500000006 0000000c 0000000000001200 00000200")
    );
    let error = structured.error_at(to, Errno::Io, 4700, "bad", false);
    assert_eq!(
        error.as_ref(),
        hex("668e33ef 0000 8002 0000000500000006 00000011 00000005 0003 'bad' 000000000000125c")
    );
    assert_eq!(structured.end(to).as_ref(), hex("668e33ef 0001 0000 0000000500000006 00000000"));
    let extended = replies(ReplyStyle::Extended).chunks().unwrap();
    let hole = extended.hole(to, 4608, 512, false);
    let expected = "6e8a278c 0000 0002 0000000500000006 0000000000001000 000000000000000c
                    0000000000001200 00000200";
    assert_eq!(hole.as_ref(), hex(expected));
}

#[test]
fn block_status_has_32_or_64_bits_per_extent() {
    let status = request(Command::BlockStatus, 4096, 2048);
    let extents = [
        Extent::data(512),
        Extent::hole(1024),
        Extent { length_bytes: 9999, hole: false, zero: true },
    ];
    let mut output = Vec::new();
    replies(ReplyStyle::Structured).chunks().unwrap().block_status(&status, &extents, &mut output);
    let expected = "668e33ef 0001 0005 0000000500000006 0000001c 00000001
                    00000200 00000000 00000400 00000003 00000200 00000002";
    assert_eq!(output, hex(expected));
    output.clear();
    replies(ReplyStyle::Extended).chunks().unwrap().block_status(&status, &extents, &mut output);
    let expected =
        "6e8a278c 0001 0006 0000000500000006 0000000000001000 0000000000000038 00000001 00000003
                    0000000000000200 0000000000000000 0000000000000400 0000000000000003
                    0000000000000200 0000000000000002";
    assert_eq!(output, hex(expected));
}

#[test]
fn block_status_is_joined_cut_and_never_empty() {
    let chunks = replies(ReplyStyle::Structured).chunks().unwrap();
    let whole = request(Command::BlockStatus, 0, 1 << 20);
    let one = Request { flags: CommandFlags::REQ_ONE, ..whole };
    let many: Vec<Extent> =
        (0..10_000).map(|at| if at % 2 == 0 { Extent::data(1) } else { Extent::hole(1) }).collect();
    let joinable =
        [Extent::data(0), Extent::hole(5), Extent::hole(0), Extent::hole(7), Extent::data(1)];
    let cases: [(&Request, &[Extent], usize, &str); 5] = [
        (&whole, &[], 1, "00100000 00000000"),
        (&whole, &[Extent::data(0)], 1, "00100000 00000000"),
        (&whole, &joinable, 2, "0000000c 00000003"),
        (&one, &joinable, 1, "0000000c 00000003"),
        (&whole, &many, 4096, "00000001 00000000"),
    ];
    for (request, extents, count, first) in cases {
        let mut output = Vec::new();
        chunks.block_status(request, extents, &mut output);
        assert_eq!(output.len(), 20 + 4 + 8 * count);
        assert_eq!(output[24..32], hex(first));
    }
}

fn client(style: ReplyStyle) -> ClientStream {
    let connected = Connected {
        size_bytes: export().size_bytes,
        flags: export().flags,
        style,
        block_sizes: BlockSizes::DEFAULT,
        base_allocation: Some(7),
        name: None,
        description: String::new(),
    };
    ClientStream::new(connected, 4)
}

/// The events for `input`, with the data of payloads, and a final error kind, if any.
fn heard(client: &mut ClientStream, input: &str) -> Vec<String> {
    let input = hex(input);
    let mut rest = input.as_slice();
    let mut events = Vec::new();
    loop {
        match client.receive(rest) {
            Ok(step) => {
                rest = &rest[step.consumed..];
                match step.event {
                    None => return events,
                    Some(ReplyEvent::Payload(run)) => {
                        let count = rest.len().min(run.left_bytes as usize);
                        let text = String::from_utf8_lossy(&rest[..count]);
                        events.push(format!(
                            "{} at {}: {text}",
                            run.cookie.slot(),
                            run.position_bytes
                        ));
                        client.payload_taken(count).unwrap();
                        rest = &rest[count..];
                    }
                    Some(ReplyEvent::Zeroes { cookie, position_bytes, length_bytes }) => {
                        events.push(format!(
                            "{} at {position_bytes}: {length_bytes} zeroes",
                            cookie.slot()
                        ));
                    }
                    Some(ReplyEvent::Extents { cookie, extents }) => {
                        let list: Vec<_> =
                            extents.iter().map(|e| (e.length_bytes, e.status())).collect();
                        events.push(format!("{} extents {list:?}", cookie.slot()));
                    }
                    Some(ReplyEvent::Done { cookie, result: Ok(()) }) => {
                        events.push(format!("{} done", cookie.slot()));
                    }
                    Some(ReplyEvent::Done {
                        cookie,
                        result: Err(Failure { errno, message, offset_bytes }),
                    }) => {
                        events.push(format!(
                            "{} {errno:?} {message:?} {offset_bytes:?}",
                            cookie.slot()
                        ));
                    }
                }
            }
            Err(error) => {
                events.push(format!("{:?}", error.kind));
                return events;
            }
        }
    }
}

fn begin(client: &mut ClientStream, command: Command, offset: u64, length: u64) -> Vec<u8> {
    client.begin(command, CommandFlags::NONE, offset, length).unwrap().1.as_ref().to_vec()
}

#[test]
fn a_client_sends_requests_of_28_or_32_bytes() {
    let mut compact = client(ReplyStyle::Structured);
    let (_, write) = compact.begin(Command::Write, CommandFlags::FUA, 4096, 2).unwrap();
    assert_eq!(
        write.as_ref(),
        hex("25609513 0001 0001 0000000000000000 0000000000001000 00000002")
    );
    assert_eq!(
        begin(&mut compact, Command::BlockStatus, 0, 8192),
        hex("25609513 0000 0007 0000000000000001 0000000000000000 00002000")
    );
    assert_eq!(
        compact.disconnect().unwrap().as_ref(),
        hex("25609513 0000 0002 0000000000000000 0000000000000000 00000000")
    );
    let mut extended = client(ReplyStyle::Extended);
    let (_, write) = extended.begin(Command::Write, CommandFlags::FUA, 4096, 2).unwrap();
    assert_eq!(
        write.as_ref(),
        hex("21e41c71 0021 0001 0000000000000000 0000000000001000 0000000000000002")
    );
    assert_eq!(
        extended.disconnect().unwrap().as_ref(),
        hex("21e41c71 0000 0002 0000000000000000 0000000000000000 0000000000000000")
    );
}

#[test]
fn a_client_understands_simple_replies_in_any_order() {
    let mut simple = client(ReplyStyle::Simple);
    begin(&mut simple, Command::Read, 4096, 4);
    begin(&mut simple, Command::Write, 0, 2);
    begin(&mut simple, Command::Read, 0, 2);
    assert_eq!(simple.outstanding(), 3);
    let events = heard(
        &mut simple,
        "67446698 00000000 0000000000000001
         67446698 00000000 0000000000000000 'data'
         67446698 00000005 0000000000000002",
    );
    assert_eq!(events, ["1 done", "0 at 0: data", "0 done", "2 Io \"\" None"]);
    assert_eq!(simple.outstanding(), 0);
    // The next request in a slot has another cookie.
    assert_eq!(begin(&mut simple, Command::Flush, 0, 0)[8..16], hex("0000000100000002"));
}

#[test]
fn a_client_puts_structured_chunks_in_their_place() {
    let mut structured = client(ReplyStyle::Structured);
    begin(&mut structured, Command::Read, 4096, 16);
    begin(&mut structured, Command::BlockStatus, 0, 4096);
    let events = heard(
        &mut structured,
        "668e33ef 0000 0001 0000000000000000 0000000c 000000000000100c 'late'
         668e33ef 0001 0005 0000000000000001 00000014 00000007 00000200 00000000 00000e00 00000003
         668e33ef 0000 0002 0000000000000000 0000000c 0000000000001004 00000008
         668e33ef 0000 0001 0000000000000000 0000000c 0000000000001000 'soon'
         668e33ef 0001 0000 0000000000000000 00000000",
    );
    let expected = [
        "0 at 12: late",
        "1 extents [(512, 0), (3584, 3)]",
        "1 done",
        "0 at 4: 8 zeroes",
        "0 at 0: soon",
        "0 done",
    ];
    assert_eq!(events, expected);
}

#[test]
fn a_client_understands_extended_chunks() {
    let mut extended = client(ReplyStyle::Extended);
    begin(&mut extended, Command::Read, 4096, 4);
    begin(&mut extended, Command::BlockStatus, 4096, 4096);
    begin(&mut extended, Command::Trim, 512, 512);
    let events = heard(
        &mut extended,
        "6e8a278c 0001 0001 0000000000000000 0000000000001000 000000000000000c 0000000000001000 \
         'data'
         6e8a278c 0001 0006 0000000000000001 0000000000001000 0000000000000018 00000007 00000001
             0000000100000000 0000000000000003
         6e8a278c 0001 0000 0000000000000002 0000000000000200 0000000000000000",
    );
    assert_eq!(
        events,
        ["0 at 0: data", "0 done", "1 extents [(4294967296, 3)]", "1 done", "2 done"]
    );
}

#[test]
fn a_client_reports_the_first_error_once_the_reply_is_over() {
    let mut structured = client(ReplyStyle::Structured);
    begin(&mut structured, Command::Read, 4096, 16);
    let events = heard(
        &mut structured,
        "668e33ef 0000 8002 0000000000000000 00000011 00000005 0003 'bad' 0000000000001004
         668e33ef 0000 0001 0000000000000000 0000000c 0000000000001000 'data'
         668e33ef 0001 8001 0000000000000000 00000006 00000016 0000",
    );
    assert_eq!(events, ["0 at 0: data", "0 Io \"bad\" Some(4100)"]);
    // Unknown error types and numbers fail only the request.
    begin(&mut structured, Command::Write, 0, 1);
    let events =
        heard(&mut structured, "668e33ef 0001 8077 0000000100000000 00000007 ffffffff 0000 aa");
    assert_eq!(events, ["0 Inval \"\" None"]);
}

const DATA_TWICE: &str = "668e33ef 0000 0001 0000000000000000 0000000c 0000000000001000 'data'
                  668e33ef 0000 0001 0000000000000000 0000000c 0000000000001002 'data'";

/// Replies to a read, a write and a block status request, and the client's final result.
const AGAINST_THE_RULES: &[(ReplyStyle, &str, &str)] = &[
    (ReplyStyle::Simple, "668e33ef 0001 0000 0000000000000000 00000000", "FramingLost"),
    (ReplyStyle::Extended, "67446698 00000000 0000000000000001", "FramingLost"),
    (ReplyStyle::Simple, "67446698 00000000 0000000000000003", "Protocol"), // not in flight
    (ReplyStyle::Simple, "67446698 00000000 0000000100000000", "Protocol"), // an older one
    (ReplyStyle::Structured, "67446698 00000000 0000000000000000", "Protocol"), // simple to a read
    (
        ReplyStyle::Structured,
        "668e33ef 0001 0000 0000000000000000 00000000",
        "Protocol", // nothing read
    ),
    (
        ReplyStyle::Structured,
        "668e33ef 0000 0000 0000000000000000 00000000",
        "Protocol", // not done
    ),
    (ReplyStyle::Structured, "668e33ef 0001 0001 0000000000000000 00000008 00000000", "Protocol"),
    (ReplyStyle::Structured, "668e33ef 0001 0001 0000000000000001 00000009 00000000", "Protocol"),
    (ReplyStyle::Structured, "668e33ef 0001 0003 0000000000000000 00000000", "Protocol"), // unknown
    (ReplyStyle::Structured, "668e33ef 0001 8001 0000000000000000 00000005", "Protocol"),
    (ReplyStyle::Structured, "668e33ef 0001 8001 0000000000000000 00001015", "Protocol"),
    (
        ReplyStyle::Structured,
        "668e33ef 0001 8001 0000000000000000 00000006 00000005 0001",
        "Protocol", // the message is longer than the chunk
    ),
    (
        ReplyStyle::Structured,
        "668e33ef 0001 0001 0000000000000000 0000000c 0000000000000fff",
        "Protocol", // outside of the read
    ),
    (
        ReplyStyle::Structured,
        "668e33ef 0001 0002 0000000000000000 0000000c 0000000000001000 00000000",
        "Protocol", // an empty hole
    ),
    (ReplyStyle::Structured, DATA_TWICE, "Protocol"),
    (
        ReplyStyle::Structured,
        "668e33ef 0001 0000 0000000000000002 00000000",
        "Protocol", // no extents
    ),
    (
        ReplyStyle::Structured,
        "668e33ef 0001 0005 0000000000000002 0000000c 00000008 00000200 00000000",
        "Protocol", // another context
    ),
    (
        ReplyStyle::Structured,
        "668e33ef 0001 0005 0000000000000002 0000000c 00000007 00000000 00000000",
        "Protocol", // an empty extent
    ),
    (
        ReplyStyle::Structured,
        "668e33ef 0001 0006 0000000000000002 00000018 00000007 00000001",
        "Protocol", // 64 bits without extended headers
    ),
    (
        ReplyStyle::Extended,
        "6e8a278c 0001 0006 0000000000000002 0000000000000000 0000000000000018 00000007 00000002",
        "Protocol", // two extents announced, one there
    ),
    (
        ReplyStyle::Extended,
        "6e8a278c 0001 0000 0000000000000001 0000000000000001 0000000000000000",
        "Protocol", // another offset
    ),
];

#[test]
fn a_client_hangs_up_on_replies_that_break_the_rules() {
    for &(style, input, expected) in AGAINST_THE_RULES {
        let mut client = client(style);
        begin(&mut client, Command::Read, 4096, 16);
        begin(&mut client, Command::Write, 0, 1);
        begin(&mut client, Command::BlockStatus, 0, 4096);
        let events = heard(&mut client, input);
        assert_eq!(
            events.last().map(String::as_str),
            Some(expected),
            "{style:?} {input}: {events:?}"
        );
        assert_eq!(heard(&mut client, ""), ["Usage"], "nothing is parsed afterwards");
    }
}

#[test]
fn a_client_keeps_the_first_65536_extents_of_a_reply() {
    let mut structured = client(ReplyStyle::Structured);
    begin(&mut structured, Command::BlockStatus, 0, 1 << 20);
    let header = hex("668e33ef 0001 0005 0000000000000000 00080014 00000007");
    let input = [header, hex("00000001 00000000").repeat(65538)].concat();
    let step = structured.receive(&input).unwrap();
    assert_eq!(step.consumed, input.len());
    match step.event {
        Some(ReplyEvent::Extents { extents, .. }) => {
            assert_eq!(extents, vec![Extent::data(1); 65536])
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_never_sends_what_the_server_would_reject() {
    for style in STYLES {
        let mut client = client(style);
        let mut refused = |command, flags, offset, length| {
            client.begin(command, flags, offset, length).err().map(|error| error.kind)
        };
        let none = CommandFlags::NONE;
        for (command, flags, offset, length) in [
            (Command::Read, none, 1 << 20, 1),
            (Command::Read, none, u64::MAX, 1),
            (Command::Read, none, 0, 0),
            (Command::Write, none, 0, 0),
            (Command::Read, CommandFlags::NO_HOLE, 0, 1),
            (Command::Disconnect, none, 0, 0),
            (Command::Trim, none, 0, 1 << 21),
        ] {
            assert_eq!(
                refused(command, flags, offset, length),
                Some(nbd::ErrorKind::Usage),
                "{command:?}"
            );
        }
        assert_eq!(client.outstanding(), 0);
        for _ in 0..4 {
            begin(&mut client, Command::Flush, 0, 0);
        }
        let fifth = client.begin(Command::Flush, CommandFlags::NONE, 0, 0);
        assert_eq!(fifth.err().map(|error| error.kind), Some(nbd::ErrorKind::Usage));
        assert_eq!(client.cookies().map(|cookie| cookie.slot()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}
