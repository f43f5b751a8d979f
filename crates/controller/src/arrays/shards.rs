//! The way to the shards: messages that are answered, and such that are not.

use super::Arrays;
use super::volume::Volume;
use crate::interface::{Error, ErrorKind, Result};
use engine::{Absorb, Change, ShardIndex, ShardMessage, VolumeId};
use platform::{DriveSource, IoError, mailbox};
use std::sync::Arc;

/// What the shards say to a control message.
pub(crate) type Answers = mailbox::Receiver<std::result::Result<(), String>>;

/// Waits until all shards have dealt with a message.
///
/// # Errors
/// The first sentence of a shard that could not.
pub(super) async fn answers(mut answers: Answers) -> std::result::Result<(), String> {
    let mut result = Ok(());
    while let Some(answer) = answers.receive().await {
        result = result.and(answer);
    }
    result
}

impl Arrays {
    /// How many shards there are.
    pub(crate) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Sends every shard a message that is not answered.
    pub(crate) fn tell_all(&self, message: impl Fn() -> ShardMessage) {
        for (index, shard) in self.shards.iter().enumerate() {
            if shard.send(message()).is_err() {
                tracing::warn!(shard = index, "a shard does not take a message");
            }
        }
    }

    pub(super) fn answer_report(
        &self,
        to: ShardIndex,
        report: u64,
        result: std::result::Result<(), IoError>,
    ) {
        let message = ShardMessage::ReportDone { report, result };
        if self.shards[usize::from(to.0)].send(message).is_err() {
            tracing::warn!(shard = to.0, "a shard does not take the answer to its report");
        }
    }

    /// Sends every shard a message and waits until all have dealt with it.
    ///
    /// # Errors
    /// The first sentence of a shard that could not.
    pub(crate) async fn tell_shards(
        &self,
        message: impl Fn(engine::Done) -> ShardMessage,
    ) -> std::result::Result<(), String> {
        answers(self.send_shards(message)).await
    }

    /// Has every shard's cache acknowledge these writes of a volume from now on.
    ///
    /// # Errors
    /// What could not be destaged where these are fewer, or that the volume is not served.
    pub(super) async fn absorb(&self, volume: &Volume, absorb: Absorb, place: u32) -> Result<()> {
        let failed = |why| Error::new(ErrorKind::Failed, why);
        let id = volume.id().ok_or_else(|| failed("it is not served any more".to_owned()))?;
        self.tell_shards(|done| ShardMessage::SetAbsorb(id, absorb, place, done)).await.map_err(failed)
    }

    /// Ends write-back on every shard, and destages. A shard that has ended it before confirms the first order at once, dirty or not.
    ///
    /// # Errors
    /// What could not be destaged, or that the volume is not served.
    pub(super) async fn destage_all(&self, volume: &Volume, place: u32) -> Result<()> {
        self.absorb(volume, Absorb::NoMore, place).await?;
        let Some(id) = volume.id() else { return Ok(()) };
        let drained = self.tell_shards(|done| ShardMessage::Drain(id, done)).await;
        drained.map_err(|why| Error::new(ErrorKind::Failed, why))
    }

    /// Has every shard apply a change of a volume's state, and waits until all have.
    ///
    /// # Errors
    /// The first sentence of a shard that could not.
    pub(crate) async fn apply(&self, id: VolumeId, change: &Change) -> std::result::Result<(), String> {
        answers(self.send_change(id, change, None)).await
    }

    /// Has every shard apply a change of a volume's state, with the drive that it brings. A shard answers when a drive
    /// that leaves its seat by it has returned everything.
    pub(crate) fn send_change(
        &self,
        id: VolumeId,
        change: &Change,
        drive: Option<Arc<dyn DriveSource>>,
    ) -> Answers {
        self.send_shards(|done| ShardMessage::Apply(id, change.clone(), drive.clone(), Some(done)))
    }

    /// Sends every shard a message; [`answers`] waits for what they say. A shard that cannot be told says so there.
    pub(crate) fn send_shards(&self, message: impl Fn(engine::Done) -> ShardMessage) -> Answers {
        let (done, answers) = mailbox::mailbox(&self.env, self.shards.len());
        for shard in &self.shards {
            if shard.send(message(done.clone())).is_err()
                && done.send(Err("a shard is gone; restart the controller".to_owned())).is_err()
            {
                tracing::error!("a shard is gone, and nobody can be told");
            }
        }
        answers
    }
}
