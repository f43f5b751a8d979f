//! Which requests a server processes, and which error it reports for the others.

mod common;

use common::{hex, negotiated};
use nbd::constants as c;
use nbd::{
    BlockSizes, Command, Errno, ErrorKind, ExportFlags, Judged, Negotiated, ReplyStyle,
    RequestEvent, RequestHeader, RequestStream, judge,
};

const MIB: u64 = 1 << 20;
const STYLES: [ReplyStyle; 3] = [ReplyStyle::Simple, ReplyStyle::Structured, ReplyStyle::Extended];

fn header(command: u16, flags: u16, offset_bytes: u64, length_bytes: u64) -> RequestHeader {
    RequestHeader { flags, command, cookie: 9, offset_bytes, length_bytes }
}

/// The error for a request, if any, and the bytes to skip.
fn verdict(rules: &Negotiated, header: RequestHeader) -> Result<(), (Errno, u32)> {
    let mut header = header;
    if rules.style == ReplyStyle::Extended && header.command == c::CMD_WRITE {
        header.flags |= c::CMD_FLAG_PAYLOAD_LEN;
    }
    match judge(&header, rules).unwrap() {
        Judged::Request(request) => {
            assert_eq!(request.command.to_wire(), header.command);
            assert_eq!(request.flags.0, header.flags & !c::CMD_FLAG_PAYLOAD_LEN);
            assert_eq!((request.cookie, request.offset_bytes), (9, header.offset_bytes));
            Ok(())
        }
        Judged::Rejected(rejected) => {
            assert_eq!(rejected.reply_to.cookie, 9);
            Err((rejected.errno, rejected.skip_bytes))
        }
        Judged::Disconnect => panic!("not a disconnect"),
    }
}

#[test]
fn a_range_beyond_the_end_is_no_space_for_writers_and_invalid_for_others() {
    for style in STYLES {
        let rules = negotiated(style);
        for (command, errno, skip) in [
            (c::CMD_READ, Errno::Inval, 0),
            (c::CMD_WRITE, Errno::NoSpc, 2),
            (c::CMD_TRIM, Errno::Inval, 0),
            (c::CMD_CACHE, Errno::Inval, 0),
            (c::CMD_WRITE_ZEROES, Errno::NoSpc, 0),
        ] {
            for offset in [MIB - 1, MIB, u64::MAX - 1, u64::MAX] {
                assert_eq!(
                    verdict(&rules, header(command, 0, offset, 2)),
                    Err((errno, skip)),
                    "{command}"
                );
            }
            assert_eq!(verdict(&rules, header(command, 0, MIB - 2, 2)), Ok(()));
        }
    }
}

#[test]
fn a_read_only_export_permits_nothing_that_changes_it() {
    let mut rules = negotiated(ReplyStyle::Structured);
    rules.export.flags.read_only = true;
    for command in Command::ALL.into_iter().filter(|command| *command != Command::Disconnect) {
        let length = if command == Command::Flush { 0 } else { 512 };
        let skip = if command == Command::Write { 512 } else { 0 };
        let expected = if command.modifies() { Err((Errno::Perm, skip)) } else { Ok(()) };
        assert_eq!(
            verdict(&rules, header(command.to_wire(), 0, 0, length)),
            expected,
            "{command:?}"
        );
    }
}

#[test]
fn what_was_not_offered_is_invalid() {
    let mut rules = negotiated(ReplyStyle::Structured);
    rules.export.flags = ExportFlags::default();
    rules.base_allocation = false;
    for command in
        [Command::Flush, Command::Trim, Command::Cache, Command::WriteZeroes, Command::BlockStatus]
    {
        let length = if command == Command::Flush { 0 } else { 512 };
        let got = verdict(&rules, header(command.to_wire(), 0, 0, length));
        assert_eq!(got, Err((Errno::Inval, 0)), "{command:?}");
    }
    for number in [8, 9, 255, u16::MAX] {
        assert_eq!(verdict(&rules, header(number, 0, 0, 512)), Err((Errno::Inval, 0)));
    }
}

