//! Requests to the volume: many at the same time, on every shard, of awkward sizes at awkward places.

use crate::error::{Error, ErrorKind, Result};
use crate::oracle::Issued;
use crate::scene::Scene;
use crate::stamp::{self, Sector};
use engine::Volume;
use env::{Buf, Durability, Instant, Slice, mailbox};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};
use world_sim::Rng;

/// What the workers of a life share.
struct Shared {
    left: Cell<u64>,
    /// Nobody begins anything before: then lanes get quiet, and their marks are cleared.
    lull_at: Cell<u64>,
    lull_until: Cell<Instant>,
    failed: Cell<bool>,
}

/// Sends `ops` requests; `volumes` are the volume's handles on each shard. Done when all have returned.
///
/// # Errors
/// The first broken promise.
pub async fn run(scene: Rc<Scene>, volumes: Vec<Rc<Volume>>, ops: u64, name: &str) -> Result<()> {
    let mut rng = Rng::new(scene.setup.seed, "workload", name);
    let env = volumes[0].shard().env().clone();
    let shared = Rc::new(Shared {
        left: Cell::new(ops),
        lull_at: Cell::new(if rng.chance(1, 3) { rng.below(ops.max(1)) } else { u64::MAX }),
        lull_until: Cell::default(),
        failed: Cell::new(false),
    });
    let workers = scene.setup.workers;
    let (finished, mut results) = mailbox::mailbox(&env, workers as usize);
    for number in 0..workers {
        let volume = volumes[number as usize % volumes.len()].clone();
        let rng = Rng::new(scene.setup.seed, "worker", &format!("{name}.{number}"));
        let worker = Worker { scene: scene.clone(), shared: shared.clone(), volume: volume.clone(), rng };
        let finished = finished.clone();
        volume.shard().env().spawn("worker", async move {
            let result = worker.run().await;
            // The receiver waits for every worker.
            assert!(finished.send(result).is_ok(), "somebody waits for the workers");
        });
    }
    drop(finished);
    let mut result = Ok(());
    while let Some(one) = results.receive().await {
        result = result.and(one);
    }
    result
}

struct Worker {
    scene: Rc<Scene>,
    shared: Rc<Shared>,
    volume: Rc<Volume>,
    rng: Rng,
}

impl Worker {
    async fn run(mut self) -> Result<()> {
        let env = self.volume.shard().env().clone();
        loop {
            let left = self.shared.left.get();
            if left == 0 || self.shared.failed.get() {
                return Ok(());
            }
            self.shared.left.set(left - 1);
            if left == self.shared.lull_at.get() {
                self.shared.lull_until.set(env.now() + Duration::from_secs(self.rng.between(4, 15)));
            }
            env.sleep_until(self.shared.lull_until.get()).await;
            if self.rng.chance(1, 4) {
                env.sleep(Duration::from_micros(self.rng.between(1, 2000))).await;
            }
            self.scene.count(|tally| tally.ops += 1);
            let result = self.one().await;
            if result.is_err() {
                self.shared.failed.set(true);
                return result;
            }
        }
    }

    async fn one(&mut self) -> Result<()> {
        match self.rng.below(100) {
            0..=29 => self.read().await,
            30..=61 => self.write().await,
            62..=73 => self.write_bytes().await,
            74..=81 => self.write_zeroes().await,
            82..=89 => self.trim().await,
            _ => flush(&self.scene, &self.volume).await,
        }
    }

    fn sector(&self) -> u64 {
        self.scene.setup.sector().bytes().0
    }

