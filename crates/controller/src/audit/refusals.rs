//! Requests refused for missing permissions: one entry per source, order and day, with a count.
//!
//! **Invariants.** The table is bounded: sources beyond [`SOURCES`] share an entry for each order.
//! An entry is recorded when its count is a power of two, and at the end of its day, so a source
//! that keeps trying adds a few lines a day.

use crate::interface::{AuditEntry, OrderGiven, Origin};
use std::collections::BTreeMap;

/// Entries with a source of their own.
const SOURCES: usize = 32;

const DAY_S: u64 = 86_400;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Refusals {
    day: u64,
    entries: BTreeMap<(String, String), AuditEntry>,
}

impl Refusals {
    /// The entries of the previous day whose counts are not recorded.
    pub(super) fn end_of_day(&mut self, now_s: u64) -> Vec<AuditEntry> {
        let day = now_s / DAY_S;
        match day == self.day {
            true => Vec::new(),
            false => {
                self.day = day;
                self.take()
            }
        }
    }

    /// All entries whose counts are not recorded; empties the table.
    pub(super) fn take(&mut self) -> Vec<AuditEntry> {
        let entries = std::mem::take(&mut self.entries).into_values();
        entries.filter(|entry| !entry.count.is_power_of_two()).collect()
    }

    /// Counts a refusal. Returns the entry, and whether to record it now.
    pub(super) fn count(
        &mut self,
        given: &OrderGiven,
        now_s: u64,
        open: impl FnOnce() -> AuditEntry,
    ) -> (AuditEntry, bool) {
        let source = match given.by.as_ref().map(|by| &by.origin) {
            Some(Origin::Network { address }) => host_of(address).to_owned(),
            Some(Origin::Local { uid, .. }) => format!("uid {uid}"),
            None => String::new(),
        };
        let mut key = (given.order.clone(), source);
        if !self.entries.contains_key(&key) && self.entries.len() >= SOURCES {
            "several".clone_into(&mut key.1);
        }
        let Some(entry) = self.entries.get_mut(&key) else {
            let entry = open();
            self.entries.insert(key, entry.clone());
            return (entry, true);
        };
        entry.count += 1;
        entry.ended_unix_s = Some(now_s);
        entry.by.clone_from(&given.by);
        entry.subject.clone_from(&given.subject);
        (entry.clone(), entry.count.is_power_of_two())
    }
}

/// An address without its port, which differs for each connection.
fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{AuditOutcome, Caller};

    fn given(address: &str, order: &str) -> OrderGiven {
        let origin = Origin::Network { address: address.to_owned() };
        OrderGiven {
            by: Some(Caller { user: "eve".to_owned(), origin }),
            order: order.to_owned(),
            subject: "admin".to_owned(),
            fields: serde_json::Value::Null,
        }
    }

    fn entry(given: &OrderGiven) -> AuditEntry {
        AuditEntry {
            number: 1,
            time_unix_s: 0,
            by: given.by.clone(),
            order: given.order.clone(),
            subject: given.subject.clone(),
            fields: given.fields.clone(),
            outcome: AuditOutcome::Refused,
            why: None,
            ended_unix_s: None,
            count: 1,
        }
    }

    #[test]
    fn a_source_that_guesses_takes_a_few_records_a_day() {
        let (mut refusals, mut recorded) = (Refusals::default(), 0);
        for guess in 0..100_000 {
            let given = given(&format!("10.0.0.1:{}", 1000 + guess % 5000), "sign-in");
            recorded += u32::from(refusals.count(&given, 5, || entry(&given)).1);
        }
        assert_eq!(recorded, 17);
        let ended = refusals.end_of_day(DAY_S);
        assert_eq!(ended.iter().map(|entry| entry.count).collect::<Vec<u64>>(), [100_000]);
        let given = given("10.0.0.1:1", "sign-in");
        assert!(
            refusals.count(&given, DAY_S, || entry(&given)).1,
            "it is recorded again the next day"
        );
    }

    #[test]
    fn many_sources_take_bounded_memory() {
        let mut refusals = Refusals::default();
        for source in 0..10_000 {
            let given = given(&format!("10.0.{}.{}:1", source / 250, source % 250), "sign-in");
            refusals.count(&given, 5, || entry(&given));
        }
        assert_eq!(refusals.entries.len(), SOURCES + 1);
        assert_eq!(refusals.entries.values().map(|entry| entry.count).sum::<u64>(), 10_000);
    }
}
