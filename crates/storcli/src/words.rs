//! The grammar of the command line: objects such as `/c0/e252/s1`, then a verb and its words.
//!
//! Only values are case-sensitive. Objects may be written as one word or several. Output options
//! may stand anywhere.

use crate::answer::Answer;
use std::ops::RangeInclusive;

/// Maximum count of listed numbers of one object.
const MOST_NUMBERS: u64 = 4096;

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutputFormat {
    Text,
    Json,
}

/// The numbers of selected objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Numbers {
    All,
    These(Vec<RangeInclusive<u32>>),
}

impl Numbers {
    /// `3`, `0-2`, `2,5`, `all`.
    pub(crate) fn read(text: &str) -> Option<Numbers> {
        if text == "all" {
            return Some(Numbers::All);
        }
        let ranges: Option<Vec<_>> = text.split(',').map(read_range).collect();
        let ranges = ranges?;
        let count: u64 =
            ranges.iter().map(|range| u64::from(range.end() - range.start()) + 1).sum();
        (count <= MOST_NUMBERS).then_some(Numbers::These(ranges))
    }

    /// Whether the number is selected.
    pub(crate) fn has(&self, number: u32) -> bool {
        match self {
            Numbers::All => true,
            Numbers::These(ranges) => ranges.iter().any(|range| range.contains(&number)),
        }
    }

    /// The explicitly listed numbers.
    pub(crate) fn named(&self) -> Vec<u32> {
        match self {
            Numbers::All => Vec::new(),
            Numbers::These(ranges) => ranges.iter().cloned().flatten().collect(),
        }
    }
}

/// `3`, `0-2`.
fn read_range(text: &str) -> Option<RangeInclusive<u32>> {
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u32>().ok()).flatten()
    };
    match text.split_once('-') {
        None => number(text).map(|one| one..=one),
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(first..=last)
        }
    }
}

/// The object of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Object {
    Controller,
    Enclosures(Numbers),
    Drives {
        enclosures: Option<Numbers>,
        slots: Numbers,
    },
    Volumes(Numbers),
    Groups(Numbers),
    Foreign(Numbers),
    Bbu,
    Cv,
    /// Hardware that software does not have: phys, lanes.
    Absent,
}

/// A word after the objects: `show`, `name=data`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Word {
    /// Lowercase; for `key=value` the key.
    pub(crate) key: String,
    pub(crate) value: Option<String>,
}

impl Word {
    fn read(text: &str) -> Word {
        match text.split_once('=') {
            None => Word { key: text.to_ascii_lowercase(), value: None },
            Some((key, value)) => Word {
                key: key.to_ascii_lowercase(),
                value: Some(value.trim_matches(['"', '\'']).to_owned()),
            },
        }
    }

    /// The word, if it has no value.
    pub(crate) fn bare(&self) -> &str {
        if self.value.is_none() { &self.key } else { "" }
    }

    /// The value in lowercase; empty without a value.
    pub(crate) fn low(&self) -> String {
        self.value.as_deref().unwrap_or_default().to_ascii_lowercase()
    }
}

/// A command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ParsedCommand {
    Version,
    Help,
    /// `show` without an object.
    Overview(Vec<Word>),
    About {
        controllers: Numbers,
        what: Object,
        words: Vec<Word>,
    },
}

/// Parses the command and its output format; an error reply if that fails.
pub(crate) fn read(words: &[String]) -> (OutputFormat, Result<ParsedCommand, Answer>) {
    let mut form = OutputFormat::Text;
    let mut rest: Vec<&str> = Vec::new();
    let mut refusal = None;
    for word in words {
        match word.to_ascii_lowercase().as_str() {
            "j" => form = OutputFormat::Json,
            // There is no log file in any case.
            "nolog" => {}
            low if low == "logfile" || low.starts_with("logfile=") => {
                refusal = Some(Answer::syntax("logfile: log files are not supported; omit it"));
            }
            _ => rest.push(word),
        }
    }
    (form, refusal.map_or_else(|| asked(&rest), Err))
}

fn asked(words: &[&str]) -> Result<ParsedCommand, Answer> {
    let objects: Vec<&str> =
        words.iter().copied().take_while(|word| word.starts_with('/')).collect();
    let rest: Vec<Word> = words[objects.len()..].iter().map(|word| Word::read(word)).collect();
    if !objects.is_empty() {
        let (controllers, what) = object(&objects.concat())?;
        return Ok(ParsedCommand::About { controllers, what, words: rest });
    }
    match rest.first().map(Word::bare) {
        None | Some("-h" | "--help" | "help" | "?") => Ok(ParsedCommand::Help),
        Some("-v" | "--version" | "v" | "version") => Ok(ParsedCommand::Version),
        Some("show") => Ok(ParsedCommand::Overview(rest[1..].to_vec())),
        Some(_) => {
            Err(Answer::syntax(&format!("TOKEN_UNKNOWN '{}'", words.first().unwrap_or(&""))))
        }
    }
}

