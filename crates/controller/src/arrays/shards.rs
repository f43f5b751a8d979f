//! Messages to the shards, with and without a response.

use super::Arrays;
use super::volume::Volume;
use crate::interface::{Error, ErrorKind, Result};
use engine::{Absorb, Change, ShardIndex, ShardMessage, VolumeId};
use platform::{DriveSource, IoError, mailbox};
use std::sync::Arc;

/// The responses of the shards to a control message.
pub(crate) type Answers = mailbox::Receiver<std::result::Result<(), String>>;

/// Waits until all shards have handled a message.
///
/// # Errors
/// The error of the first shard that failed.
pub(super) async fn answers(mut answers: Answers) -> std::result::Result<(), String> {
    let mut result = Ok(());
    while let Some(answer) = answers.receive().await {
        result = result.and(answer);
    }
    result
}

impl Arrays {
    /// The number of shards.
    pub(crate) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Sends every shard a message without a response.
    pub(crate) fn tell_all(&self, message: impl Fn() -> ShardMessage) {
        for (index, shard) in self.shards.iter().enumerate() {
            if shard.send(message()).is_err() {
                tracing::warn!(shard = index, "a thread of SoftROC did not accept a message");
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
            tracing::warn!(
                shard = to.0,
                "a thread of SoftROC did not accept the reply to its report of a change"
            );
        }
    }

    /// Sends every shard a message and waits until all have handled it.
    ///
    /// # Errors
    /// The error of the first shard that failed.
    pub(crate) async fn tell_shards(
        &self,
        message: impl Fn(engine::Done) -> ShardMessage,
    ) -> std::result::Result<(), String> {
        answers(self.send_shards(message)).await
    }

    /// Sets which writes of a volume the cache of every shard acknowledges.
    ///
    /// # Errors
    /// Data that could not be destaged where these are fewer, or that the volume is not served.
    pub(super) async fn absorb(&self, volume: &Volume, absorb: Absorb, place: u32) -> Result<()> {
        let failed = |why| Error::new(ErrorKind::Failed, why);
        let id = volume.id().ok_or_else(|| failed("it is not served any more".to_owned()))?;
        self.tell_shards(|done| ShardMessage::SetAbsorb(id, absorb, place, done))
            .await
            .map_err(failed)
    }

    /// Ends write-back on every shard, and destages. A shard that has ended it before confirms the
    /// first message at once, dirty or not.
    ///
    /// # Errors
    /// Data that could not be destaged, or that the volume is not served.
    pub(super) async fn destage_all(&self, volume: &Volume, place: u32) -> Result<()> {
        self.absorb(volume, Absorb::NoMore, place).await?;
        let Some(id) = volume.id() else { return Ok(()) };
        let drained = self.tell_shards(|done| ShardMessage::Drain(id, done)).await;
        drained.map_err(|why| Error::new(ErrorKind::Failed, why))
    }

    /// Makes every shard apply a change of a volume's state, and waits until all have.
    ///
    /// # Errors
    /// The error of the first shard that failed.
    pub(crate) async fn apply(
        &self,
        id: VolumeId,
        change: &Change,
    ) -> std::result::Result<(), String> {
        answers(self.send_change(id, change, None)).await
    }

    /// Makes every shard apply a change of a volume's state, with its drive if it has one. A shard
    /// responds when a drive that loses its position by the change has returned all operations.
    pub(crate) fn send_change(
        &self,
        id: VolumeId,
        change: &Change,
        drive: Option<Arc<dyn DriveSource>>,
    ) -> Answers {
        self.send_shards(|done| ShardMessage::Apply(id, change.clone(), drive.clone(), Some(done)))
    }

    /// Sends every shard a message; [`answers`] waits for the responses. A shard that cannot be
    /// reached counts there as failed.
    pub(crate) fn send_shards(&self, message: impl Fn(engine::Done) -> ShardMessage) -> Answers {
        let (done, answers) = mailbox::mailbox(&self.env, self.shards.len());
        for shard in &self.shards {
            if shard.send(message(done.clone())).is_err()
                && done.send(Err("a shard has ended; restart the controller".to_owned())).is_err()
            {
                tracing::error!("a shard has ended, and its messages are lost");
            }
        }
        answers
    }
}
