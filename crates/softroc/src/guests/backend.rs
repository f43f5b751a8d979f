//! The vhost-user backend of a guest's machine: starts, changes and stops its queues on shards.
//!
//! A queue runs while it has a kick event and is enabled. Any other change first stops it, so that
//! a shard never sees a partial change. Only the call event and the guest's memory may change while
//! it runs.

use super::memory::{Region, map, map_notes, new_notes};
use guests::{
    Disk, GuestMemory, GuestMessage, InFlight, LARGEST_QUEUE, Offered, QueueId, QueueStart,
    RingPlace, in_flight_bytes,
};
use platform::{Peer, mailbox};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use units::ByteCount;
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::GpuBackend;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVirtioFeatures,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, Result, VhostUserBackendReqHandlerMut};

/// How long a busy shard may take to accept the stop of a queue.
const PATIENCE: Duration = Duration::from_secs(60);

/// The largest number of queues of a disk.
const QUEUES: u16 = 256;

/// A queue, as configured by the machine.
#[derive(Default)]
struct Queue {
    size: u16,
    descriptors: u64,
    available: u64,
    used: u64,
    next_available: u16,
    kick: Option<OwnedFd>,
    call: Option<OwnedFd>,
    is_enabled: bool,
    /// Its number, while a shard serves it.
    running: Option<QueueId>,
}

/// The record of in-flight requests.
struct InFlightMemory {
    memory: Arc<GuestMemory>,
    queues: u16,
    queue_size: u16,
}

/// A connected machine.
pub(super) struct Backend {
    offered: Offered,
    peer: Peer,
    shards: Vec<mailbox::Sender<GuestMessage>>,
    features: u64,
    memory: Option<Arc<GuestMemory>>,
    regions: Vec<Region>,
    queues: Vec<Queue>,
    notes: Option<InFlightMemory>,
}

impl Backend {
    pub(super) fn new(
        offered: &Offered,
        peer: &Peer,
        shards: &[mailbox::Sender<GuestMessage>],
    ) -> Backend {
        Backend {
            offered: offered.clone(),
            peer: peer.clone(),
            shards: shards.to_vec(),
            features: 0,
            memory: None,
            regions: Vec::new(),
            queues: (0..QUEUES).map(|_| Queue::default()).collect(),
            notes: None,
        }
    }

    fn queue(&mut self, index: u32) -> Result<&mut Queue> {
        self.queues.get_mut(index as usize).ok_or(Error::InvalidParam)
    }

    fn tell(&self, index: usize, message: GuestMessage) -> Result<()> {
        let shard = (self.offered.target as usize).wrapping_add(index) % self.shards.len();
        self.shards[shard].send(message).map_err(|_| Error::BackendInternalError)
    }

    /// Starts the queue on a shard, if it is completely configured and not running.
    fn start(&mut self, index: usize) -> Result<()> {
        let (Some(memory), queue) = (self.memory.clone(), &self.queues[index]) else {
            return Ok(());
        };
        let Some(kick) = &queue.kick else { return Ok(()) };
        if queue.running.is_some() || !queue.is_enabled {
            return Ok(());
        }
        let id = QueueId::new();
        let event = |file: &OwnedFd| {
            let file = file.try_clone().map_err(Error::SocketError)?;
            Ok::<_, Error>(platform_linux::event_stream(file, self.peer.clone()))
        };
        let start = QueueStart {
            queue: id,
            target: self.offered.target,
            peer: self.peer.clone(),
            disk: self.offered.disk,
            negotiated: Disk::negotiated(self.features),
            memory,
            ring: RingPlace {
                size: queue.size,
                descriptors: queue.descriptors,
                available: queue.available,
                used: queue.used,
                next_available: queue.next_available,
            },
            in_flight: self.notes_of(index, queue.size),
            kick: event(kick)?,
            call: queue.call.as_ref().map(event).transpose()?,
        };
        self.tell(index, GuestMessage::Start(Box::new(start)))?;
        self.queues[index].running = Some(id);
        Ok(())
    }

    fn notes_of(&self, index: usize, size: u16) -> Option<InFlight> {
        let notes = self.notes.as_ref()?;
        let has_room = index < notes.queues.into() && size <= notes.queue_size;
        let base = ByteCount(in_flight_bytes(notes.queue_size).0 * index as u64);
        has_room.then(|| InFlight::new(notes.memory.clone(), base, size))
    }

    /// Stops the queue; returns when all taken requests are complete.
    fn stop(&mut self, index: usize) {
        if let Some(told) = self.begin_to_stop(index) {
            self.has_stopped(index, &told);
        }
    }