    /// A run of sectors: mostly short, and often where others are.
    fn sectors(&mut self) -> (Sector, u64) {
        let sector = self.sector();
        let zones = &self.scene.setup.zones;
        let zone = zones[self.rng.below(zones.len() as u64) as usize];
        let (zone_first, zone_sectors) = (zone.start.0 / sector, zone.len.0 / sector);
        let strip = self.scene.setup.strip.bytes().0 / sector;
        let stripe = self.scene.setup.geometry.stripe_bytes().0 / sector;
        let count = match self.rng.below(16) {
            0..=8 => self.rng.between(1, 8),
            9..=11 => self.rng.between(1, strip * 2),
            12 => stripe,
            13 => self.rng.between(1, stripe * 3),
            14 => strip,
            _ => self.rng.between(1, zone_sectors / 2),
        };
        // Half a mebibyte at most: the smallest memory of a shard holds some of these.
        let count = count.min(zone_sectors).min((512 << 10) / sector);
        let room = zone_sectors - count + 1;
        let at = match self.rng.below(4) {
            0 => self.rng.below(room.min(24)),
            1 => (self.rng.below(room) / stripe * stripe).min(room - 1),
            2 => (self.rng.below(room) / strip * strip).min(room - 1),
            _ => self.rng.below(room),
        };
        (Sector(zone_first + at), count)
    }

    fn range(&self, first: Sector, count: u64) -> ByteRange {
        let sector = self.sector();
        ByteRange::new(ByteOffset(first.0 * sector), ByteCount(count * sector))
    }

    /// Any bytes among those sectors.
    fn bytes_of(&mut self, first: Sector, count: u64) -> ByteRange {
        let range = self.range(first, count);
        let skip = self.rng.below(range.len.0);
        ByteRange::new(range.start + ByteCount(skip), ByteCount(self.rng.between(1, range.len.0 - skip)))
    }

    async fn read(&mut self) -> Result<()> {
        let (first, count) = self.sectors();
        let range =
            if self.rng.chance(1, 4) { self.bytes_of(first, count) } else { self.range(first, count) };
        read(&self.scene, &self.volume, range).await
    }

    fn durability(&mut self) -> Durability {
        if self.rng.chance(1, 4) { Durability::Durable } else { Durability::Cached }
    }

    async fn write(&mut self) -> Result<()> {
        let (first, count) = self.sectors();
        if !self.scene.oracle.borrow().may_write(first, count) {
            return Ok(());
        }
        let durability = self.durability();
        let issued = self.scene.oracle.borrow_mut().write(first, count);
        let sector = self.sector() as usize;
        let mut bytes = vec![0; sector * count as usize];
        for (index, bytes) in bytes.chunks_exact_mut(sector).enumerate() {
            stamp::fill(bytes, Sector(first.0 + index as u64), issued.generation);
        }
        self.send(issued, self.range(first, count), bytes, durability).await
    }

    async fn write_bytes(&mut self) -> Result<()> {
        let (first, count) = self.sectors();
        let range = self.bytes_of(first, count);
        let durability = self.durability();
        let issued = self.scene.oracle.borrow_mut().write_bytes(range);
        match issued {
            Some((issued, bytes)) => self.send(issued, range, bytes, durability).await,
            None => Ok(()),
        }
    }

    async fn send(
        &self,
        issued: Issued,
        range: ByteRange,
        bytes: Vec<u8>,
        durability: Durability,
    ) -> Result<()> {
        let shard = self.volume.shard();
        let _payload = shard.reserve_payload(range.len).await;
        let mut buf = take(&self.volume, range.len)?;
        buf.bytes_mut().copy_from_slice(&bytes);
        let name = format!("write {}", issued.generation.0);
        self.tell(&name, range, durability);
        let result = self.volume.write(range, buf.freeze(), durability).await;
        self.end(&name, issued, range, durability, result)
    }

    async fn write_zeroes(&mut self) -> Result<()> {
        let (first, count) = self.sectors();
        if !self.scene.oracle.borrow().may_write(first, count) {
            return Ok(());
        }
        let (range, durability) = (self.range(first, count), self.durability());
        let issued = self.scene.oracle.borrow_mut().write_zeroes(first, count);
        let name = format!("write {} of zeroes", issued.generation.0);
        self.tell(&name, range, durability);
        let result = match self.rng.chance(1, 2) {
            true => self.volume.write_zeroes(range, durability).await,
            false => self.volume.write(range, Slice::zero(range.len), durability).await,
        };
        self.end(&name, issued, range, durability, result)
    }

