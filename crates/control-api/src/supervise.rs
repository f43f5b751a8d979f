//! Consumers of events that must not end before the controller does.
//!
//! **Invariants.** A consumer ends only by returning: when the controller, or what it works for, is gone. One that panics is
//! started again after [`AGAIN`], and goes on from what it has kept.

use std::time::Duration;

/// How long after a panic a consumer is started again.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs a consumer until it returns.
pub(crate) fn supervise<F>(name: &'static str, start: impl Fn() -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(supervised(name, AGAIN, start));
}

async fn supervised<F>(name: &'static str, again: Duration, start: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    while let Err(error) = tokio::spawn(start()).await {
        if !error.is_panic() {
            // The runtime ends.
            return;
        }
        tracing::error!("{name} failed, and is started again: {error}");
        tokio::time::sleep(again).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_consumer_that_panics_is_started_again_until_it_returns() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let started = Arc::new(AtomicU32::new(0));
        let counted = started.clone();
        runtime.block_on(supervised("a test", Duration::ZERO, move || {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            async move { assert!(number >= 2, "it fails twice") }
        }));
        assert_eq!(started.load(Ordering::Relaxed), 3);
    }
}