    fn begin_to_stop(&mut self, index: usize) -> Option<mpsc::Receiver<u16>> {
        let id = self.queues[index].running.take()?;
        let (tell, told) = mpsc::channel();
        let until = Instant::now() + PATIENCE;
        // The next machine must not be served before this stop: retry while the shard is busy.
        while self.tell(index, GuestMessage::Stop(id, tell.clone())).is_err() {
            if Instant::now() > until {
                tracing::error!(
                    "a thread of SoftROC does not accept the message that stops a virtual \
                     machine's queue; the queue stays active"
                );
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(told)
    }

    fn has_stopped(&mut self, index: usize, told: &mpsc::Receiver<u16>) {
        // No reply comes for a queue that could not be served: its position is unchanged.
        if let Ok(next) = told.recv() {
            self.queues[index].next_available = next;
        }
    }

    /// Stops every queue.
    pub(super) fn stop_all(&mut self) {
        let stopping: Vec<_> = (0..self.queues.len())
            .filter_map(|index| Some((index, self.begin_to_stop(index)?)))
            .collect();
        stopping.into_iter().for_each(|(index, told)| self.has_stopped(index, &told));
    }

    fn set_memory(&mut self, memory: Arc<GuestMemory>, regions: Vec<Region>) -> Result<()> {
        self.regions = regions;
        self.memory = Some(memory.clone());
        for index in 0..self.queues.len() {
            if let Some(id) = self.queues[index].running {
                self.tell(index, GuestMessage::Memory(id, memory.clone()))?;
            }
            self.start(index)?;
        }
        Ok(())
    }

    fn guest_address(&self, address: u64) -> Result<u64> {
        self.regions
            .iter()
            .find_map(|region| region.guest_address(address))
            .ok_or(Error::InvalidParam)
    }
}

fn nothing_of_the_kind<T>() -> Result<T> {
    Err(Error::InvalidOperation("not offered"))
}

impl VhostUserBackendReqHandlerMut for Backend {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.stop_all();
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        nothing_of_the_kind()
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.offered.disk.features() | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.get_features()? != 0 {
            return Err(Error::FeatureMismatch);
        }
        self.features = features;
        if features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() == 0 {
            // Queues of a machine without the enable message are enabled.
            self.queues.iter_mut().for_each(|queue| queue.is_enabled = true);
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        let (memory, regions) = map(regions, files).map_err(Error::ReqHandlerError)?;
        self.set_memory(memory, regions)?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let size = u16::try_from(num).ok().filter(|size| *size <= LARGEST_QUEUE);
        self.queue(index)?.size = size.ok_or(Error::InvalidParam)?;
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let (descriptors, used) = (self.guest_address(descriptor)?, self.guest_address(used)?);
        let available = self.guest_address(available)?;
        let queue = self.queue(index)?;
        if queue.running.is_some() {
            // The address is sent again when a migration starts to log writes, which is not
            // offered.
            return match (queue.descriptors, queue.used, queue.available)
                == (descriptors, used, available)
            {
                true => Ok(()),
                false => Err(Error::InvalidOperation("the queue is running")),
            };
        }
        (queue.descriptors, queue.used, queue.available) = (descriptors, used, available);
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.stop(self.index(index)?);
        self.queue(index)?.next_available = base as u16;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let at = self.index(index)?;
        self.stop(at);
        let queue = &mut self.queues[at];
        // The next kick event starts it.
        queue.kick = None;
        Ok(VhostUserVringState::new(index, queue.next_available.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let at = self.index(index.into())?;
        self.stop(at);
        self.queues[at].kick = file.map(OwnedFd::from);
        self.start(at)
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let at = self.index(index.into())?;
        let call = file.map(OwnedFd::from);
        if let Some(id) = self.queues[at].running {
            let own =
                call.as_ref().map(OwnedFd::try_clone).transpose().map_err(Error::SocketError)?;
            let event = own.map(|file| platform_linux::event_stream(file, self.peer.clone()));
            self.tell(at, GuestMessage::Call(id, event))?;
        }
        self.queues[at].call = call;
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, _: Option<File>) -> Result<()> {
        // Errors of a queue are in the log.
        self.index(index.into()).map(|_| ())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        use VhostUserProtocolFeatures as Feature;
        Ok(Feature::MQ | Feature::CONFIG | Feature::INFLIGHT_SHMFD)
    }

    fn set_protocol_features(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(QUEUES.into())
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        let at = self.index(index)?;
        if !enable {
            self.stop(at);
        }
        self.queues[at].is_enabled = enable;
        self.start(at)
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        self.offered.disk.config(QUEUES, offset as usize, size as usize).ok_or(Error::InvalidParam)
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        nothing_of_the_kind()
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        nothing_of_the_kind()
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        nothing_of_the_kind()
    }

    fn get_inflight_fd(&mut self, asked: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (queues, size) = (asked.num_queues, asked.queue_size);
        if queues == 0 || queues > QUEUES || size > LARGEST_QUEUE {
            return Err(Error::InvalidParam);
        }
        let len = in_flight_bytes(size).0 * u64::from(queues);
        let file = new_notes(len).map_err(Error::ReqHandlerError)?;
        Ok((VhostUserInflight::new(len, 0, queues, size), file))
    }

    fn set_inflight_fd(&mut self, given: &VhostUserInflight, file: File) -> Result<()> {
        let (queues, queue_size) = (given.num_queues, given.queue_size);
        let needed = in_flight_bytes(queue_size).0 * u64::from(queues);
        if queues > QUEUES || queue_size > LARGEST_QUEUE || given.mmap_size < needed {
            return Err(Error::InvalidParam);
        }
        let memory =
            map_notes(file, given.mmap_offset, given.mmap_size).map_err(Error::ReqHandlerError)?;
        self.stop_all();
        self.notes = Some(InFlightMemory { memory, queues, queue_size });
        (0..self.queues.len()).try_for_each(|index| self.start(index))
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        nothing_of_the_kind()
    }

    fn add_mem_region(
        &mut self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        nothing_of_the_kind()
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        nothing_of_the_kind()
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        nothing_of_the_kind()
    }

    fn check_device_state(&mut self) -> Result<()> {
        nothing_of_the_kind()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        nothing_of_the_kind()
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        nothing_of_the_kind()
    }
}

impl Backend {
    fn index(&self, index: u32) -> Result<usize> {
        let at = index as usize;
        if at < self.queues.len() { Ok(at) } else { Err(Error::InvalidParam) }
    }
}
