//! Formatting of states, times, addresses and shell words.

use askama::Template;
use askama::filters::HtmlSafe;
use controller::{DriveState, Severity, TaskState, VolumeState, WellBeing};
use std::borrow::Cow;
use std::fmt;
use units::printable_lines;

/// Renders a template. Names and messages in it cannot reorder the page or hide in it. Rendering
/// into a string cannot fail; if it did, the page would say so.
pub(crate) fn rendered(template: &impl Template) -> String {
    let failed = || {
        "<p>This part cannot be shown. 'softroc health' shows the overall health.</p>".to_owned()
    };
    let page = template.render().unwrap_or_else(|_| failed());
    match printable_lines(&page) {
        Cow::Borrowed(_) => page,
        Cow::Owned(safe) => safe,
    }
}

/// The decoded fields of an address or a form, in order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Query(pub Vec<(String, String)>);

impl Query {
    /// The first value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All values of a field.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    /// As part of an address with `?`, without the fields that report the last action.
    pub(crate) fn to_address(&self) -> String {
        let kept = self.0.iter().filter(|(name, _)| name != "asked");
        let fields: Vec<String> =
            kept.map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        if fields.is_empty() { String::new() } else { format!("?{}", fields.join("&")) }
    }
}

/// The page to return to, restricted to the console.
pub fn back(named: Option<&str>) -> &str {
    let is_ours = |address: &&str| {
        address.starts_with("/console/")
            && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    named.filter(is_ours).unwrap_or("/console/")
}

/// Percent-encodes a text.
pub fn encoded(text: &str) -> String {
    let mut address = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                address.push(byte.into());
            }
            _ => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}

/// The address of a volume's page.
pub(crate) fn volume_page(name: &str) -> String {
    format!("/console/volume?of={}", encoded(name))
}

/// The address of a drive's page.
pub(crate) fn drive_page(name: &str) -> String {
    format!("/console/drive?of={}", encoded(name))
}

/// Quotes a text as one shell word.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A clause as a sentence: capital letter and full stop.
pub(crate) fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let stops = clause.ends_with(['.', '!', '?']) || clause.ends_with(".)");
    let stop = if stops { "" } else { "." };
    format!("{first}{}{stop}", letters.as_str())
}

/// The severity of a state. The page never shows it by colour alone, but also with a sign and a
/// word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tone {
    Good,
    Busy,
    Idle,
    Warning,
    Bad,
}

impl Tone {
    /// The CSS class.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Busy => "busy",
            Tone::Idle => "idle",
            Tone::Warning => "warning",
            Tone::Bad => "bad",
        }
    }

    /// The sign.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Tone::Good => "✔",
            Tone::Busy => "↻",
            Tone::Idle => "○",
            Tone::Warning => "▲",
            Tone::Bad => "✖",
        }
    }
}

impl From<VolumeState> for Tone {
    fn from(state: VolumeState) -> Tone {
        match state {
            VolumeState::Optimal => Tone::Good,
            VolumeState::Degraded => Tone::Warning,
            VolumeState::Offline | VolumeState::Missing => Tone::Bad,
        }
    }
}

impl From<DriveState> for Tone {
    fn from(state: DriveState) -> Tone {
        match state {
            DriveState::Online | DriveState::Spare | DriveState::Log => Tone::Good,
            DriveState::Unused | DriveState::Foreign => Tone::Idle,
            DriveState::Rebuilding | DriveState::Filling => Tone::Busy,
            DriveState::Offline | DriveState::Stale | DriveState::Suspended => Tone::Warning,
            DriveState::Failed | DriveState::Missing | DriveState::Refused => Tone::Bad,
        }
    }
}

impl From<TaskState> for Tone {
    fn from(state: TaskState) -> Tone {
        match state {
            TaskState::Running => Tone::Busy,
            TaskState::Paused | TaskState::Waiting | TaskState::Stopped | TaskState::Cancelled => {
                Tone::Idle
            }
            TaskState::Done => Tone::Good,
            TaskState::Failed => Tone::Bad,
        }
    }
}

