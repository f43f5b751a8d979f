//! The text form of addresses.

use platform::{Address, ErrorKind};

fn tcp(host: &str, port: u16) -> Address {
    Address::Tcp { host: host.to_owned(), port }
}

#[test]
fn addresses_are_read_as_they_are_written() {
    for (text, address, is_local) in [
        ("unix:/run/a b.sock", Address::Unix("/run/a b.sock".to_owned()), true),
        ("127.0.0.1:10809", tcp("127.0.0.1", 10809), true),
        ("[::1]:10809", tcp("::1", 10809), true),
        ("localhost:0", tcp("localhost", 0), true),
        ("example.org:80", tcp("example.org", 80), false),
        ("0.0.0.0:80", tcp("0.0.0.0", 80), false),
    ] {
        let read: Address = text.parse().unwrap();
        assert_eq!((&read, read.is_local()), (&address, is_local), "{text}");
        assert_eq!(read.to_string(), text);
    }
}

#[test]
fn what_is_no_address_is_refused_by_name() {
    for text in ["", "unix:", "host", ":80", "host:", "host:65536", "host:-1", "[]:1"] {
        let error = text.parse::<Address>().unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadName, "{text}");
        assert!(error.to_string().contains(&format!("'{text}'")), "{error}");
    }
}
