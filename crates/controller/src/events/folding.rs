//! Folding of repeated events: a repeating fault is reported as a few events, then as summaries
//! with a count.
//!
//! **Owns** the windows in which events of one code and one subject are repeats of each other.
//!
//! **The rule.** The first [`ALONE`] events of a code and a subject are reported at once, each
//! alone. Further ones within [`FIRST`] of the first are counted, and one summary is reported when
//! that time is over: the last of them, with the count and the time of the first. After a summary,
//! the next window is twice as long, up to [`LONGEST`], and everything in it is counted. A window
//! without a repeat ends the row: the next event is a first one again.
//!
//! **Invariants.** Each occurrence is in the count of exactly one event. Memory is bounded:
//! subjects beyond [`SUBJECTS`] share one row for each code; critical events have a table of their
//! own, so that a flood of other events does not delay them. Events that commands cause are never
//! folded: [`Events`](super::Events) does not offer them.
//!
//! **Fault model.** A crash loses the counts of windows that are open.

use super::EventCode;
use crate::interface::Severity;
use platform::Instant;
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of events of a row that are reported singly before others are folded.
const ALONE: u32 = 3;

/// How long repeats are counted before the first summary.
const FIRST: Duration = Duration::from_secs(10);

/// The longest time for which repeats are counted.
const LONGEST: Duration = Duration::from_secs(640);

/// Subjects with a row of their own, in each of the two tables.
const SUBJECTS: usize = 128;

/// The subject of a row that several subjects share.
const SEVERAL: &str = "several";

/// An event before it has a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Draft {
    pub(super) code: EventCode,
    pub(super) subject: String,
    pub(super) related: Option<String>,
    pub(super) cause: String,
    pub(super) effect: String,
    pub(super) text: String,
    pub(super) time_unix_s: u64,
}

/// The summary of the repeats of one row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Summary {
    /// The last of them.
    pub(super) last: Draft,
    pub(super) count: u64,
    pub(super) first_unix_s: u64,
}

struct Row {
    /// When the window ends.
    until: Instant,
    length: Duration,
    /// The number of events that are still reported singly.
    alone: u32,
    folded: Option<Summary>,
}

type Rows = BTreeMap<(&'static str, String), Row>;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Folding {
    rows: Rows,
    critical: Rows,
}

impl Folding {
    /// Takes an event, and returns it if it is to be reported now.
    pub(super) fn offer(&mut self, mut draft: Draft, now: Instant) -> Option<Draft> {
        let is_critical = draft.code.severity() >= Severity::Critical;
        let rows = if is_critical { &mut self.critical } else { &mut self.rows };
        let code = draft.code.code();
        let mut key = (code, draft.subject.clone());
        if !rows.contains_key(&key) && rows.len() >= SUBJECTS {
            rows.retain(|_, row| row.folded.is_some() || now < row.until);
            if rows.len() >= SUBJECTS {
                SEVERAL.clone_into(&mut key.1);
            }
        }
        let begins = Row { until: now + FIRST, length: FIRST, alone: ALONE, folded: None };
        let row = rows.entry(key).or_insert(begins);
        if row.folded.is_none() && now >= row.until {
            *row = Row { until: now + FIRST, length: FIRST, alone: ALONE, folded: None };
        }
        if row.alone > 0 {
            row.alone -= 1;
            return Some(draft);
        }
        match &mut row.folded {
            Some(folded) => {
                if folded.last.subject != draft.subject {
                    SEVERAL.clone_into(&mut draft.subject);
                }
                folded.count += 1;
                folded.last = draft;
            }
            None => {
                let first_unix_s = draft.time_unix_s;
                row.folded = Some(Summary { last: draft, count: 1, first_unix_s });
            }
        }
        None
    }

    /// When the next summary is due; `None`: nothing is folded.
    pub(super) fn next(&self) -> Option<Instant> {
        let rows = self.critical.values().chain(self.rows.values());
        rows.filter(|row| row.folded.is_some()).map(|row| row.until).min()
    }

