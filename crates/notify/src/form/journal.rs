//! The native protocol of systemd's journal: a datagram of fields (systemd.io, "Native Journal
//! Protocol").

use crate::Message;

/// The fields of a message, as one datagram.
pub fn journal(message: &Message) -> Vec<u8> {
    let event = &message.event;
    let mut out = Vec::new();
    let mut field = |name: &str, value: &str| {
        out.extend(name.as_bytes());
        if value.contains('\n') {
            // A value with several lines has its length before it: 64 bits, little-endian.
            out.push(b'\n');
            out.extend((value.len() as u64).to_le_bytes());
        } else {
            out.push(b'=');
        }
        out.extend(value.as_bytes());
        out.push(b'\n');
    };
    field("MESSAGE", &message.text());
    field("MESSAGE_ID", &message_id(&event.code));
    field("PRIORITY", &message.priority().to_string());
    field("SYSLOG_IDENTIFIER", "softroc");
    field("SOFTROC_CODE", &event.code);
    field("SOFTROC_SEVERITY", &event.severity.to_string());
    field("SOFTROC_SUBJECT", &event.subject);
    field("SOFTROC_CAUSE", &event.cause);
    field("SOFTROC_EFFECT", &event.effect);
    field("SOFTROC_NUMBER", &event.number.to_string());
    field("SOFTROC_TIME", &units::utc(event.time_unix_s));
    if message.more > 0 {
        field("SOFTROC_MORE", &message.more.to_string());
    }
    out
}

/// The `MESSAGE_ID` of a code: 128 constant bits, as 32 digits. FNV-1a of the code, formatted as a
/// version 8 UUID (RFC 9562: custom data).
pub fn message_id(code: &str) -> String {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let name = format!("softroc event {code}");
    let sum = name.bytes().fold(BASIS, |sum, byte| (sum ^ u128::from(byte)).wrapping_mul(PRIME));
    let version = sum & !(0xF << 76) | 0x8 << 76;
    format!("{:032x}", version & !(0x3 << 62) | 0x2 << 62)
}
