//! Checks `explain`: its plan of a request equals the plan of the shards.
//!
//! The controller plans with labels, write-intent map and reports; a shard plans with its received
//! updates. Both must agree in every state: degraded, during a rebuild, with distributed spare in
//! use, unsynced. They may differ briefly while an update is in transit.

use crate::error::{Error, Result};
use crate::scene::Scene;
use controller::{Command, ControllerHandle, Explain, Reply};
use engine::{ShardIndex, Volume};
use plan::RequestKind;
use platform::Env;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

/// The maximum transit time of an update: a journal that moves waits for each hanging drive up to
/// the time limit.
const ON_ITS_WAY: Duration = Duration::from_secs(120);

/// The plan in an explanation, without the acknowledgement policy and the way of the request.
fn plan_alone(text: &str, policy: Option<&str>, way: Option<&str>) -> String {
    let text = policy.map_or(text, |policy| text.trim_start_matches(policy).trim_start());
    match way {
        Some(way) => text.replacen(&format!("Carried out {way}\n"), "", 1),
        None => text.to_owned(),
    }
}

/// Compares both plans for request `nth` of this life.
///
/// # Errors
/// When they keep differing.
pub(crate) async fn compare(
    scene: &Scene,
    env: &Env,
    control: &ControllerHandle,
    nth: u64,
) -> Result<()> {
    let until = env.now() + ON_ITS_WAY;
    loop {
        let Some(shards) = served(scene).filter(|_| !scene.may_move()) else { return Ok(()) };
        let (kind, range) = request(&shards[0], nth);
        let explain = Explain {
            volume: Some(scene.setup.name().to_owned()),
            operation: kind.name().to_owned(),
            offset_bytes: range.start.0,
            size_bytes: range.len.0,
            ..Explain::default()
        };
        let said = match control.command(env, Command::Explain(explain)).await {
            Ok(Reply::Explained { text, explanation }) => {
                plan_alone(&text, explanation["cache"].as_str(), explanation["way"].as_str())
            }
            Ok(other) => return Error::wrong_state(format!("explain returned {other:?}")),
            Err(error) => error.message,
        };
        // During a reshape there are two layouts, and the shards plan only with the one that hosts
        // use.
        let Some(shards) = served(scene).filter(|_| !scene.may_move()) else { return Ok(()) };
        let planned = plan_of(&shards, kind, range);
        if said == planned {
            return Ok(());
        }
        if env.now() > until {
            return Error::wrong_state(format!(
                "explain says of {kind:?} {range:?}:\n{said}\nand its shards plan:\n{planned}\nby \
                    {:?}",
                shards[0].recorded_state()
            ));
        }
        env.sleep(Duration::from_millis(50)).await;
    }
}

/// The volume as every shard serves it; `None` while it is not served.
fn served(scene: &Scene) -> Option<Vec<Rc<Volume>>> {
    let shards = scene.machine.shards.borrow();
    let volumes: Vec<_> =
        shards.iter().filter_map(|shard| shard.volume_named(scene.setup.name())).collect();
    (!volumes.is_empty() && volumes.len() == shards.len()).then_some(volumes)
}

/// A random request within one stripe or over several.
fn request(volume: &Volume, nth: u64) -> (RequestKind, ByteRange) {
    let random = platform::sync::split_mix(nth).1;
    let kind = if nth.is_multiple_of(2) { RequestKind::Read } else { RequestKind::Write };
    let len = if random.is_multiple_of(8) { 256 << 10 } else { 8 << 10 };
    let capacity = volume.spec().capacity.0;
    let len = u64::min(len, capacity / 512 * 512);
    let start = (random >> 8) % (capacity - len + 1) / 512 * 512;
    (kind, ByteRange::new(ByteOffset(start), ByteCount(len)))
}

/// The description of the plans of all owning shards.
fn plan_of(shards: &[Rc<Volume>], kind: RequestKind, range: ByteRange) -> String {
    let regions = *shards[0].layout();
    let health = |stripe: StripeIndex| {
        let owner = ShardIndex::owning(regions.region_of(stripe), shards.len() as u16);
        shards[usize::from(owner.0)].planned_health(stripe)
    };
    match shards[0].explain(kind, range, health) {
        Ok(explanation) => explanation.to_string(),
        Err(unplannable) => unplannable.to_string(),
    }
}
