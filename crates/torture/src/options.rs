//! Options of a run, and the parts of a history that can be omitted to shorten it.

use controller::WriteHole;
use layout::Level;
use std::collections::BTreeSet;
use std::fmt;

/// A drive with a defect that the oracle must notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lie {
    /// No drive lies.
    #[default]
    None,
    /// The first drive acknowledges flushes without effect.
    IgnoresFlush,
    /// The first drive handles durable writes as cached ones.
    IgnoresDurable,
}

/// Whether there is a second volume. All other draws of a run are independent of this option,
/// except for the length of shared drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Neighbour {
    /// Never.
    Never,
    /// In a third of the runs, in half of those with a cache.
    #[default]
    Drawn,
    /// Always.
    Always,
}

/// Whether there are log devices, which hold the journals instead of the members. All other draws
/// of a run are independent of this option.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Log {
    /// Never.
    Never,
    /// In a quarter of the runs whose first volume has parity.
    #[default]
    Drawn,
    /// Always.
    Always,
}

/// Whether there are a read cache and read-ahead.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Reads {
    /// Never.
    Never,
    /// In some runs.
    #[default]
    Drawn,
    /// In every run without a lying drive.
    Always,
}

/// Whether cached volumes acknowledge writes only when a log device has them (`logged-write-back`).
/// All other draws of a run are independent of this option.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Logged {
    /// Never.
    Never,
    /// In a third of the runs.
    #[default]
    Drawn,
    /// In every run.
    Always,
}

/// Whether volumes are reshaped. All other draws of a run are independent of this option.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Migrations {
    /// Never.
    Never,
    /// In a quarter of the runs whose first volume can be reshaped.
    #[default]
    Drawn,
    /// In every run whose first volume can be reshaped.
    Always,
    /// Like `Always`; each reshape is ordered as soon as the last one has ended, also the last one,
    /// which shrinks.
    AtOnce,
}

/// Whether the first volume's drives become larger in use. All other draws of a run are independent
/// of this option, except for the maximum length of drives.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Larger {
    /// Never.
    Never,
    /// In a third of the runs with reshapes.
    #[default]
    Drawn,
    /// In every run whose volume can expand, on drives that the controller does not create.
    Always,
}

/// The options of a run. A run is a function of its options and its seed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The minimum number of requests to the first volume, without omissions.
    pub ops: u64,
    /// The levels to draw from; empty: all, parity more often than others.
    pub levels: Vec<Level>,
    /// A lying drive.
    pub lie: Lie,
    /// How volumes with parity close the write hole; `None`: drawn.
    pub write_hole: Option<WriteHole>,
    /// Whether there is a write-back cache in memory that survives the process; a power cut loses
    /// unflushed writes.
    pub write_back: bool,
    /// Whether the cache acknowledges writes when a log device has them.
    pub logged: Logged,
    /// Whether there is a second volume.
    pub neighbour: Neighbour,
    /// Whether there are log devices.
    pub log: Log,
    /// Whether there is a read cache.
    pub reads: Reads,
    /// Whether the volume is reshaped.
    pub migrations: Migrations,
    /// Whether drives become larger.
    pub larger: Larger,
    /// The omissions.
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

/// A request's name in the story: `LIFE.WORKER.NUMBER`. It is independent of omitted requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RequestName {
    /// The life.
    pub life: u64,
    /// The worker.
    pub worker: u64,
    /// The number of earlier requests of that worker in this life.
    pub number: u64,
}

impl fmt::Display for RequestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.life, self.worker, self.number)
    }
}

/// The omitted parts of a history. The other draws do not change, but later events happen at other
/// times, so a failure may disappear.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Without {
    /// Omitted lives.
    pub lives: BTreeSet<u64>,
    /// Omitted faults and operator actions, by their numbers.
    pub incidents: BTreeSet<u64>,
    /// The only requests to send; `None`: all.
    pub all_requests_but: Option<BTreeSet<RequestName>>,
    /// Whether checks of copies after crashes are omitted.
    pub inquests: bool,
}

impl Without {
    /// Whether a request is sent.
    pub fn sends(&self, request: RequestName) -> bool {
        self.all_requests_but.as_ref().is_none_or(|only| only.contains(&request))
    }

    /// The equivalent command line options, each after a space.
    pub fn arguments(&self) -> String {
        let list =
            |set: &BTreeSet<u64>| set.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
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

/// Consecutive requests as one item, `LIFE.WORKER.FIRST-LAST`; no requests as `none`.
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

/// Parses the requests in [`Without::arguments`].
///
/// # Errors
/// A message that names the wrong item.
pub fn parse_requests(text: &str) -> Result<BTreeSet<RequestName>, String> {
    if text == "none" {
        return Ok(BTreeSet::new());
    }
    let mut requests = BTreeSet::new();
    for item in text.split(',') {
        let wrong = || {
            format!("'{item}' names no requests; give LIFE.WORKER.NUMBER or LIFE.WORKER.FIRST-LAST")
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let mut parts = item.split('.');
        let (Some(life), Some(worker), Some(numbers), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let (life, worker, first, last) =
            (number(life)?, number(worker)?, number(first)?, number(last)?);
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
            " --without-lives 1,2 --without-incidents 31 --only-requests 0.1.2-4,0.2.5,3.0.0 \
                --without-inquests"
        );
        assert!(without.sends(RequestName { life: 0, worker: 1, number: 3 }));
        assert!(!without.sends(RequestName { life: 0, worker: 1, number: 5 }));
        assert_eq!(parse_requests("none").unwrap().len(), 0);
        for wrong in ["", "1.2", "1.2.x", "1.2.4-3", "1.2.3.4"] {
            assert!(parse_requests(wrong).is_err(), "{wrong}");
        }
    }
}