impl From<Severity> for Tone {
    fn from(severity: Severity) -> Tone {
        match severity {
            Severity::Info => Tone::Idle,
            Severity::Warning => Tone::Warning,
            Severity::Critical | Severity::Fatal => Tone::Bad,
        }
    }
}

impl From<WellBeing> for Tone {
    fn from(status: WellBeing) -> Tone {
        match status {
            WellBeing::Ok => Tone::Good,
            WellBeing::Warning => Tone::Warning,
            WellBeing::Critical => Tone::Bad,
        }
    }
}

/// A state on a page: sign and word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Badge<S>(pub(crate) S);

impl<S: fmt::Display + Copy + Into<Tone>> fmt::Display for Badge<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tone: Tone = self.0.into();
        let (class, sign) = (tone.class(), tone.sign());
        // State names are constants and need no escaping.
        write!(
            f,
            "<span class=\"badge {class}\"><span aria-hidden=\"true\">{sign}</span> {}</span>",
            self.0
        )
    }
}

impl<S: fmt::Display + Copy + Into<Tone>> HtmlSafe for Badge<S> {}

/// A moment: relative, with the exact time as a tooltip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) at_s: u64,
    pub(crate) now_s: u64,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, exact) = (units::utc(self.at_s), exactly(self.at_s));
        write!(f, "<time datetime=\"{at}\" title=\"{exact}\">{}</time>", self.relative())
    }
}

impl HtmlSafe for Moment {}

impl Moment {
    /// Coarse, so that a page with it changes at most once a minute.
    fn relative(self) -> String {
        let (distance, is_past) = (self.now_s.abs_diff(self.at_s), self.at_s <= self.now_s);
        let text = match distance {
            0..60 => return if is_past { "just now" } else { "in a moment" }.to_owned(),
            60..7200 => format!("{} min", distance / 60),
            7200..172_800 => format!("{} h", distance / 3600),
            _ => format!("{} days", distance / 86_400),
        };
        if is_past { format!("{text} ago") } else { format!("in {text}") }
    }
}

/// The exact time, in UTC.
pub(crate) fn exactly(unix_s: u64) -> String {
    units::utc(unix_s).replace('T', " ").replace('Z', " UTC")
}

/// A duration in seconds.
pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_coarse() {
        let relative = |at_s, now_s| Moment { at_s, now_s }.relative();
        assert_eq!(relative(100, 159), "just now");
        assert_eq!(relative(100, 160), "1 min ago");
        assert_eq!(relative(10_000, 0), "in 2 h");
        assert_eq!(relative(0, 172_800), "2 days ago");
        assert_eq!(exactly(0), "1970-01-01 00:00:00 UTC");
    }

    #[derive(Template)]
    #[template(source = "<td>{{ name }}</td>\n", ext = "html")]
    struct Cell<'a> {
        name: &'a str,
    }

    #[test]
    fn a_name_neither_reorders_a_page_nor_hides_in_it() {
        let cell = |name| rendered(&Cell { name });
        assert_eq!(
            cell("a\u{202e}<b>\x1b\u{9b}\u{2066}"),
            "<td>a\\u202e&#60;b&#62;\\u001b\\u009b\\u2066</td>\n"
        );
        assert_eq!(cell("Größe\t1"), "<td>Größe\t1</td>\n");
    }

    #[test]
    fn words_reach_a_shell_as_they_are() {
        for (text, word) in [
            ("/dev/sdb", "/dev/sdb"),
            ("a b", "'a b'"),
            ("it's; rm", r"'it'\''s; rm'"),
            ("--yes", "'--yes'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), word);
        }
        assert_eq!(encoded("/dev/s d&é"), "%2Fdev%2Fs%20d%26%C3%A9");
        assert_eq!(sentence("all is well"), "All is well.");
        assert_eq!(sentence("two are (see there.)"), "Two are (see there.)");
    }
}
