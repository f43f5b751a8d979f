//! Client and server together, with all styles, chunk sizes and fragmentations.

mod common;

use common::{EVERYTHING, Outcome, Pair, export};
use nbd::{
    BlockSizes, ClientOptions, Command, CommandFlags, Errno, ErrorKind, ExportFlags, ExportInfo,
    Extent, ReplyStyle,
};
use proptest::prelude::*;

fn options(style: ReplyStyle) -> ClientOptions {
    ClientOptions {
        extended: style == ReplyStyle::Extended,
        structured: style != ReplyStyle::Simple,
        ..ClientOptions::new("disk")
    }
}

const STYLES: [ReplyStyle; 3] = [ReplyStyle::Simple, ReplyStyle::Structured, ReplyStyle::Extended];
const NONE: CommandFlags = CommandFlags::NONE;

fn pair(style: ReplyStyle, content: Vec<u8>) -> Pair {
    Pair::connect(options(style), export(), content, 13).unwrap()
}

fn ok(outcome: nbd::Result<Outcome>) -> Outcome {
    let outcome = outcome.unwrap();
    assert_eq!(outcome.result, Ok(()));
    outcome
}

#[test]
fn both_sides_agree_on_what_was_negotiated() {
    for style in STYLES {
        let pair = pair(style, vec![0; 4096]);
        assert_eq!(pair.server.style(), Some(style));
        let connected = pair.client.connected();
        assert_eq!((connected.style, connected.size_bytes), (style, 4096));
        let df = style != ReplyStyle::Simple;
        assert_eq!(connected.flags, ExportFlags { df, ..EVERYTHING });
        assert_eq!(connected.block_sizes, export().block_sizes);
        assert_eq!(connected.base_allocation.is_some(), df);
        assert_eq!(connected.name.as_deref(), Some("disk"));
        assert_eq!(connected.description, "spare");
    }
    let unknown = ClientOptions::new("nope");
    let error = Pair::connect(unknown, export(), vec![0; 512], 5).err().unwrap();
    assert_eq!(error.kind, ErrorKind::UnknownExport);
    let default = Pair::connect(ClientOptions::new(""), export(), vec![0; 512], 5).unwrap();
    assert_eq!(default.client.connected().name.as_deref(), Some("disk"));
}

#[test]
fn every_command_does_its_work() {
    for style in STYLES {
        let mut pair = pair(style, vec![1; 8192]);
        ok(pair.request(Command::Write, CommandFlags::FUA, 100, 5, b"hello"));
        assert_eq!(ok(pair.request(Command::Read, NONE, 99, 7, &[])).data, b"\x01hello\x01");
        ok(pair.request(Command::Flush, NONE, 0, 0, &[]));
        ok(pair.request(Command::Cache, NONE, 0, 4096, &[]));
        ok(pair.request(Command::WriteZeroes, CommandFlags::FAST_ZERO, 1024, 1024, &[]));
        ok(pair.request(Command::Trim, NONE, 4096, 512, &[]));
        assert_eq!(pair.server.content()[1024..2048], [0; 1024]);
        assert_eq!(ok(pair.request(Command::Read, NONE, 1000, 100, &[])).data[24..], [0; 76]);
        if style == ReplyStyle::Simple {
            let refused = pair.request(Command::BlockStatus, NONE, 0, 8192, &[]);
            assert_eq!(refused.unwrap_err().kind, ErrorKind::Usage);
        } else {
            let all = [
                Extent::data(1024),
                Extent::hole(1024),
                Extent::data(2048),
                Extent::hole(512),
                Extent::data(3584),
            ];
            assert_eq!(ok(pair.request(Command::BlockStatus, NONE, 0, 8192, &[])).extents, all);
            let one =
                ok(pair.request(Command::BlockStatus, CommandFlags::REQ_ONE, 1024, 7168, &[]));
            assert_eq!(one.extents, [Extent::hole(1024)]);
        }
    }
}

