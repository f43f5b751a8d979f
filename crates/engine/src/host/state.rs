//! The state of a volume as one shard serves it to hosts, and of its requests that no task waits
//! for. The methods are in [`volume`](crate::host::volume) and
//! [`taskless`](crate::host::taskless).

use crate::attachment::ToldSectors;
use crate::cache::Cache;
use crate::host::ahead::ReadingAhead;
use crate::host::direct::{Direct, Spare};
use crate::host::stripe_write::StripeWrite;
use crate::host::{Exchange, Moving};
use crate::members::User;
use crate::shard::HostMeter;
use platform::{Receiver, Timed, TrafficRow};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Deref;
use std::rc::Rc;

/// A volume on one shard. It dereferences to the layers below: [`Cache`],
/// [`Recovery`](crate::recovery::Recovery), [`Stripes`](crate::stripe::Stripes),
/// [`Drives`](crate::members::Drives).
pub struct Volume {
    pub(super) cache: Rc<Cache>,
    pub(super) exchange: Rc<Exchange>,
    /// Whether it is hidden from hosts.
    pub(super) hidden: Cell<bool>,
    /// The sectors advertised to hosts.
    pub(super) told: ToldSectors,
    /// The number of host requests on this shard.
    pub(super) requests: Cell<u64>,
    /// Counters of these, by operation.
    pub(super) traffic: TrafficRow,
    /// Their durations while tasks run.
    pub(super) meter: Rc<HostMeter>,
    pub(super) ahead: ReadingAhead,
    pub(super) taskless: Rc<Taskless>,
    /// The other side, once it is reshaping.
    pub(super) moving: RefCell<Option<Rc<Moving>>>,
}

impl Deref for Volume {
    type Target = Rc<Cache>;

    fn deref(&self) -> &Rc<Cache> {
        &self.cache
    }
}

/// A host's request in progress: a user of its volume.
pub(super) struct Entered {
    pub(super) user: User,
    pub(super) timed: Option<Timed>,
}

/// A request, mapped or planned.
pub(super) enum Begun {
    Direct(Box<Direct>),
    Stripe(Box<StripeWrite>),
}

/// A request that waits for its drives.
pub(super) struct UnderWay {
    pub(super) volume: Rc<Volume>,
    pub(super) begun: Begun,
    /// `None`: its caller has entered the volume.
    pub(super) entered: Option<Entered>,
    pub(super) receiver: Receiver,
    /// Its operations are being started: the starter continues it.
    pub(super) is_starting: bool,
}

/// The requests of a volume that no task waits for, by their places.
#[derive(Default)]
pub(super) struct Taskless {
    pub(super) spare: Spare,
    pub(super) under_way: RefCell<Slab<UnderWay>>,
    /// Requests whose operations have returned and that need further ones: a task takes them.
    /// `None`: there is no such task.
    pub(super) waiting: RefCell<Option<VecDeque<u32>>>,
}