#[test]
fn each_command_has_its_own_flags() {
    let all = [
        (c::CMD_READ, c::CMD_FLAG_DF),
        (c::CMD_WRITE, 0),
        (c::CMD_FLUSH, 0),
        (c::CMD_TRIM, 0),
        (c::CMD_CACHE, 0),
        (c::CMD_WRITE_ZEROES, c::CMD_FLAG_NO_HOLE | c::CMD_FLAG_FAST_ZERO),
        (c::CMD_BLOCK_STATUS, c::CMD_FLAG_REQ_ONE),
    ];
    for style in [ReplyStyle::Structured, ReplyStyle::Extended] {
        for (command, own) in all {
            for bit in (0..16).map(|shift| 1u16 << shift) {
                if bit == c::CMD_FLAG_PAYLOAD_LEN && style == ReplyStyle::Extended {
                    continue;
                }
                let length = if command == c::CMD_FLUSH { 0 } else { 512 };
                let skip = if command == c::CMD_WRITE { 512 } else { 0 };
                // FUA, once offered, is accepted on all commands.
                let good = (own | c::CMD_FLAG_FUA) & bit != 0;
                let expected = if good { Ok(()) } else { Err((Errno::Inval, skip)) };
                assert_eq!(verdict(&negotiated(style), header(command, bit, 0, length)), expected);
            }
        }
    }
    let simple = negotiated(ReplyStyle::Simple);
    assert!(
        verdict(&simple, header(c::CMD_READ, c::CMD_FLAG_DF, 0, 1)).is_err(),
        "nothing to fragment"
    );
    let mut plain = negotiated(ReplyStyle::Structured);
    plain.export.flags.fast_zero = false;
    plain.export.flags.fua = false;
    plain.export.flags.df = false;
    for (command, flag) in [
        (c::CMD_WRITE_ZEROES, c::CMD_FLAG_FAST_ZERO),
        (c::CMD_WRITE, c::CMD_FLAG_FUA),
        (c::CMD_READ, c::CMD_FLAG_DF),
    ] {
        assert!(verdict(&plain, header(command, flag, 0, 1)).is_err());
    }
}

#[test]
fn the_maximum_holds_for_payloads_only() {
    let mut rules = negotiated(ReplyStyle::Structured);
    rules.export.block_sizes.maximum_bytes = 4096;
    assert_eq!(verdict(&rules, header(c::CMD_READ, 0, 0, 4096)), Ok(()));
    assert_eq!(verdict(&rules, header(c::CMD_READ, 0, 0, 4097)), Err((Errno::Inval, 0)));
    assert_eq!(
        verdict(&rules, header(c::CMD_READ, c::CMD_FLAG_DF, 0, 4097)),
        Err((Errno::Overflow, 0))
    );
    assert_eq!(verdict(&rules, header(c::CMD_WRITE, 0, 0, 4097)), Err((Errno::Inval, 4097)));
    for command in [c::CMD_TRIM, c::CMD_CACHE, c::CMD_WRITE_ZEROES, c::CMD_BLOCK_STATUS] {
        assert_eq!(verdict(&rules, header(command, 0, 0, MIB)), Ok(()));
    }
    // A chunk's length includes the offset.
    rules.export.size_bytes = 1 << 40;
    rules.export.block_sizes.maximum_bytes = u32::MAX;
    assert_eq!(
        verdict(&rules, header(c::CMD_READ, 0, 0, u64::from(u32::MAX))),
        Err((Errno::Inval, 0))
    );
    assert_eq!(verdict(&rules, header(c::CMD_READ, 0, 0, u64::from(u32::MAX - 8))), Ok(()));
}

#[test]
fn the_minimum_holds_for_offsets_and_lengths() {
    let mut rules = negotiated(ReplyStyle::Structured);
    rules.export.block_sizes = BlockSizes { minimum_bytes: 512, ..rules.export.block_sizes };
    for command in
        [c::CMD_READ, c::CMD_TRIM, c::CMD_WRITE_ZEROES, c::CMD_BLOCK_STATUS, c::CMD_CACHE]
    {
        assert_eq!(verdict(&rules, header(command, 0, 512, 1024)), Ok(()));
        assert_eq!(verdict(&rules, header(command, 0, 511, 512)), Err((Errno::Inval, 0)));
        assert_eq!(verdict(&rules, header(command, 0, 512, 513)), Err((Errno::Inval, 0)));
    }
    assert_eq!(verdict(&rules, header(c::CMD_WRITE, 0, 1, 512)), Err((Errno::Inval, 512)));
}

#[test]
fn empty_requests_succeed_except_for_block_status() {
    for style in STYLES {
        let rules = negotiated(style);
        for command in [c::CMD_READ, c::CMD_WRITE, c::CMD_TRIM, c::CMD_CACHE, c::CMD_WRITE_ZEROES] {
            assert_eq!(verdict(&rules, header(command, 0, MIB, 0)), Ok(()));
            assert!(verdict(&rules, header(command, 0, MIB + 1, 0)).is_err());
        }
        assert!(verdict(&rules, header(c::CMD_BLOCK_STATUS, 0, 0, 0)).is_err());
        assert_eq!(verdict(&rules, header(c::CMD_FLUSH, 0, 0, 0)), Ok(()));
        assert_eq!(verdict(&rules, header(c::CMD_FLUSH, 0, 512, 0)), Err((Errno::Inval, 0)));
        assert_eq!(verdict(&rules, header(c::CMD_FLUSH, 0, 0, 512)), Err((Errno::Inval, 0)));
    }
}

