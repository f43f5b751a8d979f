//! Queries to `upsd` of Network UPS Tools, and the meaning of its replies. The protocol is lines of
//! text over TCP; see "Network protocol information" in the developers' guide of Network UPS Tools.
//! This module does no I/O.

use crate::interface::{ProtectionState, UpsAddress};

/// The maximum length of a reply.
pub(super) const LONGEST_LINE: usize = 1024;

/// The query for the state of a UPS.
pub(super) fn question(ups: &UpsAddress) -> String {
    format!("GET VAR {} ups.status\n", ups.name)
}

/// Parses a reply to [`question`]: the words of the state, such as `OL CHRG`.
///
/// # Errors
/// Why it contains no state: a clause.
pub(super) fn answer(ups: &UpsAddress, line: &str) -> Result<String, String> {
    let line = line.trim_end();
    if let Some(error) = line.strip_prefix("ERR ") {
        return Err(match error.split(' ').next().unwrap_or_default() {
            "UNKNOWN-UPS" => format!("it does not know a UPS '{}'", ups.name),
            "DATA-STALE" => "its driver has no recent data of the UPS".to_owned(),
            "DRIVER-NOT-CONNECTED" => "the driver of the UPS is not running".to_owned(),
            "ACCESS-DENIED" => "it denies access to this host".to_owned(),
            other => format!("it refuses: {other}"),
        });
    }
    let value = line.strip_prefix("VAR ").and_then(|rest| rest.strip_prefix(ups.name.as_str()));
    let value = value.and_then(|rest| rest.strip_prefix(" ups.status ")).and_then(quoted);
    value.ok_or_else(|| {
        format!(
            "its reply is not a state of a UPS: {:?}",
            line.chars().take(80).collect::<String>()
        )
    })
}

/// The content of `"text"`, with the escapes `\\` and `\"` resolved.
fn quoted(text: &str) -> Option<String> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let (mut value, mut chars) = (String::new(), inner.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => value.push(chars.next()?),
            '"' => return None,
            other => value.push(other),
        }
    }
    Some(value)
}

/// The meaning of the words of a state, and the reason: a clause that can follow "the UPS".
///
/// | words | state |
/// | --- | --- |
/// | `FSD`; `OB` with `LB` | failed: power loss is imminent |
/// | `OB`, `LB`, `RB`, `OFF`, `BYPASS`, `CAL`, `OVER` | degraded: it may not bridge an outage |
/// | `OL` with `CHRG` | charging |
/// | `OL` | optimal |
/// | anything else | missing: the power state is unknown |
pub(super) fn meaning(status: &str) -> (ProtectionState, &'static str) {
    let has = |word: &str| status.split_whitespace().any(|other| other == word);
    match () {
        () if has("FSD") => (ProtectionState::Failed, "is about to shut down"),
        () if has("OB") && has("LB") => {
            (ProtectionState::Failed, "is on battery, which is nearly empty")
        }
        () if has("OB") => (ProtectionState::Degraded, "is on battery"),
        () if has("OFF") => (ProtectionState::Degraded, "is off"),
        () if has("BYPASS") => (ProtectionState::Degraded, "is bypassed"),
        () if has("CAL") => {
            (ProtectionState::Degraded, "is calibrating, which discharges its battery")
        }
        () if has("LB") => (ProtectionState::Degraded, "has a low battery"),
        () if has("RB") => (ProtectionState::Degraded, "needs a new battery"),
        () if has("OVER") => (ProtectionState::Degraded, "is overloaded"),
        () if has("OL") && has("CHRG") => {
            (ProtectionState::Charging, "is on line, and charges its battery")
        }
        () if has("OL") => (ProtectionState::Optimal, "is on line"),
        () => (ProtectionState::Missing, "does not report its power state"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ups() -> UpsAddress {
        "rack@nut".parse().expect("an address")
    }

    #[test]
    fn answers_are_read_and_refusals_are_said() {
        assert_eq!(question(&ups()), "GET VAR rack ups.status\n");
        assert_eq!(answer(&ups(), "VAR rack ups.status \"OL CHRG\"\r\n"), Ok("OL CHRG".to_owned()));
        assert_eq!(answer(&ups(), r#"VAR rack ups.status "a\"b\\c""#), Ok(r#"a"b\c"#.to_owned()));
        for (line, word) in [
            ("ERR UNKNOWN-UPS", "does not know a UPS 'rack'"),
            ("ERR DATA-STALE", "no recent data"),
            ("ERR DRIVER-NOT-CONNECTED", "is not running"),
            ("ERR ACCESS-DENIED", "denies access to this host"),
            ("ERR VAR-NOT-SUPPORTED", "VAR-NOT-SUPPORTED"),
            ("VAR other ups.status \"OL\"", "not a state"),
            ("VAR rack ups.load \"7\"", "not a state"),
            ("VAR rack ups.status \"OL", "not a state"),
            (r#"VAR rack ups.status "OL\""#, "not a state"),
            ("", "not a state"),
        ] {
            let why = answer(&ups(), line).expect_err(line);
            assert!(why.contains(word), "{line}: {why}");
        }
    }

    #[test]
    fn every_state_has_one_meaning() {
        for (status, state) in [
            ("OL", ProtectionState::Optimal),
            ("OL CHRG", ProtectionState::Charging),
            ("OL TRIM", ProtectionState::Optimal),
            ("OB DISCHRG", ProtectionState::Degraded),
            ("OB DISCHRG LB", ProtectionState::Failed),
            ("LB OB", ProtectionState::Failed),
            ("OL LB", ProtectionState::Degraded),
            ("OL RB", ProtectionState::Degraded),
            ("OL CAL", ProtectionState::Degraded),
            ("OL OVER", ProtectionState::Degraded),
            ("OL OFF", ProtectionState::Degraded),
            ("BYPASS", ProtectionState::Degraded),
            ("FSD OL", ProtectionState::Failed),
            ("OLD", ProtectionState::Missing),
            ("", ProtectionState::Missing),
            ("WAIT", ProtectionState::Missing),
        ] {
            assert_eq!(meaning(status).0, state, "{status:?}");
        }
    }
}
