//! SNMP v2c (RFC 3416): informs and traps in BER (X.690), the subset needed. `docs/SOFTROC-MIB.txt`
//! defines the objects.

use crate::{Message, Sender};
use controller::Severity;

/// 1.3.6.1.4.1.32473: the enterprise number for examples (RFC 5612); the project has no own number.
const OURS: &[u32] = &[1, 3, 6, 1, 4, 1, 32473, 1];

const SYS_UP_TIME: &[u32] = &[1, 3, 6, 1, 2, 1, 1, 3, 0];
const SNMP_TRAP_OID: &[u32] = &[1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0];

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const TIME_TICKS: u8 = 0x43;
const RESPONSE: u8 = 0xA2;
const INFORM: u8 = 0xA6;
const TRAP: u8 = 0xA7;

/// Parameters of a message besides its event.
#[derive(Clone, Copy, Debug)]
pub struct Variables<'a> {
    /// The community string.
    pub community: &'a str,
    /// Inform (acknowledged) or trap.
    pub is_inform: bool,
    /// The request ID, which the response repeats.
    pub request: u32,
    /// Now, in seconds since 1970.
    pub now_s: u64,
}

/// A message as one datagram.
pub fn snmp(message: &Message, sender: &Sender, variables: Variables<'_>) -> Vec<u8> {
    let event = &message.event;
    // TimeTicks: hundredths of a second, 32 bits that wrap.
    let up = variables.now_s.saturating_sub(sender.started_unix_s).wrapping_mul(100)
        & u64::from(u32::MAX);
    let severity = match event.severity {
        Severity::Info => 0,
        Severity::Warning => 1,
        Severity::Critical => 2,
        Severity::Fatal => 3,
    };
    let own = |last: u32| [OURS, &[1, last, 0][..]].concat();
    let text = |value: &str| tagged(OCTETS, value.as_bytes());
    let bindings = [
        bound(SYS_UP_TIME, tagged(TIME_TICKS, &number(up))),
        bound(SNMP_TRAP_OID, object(&[OURS, &[0, 1][..]].concat())),
        bound(&own(1), text(&event.code)),
        bound(&own(2), tagged(INTEGER, &number(severity))),
        bound(&own(3), text(&event.subject)),
        bound(&own(4), text(&message.text())),
        bound(&own(5), text(&event.number.to_string())),
        bound(&own(6), text(&sender.host)),
        bound(&own(7), text(&event.cause)),
        bound(&own(8), text(&event.effect)),
    ];
    let zero = tagged(INTEGER, &[0]);
    let request = tagged(INTEGER, &number(u64::from(variables.request & 0x7FFF_FFFF)));
    let body = [request, zero.clone(), zero, tagged(SEQUENCE, &bindings.concat())].concat();
    let kind = if variables.is_inform { INFORM } else { TRAP };
    let version = tagged(INTEGER, &[1]);
    tagged(SEQUENCE, &[version, text(variables.community), tagged(kind, &body)].concat())
}

/// Whether a datagram is the response to an inform, without an error.
pub fn answers(datagram: &[u8], request: u32) -> bool {
    let read = || {
        let (message, _) = part(datagram, SEQUENCE)?;
        let (_, rest) = part(message, INTEGER)?;
        let (_, rest) = part(rest, OCTETS)?;
        let (body, _) = part(rest, RESPONSE)?;
        let (number, rest) = part(body, INTEGER)?;
        let (error, _) = part(rest, INTEGER)?;
        let value =
            |bytes: &[u8]| bytes.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        Some(
            number.len() <= 5
                && value(number) == u64::from(request & 0x7FFF_FFFF)
                && value(error) == 0,
        )
    };
    read().unwrap_or(false)
}

/// Splits off a value with that tag at the beginning; returns the value and the rest.
fn part(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => {
            let (length, rest) = rest.split_at_checked(2)?;
            (usize::from(length[0]) << 8 | usize::from(length[1]), rest)
        }
        short if *short < 0x80 => (usize::from(*short), rest),
        _ => return None,
    };
    (*first == tag).then(|| rest.split_at_checked(length)).flatten()
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    match length {
        0..0x80 => out.push(length as u8),
        0x80..0x100 => out.extend([0x81, length as u8]),
        0x100..0x1_0000 => out.extend([0x82, (length >> 8) as u8, length as u8]),
        _ => out.extend([0x83, (length >> 16) as u8, (length >> 8) as u8, length as u8]),
    }
    out.extend(content);
    out
}

fn bound(name: &[u32], value: Vec<u8>) -> Vec<u8> {
    tagged(SEQUENCE, &[object(name), value].concat())
}

/// Encodes an OID: the first two numbers share a byte; then seven bits per byte.
fn object(name: &[u32]) -> Vec<u8> {
    let mut content = Vec::new();
    let first = name.first().copied().unwrap_or(0) * 40 + name.get(1).copied().unwrap_or(0);
    for number in std::iter::once(first).chain(name.iter().skip(2).copied()) {
        let groups = (32 - number.leading_zeros()).div_ceil(7).max(1);
        for group in (0..groups).rev() {
            let more = if group > 0 { 0x80 } else { 0 };
            content.push((number >> (7 * group) & 0x7F) as u8 | more);
        }
    }
    tagged(OBJECT, &content)
}

/// Encodes an unsigned integer in the fewest bytes.
fn number(value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len() - 1);
    let mut out = bytes[first..].to_vec();
    if out.first().is_some_and(|byte| *byte >= 0x80) {
        out.insert(0, 0);
    }
    out
}
