//! What whoever starts a run may ask for, and what may be left out of a history to make it shorter.

use controller::WriteHole;
use layout::Level;
use std::collections::BTreeSet;
use std::fmt;

/// A drive that does not keep its word, to prove that the oracle notices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lie {
    /// Drives keep their word.
    #[default]
    None,
    /// The first drive acknowledges flushes and does nothing.
    IgnoresFlush,
    /// The first drive takes durable writes for cached ones.
    IgnoresDurable,
}

/// Whether a second volume is beside the first one. What a run draws of the first is the same, whatever is said here, but for the
/// length of drives that the two share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Neighbour {
    /// There is none.
    Never,
    /// In a third of the runs, or in half of them if a cache answers writes.
    #[default]
    Drawn,
    /// There is one.
    Always,
}

/// Whether there are log devices, which hold the journals of volumes instead of their members. What a run draws of everything else is the
/// same, whatever is said here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Log {
    /// There are none.
    Never,
    /// In a quarter of the runs whose first volume has parity.
    #[default]
    Drawn,
    /// There are some.
    Always,
}

/// Whether what was read is kept, and streams are read ahead.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Reads {
    /// Nothing is.
    Never,
    /// In some runs.
    #[default]
    Drawn,
    /// In every run that no drive lies in.
    Always,
}

/// Whether volumes whose writes a cache answers tell hosts so only when a log device has them (`logged-write-back`). What a run draws of everything
/// else is the same, whatever is said here.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Logged {
    /// None does.
    Never,
    /// In a third of the runs.
    #[default]
    Drawn,
    /// In every run.
    Always,
}

/// Whether volumes go to other layouts. What a run draws of everything else is the same, whatever is said here.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Migrations {
    /// None does.
    Never,
    /// In a quarter of the runs whose first volume can be moved.
    #[default]
    Drawn,
    /// In every run whose first volume can be moved.
    Always,
    /// As well; and each move is ordered as soon as the one before has come to its end, also the last one, which leads to less.
    AtOnce,
}

/// Whether the drives of the first volume become larger while they are used. What a run draws of everything else is the same, whatever is said here, but for how
/// long drives can be.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Larger {
    /// None does.
    Never,
    /// In a third of the runs in which volumes go to other layouts.
    #[default]
    Drawn,
    /// In every run whose volume can become longer, on drives that the controller does not make.
    Always,
}

/// What whoever starts a run may ask for. A run is a function of it and of its seed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// How many requests a run sends to its volume, at least, if nothing is left out.
    pub ops: u64,
    /// The levels to draw from; empty: all, parity more often than others.
    pub levels: Vec<Level>,
    /// A drive that lies.
    pub lie: Lie,
    /// How volumes with parity mend a stripe whose write was cut off; drawn if it is not said.
    pub write_hole: Option<WriteHole>,
    /// Whether a cache answers writes, in memory that outlives the process: a power cut takes what was not flushed.
    pub write_back: bool,
    /// Whether it does so when a log device has them.
    pub logged: Logged,
    /// Whether there is a second volume.
    pub neighbour: Neighbour,
    /// Whether there are log devices.
    pub log: Log,
    /// Whether there is a read cache.
    pub reads: Reads,
    /// Whether the volume goes to other layouts.
    pub migrations: Migrations,
    /// Whether drives become larger.
    pub larger: Larger,
    /// What is left out.
    pub without: Without,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ops: 2000,
            levels: Vec::new(),
            lie: Lie::None,
            write_hole: None,
            write_back: false,
            logged: Logged::default(),
            neighbour: Neighbour::default(),
            log: Log::default(),
            reads: Reads::default(),
            migrations: Migrations::default(),
            larger: Larger::default(),
            without: Without::default(),
        }
    }
}

/// A request, as the story names it: `LIFE.WORKER.NUMBER`. It says the same whichever others are left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RequestName {
    /// In which life it is sent.
    pub life: u64,
    /// By which worker.
    pub worker: u64,
    /// How many that one drew before, in this life.
    pub number: u64,
}

