//! The handshake byte by byte, taken from the protocol's description, independent of this crate's
//! encoder.

mod common;

use common::{export, hex};
use nbd::{
    BlockSizes, ClientHandshake, ClientOptions, Connected, Encryption, ErrorKind, ExportEntry,
    ExportFlags, ExportInfo, Exports, Negotiated, ReplyStyle, ServerEvent, ServerHandshake,
};

const GREETING: &str = "4e42444d41474943 49484156454f5054 0003";

struct Disks;

impl Exports for Disks {
    fn list(&self) -> Vec<ExportEntry> {
        vec![
            ExportEntry { name: "disk".into(), description: "spare".into() },
            ExportEntry { name: "ä".into(), description: String::new() },
        ]
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        match name {
            "" | "disk" => Some(export()),
            "bare" => {
                let flags = ExportFlags { read_only: true, ..ExportFlags::default() };
                Some(ExportInfo { name: "bare".into(), flags, base_allocation: false, ..export() })
            }
            _ => None,
        }
    }
}

/// All output of the server for `input` after the greeting, and the final result.
fn serve(input: &[u8]) -> (Vec<u8>, Result<Option<ServerEvent>, ErrorKind>, usize) {
    let mut output = Vec::new();
    let mut server = ServerHandshake::start(&mut output);
    assert_eq!(output, hex(GREETING));
    output.clear();
    let mut at = 0;
    while at < input.len() {
        match server.receive(&input[at..], &Disks, &mut output) {
            Ok(step) => {
                at += step.consumed;
                if step.event.is_some() {
                    return (output, Ok(step.event), at);
                }
            }
            Err(error) => return (output, Err(error.kind), at),
        }
    }
    (output, Ok(None), at)
}

fn entered(input: &str) -> (Vec<u8>, Negotiated) {
    let input = hex(input);
    match serve(&input) {
        (output, Ok(Some(ServerEvent::Enter(negotiated))), at) if at == input.len() => {
            (output, *negotiated)
        }
        other => panic!("did not enter: {other:?}"),
    }
}

fn answered(input: &str) -> Vec<u8> {
    match serve(&hex(input)) {
        (output, Ok(None), _) => output,
        other => panic!("did not go on: {other:?}"),
    }
}

#[test]
fn export_name_is_answered_by_size_flags_and_zeroes() {
    let (output, negotiated) = entered("00000001 49484156454f5054 00000001 00000004 'disk'");
    // has flags, flush, FUA, rotational, trim, write zeroes, multi-conn, cache, fast zero: 0x0d7d;
    // no DF.
    assert_eq!(output, [hex("0000000000100000 0d7d"), vec![0; 124]].concat());
    assert_eq!((negotiated.style, negotiated.base_allocation), (ReplyStyle::Simple, false));
}

#[test]
fn export_name_leaves_the_zeroes_out_if_both_sides_agree() {
    let (output, _) = entered("00000003 49484156454f5054 00000001 00000000");
    assert_eq!(output, hex("0000000000100000 0d7d"));
    let (output, _) = entered("00000003 49484156454f5054 00000001 00000004 'bare'");
    assert_eq!(output, hex("0000000000100000 0003"));
}

#[test]
fn export_name_of_an_unknown_export_closes_the_connection() {
    let (output, end, _) = serve(&hex("00000003 49484156454f5054 00000001 00000004 'nope'"));
    assert_eq!((output, end.unwrap_err()), (vec![], ErrorKind::UnknownExport));
}

