//! A volume on a shard of its own, on this thread, for arrays that live as long as their process.

use crate::attachment::Attachment;
use crate::host::Volume;
use crate::messages::{ShardIndex, ShardMessage};
use crate::server::ShardSeed;
use crate::unkept;
use platform::{Env, mailbox};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A volume on a shard of its own, on this thread.
pub struct Alone {
    /// The volume.
    pub volume: Rc<Volume>,
    /// Its shard.
    pub shard: mailbox::Sender<ShardMessage>,
}

/// Starts a shard on this thread, attaches a volume to it, and answers its reports.
///
/// # Errors
/// When the shard does not start, or cannot serve the volume: a message.
pub async fn attach(
    env: &Env,
    attachment: Attachment,
    before: impl IntoIterator<Item = ShardMessage>,
) -> Result<Alone, String> {
    let gone = || "the engine's shard did not start".to_owned();
    let (id, state) = (attachment.spec.id, attachment.state.clone());
    let seed = ShardSeed::new(env, 1);
    let sender = seed.sender();
    let (reports, receiver) = mailbox::mailbox(env, crate::REPORTS_OPEN);
    let shard = seed.start(ShardIndex(0), 1, reports);
    sender.send(ShardMessage::Peers(vec![sender.clone()])).map_err(|_| gone())?;
    for message in before {
        sender.send(message).map_err(|_| gone())?;
    }
    let (done, mut answers) = mailbox::mailbox(env, 1);
    sender.send(ShardMessage::Attach(Box::new(attachment), done)).map_err(|_| gone())?;
    answers.receive().await.ok_or_else(gone)??;
    let keeper =
        unkept::keep(env.clone(), receiver, vec![sender.clone()], BTreeMap::from([(id, state)]));
    env.spawn("keeper", keeper);
    Ok(Alone { volume: shard.volume(id).ok_or_else(gone)?, shard: sender })
}
