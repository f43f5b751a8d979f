//! What the drives hold that nobody uses, as the controller said it last. It reads all of them for that: an open page must not have it read them
//! every few seconds, and several pages ask once.

use controller::{Reply, Result};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// What changes without an event, such as what another program writes to a drive, is seen after so long.
const OLD: Duration = Duration::from_secs(300);

/// Between two looks there is so much time, whatever events say, as long as the same drives are there: on a busy machine something happens all the
/// time, and an open page is drawn anew for each event.
const LEAST: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Default)]
pub(crate) struct Holdings {
    known: Mutex<Option<Known>>,
}

struct Known {
    /// The newest event when it was asked, and which of the drives were there that nobody uses.
    of: (u64, Vec<String>),
    at: Instant,
    reply: Reply,
}

impl Holdings {
    /// What is known now, since that event with these drives; `ask` asks the controller where that is nothing.
    ///
    /// # Errors
    /// Those of `ask`, which are not kept.
    pub(crate) async fn of(
        &self,
        now: Instant,
        event: u64,
        drives: Vec<String>,
        ask: impl Future<Output = Result<Reply>>,
    ) -> Result<Reply> {
        // Held while it is asked: whoever comes meanwhile waits for the same answer.
        let mut known = self.known.lock().await;
        let of = (event, drives);
        let still_holds = |known: &&Known| {
            let (age, same_drives) = (now.saturating_duration_since(known.at), known.of.1 == of.1);
            same_drives && (age < LEAST || (known.of.0 == of.0 && age < OLD))
        };
        if let Some(known) = known.as_ref().filter(still_holds) {
            return Ok(known.reply.clone());
        }
        let reply = ask.await?;
        *known = Some(Known { of, at: now, reply: reply.clone() });
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller::{Error, ErrorKind};
    use std::cell::Cell;

    /// An open page of the replacement had all unused drives read every two seconds.
    #[test]
    fn drives_are_read_once_for_each_change() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (holdings, asked) = (Holdings::default(), Cell::new(0));
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
            assert!(holdings.of(begin, 7, drives(1), ask(true)).await.is_err(), "a refusal is not kept");
            for look in 0..10 {
                assert!(holdings.of(after(2 * look), 7, drives(1), ask(false)).await.is_ok());
            }
            assert_eq!(asked.get(), 2);
            assert!(holdings.of(after(20), 8, drives(1), ask(false)).await.is_ok(), "something happened");
            assert!(holdings.of(after(20), 8, drives(2), ask(false)).await.is_ok(), "another drive is there");
            assert_eq!(asked.get(), 4);
            assert!(holdings.of(after(20) + OLD, 8, drives(2), ask(false)).await.is_ok());
            assert_eq!(asked.get(), 5);
            // An event each second, as while a volume is rebuilt: they were read at every one of them.
            let then = after(20) + OLD;
            for second in 1..=30 {
                let now = then + Duration::from_secs(second);
                assert!(holdings.of(now, 8 + second, drives(2), ask(false)).await.is_ok());
            }
            assert_eq!(asked.get(), 8);
        });
    }
}