#[test]
fn go_tells_what_was_asked_and_enters() {
    let (output, negotiated) = entered(
        "00000003
         49484156454f5054 00000008 00000000
         49484156454f5054 0000000a 0000001f 00000004 'disk' 00000001 0000000f 'base:allocation'
         49484156454f5054 00000007 00000010 00000004 'disk' 0003 0001 0002 0003",
    );
    let expected = hex("0003e889045565a9 00000008 00000001 00000000
         0003e889045565a9 0000000a 00000004 00000013 00000001 'base:allocation'
         0003e889045565a9 0000000a 00000001 00000000
         0003e889045565a9 00000007 00000003 0000000c 0000 0000000000100000 0dfd
         0003e889045565a9 00000007 00000003 00000006 0001 'disk'
         0003e889045565a9 00000007 00000003 00000007 0002 'spare'
         0003e889045565a9 00000007 00000003 0000000e 0003 00000001 00001000 00040000
         0003e889045565a9 00000007 00000001 00000000");
    assert_eq!(output, expected);
    assert_eq!((negotiated.style, negotiated.base_allocation), (ReplyStyle::Structured, true));
    assert_eq!(negotiated.export, export());
}

#[test]
fn info_tells_the_same_and_stays() {
    let output = answered("00000003 49484156454f5054 00000006 0000000a 00000004 'disk' 0000");
    let expected = "0003e889045565a9 00000006 00000003 0000000c 0000 0000000000100000 0d7d
         0003e889045565a9 00000006 00000001 00000000";
    assert_eq!(output, hex(expected));
    let output = answered("00000003 49484156454f5054 00000007 0000000a 00000004 'nope' 0000");
    assert_eq!(output, hex("0003e889045565a9 00000007 80000006 0000000e 'no such export'"));
}

#[test]
fn list_names_the_exports() {
    let output = answered("00000003 49484156454f5054 00000003 00000000");
    let expected = "0003e889045565a9 00000003 00000002 0000000d 00000004 'disk' 'spare'
         0003e889045565a9 00000003 00000002 00000006 00000002 'ä'
         0003e889045565a9 00000003 00000001 00000000";
    assert_eq!(output, hex(expected));
}

/// The replies of a server with TLS to each of `inputs`; after `Encrypt`, TLS is active.
fn serve_tls(encryption: Encryption, inputs: &[&str]) -> (Vec<u8>, Result<usize, ErrorKind>) {
    let mut output = Vec::new();
    let mut server = ServerHandshake::start(&mut output);
    server.set_encryption(encryption);
    output.clear();
    let mut encrypted = 0;
    for input in inputs {
        let input = hex(input);
        let mut at = 0;
        while at < input.len() {
            match server.receive(&input[at..], &Disks, &mut output) {
                Ok(step) => {
                    at += step.consumed;
                    if let Some(ServerEvent::Encrypt) = step.event {
                        encrypted += 1;
                        assert_eq!(
                            server.receive(b"x", &Disks, &mut output).unwrap_err().kind,
                            ErrorKind::Usage
                        );
                        server.encrypted();
                    }
                }
                Err(error) => return (output, Err(error.kind)),
            }
        }
    }
    (output, Ok(encrypted))
}

#[test]
fn tls_begins_where_it_is_offered_and_forgets_what_was_agreed_on_before() {
    let tls = "49484156454f5054 00000005 00000000";
    let (output, encrypted) = serve_tls(
        Encryption::Offered,
        &[STRUCTURED, tls, "49484156454f5054 0000000a 0000000c 00000004 'disk' 00000000", tls],
    );
    let expected = [
        hex(ACK_STRUCTURED),
        hex("0003e889045565a9 00000005 00000001 00000000"),
        // Structured replies must be negotiated again.
        hex("0003e889045565a9 0000000a 80000003 00000029 'structured replies have to be chosen \
                first'"),
        hex("0003e889045565a9 00000005 80000003 00000015 'TLS is already in use'"),
    ];
    assert_eq!(encrypted, Ok(1));
    assert_eq!(output[..36], expected.concat()[..36]);
    assert!(output.ends_with(&expected[3]), "{output:?}");
    let (output, encrypted) =
        serve_tls(Encryption::Offered, &["00000003 49484156454f5054 00000005 00000001 00"]);
    assert_eq!(
        (output[..16].to_vec(), encrypted),
        (hex("0003e889045565a9 00000005 80000003"), Ok(0))
    );
    let (output, encrypted) = serve_tls(Encryption::Absent, &["00000003", tls]);
    assert_eq!(
        (output[..16].to_vec(), encrypted),
        (hex("0003e889045565a9 00000005 80000001"), Ok(0))
    );
}

#[test]
fn where_tls_is_required_a_plain_client_can_only_leave() {
    for option in [
        "00000003", "00000006", "00000007", "00000008", "00000009", "0000000a", "0000000b",
        "000000ff",
    ] {
        let input = format!("00000003 49484156454f5054 {option} 00000000");
        let (output, encrypted) = serve_tls(Encryption::Required, &[&input]);
        assert_eq!(encrypted, Ok(0));
        assert_eq!(output[..16], hex(&format!("0003e889045565a9 {option} 80000005")), "{option}");
    }
    let by_name = "00000003 49484156454f5054 00000001 00000004 'disk'";
    assert_eq!(serve_tls(Encryption::Required, &[by_name]).1, Err(ErrorKind::TlsRequired));
    let (output, _) = serve_tls(
        Encryption::Required,
        &[
            "00000003 49484156454f5054 00000005 00000000",
            "49484156454f5054 00000006 0000000a 00000004 'disk' 0000",
        ],
    );
    assert!(output.ends_with(&hex("0003e889045565a9 00000006 00000001 00000000")), "{output:?}");
}

#[test]
fn abort_is_acknowledged_and_ends_the_session() {
    let (output, end, at) = serve(&hex("00000003 49484156454f5054 00000002 00000003 616263 ffff"));
    assert_eq!(output, hex("0003e889045565a9 00000002 00000001 00000000"));
    assert!(matches!(end, Ok(Some(ServerEvent::Abort))));
    assert_eq!(at, 4 + 16 + 3);
}

#[test]
fn unknown_options_and_tls_are_refused_and_their_payload_is_skipped() {
    let output = answered(
        "00000003 49484156454f5054 000000ff 00000003 616263
         49484156454f5054 00000005 00000000 49484156454f5054 00000004 00000000",
    );
    let expected = "0003e889045565a9 000000ff 80000001 0000000e 'unknown option'
         0003e889045565a9 00000005 80000001 00000016 'this server has no TLS'
         0003e889045565a9 00000004 80000001 0000000e 'unknown option'";
    assert_eq!(output, hex(expected));
}

#[test]
fn malformed_options_are_refused_as_invalid() {
    let invalid = [
        ("00000003", "00000001 00"),                       // LIST with a payload
        ("00000008", "00000001 00"),                       // STRUCTURED_REPLY with a payload
        ("0000000b", "00000001 00"),                       // EXTENDED_HEADERS with a payload
        ("00000006", "00000000"),                          // INFO of nothing
        ("00000007", "00000006 00000001 0000"),            // a name longer than the option
        ("00000007", "00000009 00000000 0001 0003 ff"),    // rubbish behind the requests
        ("00000007", "00000007 00000001 ff 0000"),         // a name that is not UTF-8
        ("00000007", "00000007 00000001 00 0000"),         // a name with NUL
        ("0000000a", "0000000c 00000004 'disk' 00000000"), // contexts without structured replies
        ("00000009", "0000000c 00000004 'disk' 00000000"), // the same for LIST
    ];
    for (option, rest) in invalid {
        let input = hex(&format!("00000003 49484156454f5054 {option} {rest}"));
        let (output, end, _) = serve(&input);
        assert!(matches!(end, Ok(None)), "{option} {rest}: {end:?}");
        assert_eq!(
            output[..16],
            hex(&format!("0003e889045565a9 {option} 80000003")),
            "{option} {rest}"
        );
    }
}

#[test]
fn the_first_flags_and_the_magic_have_to_be_right() {
    assert_eq!(serve(&hex("00000004")).1.unwrap_err(), ErrorKind::Protocol);
    let wrong = hex("00000003 49484156454f5055 00000003 00000000");
    assert_eq!(serve(&wrong).1.unwrap_err(), ErrorKind::FramingLost);
}

const STRUCTURED: &str = "00000003 49484156454f5054 00000008 00000000";
const ACK_STRUCTURED: &str = "0003e889045565a9 00000008 00000001 00000000";

#[test]
fn meta_contexts_are_listed_by_name_by_wildcard_and_without_query() {
    let allocation = "0003e889045565a9 00000009 00000004 00000013 00000000 'base:allocation'
                      0003e889045565a9 00000009 00000001 00000000";
    let nothing = "0003e889045565a9 00000009 00000001 00000000";
    let queries = [
        ("0000000c 00000004 'disk' 00000000", allocation),
        ("00000015 00000004 'disk' 00000001 00000005 'base:'", allocation),
        ("0000001f 00000004 'disk' 00000001 0000000f 'base:allocation'", allocation),
        ("00000018 00000004 'disk' 00000001 00000008 'base:new'", nothing),
        ("00000015 00000004 'disk' 00000001 00000005 'qemu:'", nothing),
        ("0000000c 00000004 'bare' 00000000", nothing),
    ];
    for (query, answer) in queries {
        let output = answered(&format!("{STRUCTURED} 49484156454f5054 00000009 {query}"));
        assert_eq!(output, [hex(ACK_STRUCTURED), hex(answer)].concat(), "{query}");
    }
    let output = answered(&format!(
        "{STRUCTURED} 49484156454f5054 00000009 0000000c 00000004 'nope' 00000000
         49484156454f5054 00000009 0000000c 00000004 'disk' ffffffff"
    ));
    let expected = "0003e889045565a9 00000009 80000006 0000000e 'no such export'
                    0003e889045565a9 00000009 80000003 00000010 'malformed option'";
    assert_eq!(output, [hex(ACK_STRUCTURED), hex(expected)].concat());
}

#[test]
fn the_last_selection_of_contexts_counts_and_only_for_its_export() {
    let select =
        "49484156454f5054 0000000a 0000001f 00000004 'disk' 00000001 0000000f 'base:allocation'";
    let wildcard = "49484156454f5054 0000000a 00000015 00000004 'disk' 00000001 00000005 'base:'";
    let none = "49484156454f5054 0000000a 0000000c 00000004 'disk' 00000000";
    let failing = "49484156454f5054 0000000a 0000000c 00000004 'nope' 00000000";
    let go = "49484156454f5054 00000007 0000000a 00000004 'disk' 0000";
    let go_default = "49484156454f5054 00000007 00000006 00000000 0000";
    let by_name = "49484156454f5054 00000001 00000004 'disk'";
    for (options, selected) in [
        (format!("{select} {go}"), true),
        (format!("{select} {by_name}"), true),
        (format!("{wildcard} {go}"), false),
        (format!("{select} {wildcard} {go}"), false),
        (format!("{select} {none} {go}"), false),
        (format!("{select} {failing} {go}"), false),
        (format!("{failing} {select} {go}"), true),
        (format!("{select} {go_default}"), false),
        (go.to_owned(), false),
    ] {
        let (_, negotiated) = entered(&format!("{STRUCTURED} {options}"));
        assert_eq!(negotiated.base_allocation, selected, "{options}");
    }
}

#[test]
fn extended_headers_take_the_place_of_structured_replies() {
    let output = answered(
        "00000003 49484156454f5054 0000000b 00000000 49484156454f5054 0000000b 00000000
         49484156454f5054 00000008 00000000",
    );
    let expected = "0003e889045565a9 0000000b 00000001 00000000
        0003e889045565a9 0000000b 80000003 00000023 'extended headers are already in use'
        0003e889045565a9 00000008 8000000a 00000023 'extended headers are already in use'";
    assert_eq!(output, hex(expected));
    let (_, negotiated) = entered(&format!(
        "{STRUCTURED} 49484156454f5054 0000000b 00000000 49484156454f5054 00000007 00000006 \
            00000000 0000"
    ));
    assert_eq!(negotiated.style, ReplyStyle::Extended);
    let by_name = "00000003 49484156454f5054 0000000b 00000000 49484156454f5054 00000001 00000000";
    assert_eq!(serve(&hex(by_name)).1.unwrap_err(), ErrorKind::Protocol);
}

/// Connects a client that requests all features to a scripted server. Each reply is sent after the
/// client has sent exactly the expected bytes.
fn client_against(script: &[(&str, &str)]) -> Result<Connected, (ErrorKind, String)> {
    let mut client = ClientHandshake::new(ClientOptions::new("disk")).unwrap();
    for (index, (from_server, from_client)) in script.iter().enumerate() {
        let input = hex(from_server);
        let mut output = Vec::new();
        let mut end = None;
        let mut at = 0;
        while at < input.len() && end.is_none() {
            match client.receive(&input[at..], &mut output) {
                Ok(step) => {
                    at += step.consumed;
                    end = step.event.map(Ok);
                }
                Err(error) => end = Some(Err((error.kind, error.to_string()))),
            }
        }
        assert_eq!(output, hex(from_client), "after message {index}");
        if let Some(end) = end {
            assert_eq!(index, script.len() - 1, "ended early: {end:?}");
            return end;
        }
    }
    let error = client.end_of_stream();
    Err((error.kind, error.to_string()))
}

const WANT_EXTENDED: &str = "00000003 49484156454f5054 0000000b 00000000";
const WANT_STRUCTURED: &str = "49484156454f5054 00000008 00000000";
const WANT_CONTEXT: &str =
    "49484156454f5054 0000000a 0000001f 00000004 'disk' 00000001 0000000f 'base:allocation'";
const WANT_GO: &str = "49484156454f5054 00000007 00000010 00000004 'disk' 0003 0001 0002 0003";
const NO_EXTENDED: &str = "0003e889045565a9 0000000b 80000001 00000000";
const NO_STRUCTURED: &str = "0003e889045565a9 00000008 80000001 00000002 6e6f";
const GO_INFO: &str = "0003e889045565a9 00000007 00000003 0000000c 0000 0000000000100000 0dfd";
const GO_ACK: &str = "0003e889045565a9 00000007 00000001 00000000";

#[test]
fn a_client_gets_all_that_a_modern_server_has() {
    let connected = client_against(&[
        (GREETING, WANT_EXTENDED),
        ("0003e889045565a9 0000000b 00000001 00000000", WANT_CONTEXT),
        (
            "0003e889045565a9 0000000a 00000004 00000013 00000007 'base:allocation'
             0003e889045565a9 0000000a 00000001 00000000",
            WANT_GO,
        ),
        (GO_INFO, ""),
        ("0003e889045565a9 00000007 00000003 00000006 0001 'DISK'", ""),
        ("0003e889045565a9 00000007 00000003 00000007 0002 'spare'", ""),
        ("0003e889045565a9 00000007 00000003 0000000e 0003 00000200 00001000 02000000", ""),
        ("0003e889045565a9 00000007 00000003 00000004 0099 ffff", ""),
        (GO_ACK, ""),
    ])
    .unwrap();
    let expected = Connected {
        size_bytes: 1 << 20,
        flags: common::EVERYTHING,
        style: ReplyStyle::Extended,
        block_sizes: BlockSizes {
            minimum_bytes: 512,
            preferred_bytes: 4096,
            maximum_bytes: 1 << 25,
        },
        base_allocation: Some(7),
        name: Some("DISK".to_owned()),
        description: "spare".to_owned(),
    };
    assert_eq!(connected, expected);
}

#[test]
fn a_client_works_with_less() {
    let connected = client_against(&[
        (GREETING, WANT_EXTENDED),
        (NO_EXTENDED, WANT_STRUCTURED),
        (ACK_STRUCTURED, WANT_CONTEXT),
        ("0003e889045565a9 0000000a 80000001 00000000", WANT_GO),
        (&format!("{GO_INFO} {GO_ACK}"), ""),
    ])
    .unwrap();
    assert_eq!((connected.style, connected.base_allocation), (ReplyStyle::Structured, None));
    assert_eq!(connected.block_sizes, BlockSizes::DEFAULT);
    let connected = client_against(&[
        (GREETING, WANT_EXTENDED),
        (NO_EXTENDED, WANT_STRUCTURED),
        (NO_STRUCTURED, WANT_GO),
        (&format!("{GO_INFO} {GO_ACK}"), ""),
    ])
    .unwrap();
    assert_eq!(connected.style, ReplyStyle::Simple);
    // A context before an error does not count, nor does one that was not requested.
    let context = "0003e889045565a9 0000000a 00000004";
    for answer in [
        format!(
            "{context} 00000013 00000007 'base:allocation' 0003e889045565a9 0000000a 80000009 \
                00000000"
        ),
        format!("{context} 00000009 00000007 'x-y:z' 0003e889045565a9 0000000a 00000001 00000000"),
    ] {
        let connected = client_against(&[
            (GREETING, WANT_EXTENDED),
            ("0003e889045565a9 0000000b 00000001 00000000", WANT_CONTEXT),
            (&answer, WANT_GO),
            (&format!("{GO_INFO} {GO_ACK}"), ""),
        ])
        .unwrap();
        assert_eq!(connected.base_allocation, None);
    }
}

#[test]
fn a_client_falls_back_to_export_name() {
    let connected = client_against(&[
        (GREETING, WANT_EXTENDED),
        (NO_EXTENDED, WANT_STRUCTURED),
        (NO_STRUCTURED, WANT_GO),
        (
            "0003e889045565a9 00000007 80000001 00000000",
            "49484156454f5054 00000001 00000004 'disk'",
        ),
        ("0000000000100000 0003", ""),
    ])
    .unwrap();
    assert!(connected.flags.read_only && !connected.flags.flush);
    // A server without fixed newstyle supports nothing else, and sends its zeroes.
    let old = "4e42444d41474943 49484156454f5054 0000";
    let ask = "00000000 49484156454f5054 00000001 00000004 'disk'";
    let connected =
        client_against(&[(old, ask), ("0000000000100000 0001", ""), (&"00".repeat(124), "")])
            .unwrap();
    assert_eq!(connected.size_bytes, 1 << 20);
    let (kind, _) = client_against(&[(old, ask)]).unwrap_err();
    assert_eq!(kind, ErrorKind::UnknownExport, "such a server can only disconnect");
}

#[test]
fn a_client_says_why_a_server_refused_and_takes_its_leave() {
    let leave = "49484156454f5054 00000002 00000000";
    for (error, kind, word) in [
        ("80000006 00000000", ErrorKind::UnknownExport, "no such export"),
        ("80000005 00000000", ErrorKind::TlsRequired, "TLS"),
        ("80000007 00000000", ErrorKind::ShuttingDown, "shutting down"),
        ("80000002 00000004 'busy'", ErrorKind::Refused, "\"busy\""),
    ] {
        let (got, sentence) = client_against(&[
            (GREETING, WANT_EXTENDED),
            (NO_EXTENDED, WANT_STRUCTURED),
            (NO_STRUCTURED, WANT_GO),
            (&format!("0003e889045565a9 00000007 {error}"), leave),
        ])
        .unwrap_err();
        assert_eq!(got, kind);
        assert!(sentence.contains(word) && sentence.contains("\"disk\""), "{sentence}");
    }
}

#[test]
fn a_client_hangs_up_on_servers_that_break_the_rules() {
    let cases = [
        ("0000000000000000 49484156454f5054 0003", ErrorKind::NotNbd),
        ("4e42444d41474943 0000420281861253 0003", ErrorKind::NotNbd),
        ("4e42444d41474943 1111111111111111 0003", ErrorKind::NotNbd),
    ];
    for (greeting, kind) in cases {
        assert_eq!(client_against(&[(greeting, "")]).unwrap_err().0, kind);
    }
    for (reply, kind) in [
        ("0003e889045565aa 00000007 00000001 00000000", ErrorKind::FramingLost),
        ("0003e889045565a9 00000006 00000001 00000000", ErrorKind::Protocol),
        ("0003e889045565a9 00000007 00000003 00010001", ErrorKind::TooBig),
        (GO_ACK, ErrorKind::Protocol),
        ("0003e889045565a9 00000007 00000002 00000000", ErrorKind::Protocol),
        ("0003e889045565a9 00000007 00000003 00000001 00", ErrorKind::Protocol),
        (
            "0003e889045565a9 00000007 00000003 0000000b 0000 0000000000100000 0d",
            ErrorKind::Protocol,
        ),
        (
            "0003e889045565a9 00000007 00000003 0000000c 0000 8000000000000000 0001",
            ErrorKind::Protocol,
        ),
    ] {
        let start =
            [(GREETING, WANT_EXTENDED), (NO_EXTENDED, WANT_STRUCTURED), (NO_STRUCTURED, WANT_GO)];
        let script = [&start[..], &[(reply, "")]].concat();
        assert_eq!(client_against(&script).unwrap_err().0, kind, "{reply}");
    }
}