    /// The summaries that are due, the critical ones first. Their rows go on with a longer window.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Summary> {
        let mut due = Vec::new();
        for row in self.critical.values_mut().chain(self.rows.values_mut()) {
            if now < row.until {
                continue;
            }
            if let Some(summary) = row.folded.take() {
                due.push(summary);
                row.length = (row.length * 2).min(LONGEST);
                row.until = now + row.length;
            }
        }
        due
    }

    /// All summaries, due or not.
    pub(super) fn all(&mut self) -> Vec<Summary> {
        let rows = self.critical.values_mut().chain(self.rows.values_mut());
        rows.filter_map(|row| row.folded.take()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(code: EventCode, subject: &str, time_unix_s: u64) -> Draft {
        Draft {
            code,
            subject: subject.to_owned(),
            related: None,
            cause: "medium error".to_owned(),
            effect: "hosts get an I/O error there".to_owned(),
            text: format!("block {time_unix_s}"),
            time_unix_s,
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant { ns: seconds * 1_000_000_000 }
    }

    const UNREADABLE: EventCode = EventCode::VolumeBlocksUnreadable;
    const MISMATCH: EventCode = EventCode::VolumeMismatch;

    /// A drive that reported 512 unreadable blocks in a second filled half of the list of events.
    #[test]
    fn repeats_are_a_few_events_and_one_summary() {
        let mut folding = Folding::default();
        let alone = (0..512)
            .filter(|number| folding.offer(draft(UNREADABLE, "v", *number), at(1)).is_some());
        assert_eq!(alone.count(), 3);
        assert_eq!(folding.next(), Some(at(11)));
        assert!(folding.due(at(10)).is_empty());
        let due = folding.due(at(11));
        assert_eq!(
            (due.len(), due[0].count, due[0].first_unix_s, due[0].last.time_unix_s),
            (1, 509, 3, 511)
        );
        assert_eq!(folding.next(), None, "nothing is left to report");
    }

    #[test]
    fn a_window_grows_while_it_repeats_and_ends_when_it_does_not() {
        let mut folding = Folding::default();
        let (mut reported, mut summaries, mut counted) = (0_u64, Vec::new(), 0);
        for second in 0..10_000 {
            for summary in folding.due(at(second)) {
                summaries.push(second);
                counted += summary.count;
            }
            reported +=
                u64::from(folding.offer(draft(MISMATCH, "v", second), at(second)).is_some());
        }
        assert_eq!(summaries[..7], [10, 30, 70, 150, 310, 630, 1270]);
        assert!(summaries.windows(2).skip(6).all(|two| two[1] - two[0] == 640), "{summaries:?}");
        counted += folding.all().iter().map(|summary| summary.count).sum::<u64>();
        assert_eq!((reported, reported + counted), (3, 10_000), "each occurrence is counted once");
        assert!(
            folding.offer(draft(MISMATCH, "v", 0), at(20_000)).is_some(),
            "it is a first one again"
        );
    }

    #[test]
    fn a_flood_of_subjects_takes_bounded_memory_and_delays_no_critical_event() {
        let mut folding = Folding::default();
        let offer = |folding: &mut Folding, code, number: u64| {
            folding.offer(draft(code, &format!("drive {number}"), number), at(1)).is_some()
        };
        let reported = (0..100_000).filter(|number| offer(&mut folding, MISMATCH, *number)).count();
        assert_eq!(reported, SUBJECTS + ALONE as usize);
        assert!(folding.rows.len() <= SUBJECTS + EventCode::ALL.len());
        assert!(offer(&mut folding, UNREADABLE, 7), "the first critical one is reported at once");
        let due = folding.due(at(11));
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].count + reported as u64, 100_000);
        assert_eq!(due[0].last.subject, SEVERAL);
    }
}