#[test]
fn errors_reach_the_client_with_what_the_style_can_carry() {
    for style in STYLES {
        let mut pair = pair(style, vec![1; 8192]);
        pair.server.set_bad_bytes(vec![700]);
        let failure = pair.request(Command::Read, NONE, 512, 512, &[]).unwrap().result.unwrap_err();
        assert_eq!(failure.errno, Errno::Io);
        if style == ReplyStyle::Simple {
            assert_eq!((failure.message.as_str(), failure.offset_bytes), ("", None));
        } else {
            assert_eq!((failure.message.as_str(), failure.offset_bytes), ("a bad byte", Some(700)));
        }
        let both = CommandFlags::FAST_ZERO | CommandFlags::NO_HOLE;
        let failure =
            pair.request(Command::WriteZeroes, both, 0, 512, &[]).unwrap().result.unwrap_err();
        assert_eq!(failure.errno, Errno::NotSup);
        // The connection stays usable.
        ok(pair.request(Command::Read, NONE, 0, 512, &[]));
    }
}

#[test]
fn requests_stay_within_what_the_server_takes() {
    let sizes = BlockSizes { minimum_bytes: 512, preferred_bytes: 4096, maximum_bytes: 8192 };
    let info = ExportInfo { block_sizes: sizes, ..export() };
    for (style, trim, zeroes) in [
        (ReplyStyle::Structured, u64::from(u32::MAX) - 511, 8192),
        (ReplyStyle::Extended, u64::MAX - 511, u64::MAX - 511),
    ] {
        let pair = Pair::connect(options(style), info.clone(), vec![0; 1 << 16], 64).unwrap();
        let connected = pair.client.connected();
        assert_eq!(connected.longest_bytes(Command::Read), 8192);
        assert_eq!(connected.longest_bytes(Command::Write), 8192);
        assert_eq!(connected.longest_bytes(Command::Trim), trim);
        assert_eq!(connected.longest_bytes(Command::WriteZeroes), zeroes);
        assert_eq!(connected.longest_bytes(Command::Flush), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_sequence_of_requests_does_the_same_as_on_a_piece_of_memory(
        style in 0usize..3,
        fragment in 1usize..80,
        piece in 1usize..900,
        steps in proptest::collection::vec(
            (0u8..5, 0usize..4096, 1usize..2048, any::<u8>()),
            1..20,
        ),
    ) {
        let mut model = vec![0; 4096];
        let options = options(STYLES[style]);
        let mut pair = Pair::connect(options, export(), model.clone(), fragment).unwrap();
        pair.server.set_piece_bytes(piece);
        for (kind, start, length, fill) in steps {
            let length = length.min(model.len() - start);
            let range = start..start + length;
            let (offset, size) = (start as u64, length as u64);
            match kind {
                0 => {
                    ok(pair.request(Command::Write, NONE, offset, size, &vec![fill; length]));
                    model[range].fill(fill);
                }
                1 => {
                    ok(pair.request(Command::WriteZeroes, NONE, offset, size, &[]));
                    model[range].fill(0);
                }
                2 if style > 0 => {
                    let status = ok(pair.request(Command::BlockStatus, NONE, offset, size, &[]));
                    let mut at = start;
                    for extent in status.extents {
                        let end = at + extent.length_bytes as usize;
                        prop_assert!(!extent.zero || model[at..end].iter().all(|byte| *byte == 0));
                        at = end;
                    }
                    prop_assert_eq!(at, start + length);
                }
                3 if style > 0 => {
                    let whole = CommandFlags::DF;
                    let data = ok(pair.request(Command::Read, whole, offset, size, &[])).data;
                    prop_assert_eq!(&data, &model[range]);
                }
                _ => {
                    let data = ok(pair.request(Command::Read, NONE, offset, size, &[])).data;
                    prop_assert_eq!(&data, &model[range]);
                }
            }
        }
        prop_assert_eq!(pair.server.content(), model);
    }
}
