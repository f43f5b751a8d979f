//! Cache of the content of unused drives. The controller reads all these drives for a scan, so open
//! pages share one result.

use controller::{Reply, Result};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Maximum age of the cache: changes without an event, such as writes of other programs, are seen
/// after this time.
const OLD: Duration = Duration::from_secs(300);

/// Minimum interval between two scans of the same drives: on a busy system there are events all the
/// time, and an open page is rendered for each.
const LEAST: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Default)]
pub(crate) struct ScanCache {
    known: Mutex<Option<CachedScan>>,
}

struct CachedScan {
    /// The newest event at the time of the scan, and the unused drives.
    of: (u64, Vec<String>),
    at: Instant,
    reply: Reply,
}

impl ScanCache {
    /// The current content for this event and these drives; `ask` queries the controller if the
    /// cache is outdated.
    ///
    /// # Errors
    /// Errors of `ask`, which are not cached.
    pub(crate) async fn of(
        &self,
        now: Instant,
        event: u64,
        drives: Vec<String>,
        ask: impl Future<Output = Result<Reply>>,
    ) -> Result<Reply> {
        // The lock is held during the scan: concurrent callers wait for its result.
        let mut known = self.known.lock().await;
        let of = (event, drives);
        let still_holds = |known: &&CachedScan| {
            let (age, same_drives) = (now.saturating_duration_since(known.at), known.of.1 == of.1);
            same_drives && (age < LEAST || (known.of.0 == of.0 && age < OLD))
        };
        if let Some(known) = known.as_ref().filter(still_holds) {
            return Ok(known.reply.clone());
        }
        let reply = ask.await?;
        *known = Some(CachedScan { of, at: now, reply: reply.clone() });
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller::{Error, ErrorKind};
    use std::cell::Cell;

    /// Regression: an open replacement page read all unused drives every two seconds.
    #[test]
    fn drives_are_read_once_for_each_change() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (holdings, asked) = (ScanCache::default(), Cell::new(0));
            let ask = async |fails: bool| {
                asked.set(asked.get() + 1);
                match fails {
                    true => Err(Error::new(ErrorKind::Busy, "too many commands wait")),
                    false => Ok(Reply::Foreign { volumes: Vec::new(), drives: Vec::new() }),
                }
            };
            let drives = |count: usize| vec!["d".to_owned(); count];
            let begin = Instant::now();
            let after = |seconds: u64| begin + Duration::from_secs(seconds);
            assert!(
                holdings.of(begin, 7, drives(1), ask(true)).await.is_err(),
                "a refusal is not kept"
            );
            for look in 0..10 {
                assert!(holdings.of(after(2 * look), 7, drives(1), ask(false)).await.is_ok());
            }
            assert_eq!(asked.get(), 2);
            assert!(
                holdings.of(after(20), 8, drives(1), ask(false)).await.is_ok(),
                "something happened"
            );
            assert!(
                holdings.of(after(20), 8, drives(2), ask(false)).await.is_ok(),
                "another drive is there"
            );
            assert_eq!(asked.get(), 4);
            assert!(holdings.of(after(20) + OLD, 8, drives(2), ask(false)).await.is_ok());
            assert_eq!(asked.get(), 5);
            // Regression: with an event per second, as during a rebuild, the drives were read for
            // each.
            let then = after(20) + OLD;
            for second in 1..=30 {
                let now = then + Duration::from_secs(second);
                assert!(holdings.of(now, 8 + second, drives(2), ask(false)).await.is_ok());
            }
            assert_eq!(asked.get(), 8);
        });
    }
}