#[test]
fn extended_requests_say_whether_they_have_a_payload() {
    let rules = negotiated(ReplyStyle::Extended);
    let flag = c::CMD_FLAG_PAYLOAD_LEN;
    let judged = |command, flags, length| judge(&header(command, flags, 0, length), &rules);
    match judged(c::CMD_WRITE, 0, 512).unwrap() {
        Judged::Rejected(rejected) => {
            assert_eq!((rejected.errno, rejected.skip_bytes), (Errno::Inval, 0))
        }
        other => panic!("{other:?}"),
    }
    for command in [c::CMD_READ, c::CMD_TRIM, c::CMD_BLOCK_STATUS, 77] {
        match judged(command, flag, 512).unwrap() {
            Judged::Rejected(rejected) => {
                assert_eq!((rejected.errno, rejected.skip_bytes), (Errno::Inval, 512));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(judged(c::CMD_WRITE, flag, 1 << 32).unwrap_err().kind, ErrorKind::TooBig);
    let mut large = rules.clone();
    large.export.size_bytes = 1 << 50;
    assert_eq!(verdict(&large, header(c::CMD_TRIM, 0, 0, 1 << 50)), Ok(()), "64-bit lengths");
}

#[test]
fn a_disconnect_is_one_whatever_else_it_says() {
    for style in STYLES {
        let judged =
            judge(&header(c::CMD_DISC, !c::CMD_FLAG_PAYLOAD_LEN, 1, 2), &negotiated(style));
        assert_eq!(judged.unwrap(), Judged::Disconnect);
    }
}

/// Regression: a write that was too long was rejected after its header. libnbd, still sending the
/// payload, took the reply as one to an unknown request, and disconnected.
#[test]
fn a_rejected_write_is_answered_when_its_payload_has_been_skipped() {
    let mut stream = RequestStream::new(negotiated(ReplyStyle::Simple));
    let write = hex("25609513 0000 0001 0000000000000001 0000000000100000 00010000");
    let read = hex("25609513 0000 0000 0000000000000002 0000000000000000 00000200");
    let input = [write, vec![0x25; 65536], read].concat();
    let mut events = Vec::new();
    for (index, part) in input.chunks(1000).enumerate() {
        let mut rest = part;
        loop {
            let step = stream.receive(rest).unwrap();
            rest = &rest[step.consumed..];
            let Some(event) = step.event else { break };
            events.push((index, event));
        }
        assert!(rest.is_empty());
    }
    match events[..] {
        [(65, RequestEvent::Rejected(rejected)), (65, RequestEvent::Request(request))] => {
            assert_eq!((rejected.errno, rejected.reply_to.cookie), (Errno::NoSpc, 1));
            assert_eq!((request.command, request.cookie), (Command::Read, 2));
        }
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn flags_travel_only_in_permitted_combinations() {
    for bit in (0..16).map(|shift| 1u16 << shift) {
        let known = c::FLAG_READ_ONLY | 0x0dfc;
        let flags = ExportFlags::from_wire(c::FLAG_HAS_FLAGS | c::FLAG_SEND_WRITE_ZEROES | bit);
        let expected = c::FLAG_HAS_FLAGS | c::FLAG_SEND_WRITE_ZEROES | (bit & known);
        assert_eq!(flags.to_wire(ReplyStyle::Structured), expected, "{bit:#x}");
        assert_eq!(flags.to_wire(ReplyStyle::Simple), expected & !c::FLAG_SEND_DF);
    }
    let fast = ExportFlags { fast_zero: true, ..ExportFlags::default() };
    assert_eq!(
        fast.to_wire(ReplyStyle::Structured),
        c::FLAG_HAS_FLAGS,
        "fast zero needs write zeroes"
    );
}

#[test]
fn block_sizes_keep_the_rules_of_the_protocol() {
    let valid = |minimum_bytes, preferred_bytes, maximum_bytes| {
        BlockSizes { minimum_bytes, preferred_bytes, maximum_bytes }.is_valid()
    };
    assert!(BlockSizes::DEFAULT.is_valid());
    assert!(valid(1, 512, 1) && valid(512, 512, 1536) && valid(65536, 65536, u32::MAX));
    assert!(!valid(0, 4096, 4096) && !valid(3, 4096, 3 << 10) && !valid(1 << 17, 1 << 17, 1 << 17));
    assert!(!valid(1, 256, 4096) && !valid(4096, 512, 4096) && !valid(1, 4097, 4096));
    assert!(!valid(512, 4096, 1000) && !valid(512, 4096, 0));
}
