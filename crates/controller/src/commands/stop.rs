//! The shutdown of the controller: stops everything in order, and reports its progress.

use super::Commands;
use crate::events::EventCode;
use std::rc::Rc;
use std::time::Duration;

/// How often a shutdown reports unfinished work.
const TELL_UNFINISHED: Duration = Duration::from_secs(1);

impl Commands {
    /// `shutdown`: stops everything in order. Returns notes, a sentence each.
    pub(super) async fn shut_down(self: &Rc<Self>) -> Vec<String> {
        let arrays = self.arrays.all();
        self.unfinished.begin(arrays.iter().filter(|array| array.is_running()).count() as u64);
        self.tell_unfinished();
        self.env.spawn("work that is not stopped yet", self.clone().keep_telling_unfinished());
        self.tasks.close().await;
        self.inventory.wait_no_longer();
        self.lifecycle.remember_arrays().await;
        if let Err(error) = self.inventory.store_seen().await {
            tracing::warn!("{error}");
        }
        let notes = self.lifecycle.stop_all(|| self.unfinished.one_less()).await;
        self.tell_unfinished();
        self.arrays.close_memory().await;
        self.audit.record_refusals();
        self.events.report_repeats_now();
        let text = "the controller was shut down".to_owned();
        self.events.report(
            EventCode::ControllerStopped,
            "controller",
            "shutdown",
            "no volume is served",
            text,
        );
        self.events.close().await;
        self.inventory.close();
        notes
    }

    /// Publishes the dirty data that remains in the cache.
    fn tell_unfinished(&self) {
        let volumes = self.arrays.all().into_iter().flat_map(|array| array.volumes());
        self.unfinished.set_dirty(volumes.map(|volume| volume.cache_info().dirty_bytes).sum());
    }

    async fn keep_telling_unfinished(self: Rc<Self>) {
        while !self.stopping.get() {
            self.tell_unfinished();
            self.env.sleep(TELL_UNFINISHED).await;
        }
    }
}