/// Parses `/c0/e252/s1` and so on: the controllers and the object below.
fn object(path: &str) -> Result<(Numbers, Object), Answer> {
    let wrong = |part: &str| Answer::syntax(&format!("object '/{part}'"));
    let path = path.to_ascii_lowercase();
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let first = parts.next().ok_or_else(|| wrong(""))?;
    let controllers =
        first.strip_prefix('c').and_then(Numbers::read).ok_or_else(|| wrong(first))?;
    let mut what = Object::Controller;
    for part in parts {
        what = below(what, part).ok_or_else(|| wrong(part))?;
    }
    Ok((controllers, what))
}

/// The next object of a path.
fn below(what: Object, part: &str) -> Option<Object> {
    let numbered = |letter: &str| part.strip_prefix(letter).and_then(Numbers::read);
    match what {
        Object::Controller if part == "bbu" => Some(Object::Bbu),
        Object::Controller if part == "cv" => Some(Object::Cv),
        Object::Controller if numbered("ln").is_some() || numbered("p").is_some() => {
            Some(Object::Absent)
        }
        Object::Controller => numbered("e")
            .map(Object::Enclosures)
            .or_else(|| numbered("s").map(|slots| Object::Drives { enclosures: None, slots }))
            .or_else(|| numbered("v").map(Object::Volumes))
            .or_else(|| numbered("d").map(Object::Groups))
            .or_else(|| numbered("f").map(Object::Foreign)),
        Object::Enclosures(enclosures) => {
            numbered("s").map(|slots| Object::Drives { enclosures: Some(enclosures), slots })
        }
        _ => None,
    }
}

/// A drive in the format of `drives=`: `[e:]s`.
pub(crate) type DriveLocation = (Option<u32>, u32);

/// `[e:]s|[e:]s-x|[e:]s-x,y`: an enclosure applies to the following slots.
pub(crate) fn read_places(text: &str) -> Option<Vec<DriveLocation>> {
    let mut enclosure = None;
    let mut places = Vec::new();
    for part in text.split([',', '|', ';']) {
        let slots = match part.split_once(':') {
            None => part,
            // A blank instead of an enclosure.
            Some((blank, slots)) if blank.trim().is_empty() => slots,
            Some((number, slots)) => {
                enclosure = Some(*read_range(number.trim())?.start());
                slots
            }
        };
        let range = read_range(slots.trim())?;
        if u64::from(range.end() - range.start()) + places.len() as u64 >= MOST_NUMBERS {
            return None;
        }
        places.extend(range.map(|slot| (enclosure, slot)));
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &str) -> (OutputFormat, Result<ParsedCommand, Answer>) {
        read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn objects_are_read_together_and_apart_in_any_case() {
        let drives = |enclosures: Option<Numbers>, slots| Object::Drives { enclosures, slots };
        let one = |number| Numbers::These(vec![number..=number]);
        for (line, expected) in [
            ("/c0 show", Object::Controller),
            ("/C0 /V1 show", Object::Volumes(one(1))),
            ("/cALL/eALL/sALL show all J nolog", drives(Some(Numbers::All), Numbers::All)),
            ("/c0/s3 show", drives(None, one(3))),
            ("/c0/e252/s0-2,5 show", drives(Some(one(252)), Numbers::These(vec![0..=2, 5..=5]))),
            ("/c0 /bbu show", Object::Bbu),
            ("/c0/cv show", Object::Cv),
            ("/c0/fall show", Object::Foreign(Numbers::All)),
            ("/c0/dall show", Object::Groups(Numbers::All)),
            ("/c0/ln0 show", Object::Absent),
        ] {
            match read_line(line).1 {
                Ok(ParsedCommand::About { what, words, .. }) => {
                    assert_eq!(what, expected, "{line}");
                    assert_eq!(words[0].key, "show");
                }
                other => panic!("{line}: {other:?}"),
            }
        }
        for wrong in [
            "/",
            "/x0 show",
            "/c show",
            "/c0/v0/s1 show",
            "/c0/e1/e2 show",
            "/c0/s2-1 show",
            "/c-1 show",
            "frob",
        ] {
            assert!(read_line(wrong).1.is_err(), "{wrong}");
        }
        assert!(read_line("/c0/s0-4294967295 show").1.is_err(), "it is not counted one by one");
        assert_eq!(read_line("/c0 show J").0, OutputFormat::Json);
        let Ok(ParsedCommand::Overview(words)) = read_line("show ctrlcount").1 else { panic!() };
        assert!(words[0].key == "ctrlcount");
    }

    #[test]
    fn drives_are_named_with_their_enclosure_once_or_each() {
        let e = |slot| (Some(252), slot);
        assert_eq!(read_places("252:0-2,5"), Some(vec![e(0), e(1), e(2), e(5)]));
        assert_eq!(read_places("252:0,252:1"), Some(vec![e(0), e(1)]));
        assert_eq!(read_places("3|4"), Some(vec![(None, 3), (None, 4)]));
        for wrong in ["", ":", "a:1", "1:", "1:2-1", "252:0-4294967295", "1,,2"] {
            assert_eq!(read_places(wrong), None, "{wrong}");
        }
    }
}
