//! A stand-in for the controller, for arrays that live as long as their process: benchmarks and tests of the
//! engine. Nothing is made durable; every report is answered at once.

use crate::attachment::HealthView;
use crate::messages::{Report, ReportKind, ShardMessage};
use env::mailbox;
use std::collections::BTreeMap;

/// Answers reports until every shard is gone. A failed drive is taken out of use on all shards first.
pub async fn keep(
    env: env::Env,
    mut reports: mailbox::Receiver<Report>,
    shards: Vec<mailbox::Sender<ShardMessage>>,
    mut health: BTreeMap<crate::VolumeId, HealthView>,
) {
    while let Some(report) = reports.receive().await {
        if let ReportKind::DriveFailed { drive, .. } = report.kind
            && let Some(view) = health.get_mut(&report.volume)
        {
            view.readable.remove(drive);
            view.writable.remove(drive);
            let (done, mut answers) = mailbox::mailbox(&env, shards.len());
            for shard in &shards {
                if shard.send(ShardMessage::SetHealth(report.volume, *view, done.clone())).is_err() {
                    tracing::warn!("a shard did not take the new health");
                }
            }
            drop(done);
            while answers.receive().await.is_some() {}
        }
        if let ReportKind::Unsynced(regions) = &report.kind {
            for (index, shard) in shards.iter().enumerate() {
                let other = index != usize::from(report.from.0);
                if other && shard.send(ShardMessage::Unsynced(report.volume, regions.clone())).is_err() {
                    tracing::warn!("a shard did not take the news of a failed write");
                }
            }
        }
        if let ReportKind::PuncturedBlocks { drive, ranges, punctured } = &report.kind {
            let (done, mut answers) = mailbox::mailbox(&env, shards.len());
            for shard in &shards {
                let message = ShardMessage::Punctured {
                    volume: report.volume,
                    drive: *drive,
                    ranges: ranges.clone(),
                    punctured: *punctured,
                    done: done.clone(),
                };
                if shard.send(message).is_err() {
                    tracing::warn!("a shard did not take the news of lost blocks");
                }
            }
            drop(done);
            while answers.receive().await.is_some() {}
        }
        if let ReportKind::ReplacementFailed { drive, .. } = &report.kind {
            let (done, mut answers) = mailbox::mailbox(&env, shards.len());
            for shard in &shards {
                if shard
                    .send(ShardMessage::SetReplacement(report.volume, *drive, None, done.clone()))
                    .is_err()
                {
                    tracing::warn!("a shard did not leave a drive alone that was being filled");
                }
            }
            drop(done);
            while answers.receive().await.is_some() {}
        }
        if let ReportKind::MarkDirty(regions) = &report.kind {
            for (index, shard) in shards.iter().enumerate() {
                let other = index != usize::from(report.from.0);
                if other && shard.send(ShardMessage::Written(report.volume, regions.clone())).is_err() {
                    tracing::warn!("a shard did not take the news of a first write");
                }
            }
        }
        if let ReportKind::Current { drive, regions, .. } = &report.kind {
            for shard in &shards {
                if shard.send(ShardMessage::Current(report.volume, *drive, regions.clone())).is_err() {
                    tracing::warn!("a shard did not take the news of a rebuild");
                }
            }
        }
        if let ReportKind::Synced(regions) = &report.kind {
            for shard in &shards {
                if shard.send(ShardMessage::Synced(report.volume, regions.clone())).is_err() {
                    tracing::warn!("a shard did not take the news of a resync");
                }
            }
        }
        let answer = ShardMessage::ReportDone { report: report.number, result: Ok(()) };
        if shards[usize::from(report.from.0)].send(answer).is_err() {
            tracing::warn!("a shard did not take the answer to its report");
        }
    }
}
