//! The module of arrays: **durability while an array is started**. It handles labels, marks,
//! journals, failures, the volumes that shards serve, and the reports of shards.
//!
//! **Owns** the arrays ([`Arrays`], each an [`array::Array`] with its volumes), the numbers of
//! volumes in shards, and the channels to the shards.
//!
//! **Invariants.** A failure and a mark are durable before they are confirmed. A label is on every
//! drive that it calls online before anything relies on it. A mark is cleared only after a flush.
//! Each file that writes to drives states its order, and the state after a crash at each step.
//! Changes of one array's labels and map are made under its `metadata` lock, one after the other;
//! no borrow is held over an await.
//!
//! **Callers**: every module above. It reaches modules above it only through its parameters:
//! [`Needs`] tells whether a volume is hidden from hosts, [`reports::TaskReports`] takes the
//! shards' reports of tasks, and [`Attention`] counts changes that other modules should examine.

pub(crate) mod array;
pub(crate) mod arriving;
pub(crate) mod bitmap_clearer;
pub(crate) mod cache;
mod cache_growth;
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

/// The interfaces that the module needs from others.
pub(crate) struct Needs {
    pub(crate) events: Rc<Events>,
    pub(crate) inventory: Rc<Inventory>,
    pub(crate) attention: Rc<Attention>,
    /// The channels to all shards, in order.
    pub(crate) shards: Vec<mailbox::Sender<ShardMessage>>,
    /// Connected hosts, as counted by ports.
    pub(crate) hosts: Hosts,
    /// The size of the write cache, of all shards together.
    pub(crate) cache_size: ByteCount,
    /// How much of it is reserved at a time for a shard; zero: all at once.
    pub(crate) cache_step: ByteCount,
    /// The size of the read cache, of all shards together.
    pub(crate) read_cache: ByteCount,
    /// Time limits of drives for an operation of a shard.
    pub(crate) limits: LimitsByClass,
    /// Whether a volume is hidden from hosts.
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
    cache_step: ByteCount,
    read_cache: ByteCount,
    limits: LimitsByClass,
    memory: RefCell<cache::Memory>,
    memories: RefCell<lost_memory::Memories>,
    protection: RefCell<protection::Protection>,
    /// The lock for creating the memory.
    memory_turn: Credits,
    hides: Box<dyn Fn(Uuid) -> bool>,
    by_uuid: RefCell<BTreeMap<Uuid, Rc<Array>>>,
    next_volume: Cell<u32>,
    logs: logs::Logs,
    suspensions: suspended::Suspensions,
    /// Whether unresponsive drives are not waited for, as the controller stops.
    waits_no_longer: Cell<bool>,
    /// The monitor of the controller's own writes to members.
    own_writes: Rc<silent::OwnWrites>,
}

impl Arrays {
    pub(crate) fn new(env: &Env, needs: Needs) -> Rc<Arrays> {
        let Needs {
            events,
            inventory,
            attention,
            shards,
            hosts,
            cache_size,
            cache_step,
            read_cache,
            limits,
            hides,
        } = needs;
        let room = ByteCount(read_cache.0 / shards.len().max(1) as u64);
        // A shard that has ended has no read cache.
        shards.iter().for_each(|shard| drop(shard.send(ShardMessage::ReadRoom(room))));
        Rc::new_cyclic(|arrays| Arrays {
            env: env.clone(),
            shards,
            events,
            inventory,
            attention,
            hosts,
            cache_size,
            cache_step,
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

    /// A unique number for a volume that is started; it is never reused.
    fn new_volume_id(&self) -> VolumeId {
        let id = self.next_volume.get();
        self.next_volume.set(id + 1);
        VolumeId(id)
    }

    pub(crate) fn new_uuid(&self) -> Uuid {
        Uuid::from_random(self.env.random(), self.env.random())
    }

    /// Every array, sorted by the name of its first volume.
    pub(crate) fn all(&self) -> Vec<Rc<Array>> {
        let mut arrays: Vec<Rc<Array>> = self.by_uuid.borrow().values().cloned().collect();
        arrays.sort_by_cached_key(|array| (array.name(), array.uuid));
        arrays
    }

    pub(crate) fn get(&self, array: Uuid) -> Option<Rc<Array>> {
        self.by_uuid.borrow().get(&array).cloned()
    }

    /// Adds an array that was found or created.
    pub(crate) fn insert(&self, array: Rc<Array>) {
        self.by_uuid.borrow_mut().insert(array.uuid, array);
    }

    /// Removes an array: it is not searched for any more.
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
