//! Event consumers that must run as long as the controller.
//!
//! **Invariants.** A consumer ends only by returning: when the controller or its subject is gone.
//! After a panic it restarts after [`AGAIN`], and continues from its stored position.

use std::time::Duration;

/// The delay of a restart after a panic.
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
            // The runtime is shutting down.
            return;
        }
        tracing::error!("{name} failed and restarts: {error}");
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
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let started = Arc::new(AtomicU32::new(0));
        let counted = started.clone();
        runtime.block_on(supervised("a test", Duration::ZERO, move || {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            async move { assert!(number >= 2, "it fails twice") }
        }));
        assert_eq!(started.load(Ordering::Relaxed), 3);
    }
}
