//! Read-ahead in virtual time, on modelled disks: the gain for one stream and for many, and the
//! cost for random reads.

use array::{Choices, assemble};
use engine::ReadTerms;
use layout::{Level, Shape};
use models::{Catalog, HostSpec, LinkShares, Prepared, Server, ServerSpec};
use platform::{Buf, Drive, Member};
use platform_sim::{Order, Rng, Sim, SimOptions};
use predict::parse_drives;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, DriveCount, StripSize};

const MIB: u64 = 1 << 20;
/// The memory of a shard: an eighth of a machine of 8 GiB.
const ROOM: ByteCount = ByteCount(1 << 30);
const AHEAD: ReadTerms = ReadTerms { read_ahead: true, cached: false, most_ahead: None };

/// The throughput of hosts of a volume, in MiB/s, with one outstanding read each. `next`: the next
/// read of a host, after its previous one.
fn read_by(
    (level, terms): (Level, ReadTerms),
    hosts: u64,
    len: ByteCount,
    next: impl Fn(u64, Option<ByteOffset>, &mut Rng) -> ByteOffset + Copy + 'static,
) -> f64 {
    const WARM_UP: Duration = Duration::from_secs(3);
    const MEASURED: Duration = Duration::from_secs(10);
    let catalog = Catalog::builtin();
    let spec = ServerSpec {
        controller: catalog.controller("HBA").expect("known").clone(),
        drives: parse_drives(catalog, "8xSavvio10K.2").expect("known"),
        log: Vec::new(),
        drive_cache: None,
        shares: LinkShares::IN_2016,
        prepared: Prepared { random_percent: 0 },
        host: HostSpec::INFINITELY_FAST,
        fast_path: None,
    };
    let memory = ByteCount(1 << 30);
    let mut sim =
        Sim::new(SimOptions { seed: 1, order: Order::Fifo, memory, ..SimOptions::default() });
    let (env, server) = (sim.env(), Server::new(&sim.handle(), &spec));
    let done = sim.run(async move {
        let strip = StripSize::new(ByteCount(64 << 10)).expect("a strip");
        let choices = Choices { reads: terms, read_room: ROOM, ..Choices::default() };
        let shape = Shape::new(level, DriveCount(8));
        let service =
            assemble(&env, &shape, strip, server.drives(), choices).await.expect("assembled");
        let (drive, bytes): (Rc<dyn Drive>, Rc<Cell<u64>>) =
            (server.host_port(&env, service), Rc::default());
        for host in 0..hosts {
            let (drive, bytes) = (Member::new(&env, drive.clone()), bytes.clone());
            env.spawn("host", read_on(drive, bytes, host, len, next));
        }
        env.sleep(WARM_UP).await;
        let before = bytes.get();
        env.sleep(MEASURED).await;
        (bytes.get() - before) as f64 / MIB as f64 / MEASURED.as_secs_f64()
    });
    done.expect("no stall")
}

async fn read_on(
    drive: Member,
    bytes: Rc<Cell<u64>>,
    host: u64,
    len: ByteCount,
    next: impl Fn(u64, Option<ByteOffset>, &mut Rng) -> ByteOffset,
) {
    let (mut rng, mut at) = (Rng::new(host, "host", ""), None);
    loop {
        let offset = next(host, at, &mut rng);
        at = Some(offset);
        let buffers = [Buf::hollow(len)].into_iter().collect();
        drive.read(offset, buffers).await.result.expect("readable");
        bytes.set(bytes.get() + len.0);
    }
}

/// The host with that number reads its own stream, 2 GiB after the previous one.
fn stream(host: u64, before: Option<ByteOffset>, _: &mut Rng) -> ByteOffset {
    before.map_or(ByteOffset(host << 31), |before| before + ByteCount(64 << 10))
}

fn random(_: u64, _: Option<ByteOffset>, rng: &mut Rng) -> ByteOffset {
    ByteOffset(rng.below((400 << 30) / 8192) * 8192)
}

/// Each block is requested after the previous one has arrived, so that one disk works at a time.
#[test]
fn a_stream_at_one_outstanding_has_all_disks_work() {
    let of = |terms| read_by((Level::Raid0, terms), 1, ByteCount(64 << 10), stream);
    let (ahead, not) = (of(AHEAD), of(ReadTerms::default()));
    println!(
        "one stream, RAID 0 of 8: {ahead:.0} MiB/s with read-ahead, {not:.0} without: {:.1}",
        ahead / not
    );
    assert!(ahead >= 3.0 * not, "{ahead} MiB/s with read-ahead, {not} without");
}

/// Streams at distant offsets make disks seek between them: read-ahead serves each for a while.
#[test]
fn many_streams_together_are_nearly_as_fast_as_one() {
    for level in [Level::Raid0, Level::Raid5] {
        let of = |streams, terms| read_by((level, terms), streams, ByteCount(64 << 10), stream);
        let (one, many, not) = (of(1, AHEAD), of(24, AHEAD), of(24, ReadTerms::default()));
        let ratio = many / one;
        println!(
            "{level} of 8: one stream {one:.0} MiB/s, 24 streams {many:.0} MiB/s: {ratio:.2}; \
                {not:.0} without read-ahead"
        );
        assert!(ratio >= 0.8, "{level}: {many} MiB/s of 24 streams, {one} of one");
    }
}

#[test]
fn reads_at_random_places_lose_nothing_by_read_ahead() {
    let of = |terms| read_by((Level::Raid5, terms), 32, ByteCount(8 << 10), random);
    let (ahead, not) = (of(AHEAD), of(ReadTerms::default()));
    println!(
        "8 KiB at random, 32 outstanding: {ahead:.2} MiB/s with read-ahead, {not:.2} without: \
            {:.3}",
        ahead / not
    );
    assert!(ahead >= 0.98 * not, "{ahead} MiB/s with read-ahead, {not} without");
}
