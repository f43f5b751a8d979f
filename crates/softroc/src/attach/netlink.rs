//! A minimal client of generic netlink: requests and replies (linux/netlink.h, linux/genetlink.h).
//! All numbers have the byte order of the machine; everything is aligned to four bytes.
//!
//! ```text
//! message: 16 bytes of header (length, type, flags, sequence, port),
//!          4 of command (command, version, two of nothing), attributes
//! attribute: 2 bytes of length, 2 of type, the value, zeroes up to the next four
//! ```

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::os::fd::OwnedFd;

/// The family that lists the numbers of the others: `GENL_ID_CTRL`.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const ERROR: u16 = 2;
/// A request with an acknowledgement.
const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
/// The flag of a nested attribute.
const NESTED: u16 = 1 << 15;
const TYPE_MASK: u16 = 0x3FFF;

const HEADER_BYTES: usize = 16;
const COMMAND_BYTES: usize = 4;
const ATTRIBUTE_BYTES: usize = 4;

/// The longest reply.
const ANSWER_BYTES: usize = 32 << 10;

/// Encoded attributes.
#[derive(Clone, Default)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// A number of 32 bits.
    pub fn u32(self, kind: u16, value: u32) -> Attributes {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// A number of 64 bits.
    pub fn u64(self, kind: u16, value: u64) -> Attributes {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// A text with a terminating zero.
    pub fn text(self, kind: u16, value: &str) -> Attributes {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Nested attributes.
    pub fn nested(self, kind: u16, inner: &Attributes) -> Attributes {
        self.bytes(kind | NESTED, &inner.0)
    }

    /// Any value. All values here are short: a name, a list of a few files.
    fn bytes(mut self, kind: u16, value: &[u8]) -> Attributes {
        let length = (ATTRIBUTE_BYTES + value.len()) as u16;
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

/// A number at an offset of a message.
fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<[u8; BYTES]> {
    bytes.get(at..at + BYTES)?.try_into().ok()
}

/// The value of the first attribute of that type.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(number(attributes, 0)?));
        let kind = u16::from_ne_bytes(number(attributes, 2)?) & TYPE_MASK;
        let value = attributes.get(ATTRIBUTE_BYTES..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// The first `u32` of that type.
pub fn find_u32(attributes: &[u8], wanted: u16) -> Option<u32> {
    find(attributes, wanted).and_then(|value| number(value, 0)).map(u32::from_ne_bytes)
}

/// A complete message.
fn message(family: u16, sequence: u32, command: u8, attributes: &Attributes) -> Vec<u8> {
    let length = (HEADER_BYTES + COMMAND_BYTES + attributes.0.len()) as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&family.to_ne_bytes());
    bytes.extend_from_slice(&REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&[command, 1, 0, 0]);
    bytes.extend_from_slice(&attributes.0);
    bytes
}

/// The content of a datagram of replies to one request.
#[derive(Debug, PartialEq, Eq)]
struct Replies {
    /// The attributes of a message, if there was one.
    attributes: Option<Vec<u8>>,
    /// The final status: success, or the error.
    outcome: Option<Result<(), i32>>,
}

/// Parses the messages of a datagram, and ignores those of other requests.
fn answers(mut datagram: &[u8], sequence: u32) -> Replies {
    let mut answered = Replies { attributes: None, outcome: None };
    while let Some(length) = number(datagram, 0).map(|length| u32::from_ne_bytes(length) as usize) {
        let Some(message) = datagram.get(..length).filter(|_| length >= HEADER_BYTES) else {
            break;
        };
        let kind = number(message, 4).map(u16::from_ne_bytes);
        let is_ours = number(message, 8).map(u32::from_ne_bytes) == Some(sequence);
        match kind {
            Some(ERROR) if is_ours => {
                let code = number(message, HEADER_BYTES).map_or(0, i32::from_ne_bytes);
                answered.outcome = Some(if code == 0 { Ok(()) } else { Err(-code) });
            }
            Some(_) if is_ours => {
                answered.attributes =
                    message.get(HEADER_BYTES + COMMAND_BYTES..).map(<[u8]>::to_vec);
            }
            _ => {}
        }
        let Some(rest) = datagram.get(length.next_multiple_of(4)..) else { break };
        datagram = rest;
    }
    answered
}

/// An opened family of the kernel.
pub struct Family {
    socket: OwnedFd,
    number: u16,
    sequence: u32,
}

impl Family {
    /// Opens the family of that name; `None` if the kernel does not have it.
    ///
    /// # Errors
    /// If netlink fails.
    pub fn open(name: &str) -> Result<Option<Family>, Errno> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::GENERIC),
        )?;
        rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        let mut family = Family { socket, number: CONTROLLER, sequence: 0 };
        match family.ask(GET_FAMILY, &Attributes::default().text(FAMILY_NAME, name)) {
            Ok(answer) => {
                let number = find(&answer, FAMILY_ID).and_then(|value| number(value, 0));
                family.number = number.map(u16::from_ne_bytes).ok_or(Errno::PROTO)?;
                Ok(Some(family))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a request and waits for its completion. Returns the attributes of the reply.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn ask(&mut self, command: u8, attributes: &Attributes) -> Result<Vec<u8>, Errno> {
        self.sequence += 1;
        let message = message(self.number, self.sequence, command, attributes);
        rustix::net::send(&self.socket, &message, SendFlags::empty())?;
        let (mut datagram, mut found) = (vec![0; ANSWER_BYTES], Vec::new());
        loop {
            let (length, _) =
                match rustix::net::recv(&self.socket, &mut datagram, RecvFlags::empty()) {
                    Err(Errno::INTR) => continue,
                    received => received?,
                };
            let answered = answers(&datagram[..length.min(ANSWER_BYTES)], self.sequence);
            found = answered.attributes.unwrap_or(found);
            match answered.outcome {
                Some(Ok(())) => return Ok(found),
                Some(Err(code)) => return Err(Errno::from_raw_os_error(code)),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_what_the_kernel_takes() {
        let files = Attributes::default().nested(1, &Attributes::default().u32(1, 7));
        let attributes = Attributes::default().text(10, "ab").nested(7, &files);
        let sent = message(0x1C, 9, 3, &attributes);
        let mut expected = vec![];
        for number in [44_u32, 0x1C | 5 << 16, 9, 0, 3 | 1 << 8] {
            expected.extend_from_slice(&number.to_ne_bytes());
        }
        expected.extend_from_slice(&(7_u32 | 10 << 16).to_ne_bytes());
        expected.extend_from_slice(b"ab\0\0");
        for number in [16_u32 | 0x8007 << 16, 12 | 0x8001 << 16, 8 | 1 << 16, 7] {
            expected.extend_from_slice(&number.to_ne_bytes());
        }
        assert_eq!(sent, expected);
        assert_eq!(find_u32(&attributes.u32(1, 5).0, 1), Some(5));
    }

    #[test]
    fn answers_are_told_from_each_other_and_from_rubbish() {
        let reply =
            |sequence, index| message(0x1C, sequence, 1, &Attributes::default().u32(1, index));
        let mut end = message(ERROR, 4, 0, &Attributes::default());
        end[HEADER_BYTES..].copy_from_slice(&0_i32.to_ne_bytes());
        let both = [reply(3, 9), reply(4, 2), end.clone()].concat();
        let answered = answers(&both, 4);
        assert_eq!(find_u32(&answered.attributes.unwrap(), 1), Some(2));
        assert_eq!(answered.outcome, Some(Ok(())));
        end[HEADER_BYTES..].copy_from_slice(&(-16_i32).to_ne_bytes());
        assert_eq!(answers(&end, 4).outcome, Some(Err(16)));
        assert_eq!(answers(&end, 5).outcome, None);
        for length in 0..both.len() {
            answers(&both[..length], 4);
        }
        for wrong in [0_u32, 3, 15, u32::MAX] {
            let mut broken = both.clone();
            broken[..4].copy_from_slice(&wrong.to_ne_bytes());
            assert_eq!(answers(&broken, 4), Replies { attributes: None, outcome: None }, "{wrong}");
        }
        assert_eq!(find(&[3, 0, 1, 0], 1), None, "an attribute that is shorter than its header");
    }

    #[test]
    fn this_kernel_answers() {
        // The controller is itself a family, present in every kernel with generic netlink.
        match Family::open("nlctrl") {
            Ok(family) => assert_eq!(family.expect("it knows itself").number, CONTROLLER),
            Err(error) => {
                test_tools::not_possible(
                    "generic netlink",
                    &format!("this kernel has none: {error}"),
                );
            }
        }
        if let Ok(none) = Family::open("no-such-thing") {
            assert!(none.is_none());
        }
    }
}
