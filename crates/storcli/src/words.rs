//! The grammar of the command line: objects such as `/c0/e252/s1`, then a verb and its words.
//!
//! Case does not matter but in values. Objects may be written together or apart. Words about the form of the answer stand anywhere.

use crate::answer::Answer;
use std::ops::RangeInclusive;

/// The most numbers that one object may name one by one.
const MOST_NUMBERS: u64 = 4096;

/// Which form the answer has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Text,
    Json,
}

/// Which of several things are meant.
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
        let count: u64 = ranges.iter().map(|range| u64::from(range.end() - range.start()) + 1).sum();
        (count <= MOST_NUMBERS).then_some(Numbers::These(ranges))
    }

    /// Whether a number is meant.
    pub(crate) fn has(&self, number: u32) -> bool {
        match self {
            Numbers::All => true,
            Numbers::These(ranges) => ranges.iter().any(|range| range.contains(&number)),
        }
    }

    /// The numbers that are named one by one.
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

/// What a command is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum What {
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
    /// Something that is not there in software: phys, lanes.
    Absent,
}

/// A word behind the objects: `show`, `name=data`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Word {
    /// In small letters; of `key=value` the key.
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

    /// The value in small letters; nothing where there is none.
    pub(crate) fn low(&self) -> String {
        self.value.as_deref().unwrap_or_default().to_ascii_lowercase()
    }
}

/// A command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    Version,
    Help,
    /// `show` without an object.
    Overview(Vec<Word>),
    About {
        controllers: Numbers,
        what: What,
        words: Vec<Word>,
    },
}

/// What is asked, and in which form; an answer if that cannot be understood.
pub(crate) fn read(words: &[String]) -> (Form, Result<Asked, Answer>) {
    let mut form = Form::Text;
    let mut rest: Vec<&str> = Vec::new();
    let mut refusal = None;
    for word in words {
        match word.to_ascii_lowercase().as_str() {
            "j" => form = Form::Json,
            // Nothing is logged in any case.
            "nolog" => {}
            low if low == "logfile" || low.starts_with("logfile=") => {
                refusal = Some(Answer::syntax("logfile: nothing is logged in a file; leave it out"));
            }
            _ => rest.push(word),
        }
    }
    (form, refusal.map_or_else(|| asked(&rest), Err))
}

fn asked(words: &[&str]) -> Result<Asked, Answer> {
    let objects: Vec<&str> = words.iter().copied().take_while(|word| word.starts_with('/')).collect();
    let rest: Vec<Word> = words[objects.len()..].iter().map(|word| Word::read(word)).collect();
    if !objects.is_empty() {
        let (controllers, what) = object(&objects.concat())?;
        return Ok(Asked::About { controllers, what, words: rest });
    }
    match rest.first().map(Word::bare) {
        None | Some("-h" | "--help" | "help" | "?") => Ok(Asked::Help),
        Some("-v" | "--version" | "v" | "version") => Ok(Asked::Version),
        Some("show") => Ok(Asked::Overview(rest[1..].to_vec())),
        Some(_) => Err(Answer::syntax(&format!("TOKEN_UNKNOWN '{}'", words.first().unwrap_or(&"")))),
    }
}

/// `/c0/e252/s1`, and so on: the controllers, and what of them.
fn object(path: &str) -> Result<(Numbers, What), Answer> {
    let wrong = |part: &str| Answer::syntax(&format!("object '/{part}'"));
    let path = path.to_ascii_lowercase();
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let first = parts.next().ok_or_else(|| wrong(""))?;
    let controllers = first.strip_prefix('c').and_then(Numbers::read).ok_or_else(|| wrong(first))?;
    let mut what = What::Controller;
    for part in parts {
        what = below(what, part).ok_or_else(|| wrong(part))?;
    }
    Ok((controllers, what))
}

/// One object more.
fn below(what: What, part: &str) -> Option<What> {
    let numbered = |letter: &str| part.strip_prefix(letter).and_then(Numbers::read);
    match what {
        What::Controller if part == "bbu" => Some(What::Bbu),
        What::Controller if part == "cv" => Some(What::Cv),
        What::Controller if numbered("ln").is_some() || numbered("p").is_some() => Some(What::Absent),
        What::Controller => numbered("e")
            .map(What::Enclosures)
            .or_else(|| numbered("s").map(|slots| What::Drives { enclosures: None, slots }))
            .or_else(|| numbered("v").map(What::Volumes))
            .or_else(|| numbered("d").map(What::Groups))
            .or_else(|| numbered("f").map(What::Foreign)),
        What::Enclosures(enclosures) => {
            numbered("s").map(|slots| What::Drives { enclosures: Some(enclosures), slots })
        }
        _ => None,
    }
}

/// A drive as `drives=` names it: `[e:]s`.
pub(crate) type Place = (Option<u32>, u32);

/// `[e:]s|[e:]s-x|[e:]s-x,y`: an enclosure goes for what follows it.
pub(crate) fn read_places(text: &str) -> Option<Vec<Place>> {
    let mut enclosure = None;
    let mut places = Vec::new();
    for part in text.split([',', '|', ';']) {
        let slots = match part.split_once(':') {
            None => part,
            // A blank where there is no enclosure.
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

    fn read_line(line: &str) -> (Form, Result<Asked, Answer>) {
        read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn objects_are_read_together_and_apart_in_any_case() {
        let drives = |enclosures: Option<Numbers>, slots| What::Drives { enclosures, slots };
        let one = |number| Numbers::These(vec![number..=number]);
        for (line, expected) in [
            ("/c0 show", What::Controller),
            ("/C0 /V1 show", What::Volumes(one(1))),
            ("/cALL/eALL/sALL show all J nolog", drives(Some(Numbers::All), Numbers::All)),
            ("/c0/s3 show", drives(None, one(3))),
            ("/c0/e252/s0-2,5 show", drives(Some(one(252)), Numbers::These(vec![0..=2, 5..=5]))),
            ("/c0 /bbu show", What::Bbu),
            ("/c0/cv show", What::Cv),
            ("/c0/fall show", What::Foreign(Numbers::All)),
            ("/c0/dall show", What::Groups(Numbers::All)),
            ("/c0/ln0 show", What::Absent),
        ] {
            match read_line(line).1 {
                Ok(Asked::About { what, words, .. }) => {
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
        assert_eq!(read_line("/c0 show J").0, Form::Json);
        assert!(
            matches!(read_line("show ctrlcount").1, Ok(Asked::Overview(words)) if words[0].key == "ctrlcount")
        );
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
