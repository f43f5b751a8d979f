//! Hostile bytes: no panic, bounded memory, and no dependence on the fragmentation.

mod common;

use common::{export, hex};
use nbd::fuzz::{fuzz_client, fuzz_server, seeds};
use nbd::memory::MemoryServer;
use nbd::{ErrorKind, MAX_OPTIONS};
use proptest::prelude::*;

/// Mutations of a seed: (where, what, value), as a fuzzer makes them.
fn mutate(seed: &[u8], changes: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for (index, kind, value) in changes {
        let at = index.index(bytes.len());
        match kind % 5 {
            0 => bytes[at] = *value,
            1 => bytes[at] ^= 1 << (value % 8),
            2 => bytes.insert(at, *value),
            3 if bytes.len() > 1 => {
                bytes.remove(at);
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, u8)>> {
    proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 0..6)
}

#[test]
fn the_seeds_are_whole_conversations() {
    let (for_server, for_client) = seeds();
    assert_eq!((for_server.len(), for_client.len()), (5, 5));
    for seed in &for_server {
        fuzz_server(seed);
        // All eight requests, and the four bytes of the write, follow the handshake.
        assert!(
            seed.windows(8)
                .filter(|bytes| bytes.starts_with(&hex("25609513"))
                    || bytes.starts_with(&hex("21e41c71")))
                .count()
                >= 6
        );
    }
    for seed in &for_client {
        fuzz_client(seed);
    }
    let five = for_client[4].windows(4).filter(|bytes| *bytes == hex("6e8a278c")).count();
    assert!(five >= 8 + 3, "the extended conversation has chunks in pieces: {five}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_server_survives_random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzz_server(&bytes);
        // After a valid start, so that more than the first check is reached.
        fuzz_server(&[&bytes[..bytes.len().min(1)], &hex("00000003"), &bytes].concat());
        let go = hex("00000003 49484156454f5054 00000007 00000006 00000000 0000 25609513");
        fuzz_server(&[&bytes[..bytes.len().min(1)], &go, &bytes].concat());
    }

    #[test]
    fn a_client_survives_random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzz_client(&bytes);
        let greeting = hex("4e42444d41474943 49484156454f5054 0003 0003e889045565a9 0000000b");
        fuzz_client(&[&bytes[..bytes.len().min(1)], &greeting, &bytes].concat());
    }

    #[test]
    fn a_server_survives_mutated_conversations(
        which in any::<prop::sample::Index>(), pattern in any::<u8>(), changes in changes()
    ) {
        let seeds = seeds().0;
        let mut bytes = mutate(&seeds[which.index(seeds.len())], &changes);
        bytes[0] = pattern;
        fuzz_server(&bytes);
    }

    #[test]
    fn a_client_survives_mutated_conversations(
        which in any::<prop::sample::Index>(), pattern in any::<u8>(), changes in changes()
    ) {
        let seeds = seeds().1;
        let mut bytes = mutate(&seeds[which.index(seeds.len())], &changes);
        bytes[0] = pattern;
        fuzz_client(&bytes);
    }
}

fn server() -> MemoryServer {
    let mut server = MemoryServer::start(export(), vec![0; 4096], &mut Vec::new());
    server.receive(&hex("00000003"), &mut Vec::new()).unwrap();
    server
}

#[test]
fn long_options_are_skipped_and_refused_and_absurd_ones_close_the_connection() {
    let mut server = server();
    let mut output = Vec::new();
    let list = hex("49484156454f5054 00000003 00010001");
    let unknown = hex("49484156454f5054 000000ff 00010001");
    for part in [list, vec![0x49; 65537], unknown, vec![0x49; 65537]].concat().chunks(1 << 12) {
        assert!(server.receive(part, &mut output).unwrap());
    }
    let expected = hex("0003e889045565a9 00000003 80000009 00000016 'the option is too long'
                        0003e889045565a9 000000ff 80000001 00000016 'the option is too long'");
    assert_eq!(output, expected);
    let absurd = hex("49484156454f5054 00000003 ffffffff");
    assert_eq!(server.receive(&absurd, &mut output).unwrap_err().kind, ErrorKind::TooBig);
    let mut server = self::server();
    let name = hex("49484156454f5054 00000001 00010001");
    assert_eq!(server.receive(&name, &mut output).unwrap_err().kind, ErrorKind::TooBig);
    let mut server = self::server();
    let name = [hex("49484156454f5054 00000001 00001001"), vec![b'x'; 4097]].concat();
    assert_eq!(server.receive(&name, &mut output).unwrap_err().kind, ErrorKind::Protocol);
}

#[test]
fn a_client_that_never_stops_haggling_is_hung_up_on() {
    let mut server = server();
    let mut output = Vec::new();
    let list = hex("49484156454f5054 00000003 00000000");
    for _ in 0..MAX_OPTIONS {
        output.clear();
        assert!(server.receive(&list, &mut output).unwrap());
    }
    assert_eq!(server.receive(&list, &mut output).unwrap_err().kind, ErrorKind::TooBig);
    assert!(!server.receive(&list, &mut output).is_ok_and(|open| open), "and stays closed");
}

#[test]
fn a_server_that_shuts_down_says_so() {
    struct None;
    impl nbd::Exports for None {
        fn list(&self) -> Vec<nbd::ExportEntry> {
            Vec::new()
        }
        fn find(&self, _: &str) -> Option<nbd::ExportInfo> {
            Option::None
        }
    }
    let mut output = Vec::new();
    let mut server = nbd::ServerHandshake::start(&mut output);
    server.shut_down();
    output.clear();
    let mut say = |text: &str| {
        output.clear();
        let input = hex(text);
        let mut at = 0;
        while at < input.len() {
            at += server
                .receive(&input[at..], &None, &mut output)
                .map_err(|error| error.kind)?
                .consumed;
        }
        Ok(output.clone())
    };
    let expected = hex("0003e889045565a9 00000003 80000007 0000001b 'the server is shutting down'");
    assert_eq!(say("00000003 49484156454f5054 00000003 00000000"), Ok(expected));
    assert_eq!(say("49484156454f5054 00000001 00000000"), Err(ErrorKind::ShuttingDown));
}

#[test]
fn a_server_that_answers_without_end_is_hung_up_on() {
    let mut client = nbd::ClientHandshake::new(nbd::ClientOptions::new("")).unwrap();
    let mut output = Vec::new();
    let start = hex("4e42444d41474943 49484156454f5054 0003
        0003e889045565a9 0000000b 80000001 00000000 0003e889045565a9 00000008 80000001 00000000");
    let info = hex("0003e889045565a9 00000007 00000003 00000002 0099");
    let input = [start, info.repeat(300)].concat();
    let mut at = 0;
    let kind = loop {
        match client.receive(&input[at..], &mut output) {
            Ok(step) => at += step.consumed,
            Err(error) => break error.kind,
        }
        assert!(at < input.len(), "the client accepted all input");
    };
    assert_eq!(kind, ErrorKind::TooBig);
}
