//! The use of the cache by reads of volumes: read-ahead, and retention for later reads. The label
//! holds the setting; the setting in effect depends on whether there is a cache.
//!
//! # Order of steps
//! The label holds a new setting before shards apply it. After a crash in between, the next start
//! applies the label. Blocks that are read ahead or retained are clean, so they can be dropped
//! without a write.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result, modes};
use engine::{ReadTerms, ShardMessage};
use ondisk::{CacheMode, ReadMode};
use std::rc::Rc;

/// Why there is no read cache, for messages.
const NO_READ_CACHE: &str =
    "the controller was started without a read cache; start 'softroc serve' with --read-cache SIZE";

/// The effective value of a setting, which may differ from the configured one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InForce<T> {
    pub(crate) value: T,
    /// Why it differs from the configured value.
    pub(crate) why: Option<String>,
    pub(crate) since_unix_s: u64,
}

impl<T: PartialEq> InForce<T> {
    /// The value in effect now, with the start time of `before` if it is unchanged.
    pub(super) fn after(
        before: Option<InForce<T>>,
        value: T,
        why: Option<String>,
        now_unix_s: u64,
    ) -> Self {
        match before.filter(|before| before.value == value && before.why == why) {
            Some(same) => same,
            None => InForce { value, why, since_unix_s: now_unix_s },
        }
    }
}

/// How the reads of a volume use the cache.
#[derive(Clone, Debug)]
pub(crate) struct Reads {
    pub(crate) ahead: InForce<ReadMode>,
    pub(crate) kept: InForce<CacheMode>,
}

impl Arrays {
    /// The cache use of a volume's reads, for a volume that is being attached or whose settings
    /// have changed.
    pub(crate) fn read_terms(&self, volume: &Volume) -> ReadTerms {
        let label = volume.label();
        let has_cache = self.read_cache.0 > 0;
        let (read_mode, cache_mode) = match has_cache {
            true => (label.read_mode, label.cache_mode),
            false => (ReadMode::default(), CacheMode::default()),
        };
        let why = |differs: bool| differs.then(|| NO_READ_CACHE.to_owned());
        let (before, now) = (volume.reads(), self.env.unix_time());
        let (ahead, kept) = before.map(|before| (before.ahead, before.kept)).unzip();
        volume.set_reads(Reads {
            ahead: InForce::after(ahead, read_mode, why(read_mode != label.read_mode), now),
            kept: InForce::after(kept, cache_mode, why(cache_mode != label.cache_mode), now),
        });
        let (read_ahead, cached) =
            (read_mode == ReadMode::ReadAhead, cache_mode == CacheMode::Cached);
        ReadTerms { read_ahead, cached, most_ahead: None }
    }

    /// `volume set --read-mode`, `--cache-mode`; `None` leaves the setting. Returns notes for the
    /// operator.
    ///
    /// # Errors
    /// When it cannot be recorded, or a shard could not be notified.
    pub(crate) async fn set_reads(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        (read_mode, cache_mode): (Option<ReadMode>, Option<CacheMode>),
    ) -> Result<Vec<String>> {
        let _starting = array.starting_turn().await;
        let name = volume.name();
        self.check_can_record(array, &name)?;
        let label = volume.label();
        let wished = (read_mode.unwrap_or(label.read_mode), cache_mode.unwrap_or(label.cache_mode));
        if wished != (label.read_mode, label.cache_mode) {
            let change =
                |label: &mut ondisk::VolumeLabel| (label.read_mode, label.cache_mode) = wished;
            self.relabel(array, volume, change).await?;
            let text =
                format!("'{name}' is configured for {}, {}", wished.0.name(), wished.1.name());
            let effect = format!("{}; {}", modes::of_reads(wished.0), modes::of_kept(wished.1));
            self.events.report(
                EventCode::VolumeReads,
                &name,
                "an operator changed it",
                &effect,
                text,
            );
        }
        let Some(id) = volume.id() else { return Ok(Vec::new()) };
        let terms = self.read_terms(volume);
        let told = self.tell_shards(|done| ShardMessage::SetReads(id, terms, done)).await;
        told.map_err(|why| {
            Error::new(ErrorKind::Failed, format!("'{name}' does not go by it: {why}"))
        })?;
        let reads = volume.reads();
        let is_without =
            reads.is_some_and(|reads| reads.ahead.why.is_some() || reads.kept.why.is_some());
        Ok(is_without
            .then(|| format!("reads of '{name}' do not use the cache: {NO_READ_CACHE}"))
            .into_iter()
            .collect())
    }
}
