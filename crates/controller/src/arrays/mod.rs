//! The room of arrays: **the promises while an array is started**. Labels, marks, journals, failures; the volumes that
//! shards serve; what shards report.
//!
//! **Owns** the arrays ([`Arrays`], each an [`array::Array`] with its volumes), the numbers that shards know volumes by,
//! and the way to the shards.
//!
//! **Invariants.** A failure and a mark are durable before they are answered; a label is on every drive that it calls
//! online before anything relies on it; a mark goes only after a flush. Each file that writes to drives states its order
//! and what a kill leaves at each step. What concerns one array's labels and map is done under its `metadata` turn,
//! one after the other; nothing is borrowed over an await.
//!
//! **Who may call it**: every room above. What it needs of a room above it asks through what it was given: whether a
//! volume is hidden from hosts ([`Needs`]), and who takes what shards report of tasks ([`reports::TaskReports`]); what
//! others should look at it counts ([`Attention`]).

pub(crate) mod array;
pub(crate) mod arriving;
pub(crate) mod bitmap_clearer;
pub(crate) mod cache;
mod carrying_out;
mod data_log;
mod discarding;
pub(crate) mod draining;
pub(crate) mod drive_cache;
pub(crate) mod extents;
pub(crate) mod failures;
mod find;
pub(crate) mod following;
mod hosts;
pub(crate) mod initialised;
pub(crate) mod journal;
mod leaving;
mod logs;
mod lost_memory;
mod marks;
pub(crate) mod members;
mod noting;
mod on_log;
mod other_memory;
pub(crate) mod protection;
pub(crate) mod reads;
mod record;
mod replacement;
pub(crate) mod reports;
pub(crate) mod reshape;
pub(crate) mod sectors;
pub(crate) mod serve;
mod shards;
mod shifted;
mod silent;
mod spare_labels;
pub(crate) mod starting;
pub(crate) mod suspended;
pub(crate) mod unbegun;
pub(crate) mod volume;
pub(crate) mod way;
mod work;
mod write_hole;

pub(crate) use spare_labels::volume_names;

use crate::events::Events;
use crate::inventory::Inventory;
use crate::signals::Attention;
use array::Array;
use engine::{ShardMessage, VolumeId};
use ondisk::Uuid;
use platform::sync::Credits;
use platform::{Env, Hosts, LimitsByClass, mailbox};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::ByteCount;

/// What the room needs of others.
pub(crate) struct Needs {
    pub(crate) events: Rc<Events>,
    pub(crate) inventory: Rc<Inventory>,
    pub(crate) attention: Rc<Attention>,
    /// How to reach all shards, in order.
    pub(crate) shards: Vec<mailbox::Sender<ShardMessage>>,
    /// Hosts that are connected, as ports know them.
    pub(crate) hosts: Hosts,
    /// How much memory the cache may have, of all shards together.
    pub(crate) cache_size: ByteCount,
    /// How much memory there is for what is kept of reads, of all shards together.
    pub(crate) read_cache: ByteCount,
    /// How long drives may take for an operation of a shard.
    pub(crate) limits: LimitsByClass,
    /// Whether hosts may not see a volume.
    pub(crate) hides: Box<dyn Fn(Uuid) -> bool>,
}

/// The arrays that the controller knows.
pub(crate) struct Arrays {
    env: Env,
    shards: Vec<mailbox::Sender<ShardMessage>>,
    events: Rc<Events>,
    inventory: Rc<Inventory>,
    attention: Rc<Attention>,
    hosts: Hosts,
    cache_size: ByteCount,
    read_cache: ByteCount,
    limits: LimitsByClass,
    memory: RefCell<cache::Memory>,
    memories: RefCell<lost_memory::Memories>,
    protection: RefCell<protection::Protection>,
    /// The turn to make the memory.
    memory_turn: Credits,
    hides: Box<dyn Fn(Uuid) -> bool>,
    by_uuid: RefCell<BTreeMap<Uuid, Rc<Array>>>,
    next_volume: Cell<u32>,
    logs: logs::Logs,
    suspensions: suspended::Suspensions,
    /// Whether nobody waits for a drive that does not answer, as the controller stops.
    waits_no_longer: Cell<bool>,
    /// Who watches over what is written to members.
    own_writes: Rc<silent::OwnWrites>,
}

impl Arrays {
    pub(crate) fn new(env: &Env, needs: Needs) -> Rc<Arrays> {
        let Needs { events, inventory, attention, shards, hosts, cache_size, read_cache, limits, hides } =
            needs;
        let room = ByteCount(read_cache.0 / shards.len().max(1) as u64);
        // A shard that is gone keeps nothing.
        shards.iter().for_each(|shard| drop(shard.send(ShardMessage::ReadRoom(room))));
        Rc::new_cyclic(|arrays| Arrays {
            env: env.clone(),
            shards,
            events,
            inventory,
            attention,
            hosts,
            cache_size,
            read_cache,
            limits,
            memory: RefCell::default(),
            memories: RefCell::default(),
            protection: RefCell::default(),
            memory_turn: Credits::new(env, 1),
            hides,
            by_uuid: RefCell::default(),
            next_volume: Cell::new(0),
            logs: logs::Logs::new(env),
            suspensions: suspended::Suspensions::new(env),
            waits_no_longer: Cell::new(false),
            own_writes: silent::OwnWrites::new(arrays),
        })
    }

    /// A number for a volume that is started; each is used once.
    fn new_volume_id(&self) -> VolumeId {
        let id = self.next_volume.get();
        self.next_volume.set(id + 1);
        VolumeId(id)
    }

    pub(crate) fn new_uuid(&self) -> Uuid {
        Uuid::from_random(self.env.random(), self.env.random())
    }

    /// Every array, by the name of its first volume.
    pub(crate) fn all(&self) -> Vec<Rc<Array>> {
        let mut arrays: Vec<Rc<Array>> = self.by_uuid.borrow().values().cloned().collect();
        arrays.sort_by_cached_key(|array| (array.name(), array.uuid));
        arrays
    }

    pub(crate) fn get(&self, array: Uuid) -> Option<Rc<Array>> {
        self.by_uuid.borrow().get(&array).cloned()
    }

    /// Takes in an array that was found or made.
    pub(crate) fn insert(&self, array: Rc<Array>) {
        self.by_uuid.borrow_mut().insert(array.uuid, array);
    }

    /// An array is gone: it is not looked for any more.
    pub(crate) fn remove(&self, array: Uuid) {
        self.by_uuid.borrow_mut().remove(&array);
        let inventory = self.inventory.clone();
        self.env.spawn("forget an array", async move {
            if let Err(error) = inventory.forget_array(array).await {
                tracing::warn!("{error}");
            }
        });
    }
}