    async fn trim(&mut self) -> Result<()> {
        let (first, count) = self.sectors();
        if !self.scene.oracle.borrow().may_write(first, count) {
            return Ok(());
        }
        let range = self.range(first, count);
        let issued = self.scene.oracle.borrow_mut().trim(first, count);
        let name = format!("trim {}", issued.generation.0);
        self.tell(&name, range, Durability::Cached);
        let result = self.volume.trim(range).await;
        self.end(&name, issued, range, Durability::Cached, result)
    }

    fn tell(&self, name: &str, range: ByteRange, durability: Durability) {
        let shard = self.volume.shard().index().0;
        self.scene.tell(|| {
            let durable = if durability == Durability::Durable { ", durable" } else { "" };
            format!("shard {shard}: {name} to {}{durable} ...", self.name_of(range))
        });
    }

    fn name_of(&self, range: ByteRange) -> String {
        let sector = self.sector();
        let (first, last) = (range.start.0 / sector, (range.end().0 - 1) / sector);
        let parts = if range.is_aligned(ByteCount(sector)) { "" } else { " in part" };
        if first == last {
            format!("sector {first}{parts}")
        } else {
            format!("sectors {first} to {last}{parts}")
        }
    }

    fn end(
        &self,
        name: &str,
        issued: Issued,
        range: ByteRange,
        durability: Durability,
        result: std::result::Result<(), env::IoError>,
    ) -> Result<()> {
        self.scene.note_write(range);
        match result {
            Ok(()) => {
                self.scene.tell(|| format!("{name} is acknowledged"));
                self.scene.oracle.borrow_mut().acknowledge(&issued, durability == Durability::Durable);
                Ok(())
            }
            Err(error) => {
                self.scene.oracle.borrow_mut().fail(&issued);
                self.scene.judge_error(name, range, error)
            }
        }
    }
}

fn take(volume: &Volume, len: ByteCount) -> Result<Buf> {
    volume.shard().env().pool().take(len).ok_or_else(|| {
        let text = format!("there is no memory for a payload of {len} that was reserved");
        Error::new(ErrorKind::NeedlessError, text)
    })
}

/// Reads a range and checks every sector of it.
///
/// # Errors
/// When some sector holds what it may not, or the read fails without need.
pub async fn read(scene: &Scene, volume: &Rc<Volume>, range: ByteRange) -> Result<()> {
    let _payload = volume.shard().reserve_payload(range.len).await;
    let buf = take(volume, range.len)?;
    let begun = scene.oracle.borrow_mut().begin_read();
    let (result, buf) = volume.read(range, buf).await;
    match (result, buf) {
        (Ok(()), Some(buf)) => {
            let checked = scene.oracle.borrow_mut().check(begun, range.start, buf.bytes());
            checked.map_err(|violation| scene.wrong_data("a read", &violation))
        }
        (Ok(()), None) => {
            Err(Error::new(ErrorKind::NeedlessError, format!("a read of {range:?} kept its buffer")))
        }
        (Err(error), _) => {
            scene.oracle.borrow_mut().abandon_read(begun);
            scene.judge_error("a read", range, error)
        }
    }
}

/// Flushes.
///
/// # Errors
/// When it fails without need.
pub async fn flush(scene: &Scene, volume: &Rc<Volume>) -> Result<()> {
    let begun = scene.oracle.borrow_mut().begin_flush();
    let settled = scene.settled();
    match volume.flush().await {
        Ok(()) => {
            scene.oracle.borrow_mut().acknowledge_flush(begun);
            scene.flushed(&settled);
            scene.tell(|| "a flush is acknowledged".to_owned());
            Ok(())
        }
        Err(error) => scene.judge_error("a flush", ByteRange::default(), error),
    }
}