impl fmt::Display for RequestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.life, self.worker, self.number)
    }
}

/// What is left out of a history. Everything else is drawn as before; what follows happens at other times, so that a
/// failure may go away.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Without {
    /// Lives that are not lived.
    pub lives: BTreeSet<u64>,
    /// Faults and operators' actions that do not happen, by their numbers.
    pub incidents: BTreeSet<u64>,
    /// The only requests that are sent; all, if there is no such set.
    pub all_requests_but: Option<BTreeSet<RequestName>>,
    /// Whether nobody looks at copies of the drives after a crash.
    pub inquests: bool,
}

impl Without {
    /// Whether a request is sent.
    pub fn sends(&self, request: RequestName) -> bool {
        self.all_requests_but.as_ref().is_none_or(|only| only.contains(&request))
    }

    /// The options of the command line that say the same, each with a space before it.
    pub fn arguments(&self) -> String {
        let list = |set: &BTreeSet<u64>| set.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let mut text = String::new();
        if !self.lives.is_empty() {
            text += &format!(" --without-lives {}", list(&self.lives));
        }
        if !self.incidents.is_empty() {
            text += &format!(" --without-incidents {}", list(&self.incidents));
        }
        if let Some(only) = &self.all_requests_but {
            text += &format!(" --only-requests {}", requests_as_text(only));
        }
        if self.inquests {
            text += " --without-inquests";
        }
        text
    }
}

/// Requests in a row as one item, `LIFE.WORKER.FIRST-LAST`; none at all as `none`.
fn requests_as_text(requests: &BTreeSet<RequestName>) -> String {
    let mut runs: Vec<(RequestName, u64)> = Vec::new();
    for request in requests {
        match runs.last_mut() {
            Some((first, last))
                if (first.life, first.worker) == (request.life, request.worker)
                    && *last + 1 == request.number =>
            {
                *last = request.number;
            }
            _ => runs.push((*request, request.number)),
        }
    }
    if runs.is_empty() {
        return "none".to_owned();
    }
    let runs = runs.into_iter().map(|(first, last)| match last == first.number {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// Reads what [`Without::arguments`] says of requests.
///
/// # Errors
/// A sentence that names what is not a request.
pub fn parse_requests(text: &str) -> Result<BTreeSet<RequestName>, String> {
    if text == "none" {
        return Ok(BTreeSet::new());
    }
    let mut requests = BTreeSet::new();
    for item in text.split(',') {
        let wrong =
            || format!("'{item}' names no requests; give LIFE.WORKER.NUMBER or LIFE.WORKER.FIRST-LAST");
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let mut parts = item.split('.');
        let (Some(life), Some(worker), Some(numbers), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let (life, worker, first, last) = (number(life)?, number(worker)?, number(first)?, number(last)?);
        if first > last || last - first > 1_000_000 {
            return Err(wrong());
        }
        requests.extend((first..=last).map(|number| RequestName { life, worker, number }));
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_said_as_it_is_read() {
        let requests = parse_requests("0.1.2-4,0.2.5,3.0.0").unwrap();
        assert_eq!(requests.len(), 5);
        let without = Without {
            lives: [1, 2].into(),
            incidents: [31].into(),
            all_requests_but: Some(requests.clone()),
            inquests: true,
        };
        assert_eq!(
            without.arguments(),
            " --without-lives 1,2 --without-incidents 31 --only-requests 0.1.2-4,0.2.5,3.0.0 --without-inquests"
        );
        assert!(without.sends(RequestName { life: 0, worker: 1, number: 3 }));
        assert!(!without.sends(RequestName { life: 0, worker: 1, number: 5 }));
        assert_eq!(parse_requests("none").unwrap().len(), 0);
        for wrong in ["", "1.2", "1.2.x", "1.2.4-3", "1.2.3.4"] {
            assert!(parse_requests(wrong).is_err(), "{wrong}");
        }
    }
}
