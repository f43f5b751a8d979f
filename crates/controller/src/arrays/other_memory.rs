//! Cache memory that other controllers of this computer use, or left behind: commands list it, and
//! remove it by its name.
//!
//! # Order of steps
//! When the last volume with a place in this controller's own memory is deleted, the shards release
//! the memory, and it is removed; the next volume that needs memory causes a new one.

use crate::arrays::Arrays;
use crate::arrays::cache::{Memory, NAME};
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, MemoryInfo, MemoryVolume, Result};
use engine::ShardMessage;
use ondisk::Uuid;
use write_log::memory::contents;

fn failed(error: &platform::Error) -> Error {
    let kind = match error.kind {
        platform::ErrorKind::NotFound => ErrorKind::NotFound,
        platform::ErrorKind::InUse => ErrorKind::InUse,
        _ => ErrorKind::Failed,
    };
    Error::new(kind, error.to_string())
}

impl Arrays {
    /// `cache list`.
    ///
    /// # Errors
    /// When the search fails.
    pub(crate) async fn other_memories(&self) -> Result<Vec<MemoryInfo>> {
        let others = self.env.world().other_memories(NAME).await.map_err(|error| failed(&error))?;
        let names: Vec<(Uuid, String)> = self
            .all()
            .iter()
            .flat_map(|array| array.known_volumes())
            .map(|volume| (volume.uuid(), volume.name()))
            .collect();
        let volume = |(id, dirty): ([u8; 16], units::ByteCount)| MemoryVolume {
            uuid: Uuid(id).to_string(),
            name: names.iter().find(|(uuid, _)| uuid.0 == id).map(|(_, name)| name.clone()),
            dirty_bytes: dirty.0,
        };
        let info = |other: platform::OtherMemory| {
            let found = match other.in_use {
                true => Ok(Vec::new()),
                false => other.words.and_then(|words| contents(&words)),
            };
            let (volumes, why) = match found {
                Ok(found) => (found.into_iter().map(volume).collect(), None),
                Err(why) => (Vec::new(), Some(why)),
            };
            MemoryInfo {
                memory: other.name,
                size_bytes: other.len.0,
                in_use: other.in_use,
                volumes,
                why,
            }
        };
        Ok(others.into_iter().map(info).collect())
    }

    /// `cache remove`. Returns the loss: a sentence.
    ///
    /// # Errors
    /// When there is no such memory; when a controller uses it.
    pub(crate) async fn remove_memory(&self, memory: &str) -> Result<Vec<String>> {
        let listed = self.other_memories().await?.into_iter().find(|info| info.memory == memory);
        let listed = listed.ok_or_else(|| {
            let sentence =
                format!("there is no cache memory {memory}; 'softroc cache list' lists them");
            Error::new(ErrorKind::NotFound, sentence)
        })?;
        self.env.world().forget_other_memory(NAME, memory).await.map_err(|error| failed(&error))?;
        let lost = listed.lost();
        let text = format!("cache memory {memory} of another controller was removed; {lost}");
        let effect = "its controller starts without it";
        self.events.report(
            EventCode::CacheMemoryRemoved,
            memory,
            "an operator removed it",
            effect,
            text,
        );
        Ok(vec![lost])
    }

    /// A volume was deleted: memory without a place of another volume is removed.
    pub(crate) async fn leave_empty_memory(&self) {
        let _turn = self.memory_turn.take(1).await;
        let is_empty = match &*self.memory.borrow() {
            Memory::Open(open) => open.is_empty(),
            Memory::None | Memory::Unusable(_) => false,
        };
        if !is_empty {
            return;
        }
        // From here on a task that needs memory waits for the lock, and creates a new one.
        let before = self.memory.replace(Memory::None);
        if let Err(why) = self.tell_shards(ShardMessage::LeaveCells).await {
            tracing::warn!("the cache's memory could not be removed: {why}");
            *self.memory.borrow_mut() = before;
            return;
        }
        drop(before);
        if let Err(error) = self.env.world().forget_kept_memory(NAME).await {
            tracing::warn!("the cache's memory could not be removed: {error}");
        }
    }
}
